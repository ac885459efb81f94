"""What a failed task keeps of its frames, and how it is read again."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from submarine_engine import post_mortem as post_mortem_here
from submarine_engine.debugger import debug, debugger_class
from submarine_engine.failures import Source
from submarine_engine.history import read_json
from submarine_engine.patience import Patience
from submarine_engine.post_mortem import KeptFrame, PostMortem, Value, _Cells, _read_index
from submarine_runtime import post_mortem
from submarine_runtime.post_mortem import Head, Shown

from tests.jobs import until
from tests.runtime.conftest import PATIENCE

HOSTILE = """
import os, sys, threading, time
import numpy as np
token = os.environ.pop("TOKEN")
large = np.zeros((40_000_000, 4), dtype="f4")
rate = 0.1
class Net:
    def __init__(self):
        self.w, self.lock, self.f = np.ones(3), threading.Lock(), lambda x: x
class Hangs:
    def __getstate__(self):
        while True: pass
class Sleeps:
    def __reduce__(self): time.sleep(1000)
class Raises:
    def __getstate__(self): raise SystemExit(4)
    def __repr__(self): raise ValueError("no")
def inner(net, *rest, k=2, **more):
    many = [1] * 3_000_000
    array = np.arange(1_000_000)
    made = (i for i in range(3))
    hangs, raises, sleeps = Hangs(), Raises(), Sleeps()
    after = {"token": f"Bearer {token}", "rate": rate}
    self_ = after; self_["self"] = after
    return net.w["x"]
def outer(n):
    class Local: pass
    local = Local(); local.a = 5
    return inner(Net(), n, k=3, z=9)
outer(3)
"""
PATIENT = """
import submarine_runtime.post_mortem as kept
kept._LONGEST = kept._LONGEST_OF_HEAVY = 60  # what waits for a processor takes no time of it
"""
SECRET = 's3cr3t-välue"q'  # noqa: S105 - made up


def opened(task):
    """Return what the task has kept, as a process without its classes loads it."""
    results = task.folder / "results"
    data = read_json(results / "post-mortem.json")
    frames, values, chain = _read_index(data, _Cells(Source.of(task.folder), "x-abcde"), None)
    file = results / "post-mortem.values"
    return PostMortem("it", frames, values=values, file=file, chain=chain)


def run(task, script, **more):
    env = {"TOKEN": SECRET, **more.pop("env", {})}
    # On a busy machine there may be no time for all; only what hangs makes use of it.
    kept = {"secrets": ["TOKEN"], "seconds": more.pop("seconds", 20.0)}
    return task.start(script, env=env, post_mortem=kept, **more).wait()


def held(found, frame, name):
    kept = found.frames[frame]
    return found.value((kept.globals if kept.locals is None else kept.locals)[name])


def test_values_come_back_and_hostile_ones_cost_only_themselves(task):
    assert run(task, PATIENT + HOSTILE, seconds=4.0) == 1
    assert task.outcome["error"]["type"] == "IndexError"
    found = opened(task)
    own = [frame for frame in found.frames if frame.own]
    assert [frame.function for frame in own] == ["<module>", "outer", "inner"]
    assert own[2].arguments == ("net", "k", "rest", "more")
    last = found.frames.index(own[2])
    assert (held(found, last, "k"), held(found, last, "rest")) == (3, (3,))
    assert list(held(found, last, "net").w) == [1, 1, 1]
    assert "lock" in repr(held(found, last, "net").lock)
    assert held(found, last, "array")[-1] == 999_999
    assert held(found, last - 1, "local").a == 5
    assert "generator" in repr(held(found, last, "made"))
    assert "3,000,000 items are too many" in repr(held(found, last, "many"))
    for name in ("hangs", "sleeps"):
        assert "took too long" in repr(held(found, last, name))
    assert "SystemExit" in repr(held(found, last, "raises"))
    assert held(found, last, "after")["self"]["rate"] == 0.1
    large = held(found, 0, "large")
    assert isinstance(large, Head)
    assert (large.shape, large.dtype, large.head.shape) == ((40_000_000, 4), "float32", (250, 4))
    # Nowhere is the secret, and what it stood in reads as the rest of it.
    assert held(found, last, "after")["token"].startswith("Bearer <secret")
    for file in (task.folder / "results").iterdir():
        assert SECRET.encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o777 == 0o600


WRITTEN = """
import base64, json, os, urllib.parse
import numpy as np
def f():
    token = os.environ.pop("TOKEN")
    made = [
        base64.b64encode(f"user:{token}!".encode()),
        base64.urlsafe_b64encode(b"xx" + token.encode()).decode(),
        urllib.parse.quote(token),
        urllib.parse.quote_plus(token),
        "https://u:" + urllib.parse.quote(token, safe="") + "@host/",
        token.encode().hex(),
        np.array([token, "other"]),
        token.encode("utf-16-le"),
        json.dumps({"token": token}),
        [{"deep": (token * 3,)}],
    ]
    raise ValueError
f()
"""


def test_a_secret_is_masked_however_it_is_written(task):
    assert run(task, WRITTEN) == 1
    found = opened(task)
    assert held(found, -1, "token").startswith("<secret TOKEN")
    for made in held(found, -1, "made"):
        plain = made.replace(b"\0", b"") if isinstance(made, bytes) else repr(made).encode()
        assert b"<secret" in plain
        assert b"s3cr3t" not in plain


def test_names_become_frames_of_python(task):
    assert (
        run(task, "def f(n):\n    half = n / 2\n    return 1 / (n - 1 - limit)\nlimit = 3\nf(4)")
        == 1
    )
    traceback = opened(task).traceback()
    frame = traceback.tb_next.tb_frame
    assert (frame.f_code.co_name, traceback.tb_next.tb_lineno) == ("f", 3)
    assert "not loaded yet" in dict.__repr__(frame.f_locals)
    times = "[half * i for i in range(n)]"
    assert eval(times, frame.f_globals, frame.f_locals) == [0, 2, 4, 6]  # noqa: S307 - as pdb does
    assert eval("limit, [limit for _ in 'a']", frame.f_globals, frame.f_locals) == (3, [3])  # noqa: S307 - likewise
    assert frame.f_locals.get("limit") is None
    assert {**frame.f_locals} == {"n": 4, "half": 2.0} == frame.f_locals.copy()
    exec("half = 9", frame.f_globals, frame.f_locals)  # noqa: S102 - as a debugger does
    assert frame.f_locals["half"] == 9


CHAINED = """
class Bad(Exception):
    def __str__(self): raise KeyError
def parse(text):
    digits = list(text)
    return int(text)
def load(path):
    try:
        return parse(path)
    except ValueError as error:
        path = "none"
        raise RuntimeError("cannot load") from error
def outer():
    try:
        load("x1")
    except RuntimeError:
        raise Bad
outer()
"""


def steps(traceback):
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def test_what_caused_it_has_its_frames_too(task):
    assert run(task, CHAINED) == 1
    found = opened(task)
    (first, _), (second, inner) = found.chain
    assert first == "while handling RuntimeError: cannot load"
    assert second.startswith("caused by ValueError: invalid literal")
    assert [frame.function for frame in inner] == ["load", "parse"]
    told = [words for words, _ in found.tracebacks()]
    assert told[:2] == [second, first]
    for names, (_, traceback) in zip(
        (["digits", "text"], ["path"], []), found.tracebacks(), strict=True
    ):
        held_there = [step.tb_frame.f_locals for step in steps(traceback)]
        assert any(set(names) <= set(names_of) for names_of in held_there)
    (frame,) = (frame for frame in inner if frame.function == "parse")
    assert found.value(frame.locals["digits"]) == ["x", "1"]
    assert any(line.startswith("caused by ValueError") for line in found.lines())
    json.dumps(found.to_json())


def test_an_exception_that_causes_itself_is_told_once(task):
    script = "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a"
    assert run(task, script) == 1
    assert [words for words, _ in opened(task).chain] == ["caused by ValueError: b"]


def test_what_is_in_a_group_has_its_frames_too(task):
    # As exception groups are, which Python has from 3.11 on.
    script = """
    class Many(Exception):
        exceptions = ()
    def one(size):
        raise ValueError(size)
    def both():
        found = []
        for size in (3, 5):
            try:
                one(size)
            except ValueError as error:
                found.append(error)
        return tuple(found)
    many = Many("two")
    many.exceptions = both()
    raise many
    """
    assert run(task, script) == 1
    found = opened(task)
    assert [words for words, _ in found.chain] == ["with ValueError: 3", "with ValueError: 5"]
    sizes = [found.value(frames[-1].locals["size"]) for _, frames in found.chain]
    assert sizes == [3, 5]


def test_of_a_deep_recursion_both_ends_are_kept(task):
    assert run(task, "def f(n):\n    return f(n + 1)\nf(0)") == 1
    found = opened(task)
    assert len(found.frames) == post_mortem.MOST_FRAMES
    assert (held(found, 1, "n"), held(found, 49, "n")) == (0, 48)
    assert held(found, 99, "n") > 900
    told = read_json(task.folder / "results" / "post-mortem.json")
    assert told["skipped"] > 850


@pytest.mark.parametrize(
    ("script", "plan"),
    [
        ("x = 1", True),
        ("import sys; sys.exit(0)", True),
        ("1/0", False),
        ("import os; os._exit(3)", True),
    ],
)
def test_nothing_is_kept_where_nothing_failed_or_nobody_wants_it(task, script, plan):
    task.run(script, post_mortem={"secrets": []} if plan else None)
    assert not list(task.folder.glob("results/post-mortem*"))


def test_a_job_that_succeeds_loads_nothing_of_it(task):
    script = "import sys\nprint('submarine_runtime.post_mortem' in sys.modules)"
    assert task.run(script, post_mortem={"secrets": []}) == 0
    assert task.stdout == "False\n"


def test_a_full_disk_is_told_and_the_error_is_unharmed(task):
    script = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    data = b"x" * 3_000_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    raise ValueError("the job's own")
    """
    assert run(task, script) == 1
    assert task.outcome["error"]["message"] == "the job's own"
    assert "could not be kept for `submarine job debug`: " in task.stderr
    assert not list(task.folder.glob("results/post-mortem*"))


def test_native_code_that_hangs_with_the_lock_is_ended(task):
    script = """
    import ctypes
    class Native:
        def __reduce__(self): ctypes.PyDLL(None).sleep(1000)
    native = Native()
    raise ValueError("the job's own")
    """
    assert run(task, script, seconds=1.0) == 1
    assert task.outcome["error"]["message"] == "the job's own"
    assert not (task.folder / "results" / "post-mortem.json").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data | {"version": 2},
        lambda data: data | {"values": data["values"][:1]},
        lambda data: data | {"frames": [{"file": 3}]},
        lambda data: data | {"globals": {"__main__": {"x": -1}}},
    ],
)
def test_an_index_of_another_hand_is_refused(task, spoil):
    run(task, "x = y = 1\nz = 'text'\nraise ValueError")
    path = task.folder / "results" / "post-mortem.json"
    path.write_text(json.dumps(spoil(read_json(path))))
    with pytest.raises((ValueError, KeyError, TypeError)):
        opened(task)


def test_values_that_are_cut_off_say_so(task):
    run(task, "x = 1\nraise ValueError")
    (task.folder / "results" / "post-mortem.values").write_bytes(b"")
    assert "was cut off" in repr(held(opened(task), 0, "x"))


def test_what_is_too_large_is_not_asked_how_it_looks(task):
    script = """
    class Large:
        def __init__(self): self.data = bytes(100 << 20)
        def __repr__(self): print("asked", flush=True); return repr(self.data)
    large, text = Large(), "é" * (70 << 20)
    data = bytearray(70 << 20)
    raise ValueError
    """
    assert run(task, script) == 1
    assert task.stdout == ""
    found = opened(task)
    shown = [repr(held(found, -1, name)) for name in ("large", "text", "data")]
    assert all("more than 64 MB" in one and len(one) < 3000 for one in shown)
    assert "é" in shown[1]
    assert "\\x00" in shown[2]


def test_ten_gigabytes_of_locals_cost_no_room_and_keep_nothing_else_from_view(task):
    script = """
    import numpy as np
    def step(batch):
        large = [np.zeros(125_000_000) for _ in range(10)]  # a gigabyte each, none written to
        first, tenth = large[0], large[9]
        rate = 0.5
        raise ValueError("the job's own")
    step(np.ones(3))
    """
    assert run(task, script) == 1
    assert task.outcome["error"]["message"] == "the job's own"
    kept = task.folder / "results" / "post-mortem.values"
    assert kept.stat().st_size < 64 << 20
    found = opened(task)
    assert held(found, -1, "rate") == 0.5
    assert list(held(found, -1, "batch")) == [1, 1, 1]
    for name in ("first", "tenth"):
        head = held(found, -1, name)
        assert "(125000000,)" in repr(head), head


class Leaves:
    def __reduce__(self):
        return exit, (4,)


def test_a_value_whose_loading_would_end_the_debugger_is_told(tmp_path):
    file = tmp_path / "values"
    file.write_bytes(pickle.dumps(Leaves()))
    value = Value(type="Leaves", at=0, size=file.stat().st_size)
    huge = Value(type="Huge", at=1, size=1 << 40)
    found = PostMortem("it", [], values=[value, huge], file=file)
    assert "it cannot be loaded here: SystemExit: 4" in repr(found.value(0))
    assert "was cut off" in repr(found.value(1))


def test_what_is_shown_moves_no_cursor():
    assert "\x1b" not in repr(Shown("Bad", "\x1b[2Jx"))


class Sticks:
    """What another object of it is, and looks like, nobody ever learns."""

    begun = threading.Event()
    rings = False  # whether the time is over at once, whatever the clock of a busy machine says

    def __init__(self, where):
        self.where = where

    def hang(self, seconds):
        if self.rings:
            signal.raise_signal(signal.SIGALRM)
        time.sleep(seconds)

    def __setstate__(self, state):
        self.__dict__ |= state
        while self.where == "state":
            self.begun.set()
            with suppress(Exception):
                self.hang(0.01)

    def __repr__(self):
        if self.where == "repr":
            with suppress(BaseException):  # the first alarm
                self.hang(60)
            self.hang(60)
        return "it lets go"


def sticking(tmp_path, *where):
    """Return frames whose names s0, s1, … stand for such objects."""
    pickles = [pickle.dumps(Sticks(one)) for one in where]
    file = tmp_path / "values"
    file.write_bytes(b"".join(pickles))
    values = [
        Value(type="Sticks", at=sum(map(len, pickles[:number])), size=len(one))
        for number, one in enumerate(pickles)
    ]
    names = {f"s{number}": number for number in range(len(where))}
    frame = KeptFrame("f.py", 1, "f", own=True, arguments=tuple(names), locals=names)
    return PostMortem("it: failed", [frame], values=values, file=file, main=True)


def walk(found, *commands):
    """Give a debugger its commands; return what it writes."""
    out = io.StringIO()
    words = "".join(f"{command}\n" for command in (*commands, "q"))
    debug(found, debugger_class()(stdin=io.StringIO(words), stdout=out, nosigint=True))
    return out.getvalue()


def test_a_value_that_hangs_is_given_up_in_words_and_the_debugger_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(Sticks, "rings", True)
    monkeypatch.setattr(post_mortem_here, "WITHIN", PATIENCE)
    found = sticking(tmp_path, "state", "repr", "nowhere")
    text = walk(found, "p s0", "p s1", "pp [s1]", "s1", "a", "display s1", "p s2", "p 6 * 7")
    assert f"cannot be loaded here: its code does not end within {PATIENCE:g} s" in text
    assert text.count(f"what it looks like is not told within {PATIENCE:g} s>") == 5
    assert "it lets go" in text
    assert "42" in text


def test_where_nobody_can_interrupt_all_that_hang_together_take_little(tmp_path, monkeypatch):
    monkeypatch.setattr(Sticks, "rings", True)
    monkeypatch.setattr(post_mortem_here, "WITHIN", 4 * PATIENCE)
    monkeypatch.setattr(post_mortem_here, "_LEAST", PATIENCE)
    found = sticking(tmp_path, *["state", "repr"] * 3, "nowhere")
    text = "\n".join(found.lines())
    assert f"within {4 * PATIENCE:g} s" in text
    assert text.count(f"within {PATIENCE:g} s") == 4
    assert "s6 = it lets go" in text
    told = found.to_json()["frames"][0]["locals"]
    assert told["s6"] == "it lets go"


def test_an_interrupt_is_heard_before_the_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(post_mortem_here, "WITHIN", PATIENCE)
    found = sticking(tmp_path, "state", "nowhere")
    Sticks.begun.clear()

    def interrupt():
        if Sticks.begun.wait(PATIENCE):  # sooner, it would end the tests
            os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt, daemon=True)
    interrupting.start()
    text = walk(found, "p s0", "p s1")
    interrupting.join()
    assert "*** KeyboardInterrupt" in text
    assert "it lets go" in text


def test_an_alarm_of_somebody_else_comes_after_the_value(monkeypatch):
    rang = []
    ticks = iter([0.0, 4000.0])  # it was due while the value was looked at
    clock = SimpleNamespace(monotonic=lambda: next(ticks))
    monkeypatch.setattr("submarine_engine.patience.time", clock)
    former = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 3600)
        with Patience(30) as patience:
            assert not rang
        until(lambda: rang)
        assert not patience.over
    finally:
        signal.signal(signal.SIGALRM, former)
