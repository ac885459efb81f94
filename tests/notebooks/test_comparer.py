"""What the comparer takes for the same, and what it must not."""

import base64
import io
import textwrap
import types

import pytest
from PIL import Image

from tests.notebooks import percent
from tests.notebooks.percent import Notebook
from tests.notebooks.same import CARD, differences, shown
from tests.notebooks.session import CellRun
from tests.notebooks.state import Process, state_of

PLAIN = Notebook(())


def state(source, name="__main__"):
    """Return the state that a cell leaves."""
    namespace = {"__name__": name}
    exec(textwrap.dedent(source), namespace)  # noqa: S102 - as a kernel does
    return state_of(namespace)


ALIKE = {
    "values": "a = [1, 2.5, 'x', b'y', None, (1,), {2, 3}, {'k': [1]}, range(3)]",
    "a cycle": "a = []; a.append(a)",
    "functions": "def f(x, y=[1], *, z={}):\n    return [i + x for i in y]",
    "classes": """
        class A:
            n = 1
            def m(self): return self.n
            @property
            def p(self): raise AssertionError('looking changes nothing')
            @staticmethod
            def s(): pass
        a = A(); a.x = 1; bound = a.m
    """,
    "closures": """
        def make():
            n = 0
            def up():
                nonlocal n
                n += 1
            return up
        up = make()
    """,
    "generators": "g = (i for i in range(3)); next(g)",
    "arrays": "import numpy as np; a = np.arange(6).reshape(2, 3); b = a[0]; c = np.array([{}])",
    "frames": "import pandas as pd; d = pd.DataFrame({'a': [1, None]}, index=['x', 'y']); s = d.a",
    "random states": "import random; r = random.Random(1); r.random()",
    "numpy's random states": """
        import numpy as np
        r = np.random.default_rng(1); s = np.random.RandomState(2)
    """,
    "enums": "import enum\nclass E(enum.Enum):\n    A = 1\ne = E.A",
    "data classes": """
        from dataclasses import dataclass, field
        @dataclass(order=True)
        class D:
            x: int
            y: list = field(default_factory=list)
        d = D(1)
    """,
    "named tuples": "from collections import namedtuple; P = namedtuple('P', 'x y'); p = P(1, [2])",
    "slots": "class S:\n    __slots__ = ('x', 'unset')\ns = S(); s.x = [1]",
    "containers": """
        from collections import *
        a = defaultdict(list, x=[1]); b = deque([1, 2], 3); c = Counter('aab'); d = OrderedDict(z=1)
    """,
    "what repr tells": "import datetime, decimal, re, pathlib; a = [datetime.date(2020, 1, 1), \
        decimal.Decimal('1.5'), re.compile('x'), pathlib.Path('p')]",
    "exceptions": "e = ValueError('x', [1]); e.more = 2",
    "partial": "import functools; f = functools.partial(max, [1], default=2)",
    "files": "import io; f = io.StringIO('abc'); f.read(1)",
    "nothing of C's": "import threading; lock = threading.Lock()",
    "a set of objects": "class A:\n    def __init__(self, n): self.n = n\ns = {A(1), A(2), A(3)}",
}


@pytest.mark.parametrize("source", ALIKE.values(), ids=ALIKE.keys())
def test_a_cell_run_twice_leaves_the_same(source):
    assert state(source) == state(source)


DIFFERENT = {
    "a name": ("a = 1", "b = 1"),
    "a private name": ("_a = 1", ""),
    "a type": ("a = 1", "a = 1.0"),
    "True is not 1": ("a = [1]", "a = [True]"),
    "the last bit": ("a = 0.1 + 0.2", "a = 0.3"),
    "a sign of zero": ("a = 0.0", "a = -0.0"),
    "an alias": ("a = [1]; b = a", "a = [1]; b = [1]"),
    "who holds whom": ("a = []; b = [a]", "a = []; b = [[]]"),
    "an alias deep inside": ("a = {'x': [[1]]}; b = a['x'][0]", "a = {'x': [[1]]}; b = [1]"),
    "the order of keys": ("a = dict(x=1, y=2)", "a = dict(y=2, x=1)"),
    "a member of a set": ("a = {1, 2}", "a = {1, 3}"),
    "a set's kind": ("a = {1}", "a = frozenset({1})"),
    "the longest a deque may be": (
        "from collections import deque; a = deque([1])",
        "from collections import deque; a = deque([1], 5)",
    ),
    "a default's factory": (
        "from collections import defaultdict; a = defaultdict(list)",
        "from collections import defaultdict; a = defaultdict(set)",
    ),
    "a long list's end": ("a = [*range(1000), 1]", "a = [*range(1000), 2]"),
    "a long text's end": ("a = 'x' * 1000 + 'a'", "a = 'x' * 1000 + 'b'"),
    "an attribute": (
        "class A: pass\na = A(); a.x = 1",
        "class A: pass\na = A(); a.x = 2",
    ),
    "a class of an older cell": (
        "class A: pass\na = A()",
        "class A: pass\na = A()\nclass A: pass",
    ),
    "a class attribute": ("class A: n = 1", "class A: n = 2"),
    "a base": ("class B: pass\nclass A(B): pass", "class B: pass\nclass A: pass"),
    "what a function does": ("def f(x): return x + 1", "def f(x): return x + 2"),
    "a default": ("def f(x=[1]): pass", "def f(x=[2]): pass"),
    "an attribute of a function": ("def f(): pass\nf.calls = 1", "def f(): pass\nf.calls = 2"),
    "a variable of a closure": (
        "def make(n):\n    return lambda: n\nf = make(1)",
        "def make(n):\n    return lambda: n\nf = make(2)",
    ),
    "a closure that two share": (
        "def make(n):\n    return (lambda: n), (lambda: n + 1)\nf, g = make(1)",
        "def make(n):\n    return (lambda: n), (lambda: n + 1)\nf, g = make(1)[0], make(1)[1]",
    ),
    "the globals of a function": (
        "def f(): return 1",
        "exec('def f(): return 1', {'__name__': '__main__'}, locals())",
    ),
    "an array's element": (
        "import numpy as np; a = np.zeros(100)",
        "import numpy as np; a = np.zeros(100); a[99] = 1",
    ),
    "an array's kind": (
        "import numpy as np; a = np.zeros(2)",
        "import numpy as np; a = np.zeros(2, 'f4')",
    ),
    "memory that two arrays share": (
        "import numpy as np; a = np.zeros(4); b = a[1:2]",
        "import numpy as np; a = np.zeros(4); b = a[1:2].copy()",
    ),
    "a column": (
        "import pandas as pd; d = pd.DataFrame({'a': [1]})",
        "import pandas as pd; d = pd.DataFrame({'a': [1]}); d['b'] = 2",
    ),
    "a column's kind": (
        "import pandas as pd; d = pd.DataFrame({'a': [1, 2]}, dtype='int32')",
        "import pandas as pd; d = pd.DataFrame({'a': [1, 2]}, dtype='int64')",
    ),
    "an index's name": (
        "import pandas as pd; d = pd.DataFrame({'a': [1]})",
        "import pandas as pd; d = pd.DataFrame({'a': [1]}); d.index.name = 'i'",
    ),
    "how far a generator is": ("g = (i for i in range(3))", "g = (i for i in range(3)); next(g)"),
    "a random state": (
        "import random; r = random.Random(1)",
        "import random; r = random.Random(1); r.random()",
    ),
    "a generator's state": (
        "import numpy as np; r = np.random.default_rng(1)",
        "import numpy as np; r = np.random.default_rng(1); r.random()",
    ),
    "how far a file is read": (
        "import io; f = io.StringIO('abc')",
        "import io; f = io.StringIO('abc'); f.read(1)",
    ),
    "a subclass's items": (
        "class L(list): pass\na = L([1])",
        "class L(list): pass\na = L([2])",
    ),
    "a subclass's number": (
        "class F(float):\n    def __repr__(self): return 'F'\na = F(1)",
        "class F(float):\n    def __repr__(self): return 'F'\na = F(2)",
    ),
    "a slot": (
        "class S:\n    __slots__ = 'x'\ns = S(); s.x = 1",
        "class S:\n    __slots__ = 'x'\ns = S(); s.x = 2",
    ),
    "a method's object": (
        "class A:\n    def m(self): pass\na, b = A(), A(); m = a.m",
        "class A:\n    def m(self): pass\na, b = A(), A(); m = b.m",
    ),
    "what was shown": ("Out = {1: [1]}", "Out = {}"),
    "what a value has in __getstate__ only": (
        "class A:\n    def __getstate__(self): return {}\na = A(); a.x = 1",
        "class A:\n    def __getstate__(self): return {}\na = A(); a.x = 2",
    ),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_a_later_cell_could_tell_apart_is_a_difference(one, other):
    assert state(one) != state(other)


def test_how_the_compiler_calls_a_module_is_no_difference():
    function = "f = lambda x: 1 / np.exp([i for i in x])"
    cells, script = {"__name__": "__main__"}, {"__name__": "__main__"}
    for source in ("import numpy as np", function):
        exec(source, cells)  # noqa: S102 - as a kernel does
    exec(f"import numpy as np\n{function}", script)  # noqa: S102 - as a job does
    assert state_of(cells) == state_of(script)


def test_looking_calls_nothing_of_the_users_and_changes_nothing():
    source = """
        calls = []
        class A:
            def __getattr__(self, name): calls.append(name); raise AttributeError(name)
            def __eq__(self, other): calls.append('eq'); return True
            def __hash__(self): calls.append('hash'); return 1
            def __repr__(self): calls.append('repr'); return 'A'
            def __reduce__(self): calls.append('reduce'); return (A, ())
            def __len__(self): calls.append('len'); return 0
        class D(dict):
            def items(self): calls.append('items'); return ()
        a, d = A(), D(x=1)
    """
    found = state(source)
    assert found["calls"] == "list 0 []"
    assert found["d['x']"] == "1"
    assert state(source) == found


def test_paths_say_where_and_aliases_say_of_whom():
    found = state("a = {'k': [{}]}; b = a['k']; class_ = dict")
    assert found["b"] == "list 1"
    assert found["a['k']"] == "is b"
    assert found["b[0]"] == "dict 0 []"
    assert found["class_"] == "class builtins.dict"


def test_what_belongs_to_the_process_is_told_against_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setenv("PROOF_OLD", "1")
    process = Process(tmp_path)
    before = state_of({}, process)
    assert {*before} <= {"random", "numpy.random"}
    monkeypatch.setenv("PROOF_NEW", f"{tmp_path}/x")
    monkeypatch.delenv("PROOF_OLD")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("src")
    (tmp_path / "file.txt").write_text("text")
    after = state_of({}, process)
    assert after["environ['PROOF_NEW']"] == "'<folder>/x'"
    assert after["environ['PROOF_OLD']"] == "gone"
    assert after["working directory"] == "<folder>"
    assert "src" in after["sys.path"]
    assert "file file.txt" in after


def test_numbers_drawn_are_a_difference(tmp_path):
    import random

    process, first = Process(tmp_path), random.getstate()
    one = state_of({}, process)
    random.random()  # noqa: S311 - the very state that is meant
    other = state_of({}, process)
    random.setstate(first)
    assert one["random"] != other["random"]
    assert one == state_of({}, process)


# What cells show


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def display(kind="display_data", **data):
    bundle = {name.replace("_", "/"): content for name, content in data.items()}
    return {"output_type": kind, "data": bundle}


def error(line, value="bad"):
    frame = f"\x1b[36mCell\x1b[39m In[3], line 2\n      1 x = 1\n\x1b[32m----> 2\x1b[39m {line}\n"
    library = "File /lib/thing.py:5, in f()\n----> 5 raise ValueError\n"
    return {
        "output_type": "error",
        "ename": "ValueError",
        "evalue": value,
        "traceback": [frame, library],
    }


def png(colour, size=(2, 2)):
    held = io.BytesIO()
    Image.new("RGB", size, colour).save(held, "png")
    return base64.b64encode(held.getvalue()).decode()


CARD_OUTPUT = {"output_type": "display_data", "data": {CARD: {}, "text/plain": "card"}}
TQDM = "\repochs:  50%|{} | 1/2 [00:00<00:01, {}it/s]\repochs: 100%|{}| 2/2 [00:01<00:00, {}it/s]\n"

SAME_ON_SCREEN = {
    "in pieces": ([stream("a"), stream("b")], [stream("ab")]),
    "streams interleaved otherwise": (
        [stream("a"), stream("x", "stderr"), stream("b")],
        [stream("x", "stderr"), stream("ab")],
    ),
    "the card": ([stream("a")], [CARD_OUTPUT, stream("a")]),
    "times": ([stream("Wall time: 3 ms\ntook 1.2 s")], [stream("Wall time: 4 s\ntook 93.1 s")]),
    "rates of a bar": (
        [stream(TQDM.format("#", 1.5, "##", 2.25), "stderr")],
        [stream(TQDM.format("####", 10, "#######", 3), "stderr")],
    ),
    "times of tables and bars": (
        [display(text_html="<td>0.5</td><td>00:03</td>"), display(text_html="[4/4 00:01]")],
        [display(text_html="<td>0.5</td><td>00:12</td>"), display(text_html="[4/4 00:00]")],
    ),
    "times of a Trainer": (
        [stream("{'train_runtime': 1.5, 'eval_steps_per_second': 3.25}")],
        [stream("{'train_runtime': 22.75, 'eval_steps_per_second': 0.1}")],
    ),
    "addresses": ([stream("<A at 0x7fabcd123456>")], [stream("<A at 0x7f0000123456>")]),
    "where a kernel keeps its cells": (
        [stream("/x/ipykernel_1/22.py:3: UserWarning")],
        [stream("/y/ipykernel_7/22.py:3: UserWarning")],
    ),
    "what was overwritten": ([stream("1%\r99%\n")], [stream("5%\r99%\n")]),
}


@pytest.mark.parametrize(("one", "other"), SAME_ON_SCREEN.values(), ids=SAME_ON_SCREEN.keys())
def test_what_no_user_would_notice_is_the_same(one, other):
    assert shown(one) == shown(other)


def test_html_that_a_library_displays_once_in_a_process_is_left_out():
    outputs = [display(text_html="<style>\na</style>"), display(text_html="<b>a</b>")]
    assert shown(outputs, once=["<style>.*</style>"]) == shown(outputs[1:])
    assert shown(outputs, once=["<style>"]) == shown(outputs)


DIFFERENT_ON_SCREEN = {
    "text": ([stream("a")], [stream("b")]),
    "a number that is no time": ([stream("loss 1.25")], [stream("loss 1.26")]),
    "a stream": ([stream("a")], [stream("a", "stderr")]),
    "order of text and displays": (
        [stream("a"), display(text_plain="d"), stream("b")],
        [stream("ab"), display(text_plain="d")],
    ),
    "order of displays": (
        [display(text_plain="1"), display(text_plain="2")],
        [display(text_plain="2"), display(text_plain="1")],
    ),
    "a type": ([display(text_plain="1", text_html="1")], [display(text_plain="1")]),
    "a value is no display": (
        [display("execute_result", text_plain="1")],
        [display(text_plain="1")],
    ),
    "a pixel": ([display(image_png=png("red"))], [display(image_png=png("blue"))]),
    "a picture's size": ([display(image_png=png("red"))], [display(image_png=png("red", (3, 2)))]),
    "a message": ([error("f()")], [error("f()", "worse")]),
    "the line that failed": ([error("f()")], [error("g()")]),
    "no error": ([error("f()")], []),
    "what was cleared": ([stream("2")], [stream("1\n2")]),
}


@pytest.mark.parametrize(
    ("one", "other"), DIFFERENT_ON_SCREEN.values(), ids=DIFFERENT_ON_SCREEN.keys()
)
def test_what_a_user_sees_is_a_difference(one, other):
    assert shown(one) != shown(other)


def test_a_picture_is_its_pixels_not_its_file():
    held = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(held, "png", compress_level=0)
    other = base64.b64encode(held.getvalue()).decode()
    assert other != png("red")
    assert shown([display(image_png=other)]) == shown([display(image_png=png("red"))])


# Whole sessions


def ran(state, *outputs, heavy=False):
    return CellRun("", heavy, list(outputs), state)


def test_a_difference_is_told_where_it_is_seen_first_and_once():
    plain = [ran({"a": "1"}), ran({"a": "1", "b": "is a"}, stream("x"))]
    other = [ran({"a": "2"}), ran({"a": "2", "b": "[]"}, stream("y"))]
    found = differences(PLAIN, plain, other)
    assert [(d.cell, d.what, d.plain, d.submarine) for d in found] == [
        (1, "a", "1", "2"),
        (2, "b", "is a", "[]"),
        (2, "output 1", "stdout: x", "stdout: y"),
    ]


def test_a_job_has_one_card():
    plain = [ran({}, heavy=True)]
    assert [d.what for d in differences(PLAIN, plain, plain)] == ["cards"]
    assert not differences(PLAIN, plain, [ran({}, CARD_OUTPUT, heavy=True)])


def test_what_stays_in_the_job_has_to_be_named():
    notebook = Notebook((), stays=frozenset({"lock"}))
    plain = [ran({"a": "1", "lock": "lock", "lock.x": "1"}, heavy=True)]
    silent = ran({"a": "1"}, CARD_OUTPUT, heavy=True)
    line = stream("stayed in the job: `lock` (lock)\n", "stderr")
    said = ran({"a": "1"}, CARD_OUTPUT, line, heavy=True)
    assert [d.what for d in differences(notebook, plain, [silent])] == ["lock"]
    assert not differences(notebook, plain, [said])
    assert differences(PLAIN, plain, [said])


def test_lines_of_ours_count_unless_they_are_announced():
    line = stream("kept `x` as it was\n", "stderr")
    plain, job = [ran({}, heavy=True)], [ran({}, CARD_OUTPUT, line, heavy=True)]
    assert differences(PLAIN, plain, job)
    assert not differences(Notebook((), says=("kept .* as it was",)), plain, job)


def test_what_varies_is_excused_by_its_path_alone():
    notebook = Notebook((), varies=(r"search\..*time.*",))
    one = [ran({"search.fit_time": "1", "search.best": "1"})]
    other = [ran({"search.fit_time": "2", "search.best": "2"})]
    assert [d.what for d in differences(notebook, one, other)] == ["search.best"]


# Notebooks as text


def test_a_notebook_is_read_from_percent_text(tmp_path):
    path = tmp_path / "n.py"
    path.write_text(
        "# Words.\n# stays: a, b\n# says: kept .*\n# varies: x\\..*\n\n# %%\nx = 1\n\n\n"
        '# %% [markdown]\n# # Title\n\n# %% tags=["heavy"]\n# %%time\nif x:\n    # %time x\n'
        '    # a comment\n\n# %% tags=["heavy-below"]\n# %%time\nx = 2\n'
    )
    notebook = percent.read(path)
    first, second, third = notebook.cells
    assert first.source == "x = 1"
    assert not first.heavy
    assert second.source == "%%time\nif x:\n    %time x\n    # a comment"
    assert second.as_job() == f"%%submarine\n{second.source}"
    assert third.as_job() == "%%time\n%%submarine\nx = 2"
    assert notebook.stays == {"a", "b"}
    assert notebook.says == ("kept .*",)
    assert notebook.excuses("a.x")
    assert notebook.excuses("x.y")
    assert not notebook.excuses("ab")


@pytest.mark.parametrize(
    ("text", "words"),
    [('# %% tags=["hevy"]\nx = 1\n', "no such tag: hevy"), ("# %%\nx = 1\n", "no cell is heavy")],
)
def test_a_notebook_that_would_test_nothing_is_refused(tmp_path, text, words):
    path = tmp_path / "n.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        percent.read(path)


def test_modules_and_what_they_hold_are_known_by_name():
    module = types.ModuleType("somewhere")
    module.f = lambda: None
    assert state_of({"m": module}) == {"m": "module somewhere"}
