"""Import statements of many cells, merged as a person would have written them once."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from submarine_engine.bundle.executed import Position, absolute
from submarine_engine.bundle.literals import LINE
from submarine_engine.bundle.statements import Statement


@dataclass(frozen=True, slots=True)
class Import:
    """One name of an import statement.

    Parameters
    ----------
    module, name, asname
        ``from module import name as asname``; without `name`, ``import module as asname``.
    position, line
        The statement and the line that it was imported at last; None for one of our own.
    comment
        What stands behind it on its line.
    """

    module: str
    name: str | None = None
    asname: str | None = None
    position: Position | None = None
    line: int = 0
    comment: str = ""

    @property
    def binds(self) -> str:
        """The name that it binds."""
        return self.asname or self.name or self.module.partition(".")[0]


def imports_of(
    statement: Statement, position: Position, text: str, package: str = ""
) -> Iterator[Import]:
    """Yield the imports of an import statement, whose last line is `text`."""
    node = statement.node
    assert isinstance(node, (ast.Import, ast.ImportFrom))  # noqa: S101 - for the type checker
    comment = text.encode()[node.end_col_offset or 0 :].decode().strip(" ;")
    comment = comment if statement.alone and comment.startswith("#") else ""
    for alias in node.names:
        asname = alias.asname if alias.asname != alias.name or "." in alias.name else None
        if isinstance(node, ast.Import):
            yield Import(alias.name, None, asname, position, alias.lineno, comment)
        else:
            module = absolute(node, package)
            yield Import(module, alias.name, asname, position, alias.lineno, comment)


def importable(value: object) -> tuple[str, str] | None:
    """Return the module and the qualified name that `value` can be imported by; None if it cannot.

    What is defined in ``__main__`` cannot: there is none in the job but the script.
    """
    module = getattr(value, "__module__", None)
    qualname = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(module, str) or not isinstance(qualname, str) or module == "__main__":
        return None
    found: object = sys.modules.get(module)
    for step in qualname.split("."):
        found = getattr(found, step, None)
    return (module, qualname) if found is value else None


def import_module(module: str, name: str) -> Import:
    """Return the import that binds `name` to a module."""
    if "." not in module:
        return Import(module, None, None if module == name else name)
    parent, _, last = module.rpartition(".")
    return Import(parent, last, None if last == name else name)


def rendered(
    imports: Iterable[Import], local: Collection[str] = ()
) -> list[tuple[list[str], Import | None]]:
    """Return the import statements, each with its lines and one of the imports that it is for.

    They stand in the order of isort: the future, the standard library, packages, and the modules
    `local` that lie beside the notebook; an empty line (for no import) between.
    """
    statements = sorted((_sort_key(group, local), group) for group in _grouped(imports))
    found: list[tuple[list[str], Import | None]] = []
    section = None
    for key, group in statements:
        if section is not None and key[0] != section:
            found.append(([""], None))
        section = key[0]
        found.append((_lines(group), group[0]))
    return found


def _grouped(imports: Iterable[Import]) -> Iterator[list[Import]]:
    groups: dict[tuple[object, ...], list[Import]] = {}
    for item in imports:
        # What is renamed stands on a line of its own.
        own = (item.name, item.asname) if item.asname or not item.name else ()
        group = groups.setdefault((item.module, item.name is None, item.name == "*", own), [])
        if item.name not in [other.name for other in group]:
            group.append(item)
    for group in groups.values():
        yield sorted(group, key=lambda item: _member_key(item.name or ""))


def _member_key(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


def _sort_key(group: list[Import], local: Collection[str]) -> tuple[object, ...]:
    first = group[0]
    top = first.module.partition(".")[0]
    if top == "__future__":
        section = 0
    elif top in local or not top:
        section = 3
    else:
        section = 1 if top in sys.stdlib_module_names else 2
    module = first.module
    asname = first.asname or ""
    return section, first.name is not None, module.lower(), module, first.name or "", asname


def _lines(group: list[Import]) -> list[str]:
    first = group[0]
    comments = "".join(dict.fromkeys(f"  {item.comment}" for item in group if item.comment))
    renamed = f" as {first.asname}" if first.asname else ""
    if first.name is None:
        line = f"import {first.module}{renamed}"
    else:
        names = [item.name or "" for item in group]
        line = f"from {first.module} import {', '.join(names)}{renamed}"
        if len(line) > LINE:
            start = f"from {first.module} import (" + comments
            return [start, *(f"    {name}{renamed}," for name in names), ")"]
    return [line + comments if len(line + comments) <= LINE else line]
