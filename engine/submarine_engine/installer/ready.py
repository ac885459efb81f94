"""Whether a job could run: asked of the daemons themselves, over HTTP on loopback."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from submarine_engine.installer.plan import Plan

_PATIENCE = 5.0
# A proxy of the environment has no business on loopback.
_OPENER = build_opener(ProxyHandler({}))


def missing(plan: Plan) -> list[str]:
    """Return what is still missing before a job could run, in words; empty when it could."""
    found = [_missing_yarn(plan)]
    if plan.hdfs:
        found.append(_missing_hdfs(plan))
    return [problem for problem in found if problem]


def listens(port: int) -> bool:
    """Return whether somebody listens on a port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), _PATIENCE).close()
    except OSError:
        return False
    return True


def _missing_yarn(plan: Plan) -> str:
    try:
        nodes = _ask(f"{plan.rm_web}/ws/v1/cluster/nodes")["nodes"]
    except (OSError, ValueError, KeyError, TypeError):
        return "the resourcemanager does not answer"
    seen = {
        str(node["id"]).rpartition(":")[2]: _gpus(node)
        for node in (nodes or {}).get("node", ())
        if node["state"] == "RUNNING"
    }
    ports = [str(plan.node_port(number, 0)) for number in range(plan.nodes)]
    ready = sum(seen.get(port) == plan.gpus for port in ports)
    if ready == plan.nodes:
        return ""
    return f"{ready} of {plan.nodes} nodes running with {plan.gpus} GPUs"


def _gpus(node: dict[str, Any]) -> int:
    kinds = node["totalResource"]["resourceInformations"]["resourceInformation"]
    return next((int(kind["value"]) for kind in kinds if kind["name"] == "yarn.io/gpu"), 0)


def _missing_hdfs(plan: Plan) -> str:
    bean = "/jmx?qry=Hadoop:service=NameNode,name="
    try:
        (state,) = _ask(f"{plan.namenode_web}{bean}FSNamesystemState")["beans"]
        (info,) = _ask(f"{plan.namenode_web}{bean}NameNodeInfo")["beans"]
        if info["Safemode"]:
            return "HDFS is in safe mode"
        if not state["NumLiveDataNodes"]:
            return "HDFS has no datanode"
    except (OSError, ValueError, KeyError, TypeError):
        return "the namenode does not answer"
    # Whoever submits needs a home, and NodeManagers a place for logs that everybody may write.
    homes = (f"/user/{plan.user}", "700"), ("/tmp", "1777")  # noqa: S108 - of HDFS
    if not all(_make_folder(plan, path, mode) for path, mode in homes):
        return "HDFS lets no folder be made"
    return ""


def _make_folder(plan: Plan, path: str, mode: str) -> bool:
    query = f"?op=MKDIRS&permission={mode}&user.name={plan.user}"
    try:
        return bool(_ask(f"{plan.namenode_web}/webhdfs/v1{path}{query}", "PUT")["boolean"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _ask(url: str, method: str = "GET") -> dict[str, Any]:
    request = Request(url, method=method)  # noqa: S310 - an address of ours
    try:
        with _OPENER.open(request, timeout=_PATIENCE) as answer:
            found: dict[str, Any] = json.load(answer)
    except HTTPError as error:
        error.close()
        raise
    return found
