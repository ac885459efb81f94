"""A law: the script does what the notebook would have done, for notebooks of all kinds."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
import traceback
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from submarine_engine.bundle import Cell, build
from submarine_engine.errors import CannotTravelError, UndefinedNameError

MAIN = """
def told(value):
    try:
        if isinstance(value, type):
            return value.__name__, value.SIZE, value().get()
        if hasattr(value, "get"):
            return type(value).__name__, value.n, value.get()
        return value() if callable(value) else value
    except (NameError, AttributeError) as error:
        return type(error).__name__


print(%s)
"""


def lower(kind, index):
    """A name of a kind that comes before `index`: functions never call one another in circles."""
    return f"{kind}{max(0, index - 1)}"


DECORATED = """
def deco(f):
    return lambda: ({value}, f())
@deco
def {f}():
    return {n}
"""

CONDITIONAL = """
try:
    from nowhere import {f}
except ImportError:
    def {f}():
        return {n}
"""


@st.composite
def statements(draw):
    index = draw(st.integers(0, 2))
    n, f, c, o = f"n{index}", f"f{index}", f"C{index}", f"o{index}"
    other = draw(st.sampled_from(["n0", "n1", "n2"]))
    value = draw(st.integers(0, 9))
    return draw(
        st.sampled_from(
            [
                f"{n} = {value}",
                f"{n}, m{index} = {value}, [{value}]",
                f"{n} = {other} + {value}",
                f"{n} += {value}",
                f"del {n}",
                f"if {value} > 4:\n    {n} = {value}",
                f"for {n} in range({value}):\n    pass",
                f"import math as {n}",
                f"from math import pi as {n}",
                f"{n} = [{value}] * 300",
                f"def {f}(x={other}):\n    return x, {n}",
                f"def {f}():\n    return [{other}, {lower('f', index)}]"
                if index
                else f"def {f}():\n    return {other}",
                f"def {f}():\n    return {lower('C', index)}.SIZE, {other}",
                f"{f} = lambda x={value}: (x, {n})",
                f"def make(k):\n    return lambda: k\n{f} = make({other})",
                DECORATED.format(f=f, n=n, value=value),
                CONDITIONAL.format(f=f, n=n),
                f"class {c}:\n    SIZE = {other}\n    n = 0\n    get = lambda self: {n}",
                f"class {c}({lower('C', index)}):\n    n = {value}"
                if index
                else f"class {c}:\n    SIZE = n = 3\n    get = lambda self: {n}",
                f"{c}.SIZE = {value}",
                f"{c}.get = lambda self: {other}",
                f"{o} = {c}()\n{o}.n = {value}",
                f"{o} = [{c}() for _ in range(2)][0]",
                f"@register\ndef {f}():\n    return {n}, len(R)",
            ]
        )
    )


cells = st.lists(
    st.one_of(
        st.lists(statements(), min_size=1, max_size=3).map("\n".join),
        st.integers(0, 5),  # run that cell again
    ),
    min_size=1,
    max_size=9,
)


NAMES = ["n0", "n1", "n2", "m1", "f0", "f1", "f2", "C0", "C1", "C2", "o0", "o1"]

PRELUDE = """
n0 = n1 = n2 = 5
m1 = [5]
f0 = f1 = f2 = lambda: 5
class C0:
    SIZE = n = 5
    def get(self): return 5
class C1(C0): pass
class C2(C1): pass
o0, o1 = C0(), C1()
R = {}
def register(f):
    R[f.__name__] = f
    return f
"""


@given(sources=cells, data=st.data())
@settings(max_examples=2 * settings().max_examples)  # 100, and 600 in `make test-long`
def test_a_script_does_what_the_notebook_would_have_done(sources, data):
    module = types.ModuleType("__main__")
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        executed = run_cells([PRELUDE, *sources], module)
        known = [name for name in NAMES if name in vars(module)]
        known = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        main = MAIN % ", ".join(f"told({name})" for name in known)
        bundle = None
        with contextlib.suppress(UndefinedNameError, CannotTravelError):
            bundle = bundled(main, executed, vars(module))
        expected = run(main, module)
        if bundle is None:
            check_refusal(main, executed, vars(module))
            return
        assert run_bundle(bundle) == expected, bundle.script
    finally:
        sys.modules["__main__"] = before


def run_cells(sources, module):
    executed = []
    for given_source in sources:
        source = given_source
        if isinstance(given_source, int):
            if given_source >= len(executed):
                continue
            source = executed[given_source].source
        lines = None
        try:
            exec(compile(source, "<cell>", "exec", dont_inherit=True), vars(module))  # noqa: S102 - a kernel
        except (NameError, AttributeError, TypeError) as error:
            entries = traceback.extract_tb(error.__traceback__)
            lines = next(entry.lineno for entry in entries if entry.filename == "<cell>") - 1
        executed.append(Cell(number=len(executed) + 1, source=source, executed=lines))
    return executed


def bundled(main, executed, namespace):
    return build(Cell(number=99, source=main), executed, namespace)


def check_refusal(main, executed, namespace):
    """A refusal needs a reason: what is missing, or what was bound anew since."""
    with pytest.raises((UndefinedNameError, CannotTravelError)) as caught:
        bundled(main, executed, namespace)
    what = caught.value.what
    if isinstance(caught.value, UndefinedNameError):
        assert any(name not in namespace for name in re.findall(r"`(\w+)`", what))
    else:
        reasons = ("bound it again", "defined anew since", "a lambda", "deleted since")
        assert any(reason in what for reason in reasons), what


def run(source, module, file="<script>"):
    module.__file__ = file
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, file, "exec", dont_inherit=True), vars(module))  # noqa: S102 - likewise
    return re.sub(r" at 0x\w+", "", out.getvalue())


def run_bundle(bundle):
    with tempfile.TemporaryDirectory() as folder:
        bundle.write(Path(folder))
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        return run(bundle.script, module, f"{folder}/{bundle.manifest.entry}")
