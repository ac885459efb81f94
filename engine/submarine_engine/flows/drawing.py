"""A flow as text: its nodes in their order, and on each edge what travels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from submarine_engine.flows.model import ALL_SUCCESS, CELL, Flow, Node


def drawn(flow: Flow, notes: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the lines of a drawing.

    Parameters
    ----------
    flow
        What to draw.
    notes
        What stands behind each node, by name; what it runs unless given.
    """
    about = [flow.name, flow.notebook, flow.schedule and f"at {flow.schedule}"]
    yield "  ".join(filter(None, about))
    for one in flow.parameters:
        yield f"  {one.name} = {one.default!r}"
    width = max(len(node.name) for node in flow.nodes)
    for node in flow.order:
        yield ""
        mark = "○" if node.kind == CELL else "●"
        note = (notes or {}).get(node.name) if notes is not None else _runs(node, flow)
        yield f"{mark} {node.name:<{width}}  {note or ''}".rstrip()
        yield from _edges(node)


def _runs(node: Node, flow: Flow) -> str:
    labels = {cell.number: cell.label for cell in flow.cells}
    cells = ", ".join(labels[number] for number in node.cells)
    options = " ".join(node.options)
    condition = "" if node.condition == ALL_SUCCESS else f"when {node.condition}"
    return "  ".join(filter(None, (cells, options, condition)))


def _edges(node: Node) -> Iterator[str]:
    follows = node.follows
    for name in follows:
        last = name == follows[-1]
        values = ", ".join(read.name for read in node.reads if read.node == name)
        yield f"  {'└' if last else '├'}── {values or 'after'} ◂── {name}"
