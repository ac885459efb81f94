"""The card as a tree of elements: one structure for HTML, the live widget and plain text."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from submarine_engine.amounts import UNKNOWN, percent

from submarine_magics import frontend
from submarine_magics.card.artifacts import artifacts_lines, artifacts_node
from submarine_magics.card.calls import calls_lines, calls_node
from submarine_magics.card.curves import curves_node
from submarine_magics.card.ledger import Stage
from submarine_magics.card.model import FEW_TASKS, CardView, ScriptView, TaskView
from submarine_magics.card.nodes import Node, link, node, serialise
from submarine_magics.card.startup import startup_node
from submarine_magics.card.sweeps import sweep_lines, sweep_node

_NAMED = 2

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
    elif card.calls:
        lines += [f"  {line}" for line in calls_lines(card.calls)]
    else:
        # In this line, since both differ from run to run.
        started = f"; start {card.startup.words}" if card.startup else ""
        lines.append(f"  GPU ledger: {ledger_words(card)}{started}")
    if card.curves:
        drawn = (f"{one.name} {one.blocks()} {one.last}" for one in card.curves)
        lines.append(f"  {' · '.join(drawn)}")
    shown = card.tasks if not card.sweep and not card.calls else ()
    if len(shown) > FEW_TASKS:
        lines.append(f"  {len(card.tasks) + card.tasks_left_out} tasks: {tasks_words(card)}")
        shown = tuple(task for task in shown if task.state == "failed")[:FEW_TASKS]
    lines += [f"  {task_words(task)}" for task in shown]
    lines += [f"  {line}" for line in artifacts_lines(card.artifacts)]
    lines += [f"  {label}: {url}" for label, url in (*card.links, *card.quicklinks)]
    if card.script:
        lines.append(f"  script: {card.script.name}, {card.script.lines}, {card.script.hash[:12]}")
    return "\n".join(lines)


def ledger_words(card: CardView) -> str:
    """Return the ledger of `card` as one sentence."""
    stages = [f"{stage.name} {stage.text}" for stage in card.ledger.stages]
    return ", ".join(filter(None, (card.ledger.gpus, *stages, card.ledger.released)))


def task_words(task: TaskView) -> str:
    """Return a task as one sentence."""
    state = f"{task.state} ({task.detail})" if task.detail else task.state
    done = "" if task.progress is None else f", {percent(task.progress)}"
    return f"{task.task} on {task.host}: {state}{done}"


def bar(fraction: float, width: int = 20) -> str:
    """Return a bar of `width` characters, the part `fraction` of it full."""
    full = int(fraction * width)
    return "█" * full + "░" * (width - full)


# The card as a tree of elements: one structure, for the static HTML and for the live widget.


def card_tree(
    card: CardView, *, live: bool = False, opened: bool = False, served: bool = False
) -> Node:
    """Return the whole card without its script.

    Parameters
    ----------
    live
        Whether to add the button that cancels.
    opened
        Whether the table of tasks is open however many there are.
    served
        Whether a server answers what readers ask of a sweep's trials.
    """
    pool = card.sweep and sweep_node(card.sweep, opened=opened or not card.final, served=served)
    if card.calls:
        pool = calls_node(card.calls, opened=opened or not card.final, served=served)
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
            pool or _ledger(card),
            startup_node(card.startup) if not pool else None,
            curves_node(card.curves) if not pool else None,
            _tasks(card, opened=opened) if not pool else None,
            artifacts_node(card.artifacts, served=served),
        ),
    )


def script_tree(script: ScriptView, where: str, **attributes: str) -> Node:
    """Return the script, folded in; `where` says how to see the whole of it.

    Parameters
    ----------
    script
        As the card has it.
    where
        A path or a command, for where not all of it is here.
    attributes
        Of the element, besides its class; named as for `node`.
    """
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
    """Return where the log of the job of `card` is when its page is gone."""
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
        links.append(link("log", card.log_label, card.log_url, card.log_command))
    links += [link("link", label, url, url) for label, url in card.quicklinks]
    spaced = [part for link in links for part in (link, " ")]
    actions = node("span", "actions", *spaced, cancel_button(card) if live else None)
    return node(
        "div", "head", state, " ", node("strong", "title", card.title), " ", elapsed, " ", actions
    )


def _facts(card: CardView) -> Node:
    links = [part for label, url in card.links for part in (" · ", link("link", label, url, url))]
    return node("div", "facts", " · ".join(card.facts), *links)


def _ticks(part: CardView | Stage) -> dict[str, str]:
    seconds = part.elapsed if isinstance(part, CardView) else part.seconds
    return {"data_ticks": f"{seconds:.3f}"} if part.ticking else {}


def cancel_button(card: CardView) -> Node | None:
    """Return the button that cancels the job of `card`; None once that is over."""
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
    words = " · ".join(filter(None, (percent(card.progress), card.message)))
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
    """Return how many tasks of `card` are in which state, and where those are that failed."""
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
    named = link("link", task.task, task.log_url, "its log") if task.log_url else task.task
    gpus = (task.gpus,) if with_gpus else ()
    cells = (task.role, named, task.host, *gpus, state, task.started, task.finished, progress)
    return node("tr", "", *(node("td", "", cell) for cell in cells), data_state=task.state)


# The card as static HTML: self-contained, no script, readable even where its style is taken away.
#
# GitHub and untrusted notebooks strip ``<style>`` and most attributes: what is left are lines of
# text in a sensible order, a table and two foldable parts.


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
    """Return the style sheet of all pages of a job, with that of one: its file `name`."""
    return _read("page.css") + (_read(name) if name else "")


@cache
def module(name: str) -> str:
    """Return the card's script `name` as one module: what it imports stands in front of it."""
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
