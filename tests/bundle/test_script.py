"""The script is what a person would have written: to the letter, the formatter and the map."""

from __future__ import annotations

import ast

import pytest
from submarine_engine.bundle import Cell, build
from submarine_engine.bundle.model import Dropped

CELLS = [
    """
import json
import os

import numpy as np
from collections import OrderedDict, defaultdict

# How many times.
EPOCHS = 3  # not more
SEED = 1 + 2 * 3

samples = np.arange(1000)
""",
    '''
# Not about the network.

# The network.
# It has one layer.
class Net:
    """A network."""

    def __init__(self, size):
        self.size = size

    @property
    def half(self):
        return self.size // 2

        # nothing more


def train(net, epochs=EPOCHS):
    """Train."""
    text = """
    not
indented
"""
    for epoch in range(epochs):
        print(json.dumps({"epoch": epoch, "half": net.half}))
    return len(text), int(samples.sum())
''',
    "net = Net(8)",
]

MAIN = '''
# Train it.
import math

from collections import OrderedDict


def report(result):
    return OrderedDict(result=result, root=math.sqrt(SEED + 2))


# Go.
note = """
not indented
"""
result = train(net)


def inner():
    """Say it.

    Well.
    """
    return note


print(report(result), repr(inner()))  # the end
'''

SCRIPT = '''\
# Written by Submarine; each section says which cell of the notebook it comes from.
# To run it: python script.py


# %% Imports
import json
import math
import pickle
from collections import OrderedDict
from pathlib import Path


# %% Values from the notebook
class NotebookUnpickler(pickle.Unpickler):
    """Finds the notebook's functions and classes in this script, by whatever name it runs."""

    def find_class(self, module, name):
        return super().find_class(__name__ if module == "__main__" else module, name)


def load_values(path):
    """Load values of the notebook from a file beside this script."""
    with (Path(__file__).parent / path).open("rb") as file:
        return NotebookUnpickler(file).load()


samples = load_values("values/samples.pkl")


# %% In [1]
# How many times.
EPOCHS = 3  # not more
SEED = 1 + 2 * 3


# %% In [2]
# The network.
# It has one layer.
class Net:
    """A network."""

    def __init__(self, size):
        self.size = size

    @property
    def half(self):
        return self.size // 2

        # nothing more


def train(net, epochs=EPOCHS):
    """Train."""
    text = """
    not
indented
"""
    for epoch in range(epochs):
        print(json.dumps({"epoch": epoch, "half": net.half}))
    return len(text), int(samples.sum())


# %% Values from the notebook
net = load_values("values/net.pkl")


# %% In [4]
# Train it.


def report(result):
    return OrderedDict(result=result, root=math.sqrt(SEED + 2))


if __name__ == "__main__":
    # Go.
    note = """
not indented
"""
    result = train(net)

    def inner():
        """Say it.

        Well.
        """
        return note

    print(report(result), repr(inner()))  # the end
'''


@pytest.fixture
def example(notebook):
    for source in CELLS:
        notebook.run(source)
    return notebook


def test_the_script_to_the_letter(example, formatted):
    bundle = example.bundle(MAIN)
    assert bundle.script == SCRIPT
    formatted(bundle)
    printed = example.result(bundle)
    assert printed.splitlines()[-1].endswith("'\\nnot indented\\n'")


def test_the_script_is_plain_python_for_all_supported_versions(example):
    ast.parse(example.bundle(MAIN).script, feature_version=(3, 10))


def test_every_line_of_a_cell_is_mapped_to_it(example):
    bundle = example.bundle(MAIN)
    sources = {cell.label: cell.source.split("\n") for cell in example.cells}
    sources["In [4]"] = MAIN.strip("\n").split("\n")
    lines = bundle.script.split("\n")
    mapped = 0
    for number, line in enumerate(lines, 1):
        found = bundle.manifest.origin("script.py", number)
        if found is None:
            continue
        span, there = found
        mapped += 1
        original = sources[span.cell][there - 1].strip()
        if original.startswith(("import", "from")):
            assert line.startswith(("import", "from"))
        else:
            assert line.strip() == original
        assert span.cell_id == ("id-main" if span.cell == "In [4]" else f"id-{span.cell_number}")
    assert mapped == 45


def test_lines_of_our_own_belong_to_no_cell(example):
    bundle = example.bundle(MAIN)
    ours = {
        line
        for number, line in enumerate(bundle.script.split("\n"), 1)
        if not bundle.manifest.origin("script.py", number)
    }
    for line in ("import pickle", 'samples = load_values("values/samples.pkl")', "# %% In [1]"):
        assert line in ours
    assert not any("train" in line or "report" in line for line in ours)


def test_the_line_that_fails_is_found_in_its_cell(notebook):
    notebook.run("import json\n\n\ndef fail():\n    x = 1\n    return x / 0")
    bundle = notebook.bundle("a = 1\n\n\n\nb = fail()")
    lines = bundle.script.split("\n")
    span, line = bundle.manifest.origin("script.py", lines.index("    return x / 0") + 1)
    assert (span.cell, line) == ("In [1]", 6)
    span, line = bundle.manifest.origin("script.py", lines.index("    b = fail()") + 1)
    assert (span.cell, line) == ("In [2]", 5)


def test_lines_that_the_magic_stood_on_are_counted(notebook):
    main = Cell(number=1, source="\n\nprint('on line 3')", id="m")
    bundle = build(main, [], {})
    number = bundle.script.split("\n").index("    print('on line 3')") + 1
    assert bundle.manifest.origin("script.py", number)[1] == 3


def test_dropped_lines_of_the_cells_used_are_listed(notebook):
    gone = Dropped(line=1, text="%matplotlib inline", reason="it draws in the notebook")
    notebook.run("\ndef f():\n    return 1", dropped=(gone,))
    notebook.run("\ndef unused():\n    pass", dropped=(gone,))
    bundle = notebook.bundle("f()")
    assert bundle.manifest.dropped == (("In [1]", gone),)
