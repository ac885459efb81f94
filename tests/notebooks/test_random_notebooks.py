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
import random
from collections import defaultdict, deque

import numpy as np
from IPython.display import display

random.seed(0)
np.random.seed(0)


class Box:
    def __init__(self):
        self.n, self.held = 0, []


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
    "box": "Box()",
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
    "box": ["{0}.n += 1", "{0}.held.append({0}.n)", "{0}.more = {{}}"],
}
"""Statements that change a name, or its object in place."""

HELD = {
    "list": "{0}.append({1})",
    "dict": "{0}['k'] = {1}",
    "default": "{0}['k'].append({1})",
    "box": "{0}.friend = {1}",
    "deque": "{0}.append({1})",
}
"""How an object comes to hold another."""

SEEN = [
    "print({0!r}, type({0}).__name__)",
    "display({{'text/plain': {0!r}}}, raw=True)",
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    print(error)",
]


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
            self.call, self.count, self.draw_a_number, self.delete,
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
    with TemporaryDirectory() as folder:
        plain = run(notebook, Path(folder, "plain"), jobs=False)
        submarine = run(notebook, Path(folder, "submarine"), jobs=True)
    found = differences(notebook, plain, submarine)
    text = "\n\n".join(f"# {'JOB' if c.heavy else ''}\n{c.source}" for c in notebook.cells[1:])
    assert not found, "\n".join([text, *map(str, found)])


FEW = settings(suppress_health_check=[*HealthCheck], phases=[Phase.explicit, Phase.generate])


@settings(FEW, max_examples=8)
@given(notebooks())
def test_a_random_notebook_is_as_if_its_cells_had_run_right_there(notebook):
    the_same_both_ways(notebook)


@pytest.mark.long
@settings(FEW, max_examples=150)
@given(notebooks())
def test_many_random_notebooks_are(notebook):
    the_same_both_ways(notebook)
