"""What a run of a flow has come to, node by node: on disk, for every process that asks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from submarine_engine.errors import CommandError, FlowError
from submarine_engine.flows.folder import Place, create_json, make_folder, read_json, write_json
from submarine_engine.flows.model import Flow, FlowPaths
from submarine_engine.history import SPOILT
from submarine_engine.typed_fields import typed_fields


class NodeState(str, Enum):
    """How far a node of a run is; the last four are final."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    @property
    def final(self) -> bool:
        """Whether it will not change by itself any more."""
        return self not in (NodeState.WAITING, NodeState.RUNNING)

    @property
    def good(self) -> bool:
        """Whether it counts as a success for those that follow."""
        return self is NodeState.SUCCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """What a node of a run has come to.

    Parameters
    ----------
    attempt
        Which try it is, from 1; 0 before the first.
    first
        Which try was the first since the run, or its last retry, began: tries are counted from it.
    job, cluster
        Its job, and where that is; empty before it is submitted.
    bundle
        SHA-256 of what it runs.
    home, host
        Where jobs are kept by who began the try (`history.home_id`), and on which machine.
    started, ended
        Seconds since 1970; None where it is not so far.
    error
        What went wrong, in words: notebook, cell and line.
    remembered
        From when its result is, in words, where nothing ran for it; empty where its job did.
    shared
        Which of the values that it has left share an object with others that it had.
    """

    state: NodeState = NodeState.WAITING
    attempt: int = 0
    first: int = 1
    job: str = ""
    cluster: str = ""
    bundle: str = ""
    home: str = ""
    host: str = ""
    started: float | None = None
    ended: float | None = None
    error: str = ""
    remembered: str = ""
    shared: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        data = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**data, "state": self.state.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeRecord:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What `to_json` returned.

        Raises
        ------
        ValueError, KeyError, TypeError
            It is something else.
        """
        given = typed_fields(cls, data)
        if given.get("attempt", 0) < 0:  # it names a folder
            raise ValueError("'attempt' is less than nothing")
        return cls(**{**given, "state": NodeState(data["state"])})


@dataclass(frozen=True, slots=True)
class NodePaths:
    """Every file of a node in a run.

    Parameters
    ----------
    folder
        ``runs/<run>/<node>``.
    """

    folder: Place

    @property
    def record(self) -> Place:
        """What it has come to."""
        return self.folder / "record.json"

    @property
    def lock(self) -> Place:
        """Held by the process that runs it."""
        return self.folder / "lock"

    @property
    def cancel(self) -> Place:
        """Is there where somebody wants it to end."""
        return self.folder / "cancel"

    def values(self, attempt: int) -> Place:
        """Return the folder of what try `attempt`, from 1, has left for other nodes."""
        return self.folder / f"values-{attempt}"


def read_record(paths: FlowPaths, run: str, node: str) -> NodeRecord:
    """Return what a node has come to; one that has not begun waits.

    Parameters
    ----------
    paths, run, node
        The flow, the run's id, the node's name.

    Raises
    ------
    FlowError
        What is on record cannot be read.
    """
    path = NodePaths(paths.node(run, node)).record
    try:
        data = read_json(path)
        return NodeRecord.from_json(data) if data is not None else NodeRecord()
    except SPOILT as error:
        raise FlowError(
            f"the record cannot be read: {error}",
            where=str(path),
            fix="remove that file: the node begins anew",
        ) from None


def sizes_left(paths: FlowPaths, run: str, node: str, record: NodeRecord) -> dict[str, int]:
    """Return how many bytes each value has that a node has left; none where it is not known.

    Parameters
    ----------
    paths, run, node
        The flow, the run's id, the node's name.
    record
        What the node has come to.
    """
    folder = NodePaths(paths.node(run, node)).values(record.attempt)
    try:
        values = (read_json(folder / "manifest.json") or {}).get("values", [])
        return {str(one["name"]): int(one["size"]) for one in values}
    except SPOILT:
        return {}


def write_record(paths: FlowPaths, run: str, node: str, record: NodeRecord) -> NodeRecord:
    """Write what a node has come to, and return it.

    Parameters
    ----------
    paths
        The flow's files.
    run
        The run's id.
    node
        The node's name.
    record
        What it has come to.
    """
    folder = paths.node(run, node)
    make_folder(folder)
    write_json(NodePaths(folder).record, record.to_json())
    return record


def ended(record: NodeRecord, state: NodeState, error: str = "") -> NodeRecord:
    """Return the record of a node that has come to its end now.

    Parameters
    ----------
    record
        The node's before.
    state
        How it ended.
    error
        Why, where it failed.
    """
    return replace(record, state=state, error=error, ended=time.time())


def fix_parameters(
    flow: Flow, paths: FlowPaths, run: str, given: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the values of the parameters in a run: all of its nodes have the same.

    Whoever comes first writes them down.

    Parameters
    ----------
    flow, paths, run
        The flow, its folder, the run's id.
    given
        Texts of ``--param``; None takes what is written down, else the defaults.

    Raises
    ------
    CommandError
        A value is not possible, or the run has begun with another one.
    """
    values = flow.values(given or {})
    make_folder(paths.run(run))
    said = {name: repr(value) for name, value in values.items()}
    texts = dict(given or {})
    data = {"run": run, "parameters": said, "given": texts, "created": time.time()}
    before = create_json(paths.run(run) / "run.json", data)
    if before is None:
        return values
    if given is None:  # another node of this run was quicker
        return flow.values(before.get("given", {}))
    if before.get("parameters") != said:
        raise CommandError(
            f"run {run} has begun with other parameters: {before.get('parameters')}",
            where="--param",
            fix="give the same ones, or begin another --run",
        )
    return values
