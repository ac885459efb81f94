"""The card in a page that a server feeds: what a reader can do, failing lines, stacks, curves.

The page draws this tree as it is. What the reader does changes the elements that are named here
(``data-slot`` and ``data-action``), so that a page knows the names alone, and no structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from submarine_engine.amounts import count
from submarine_engine.job import TaskState

from submarine_magics.card import tree
from submarine_magics.card.model import CardView
from submarine_magics.card.nodes import Node, node
from submarine_magics.card.trying import Trying, try_node
from submarine_magics.card.words import visible, visible_lines

if TYPE_CHECKING:
    from submarine_engine.stacks import Group, Stacks, Thread

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT, _EDGE = 120, 26, 2
_CURVES = 8
_TINY, _HUGE = 1e-3, 1e6
_PLACES = 32
_STEPS = 40
_THREADS = 20_000
"""Characters of the threads of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What a server knows of a job besides its card.

    Parameters
    ----------
    frames
        Of the error of a failed job, each with ``cell``, ``cell_id``, ``line``, ``function`` and
        ``text``.
    scalars
        What was measured, by name: pairs of step and value, finite numbers alone.
    tensorboard
        Whether TensorBoard has something to show, or the job asked for one.
    can_save
        Whether the model can be saved now.
    trying
        How to try the model that the job serves; None for all other jobs.
    notebook
        Whether it serves a notebook that can be opened now.
    """

    frames: Sequence[Mapping[str, Any]] = ()
    scalars: Mapping[str, Points] = field(default_factory=dict)
    tensorboard: bool = False
    can_save: bool = False
    trying: Trying | None = None
    notebook: bool = False


def served_tree(card: CardView, extras: Extras | None = None) -> Node:
    """Return the whole card for a page that can do something with the job.

    Parameters
    ----------
    card
        What any card of it shows.
    extras
        What the server knows besides; None for nothing.
    """
    more = extras or Extras()
    root = tree.card_tree(card, served=True)
    head, facts, sentence, *below = root.children
    progress, *rest = below
    where = card.log_path or "the job's folder"
    attributes = {
        **root.attributes,
        # Keys are the card's while it has the focus, which a click gives it: Enter presses its
        # button, and a slip of `d d` does not delete the cell of a job that runs.
        "tabindex": "-1",
        "data-lm-suppress-shortcuts": "true",
    }
    children = (
        _with_actions(head, card, more),
        facts,
        _form() if more.can_save else None,
        _slot("div", "error", "problem", role="alert"),
        sentence,
        _slot("div", "sentence", "remembered"),
        _frames(more.frames) if more.frames else None,
        progress,
        try_node(more.trying) if more.trying and not card.final else None,
        # Of a sweep they are its trials': each is drawn where it is opened.
        _curves(more.scalars) if card.sweep is None else None,
        *rest,
        tree.script_tree(card.script, where, data_kept="") if card.script else None,
        tree.footer_tree(card),
        _slot("div", "note", "note", role="status"),
    )
    return Node(root.tag, attributes, children)


def _slot(tag: str, style: str, name: str, **attributes: str) -> Node:
    """Make an element that is not there until the page has something to say in it."""
    return node(tag, style, "", data_slot=name, hidden="", **attributes)


def _button(action: str, text: str, style: str = "button", **attributes: str) -> Node:
    return node("button", style, text, type_="button", data_action=action, **attributes)


def _with_actions(head: Node | str | None, card: CardView, more: Extras) -> Node:
    """Put what the reader can do in front of the links, which are in the head's last part."""
    assert isinstance(head, Node)  # noqa: S101 - for the type checker
    *words, links = head.children
    assert isinstance(links, Node)  # noqa: S101 - likewise
    board = _button("tensorboard", "TensorBoard", title="Look at the scalars in TensorBoard")
    page = node(
        "a", "log", "Job page", title=card.log_command, target="_blank",
        rel="noopener noreferrer", data_slot="page", hidden="",
    )  # fmt: skip
    runs = any(task.state == TaskState.RUNNING.value for task in card.tasks)
    runs = runs and not card.final
    actions = (
        _button("notebook", "Open notebook", title="Open its page, through Jupyter's server")
        if more.notebook
        else None,
        _button("log", "Log", aria_expanded="false"),
        _button("stacks", "Stacks", title="See where each task stands now: cell and line")
        if runs
        else None,
        _button("terminal", "Terminal", title="Open a shell inside the job") if runs else None,
        board if more.tensorboard else None,
        _button("save", "Save model…", aria_expanded="false") if more.can_save else None,
        *((_again(card), None) if card.final else _ends(card)),
        None if card.log_url else page,
    )
    return Node(
        head.tag,
        head.attributes,
        (*words, Node(links.tag, links.attributes, (*actions, *links.children))),
    )


def _again(card: CardView) -> Node:
    """Make the button of a result that was not computed anew, which the page alone knows of."""
    return _button(
        "again", "Run again", hidden="", aria_label=f"Run the cell of job {card.title} again",
        title="Run the cell as a job, and remember the new result",
    )  # fmt: skip


def _ends(card: CardView) -> tuple[Node, Node]:
    cancel = tree.cancel_button(card)
    assert cancel is not None  # noqa: S101 - for the type checker: the job is not over
    kill = _button(
        "kill", "Kill…", "cancel", aria_label=f"Kill job {card.title}",
        title="Stop it gently or kill it now; asks first",
    )  # fmt: skip
    return cancel, kill


def _form() -> Node:
    path = node(
        "input", "path", type_="text", name="path", required="", placeholder="models/digits",
        aria_label="Path to save the model to", spellcheck="false",
    )  # fmt: skip
    return node(
        "form", "save",
        path, " ",
        node("button", "button", "Save", type_="submit", data_slot="saves"), " ",
        _slot("span", "sentence", "saved", role="status"),
        _slot("span", "error", "unsaved", role="alert"),
        data_slot="form", hidden="", aria_label="Save the model",
    )  # fmt: skip


def _frames(frames: Sequence[Mapping[str, Any]]) -> Node:
    why = _slot("div", "quiet", "jump", role="status")
    return node("div", "failure", node("ol", "frames", *map(_frame, frames)), why)


def _frame(frame: Mapping[str, Any]) -> Node:
    place = f"{frame['cell']}, line {frame['line']}"
    inside = f", in {name}" if (name := frame["function"]) not in ("", "<module>") else ""
    where = node("span", "frame", place)
    if frame["cell_id"]:
        where = _button(
            "jump", place, "frame", title="Go to this line", data_cell=frame["cell_id"],
            data_line=str(frame["line"]), data_named=frame["cell"],
        )  # fmt: skip
    return node("li", "", where, node("span", "in", inside), node("code", "", frame["text"]))


# Where the tasks of a running job stand, side by side.


def stacks_tree(stacks: Stacks) -> Node:
    """Return the places of tasks in `stacks`, the odd one first; one on the next to another."""
    groups = stacks.groups
    left = len(groups) - _PLACES
    more = node("div", "quiet", f"… {count(left, 'place')} more") if left > 0 else None
    if not groups:
        return node("div", "places", node("div", "quiet", "No task runs now"))
    return node("div", "places", *map(_place, groups[:_PLACES]), more)


def _place(group: Group) -> Node:
    first = group.tasks[0]
    steps = first.threads[0].own[-_STEPS:] if first.threads else ()
    frames = [
        _frame(
            {
                "cell": visible(step.cell, 100),
                "cell_id": "",
                "line": step.line,
                "function": visible(step.function, 100),
                "text": visible(step.text, 400),
            }
        )
        for step in steps
    ]
    # Frames tell the place, but for what stands in a library below them.
    last = first.threads[0].steps[-1] if steps else None
    at = visible(first.place, 400)
    if last is not None:
        at = "" if last.own else f"→ {visible(last.function, 100)}"
    threads = None
    if first.threads:
        text = visible_lines("\n".join(_threads(first.threads)), _THREADS)
        of_whom = f" of {visible(first.task, 30)}" if len(group.tasks) > 1 else ""
        summary = node("summary", "quiet", f"{count(len(first.threads), 'thread')}{of_whom}")
        threads = node("details", "", summary, node("pre", "code", text, tabindex="0"))
    return node(
        "div", "place",
        node("div", "", node("strong", "label", visible(group.names, 200))),
        node("ol", "frames", *frames) if frames else None,
        node("div", "at", at) if at else None,
        threads,
    )  # fmt: skip


def _threads(threads: Sequence[Thread]) -> Iterator[str]:
    for number, thread in enumerate(threads):
        yield "main thread:" if number == 0 else "another thread:"
        yield from (f"  {step}" for step in thread.steps)


# Scalars of a training as small curves.


def _curves(scalars: Mapping[str, Points]) -> Node | None:
    found = [(name, points) for name, points in scalars.items() if points]
    if not found:
        return None
    left = len(found) - _CURVES
    more = node("li", "quiet", f"… {left} more") if left > 0 else None
    curves = [_curve(visible(name, 100), points) for name, points in found[:_CURVES]]
    return node("ul", "scalars", *curves, more, aria_label="scalars", data_kept="")


def _curve(name: str, points: Points) -> Node:
    step, value = points[-1]
    drawn = corners(points)
    x, y = drawn[-1]
    picture = node(
        "svg", "curve",
        Node("polyline", {"points": " ".join(f"{px:.1f},{py:.1f}" for px, py in drawn)}),
        Node("circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "2"}),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width=f"{_WIDTH}px", aria_hidden="true",
    )  # fmt: skip
    now, first = measured(value), measured(points[0][1])
    return node(
        "li", "scalar",
        node("span", "tag", name), picture, node("span", "value", now),
        title=f"{name}: {now} at step {step:,}, from {first}",
    )  # fmt: skip


def corners(points: Points) -> list[tuple[float, float]]:
    """Return the corners of the curve of `points` in an area of 120 by 26."""
    first, steps = _range([step for step, _ in points])
    low, height = _range([value for _, value in points])
    wide, high = _WIDTH - 2 * _EDGE, _HEIGHT - 2 * _EDGE
    return [
        (
            _EDGE + ((step / 2 - first) / steps if steps else 1.0) * wide,
            _HEIGHT - _EDGE - ((value / 2 - low) / height if height else 0.5) * high,
        )
        for step, value in points
    ]


def _range(values: Sequence[float]) -> tuple[float, float]:
    # Of the halves: the difference of two huge values may be no number any more.
    low = min(values) / 2
    return low, max(values) / 2 - low


def measured(value: float) -> str:
    """Return `value`, a finite number, in few digits: ``0.25``, ``1.20e-5``."""
    if value and not _TINY <= abs(value) < _HUGE:
        mantissa, power = f"{value:.2e}".split("e")
        return f"{mantissa}e{int(power):+d}"
    return f"{float(f'{value:.4g}'):.10g}"
