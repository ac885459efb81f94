"""Small notebooks made at random: plain and as jobs, they end in the same state."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.notebooks.percent import Notebook, NotebookCell
from tests.notebooks.same import differences
from tests.notebooks.session import run

pytestmark = pytest.mark.service  # kernels

FIRST = """
import os
import random
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field

import numpy as np
from IPython.display import display

random.seed(0)
np.random.seed(0)


class Box:
    def __init__(self):
        self.n, self.held = 0, []


class Slotted:
    __slots__ = ("held", "n", "friend")

    def __init__(self):
        self.n, self.held = 0, []


@dataclass
class Point:
    n: int = 0
    held: list = field(default_factory=list)


class Numbers(list):
    def __init__(self, *items):
        super().__init__(items)
        self.n = 0


def keep(held):
    def add(item):
        held.append(item)
        return held

    return add


def counter():
    n = 0

    def up():
        nonlocal n
        n += 1
        return n

    return up


up, down = counter(), counter()
"""

MADE = {
    "int": "7",
    "text": "'text'",
    "list": "[1, 2]",
    "dict": "{'a': 1}",
    "set": "{1, 2}",
    "deque": "deque([1], 3)",
    "default": "defaultdict(list)",
    "array": "np.arange(4.0)",
    "view": "np.arange(6.0)[1:5]",
    "grid": "np.zeros((2, 3)).T",
    "box": "Box()",
    "slotted": "Slotted()",
    "point": "Point()",
    "numbers": "Numbers(1, 2)",
    "tuple": "([1], {'k': [2]})",
    "lists": "{'k': [1], 'm': [2, 3]}",
    "counts": "Counter('aab')",
    "ordered": "OrderedDict(a=1, b=[2])",
    "bytes": "bytearray(b'ab')",
    "iterator": "iter([1, 2, 3])",
    "pairs": "zip([1, 2, 3], 'xyz')",
    "numbered": "enumerate('xyz')",
    "draws": "random.Random(5)",
    "rng": "np.random.default_rng(5)",
    "kept": "keep([1])",
}
"""How a value of each kind is made."""

CHANGED = {
    "int": ["{0} += 1"],
    "text": ["{0} = {0} + '!'"],
    "list": ["{0}.append(5)", "{0} += [6]", "{0}.reverse()", "del {0}[:1]", "{0}[:] = [0, *{0}]"],
    "dict": ["{0}['b'] = 2", "{0}.pop('a', None)", "{0}.update(c=3, a=4)", "{0}.clear()"],
    "set": ["{0}.add(9)", "{0}.discard(1)"],
    "deque": ["{0}.append(3)", "{0}.rotate(1)"],
    "default": ["{0}['x'].append(1)"],
    "array": ["{0}[:2] = 8", "{0} += 1", "{0} = {0} * 2", "{0}.sort()"],
    "view": ["{0}[:2] = 8", "{0} += 1", "{0} = {0}[::2]", "{0}[-1:] = 3"],
    "grid": ["{0}[0] = 1", "{0} *= 2", "{0} = {0}.copy()"],
    "box": ["{0}.n += 1", "{0}.held.append({0}.n)", "{0}.more = {{}}", "{0}.held = [*{0}.held]"],
    "slotted": ["{0}.n += 1", "{0}.held.append({0}.n)", "{0}.friend = [{0}.n]"],
    "point": ["{0}.n += 1", "{0}.held.append({0}.n)", "{0}.held = []", "{0} = Point({0}.n + 1)"],
    "numbers": ["{0}.append({0}.n)", "{0}.n += 1", "{0}.sort(key=str)"],
    "tuple": ["{0}[0].append(4)", "{0}[1]['k'] += [5]", "{0} = (*{0}, 6)", "{0} += ([7],)"],
    "lists": ["{0}.setdefault('k', []).append(1)", "{0}['m'] = {0}.get('k')", "{0}['n'] = [0]"],
    "counts": ["{0}.update('ab')", "{0}['c'] += 1", "{0} = {0} + Counter('z')"],
    "ordered": [
        "{0}.move_to_end(next(iter({0})))",
        "{0}['c'] = [3]",
        "{0}.popitem()\n{0}['z'] = 1",
    ],
    "bytes": ["{0} += b'c'", "{0}[:1] = b'xyz'", "{0}.reverse()"],
    "iterator": ["print(next({0}, None))", "print(list({0}))"],
    "pairs": ["print(next({0}, None))", "print(list({0}))"],
    "numbered": ["print(next({0}, None))"],
    "draws": ["print({0}.random())", "{0}.seed(2)"],
    "rng": ["print({0}.random())", "print({0}.integers(9))"],
    "kept": ["print({0}(1))", "print(len({0}({0}.__name__)))"],
}
"""Statements that change a name, or its object in place."""

HELD = {
    "list": "{0}.append({1})",
    "dict": "{0}['k'] = {1}",
    "default": "{0}['k'].append({1})",
    "box": "{0}.friend = {1}",
    "deque": "{0}.append({1})",
    "slotted": "{0}.friend = {1}",
    "point": "{0}.held.append({1})",
    "numbers": "{0}.append({1})",
    "tuple": "{0}[0].append({1})",
    "lists": "{0}['k'] = [{1}]",
    "ordered": "{0}['h'] = {1}",
    "kept": "print(len({0}({1})))",
}
"""How an object comes to hold another."""

SEEN = [
    "print({0!r}, type({0}).__name__)",
    "display({{'text/plain': {0!r}}}, raw=True)",
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    print(error)",
    "display({0})",
]

SET = [
    "np.set_printoptions(precision=3)",
    "np.set_printoptions(suppress=True, threshold=7)",
    "np.seterr(divide='ignore')",
    "warnings.filterwarnings('ignore', 'old')",
    "warnings.simplefilter('once', DeprecationWarning)",
    "os.environ['RANDOM_NOTEBOOK'] = str(len(os.environ.get('RANDOM_NOTEBOOK', '')))",
    "os.environ.pop('RANDOM_NOTEBOOK', None)",
]
"""Statements that set something for the whole process."""

AROUND = [
    "try:\n    {0}\n    raise ValueError(3)\nexcept ValueError as error:\n    caught = error.args",
    "for i in range(2):\n    {0}",
    "if (size := len(str(3))) == 1:\n    {0}",
    "def once():\n    global {1}\n    {0}\n\n\nonce()",
    "with warnings.catch_warnings():\n    {0}",
    "squares = [i * i for i in range(3)]\n{0}",
]
"""Statements around a change of a name."""


@dataclass
class Author:
    """Writes statements that run, since it knows which names there are, and of which kind."""

    draw: st.DrawFn
    kinds: dict[str, str] = field(default_factory=dict)
    functions: dict[str, tuple[str, str]] = field(default_factory=dict)

    def one_of(self, *choices):
        return self.draw(st.sampled_from(choices))

    def name(self, *kinds):
        fitting = [name for name, kind in self.kinds.items() if not kinds or kind in kinds]
        return self.one_of(*fitting) if fitting else None

    def statement(self):
        write = self.one_of(
            self.bind, self.change, self.change, self.alias, self.hold, self.show, self.define,
            self.call, self.count, self.draw_a_number, self.delete, self.hold_all, self.swap,
            self.set, self.around, self.look_at, self.shuffle, self.nest,
        )  # fmt: skip
        return write() or self.bind()

    def bind(self):
        name, kind = self.one_of(*"abcdef"), self.one_of(*MADE)
        self.kinds[name] = kind
        return f"{name} = {MADE[kind]}"

    def change(self):
        if name := self.name():
            return self.one_of(*CHANGED[self.kinds[name]]).format(name)
        return None

    def alias(self):
        if other := self.name():
            name = self.one_of(*"abcdef")
            self.kinds[name] = self.kinds[other]
            return f"{name} = {other}"
        return None

    def hold(self):
        if name := self.name(*HELD):
            return HELD[self.kinds[name]].format(name, self.name())
        return None

    def show(self):
        if name := self.name():
            return self.one_of(*SEEN).format(name)
        return None

    def define(self):
        if name := self.name("int", "list", "box", "dict"):
            function = self.one_of("do", "go")
            change = self.one_of(*CHANGED[self.kinds[name]]).format(name)
            self.functions[function] = name, self.kinds[name]
            return f"def {function}():\n    global {name}\n    {change}"
        return None

    def call(self):
        able = [f for f, (name, kind) in self.functions.items() if self.kinds.get(name) == kind]
        return f"{self.one_of(*able)}()" if able else None

    def count(self):
        return f"print({self.one_of('up', 'down')}())"

    def hold_all(self):
        if held := self.name():
            name, kind = self.one_of(*"abcdef"), self.one_of("list", "tuple", "lists", "deque")
            other = self.name()
            self.kinds[name] = kind
            made = {
                "list": "[{0}, {1}]",
                "tuple": "([{0}], {{'k': [{1}]}}, {0})",
                "lists": "{{'k': [{0}], 'm': [{1}, {0}]}}",
                "deque": "deque([({0}, {1})], 4)",
            }
            return f"{name} = {made[kind].format(held, other)}"
        return None

    def swap(self):
        one, other = self.name(), self.name()
        if not one:
            return None
        self.kinds[one], self.kinds[other] = self.kinds[other], self.kinds[one]
        return f"{one}, {other} = {other}, {one}"

    def set(self):
        return self.one_of(*SET)

    def around(self):
        if name := self.name():
            change = self.one_of(*CHANGED[self.kinds[name]]).format(name)
            around = self.one_of(*AROUND)
            indent = "\n    " if "\n    {0}" in around else "\n"
            return around.format(change.replace("\n", indent), name)
        return None

    def look_at(self):
        if array := self.name("array", "view"):
            name = self.one_of(*"abcdef")
            self.kinds[name] = "view"
            return f"{name} = {array}[1:]"
        return None

    def shuffle(self):
        if name := self.name("list", "numbers"):
            return self.one_of(f"random.shuffle({name})", f"{name}[:1] = [random.choice([1, 2])]")
        return None

    def nest(self):
        if name := self.name():
            inner = f"    def inner():\n        return {name}"
            return f"def nested():\n{inner}\n\n    return inner\n\n\ngiven = nested()"
        return None

    def draw_a_number(self):
        if self.draw(st.booleans()):
            return self.one_of("random.seed(3)", "np.random.seed(4)")
        self.kinds["x"] = "int"
        return self.one_of("x = random.random()", "x = np.random.rand()", "x = random.randrange(9)")

    def delete(self):
        if name := self.name():
            del self.kinds[name]
            return f"del {name}"
        return None


@st.composite
def notebooks(draw):
    author = Author(draw)
    cells = [NotebookCell(FIRST.strip())]
    for number in range(draw(st.integers(2, 5))):
        source = "\n".join(author.statement() for _ in range(draw(st.integers(1, 6))))
        heavy = number % 2 == 1 or draw(st.booleans())
        cells.append(NotebookCell(source, frozenset({"heavy"} if heavy else ())))
    return Notebook(tuple(cells))


def the_same_both_ways(notebook):
    # Supervisors write a last word after a cell has its result.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        plain = run(notebook, Path(folder, "plain"), jobs=False)
        submarine = run(notebook, Path(folder, "submarine"), jobs=True)
    found = differences(notebook, plain, submarine)
    text = "\n\n".join(f"# {'JOB' if c.heavy else ''}\n{c.source}" for c in notebook.cells[1:])
    assert not found, "\n".join([text, *map(str, found)])


FEW = settings(suppress_health_check=[*HealthCheck], phases=[Phase.explicit, Phase.generate])


@settings(FEW, max_examples=4)
@given(notebooks())
def test_a_random_notebook_is_as_if_its_cells_had_run_right_there(notebook):
    the_same_both_ways(notebook)


@pytest.mark.long
@pytest.mark.timeout(3600)  # two kernels and some jobs for each of them
@settings(FEW, max_examples=150)
@given(notebooks())
def test_many_random_notebooks_are(notebook):
    the_same_both_ways(notebook)
