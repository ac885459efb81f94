"""What a paragraph asks for, in the words of its kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from submarine_engine.command import NOTEBOOK, parse
from submarine_engine.command.parser import split
from submarine_engine.command.values import did_you_mean
from submarine_engine.command.verbs import verbs
from submarine_engine.errors import BundleError, CommandError

from submarine_zeppelin.action import Action, Asked, metadata
from submarine_zeppelin.forms import fill
from submarine_zeppelin.joboptions import is_true, joined, local_options, merged
from submarine_zeppelin.old import NAMES, TYPED, modern, typed
from submarine_zeppelin.properties import read_properties

__all__ = ["Action", "Asked", "metadata", "part_title", "translate"]

LINES = "%%submarine.lines"
"""The cell magic of `kernelside` that takes a command a line, and shows what each returns."""

SHELL = "%%submarine.sh"
"""The cell magic of `shell`: IPython's ``%%sh`` with a word in place of its traceback."""

_SUBMITS = re.compile(r"\A\s*%%submarine(\s|$)|^\s*%submarine +job +run\b", re.MULTILINE)
"""Magics of a Python paragraph that submit a job."""


def translate(paragraph: Asked, properties: Mapping[str, str], gui: str = "") -> Action:
    """Return what a paragraph means.

    Parameters
    ----------
    properties
        Those of the interpreter's setting.
    gui
        The paragraph's forms and their values, as Zeppelin sent them.

    Raises
    ------
    CommandError
        A command, an option, a value or a local property is not understood.
    ConfigError
        Properties of the setting cannot be used, and the paragraph is a job.
    """
    kind = paragraph.interpreter.rpartition(".")[2].lower()
    if kind in ("sh", "shell"):
        return _shell(paragraph)
    if kind == "python":
        return _python(paragraph, properties)
    if kind == "run":
        return _run(paragraph, properties, gui)
    return _commands(paragraph, properties, gui)


def part_title(heading: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the file that a paragraph with that title joins, and what to say of it.

    A title that is a Python file's path is that file, one that is a single word the file of that
    name; a heading of several words is for people, and its paragraph joins ``main.py`` as one
    without a title does.
    """
    heading = heading.strip()
    if not heading or (not heading.endswith(".py") and not re.fullmatch(r"[\w/.-]+", heading)):
        return None, ()
    from submarine_engine.bundle.partbook import check_title  # noqa: PLC0415 - 0.1 s at the start

    title = heading if heading.endswith(".py") else f"{heading}.py"
    try:
        check_title(title)
    except BundleError as error:
        return None, (f"the title {heading!r} names no part, so main.py has it: {error.what}",)
    if title == heading:
        return title, ()
    return title, (f"this paragraph is the part {title}, by its title",)


def _shell(paragraph: Asked) -> Action:
    return Action(f"{SHELL}\n{paragraph.text}" if paragraph.text.strip() else "")


def _python(paragraph: Asked, properties: Mapping[str, str]) -> Action:
    text = paragraph.text
    if not text.strip():
        return Action("")
    options = local_options(paragraph.properties)
    if is_true(paragraph.properties, "run"):
        return _job("", text, options, properties)
    if options:
        names = ", ".join(options)
        raise CommandError(
            f"{names}: options of a job, and the paragraph is none",
            fix="add run=true to the local properties, or begin with %submarine.run",
        )
    if text.lstrip().startswith("%%submarine"):
        return Action(text.lstrip("\n"), is_job=bool(_SUBMITS.search(text)))
    if not is_true(paragraph.properties, "part", default=True):
        return Action(text, is_job=bool(_SUBMITS.search(text)), prefixes=True)
    title, say = part_title(paragraph.title)
    if not is_true(paragraph.properties, "execute", default=True):
        return Action(f"%%submarine.python {title or ''}".rstrip() + f"\n{text}", say=say)
    is_job = bool(_SUBMITS.search(text))
    return Action(text, is_job, part=True, say=say, prefixes=True, title=title)


def _run(paragraph: Asked, properties: Mapping[str, str], gui: str) -> Action:
    line, body = _option_line(paragraph.text)
    line, gui = fill(line, gui)
    options = local_options(paragraph.properties)
    if body.strip():
        action = _job(typed(line), body, options, properties, gui)
        return action if typed(line) == line else replace(action, say=(*action.say, TYPED))
    return _commands_of([f"job run {line}".strip()], options, properties, gui)


def _job(
    line: str,
    body: str,
    options: Mapping[str, str],
    properties: Mapping[str, str],
    gui: str = "",
) -> Action:
    setting = read_properties(properties)
    words = merged(split(line), options, setting.options)
    setting.check()
    return Action(f"%%submarine {joined(words)}".rstrip() + f"\n{body}", is_job=True, gui=gui)


def _option_line(text: str) -> tuple[str, str]:
    r"""Return the options that the text begins with (``\`` goes on in the next line), the rest."""
    text = text.lstrip("\n")
    if not re.match(r"\s*(?:--?|[\u2010-\u2015]{1,2}-?)[A-Za-z]", text):
        return "", text
    found = re.match(r"(?:[^\n]*\\\n)*[^\n]*", text)
    line = found[0] if found else text
    return line.strip(), text[len(line) :].removeprefix("\n")


def _commands(paragraph: Asked, properties: Mapping[str, str], gui: str) -> Action:
    text, gui = fill(paragraph.text, gui)
    lines = [line.strip() for line in re.sub(r"\\\n", " ", text).split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    options = local_options(paragraph.properties)
    return _commands_of(lines or ["note dashboard"], options, properties, gui)


def _commands_of(
    lines: Sequence[str], options: Mapping[str, str], properties: Mapping[str, str], gui: str
) -> Action:
    say: list[str] = []
    ready: list[str] = []
    is_job = False
    for line in lines:
        pasted = line.removeprefix("%submarine ").strip()
        bare = typed(pasted)
        say += [TYPED] if bare != pasted else []
        if found := modern(bare):
            bare = found[0]
            say.append(found[1])
        if not bare.startswith("note "):
            words = _words(bare, options, properties)
            is_job = is_job or words[:2] == ["job", "run"]
            bare = joined(words)
        ready.append(bare)
    code = "\n".join((LINES, *ready))
    return Action(code, is_job=is_job, say=tuple(dict.fromkeys(say)), gui=gui)


def _words(line: str, options: Mapping[str, str], properties: Mapping[str, str]) -> list[str]:
    """Return a command's words, which the grammar has understood."""
    words = split(line)
    _look_among_the_old(words)
    command = parse(words, surface=NOTEBOOK)
    if command.path != ("job", "run"):
        return words
    setting = read_properties(properties)
    words = [*words[:2], *merged(words[2:], options, setting.options)]
    setting.check()
    return words


def _look_among_the_old(words: Sequence[str]) -> None:
    """Name the nearest command for a word in capitals, as the former interpreter had them."""
    known = {verb.path[0] for verb in verbs(NOTEBOOK)}
    if words and words[0].isupper() and words[0].lower() not in known:
        hint = did_you_mean(words[0], NAMES)
        raise CommandError(
            f"there is no command {words[0]}", fix=f"{hint}`%submarine help` lists what there is"
        )
