"""The card as a tree of elements: one structure for HTML, the live widget and plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import Any

from submarine_engine.amounts import UNKNOWN, percent

from submarine_magics import frontend
from submarine_magics.card.model import (
    FEW_TASKS,
    CardView,
    ScriptView,
    Stage,
    SweepView,
    TaskView,
    TrialView,
    web_address,
)

Points = Sequence[tuple[float, float]]

_NAMED = 2
_BLOCKS = "▁▂▃▄▅▆▇█"
FEW_TRIALS = 5
"""How many of the best and of the newest trials stand in text."""

# The card as plain text: for terminals, for what a program reads, for a saved notebook's diff.


def to_text(card: CardView) -> str:
    """Return the card in a few lines, the most important one first.

    What differs from run to run stands in two of them, so that a notebook that was run again
    differs in little.
    """
    facts = " · ".join((*card.facts, card.log_command))
    lines = [f"{card.glyph} {card.title}: {card.word}, {card.elapsed_text} ({facts})"]
    lines += [f"  {'⚠ ' * card.warning}{card.sentence}"] if card.sentence else []
    if card.progress is not None and not card.final:
        lines.append(f"  {bar(card.progress)} {percent(card.progress)} {card.message}".rstrip())
    if card.sweep:
        lines += [f"  {line}" for line in sweep_lines(card.sweep)]
    else:
        lines.append(f"  GPU ledger: {ledger_words(card)}")
    shown = card.tasks if not card.sweep else ()
    if len(shown) > FEW_TASKS:
        lines.append(f"  {len(card.tasks) + card.tasks_left_out} tasks: {tasks_words(card)}")
        shown = tuple(task for task in shown if task.state == "failed")[:FEW_TASKS]
    lines += [f"  {task_words(task)}" for task in shown]
    lines += [f"  {label}: {url}" for label, url in (*card.links, *card.quicklinks)]
    if card.script:
        lines.append(f"  script: {card.script.name}, {card.script.lines}, {card.script.hash[:12]}")
    return "\n".join(lines)


def ledger_words(card: CardView) -> str:
    """Return the ledger as one sentence."""
    stages = [f"{stage.name} {stage.text}" for stage in card.ledger.stages]
    return ", ".join(filter(None, (card.ledger.gpus, *stages, card.ledger.released)))


def task_words(task: TaskView) -> str:
    """Return a task as one sentence."""
    state = f"{task.state} ({task.detail})" if task.detail else task.state
    done = "" if task.progress is None else f", {percent(task.progress)}"
    return f"{task.task} on {task.host}: {state}{done}"


def sweep_lines(sweep: SweepView) -> list[str]:
    """Return what a sweep has found, a line each."""
    drawn = f" {blocks(sweep.holding)}" if len(sweep.holding) > _NAMED else ""
    lines = [
        f"best: {sweep.best}{f': {sweep.params}' if sweep.params else ''}",
        f"trials: {sweep.trials}",
        f"held: {sweep.held}{drawn}",
    ]
    newest = sweep.newest_rows[:FEW_TRIALS]
    best = sweep.best_rows[:FEW_TRIALS] if newest else sweep.best_rows
    for title, rows in ((f"best {len(best)}" if newest else "", best), ("newest", newest)):
        if rows:
            cells = [sweep.columns, *(row.cells for row in rows)]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            lines += [f"{title}:"] if title else []
            lines += [
                "  ".join(
                    f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)
                ).rstrip()
                for row in cells
            ]
    return [*lines, f"all of them: {sweep.command}"] if sweep.command else lines


def blocks(holding: Points, width: int = 24) -> str:
    """Return how many were held over time, as a row of characters."""
    last, most = holding[-1][0], max(number for _, number in holding)
    at, drawn = 0, []
    for place in range(width):
        while at + 1 < len(holding) and holding[at + 1][0] <= (place + 0.5) / width * last:
            at += 1
        drawn.append(_BLOCKS[round(holding[at][1] / most * (len(_BLOCKS) - 1)) if most else 0])
    return "".join(drawn)


def bar(fraction: float, width: int = 20) -> str:
    """Return a bar of characters."""
    full = int(fraction * width)
    return "█" * full + "░" * (width - full)


# The card as a tree of elements: one structure, for the static HTML and for the live widget.
#
# A tree holds elements, a few attributes and text, never markup: `tree` escapes it into HTML, and
# ``tree.js`` builds it from text nodes.


@dataclass(frozen=True, slots=True)
class Node:
    """An element.

    Parameters
    ----------
    attributes
        ``data-ticks`` holds the seconds that a running time shows, ``grow`` and ``width`` become
        style, the others are HTML's.
    children
        Elements and text; None keeps the place of an element that is not there now.
    """

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: tuple[Node | str | None, ...] = ()

    def to_json(self) -> list[Any]:
        """Return ``[tag, attributes, [child, …]]``, the form that ``tree.js`` reads."""
        children = [
            child.to_json() if isinstance(child, Node) else child or "" for child in self.children
        ]
        return [self.tag, self.attributes, children]


def node(tag: str, style: str, *children: Node | str | None, **attributes: str) -> Node:
    """Make an element with the class ``smc-STYLE``; ``_`` in attributes' names stands for ``-``."""
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    return Node(tag, {"class": f"smc-{style}", **named} if style else named, children)


def card_tree(card: CardView, *, live: bool = False, opened: bool = False) -> Node:
    """Return the whole card without its script.

    Parameters
    ----------
    live
        Whether to add the button that cancels.
    opened
        Whether the table of tasks is open however many there are.
    """
    return Node(
        "div",
        {
            "class": "submarine-card tex2jax_ignore",  # MathJax makes links of a log's \href
            "data-state": card.state,
            "role": "group",
            "aria-label": f"Submarine job {card.title}",
        },
        (
            _head(card, live=live),
            _facts(card),
            _sentence(card),
            _progress(card),
            _sweep(card.sweep, opened=opened or not card.final) if card.sweep else _ledger(card),
            _tasks(card, opened=opened) if not card.sweep else None,
        ),
    )


def script_tree(script: ScriptView, where: str, **attributes: str) -> Node:
    """Return the script, folded in; `where` says how to see the whole of it."""
    summary = node(
        "summary", "",
        node("strong", "label", "Script"), " ",
        node("span", "quiet", f"{script.name} · {script.lines} · "),
        node("code", "quiet", script.hash[:12], title=f"sha256 of the bundle: {script.hash}"),
    )  # fmt: skip
    left_out = node("div", "quiet", f"{script.left_out}: {where}") if script.left_out else None
    code = node("pre", "code", node("code", "", script.text), tabindex="0")
    return node("details", "script", summary, code, left_out, **attributes)


def footer_tree(card: CardView) -> Node:
    """Return where the log is when its page is gone."""
    path = node("span", "path", f" · {card.log_path}") if card.log_path else None
    command, which = card.log_command, None
    if len(card.tasks) > 1:  # the cell shows that of rank 0 unless told otherwise
        failed = (task.task for task in card.tasks if task.state == "failed")
        task = next(failed, card.tasks[-1].task)
        which = node("span", "", " (one task's: ", node("code", "", f"--task {task}"), ")")
    return node("div", "foot", "log in a terminal: ", node("code", "", command), which, path)


def _head(card: CardView, *, live: bool) -> Node:
    word = f" {card.word}{'…' if card.state == 'cancelling' else ''}"
    glyph = node("span", "glyph", card.glyph, aria_hidden="true")
    state = node("strong", "state", glyph, word, role="status")
    elapsed = node("span", "elapsed", card.elapsed_text, title="since submission", **_ticks(card))
    links = []
    if card.log_url:
        links.append(_link("log", card.log_label, card.log_url, card.log_command))
    links += [_link("link", label, url, url) for label, url in card.quicklinks]
    spaced = [part for link in links for part in (link, " ")]
    actions = node("span", "actions", *spaced, cancel_button(card) if live else None)
    return node(
        "div", "head", state, " ", node("strong", "title", card.title), " ", elapsed, " ", actions
    )


def _facts(card: CardView) -> Node:
    links = [part for label, url in card.links for part in (" · ", _link("link", label, url, url))]
    return node("div", "facts", " · ".join(card.facts), *links)


def _ticks(part: CardView | Stage) -> dict[str, str]:
    seconds = part.elapsed if isinstance(part, CardView) else part.seconds
    return {"data_ticks": f"{seconds:.3f}"} if part.ticking else {}


def _link(style: str, label: str, url: str, title: str) -> Node:
    return node(
        "a", style, label, href=url, title=title, target="_blank", rel="noopener noreferrer"
    )


def cancel_button(card: CardView) -> Node | None:
    """Return the button that cancels; none once the job is over."""
    if card.final:
        return None
    if card.state == "cancelling":
        going = card.word.capitalize()
        return node("button", "cancel", f"{going}…", type_="button", disabled="")
    label = f"Cancel job {card.title}"
    return node(
        "button", "cancel", "Cancel", type_="button", data_action="cancel", aria_label=label
    )


def _sentence(card: CardView) -> Node | None:
    if not card.sentence:
        return None
    if card.warning:
        sign = node("span", "sign", "⚠", aria_hidden="true")
        return node("div", "warning", sign, " ", node("span", "", card.sentence), role="status")
    return node("div", "error" if card.error else "sentence", card.sentence)


def _progress(card: CardView) -> Node | None:
    if card.progress is None or card.final:
        return None
    words = " ".join((percent(card.progress), card.message)).strip()
    fill = node("span", "fill", width=f"{card.progress:.1%}")
    track = node(
        "span", "track", fill, role="progressbar", aria_label="progress", aria_valuemin="0",
        aria_valuemax="100", aria_valuenow=f"{card.progress * 100:.0f}", aria_valuetext=words,
    )  # fmt: skip
    return node("div", "progress", track, " ", node("span", "words", words))


def _ledger(card: CardView) -> Node:
    ledger = card.ledger
    label = node("div", "line", node("strong", "label", "GPU ledger"), " ",
                 node("span", "quiet", ledger.gpus))  # fmt: skip
    if not ledger.stages:
        return node("div", "ledger", label)
    segments = [
        node(
            "span", f"segment smc-{stage.name}", grow=f"{stage.seconds * 1000:.0f}", **_ticks(stage)
        )
        for stage in ledger.stages
    ]
    freed = ledger.released.startswith("released")
    end = node("span", "segment smc-released") if freed else None
    stack = node("div", "stack", *segments, end, role="img", aria_label=ledger_words(card))
    last = node("li", "released" if freed else "note", ledger.released) if ledger.released else None
    return node(
        "div", "ledger", label, stack, node("ul", "stages", *map(_stage, ledger.stages), last)
    )


def _stage(stage: Stage) -> Node:
    time = node("span", "time", stage.text, **_ticks(stage))
    return node("li", stage.name, f"{stage.name} ", time, title=stage.meaning)


def _tasks(card: CardView, *, opened: bool) -> Node | None:
    if not card.tasks:
        return None
    summary = node("summary", "", node("strong", "label", "Tasks"), " ",
                   node("span", "quiet", tasks_words(card)))  # fmt: skip
    with_gpus = len(card.tasks) > 1 and card.ledger.stages != ()
    columns = [title for title in _COLUMNS if title != "GPUs" or with_gpus]
    head = node("tr", "", *(node("th", "", title, scope="col") for title in columns))
    rows = [_row(task, with_gpus=with_gpus) for task in card.tasks]
    table = node("table", "table", node("thead", "", head), node("tbody", "", *rows))
    more = node("div", "quiet", f"… {card.tasks_left_out:,} more") if card.tasks_left_out else None
    is_open = {"open": ""} if opened or len(card.tasks) <= FEW_TASKS else {}
    return node("details", "tasks", summary, node("div", "scroll", table), more, **is_open)


_COLUMNS = ("Role", "Id", "Host", "GPUs", "State", "Start", "Finish", "Progress")


def tasks_words(card: CardView) -> str:
    """Return how many tasks are in which state, and where those are that failed."""
    failed = [f"{task.task} on {task.host}" for task in card.tasks if task.state == "failed"]
    many = len(card.tasks) > FEW_TASKS and failed
    where = f" ({', '.join(failed[:_NAMED])}{', …' if len(failed) > _NAMED else ''})"
    return ", ".join(
        f"{number} {state}{where if many and state == 'failed' else ''}"
        for state, number in card.task_states
    )


def _row(task: TaskView, *, with_gpus: bool) -> Node:
    state = f"{task.state} ({task.detail})" if task.detail else task.state
    progress = UNKNOWN if task.progress is None else percent(task.progress)
    named = _link("link", task.task, task.log_url, "its log") if task.log_url else task.task
    gpus = (task.gpus,) if with_gpus else ()
    cells = (task.role, named, task.host, *gpus, state, task.started, task.finished, progress)
    return node("tr", "", *(node("td", "", cell) for cell in cells), data_state=task.state)


# What a sweep has found: the best so far, two small pictures, and the trials that tell the most.


_HISTORY = 240, 56
_SPARK = 120, 20
_EDGE = 3


def _sweep(sweep: SweepView, *, opened: bool) -> Node:
    best = node(
        "div", "line", node("strong", "label", "Best"), " ",
        node("span", "", sweep.best), " ", node("code", "quiet", sweep.params),
        role="status",
    )  # fmt: skip
    held = node(
        "div", "line", node("strong", "label", "Held"), " ", node("span", "quiet", sweep.held),
        " ", _spark(sweep),
    )  # fmt: skip
    return node(
        "div", "sweep", best, _history(sweep), held,
        _trials("Trials", sweep.trials, sweep, sweep.best_rows, is_open=True),
        _trials("Newest", "trials", sweep, sweep.newest_rows, is_open=opened)
        if sweep.newest_rows else None,
        node("div", "quiet", "all of them: ", node("code", "", sweep.command))
        if sweep.command else None,
    )  # fmt: skip


def _trials(
    title: str, words: str, sweep: SweepView, rows: Sequence[TrialView], *, is_open: bool
) -> Node:
    # A column in which nothing stands only takes room.
    shown = [at for at in range(len(sweep.columns)) if any(row.cells[at] for row in rows)]
    best = f" · the best {len(rows)}" if sweep.newest_rows and rows is sweep.best_rows else ""
    summary = node("summary", "", node("strong", "label", title), " ",
                   node("span", "quiet", f"{words}{best}"))  # fmt: skip
    head = node("tr", "", *(node("th", "", sweep.columns[at], scope="col") for at in shown))
    body = [
        node("tr", "", *(node("td", "", row.cells[at]) for at in shown), data_state=row.state)
        for row in rows
    ]
    table = node("table", "table", node("thead", "", head), node("tbody", "", *body))
    inside = node("div", "scroll", table) if rows else None
    return node("details", "trials", summary, inside, **({"open": ""} if is_open else {}))


def _history(sweep: SweepView) -> Node | None:
    """Return the picture of values by trial: a dot each, and a line of the best by then."""
    if len(sweep.history) < _NAMED:
        return None
    place = _placed([*sweep.history, *sweep.improved], _HISTORY)
    dots = [
        Node("circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "1.6"})
        for x, y in map(place, sweep.history)
    ]
    last = sweep.history[-1][0]
    steps = _steps([*sweep.improved, (last, sweep.improved[-1][1])]) if sweep.improved else []
    line = Node("polyline", {"points": _corners(map(place, steps))})
    picture = _picture("history", _HISTORY, sweep.history_words, *dots, line)
    return node("div", "picture", picture, " ", node("span", "quiet", sweep.history_words))


def _spark(sweep: SweepView) -> Node | None:
    """Return the picture of how many were held over time."""
    if len(sweep.holding) < _NAMED:
        return None
    place = _placed([(0.0, 0.0), *sweep.holding], _SPARK)
    line = Node("polyline", {"points": _corners(map(place, _steps(sweep.holding)))})
    most = max(number for _, number in sweep.holding)
    return _picture("spark", _SPARK, f"held over time, {most:.0f} at most", line)


def _picture(style: str, size: tuple[int, int], words: str, *drawn: Node) -> Node:
    box, width = f"0 0 {size[0]} {size[1]}", f"{size[0]}px"
    return node("svg", style, *drawn, viewBox=box, width=width, role="img", aria_label=words)


def _corners(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _steps(points: Points) -> list[tuple[float, float]]:
    """Return the corners of a line that keeps each value until the next one."""
    corners = list(points[:1])
    for (_, before), (x, y) in pairwise(points):
        corners += [(x, before), (x, y)]
    return corners


def _placed(
    points: Points, size: tuple[int, int]
) -> Callable[[tuple[float, float]], tuple[float, float]]:
    """Return what brings values into a picture that holds all of `points`."""
    # Of the halves: the difference of two huge values may be no number any more.
    halves = [(x / 2, y / 2) for x, y in points]
    left, low = (min(column) for column in zip(*halves, strict=True))
    wide, high = (
        max(column) - least
        for column, least in zip(zip(*halves, strict=True), (left, low), strict=True)
    )

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x = (point[0] / 2 - left) / wide if wide else 1.0
        y = (point[1] / 2 - low) / high if high else 0.5
        return _EDGE + x * (size[0] - 2 * _EDGE), size[1] - _EDGE - y * (size[1] - 2 * _EDGE)

    return place


# The card as static HTML: self-contained, no script, readable even where its style is taken away.
#
# GitHub and untrusted notebooks strip ``<style>`` and most attributes: what is left are lines of
# text in a sensible order, a table and two foldable parts.


# Words in a row are easier to read than a list of strings.
TAGS = frozenset(
    "a button caption circle code details div li polyline pre span "  # noqa: SIM905 - as said above
    "strong summary svg table tbody td th thead tr ul".split()
)
ATTRIBUTES = frozenset(
    "class title href target rel role scope open tabindex type disabled "  # noqa: SIM905
    "viewBox points cx cy r".split()
)


def to_html(card: CardView, note: str = "", *, styled: bool = True, opened: bool = False) -> str:
    """Return the card with its script and where its log is, in one line.

    Parameters
    ----------
    note
        For the reader.
    styled
        Whether the style comes along: the cards of one page need it once.
    opened
        As for `card_tree`.
    """
    root = card_tree(card, opened=opened)
    script = script_tree(card.script, card.log_path or "the job's folder") if card.script else None
    notes = ". ".join(filter(None, (card.as_of, note)))
    last = Node("div", {"class": "smc-foot"}, (notes,)) if notes else None
    attributes = dict(root.attributes)
    if frontend.current.white:
        attributes["class"] += " smc-light"
    whole = Node(root.tag, attributes, (*root.children, script, footer_tree(card), last))
    text = serialise(whole).replace("\n", "&#10;")  # a saved card that differs differs in a line
    return f"<style>{style()}</style>{text}" if styled else text


_IMPORT = re.compile(r'^import \{.*\} from "\./(\w+\.js)";\n', re.MULTILINE)


@cache
def style() -> str:
    """Return the card's style sheet, the same for the static card and the live one."""
    return _read("card.css")


@cache
def page_style(name: str = "") -> str:
    """Return the style sheet of all pages of a job, with that of one of them."""
    return _read("page.css") + (_read(name) if name else "")


@cache
def module(name: str) -> str:
    """Return a script of the card as one module: what it imports stands in front of it."""
    parts: dict[str, str] = {}
    _gather(name, parts)
    return "".join(parts.values())


def _gather(name: str, parts: dict[str, str]) -> None:
    text = _read(name)
    for other in _IMPORT.findall(text):
        if other not in parts:
            _gather(other, parts)
    parts[name] = _IMPORT.sub("", text)


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def serialise(part: Node | str | None) -> str:
    """Return `part` as HTML, less the tags, attributes and addresses that no card has."""
    if part is None:
        return ""
    if isinstance(part, str):
        return escape(part.encode("utf-8", "replace").decode(), quote=False)
    tag = part.tag if part.tag in TAGS else "span"
    inside = "".join(map(serialise, part.children))
    return f"<{tag}{_attributes(part)}>{inside}</{tag}>"


def _attributes(part: Node) -> str:
    styles = {"grow": "flex-grow", "width": "width"}
    found = []
    for name, value in part.attributes.items():
        if name in styles:
            found.append(("style", f"{styles[name]}:{value}"))
        elif name == "href":
            found += [("href", value)] if web_address(value) else []
        elif name in ATTRIBUTES or name.startswith(("aria-", "data-")):
            found.append((name, value))
    return "".join(f' {name}="{escape(value)}"' if value else f" {name}" for name, value in found)
