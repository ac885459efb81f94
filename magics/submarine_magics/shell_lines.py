"""Commands of the shell as a person would write them in Python, with IPython's expansion."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container

from IPython.utils.text import DollarFormatter
from submarine_engine.bundle.literals import quoted


def expanded(text: str, known: Container[str]) -> str:
    """Return an expression for the text that IPython makes of `text`: ``{name}`` and ``$name``.

    IPython expands all or nothing: where one name is unknown, as in ``awk '{print $1}'``, the
    shell gets the text as it stands.

    Parameters
    ----------
    text
        A shell command, or the line of a magic.
    known
        Names that have a value where the text is used.
    """
    try:
        pieces = list(DollarFormatter().parse(text))
    except ValueError:
        return quoted(text)
    literals, fields = [""], list[str]()
    for literal, name, spec, conversion in pieces:
        literals[-1] += literal or ""
        if name is None:
            continue
        field = f"{name}:{spec}" if spec else name
        if not _is_known(field, known) or conversion not in (None, "r", "s", "a"):
            return quoted(text)
        fields.append(f"{field.strip()}!{conversion}" if conversion else field.strip())
        literals.append("")
    if not fields:
        return quoted(literals[0])
    return _formatted(literals, fields)


def run(text: str, known: Container[str]) -> str:
    """Return the statement for ``!text``."""
    return f"subprocess.run({expanded(text, known)}, shell=True)"


def output(text: str, known: Container[str]) -> str:
    """Return the expression for what ``!text`` gives when it is assigned: a list of lines."""
    return f"subprocess.getoutput({expanded(text, known)}).splitlines()"


def _is_known(field: str, known: Container[str]) -> bool:
    try:
        tree = ast.parse(field.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    nodes = list(ast.walk(tree))
    own = {node.id for node in nodes if isinstance(node, ast.Name) and _binds(node)}
    return all(
        node.id in own or node.id in known or hasattr(builtins, node.id)
        for node in nodes
        if isinstance(node, ast.Name)
    )


def _binds(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _formatted(literals: list[str], fields: list[str]) -> str:
    code = "".join(fields)
    quote = "'" if '"' in code else '"'
    if "\\" in code or "#" in code or quote in code or "\n" in code:
        template = "{}".join(_braced(literal) for literal in literals)
        values = [field.partition("!")[0] if _converted(field) else field for field in fields]
        return f"{quoted(template)}.format({', '.join(values)})"
    parts = [quoted(_braced(literals[0]), quote)[1:-1]]
    for field, literal in zip(fields, literals[1:], strict=True):
        space = " " if field.startswith("{") else ""
        parts += ["{", space, field, "}", quoted(_braced(literal), quote)[1:-1]]
    return f"f{quote}{''.join(parts)}{quote}"


def _converted(field: str) -> bool:
    return field[-2:] in ("!r", "!s", "!a")


def _braced(literal: str) -> str:
    return literal.replace("{", "{{").replace("}", "}}")
