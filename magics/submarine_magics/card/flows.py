"""The card of a flow: its graph, how far its newest run is, and what went wrong, node by node.

`view_flow` makes plain data of a flow and a run, in words; one structure shows it everywhere: in
JupyterLab's page and panel, in a cell, and as plain text.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from submarine_engine.amounts import clock, count, duration, size
from submarine_engine.command import parse_cell
from submarine_engine.errors import SubmarineError
from submarine_engine.flows.current import CurrentFlow
from submarine_engine.flows.drawing import drawn
from submarine_engine.flows.folder import address_of
from submarine_engine.flows.layout import NODE_HEIGHT, NODE_WIDTH, Edge, Layout, Point, layout
from submarine_engine.flows.model import ALL_SUCCESS, CELL, Flow, FlowPaths
from submarine_engine.flows.model import Node as FlowNode
from submarine_engine.flows.records import NodeRecord, NodeState, sizes_left
from submarine_engine.flows.runner import RunStatus

from submarine_magics import frontend
from submarine_magics.card.nodes import Node, node, serialise
from submarine_magics.card.tree import style
from submarine_magics.card.words import visible

FLOW_TYPE = "application/vnd.submarine.flow+json"
"""The MIME type of a flow's card, for our extension of JupyterLab."""

READY, STOPPED = "ready", "stopped"
"""States of a card beside those of nodes: of a flow that has not run, and of a run that no process
sees through."""

_GLYPHS = {
    READY: "○",
    STOPPED: "◍",
    NodeState.WAITING.value: "○",
    NodeState.RUNNING.value: "●",
    NodeState.SUCCEEDED.value: "✓",
    NodeState.FAILED.value: "✕",
    NodeState.CANCELLED.value: "■",
    NodeState.SKIPPED.value: "⊘",
}
_WORDS = {READY: "not run yet"}
_NAME, _LABEL = 22, 20  # characters that fit into a node's box, and beside an edge
_ERRORS = 5
_HEAD, _ROUND = 5.0, 6.0  # pixels: of an arrow, and of a box's corners


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node, in words.

    Parameters
    ----------
    state
        As `NodeState`; empty where the flow has not run.
    word
        The state as it is shown, with its try where that is not the first.
    cells
        ``In [2], [5]``.
    cell
        The id of the first cell, and its number among the cells with code.
    needs
        ``2 GPUs``; empty where it does not say.
    seconds, ticking
        How long its last try took, and whether that still grows; None where it has not begun.
    gets
        What it follows: ``data from cell-3``.
    """

    name: str
    kind: str
    state: str
    word: str
    cells: str
    cell: tuple[str, int]
    needs: str
    condition: str
    seconds: float | None
    ticking: bool
    gets: tuple[str, ...]
    job: str
    error: str

    @property
    def time(self) -> str:
        """How long it took, or takes by now."""
        if self.seconds is None:
            return ""
        return clock(self.seconds) if self.ticking else duration(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowView:
    """All that the card of a flow shows.

    Parameters
    ----------
    folder
        The flow's own, absolute.
    state
        As `NodeState` of the whole run, `READY` or `STOPPED`.
    going
        Whether it changes by itself.
    notes
        What there is to know beside the run: that it is not built, that its notebook has changed.
    sizes
        Of the values that nodes have left: by node and name, in bytes.
    """

    name: str
    notebook: str
    folder: str
    run: str
    state: str
    going: bool
    built: bool
    changed: bool
    facts: tuple[str, ...]
    notes: tuple[str, ...]
    nodes: tuple[NodeView, ...]
    sizes: dict[tuple[str, str], int]
    picture: Layout
    text: str

    @property
    def word(self) -> str:
        """The state as it is shown."""
        return _WORDS.get(self.state, self.state)


def view_flow(
    current: CurrentFlow, status: RunStatus | None = None, now: float | None = None
) -> FlowView:
    """Return what to show of a flow.

    Parameters
    ----------
    current
        The flow.
    status
        Of one of its runs; None where it has not run.
    now
        Seconds since 1970; the time unless given.
    """
    flow, at = current.flow, time.time() if now is None else now
    records = {} if status is None else status.records
    paths = FlowPaths(current.folder)
    sizes = {
        (name, value): number
        for name, record in records.items()
        if record.state.good
        for value, number in sizes_left(paths, status.run if status else "", name, record).items()
    }
    nodes = tuple(_node(flow, one, records.get(one.name), at) for one in flow.order)
    words = {one.name: f"{one.word} {one.time}".strip() for one in nodes} if status else None
    return FlowView(
        name=visible(flow.name, 80),
        notebook=visible(flow.notebook, 80),
        folder=address_of(current.folder),
        run=status.run if status else "",
        state=_state(status),
        going=status is not None and status.driven and not status.over,
        built=current.built,
        changed=current.changed,
        facts=_facts(flow, status),
        notes=tuple(_notes(current, status)),
        nodes=nodes,
        sizes=sizes,
        picture=layout(flow),
        text="\n".join(visible(line, 400) for line in drawn(flow, words)),
    )


def _state(status: RunStatus | None) -> str:
    if status is None:
        return READY
    states = {one.state for one in status.records.values()}
    if not status.over:
        return NodeState.RUNNING.value if status.driven else STOPPED
    bad = (one for one in (NodeState.FAILED, NodeState.CANCELLED) if one in states)
    return str(next(bad, NodeState.SUCCEEDED).value)


def _facts(flow: Flow, status: RunStatus | None) -> tuple[str, ...]:
    parameters = ", ".join(f"{one.name} = {one.default!r}" for one in flow.parameters)
    facts = (
        visible(flow.notebook, 80),
        count(len(flow.nodes), "node"),
        f"at {visible(flow.schedule, 60)}" if flow.schedule else "",
        visible(parameters, 120),
        f"run {visible(status.run, 60)}" if status else "",
    )
    return tuple(fact for fact in facts if fact)


def _notes(current: CurrentFlow, status: RunStatus | None) -> Iterator[str]:
    if current.changed:
        yield (
            "The notebook has changed since this flow was built. It runs as it was; build it again"
            " to run the cells as they are now."
        )
    if status is not None and not status.over and not status.driven:
        yield "No process of this machine sees this run through. It goes on where it stands."


def _node(flow: Flow, one: FlowNode, record: NodeRecord | None, now: float) -> NodeView:
    number = one.cells[0] if one.cells else 0
    cell = next((cell for cell in flow.cells if cell.number == number), None)
    begun = record is not None and record.started is not None
    ticking = begun and record is not None and record.ended is None and not record.state.final
    seconds = None
    if record is not None and record.started is not None:
        end = record.ended if record.ended is not None else now
        seconds = max(0.0, end - record.started)
    tries = f", try {record.attempt}" if record is not None and record.attempt > 1 else ""
    return NodeView(
        name=one.name,
        kind=one.kind,
        state=record.state.value if record else "",
        word=f"{record.state.value}{tries}" if record else "",
        cells=_cells(one),
        cell=((cell.id or "") if cell else "", number),
        needs=_needs(one),
        condition="" if one.condition == ALL_SUCCESS else f"when {one.condition}",
        seconds=seconds,
        ticking=bool(ticking),
        gets=tuple(_gets(one)),
        job=record.job if record else "",
        error=visible(record.error, 600) if record else "",
    )


def _cells(one: FlowNode) -> str:
    first, *others = one.cells or (0,)
    return ", ".join((f"In [{first}]", *(f"[{number}]" for number in others)))


def _needs(one: FlowNode) -> str:
    if one.kind == CELL:
        return ""
    with suppress(SubmarineError, ValueError):
        gpus = parse_cell(one.options).values.get("gpus")
        if isinstance(gpus, int):
            return count(gpus, "GPU") if gpus else "no GPU"
    return ""


def _gets(one: FlowNode) -> Iterator[str]:
    for name in one.follows:
        values = [read.name for read in one.reads if read.node == name]
        yield f"{', '.join(values)} from {name}" if values else f"after {name}"


# The card as elements.


def flow_tree(flow: FlowView, *, served: bool = False) -> Node:
    """Return the card as a tree of elements.

    Parameters
    ----------
    flow
        What to show.
    served
        Whether a server does what readers ask for: run, cancel, retry, open logs and cells.
    """
    return Node(
        "div",
        {
            "class": "submarine-card smc-flow tex2jax_ignore",
            "data-state": flow.state,
            "role": "group",
            "aria-label": f"Flow {flow.name}",
            # As the card of a job: keys are its own while it has the focus.
            **({"tabindex": "-1", "data-lm-suppress-shortcuts": "true"} if served else {}),
        },
        (
            _head(flow, served=served),
            node("div", "facts", " · ".join(flow.facts)),
            node("div", "error", "", data_slot="problem", role="alert", hidden="")
            if served
            else None,
            *_sentences(flow),
            _graph(flow, served=served),
            _table(flow, served=served),
        ),
    )


def _button(action: str, text: str, style: str = "button", **attributes: str) -> Node:
    return node("button", style, text, type_="button", data_action=action, **attributes)


def _head(flow: FlowView, *, served: bool) -> Node:
    glyph = node("span", "glyph", _GLYPHS[flow.state], aria_hidden="true")
    state = node("strong", "state", glyph, f" {flow.word}", role="status")
    actions = node("span", "actions", *_actions(flow)) if served else None
    return node("div", "head", state, " ", node("strong", "title", flow.name), " ", actions)


def _actions(flow: FlowView) -> Iterator[Node]:
    if not flow.built:
        why = "Make a flow of the notebook as it is saved, and run all of it"
        yield _button("flow-run", "Build and run", title=why)
        return
    over = flow.state not in (NodeState.RUNNING.value, STOPPED)
    if flow.changed and flow.notebook and not flow.going:
        yield _button("flow-build", "Build again", title="Take the notebook's cells as they are")
    if flow.state in (NodeState.FAILED.value, NodeState.CANCELLED.value):
        why = "Run again what has failed, and what follows it; nothing else"
        yield _button("flow-retry", "Retry", title=why)
    if flow.state == STOPPED:
        yield _button("flow-go-on", "Go on", title="Go on with this run where it stands")
    if over:
        again = flow.state != READY
        yield _button("flow-run", "Run again" if again else "Run",
                      title="Run all nodes" + (", as a new run" if again else ""))  # fmt: skip
    else:
        yield _button("flow-cancel", "Cancel", "cancel",
                      title="End the run with the jobs of its nodes",
                      aria_label=f"Cancel the run of {flow.name}")  # fmt: skip


def _sentences(flow: FlowView) -> Iterator[Node]:
    for text in flow.notes:
        yield node("div", "sentence", text)
    failed = [one for one in flow.nodes if one.error and one.state == NodeState.FAILED.value]
    for one in failed[:_ERRORS]:
        yield node("div", "error", f"{visible(one.name, 64)}: {one.error}")
    if len(failed) > _ERRORS:
        yield node("div", "quiet", f"… {count(len(failed) - _ERRORS, 'more node')} failed")


def _graph(flow: FlowView, *, served: bool) -> Node:
    picture = flow.picture
    words = f"Graph of {count(len(flow.nodes), 'node')}; the table below says the same in words"
    views = {one.name: one for one in flow.nodes}
    # Edges with many neighbours have their words where they are apart from one another.
    leaving = [edge.source for edge in picture.edges]
    arriving = [edge.target for edge in picture.edges]
    edges = [
        _edge(flow, edge, late=leaving.count(edge.source) > arriving.count(edge.target))
        for edge in picture.edges
    ]
    drawn_nodes = [_box(views[name], place, served=served) for name, place in picture.nodes.items()]
    svg = node(
        "svg", "graph", *edges, *drawn_nodes,
        viewBox=f"0 0 {picture.width:.0f} {picture.height:.0f}", width=f"{picture.width:.0f}px",
        role="group", aria_label=words,
    )  # fmt: skip
    return node("div", "scroll", svg, tabindex="0", role="region", aria_label="Graph")


def _edge(flow: FlowView, edge: Edge, *, late: bool) -> Node:
    points, path = edge.points, []
    for at in range(0, len(points), 2):
        (x, y), (to_x, to_y) = points[at], points[at + 1]
        half = (y + to_y) / 2
        path.append(f"{'M' if at == 0 else 'L'}{x:.1f},{y:.1f}")
        path.append(f"C{x:.1f},{half:.1f} {to_x:.1f},{half:.1f} {to_x:.1f},{to_y:.1f}")
    x, y = points[-1]
    back = f"{y - 1.5 * _HEAD:.1f}"
    head = f"M{x - _HEAD:.1f},{back}L{x:.1f},{y:.1f}L{x + _HEAD:.1f},{back}z"
    label, whole = _label(flow, edge)
    x, y = _along(points[-2:] if late else points[:2], 0.66 if late else 0.34)
    return node(
        "g", "edge",
        node("path", "line", d=" ".join(path)),
        node("path", "head", d=head),
        node("text", "value", label, x=f"{x:.1f}", y=f"{y + 4:.1f}") if label else None,
        node("title", "", whole),
        aria_hidden="true",
    )  # fmt: skip


def _along(points: tuple[Point, ...], part: float) -> Point:
    """Return the point of a curve between two points; `part` is from 0 to 1."""
    (x, y), (to_x, to_y) = points
    one, other = (1 - part) ** 2 * (1 + 2 * part), part**2 * (3 - 2 * part)
    half = 3 * (1 - part) * part
    return x * one + to_x * other, (y * (1 - part) ** 3 + half * (y + to_y) / 2 + to_y * part**3)


def _label(flow: FlowView, edge: Edge) -> tuple[str, str]:
    """Return what stands at an edge, and what is said of it where somebody points at it."""
    if not edge.values:
        return "", f"{edge.target} follows {edge.source}"
    known = [flow.sizes[edge.source, name] for name in edge.values
             if (edge.source, name) in flow.sizes]  # fmt: skip
    names = ", ".join(edge.values)
    if len(names) > _LABEL and len(edge.values) > 1:
        names = f"{edge.values[0]} + {len(edge.values) - 1}"
    each = [
        f"{name} ({size(flow.sizes[edge.source, name])})" if (edge.source, name) in flow.sizes
        else name for name in edge.values
    ]  # fmt: skip
    total = f" · {size(sum(known))}" if len(known) == len(edge.values) else ""
    whole = f"{edge.target} gets {', '.join(each)} from {edge.source}"
    return visible(names, _LABEL) + total, visible(whole, 400)


def _box(one: NodeView, place: Point, *, served: bool) -> Node:
    left, top = place[0] - NODE_WIDTH / 2, place[1] - NODE_HEIGHT / 2
    wide, high = NODE_WIDTH - 2 * _ROUND, NODE_HEIGHT - 2 * _ROUND
    corner = f"a{_ROUND},{_ROUND} 0 0 1"
    box = (
        f"M{left + _ROUND:.1f},{top:.1f}h{wide}{corner} {_ROUND},{_ROUND}v{high}"
        f"{corner} -{_ROUND},{_ROUND}h-{wide}{corner} -{_ROUND},-{_ROUND}v-{high}"
        f"{corner} {_ROUND},-{_ROUND}z"
    )
    name, below = visible(one.name, _NAME), f"{top + 36:.1f}"
    mark = _GLYPHS[one.state or NodeState.WAITING.value] if one.state else ""
    ticks = {"data_ticks": f"{one.seconds:.3f}"} if one.ticking and one.seconds is not None else {}
    does = "opens its log" if one.job else "goes to its cell"
    said = [one.name, one.word, one.cells, one.needs, one.condition, *one.gets, one.error]
    words = visible(", ".join(filter(None, said)), 900)
    acts = {
        "role": "button", "tabindex": "0", "data_action": "flow-node", **_data(one),
        "aria_label": f"{words}; {does}",
    } if served else {}  # fmt: skip
    x = f"{left + 12:.1f}"
    facts = [one.cells if len(one.cells) <= _NAME else f"{one.cells[: _NAME - 1]}…", one.needs]
    return node(
        "g", f"node smc-{one.kind}",
        node("path", "box", d=box),
        node("text", "name", f"{mark} {name}".strip(), x=x, y=f"{top + 19:.1f}"),
        node("text", "facts", " · ".join(filter(None, facts)), x=x, y=below),
        node("text", "time", one.time, x=f"{left + NODE_WIDTH - 10:.1f}", y=below, **ticks)
        if one.time else None,
        node("title", "", words + (f"\nClick {does}" if served else "")),
        data_state=one.state, **acts,
    )  # fmt: skip


def _data(one: NodeView) -> dict[str, str]:
    return {
        "data_job": one.job,
        "data_name": one.name,
        "data_cell": one.cell[0],
        "data_number": str(one.cell[1]),
    }


def _table(flow: FlowView, *, served: bool) -> Node:
    heads = ("Node", "State", "Time", "Cell", "Gets", "Log")
    ran = flow.run != ""
    shown = [head for head in heads if ran or head not in ("State", "Time", "Log")]
    rows = [
        node("tr", "", *(cell for head, cell in zip(heads, _cells_of(one, served), strict=True)
                         if head in shown), data_state=one.state)
        for one in flow.nodes
    ]  # fmt: skip
    head = node("tr", "", *(node("th", "", title, scope="col") for title in shown))
    table = node("table", "table", node("thead", "", head), node("tbody", "", *rows))
    summary = node("summary", "", node("strong", "label", "Nodes"), " ",
                   node("span", "quiet", _counted(flow)))  # fmt: skip
    return node("details", "nodes", summary, node("div", "scroll", table), open="")


def _cells_of(one: NodeView, served: bool) -> tuple[Node, ...]:  # noqa: FBT001 - as its callers have it
    ticks = {"data_ticks": f"{one.seconds:.3f}"} if one.ticking and one.seconds is not None else {}
    name = visible(one.name, 64)
    cell: Node | str = one.cells
    log: Node | str = visible(one.job, 40)
    if served:
        data = _data(one)
        cell = _button("flow-cell", one.cells, "trial", title="Go to the cell", **data)
        log = _button("flow-log", "Log", "trial", title=f"The log of job {log}",
                      aria_label=f"The log of {name}", **data) if one.job else ""  # fmt: skip
    what = " · ".join(filter(None, (one.needs, one.condition)))
    return (
        node("td", "", node("span", "name", name), f" {what}" if what else None),
        node("td", "", one.word),
        node("td", "", node("span", "", one.time, **ticks)),
        node("td", "", cell),
        node("td", "", visible("; ".join(one.gets), 200)),
        node("td", "", log),
    )


def _counted(flow: FlowView) -> str:
    if not flow.run:
        jobs = sum(one.kind != CELL for one in flow.nodes)
        plain = len(flow.nodes) - jobs
        return f"{count(jobs, 'job')}" + (f", {count(plain, 'node')} of plain cells" * bool(plain))
    states = [one.state for one in flow.nodes]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))


# The card in a notebook, and for terminals.


def flow_text(flow: FlowView) -> str:
    """Return the card of `flow` as plain text."""
    head = f"{_GLYPHS[flow.state]} flow {flow.name}: {flow.word}"
    run = f" (run {visible(flow.run, 60)})" if flow.run else ""
    errors = [
        f"{visible(one.name, 64)}: {one.error}" for one in flow.nodes
        if one.error and one.state == NodeState.FAILED.value
    ]  # fmt: skip
    return "\n".join((head + run, *flow.notes, *errors[:_ERRORS], flow.text))


def flow_bundle(flow: FlowView) -> dict[str, Any]:
    """Return the card of `flow` for a cell: for our page's extension, as HTML, as plain text."""
    root = flow_tree(flow)
    attributes = dict(root.attributes)
    if frontend.current.white:
        attributes["class"] += " smc-light"
    html = serialise(Node(root.tag, attributes, root.children)).replace("\n", "&#10;")
    tree = json.dumps(root.to_json(), ensure_ascii=False, separators=(",", ":"))
    return {
        FLOW_TYPE: {"version": 1, "folder": flow.folder, "run": flow.run, "tree": tree},
        "text/html": f"<style>{style()}</style>{html}",
        "text/plain": flow_text(flow),
    }
