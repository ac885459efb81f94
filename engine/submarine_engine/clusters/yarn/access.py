"""Whether the user may submit to a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from submarine_engine.clusters.yarn.foreign import at, told
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.rest import ResourceManager
    from submarine_engine.clusters.yarn.scheduler import Queue


def refusal(rm: ResourceManager, conf: HadoopConf, queue: Queue) -> str:
    """Return in words that the user may not submit to `queue`; empty where that is not certain.

    The ResourceManager answers those who administer the queue. For all others its access lists
    are read, as far as one can without knowing the groups that it counts a user to.
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
        words = told(at(answer, "diagnostics"))
        return f"{user} may not submit to queue {queue.path}; the ResourceManager says: {words}"
    if allowed == "true" or not conf.is_true("yarn.acl.enable"):
        return ""
    if not queue.acls or any(admits(acl, user) for acl in queue.acls):
        return ""
    lists = ", ".join(sorted({repr(acl.strip()) for acl in queue.acls if acl.strip()})) or "nobody"
    return f"{user} may not submit to queue {queue.path}: its access lists admit {told(lists)}"


def admits(acl: str, user: str) -> bool:
    """Whether an access list (``user,user group,group``) may admit `user`; groups may."""
    if "*" in acl:
        return True
    users, _, groups = acl.partition(" ")
    return user in users.split(",") or bool(groups.strip())
