"""Whether a job's paths in HDFS can be read and written, found out before it asks for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

import requests

from submarine_engine.clusters.yarn.foreign import at, number, told
from submarine_engine.clusters.yarn.limits import Problem, raise_problems
from submarine_engine.clusters.yarn.namenodes import name_nodes
from submarine_engine.clusters.yarn.rest import new_session
from submarine_engine.errors import ClusterError, SubmissionError, UnsupportedError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.job import JobSpec

_TIMEOUT = (3.0, 10.0)
_QUOTAS = (("spaceConsumed", "spaceQuota", "bytes"), ("fileAndDirectoryCount", "quota", "names"))
_READ, _READ_FOLDER, _CHANGE = "r--", "r-x", "-wx"


def check_paths(spec: JobSpec, conf: HadoopConf) -> None:
    """Refuse an input that cannot be read and a checkpoint folder that cannot be written.

    Only paths in this cluster's own HDFS (``hdfs://…``) are looked at: what others mean is known
    to the job's own code alone.

    Raises
    ------
    SubmissionError
        With HDFS's own words, or the figures of a quota that is used up.
    ClusterError
        HDFS does not answer.
    """
    raise_problems(list(path_problems(spec, conf)))


def path_problems(spec: JobSpec, conf: HadoopConf) -> Iterator[Problem]:
    """Yield what is wrong with them; raises `ClusterError` as `check_paths` does."""
    source, target = (_of_this_hdfs(path, conf) for path in (spec.input_path, spec.checkpoint_path))
    if source is None and target is None:
        return
    with new_session(conf) as session:
        files = _Files(conf, session)
        if source is not None:
            yield from _readable(files, source)
        if target is not None:
            yield from _writable(files, target)


def storage_problem(conf: HadoopConf) -> Problem | None:
    """Return what keeps skein from sending a job's files; None where nothing does.

    skein 0.8.2 asks whether two file systems are one by their hosts' names, and fails where neither
    has a host (``Utils.equalFs``).
    """
    if conf.default_fs.partition(":")[0] != "file":
        return None
    return Problem(
        UnsupportedError,
        f"fs.defaultFS is {conf.default_fs}, and skein can send files to one with a host alone",
        str(conf.folder / "core-site.xml"),
        "name the cluster's file system there, such as hdfs://host:8020",
    )


def _of_this_hdfs(path: str | None, conf: HadoopConf) -> PurePosixPath | None:
    if path is None:
        return None
    try:
        parts, ours = urlsplit(path), urlsplit(conf.default_fs)
    except ValueError:
        return None
    if parts.scheme != "hdfs" or ours.scheme != "hdfs" or parts.netloc not in ("", ours.netloc):
        return None
    return PurePosixPath("/" + unquote(parts.path).strip("/"))


def _readable(files: _Files, path: PurePosixPath) -> Iterator[Problem]:
    where = "--input_path"
    found, words = files.ask("GETFILESTATUS", path)
    if found is None:
        what = f"{path} cannot be read: {words}"
        yield Problem(SubmissionError, what, where, "check the path: hdfs dfs -ls")
        return
    kind = at(found, "FileStatus", "type")
    action = _READ_FOLDER if kind == "DIRECTORY" else _READ
    allowed, words = files.ask("CHECKACCESS", path, fsaction=action)
    if allowed is None:
        what = f"{path} cannot be read: {words}"
        yield Problem(SubmissionError, what, where, "ask its owner for access")


def _writable(files: _Files, path: PurePosixPath) -> Iterator[Problem]:
    where, there = "--checkpoint_path", path
    found, words = files.ask("GETFILESTATUS", there)
    while found is None and there != there.parent:  # it will be made
        there = there.parent
        found, words = files.ask("GETFILESTATUS", there)
    if found is None:
        yield Problem(
            SubmissionError, f"{path} cannot be looked at: {words}", where, "see hdfs dfs"
        )
        return
    if at(found, "FileStatus", "type") != "DIRECTORY":
        yield Problem(SubmissionError, f"{there} is a file", where, "name a folder")
        return
    allowed, words = files.ask("CHECKACCESS", there, fsaction=_CHANGE)
    if allowed is None:
        what = f"{path} cannot be written: {words}"
        yield Problem(SubmissionError, what, where, "give a folder that you may write")
        return
    usage, _ = files.ask("GETQUOTAUSAGE", there)
    for used, most, unit in _QUOTAS:
        held = number(at(usage, "QuotaUsage", used))
        limit = number(at(usage, "QuotaUsage", most), -1)
        if 0 < limit <= held:
            what = f"the quota of {there} is used up: {held} of {limit} {unit}"
            fix = "remove what you no longer need (hdfs dfs -du -h), or have the quota raised"
            yield Problem(SubmissionError, what, where, fix)


class _Files:
    """WebHDFS questions that change nothing, to whichever NameNode is active."""

    def __init__(self, conf: HadoopConf, session: requests.Session) -> None:
        self._conf = conf
        self._nodes = name_nodes(conf)
        self._session = session

    def ask(self, op: str, path: PurePosixPath, **query: str) -> tuple[Any, str]:
        """Return the answer, ``{}`` for an empty one; or None, and HDFS's words why not."""
        pars = {"op": op, **query}
        if not self._conf.kerberos:
            pars["user.name"] = self._conf.user
        problem = "none is configured"
        for node in self._nodes:
            url = f"{node.url}/webhdfs/v1{quote(str(path))}"
            try:
                answer = self._session.get(url, params=pars, timeout=_TIMEOUT)
                document = answer.json() if answer.content else {}
            except (requests.RequestException, ValueError) as error:
                problem = told(error, 200)
                continue
            if at(document, "RemoteException", "exception") == "StandbyException":
                problem = f"{node} is standby"
                continue
            if answer.ok:
                return document, ""
            words = told(at(document, "RemoteException", "message"), 300)
            return None, words or f"HDFS refuses ({answer.status_code})"
        raise ClusterError(
            f"no NameNode answers: {problem}",
            where=self._conf.default_fs,
            fix="see `submarine doctor --cluster yarn`",
        )
