"""Web pages of a job on YARN, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf

_FINAL = ("FINISHED", "FAILED", "KILLED")
_LONGEST = 2000


def links(
    conf: HadoopConf, report: Mapping[str, Any], container: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the addresses of a job's pages, by what they show.

    Parameters
    ----------
    conf
        Hadoop's configuration: where the ResourceManager's pages are.
    report
        ``/ws/v1/cluster/apps/<id>``, its ``app``.
    container
        The first task's container, one of ``…/appattempts/<attempt>/containers``: its log page is
        what `log` is while it runs.

    Returns
    -------
    dict of str to str
        ``log`` (the container's log page while the application runs, the application's page after),
        ``application``, ``cluster`` and ``tracking``; those that there are, each ``http`` or
        ``https``.
    """
    # What an application says of itself is as hostile as any text: only web addresses pass.
    found: dict[str, str | None] = {"log": None, "application": None, "cluster": None}
    application = quote(str(report.get("id", "")), safe="")
    if conf.rm_urls and application:
        manager = conf.rm_urls[0].rstrip("/")
        found["cluster"] = web_address(f"{manager}/cluster")
        found["application"] = web_address(f"{manager}/cluster/app/{application}")
    if report.get("state") not in _FINAL and container is not None:
        found["log"] = container_page(conf, container, str(report.get("user", "")))
    found["log"] = found["log"] or found["application"]
    found["tracking"] = web_address(report.get("trackingUrl"))
    return {what: address for what, address in found.items() if address}


def container_page(conf: HadoopConf, container: Mapping[str, Any], user: str) -> str | None:
    """Return the address of a container's log page on its node; None where there is none."""
    node = container.get("nodeHttpAddress")
    name = str(container.get("containerId") or container.get("id") or "")
    if not isinstance(node, str) or not node or not name or not user:
        return None
    if "://" not in node:
        secure = conf.get("yarn.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
        node = f"{'https' if secure else 'http'}://{node}"
    page = f"/node/containerlogs/{quote(name, safe='')}/{quote(user, safe='')}"
    return web_address(node.rstrip("/") + page)


def web_address(address: object) -> str | None:
    """Return `address` where it is a plain ``http`` or ``https`` address, None otherwise."""
    if not isinstance(address, str) or len(address) > _LONGEST:
        return None
    if any(char <= " " or char in "\"'<>\\^`{|}" or char == "\x7f" for char in address):
        return None
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    return address
