"""Where the user's HDFS is: found in Hadoop's configuration, and asked whether it answers."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from submarine_engine.clusters.yarn.hdfsfiles import Hdfs
from submarine_engine.clusters.yarn.namenodes import NameNode, name_nodes
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.webfs import QuietWebHDFS

__all__ = ["Hdfs", "open_hdfs"]


def open_hdfs(conf: HadoopConf, user: str | None = None) -> Hdfs | None:
    """Return the user's HDFS.

    Parameters
    ----------
    user
        Default: whom the cluster knows this process as. With Kerberos, the ticket says it.

    Returns
    -------
    Hdfs or None
        None where ``fs.defaultFS`` is no HDFS, or no NameNode answers WebHDFS.

    Raises
    ------
    ClusterError
        The packages for it are not installed, or HDFS does not let the user in.
    """
    nodes = name_nodes(conf)
    if not nodes:
        return None
    try:
        from submarine_engine.clusters.yarn.webfs import QuietWebHDFS  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ClusterError(
            f"HDFS needs a package that is not installed: {error.name}",
            fix="pip install 'submarine-notebook[yarn]'",
        ) from error
    who = None if conf.kerberos else user or conf.user
    for node in nodes:
        others = tuple(other for other in nodes if other != node)
        with suppress(_NotActiveError):
            return _open(QuietWebHDFS, node, others, conf.default_fs, who)
    return None


class _NotActiveError(Exception):
    """The NameNode does not answer, or is the standby one."""


def _open(
    kind: type[QuietWebHDFS],
    node: NameNode,
    others: tuple[NameNode, ...],
    url: str,
    user: str | None,
) -> Hdfs:
    try:
        web = kind(node.host, node.port, user=user, kerberos=user is None, use_https=node.secure)
    except ImportError as error:
        raise ClusterError(
            f"HDFS wants Kerberos, which needs a package that is not installed: {error.name}",
            where=f"HDFS at {node}",
            fix="pip install requests-kerberos",
        ) from error
    try:
        if others:
            web.ask("GETFILESTATUS", "/")  # a standby NameNode knows the home, and nothing else
        return Hdfs(web, url, (node, *others))
    except (ClusterError, OSError, RuntimeError, json.JSONDecodeError) as error:
        web.session.close()
        if isinstance(error, PermissionError) or isinstance(error.__cause__, PermissionError):
            raise
        raise _NotActiveError from error
