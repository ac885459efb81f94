"""Whether a job could run: asked of the daemons themselves, over HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from submarine_engine.installer.plan import Plan

_PATIENCE = 5.0
_ACTORS = "BPServiceActorInfo"
# Nobody there, or a daemon that is still on its way up and says other things than it will.
_NO_ANSWER = (OSError, HTTPException, ValueError, KeyError, TypeError)
# A proxy of the environment has no business on loopback.
_OPENER = build_opener(ProxyHandler({}))


def missing(plan: Plan) -> list[str]:
    """Return what is still missing before a job could run, in words; empty when it could."""
    found = [_missing_yarn(plan)]
    if plan.hdfs:
        found.append(_missing_hdfs(plan))
    return [problem for problem in found if problem]


def _missing_yarn(plan: Plan) -> str:
    try:
        nodes = _ask(f"{plan.rm_web}/ws/v1/cluster/nodes")["nodes"]
        known = {str(node["id"]).rpartition(":")[2]: node for node in (nodes or {}).get("node", ())}
    except _NO_ANSWER:
        return "the resourcemanager does not answer"
    ready = sum(_node_runs(plan, number, known) for number in range(plan.nodes))
    if ready == plan.nodes:
        return ""
    return f"{ready} of {plan.nodes} nodes running with {plan.gpus} GPUs"


def _node_runs(plan: Plan, number: int, known: Mapping[str, Any]) -> bool:
    node = known.get(str(plan.node_port(number, 0)))
    if node is None or node["state"] != "RUNNING" or _gpus(node) != plan.gpus:
        return False
    # What the ResourceManager says of a node that was killed stays true for seconds: it has to be
    # of the node's present life.
    try:
        own = _ask(f"{plan.node_web(number)}/ws/v1/node/info")["nodeInfo"]
        return bool(own["nodeHealthy"] and own["lastNodeUpdateTime"] == node["lastHealthUpdate"])
    except _NO_ANSWER:
        return False


def _gpus(node: dict[str, Any]) -> int:
    kinds = node["totalResource"]["resourceInformations"]["resourceInformation"]
    return next((int(kind["value"]) for kind in kinds if kind["name"] == "yarn.io/gpu"), 0)


def _missing_hdfs(plan: Plan) -> str:
    try:
        if _bean(plan.namenode_web, "NameNode", "NameNodeInfo")["Safemode"]:
            return "HDFS is in safe mode"
        if not _bean(plan.namenode_web, "NameNode", "FSNamesystemState")["NumLiveDataNodes"]:
            return "HDFS has no datanode"
    except _NO_ANSWER:
        return "the namenode does not answer"
    if not _datanode_runs(plan):
        return "the datanode does not answer"
    # Whoever submits needs a home, and NodeManagers a place for logs that everybody may write.
    # HDFS gives the folders above one the same mode: others have homes below /user.
    folders = {"/user": "755", f"/user/{plan.user}": "700", "/tmp": "1777"}  # noqa: S108 - of HDFS
    made = all(_make_folder(plan, path, mode) for path, mode in folders.items())
    return "" if made else "HDFS lets no folder be made"


def _datanode_runs(plan: Plan) -> bool:
    try:
        actors = json.loads(_bean(plan.datanode_web, "DataNode", "DataNodeInfo")[_ACTORS])
        return bool(actors) and all(actor["ActorState"] == "RUNNING" for actor in actors)
    except _NO_ANSWER:
        return False


def _bean(web: str, service: str, name: str) -> dict[str, Any]:
    (found,) = _ask(f"{web}/jmx?qry=Hadoop:service={service},name={name}")["beans"]
    return dict(found)


def _make_folder(plan: Plan, path: str, mode: str) -> bool:
    query = f"?op=MKDIRS&permission={mode}&user.name={plan.user}"
    try:
        return bool(_ask(f"{plan.namenode_web}/webhdfs/v1{path}{query}", "PUT")["boolean"])
    except _NO_ANSWER:
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
