"""A note's file as the cells of a flow, and back: ``.zpln``, and ``note.json`` before Zeppelin 0.9.

What a paragraph means is said by `commands.translate`, as for one that is run. Numbers are those of
the paragraphs' places in the note, and lines are those of a paragraph with its first one, which
names the interpreter.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.statements import Statement, parse
from submarine_engine.errors import CommandError, FlowError, SubmarineError
from submarine_engine.flows.model import Flow, Parameter
from submarine_engine.flows.notebook import CellText, Notebook, NotebookCell, understood

from submarine_zeppelin.commands import LINES, translate

SUFFIXES = (".zpln", ".json")

_PYTHON = ("submarine.python", "python", "python.python", "python.ipython", "ipython")
_RUN = ("submarine.run",)
_SHELL = ("submarine.sh", "sh", "sh.sh")
_COMMANDS = ("submarine", "submarine.submarine")
# They show text, and compute nothing that Python could read.
_TEXT = ("md", "md.markdown", "html", "angular", "text", "table", "img")

_PREFIX = re.compile(r"\s*%([\w.-]+)")
_PROPERTY = re.compile(
    r"""\s*(?P<key>[\w.]+)\s*(?:=\s*(?:"(?P<quoted>(?:\\.|[^"\\])*)"|(?P<bare>[^,()"]*)))?\s*(?:,|\Z)"""
)
_FORM = re.compile(
    r"""(?m)^(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*(?P<quote>["']?)\$\{(?P<form>[\w .-]+)="""
    r"""(?P<default>[^{}|,\n]*)\}(?P=quote)[ \t]*(?:\#.*)?$"""
)
_FIELDS = ("input", "textbox", "noteTextbox", "noteInput")
_CONTEXT = "z"


def knows(data: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether `data`, the JSON of a file, is a note of Zeppelin's."""
    return isinstance(data, dict) and isinstance(data.get("paragraphs"), list)


def read(data: Any, where: str) -> Notebook:  # noqa: ANN401 - likewise
    """Return what a note says, as the cells of a flow.

    Parameters
    ----------
    data
        The JSON of its file.
    where
        The file's name.

    Raises
    ------
    FlowError
        It is no whole note, or a paragraph cannot be in a flow: a part, a job of the note's parts,
        a form that is no plain field.
    CommandError
        Options of a paragraph are not understood.
    CellSyntaxError
        A paragraph does not parse.
    """
    reading = _Reading(default=_default_of(data))
    try:
        paragraphs = [_Paragraph.of(one, at) for at, one in enumerate(data["paragraphs"], 1)]
    except (KeyError, TypeError, AttributeError):
        raise FlowError(
            "it is no whole note of Zeppelin's", where=where, fix="export it again, and try again"
        ) from None
    for paragraph in paragraphs:
        reading.take(paragraph)
    title = str(data.get("name") or "").rstrip("/").rpartition("/")[2]
    return Notebook(reading.cells_with_forms(), title, tuple(reading.left_out))


def write(flow: Flow) -> Mapping[str, Any]:
    """Return a note with the paragraphs of a flow, for Zeppelin 0.9 and newer to import.

    Parameters
    ----------
    flow
        One that was built of a note.
    """
    return {
        "name": flow.name,
        "defaultInterpreterGroup": "submarine",
        "config": {},
        "info": {},
        "paragraphs": [_as_paragraph(cell) for cell in flow.cells if cell.raw],
    }


def _as_paragraph(cell: Cell) -> dict[str, Any]:
    heading = cell.name.removeprefix(_label(""))
    titled = bool(heading) and heading != str(cell.number)
    return {
        **({"title": heading} if titled else {}),
        "text": cell.raw,
        "config": {"title": titled, "enabled": True},
        "settings": {"params": {}, "forms": {}},
        **({"id": cell.id} if cell.id else {}),
        "status": "READY",
    }


def _label(heading: str) -> str:
    """Return how a paragraph is called: as by the interpreter."""
    return f"paragraph {heading}"


def _default_of(data: Mapping[str, Any]) -> str:
    config = data.get("config")
    found = data.get("defaultInterpreterGroup")
    found = found or (config.get("defaultInterpreterGroup") if isinstance(config, dict) else None)
    return str(found or "")


# One paragraph.


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """A paragraph as its file has it; also what `translate` looks at."""

    number: int
    raw: str
    title: str
    id: str | None
    settings: Mapping[str, Any]
    enabled: bool = True
    interpreter: str = ""
    text: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any], number: int) -> _Paragraph:
        config, settings = data.get("config") or {}, data.get("settings") or {}
        raw, identity = data.get("text") or "", data.get("id")
        if not isinstance(raw, str) or not isinstance(settings, Mapping):
            raise TypeError
        return cls(
            number=number,
            raw=raw.replace("\r\n", "\n"),
            title=str(data.get("title") or ""),
            id=identity if isinstance(identity, str) else None,
            settings=settings,
            enabled=config.get("enabled", True) is not False,
        )

    @property
    def name(self) -> str:
        shown = "".join(letter if letter.isprintable() else " " for letter in self.title)
        return _label(" ".join(shown.split())[:60] or str(self.number))

    def typed_value(self, form: str, default: object) -> object:
        """Return what was typed last into a field, as a value like its default."""
        params = self.settings.get("params")
        typed = params.get(form) if isinstance(params, Mapping) else None
        if typed is None:
            return default
        try:
            return Parameter(name=form, default=default).read(str(typed))
        except CommandError:
            return str(typed)

    def refused(self, what: str, line: int, fix: str) -> FlowError:
        return FlowError(what, where=f"{self.name}, line {line}", fix=fix)


def _split(paragraph: _Paragraph, default: str) -> _Paragraph:
    """Return a paragraph with its interpreter, its local properties and the rest of its text."""
    found = _PREFIX.match(paragraph.raw)
    if found is None or paragraph.raw.lstrip().startswith("%%"):
        return replace(paragraph, interpreter=default, text=paragraph.raw)
    rest = paragraph.raw[found.end() :]
    properties: dict[str, str] = {}
    if rest.startswith("("):
        inside = re.match(r'\(((?:"(?:\\.|[^"\\])*"|[^()"])*)\)', rest)
        if inside is None:
            raise paragraph.refused(
                "its local properties cannot be read", 1, "write (name=value, other=value)"
            )
        properties = _properties(paragraph, inside[1])
        rest = rest[inside.end() :]
    return replace(paragraph, interpreter=found[1], text=rest.lstrip(" \t"), properties=properties)


def _properties(paragraph: _Paragraph, text: str) -> dict[str, str]:
    found, at = {}, 0
    while at < len(text.rstrip()):
        one = _PROPERTY.match(text, at)
        if one is None:
            raise paragraph.refused(
                "its local properties cannot be read", 1, "write (name=value, other=value)"
            )
        quoted = one["quoted"]
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else one["bare"]
        found[one["key"]] = one["key"] if value is None else value.strip()
        at = one.end()
    return found


# All of them.


@dataclass(slots=True)
class _Reading:
    """A note as it is gone through, from top to bottom.

    Parameters
    ----------
    default
        The interpreter of paragraphs that name none.
    """

    default: str
    cells: list[NotebookCell] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    forms: dict[str, Any] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)

    def take(self, paragraph: _Paragraph) -> None:
        """Add a paragraph: as a cell, as nothing, or as one that is left out."""
        if not paragraph.enabled or not paragraph.raw.strip():
            return
        paragraph = _split(paragraph, self.default)
        kind = paragraph.interpreter.lower()
        if not kind and not paragraph.raw.lstrip().startswith("%"):
            raise paragraph.refused(
                "it names no interpreter, nor does the note",
                1,
                "begin it with %submarine.python, or with the interpreter that it is for",
            )
        if kind in _TEXT or not paragraph.text.strip():
            return
        if kind in _COMMANDS:
            self._commands(paragraph)
        elif kind in (*_PYTHON, *_RUN):
            self._cell(paragraph, "run" if kind in _RUN else "python")
        elif kind in _SHELL:
            pad = paragraph.raw.count("\n") - paragraph.text.count("\n")
            body = paragraph.text if pad else f"\n{paragraph.text}"
            self._add(paragraph, "\n" * max(pad - 1, 0) + f"%%sh{body}")
        else:
            words = f"{paragraph.name} is left out: a flow has no %{paragraph.interpreter:.40}"
            self.left_out.append(words)

    @staticmethod
    def _commands(paragraph: _Paragraph) -> None:
        """Pass over commands, but none that runs a job."""
        for number, line in enumerate(paragraph.raw.split("\n"), 1):
            words = line.replace("%submarine", "").split()
            if words[:2] == ["job", "run"] or words[:1] == ["JOB_RUN"]:
                raise _of_parts(paragraph, number)

    def _cell(self, paragraph: _Paragraph, kind: str) -> None:
        paragraph = self._fill(replace(paragraph, interpreter=kind))
        try:
            gui = json.dumps(paragraph.settings)
            code = translate(paragraph, {}, gui).code
        except SubmarineError as error:
            error.where = f"{paragraph.name}, line 1"
            raise
        if code.startswith(LINES):
            raise _of_parts(paragraph, 1)
        # The code ends as the paragraph does: so its lines are where people see them.
        pad = paragraph.raw.count("\n") - code.count("\n")
        self._add(paragraph, "\n" * max(pad, 0) + code)

    def _add(self, paragraph: _Paragraph, text: str) -> None:
        one = understood(CellText(text, paragraph.number, paragraph.id, (), paragraph.name))
        cell = replace(one.cell, raw=paragraph.raw)
        cell = self._without_context(paragraph, cell)
        self.cells.append(replace(one, cell=cell))

    # Forms

    def _fill(self, paragraph: _Paragraph) -> _Paragraph:
        """Take ``name = ${form=default}``; Zeppelin fills no other places of Python in."""

        def taken(found: re.Match[str]) -> str:
            line = paragraph.raw.count("\n") - paragraph.text[found.start() :].count("\n") + 1
            default: object = found["default"]
            if not found["quote"]:
                try:
                    default = ast.literal_eval(found["default"].strip())
                except (ValueError, SyntaxError):
                    place = found[0].partition("=")[2].strip()
                    raise paragraph.refused(
                        f"the form's default {found['default']!r:.40} is no literal",
                        line,
                        f'put quotes around it: {found["name"]} = "{place:.60}"',
                    ) from None
            self._form(paragraph, found["name"], found["form"], default, line)
            return ""

        text = _FORM.sub(taken, paragraph.text)
        simple = paragraph.properties.get("form", "").lower() == "simple"
        if simple and (left := text.find("${")) >= 0:
            line = paragraph.raw.count("\n") - text[left:].count("\n") + 1
            raise paragraph.refused(
                "a form within code is no parameter of a flow",
                line,
                'bind it in a line of its own: name = "${name=default}"',
            )
        return replace(paragraph, text=text)

    def _form(
        self, paragraph: _Paragraph, name: str, form: str, default: object, line: int
    ) -> None:
        """Take a form as a parameter of the flow, which is bound above all cells."""
        value = paragraph.typed_value(form, default)
        if name in self.bound or (name in self.forms and self.forms[name] != value):
            raise paragraph.refused(
                f"`{name}` is bound above, and by a form here: of a flow's parameter there is one"
                " value",
                line,
                "give the variable of the form another name",
            )
        self.forms[name] = value

    def _without_context(self, paragraph: _Paragraph, cell: Cell) -> Cell:
        """Take forms of ``z``, have `z.show` display, and refuse what else is Zeppelin's own."""
        statements = parse(cell.source).statements
        lines = cell.source.split("\n")
        for statement in statements:
            for call in _calls_of_context(statement.node) if _CONTEXT not in self.bound else ():
                self._call(paragraph, statement, call, lines)
            self.bound.update(set(statement.binds) - self.forms.keys())
        return replace(cell, source="\n".join(lines))

    def _call(
        self, paragraph: _Paragraph, statement: Statement, call: ast.Call, lines: list[str]
    ) -> None:
        assert isinstance(call.func, ast.Attribute)  # noqa: S101 - for the type checker
        node, method = statement.node, call.func.attr
        if method == "show" and len(call.args) == 1 and not call.keywords:
            end = call.func.end_col_offset or 0
            line = lines[call.lineno - 1].encode()
            shown = line[: call.func.col_offset] + b"display" + line[end:]
            lines[call.lineno - 1] = shown.decode()
            return
        found = _field(node, call) if method in _FIELDS else None
        own = "".join(lines[node.lineno - 1 : node.end_lineno]).strip()
        if found is None or not own.endswith(")"):
            raise paragraph.refused(
                f"{_CONTEXT}.{method}(…) is Zeppelin's own, and a flow runs without it",
                call.lineno,
                'a parameter of a flow is a line of its own: day = z.input("day", "2026-11-22")',
            )
        name, form, default = found
        self._form(paragraph, name, form, default, call.lineno)
        for at in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[at] = ""

    def cells_with_forms(self) -> list[NotebookCell]:
        """Return the cells, below one that binds the forms' values where there are any."""
        if not self.forms:
            return self.cells
        source = "\n".join(f"{name} = {value!r}" for name, value in self.forms.items())
        cell = Cell(number=0, source=source, name="the note's forms")
        return [NotebookCell(cell, parameters=True), *self.cells]


def _of_parts(paragraph: _Paragraph, line: int) -> FlowError:
    return paragraph.refused(
        "a job of the note's parts (job run) is no node of a flow",
        line,
        "write %submarine.run above the code that is to run",
    )


def _calls_of_context(node: ast.AST) -> Iterator[ast.Call]:
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            value = one.func.value
            if isinstance(value, ast.Name) and value.id == _CONTEXT:
                yield one


def _field(node: ast.stmt, call: ast.Call) -> tuple[str, str, object] | None:
    """Return variable, form and default of ``day = z.input("day", "2026-11-22")``."""
    if not isinstance(node, ast.Assign) or node.value is not call or len(node.targets) != 1:
        return None
    target, words = node.targets[0], {one.arg: one.value for one in call.keywords}
    given = [*call.args, *(words[one] for one in ("name", "defaultValue") if one in words)]
    if not isinstance(target, ast.Name) or not 1 <= len(given) <= 2:  # noqa: PLR2004 - a name, a default
        return None
    try:
        form, *default = map(ast.literal_eval, given)
    except (ValueError, SyntaxError, TypeError):
        return None
    return target.id, str(form), default[0] if default else ""
