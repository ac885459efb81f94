"""What a paragraph asks for, in the words of its kernel.

Options come from the paragraph's line, else its local properties, else the interpreter's setting;
commands of Zeppelin's former interpreter are still understood.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from submarine_engine.command import NOTEBOOK, parse, parse_cell
from submarine_engine.command.options import RUN, find_of_run, of_clusters
from submarine_engine.command.parser import split
from submarine_engine.command.values import did_you_mean
from submarine_engine.command.verbs import verbs
from submarine_engine.errors import BundleError, CommandError

from submarine_zeppelin.properties import Properties, read_properties

# A paragraph as Zeppelin sends it, and what its kernel is to do for it.


class ParagraphRequest(Protocol):
    """What `translate` looks at of a paragraph."""

    @property
    def interpreter(self) -> str:
        """The class or its short name: ``python``, ``run``, ``sh``, ``submarine``."""

    @property
    def title(self) -> str:
        """The paragraph's title."""

    @property
    def text(self) -> str:
        """What follows the interpreter's name."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Its local properties."""


class NoteParagraph(ParagraphRequest, Protocol):
    """A paragraph of a note."""

    @property
    def id(self) -> str:
        """Its id in the note."""

    @property
    def note_id(self) -> str:
        """The note's id."""

    @property
    def note_name(self) -> str:
        """The note's name."""

    @property
    def user(self) -> str:
        """Who runs it."""


@dataclass(frozen=True, slots=True)
class Action:
    """What the kernel is to do for a paragraph.

    Parameters
    ----------
    code
        What the kernel executes; empty for nothing.
    is_job
        Whether it submits a job.
    part
        Whether the paragraph is a part of the note's script as well.
    say
        Lines for the user, before anything else.
    prefixes
        Whether its prints may choose their form by ``%html`` and its kin.
    title
        The file that a part joins; None for ``main.py``.
    gui
        The paragraph's forms, to be echoed; empty where they are as Zeppelin sent them.
    leaves
        Whether the kernel gives its job to the paragraph, which follows it without the kernel.
    beside
        Whether it needs nothing of the session's kernel.
    job
        A job to be followed by the paragraph; "" where there is none yet.
    waits
        Whether it waits for what of its note came before it.
    defaults
        Properties of the setting that its job has options from: ``submarine.job.queue=a``.
    """

    code: str
    is_job: bool = False
    part: bool = False
    say: tuple[str, ...] = ()
    prefixes: bool = False
    title: str | None = None
    gui: str = ""
    leaves: bool = False
    beside: bool = False
    job: str = ""
    waits: bool = True
    defaults: tuple[str, ...] = ()


def metadata(
    action: Action,
    paragraph: NoteParagraph,
    order: Sequence[str] = (),
    cluster: str | None = None,
) -> dict[str, Any]:
    """Return the metadata of the paragraph's ``execute_request``, for `kernelside`.

    Parameters
    ----------
    action
        What the paragraph does.
    paragraph
        The paragraph, its note and who runs it.
    order
        The ids of the note's paragraphs from top to bottom, where they are known.
    cluster
        The one that was chosen in the session's kernel: told where another kernel does the work,
        which serves other sessions, too.
    """
    other = {"cluster": cluster} if action.beside else {}
    return {
        "cellId": paragraph.id,
        "submarine": {
            "leaves": action.leaves,
            **other,
            "note": paragraph.note_name,
            "id": paragraph.note_id,
            "user": paragraph.user,
            "heading": paragraph.title,
            "part": action.part,
            "title": action.title,
            "order": list(order),
        },
    }


# Dynamic forms in a command line: ``--gpus ${gpus=1}``, ``--queue ${queue=a,a|b}``.
#
# Zeppelin leaves ``${…}`` alone for interpreters of form type NATIVE, so that Python's own dollars
# and braces stay what they are; we fill the line's places in by ourselves, and say in the echoed
# ``gui`` which forms the paragraph has. The JSON is that of Zeppelin's ``GUI`` class.


_PLACE = re.compile(r"\$\{([^{}\n]*)\}")
_NAME = re.compile(r"[\w .-]{1,80}")


def fill(text: str, gui: str) -> tuple[str, str]:
    """Return a command line with its places filled in, and the ``gui`` with their forms.

    Parameters
    ----------
    text
        Words of a command. ``${name=default}`` is a text field, ``${name=default,a|b}`` a choice;
        a value is one word, whatever is typed into its field. Anything else stays as it is.
    gui
        As Zeppelin sent it.
    """
    state = _read(gui)
    params = state["params"]
    forms: dict[str, Any] = {}

    def value(found: re.Match[str]) -> str:
        form = _form(found[1])
        if form is None:
            return found[0]
        forms[form["name"]] = form
        given = params.get(form["name"], form["defaultValue"])
        params[form["name"]] = given
        return shlex.quote(str(given)) if str(given) else ""

    text = _PLACE.sub(value, text)
    if not forms:
        return text, gui
    return text, json.dumps({**state, "params": params, "forms": {**state["forms"], **forms}})


def _form(place: str) -> dict[str, Any] | None:
    name, equals, rest = place.partition("=")
    name = name.strip()
    if not equals or not _NAME.fullmatch(name):
        return None
    default, comma, choices = rest.partition(",")
    form: dict[str, Any] = {"name": name, "defaultValue": default, "hidden": False}
    if not comma:
        return {"type": "TextBox", **form}
    options = [_choice(choice) for choice in choices.split("|")]
    return {"type": "Select", **form, "options": options}


def _choice(text: str) -> dict[str, str]:
    """Read ``value`` or ``value(what people see)``."""
    found = re.fullmatch(r"([^()]*)\((.*)\)", text)
    return {"value": found[1], "displayName": found[2]} if found else {"value": text}


def _read(gui: str) -> dict[str, Any]:
    try:
        state = json.loads(gui or "{}")
    except ValueError:
        state = {}
    if not isinstance(state, dict):
        state = {}
    for name in ("params", "forms"):
        if not isinstance(state.get(name), dict):
            state[name] = {}
    return state


# The commands of Zeppelin's former Submarine interpreter, and what they are called now.


NEW_NAMES = {
    "DASHBOARD": ("note dashboard",),
    "USAGE": ("help",),
    "JOB_RUN": ("job run",),
    "JOB_STOP": ("note stop",),
    "JOB_LIST": ("job list",),
    "JOB_SHOW": ("job show",),
    "CLEAN_RUNTIME_CACHE": ("note clean",),
    "TENSORBOARD_RUN": ("tensorboard",),
    "TENSORBOARD_STOP": ("tensorboard --stop",),
}
"""The lines that each of them means now."""

LEGACY_WORDS = {
    "DASHBOARD": "DASHBOARD is now `%submarine job list` and `%submarine gpus`",
    "USAGE": "USAGE is now `%submarine help`",
    "JOB_RUN": "JOB_RUN is now `%submarine job run`, or %submarine.run with the code itself",
    "JOB_STOP": "JOB_STOP is now `%submarine job cancel JOB`; it cancels this note's jobs",
    "JOB_LIST": "JOB_LIST is now `%submarine job list`",
    "JOB_SHOW": "JOB_SHOW is now `%submarine job show JOB`; without one it lists this note's jobs",
    "CLEAN_RUNTIME_CACHE": "CLEAN_RUNTIME_CACHE forgets this note's parts: run their paragraphs "
    "again; jobs that are over stay on record",
    "TENSORBOARD_RUN": "TENSORBOARD_RUN is now `%submarine tensorboard`: over all jobs, or those "
    "that it names",
    "TENSORBOARD_STOP": "TENSORBOARD_STOP is now `%submarine tensorboard --stop`",
}

LEGACY_NAMES = tuple(NEW_NAMES)


_SAME = {"TENSORBOARD_START": "TENSORBOARD_RUN"}
_TWO_WORDS = re.compile(r"(JOB|TENSORBOARD)[ _-]+([A-Z]+)(?=\s|\Z)")
_YARN_JAR = re.compile(r"(?:\S*/)?(?:yarn|hadoop)\s+jar\s+\S+\.jar\s+(?:[\w.$]+\s+)?(?=job\s)")
_TYPED = re.compile(
    r"""'[^']*'|"[^"]*"  # as they are
    | (?P<dash>(?<!\S)[\u2010-\u2015]{1,2}-?(?=[A-Za-z]))
    | [\u201c\u201e\u201f](?P<double>[^"\u201c-\u201f]*)[\u201c\u201d\u201f]
    | [\u2018\u201a\u201b](?P<single>[^'\u2018-\u201b]*)[\u2018\u2019\u201b]""",
    re.VERBOSE,
)

TYPED = 'dashes and quotes of a text processor are read as -- and "'


def typed(line: str) -> str:
    """Return a line as it was before a web page or a text processor set it in type.

    What stands in straight quotes is meant as it is.
    """

    def plain(found: re.Match[str]) -> str:
        if found["dash"]:
            return "--"
        if found["double"] is not None:
            return f'"{found["double"]}"'
        return f"'{found['single']}'" if found["single"] is not None else found[0]

    return _TYPED.sub(plain, line)


def modern_words(line: str) -> tuple[str, str] | None:
    """Return what the old command `line` means now, and a word on the new name; None for others."""
    if found := _YARN_JAR.match(line):
        rest = line[found.end() :]
        return rest, "`yarn jar … job run` is now `%submarine job run`; what follows is the same"
    line = _TWO_WORDS.sub(r"\1_\2", line.strip(), count=1)
    first, _, rest = line.partition(" ")
    name = first.upper().replace("-", "_")
    name = _SAME.get(name, name)
    if name not in NEW_NAMES:
        return None
    [command] = NEW_NAMES[name]
    if name == "JOB_STOP" and rest.strip():
        command = "job cancel"
    if name == "JOB_SHOW" and not rest.strip():
        command = "note dashboard"
    return f"{command} {rest}".strip(), LEGACY_WORDS[name]


# The options of a paragraph's job, from its setting, its local properties and its own line.


OWN = frozenset({"run", "execute", "part", "wait", "isRecover", "saveAs", "interpolate", "form"})
"""Local properties that are no options: ours, and Zeppelin's own."""

_ALIASES = {"gpu": "gpus", "cpu": "cpus", "vcores": "cpus", "workers": "num_workers"}
_IN_ONE = {"gpus", "memory", "cpus"}
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


def is_true(properties: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Return a local property that is true or false.

    Parameters
    ----------
    properties
        The paragraph's local properties.
    name
        Which of them.
    default
        What it is where it is not given, or empty.

    Raises
    ------
    CommandError
        It is neither.
    """
    value = properties.get(name, "").strip().lower()
    if value in (*_TRUE, *_FALSE):
        return value in _TRUE
    if not value:
        return default
    raise CommandError(f"{name}={value} is neither true nor false", fix=f"write {name}=true")


def local_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options of ``job run`` among a paragraph's local properties, text by key.

    Raises
    ------
    CommandError
        One message that names every property that is none.
    """
    found: dict[str, str] = {}
    unknown = []
    for name, value in properties.items():
        if name in OWN:
            continue
        option = find_of_run(_ALIASES.get(name, name))
        if option is None:
            known = {one.key: one.key for one in (*RUN, *of_clusters())} | _ALIASES
            unknown.append(f"{name} ({did_you_mean(name, known).strip() or 'none is like it'})")
        else:
            found[option.key] = value
    if unknown:
        raise CommandError(
            f"no local propert{'y is' if len(unknown) == 1 else 'ies are'} called "
            + ", ".join(unknown),
            fix="`%submarine help job run` lists the options, any of which can be one",
        )
    return found


def as_words(options: Mapping[str, str]) -> list[str]:
    """Return options as words of a command line; a flag that is false gives none."""
    words = []
    for key, value in options.items():
        option = find_of_run(f"--{key}")
        if option is None or not option.is_flag:
            words.append(f"--{key}={value}")
        elif value.strip().lower() in ("", *_TRUE):
            words.append(f"--{key}")
        elif value.strip().lower() not in _FALSE:
            raise CommandError(f"{key}={value} is neither true nor false", fix=f"write {key}=true")
    return words


def merged(words: Sequence[str], *defaults: Mapping[str, str]) -> list[str]:
    """Return a job's words with what they leave open from the defaults, the first of them first.

    Raises
    ------
    CommandError
        The words are not understood, or contradict the defaults.
    """
    command = parse_cell(words)
    if command.spec is None:  # --help
        return list(words)
    given = set(command.values)
    added: list[str] = []
    for options in defaults:
        fresh = {key: value for key, value in options.items() if _open(key, given)}
        added += as_words(fresh)
        given |= set(fresh)
    whole = [*added, *words]
    parse_cell(whole)
    return whole


def joined(words: Sequence[str]) -> str:
    """Return words as one line of a magic.

    Raises
    ------
    CommandError
        One of them has a line of its own.
    """
    if any("\n" in word or "\r" in word for word in words):
        raise CommandError("an option's value is more than one line", fix="write it in one")
    return shlex.join(words)


def _open(key: str, given: set[str]) -> bool:
    """Return whether an option is neither given nor spoken for by another one."""
    if key in _IN_ONE and "worker_resources" in given:
        return False
    if key == "worker_resources" and given & _IN_ONE:
        return False
    if {key, *given} >= {"detach", "wait_job_finish"}:
        return False
    return key not in given


LINES = "%%submarine.lines"
"""The cell magic of `kernelside` that takes a command a line, and shows what each returns."""

SHELL = "%%submarine.sh"
"""The cell magic of `kernelside`: IPython's ``%%sh`` with a word in place of its traceback."""

HOME = "%submarine.home"
"""The line magic of `kernelside` that brings home a job which the paragraph has followed."""

_BESIDE = frozenset({
    ("job", "list"), ("job", "show"), ("job", "logs"), ("job", "wait"), ("job", "cancel"),
    ("job", "kill"), ("job", "save"), ("job", "stacks"), ("job", "exec"), ("job", "diff"),
    ("gpus",), ("tensorboard",), ("doctor",), ("help",), ("note", "dashboard"), ("note", "stop"),
})  # fmt: skip
"""Commands that read and change no variable of the notes, and none of their parts."""

_INNER_CELL = re.compile(r"\s*%%capture\b")
_SUBMITS = re.compile(r"\A\s*%%submarine(\s|$)|^\s*%submarine +job +run\b", re.MULTILINE)
"""Magics of a Python paragraph that submit a job."""


def translate(paragraph: ParagraphRequest, properties: Mapping[str, str], gui: str = "") -> Action:
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
        action = _shell(paragraph)
    elif kind == "python":
        action = _python(paragraph, properties)
    elif kind == "run":
        action = _run(paragraph, properties, gui)
    else:
        action = _commands(paragraph, properties, gui)
    return replace(action, waits=is_true(paragraph.properties, "wait", default=True))


def part_title(heading: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the file that a paragraph with that title joins, and what to say of it.

    A title that is a Python file's path is that file, one that is a single word the file of that
    name; a heading of several words is for people, and its paragraph joins ``main.py`` as one
    without a title does.
    """
    heading = heading.strip()
    if not heading or (not heading.endswith(".py") and not re.fullmatch(r"[\w/.-]+", heading)):
        return None, ()
    from submarine_engine.bundle.parts import check_title  # noqa: PLC0415 - 0.1 s at the start

    title = heading if heading.endswith(".py") else f"{heading}.py"
    try:
        check_title(title)
    except BundleError as error:
        return None, (f"the title {heading!r} names no part, so main.py has it: {error.what}",)
    if title == heading:
        return title, ()
    return title, (f"this paragraph is the part {title}, by its title",)


def _shell(paragraph: ParagraphRequest) -> Action:
    return Action(f"{SHELL}\n{paragraph.text}" if paragraph.text.strip() else "")


def _python(paragraph: ParagraphRequest, properties: Mapping[str, str]) -> Action:
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
        first, _, body = text.lstrip("\n").partition("\n")
        leaves = first.split()[:1] == ["%%submarine"] and not _INNER_CELL.match(body)
        return Action(text.lstrip("\n"), is_job=bool(_SUBMITS.search(text)), leaves=leaves)
    if not is_true(paragraph.properties, "part", default=True):
        return Action(text, is_job=bool(_SUBMITS.search(text)), prefixes=True)
    title, say = part_title(paragraph.title)
    if not is_true(paragraph.properties, "execute", default=True):
        return Action(f"%%submarine.python {title or ''}".rstrip() + f"\n{text}", say=say)
    is_job = bool(_SUBMITS.search(text))
    return Action(text, is_job, part=True, say=say, prefixes=True, title=title)


def _run(paragraph: ParagraphRequest, properties: Mapping[str, str], gui: str) -> Action:
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
    code = f"%%submarine {joined(words)}".rstrip() + f"\n{body}"
    leaves = not _INNER_CELL.match(body)
    defaults = _defaults_among(words, setting)
    return Action(code, is_job=True, gui=gui, leaves=leaves, defaults=defaults)


def _defaults_among(words: Sequence[str], setting: Properties) -> tuple[str, ...]:
    """Return the properties that words come from."""
    return tuple(
        f"{setting.names[key]}={value}"
        for key, value in setting.options.items()
        if set(as_words({key: value})) & set(words)
    )


def _option_line(text: str) -> tuple[str, str]:
    r"""Return the options that the text begins with (``\`` goes on in the next line), the rest."""
    text = text.lstrip("\n")
    if not re.match(r"\s*(?:--?|[\u2010-\u2015]{1,2}-?)[A-Za-z]", text):
        return "", text
    found = re.match(r"(?:[^\n]*\\\n)*[^\n]*", text)
    line = found[0] if found else text
    return line.strip(), text[len(line) :].removeprefix("\n")


def _commands(paragraph: ParagraphRequest, properties: Mapping[str, str], gui: str) -> Action:
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
    paths: list[tuple[str, ...]] = []
    defaults: tuple[str, ...] = ()
    for line in lines:
        pasted = line.removeprefix("%submarine ").strip()
        bare = typed(pasted)
        say += [TYPED] if bare != pasted else []
        if found := modern_words(bare):
            bare = found[0]
            say.append(found[1])
        if bare.startswith("note "):
            paths.append(tuple(bare.split()))
        else:
            path, words = _words(bare, options, properties)
            paths.append(path)
            bare = joined(words)
            if path == ("job", "run"):
                defaults += _defaults_among(words, read_properties(properties))
        ready.append(bare)
    jobs = paths.count(("job", "run"))
    return Action(
        "\n".join((LINES, *ready)),
        is_job=jobs > 0,
        say=tuple(dict.fromkeys(say)),
        gui=gui,
        leaves=jobs == 1 and paths[-1] == ("job", "run"),
        beside=_BESIDE.issuperset(paths),
        defaults=tuple(dict.fromkeys(defaults)),
    )


def _words(
    line: str, options: Mapping[str, str], properties: Mapping[str, str]
) -> tuple[tuple[str, ...], list[str]]:
    """Return the path and the words of a command, which the grammar has understood."""
    words = split(line)
    _refuse_unknown_legacy_name(words)
    command = parse(words, surface=NOTEBOOK)
    if command.path != ("job", "run"):
        return command.path, words
    setting = read_properties(properties)
    words = [*words[:2], *merged(words[2:], options, setting.options)]
    setting.check()
    return command.path, words


def _refuse_unknown_legacy_name(words: Sequence[str]) -> None:
    """Name the nearest command for a word in capitals, as the former interpreter had them."""
    known = {verb.path[0] for verb in verbs(NOTEBOOK)}
    if words and words[0].isupper() and words[0].lower() not in known:
        hint = did_you_mean(words[0], LEGACY_NAMES)
        raise CommandError(
            f"there is no command {words[0]}", fix=f"{hint}`%submarine help` lists what there is"
        )
