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


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_a_function_is_one(notebook, capsys, case):
    before, job, holds = CASES[case]
    notebook.run(f"{MAKE}\n{before}")
    notebook.job(job)
    assert notebook.run(f"({holds})") is True
    assert "stayed" not in capsys.readouterr().err
