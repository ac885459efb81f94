"""A task whose peer has failed keeps its frames, wherever its code stands, and ends."""

from __future__ import annotations

import json
import signal

import pytest
from submarine_engine.clusters.exchange import answer, exchange_files, read_hello
from submarine_engine.errors import ClusterError
from submarine_engine.failures import Source
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.stacks import read_threads
from submarine_runtime import post_mortem
from submarine_runtime.exchange import ANSWER, HELLO
from submarine_runtime.peer_failed import ASK
from submarine_runtime.stacks import ASK as STACKS_ASK
from submarine_runtime.stacks import ASK_MAIN, STACKS

from tests.runtime.conftest import wait_for
from tests.runtime.test_runtime_post_mortem import SECRET, held, opened

SPEC = JobSpec(name="two", roles=(Role(count=2, resources=Resources(gpus=0)),))


@pytest.fixture
def begin(task):
    """Start one of two tasks, the other one of which is a double that only says hello."""

    def begin(script, seconds=20.0, **more):
        kept = {"secrets": ["TOKEN"], "seconds": seconds}  # only what hangs makes use of them
        task.start(script, env={"TOKEN": SECRET}, peers=2, post_mortem=kept, **more)
        hello = wait_for(
            lambda: (task.folder / HELLO).exists() and (task.folder / HELLO).read_bytes()
        )
        mine = read_hello(hello, json.loads(hello)["job_id"], "worker-0")
        told = answer(SPEC, {"worker-0": mine, "worker-1": mine})
        exchange_files(task.folder, {ANSWER: told})
        return task

    return begin


def ask(task):
    exchange_files(task.folder, {ASK: b"{}"})


WAITS = """
import os, sys, time
import numpy as np
def step(batch, **more):
    token = os.environ["TOKEN"]
    names = {str(n): n for n in range(50)}
    print("here", flush=True)
    WAIT
def train(rate):
    step(np.arange(3), k=rate)
train(0.5)
"""


@pytest.mark.parametrize(
    "wait",
    [
        "time.sleep(600)",
        "while True: pass",
        "sys.stdin.buffer; os.read(os.pipe()[0], 1)",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
    ],
)
def test_its_frames_are_kept_wherever_it_waits(begin, wait):
    task = begin(WAITS.replace("WAIT", wait))
    task.said("here")
    ask(task)
    assert task.wait() == -signal.SIGKILL
    assert task.outcome is None
    assert task.stderr == ""
    found = opened(task)
    own = [frame for frame in found.frames if frame.own]
    assert [frame.function for frame in own] == ["<module>", "train", "step"]
    last = found.frames.index(own[-1])
    assert list(held(found, last, "batch")) == [0, 1, 2]
    assert held(found, last, "more") == {"k": 0.5}
    assert held(found, last - 1, "rate") == 0.5
    for file in (task.folder / "results").iterdir():
        assert SECRET.encode() not in file.read_bytes()


def test_code_that_has_come_to_its_own_end_tells_that(begin):
    script = """
    import time
    class Slow:
        def __reduce__(self):
            print("keeping", flush=True)
            time.sleep(600)
    slow = Slow()
    raise ValueError("its own")
    """
    task = begin(script, seconds=2.0)
    task.said("keeping")
    ask(task)
    assert task.wait() == 1
    assert task.outcome["error"]["message"] == "its own"
    assert "took too long" in repr(held(opened(task), 0, "slow"))


def test_stacks_are_told_while_the_frames_are_kept(begin):
    task = begin(
        "import os, time\nclass Slow:\n    def __reduce__(self):\n"
        "        print('keeping', flush=True)\n"
        "        while not os.path.exists('told'): time.sleep(0.01)\n"
        "        return int, ()\n"
        "def wait(slow):\n    print('here', flush=True)\n    time.sleep(600)\nwait(Slow())",
        seconds=180.0,  # a third of them is the time that it has to tell its stacks
    )
    task.said("here")
    ask(task)
    task.said("keeping")
    exchange_files(task.folder, {STACKS_ASK: b"{}"})
    wait_for(lambda: "__main__.py" in (task.folder / STACKS).read_text())
    told = (task.folder / STACKS).read_text()
    thread, *_ = read_threads(told, Source.of(task.folder))
    assert thread.steps[-1].function == "wait"
    (task.workdir / "told").touch()
    assert task.wait() == -signal.SIGKILL
    assert [frame.function for frame in opened(task).frames if frame.own] == ["<module>", "wait"]


def test_native_code_that_holds_pythons_lock_has_its_stack_told(begin):
    task = begin(
        "import ctypes\ndef hold():\n"
        "    ctypes.PyDLL(None).system(b'echo here; exec sleep 600')\nhold()"
    )
    task.said("here")  # as the shell says, whose end it waits for with the lock
    exchange_files(task.folder, {STACKS_ASK: b"{}", ASK_MAIN: b"{}", ASK: b"{}"})
    wait_for(lambda: ", line 3 in hold\n" in (task.folder / STACKS).read_text())
    assert task.process.poll() is None
    assert not (task.folder / "results").exists()


def test_a_fork_of_the_code_is_asked_nothing_and_goes_with_the_task(begin):
    script = """
    import os, time
    if not os.fork():
        print("child", flush=True)
    else:
        print("parent", flush=True)
    while True:
        time.sleep(0.1)
    """
    task = begin(script)
    task.said("child")
    task.said("parent")
    ask(task)
    assert task.wait() == -signal.SIGKILL
    assert [frame.function for frame in opened(task).frames if frame.own] == ["<module>"]


@pytest.mark.parametrize("more", [{"peers": 1}, {"peers": 1, "command": "sleep 600"}])
def test_who_has_no_peers_cannot_be_asked_and_has_no_thread_for_it(task, more):
    threads = "len(os.listdir('/proc/self/task'))"
    script = f"import os, time; print('threads', {threads}, flush=True); time.sleep(600)"
    task.start(script, post_mortem={"secrets": []}, **more)
    if "command" not in more:
        task.said("threads 2\n")  # the main one, and who tells the stacks
    with pytest.raises(ClusterError):
        ask(task)


def test_what_runs_the_runtime_is_no_frame_of_the_users():
    space = {"__name__": "own"}
    exec("import sys\ndef here():\n    return sys._getframe()\n", space)  # noqa: S102 - a file of its own
    runtime = compile("def run(f):\n    return f()\n", f"{post_mortem._HERE}/task.py", "exec")
    exec(runtime, space)  # noqa: S102 - likewise
    program = compile("frame = run(here)", "<string>", "exec")
    exec(program, space)  # noqa: S102 - likewise
    names = [frame.f_code.co_name for frame, _ in post_mortem.stack_of(space["frame"])]
    assert names == ["here"]
