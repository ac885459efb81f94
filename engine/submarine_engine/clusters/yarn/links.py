"""Web pages of a job on YARN, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.lifecycle import JobStatus

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


def job_links(conf: HadoopConf, noted: Mapping[str, Any], status: JobStatus) -> dict[str, str]:
    """Return the pages of a job by what people call them, as `Cluster.links` does.

    Parameters
    ----------
    noted
        What the keeper wrote of the job: ``{"app_id", "containers": {task: [id, node, began]}}``.
    status
        The job as it stands: a container's page is there until it is released.

    Returns
    -------
    dict of str to str
        ``log``, the ids of running tasks, the application's id, ``ResourceManager``, ``tracking``,
        ``TensorBoard``.
    """
    app_id = str(noted.get("app_id") or "")
    if not app_id:
        return {}
    pages = {}
    for task, (container, node, *_) in dict(noted.get("containers") or {}).items():
        seen = status.task(task)
        if seen is not None and seen.held and not seen.released:
            address = {"id": container, "nodeHttpAddress": node}
            pages[task] = container_page(conf, address, conf.user)
    report = {"id": app_id, "trackingUrl": _tracking(conf, app_id, over=status.state.final)}
    found = links(conf, report)
    log = next(filter(None, pages.values()), None) or found.get("log")
    named = {
        "log": log,
        **(pages if len(status.tasks) > 1 else {}),
        app_id: found.get("application"),
        "ResourceManager": found.get("cluster"),
        "tracking": found.get("tracking"),
        "TensorBoard": None if status.state.final else web_address(noted.get("board")),
    }
    return {name: address for name, address in named.items() if address}


def _tracking(conf: HadoopConf, app_id: str, *, over: bool) -> str | None:
    """Return where the web proxy shows what the application's master tells, while it lives."""
    if over:
        return None
    proxy = conf.get("yarn.web-proxy.address")
    scheme = "https" if conf.get("yarn.http.policy") == "HTTPS_ONLY" else "http"
    base = f"{scheme}://{proxy}" if proxy else next(iter(conf.rm_urls), None)
    return f"{base.rstrip('/')}/proxy/{quote(app_id, safe='')}/" if base else None


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
