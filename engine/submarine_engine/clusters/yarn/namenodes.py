"""Where the NameNodes' web addresses stand in Hadoop's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf

_PORTS = {"http": 9870, "https": 9871}


@dataclass(frozen=True, slots=True)
class NameNode:
    """A NameNode's web address."""

    host: str
    port: int
    secure: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address with its scheme."""
        return f"{'https' if self.secure else 'http'}://{self}"


def name_nodes(conf: HadoopConf) -> tuple[NameNode, ...]:
    """Return the NameNodes of ``fs.defaultFS``, in the configuration's order.

    Keys and defaults are those of Hadoop's ``hdfs-default.xml``: ``dfs.nameservices``,
    ``dfs.ha.namenodes.<service>``, ``dfs.namenode.http-address``, ``dfs.http.policy``.

    Returns
    -------
    tuple of NameNode
        Empty where the default file system is not HDFS.
    """
    try:
        where = urlsplit(conf.default_fs)
        host = where.hostname
    except ValueError:
        return ()
    if where.scheme != "hdfs" or not host:
        return ()
    scheme = "https" if conf.get("dfs.http.policy") == "HTTPS_ONLY" else "http"
    key = f"dfs.namenode.{scheme}-address"
    service = where.netloc
    named = [name.strip() for name in conf.get(f"dfs.ha.namenodes.{service}").split(",")]
    endings = [f".{service}.{name}" for name in named if name]
    found = []
    for ending in endings or [f".{service}", ""]:
        address = conf.get(key + ending)
        if address or (not endings and not ending):
            found.append(_name_node(address, host, scheme))
            if not endings:
                break
    return tuple(found)


def _name_node(address: str, host: str, scheme: str) -> NameNode:
    try:
        parts = urlsplit(f"//{address}")
        named, port = parts.hostname, parts.port
    except ValueError:
        named = port = None
    # 0.0.0.0 says that it listens everywhere, not where it is.
    if not named or named in ("0.0.0.0", "::"):  # noqa: S104 - read, not bound
        named = host
    return NameNode(named, port or _PORTS[scheme], scheme == "https")
