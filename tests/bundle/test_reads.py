"""Which names code reads of its module: exactly those that Python's own symbol tables tell."""

from __future__ import annotations

import ast
import os
import symtable
import warnings
from pathlib import Path

import pytest
from submarine_engine.bundle import Cell, build, executed
from submarine_engine.bundle.executed import _adds_to, may_add, may_bind
from submarine_engine.bundle.source import Kind, bound_names
from submarine_engine.bundle.statements import read_statements

MODULES = sorted(Path(os.__file__).parent.glob("[a-z]*.py"))[::3]


def reads_of(source, *, lazy=False):
    return read_statements(ast.parse(source).body, lazy=lazy)


def names_of(reads, *, hard=False):
    uses = [reads.now, *reads.later.values()]
    return {name for each in uses for name, use in each.items() if use.hard or not hard}


def told_by_symtable(source):
    names = set()
    todo = [(symtable.symtable(source, "x", "exec"), True)]
    while todo:
        table, top = todo.pop()
        # A scope that is called top is taken for the module by symtable itself.
        for symbol in table.get_symbols() if top or table.get_name() != "top" else ():
            if symbol.is_referenced() and (top or symbol.is_global()):
                names.add(symbol.get_name())
        todo += [(child, False) for child in table.get_children()]
    return names


def is_special(name):
    """Names of Python's own, and private ones, which symtable tells mangled."""
    return "__" in name or name.startswith(".")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_reads_are_those_of_the_symbol_table(path):
    source = path.read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = told_by_symtable(source)
        reads = reads_of(source)
    assert not {name for name in told - names_of(reads) if not is_special(name)}
    # It says nothing of deletions and forward references.
    extra = names_of(reads, hard=True) - told
    assert not {name for name in extra - set(reads.sets) if not is_special(name)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_glance_misses_nothing(path):
    source = path.read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        body = ast.parse(source).body
    names = bound_names(body)
    assert [name for name in names if not may_bind(source, name)] == []
    for name in list(names)[:50]:
        if any(_adds_to(statement, name) for statement in body):
            assert may_add(source, name)


@pytest.mark.parametrize(
    "source",
    [
        "lib.flag = 1",
        "lib.inner.flag: int = 1",
        "lib.rows[0] += 1",
        "lib . flag = 1",
        "lib.\\\nflag = 1",
        "(lib.flag), b = 1, 2",
        "lib.register(print)",
        "lib.inner.register(print)",
        "lib.found(1)\nlib.inner.register(print)",
        "@lib.inner.register('a')\ndef f(): ...",
        "@add_to(lib)\ndef f(): ...",
        "@patch\ndef f(self: lib.Net): ...",
        "setattr(lib, 'flag', 1)",
    ],
)
def test_a_glance_sees_what_is_added(source):
    assert any(_adds_to(statement, "lib") for statement in ast.parse(source).body)
    assert may_add(source, "lib")


def test_a_glance_passes_over_calls():
    assert not may_add("x = lib.sqrt(2) + lib.inner.made(3)(4)\nother_lib.flag = 1", "lib")


def test_each_cell_is_looked_at_a_few_times(monkeypatch):
    # Every cell imports the same module: what is set on it is looked for once, not once a cell.
    cells = [
        Cell(number=n, source=f"import math\ndef step_{n}(x): return math.sqrt(x)")
        for n in range(300)
    ]
    looks = []

    def look(source, name):
        looks.append(name)
        return may_bind(source, name)

    monkeypatch.setattr(executed, "may_bind", look)
    bundle = build(Cell(number=301, source="step_299(4)"), cells, {})
    assert "import math" in bundle.script
    assert len(looks) < 10 * len(cells)


@pytest.mark.parametrize(
    ("source", "now", "later"),
    [
        ("x = y", {"y"}, set()),
        ("def f(a, b=d, *c: e) -> g:\n    return a, h, f", {"d", "e", "g"}, {"h", "f"}),
        (
            "@d\nclass C(B, metaclass=M):\n    x = y\n    def m(self):\n        return x, z",
            {"d", "B", "M", "y"},
            {"x", "z"},
        ),
        ("[a for b in c for a in b if d]", {"c", "d"}, set()),
        ("lambda a=b: a + c", {"b"}, {"c"}),
        ("f'{a!r:{b}}'", {"a", "b"}, set()),
        ("x = x", {"x"}, set()),
        ("class C:\n    x = x\n    y = x", {"x"}, set()),
        ("class C:\n    x = 1\n    y = [x for _ in z]", {"x", "z"}, set()),
        ("def f():\n    global g\n    g += 1", set(), {"g"}),
        ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = y\n", set(), {"y"}),
        ("def f():\n    if (n := a) and [m := b for c in n]:\n        n, m", set(), {"a", "b"}),
        ("def f():\n    try:\n        pass\n    except E as e:\n        e", set(), {"E"}),
        ("match a:\n  case {'k': b, **c}:\n    b, c\n  case D(e=f):\n    f", {"a", "D"}, set()),
        ("import a.b\na.b.c\nfrom d import e as f\nf", set(), set()),
        ("del x", {"x"}, set()),
        ("x.y = z", {"x", "z"}, set()),
        ("with a as b:\n    b", {"a"}, set()),
        ("__name__, __file__", set(), set()),
    ],
)  # fmt: skip
def test_scopes(source, now, later):
    reads = reads_of(source)
    found = {name for name, use in reads.now.items() if name not in use.bound}
    assert found == now
    assert {name for uses in reads.later.values() for name in uses} == later


@pytest.mark.parametrize(
    ("source", "hard", "soft"),
    [
        ("if a:\n    x = 1\nx", {"a"}, {"x"}),
        ("if a:\n    x = 1\nelse:\n    x", {"a", "x"}, set()),
        ("if a:\n    x = 1\nelse:\n    raise E\nx", {"a", "E"}, set()),
        ("for i in a:\n    if i:\n        x\n    x = i", {"a"}, {"x"}),
        ("for i in a:\n    x\n    x = i", {"a", "x"}, set()),
        ("for i in a:\n    x = i\nx, i", {"a"}, set()),
        ("while x:\n    x = 1", {"x"}, set()),
        ("try:\n    x = a\nexcept E:\n    x = 1\nx", {"a", "E"}, set()),
        ("try:\n    x = a\nexcept E:\n    x\nx", {"a", "E"}, {"x"}),
        ("try:\n    x\nexcept (E, NameError):\n    pass", {"E", "NameError"}, {"x"}),
        ("try:\n    x = 1\nfinally:\n    y = 2\nx, y", set(), set()),
        ("match a:\n    case 1:\n        x = 1\n    case _:\n        x = 2\nx", {"a"}, set()),
        ("match a:\n    case 1:\n        x = 1\nx", {"a"}, {"x"}),
        ("x: A = 1", {"A"}, set()),
        ("def f():\n    x: A = 1", set(), {"A"}),
        ("x: 'A[B]' = 1", set(), {"A", "B"}),
        ("x: Literal['A'] = 1", {"Literal"}, set()),
        ("del x\nx", {"x"}, set()),
    ],
)  # fmt: skip
def test_what_fails_and_what_may_not(source, hard, soft):
    uses = [reads_of(source).now, *reads_of(source).later.values()]
    found = {name: use.hard for each in uses for name, use in each.items() if name not in use.bound}
    assert {name for name, is_hard in found.items() if is_hard} == hard
    assert {name for name, is_hard in found.items() if not is_hard} == soft


def test_annotations_that_are_not_evaluated_fail_nowhere():
    reads = reads_of("def f(x: A) -> B: ...\ny: C = 1", lazy=True)
    assert names_of(reads) == {"A", "B", "C"}
    assert names_of(reads, hard=True) == set()


def test_the_strongest_binding_counts():
    source = (
        "try:\n    import a\nexcept ImportError:\n    a = None\nif b:\n    c = 1\n    def c(): ..."
    )
    kinds = bound_names(ast.parse(source).body)
    assert kinds == {"a": Kind.IMPORT, "c": Kind.DEFINE}
