"""A sweep as its card shows it: the best so far, small pictures, and its trials.

Where a server answers, a reader can look at all trials, sort them, pin two to compare them, and
open one: `Looking` says at what, and `trials_nodes` draws it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from submarine_engine.amounts import percent

from submarine_magics.card.nodes import Node, node
from submarine_magics.card.rows import RowView, SweepView

Points = Sequence[tuple[float, float]]

FEW_TRIALS = 5
"""How many of the best and of the newest trials stand in text."""

_BLOCKS = "▁▂▃▄▅▆▇█"
_NAMED = 2
_HISTORY = 240, 56
_SPARK = 120, 20
_CURVES = 320, 90
_CURVE = 160, 40
_EDGE = 3


# In text, for terminals and for what a program reads.


def sweep_lines(sweep: SweepView) -> list[str]:
    """Return what a sweep has found, a line each."""
    drawn = f" {blocks(sweep.holding)}" if len(sweep.holding) > _NAMED else ""
    lines = [
        f"best: {sweep.best}{f': {sweep.params}' if sweep.params else ''}",
        f"trials: {sweep.trials}",
        f"held: {sweep.held}{drawn}",
    ]
    if sweep.importance:
        lines.append(f"matters most: {importance_words(sweep)}")
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
    """Return how many were held over time, as a row of characters.

    Parameters
    ----------
    holding
        Pairs of seconds since the beginning and how many, each until the next; not empty.
    width
        How many characters.
    """
    last, most = holding[-1][0], max(number for _, number in holding)
    at, drawn = 0, []
    for place in range(width):
        while at + 1 < len(holding) and holding[at + 1][0] <= (place + 0.5) / width * last:
            at += 1
        drawn.append(_BLOCKS[round(holding[at][1] / most * (len(_BLOCKS) - 1)) if most else 0])
    return "".join(drawn)


def importance_words(sweep: SweepView) -> str:
    """Return how much each parameter of `sweep` matters, in words."""
    return ", ".join(f"{name} {percent(part)}" for name, part in sweep.importance)


# As elements.


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """What a reader looks at among the trials of a sweep.

    Parameters
    ----------
    every
        Whether at all trials in one table, else at the best and the newest.
    column, down
        By which column all trials are sorted, and whether the largest come first.
    start
        The first row that is shown of all.
    pins
        The trials that are to be compared, two at most.
    trial
        The one that is open, with its log.
    """

    every: bool = False
    column: int = 0
    down: bool = True
    start: int = 0
    pins: tuple[int, ...] = ()
    trial: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of all trials.

    Parameters
    ----------
    rows
        Those that are shown.
    total
        How many there are.
    size
        How many are on a page.
    """

    rows: tuple[RowView, ...]
    total: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A trial that a reader has opened, or pinned.

    Parameters
    ----------
    row
        What the tables have of it.
    params
        All of its parameters, by name.
    curve
        What it reported by step.
    log
        The end of what it has written; None where nobody has asked.
    left_out
        How many bytes of its log stand before that.
    worker
        The job that ran it last, whose log has all; empty where there is none.
    logdir
        Where it has written events for TensorBoard; empty where it has written none.
    """

    row: RowView
    params: tuple[tuple[str, str], ...]
    curve: tuple[tuple[float, float], ...] = ()
    log: str | None = None
    left_out: int = 0
    worker: str = ""
    logdir: str = ""


def sweep_node(sweep: SweepView, *, opened: bool, served: bool) -> Node:
    """Return what a card shows of a sweep.

    Parameters
    ----------
    opened
        Whether the newest trials are shown.
    served
        Whether a server answers what readers ask of the trials.
    """
    best = node(
        "div", "line", node("strong", "label", "Best"), " ",
        node("span", "", sweep.best), " ", node("code", "quiet", sweep.params),
        role="status",
    )  # fmt: skip
    pictures = node("div", "pictures", _history(sweep), _importance(sweep))
    looking = Looking() if served else None
    return node(
        "div", "sweep", best, pictures, held_node(sweep.held, sweep.holding),
        slot(trials_nodes(sweep, looking, opened=opened)),
        node("div", "quiet", "in a terminal: ", node("code", "", sweep.command))
        if sweep.command else None,
    )  # fmt: skip


def held_node(words: str, holding: Points) -> Node:
    """Return the line that says what a sweep or a map holds.

    Parameters
    ----------
    words
        How much it holds now, or has held at most.
    holding
        How many over time: pairs of seconds since the beginning and number; few have no picture.
    """
    return node(
        "div", "line", node("strong", "label", "Held"), " ", node("span", "quiet", words), " ",
        _spark(holding),
    )  # fmt: skip


def slot(tables: Iterable[Node | None]) -> Node:
    """Return the place of tables that a server draws anew where a reader asks for it."""
    return node("div", "trials-slot", *tables, data_slot="trials")


def rows_table(  # noqa: PLR0913 - what stands above a table, and what in it
    title: str,
    words: str,
    heads: Iterable[Node],
    rows: Sequence[RowView],
    cells: Callable[[RowView], Iterable[Node]],
    *,
    is_open: bool,
) -> Node:
    """Return rows as a table that can be folded; without a row, what it is about.

    Parameters
    ----------
    title
        What the table is called.
    words
        What is said of it beside that.
    heads
        Of the columns.
    cells
        Gives those of a row.
    is_open
        Whether it is unfolded.
    """
    summary = node("summary", "", node("strong", "label", title), " ", node("span", "quiet", words))
    body = [node("tr", "", *cells(row), data_state=row.state) for row in rows]
    table = node(
        "table", "table", node("thead", "", node("tr", "", *heads)), node("tbody", "", *body)
    )
    inside = node("div", "scroll", table) if rows else None
    return node("details", "trials", summary, inside, **({"open": ""} if is_open else {}))


def opener(row: RowView, name: str, looking: Looking) -> Node:
    """Return the first cell of a row, which opens its log.

    Parameters
    ----------
    name
        What the row is, with its number.
    looking
        At what the reader looks.
    """
    return node("td", "", _button(
        "trial", row.cells[0], "trial", data_trial=str(row.number), title=f"The log of {name}",
        aria_expanded=str(looking.trial == row.number).lower(),
    ))  # fmt: skip


def trials_nodes(
    sweep: SweepView,
    looking: Looking | None,
    page: Page | None = None,
    shown: Sequence[Opened] = (),
    *,
    opened: bool = True,
) -> tuple[Node | None, ...]:
    """Return the tables of trials, and what a reader has opened of them.

    Parameters
    ----------
    sweep
        The sweep's view, with its best and newest trials.
    looking
        At what the reader looks; None where there is nobody to answer.
    page
        Of all trials, where the reader looks at these.
    shown
        The trials that are open or pinned.
    opened
        Whether the newest trials are shown.
    """
    tables: tuple[Node | None, ...]
    if page is not None and looking is not None:
        column = sweep.columns[looking.column].lower()
        order = f" · all {page.total:,}, by {column}"
        tables = (
            _trials("Trials", sweep.trials + order, sweep, page.rows, looking),
            None,
            _pager(page, looking),
        )
    else:
        best = f" · the best {len(sweep.best_rows)}" if sweep.newest_rows else ""
        tables = (
            _trials("Trials", sweep.trials + best, sweep, sweep.best_rows, looking),
            _trials("Newest", "trials, and those that still go on", sweep, sweep.newest_rows,
                    looking, is_open=opened) if sweep.newest_rows else None,
            node("div", "pager", _button("every", "All trials"))
            if looking is not None and sweep.newest_rows else None,
        )  # fmt: skip
    known = {one.row.number: one for one in shown}
    pinned = [known[number] for number in (looking.pins if looking else ()) if number in known]
    one = known.get(looking.trial) if looking and looking.trial is not None else None
    return (*tables, _compared(sweep, pinned) if pinned else None, _opened(sweep, one))


def _button(action: str, text: str, style: str = "button", **attributes: str) -> Node:
    return node("button", style, text, type_="button", data_action=action, **attributes)


def _trials(  # noqa: PLR0913 - what stands above a table, and what in it
    title: str,
    words: str,
    sweep: SweepView,
    rows: Sequence[RowView],
    looking: Looking | None,
    *,
    is_open: bool = True,
) -> Node:
    # A column in which nothing stands only takes room; one that it is sorted by stays.
    sorts = looking.column if looking and looking.every else None
    shown = [
        at for at in range(len(sweep.columns)) if at == sorts or any(row.cells[at] for row in rows)
    ]
    heads = [_head(sweep, at, looking) for at in shown]
    if looking is not None:
        heads.insert(1, node("th", "", "Pin", scope="col", title="Pin two trials to compare them"))
    return rows_table(
        title, words, heads, rows, lambda row: _cells(row, shown, looking), is_open=is_open
    )


def _head(sweep: SweepView, at: int, looking: Looking | None) -> Node:
    title, largest = sweep.columns[at], sweep.sorts[at]
    if looking is None or largest is None:
        return node("th", "", title, scope="col")
    sorted_by = looking.every and looking.column == at
    down = not looking.down if sorted_by else largest
    sign = (" ▼" if looking.down else " ▲") if sorted_by else ""
    button = _button(
        "sort", f"{title}{sign}", "sort", data_column=str(at), data_down=str(int(down)),
        title=f"Sort all trials by {title.lower()}",
    )  # fmt: skip
    way = {"aria_sort": "descending" if looking.down else "ascending"} if sorted_by else {}
    return node("th", "", button, scope="col", **way)


def _cells(row: RowView, shown: Sequence[int], looking: Looking | None) -> list[Node]:
    cells = [node("td", "", row.cells[at]) for at in shown]
    if looking is None:
        return cells
    name, number = f"trial {row.number}", str(row.number)
    pinned = row.number in looking.pins
    cells[0] = opener(row, name, looking)
    cells.insert(1, node("td", "", _button(
        "pin", "●" if pinned else "○", "pin", data_trial=number,
        title=f"Unpin {name}" if pinned else f"Pin {name}, to compare it with another one",
        aria_label=f"Pin {name}", aria_pressed=str(pinned).lower(),
    )))  # fmt: skip
    return cells


def _pager(page: Page, looking: Looking) -> Node:
    first, last = looking.start + 1, looking.start + len(page.rows)
    before, after = max(0, looking.start - page.size), looking.start + page.size
    back = {} if looking.start else {"disabled": ""}
    on = {} if after < page.total else {"disabled": ""}
    turns = (
        _button("page", "Previous", data_start=str(before), **back), " ",
        _button("page", "Next", data_start=str(after), **on), " ",
        node("span", "quiet", f"{first:,}-{last:,} of {page.total:,}"), " ",
    ) if page.total > page.size else ()  # fmt: skip
    return node("div", "pager", *turns, _button("every", "The best and newest"))


def _compared(sweep: SweepView, pinned: Sequence[Opened]) -> Node:
    """Return two trials side by side; of one, what is to be done."""
    names = [f"trial {one.row.number}" for one in pinned]
    unpin = _button("unpin", "Unpin")
    if len(pinned) == 1:
        words = f"Pin one more trial to compare it with {names[0]}."
        return node("div", "compared", node("span", "", words), " ", unpin)
    columns = [dict(one.params) for one in pinned]
    rows = [("state", [one.row.state for one in pinned])]
    names_of_values = sweep.columns[2 : 2 + sweep.objectives]
    rows += [
        (name, [one.row.cells[2 + at] for one in pinned]) for at, name in enumerate(names_of_values)
    ]
    rows += [(name, [column.get(name, "") for column in columns]) for name in columns[0]]
    rows.append(("took", [one.row.cells[-2] for one in pinned]))
    body = [
        node("tr", "", node("th", "", name, scope="row"), *(node("td", "", cell) for cell in cells),
             data_differs=str(len(set(cells)) > 1).lower())
        for name, cells in rows
    ]  # fmt: skip
    heads = [node("th", "", "", scope="col")]
    heads += [
        node("th", "", node("span", f"key smc-{which}", "●", aria_hidden="true"), f" {name}",
             scope="col")
        for which, name in zip(("one", "other"), names, strict=True)
    ]  # fmt: skip
    table = node(
        "table", "table", node("thead", "", node("tr", "", *heads)), node("tbody", "", *body)
    )
    title = f"{names[0].capitalize()} compared with {names[1]}"
    return node(
        "div", "compared",
        node("div", "line", node("strong", "label", title), " ", unpin),
        node("div", "beside", node("div", "scroll", table), _over_each_other(sweep, pinned)),
        node("div", "quiet", "Both ran the same script: all trials of a sweep do. "
             "They differ in what is in bold."),
    )  # fmt: skip


def _over_each_other(sweep: SweepView, pinned: Sequence[Opened]) -> Node | None:
    """Return what both trials reported, in one picture."""
    points = [point for one in pinned for point in one.curve]
    if len(points) < _NAMED:
        return node("div", "quiet", "They have reported nothing to draw.")
    place = placed(points, _CURVES)
    drawn = [
        Node("polyline", {"class": f"smc-{which}", "points": corners(map(place, one.curve))})
        for which, one in zip(("one", "other"), pinned, strict=True)
    ]
    values = [value for _, value in points]
    words = f"{sweep.columns[2]} by step, from {min(values):.4g} to {max(values):.4g}"
    return node("div", "picture", picture("curves", _CURVES, words, *drawn), " ",
                node("span", "quiet", words))  # fmt: skip


def _opened(sweep: SweepView, one: Opened | None) -> Node | None:
    """Return a trial with its log."""
    if one is None:
        return None
    row = one.row
    values = ", ".join(
        f"{sweep.columns[2 + at]} {row.cells[2 + at]}"
        for at in range(sweep.objectives)
        if row.cells[2 + at]
    )
    took = f" in {row.cells[-2]}" if row.cells[-2] else ""
    facts = " · ".join(filter(None, (row.state + took, values)))
    actions = log_actions(row.number, one.worker, one.logdir)
    params = " ".join(f"{name}={value}" for name, value in one.params)
    drawn = None
    if len(one.curve) >= _NAMED:
        place = placed(one.curve, _CURVE)
        line = Node("polyline", {"points": corners(map(place, one.curve))})
        words = f"{sweep.columns[2]} by step, {len(one.curve)} points"
        drawn = node("div", "picture", picture("curves", _CURVE, words, line), " ",
                     node("span", "quiet", words))  # fmt: skip
    return node(
        "div", "opened",
        node("div", "head", node("strong", "label", f"Trial {row.number}"), " ",
             node("span", "quiet", facts), " ", actions),
        node("code", "quiet", params),
        node("div", "error", row.cells[-1]) if row.cells[-1] else None,
        drawn,
        *log_node(f"trial {row.number}", one.log or "", one.left_out),
    )  # fmt: skip


def log_actions(number: int, worker: str, logdir: str = "") -> Node:
    """Return what a reader can do with an open trial or call, that of this number.

    Parameters
    ----------
    number
        Its own, by which it is closed.
    worker
        The job of the worker that ran it last; empty where none is known.
    logdir
        Of what it has written for TensorBoard; empty where there is none.
    """
    return node(
        "span", "actions",
        _button("board", "TensorBoard", title="What it has written for it", data_logdir=logdir)
        if logdir else None,
        _button("open-log", "Worker's log", data_job=worker,
                title="The whole log of the worker that ran it, with others that it ran")
        if worker else None,
        _button("trial", "Close", data_trial=str(number)),
    )  # fmt: skip


def log_node(name: str, log: str, left_out: int) -> tuple[Node | None, Node]:
    """Return what a trial or call has written, and what stands before it.

    Parameters
    ----------
    name
        What people call it: ``trial 7``.
    log
        The end of its log.
    left_out
        How many bytes of it stand before that.
    """
    before = f"… {left_out:,} bytes before this" if left_out else ""
    text = node("pre", "code", node("code", "", log), tabindex="0", aria_label=f"The log of {name}")
    nothing = node("div", "quiet", "It has written nothing to its log.")
    return (node("div", "quiet", before) if before else None, text if log else nothing)


def _importance(sweep: SweepView) -> Node | None:
    """Return a bar for each parameter: how much of what is searched for hangs on it."""
    if not sweep.importance:
        return None
    rows = [
        node("li", "", node("span", "tag", name), " ",
             node("span", "track", node("span", "fill", width=f"{part:.1%}"), aria_hidden="true"),
             " ", node("span", "quiet", percent(part)))
        for name, part in sweep.importance
    ]  # fmt: skip
    of_what = f"What {sweep.columns[2]} depends on most"
    why = "Importance of parameters, as Optuna computes it (PED-ANOVA)"
    return node("div", "importance", node("span", "quiet", of_what, title=why),
                node("ul", "bars", *rows, aria_label=of_what))  # fmt: skip


def _history(sweep: SweepView) -> Node | None:
    """Return the picture of values by trial: a dot each, and a line of the best by then."""
    if len(sweep.history) < _NAMED:
        return None
    place = placed([*sweep.history, *sweep.improved], _HISTORY)
    dots = [
        Node("circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "1.6"})
        for x, y in map(place, sweep.history)
    ]
    last = sweep.history[-1][0]
    steps = _steps([*sweep.improved, (last, sweep.improved[-1][1])]) if sweep.improved else []
    line = Node("polyline", {"points": corners(map(place, steps))})
    drawn = picture("history", _HISTORY, sweep.history_words, *dots, line)
    return node("div", "picture", drawn, " ", node("span", "quiet", sweep.history_words))


def _spark(holding: Points) -> Node | None:
    """Return the picture of how many were held over time."""
    if len(holding) < _NAMED:
        return None
    place = placed([(0.0, 0.0), *holding], _SPARK)
    line = Node("polyline", {"points": corners(map(place, _steps(holding)))})
    most = max(number for _, number in holding)
    return picture("spark", _SPARK, f"held over time, {most:.0f} at most", line)


def picture(style: str, size: tuple[int, int], words: str, *drawn: Node) -> Node:
    """Return a picture of that size; `words` say what it shows, for who does not see it.

    Parameters
    ----------
    style
        The end of its class.
    size
        Width and height, in pixels.
    drawn
        What is in it, in those pixels.
    """
    box, width = f"0 0 {size[0]} {size[1]}", f"{size[0]}px"
    return node("svg", style, *drawn, viewBox=box, width=width, role="img", aria_label=words)


def corners(points: Iterable[tuple[float, float]]) -> str:
    """Return points as a ``polyline`` has them."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _steps(points: Points) -> list[tuple[float, float]]:
    """Return the corners of a line that keeps each value until the next one."""
    found = list(points[:1])
    for (_, before), (x, y) in pairwise(points):
        found += [(x, before), (x, y)]
    return found


def placed(
    points: Points, size: tuple[int, int]
) -> Callable[[tuple[float, float]], tuple[float, float]]:
    """Return what brings values into a picture that holds all of `points`.

    Parameters
    ----------
    points
        All that are drawn in it; at least one.
    size
        Its width and height, in pixels; a margin stays free.
    """
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
