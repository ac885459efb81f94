"""The doctor's look at the cluster: what its daemons answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import requests

from submarine_engine.clusters.yarn.foreign import at, listed, told
from submarine_engine.clusters.yarn.hadoop import HadoopConf
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.nodehttp import NodeConnection
from submarine_engine.clusters.yarn.nodes import Node, none_up, read_nodes
from submarine_engine.clusters.yarn.paths import storage_problem
from submarine_engine.clusters.yarn.rest import ResourceManager, new_session
from submarine_engine.clusters.yarn.scheduler import DEFAULT, Queue, read_scheduler
from submarine_engine.doctor import BAD, NOTE, OK, Check
from submarine_engine.errors import ClusterError

_TIMEOUT = (2.0, 5.0)
_LARGEST_ANSWER = 1 << 20
_NODES_TRIED = 3
_SKEW = 5.0
_KERBEROS_SKEW = 300.0  # clockskew of krb5.conf(5)


class Asked:
    """The cluster that is looked at, and the queue that jobs go to."""

    def __init__(self, conf: HadoopConf, queue: str | None) -> None:
        self.conf = conf
        self.queue = queue or DEFAULT

    def manager(self) -> ResourceManager:
        """Return a way to ask the ResourceManager; a new one, since checks run side by side."""
        return ResourceManager(self.conf, timeout=_TIMEOUT)

    def nodes(self) -> tuple[Node, ...]:
        """Ask for the nodes."""
        return read_nodes(self.manager().get("/ws/v1/cluster/nodes"))

    def found(self) -> Queue | None:
        """Ask for the queue."""
        scheduler = read_scheduler(self.manager().get("/ws/v1/cluster/scheduler"))
        return scheduler.find(self.queue)


def managers(asked: Asked) -> Iterator[Check]:
    """Check that a ResourceManager is active, and its clock."""
    title, states = "ResourceManager", []
    active = None
    with new_session(asked.conf) as session:
        for url in asked.conf.rm_urls:
            state, info, date = _ask_manager(session, url, asked.conf)
            states.append(f"{url} {state}")
            if state == "active" and active is None:
                active = info, date
    told_of = "; ".join(states) or "no address is configured"
    if active is None:
        fix = "see whether it runs, and whether HADOOP_CONF_DIR names the right cluster"
        yield Check(title, BAD, told_of, fix)
        return
    release = told(at(active[0], "clusterInfo", "hadoopVersion"), 40)
    yield Check(title, OK, f"{told_of}; Hadoop {release or 'of unknown version'}")
    yield from _clock(active[1], asked.conf)


def _ask_manager(
    session: requests.Session, url: str, conf: HadoopConf
) -> tuple[str, Any, tuple[str, float]]:
    query = {} if conf.kerberos else {"user.name": conf.user}
    try:
        answer = session.get(
            f"{url}/ws/v1/cluster/info", params=query, timeout=_TIMEOUT, allow_redirects=False
        )
        info = answer.json()
    except ValueError:  # requests' own for what is no JSON is one, too
        return "answers, but not as a ResourceManager does", None, ("", 0.0)
    except requests.RequestException as error:
        return f"does not answer ({_reason(error)})", None, ("", 0.0)
    state = told(at(info, "clusterInfo", "haState"), 40).lower()
    if not answer.ok or not state:
        return f"refuses ({answer.status_code}): {_refusal(info)}", None, ("", 0.0)
    return state, info, (answer.headers.get("Date", ""), time.time())


def _refusal(info: object) -> str:
    return told(at(info, "RemoteException", "message"), 120) or "no word why"


def _reason(error: Exception) -> str:
    text = str(error)
    for known in ("Connection refused", "timed out", "Name or service not known"):
        if known in text:
            return known.lower()
    return told(text, 120)


def _clock(stamp: tuple[str, float], conf: HadoopConf) -> Iterator[Check]:
    try:
        skew = parsedate_to_datetime(stamp[0]).timestamp() - stamp[1]
    except ValueError:
        return
    if abs(skew) < _SKEW:
        return
    verdict = BAD if conf.kerberos and abs(skew) > _KERBEROS_SKEW else NOTE
    ahead = "ahead of" if skew > 0 else "behind"
    what = f"the ResourceManager's is {abs(skew):.0f} s {ahead} this machine's"
    yield Check("clocks", verdict, what, "let both ask the same time server (chrony, ntpd)")


def nodes(asked: Asked) -> Iterator[Check]:
    """Check that nodes take containers."""
    found = asked.nodes()
    up = [node for node in found if node.up]
    if not up:
        fix = "see the NodeManagers' logs; a full disk makes a node unhealthy"
        yield Check("nodes", BAD, none_up(found), fix)
        return
    down = [node for node in found if not node.up]
    what = f"{len(up)} {'takes' if len(up) == 1 else 'take'} containers"
    if not down:
        yield Check("nodes", OK, what)
        return
    names = ", ".join(f"{node.host} {node.state.lower()}" for node in down[:_NODES_TRIED])
    report = next((f": {node.report}" for node in down if node.report), "")
    yield Check("nodes", NOTE, f"{what}; {len(down)} not ({names}{report})", "see their logs")


def node_pages(asked: Asked) -> Iterator[Check]:
    """Check that logs can be read from the nodes' own pages."""
    title, problem = "NodeManager pages", ""
    tried = [node for node in asked.nodes() if node.up][:_NODES_TRIED]
    for node in tried:
        try:
            connection = NodeConnection(node.web, user=asked.conf.user, timeout=_TIMEOUT[0])
            try:
                answer = connection.get("/ws/v1/node/info")
                connection.body(_LARGEST_ANSWER)
            finally:
                connection.close()
            if answer.status >= 400:  # noqa: PLR2004 - the first status of a refusal
                problem = f"{node.web} refuses ({answer.status})"
        except ClusterError as error:
            problem = f"{node.web}: {error.what}"
        if problem:
            fix = "nothing has to be done; to see lines sooner, let this machine reach that port"
            what = f"{told(problem, 160)}; logs come by way of HDFS instead"
            yield Check(title, NOTE, what, fix)
            return
    if tried:
        yield Check(title, OK, f"{', '.join(node.web for node in tried)}: logs come from there")


def log_aggregation(asked: Asked) -> Iterator[Check]:
    """Check that logs outlive their nodes; the ResourceManager's own setting wins over ours."""
    key, title = "yarn.log-aggregation-enable", "log aggregation"
    value, whose = _setting(asked, key), "at the ResourceManager"
    if not value:
        value, whose = asked.conf.get(key), "by this configuration"
    if value.lower() == "true":
        yield Check(title, OK, f"on ({whose})")
    else:
        what = f"off ({whose if value else 'as Hadoop has it'}): YARN keeps no logs of what is over"
        fix = f"nothing has to be done for jobs that are followed here; else set {key}"
        yield Check(title, NOTE, what, fix)


def _setting(asked: Asked, key: str) -> str:
    """Return a property of the ResourceManager's own configuration; empty where it tells none."""
    try:
        document: object = asked.manager().get("/conf", name=key, format="json")
    except ClusterError:
        return ""
    held = at(document, "property")
    values = listed(document, "properties") or [held if isinstance(held, dict) else {}]
    return told(next((one.get("value") for one in values if one.get("key") == key), ""), 80)


def hdfs(asked: Asked) -> Iterator[Check]:
    """Check that HDFS answers and the user has a place there."""
    if problem := storage_problem(asked.conf):
        yield Check("HDFS", BAD, problem.what, problem.fix)
        return
    if not asked.conf.has_hdfs:
        yield Check("HDFS", NOTE, f"none: files lie in {asked.conf.default_fs}")
        return
    files = open_hdfs(asked.conf)
    if files is None:
        what = f"no NameNode of {asked.conf.default_fs} answers WebHDFS"
        fix = "see whether it runs, and whether dfs.namenode.http-address can be reached from here"
        yield Check("HDFS", BAD, what, fix)
        return
    try:
        there = files.exists(files.home)
    finally:
        files.close()
    if there:
        yield Check("HDFS", OK, f"{asked.conf.default_fs}, your folder is {files.home}")
    else:
        fix = f"ask for it: hdfs dfs -mkdir {files.home}, and -chown to {asked.conf.user}"
        yield Check("HDFS", NOTE, f"{asked.conf.default_fs}: there is no {files.home} yet", fix)
