"""What a cluster would refuse or never grant, said before anything is asked of it.

Queues and their rights, limits of the ResourceManager, and whether a job's paths in HDFS can be
read and written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

import requests

from submarine_engine.clusters.environment import file_address, refuse_reserved
from submarine_engine.clusters.yarn.hadoop_json import (
    GPU,
    MEMORY,
    VCORES,
    at,
    clean_line,
    in_words,
    number,
    plus,
    some,
)
from submarine_engine.clusters.yarn.hdfs import name_nodes
from submarine_engine.clusters.yarn.options import read_viewers
from submarine_engine.clusters.yarn.rest import new_session
from submarine_engine.clusters.yarn.scheduler import (
    DEFAULT,
    Node,
    Queue,
    Scheduler,
    largest,
    none_up,
    read_nodes,
    read_scheduler,
    with_label,
)
from submarine_engine.errors import ClusterError, ResourcesError, SubmissionError, UnsupportedError
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.tensorboard.board import check_installed

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.rest import ResourceManager


# Whether the user may submit to a queue.


def queue_refusal(rm: ResourceManager, conf: HadoopConf, queue: Queue) -> str:
    """Return in words that the user may not submit to `queue`; empty where that is not certain.

    The ResourceManager answers those who administer the queue. For all others its access lists
    are read, as far as one can without knowing the groups that it counts a user to.

    Parameters
    ----------
    rm
        The ResourceManager.
    conf
        Hadoop's configuration.
    queue
        Which queue.
    """
    user = conf.user
    query = {"user": user, "queue-acl-type": "SUBMIT_APPLICATIONS"}
    try:
        answer: object = rm.get(
            f"/ws/v1/cluster/queues/{quote(queue.path, safe='')}/access", **query
        )
    except ClusterError:
        answer = None
    allowed = str(at(answer, "allowed")).lower()
    if allowed == "false":
        words = clean_line(at(answer, "diagnostics"))
        return f"{user} may not submit to queue {queue.path}; the ResourceManager says: {words}"
    if allowed == "true" or not conf.is_true("yarn.acl.enable"):
        return ""
    if not queue.acls or any(queue_admits(acl, user) for acl in queue.acls):
        return ""
    lists = ", ".join(sorted({repr(acl.strip()) for acl in queue.acls if acl.strip()})) or "nobody"
    return (
        f"{user} may not submit to queue {queue.path}: its access lists admit {clean_line(lists)}"
    )


def queue_admits(acl: str, user: str) -> bool:
    """Whether the access list `acl` (``user,user group,group``) may admit `user`; groups may."""
    if "*" in acl:
        return True
    users, _, groups = acl.partition(" ")
    return user in users.split(",") or bool(groups.strip())


# What a cluster can never grant, by the figures of its ResourceManager.


MEMORY_DEFAULT = 2048
MASTER_MEMORY = 256

_GPU_FIX = (
    "let the administrator name yarn.io/gpu in resource-types.xml and in "
    "yarn.nodemanager.resource-plugins, and choose the DominantResourceCalculator; or ask for "
    "--gpus 0"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why the job cannot run; `kind` is the error that it is alone."""

    kind: type[SubmissionError]
    what: str
    where: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What the ResourceManager told; `label` is the node label that the job asks for."""

    scheduler: Scheduler
    nodes: tuple[Node, ...]
    label: str = ""

    @property
    def usable(self) -> tuple[Node, ...]:
        """The nodes that may take the job's containers."""
        return with_label(self.nodes, self.label)

    @property
    def total(self) -> dict[str, int]:
        """What these have in all."""
        total: dict[str, int] = {}
        for node in self.usable:
            total = plus(total, node.total)
        return total

    def most(self, queue: Queue | None) -> Mapping[str, int] | None:
        """Return what the queue may hold of them; None where the scheduler does not tell."""
        if queue is None:
            return None
        return queue.partitions.get(self.label) if self.label else queue.most


def raise_problems(problems: list[Problem]) -> None:
    """Raise one error that tells all `problems`, of the kind of the first; nothing for none."""
    if not problems:
        return
    first = problems[0]
    if len(problems) == 1:
        raise first.kind(first.what, where=first.where, fix=first.fix)
    lines = "".join(f"\n  · {one.where}: {one.what}" for one in problems)
    fixes = dict.fromkeys(one.fix for one in problems if one.fix)
    raise first.kind(
        f"the job cannot run, for {len(problems)} reasons:{lines}",
        where="YARN cluster",
        fix="; ".join(fixes),
    )


def check_resources(spec: JobSpec, queue: Queue | None, found: ClusterView) -> Iterator[Problem]:
    """Yield what the cluster can never grant, `spec` having all its numbers.

    Parameters
    ----------
    spec
        The job.
    queue
        Its queue; None where that is not known.
    found
        What the ResourceManager says of the cluster.
    """
    if not found.usable:
        label = f" and has the label {found.label!r}" if found.label else ""
        what = none_up(found.nodes) if not label else f"no node takes containers{label}"
        yield Problem(ResourcesError, what, "YARN cluster", "see `submarine doctor --cluster yarn`")
        return
    if spec.gpus and not any(GPU in node.total for node in found.nodes):
        what = f"the job asks for {some(GPU, spec.gpus)}, the scheduler accounts no GPUs"
        yield Problem(ResourcesError, what, "YARN cluster", _GPU_FIX)
        return
    total: dict[str, int] = {MEMORY: MASTER_MEMORY, VCORES: 1}
    limit = (queue.largest if queue else None) or {}
    said: set[str] = set()
    for role in spec.roles:
        each = _each(role)
        total = plus(total, each, role.count)
        said.update(_over(each, limit))
        yield from _container(role, each, limit, found)
    for there, whose in _limits(queue, found):
        for name in (name for name in (GPU, MEMORY, VCORES) if name not in said):
            if total.get(name, 0) > there.get(name, total.get(name, 0)):
                yield Problem(
                    ResourcesError,
                    f"the job asks for {some(name, total[name])} in all"
                    f"{'' if name == GPU else ', its application master among them'}; "
                    f"{whose} {some(name, there[name])} at most",
                    "YARN cluster",
                    "ask for fewer or smaller containers, or choose another queue",
                )


def _limits(queue: Queue | None, found: ClusterView) -> Iterator[tuple[Mapping[str, int], str]]:
    most = found.most(queue)
    if queue is not None and most:
        yield most, f"queue {queue.path} may hold"
    if not most or any(most.get(name, 0) > value for name, value in found.total.items()):
        yield found.total, "the nodes that take containers have"


def _each(role: Role) -> dict[str, int]:
    asked = role.resources
    wanted = {MEMORY: asked.memory or MEMORY_DEFAULT, VCORES: asked.vcores or 1}
    return {GPU: asked.gpus, **wanted} if asked.gpus else wanted


def _over(each: Mapping[str, int], limit: Mapping[str, int]) -> list[str]:
    return [name for name, value in each.items() if value > limit.get(name, value)]


def _container(
    role: Role, each: Mapping[str, int], limit: Mapping[str, int], found: ClusterView
) -> Iterator[Problem]:
    """Check one container of a role, and that all of them find a node."""
    where = f"role {role.name}"
    over = _over(each, limit)
    for name in over:
        yield Problem(
            ResourcesError,
            f"one container asks for {some(name, each[name])}, the scheduler gives "
            f"{some(name, limit[name])} at most ({_SETTINGS[name]})",
            where,
            f"ask for {some(name, limit[name])} or less",
        )
    room = sum(node.room(each, node.total) for node in found.usable)
    if over or room >= role.count:
        return
    if room == 0:
        what = f"one container asks for {in_words(each)}; no node has that, the largest is"
        yield Problem(ResourcesError, f"{what} {largest(found.usable)}", where, "ask for less")
    else:
        what = f"{role.count} containers of {in_words(each)} each; the nodes have room for {room}"
        yield Problem(ResourcesError, what, where, "ask for fewer or smaller ones")


_SETTINGS = {
    MEMORY: "yarn.scheduler.maximum-allocation-mb",
    VCORES: "yarn.scheduler.maximum-allocation-vcores",
    GPU: "yarn.resource-types.yarn.io/gpu.maximum-allocation",
}


# Whether a job's paths in HDFS can be read and written, found out before it asks for a GPU.


_TIMEOUT = (3.0, 10.0)  # seconds to connect, and to answer: the submission waits for it
_QUOTAS = (("spaceConsumed", "spaceQuota", "bytes"), ("fileAndDirectoryCount", "quota", "names"))
_READ, _READ_FOLDER, _CHANGE = "r--", "r-x", "-wx"


def check_paths(spec: JobSpec, conf: HadoopConf) -> None:
    """Refuse an input that cannot be read and a checkpoint folder that cannot be written.

    Only paths in this cluster's own HDFS (``hdfs://…``) are looked at: what others mean is known
    to the job's own code alone.

    Parameters
    ----------
    spec
        The job.
    conf
        Hadoop's configuration.

    Raises
    ------
    SubmissionError
        With HDFS's own words, or the figures of a quota that is used up.
    ClusterError
        HDFS does not answer.
    """
    raise_problems(list(path_problems(spec, conf)))


def path_problems(spec: JobSpec, conf: HadoopConf) -> Iterator[Problem]:
    """Yield what is wrong with them; raises `ClusterError` as `check_paths` does.

    Parameters
    ----------
    spec, conf
        As `check_paths` has them.
    """
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
    """Return what in `conf` keeps skein from sending a job's files; None where nothing does.

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
                problem = clean_line(error, 200)
                continue
            if at(document, "RemoteException", "exception") == "StandbyException":
                problem = f"{node} is standby"
                continue
            if answer.ok:
                return document, ""
            words = clean_line(at(document, "RemoteException", "message"), 300)
            return None, words or f"HDFS refuses ({answer.status_code})"
        raise ClusterError(
            f"no NameNode answers: {problem}",
            where=self._conf.default_fs,
            fix="see `submarine doctor --cluster yarn`",
        )


# What the ResourceManager would refuse or never grant, said before anything is asked of it.


_OF_YARN = ("CONTAINER_ID", "LOCAL_DIRS", "LOG_DIRS", "HADOOP_TOKEN_FILE_LOCATION")
_OF_YARN_PREFIXES = ("NM_", "SKEIN_", "SUBMARINE_PAYLOAD")


def check_spec(spec: JobSpec, conf: HadoopConf, rm: ResourceManager) -> JobSpec:
    """Refuse what this cluster cannot run; return `spec` with every role's resources filled in.

    GPUs left open become one where the queue has any (none for ``ps`` and ``tensorboard``), memory
    2 GiB, vcores one. Memory is rounded up as the scheduler will round it.

    Parameters
    ----------
    spec
        What the user asked for.
    conf
        Hadoop's configuration.
    rm
        The ResourceManager.

    Raises
    ------
    UnsupportedError, ResourcesError, SubmissionError
        With every problem that can be found at once.
    ClusterError
        The ResourceManager does not answer, or HDFS where a path of it is given.
    """
    with ThreadPoolExecutor(1) as aside:
        nodes = aside.submit(rm.get, "/ws/v1/cluster/nodes")
        scheduler = read_scheduler(rm.get("/ws/v1/cluster/scheduler"))
        label = spec.options.get("node_label", "")
        found = ClusterView(scheduler=scheduler, nodes=read_nodes(nodes.result()), label=label)
    wanted = spec.queue or DEFAULT
    queue = found.scheduler.find(wanted)
    storage = storage_problem(conf)
    problems = [
        *([storage] if storage else ()),
        *_environment(spec),
        *_addresses(spec),
        *_tensorboard(spec),
        *_priority(spec),
        *_viewers(spec, conf),
        *_queue(wanted, queue, found),
    ]
    if queue is not None and not problems:
        words = queue_refusal(rm, conf, queue)
        if words:
            fix = f"choose another with --queue{_others(found.scheduler, queue)}, or ask for access"
            problems.append(Problem(UnsupportedError, words, f"queue {queue.name}", fix))
    spec = fill(spec, queue, found, _step(conf))
    problems += check_resources(spec.smallest, queue, found)
    problems += path_problems(spec, conf)
    raise_problems(problems)
    return spec


def _environment(spec: JobSpec) -> Iterator[Problem]:
    try:
        refuse_reserved(spec.env)
    except UnsupportedError as error:
        yield Problem(UnsupportedError, error.what, error.where, error.fix)
    for option, given in (("--env", tuple(spec.env)), ("--secret", spec.secrets)):
        for key in given:
            if key in _OF_YARN or key.startswith(_OF_YARN_PREFIXES):
                what = f"{key} is set in every container by YARN or by Submarine"
                yield Problem(UnsupportedError, what, option, "choose another name")


def _addresses(spec: JobSpec) -> Iterator[Problem]:
    yield from _address(spec.input_path, "--input_path")
    yield from _address(spec.checkpoint_path, "--checkpoint_path")


def _address(path: str | None, option: str) -> Iterator[Problem]:
    try:
        file_address(path or "", option)
    except UnsupportedError as error:
        yield Problem(UnsupportedError, error.what, error.where, error.fix)


def _tensorboard(spec: JobSpec) -> Iterator[Problem]:
    if not spec.tensorboard:
        return
    if spec.options.get("mode") == "warm":
        what = "a TensorBoard beside a job is a container of the job's own application"
        yield Problem(UnsupportedError, what, "--mode", "leave --mode warm out, or --tensorboard")
    try:
        check_installed()
    except UnsupportedError as error:
        yield Problem(UnsupportedError, error.what, "--tensorboard", error.fix)


def _priority(spec: JobSpec) -> Iterator[Problem]:
    if spec.options.get("mode") == "warm" and "priority" in spec.options:
        what = "a priority is that of an application, and a warm one serves all jobs of a notebook"
        yield Problem(UnsupportedError, what, "--mode", "leave --mode warm out, or --priority")


def _viewers(spec: JobSpec, conf: HadoopConf) -> Iterator[Problem]:
    """Yield why others cannot be let see the job."""
    where, viewers = "--view_users", spec.options.get("view_users")
    if viewers is None:
        return
    try:
        read_viewers(str(viewers))
    except ValueError as error:
        fix = "name users as the cluster does, with commas: --view_users bob,carol"
        yield Problem(UnsupportedError, str(error), where, fix)
    if not conf.nodes_show_logs:
        what = (
            "this cluster's nodes show a log to nobody but the user whom containers run as, so "
            "nobody else could see it"
        )
        fix = "leave it out; ask the cluster's owner for LinuxContainerExecutor"
        yield Problem(UnsupportedError, what, where, fix)


def _queue(wanted: str, queue: Queue | None, found: ClusterView) -> Iterator[Problem]:
    where, scheduler = "--queue", found.scheduler
    if queue is None:
        if scheduler.strict:
            same = [leaf.path for leaf in scheduler.leaves if leaf.path.endswith(f".{wanted}")]
            fix = (
                f"write --queue {' or '.join(same)}"
                if same
                else f"its queues are {_all(scheduler)}"
            )
            what = f"the ResourceManager has no queue {wanted!r}"
            yield Problem(UnsupportedError, what, where, fix)
        return
    if not queue.leaf and not queue.makes_children and scheduler.kind == "capacity":
        below = [one.path for one in scheduler.leaves if one.path.startswith(f"{queue.path}.")]
        what = f"queue {queue.path} only holds other queues"
        yield Problem(UnsupportedError, what, where, f"choose one of {', '.join(below[:10])}")
    elif queue.state and queue.state != "RUNNING":
        what = f"queue {queue.path} takes no jobs: the ResourceManager says it is {queue.state}"
        fix = f"choose another with --queue{_others(scheduler, queue)}, or wait until it is started"
        yield Problem(UnsupportedError, what, where, fix)
    if found.label and queue.labels and not {"*", found.label} & set(queue.labels):
        what = f"queue {queue.path} may not use nodes labelled {found.label!r}"
        fix = f"its labels are {', '.join(queue.labels)}"
        yield Problem(UnsupportedError, what, "--node_label", fix)


def _all(scheduler: Scheduler) -> str:
    names = [queue.path.removeprefix("root.") for queue in scheduler.leaves[:10]]
    more = len(scheduler.leaves) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _others(scheduler: Scheduler, queue: Queue) -> str:
    names = [one.path for one in scheduler.leaves if one != queue and one.state in ("", "RUNNING")]
    return f" ({', '.join(names[:5])})" if names else ""


def fill(spec: JobSpec, queue: Queue | None, found: ClusterView, step: int) -> JobSpec:
    """Return `spec` with numbers for what was left to the cluster.

    Parameters
    ----------
    spec
        The job.
    queue
        Its queue; None where that is not known.
    found
        What the ResourceManager says of the cluster.
    step
        Mebibytes that the scheduler rounds memory up to a multiple of.
    """
    most = found.most(queue)
    there = found.total if most is None else most
    gpus = min(1, there.get(GPU, 0), found.total.get(GPU, 0))
    largest = (queue.largest if queue else None) or {}
    memory = min(MEMORY_DEFAULT, largest.get(MEMORY, MEMORY_DEFAULT))
    return replace(spec, roles=tuple(_filled(role, gpus, memory, step) for role in spec.roles))


def _filled(role: Role, gpus: int, memory: int, step: int) -> Role:
    asked = role.resources
    gpus = min(gpus, role.usual_gpus)
    memory = asked.memory or memory
    return replace(
        role,
        resources=Resources(
            gpus=gpus if asked.gpus is None else asked.gpus,
            memory=-(-memory // step) * step,
            vcores=asked.vcores or 1,
        ),
    )


def _step(conf: HadoopConf) -> int:
    text = conf.get("yarn.scheduler.minimum-allocation-mb")
    # Without the ResourceManager's own figure none is assumed: it rounds by itself.
    return max(1, int(text)) if text.isdecimal() else 1
