"""``%time`` and ``%%time`` in a job: a small class of the script prints what they print."""

from __future__ import annotations

import ast

from submarine_engine.bundle.text import UNREADABLE

NAME = "IPythonClock"

CLOCK = f'''class {NAME}:
    """Prints how long code took, as IPython's %time does."""

    started = []

    @classmethod
    def start(cls):
        import os
        import time

        cls.started.append((time.perf_counter(), *os.times()[:2]))
        return cls

    @classmethod
    def stop(cls, value=None):
        import os
        import time

        now = time.perf_counter(), *os.times()[:2]
        wall, user, system = (b - a for a, b in zip(cls.started.pop(), now))
        total = user + system
        print(f"CPU times: user {{user:.3g}} s, sys: {{system:.3g}} s, total: {{total:.3g}} s")
        print(f"Wall time: {{wall:.3g}} s")
        return value
'''

START = f"{NAME}.start()"
STOP = f"{NAME}.stop()"

Edit = tuple[int, int, str]
"""Text to insert: at which line (from 1) and column (in bytes) of the source."""


def timed_expression(code: str) -> str:
    """Return an expression that gives what `code` gives, timed."""
    return f"{NAME}.start().stop({code})"


def timed_line(code: str) -> str | None:
    """Return simple statements on one line, timed; None where there is no such line for them."""
    try:
        body = ast.parse(code).body
    except UNREADABLE:
        return None
    if not body or "\n" in code or any(_is_compound(node) for node in body):
        return None
    value = _value(body[0])
    if len(body) == 1 and value is not None:
        return _inserted(code, _around(value, f"{NAME}.start().stop("))
    return f"{START}; {code.rstrip().rstrip(';')}; {STOP}"


def stop_at_end(source: str) -> list[Edit] | None:
    """Return what makes the last statement of a timed cell stop the clock and keep its value.

    Returns
    -------
    list or None
        None where `STOP` is to follow in a line of its own.
    """
    try:
        body = ast.parse(source).body
    except UNREADABLE:
        return []
    last = body[-1] if body else None
    if last is None or (value := _value(last)) is None:
        return None
    if isinstance(last, ast.Expr) and _names_alone(value):
        # A cell's names come home by being shown: the expression stays as it is.
        return [(last.lineno, last.col_offset, f"{STOP}; ")]
    return _around(value, f"{NAME}.stop(")


def _value(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)):
        return node.value
    return None


def _names_alone(value: ast.expr) -> bool:
    items = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(isinstance(item, ast.Name) for item in items)


def _is_compound(node: ast.stmt) -> bool:
    return hasattr(node, "body") or isinstance(node, ast.Match)


def _around(value: ast.expr, call: str) -> list[Edit]:
    # Parentheses are not in a node's range, and a tuple may have none.
    bare = isinstance(value, ast.Tuple)
    begin = (value.lineno, value.col_offset, call + "(" * bare)
    return [begin, (value.end_lineno or 0, value.end_col_offset or 0, ")" * (1 + bare))]


def _inserted(line: str, edits: list[Edit]) -> str:
    encoded = line.encode()
    for _, column, text in sorted(edits, reverse=True):
        encoded = encoded[:column] + text.encode() + encoded[column:]
    return encoded.decode()
