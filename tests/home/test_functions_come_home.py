"""Functions that hold each other, and values that hold them, are one there and here."""

import pytest

MAKE = """
import functools

def make():
    def ping():
        return pong
    def pong():
        return ping
    return ping, pong

def counted(function):
    @functools.wraps(function)
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args)
    wrapper.calls = 0
    return wrapper
"""

CASES = {
    "two functions of the job's": (
        "",
        "def a(): return 1\ndef b(): return a\nd = {'a': a}\na.peer = b\nb.peer = a",
        "d['a'] is a and a.peer is b and b.peer is a",
    ),
    "two functions that a function of the notebook has made": (
        "ping, pong = make()",
        "d = {'a': ping, 'b': pong}\nping.seen = 1",
        "d['a'] is ping and d['b'] is pong and ping() is pong and ping.seen == 1",
    ),
    "one by source and one by value": (
        "a = lambda: b\nb = lambda: a\nd = {'a': a}",
        "d['b'] = b",
        "d['a'] is a and d['b'] is b and a() is b",
    ),
    "a cached function of the notebook's": (
        "@functools.cache\ndef f(n): return n\nd = [f]",
        "d.append(f)\nf(2)",
        "len(d) == 2 and d[0] is d[1] is f",
    ),
    "a cached function of the job's": (
        "",
        "@functools.cache\ndef f(n): return n\nd = [f]",
        "d[0] is f and f(1) == 1",
    ),
    "a decorated function": (
        "@counted\ndef f(x): return x\nd = {'f': f}",
        "f(1)\nd['f'](2)\nd['g'] = f",
        "f.calls == 2 and d['f'] is f and d['g'] is f",
    ),
    "a decorator with state, of the job's": (
        "",
        """
def note(f):
    note.seen.append(f)
    return f
note.seen = []
@note
def g(): return 1
d = {'g': g}
""",
        "note.seen == [g] and note.seen[0] is g and d['g'] is g",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_a_function_is_one(notebook, capsys, case):
    before, job, holds = CASES[case]
    notebook.run(f"{MAKE}\n{before}")
    notebook.job(job)
    assert notebook.run(f"({holds})") is True
    assert "stayed" not in capsys.readouterr().err


MEMO = """
def memo(function):
    cache, calls = {}, 0
    def found(n):
        nonlocal calls
        calls += 1
        if n not in cache:
            cache[n] = function(n)
        return cache[n], calls
    found.cache = cache
    return found

@memo
def square(n):
    return n * n

def user(n):
    return square(n)
"""


def test_what_a_decorator_of_the_notebook_remembers(notebook, capsys):
    notebook.run(MEMO)
    notebook.run("square(1)")
    assert notebook.job("square(2), user(1), square.cache") == ((4, 2), (1, 3), {1: 1, 2: 4})
    assert notebook.run("square(3), square.cache") == ((9, 4), {1: 1, 2: 4, 3: 9})
    assert notebook.job("table = {'f': square}\nuser(4)") == (16, 5)
    assert notebook.run("table['f'] is square and square(4)") == (16, 6)
    assert "stayed" not in capsys.readouterr().err


def test_a_decorator_that_remembers_what_cannot_travel_is_applied_anew(notebook):
    notebook.run(
        """
        import socket
        def logged(function):
            seen, to = [], socket.socket()
            def call(n):
                seen.append(n)
                return function(n), len(seen), to.fileno() > 0
            call.close = to.close
            return call

        @logged
        def square(n):
            return n * n

        square(1)
        """
    )
    assert notebook.job("square(2)") == (4, 1, True)
    notebook.run("square.close()")


def test_what_a_decorator_of_the_jobs_remembers(notebook, capsys):
    notebook.run(MEMO.partition("@memo")[0])
    notebook.job("@memo\ndef square(n):\n    return n * n\nsquare(2)\ntable = {'f': square}")
    assert notebook.run("table['f'] is square and square(3)") == (9, 2)
    assert notebook["square"].cache == {2: 4, 3: 9}
    assert notebook.job("table['f'] is square and square(4)") == (16, 3)
    assert "stayed" not in capsys.readouterr().err


def test_what_a_decorator_has_wrapped_stays_the_function_that_it_calls(notebook):
    notebook.run(
        """
        from functools import wraps

        def counted(function):
            @wraps(function)
            def inner(*args):
                inner.calls += 1
                return function(*args)
            inner.calls = 0
            return inner

        @counted
        def old(x):
            return x + 1

        held, wrapped = old, old.__wrapped__
        """
    )
    notebook.job("old(1)\nold(2)")
    old = notebook["old"]
    assert old.calls == 2
    assert old is notebook["held"]
    assert old.__wrapped__ is notebook["wrapped"]
    cells = dict(zip(old.__code__.co_freevars, old.__closure__, strict=True))
    assert cells["function"].cell_contents is notebook["wrapped"]
    assert cells["inner"].cell_contents is old


COUNTED = """
import functools

def counted(f):
    @functools.wraps(f)
    def run(*args):
        run.calls += 1
        return f(*args)
    run.calls = 0
    return run

def remembered(f):
    seen, total = [], 0
    def run(*args):
        nonlocal total
        total += 1
        seen.append(args[-1])
        return total, list(seen)
    return run
"""

NET = """
class Net:
    @counted
    def forward(self, x):
        return x + 1

    @counted
    @remembered
    def see(self, x): ...

    @staticmethod
    @counted
    def static(x): ...

    @classmethod
    @counted
    def of_class(cls, x): ...

    @property
    @counted
    def size(self): ...
"""

CALLS = "net.forward(1); found = net.see('a'); Net.static(1); Net.of_class(1); net.size"


def told(notebook):
    net = notebook["Net"]
    parts = vars(net)
    found = [net.forward, net.see, net.static, parts["of_class"].__func__, parts["size"].fget]
    return [function.calls for function in found], notebook["found"]


def test_what_decorated_methods_remember(notebook):
    notebook.run(COUNTED)
    notebook.run(NET + "net = Net()")
    notebook.run(CALLS)
    seen = notebook["Net"].see.__wrapped__.__closure__[0].cell_contents
    notebook.job(CALLS.replace("'a'", "'b'"))
    assert told(notebook) == ([2, 2, 2, 2, 2], (2, ["a", "b"]))
    assert notebook["Net"].see.__wrapped__.__closure__[0].cell_contents is seen
    notebook.run(CALLS)
    assert told(notebook) == ([3, 3, 3, 3, 3], (3, ["a", "b", "a"]))


def test_what_decorated_methods_of_a_class_of_the_job_s_cell_remember(notebook):
    notebook.run(COUNTED)
    notebook.job(NET + "net = Net()\n" + CALLS)
    notebook.run(CALLS)
    assert told(notebook) == ([2, 2, 2, 2, 2], (2, ["a", "a"]))


def test_attributes_of_classes_in_classes(notebook):
    notebook.run("class Net:\n    class Config:\n        rate, layers = 1, []")
    notebook.run("Net.Config.rate = 2\nConfig, layers = Net.Config, Net.Config.layers")
    notebook.job("found = Net.Config.rate\nNet.Config.rate += 1\nNet.Config.layers.append(1)")
    assert notebook["found"] == 2
    assert (notebook["Net"].Config.rate, notebook["layers"]) == (3, [1])
    assert notebook["Net"].Config is notebook["Config"]
    notebook.job("class Own:\n    class Config:\n        rate = 1\nOwn.Config.rate = 5")
    assert notebook["Own"].Config.rate == 5


def test_what_a_function_has_without_a_name_for_it(notebook):
    notebook.run("def step(x=1, *, y=2):\n    return x + y")
    notebook.job("step.__doc__ = 'Step.'\nstep.__defaults__, step.__kwdefaults__ = (5,), {'y': 6}")
    step = notebook["step"]
    assert (step(), step.__doc__) == (11, "Step.")


def test_a_dataclass_of_the_job_s_cell_makes_its_defaults(notebook):
    notebook.job(
        "from dataclasses import dataclass, field\n"
        "@dataclass\nclass Run:\n    rows: list = field(default_factory=list)\nfirst = Run()"
    )
    assert notebook["first"].rows == notebook["Run"]().rows == []
