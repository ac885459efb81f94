"""A task tells its stacks when a question comes into its folder, whatever its code does."""

from __future__ import annotations

import _signal
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import submarine_runtime
from submarine_engine.clusters.exchange import exchange_files
from submarine_engine.errors import ClusterError
from submarine_runtime import stacks
from submarine_runtime.stacks import ASK, ASK_MAIN, LARGEST, STACKS

from tests.jobs import until

ENGINE = str(Path(submarine_runtime.__file__).parents[1])
BEGIN = f"""
import sys
sys.path.append({ENGINE!r})
from submarine_runtime import stacks
stacks.begin({{folder!r}})
print("begun", flush=True)
"""


@pytest.fixture
def begin(tmp_path):
    started = []

    def begin(code):
        script = BEGIN.format(folder=str(tmp_path)) + code
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout.readline() == b"begun\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def told(folder, *asks):
    """Ask, and return what comes."""
    for ask in asks or (ASK,):
        exchange_files(folder, {ask: b"1"})
    seen = [b""]

    def is_whole():
        seen.append(exchange_files(folder, {})[STACKS])
        return seen[-1].endswith(b"\n") and seen[-1] == seen[-2]  # a busy machine writes slowly

    until(is_whole)
    return seen[-1].decode()


def test_each_question_is_answered_anew_and_the_code_goes_on(tmp_path, begin):
    process = begin("def wait():\n    return input()\nassert wait() == 'go'\nprint('went')")
    until(lambda: ", line 8 in wait\n" in told(tmp_path))
    for _ in range(3):
        text = told(tmp_path)
        assert text.count("most recent call first") == 1
        assert ", line 8 in wait\n" in text
    assert process.communicate(b"go\n", 60)[0] == b"went\n"
    assert process.returncode == 0


def test_a_native_call_that_holds_pythons_lock_does_not_hide_the_main_thread(tmp_path, begin):
    begin("import ctypes\ndef hold():\n    ctypes.PyDLL(None).poll(None, 0, -1)\nhold()")
    until(lambda: ", line 9 in hold\n" in told(tmp_path, ASK, ASK_MAIN))


def test_who_has_answered_is_not_asked_for_its_main_thread(tmp_path, begin):
    begin("input()")
    until(lambda: "Thread " in told(tmp_path))
    first = exchange_files(tmp_path, {})[STACKS]
    assert exchange_files(tmp_path, {ASK_MAIN: b"1"})[STACKS] == first
    assert not (tmp_path / ASK_MAIN).exists()


BUSY = """
import threading
made = "def made(n):\\n    return [made(n - 1) for _ in [0]] if n else [x for x in iter(int, 0)]"
def busy(number):
    while True:
        names = {}
        exec(compile(made, f"made-{number}" * 20, "exec"), names)
        for depth in range(12):
            names["made"](depth)
        number += 1
def start():
    while True:
        some = [threading.Thread(target=names["made"], args=(40,)) for _ in range(4)]
        for one in some: one.start()
        for one in some: one.join()
names = {}
exec(made, names)
for number in range(14):
    threading.Thread(target=busy, args=(number,), daemon=True).start()
threading.Thread(target=start, daemon=True).start()
print("busy", flush=True)
busy(15)
"""


@pytest.mark.parametrize(
    "times", [8, pytest.param(200, marks=pytest.mark.long, id="200: half a minute")]
)
def test_threads_that_are_busy_in_python_live_through_questions(tmp_path, begin, times):
    process = begin(BUSY)
    process.stdout.readline()
    for number in range(times):
        text = told(tmp_path)
        assert process.poll() is None, number
        assert text.count("most recent call first") >= 16
        assert text.rpartition("most recent call first")[2].rstrip().endswith("in <module>")


def test_the_main_thread_lives_through_questions_while_it_is_busy(tmp_path, begin):
    # Without Python's lock, which is what the main thread alone is asked for.
    process = begin(BUSY)
    process.stdout.readline()
    for number in range(100):
        (tmp_path / STACKS).write_bytes(b"")
        exchange_files(tmp_path, {ASK_MAIN: b"%d" % number})
        assert process.poll() is None, number


def test_a_fork_of_the_code_sees_no_thread_and_both_sides_go_on(tmp_path, begin):
    process = begin(
        "import os, warnings\nwarnings.simplefilter('error')\n"
        "for _ in range(20):\n    child = os.fork()\n    if not child: os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0\nprint('forked', flush=True)\ninput()"
    )
    assert process.stdout.readline() == b"forked\n"
    until(lambda: "in <module>" in told(tmp_path))


@pytest.mark.parametrize("heard", [True, False])
def test_a_fork_that_did_not_wait_for_the_thread_leaves_one(tmp_path, monkeypatch, heard):
    """One that was asked to end before the fork, and did or did not hear of it until after."""
    started = []
    monkeypatch.setattr(stacks, "start_without_signals", lambda *_: started.append(True))
    monkeypatch.setattr(_signal, "pthread_kill", lambda *_: None)
    monkeypatch.setattr(stacks, "_ENDS_WITHIN", 0.01)
    waiter = stacks._Waiter(str(tmp_path / STACKS), 0)
    waiter.start()
    waiter._native = threading.get_native_id()
    ticks = iter([0.0, 0.0])  # one turn of its loop, however late
    clock = SimpleNamespace(monotonic=lambda: next(ticks, 1.0), sleep=time.sleep)
    with monkeypatch.context() as patch:
        patch.setattr(stacks, "time", clock)
        patch.setattr(os, "listdir", lambda _: ["1", str(waiter._native)])
        waiter.end()
    assert not heard or waiter._takes_end()  # as the thread does, which ends then
    waiter.start()
    assert len(started) == 1 + heard
    assert not waiter._takes_end()


def test_programs_and_forks_of_the_code_get_no_signal(tmp_path, begin):
    process = begin(
        "import os, subprocess\nprogram = subprocess.Popen(['sleep', '3600'])\n"
        "fork = os.fork()\nif not fork:\n    import time; time.sleep(3600)\n"
        "print(program.pid, fork, flush=True)\ninput()\n"
        "assert program.poll() is None\nassert os.waitpid(fork, os.WNOHANG) == (0, 0)\n"
        "program.kill(); os.kill(fork, 9)\nprint('both live')"
    )
    process.stdout.readline()
    assert told(tmp_path).count("most recent call first") == 1
    assert process.communicate(b"\n", 60)[0] == b"both live\n"


def test_code_that_closes_all_files_is_silent_and_lives(tmp_path, begin):
    process = begin(
        "import os\nos.closerange(3, 100)\nmine = open('/dev/null', 'w')\n"
        "print('closed', flush=True)\ninput()\nprint('lives')"
    )
    process.stdout.readline()
    exchange_files(tmp_path, {ASK: b"1"})
    assert process.communicate(b"\n", 60)[0] == b"lives\n"
    assert (tmp_path / STACKS).read_bytes() == b""


ALONE = """
import signal
from pathlib import Path
from _thread import allocate_lock

def kept_back():
    status = Path("/proc/thread-self/status").read_text()
    return int(status.partition("SigBlk:")[2].split()[0], 16)

def look():
    seen.append(kept_back())
    over.release()

before, seen, over = kept_back(), [], allocate_lock()
over.acquire()
stacks.start_without_signals(look, ())
over.acquire()
for number in {signal.SIGTERM, signal.SIGINT, signal.SIGRTMAX - 9}:
    assert seen[0] >> (number - 1) & 1
assert kept_back() == before
"""


def test_a_thread_without_signals_has_none_from_its_first_moment(begin):
    process = begin(ALONE)
    process.communicate(timeout=180)
    assert process.returncode == 0


def test_who_has_not_begun_cannot_be_asked(tmp_path):
    with pytest.raises(ClusterError, match="cannot be written"):
        exchange_files(tmp_path, {ASK: b"1"})
    assert STACKS not in exchange_files(tmp_path, {})


@pytest.mark.parametrize("lie", ["link", "pipe", "large"])
def test_what_lies_there_instead_harms_nobody(tmp_path, lie):
    (tmp_path / "asked").mkdir()
    (tmp_path / "mine").write_text("mine")
    answer = tmp_path / STACKS
    if lie == "link":
        answer.symlink_to(tmp_path / "mine")
    elif lie == "pipe":
        os.mkfifo(answer)
    else:
        answer.write_bytes(b"x" * (LARGEST + 5))
        assert len(exchange_files(tmp_path, {})[STACKS]) == LARGEST + 1
        return
    with pytest.raises(ClusterError):
        exchange_files(tmp_path, {ASK: b"1"})
    assert exchange_files(tmp_path, {})[STACKS] == b""
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_second_attempt_in_the_same_folder_answers_too(tmp_path, begin):
    begin("input()").kill()
    begin("input()")
    assert "most recent call first" in told(tmp_path)


def test_processor_time_is_that_of_all_processes_below(begin):
    code = "import os, time\nif not os.fork():\n    while time.process_time() < 0.35: pass\n"
    process = begin(code + "    print('done', flush=True)\ninput()")
    process.stdout.readline()
    assert stacks.used([process.pid, process.pid])[1][0] >= 0.3
    assert stacks.used([1 << 30]) == [(0.0, 0)]


MONITOR = "head -c 300000 /dev/zero > /dev/null; echo done; read it"
MOVES = """
import os, socket, subprocess, sys
run = subprocess.Popen
ours, theirs = socket.socketpair()
if not os.fork():
    ours.close()
    while theirs.recv(65536): pass
    os._exit(0)
{}
print("done", flush=True)
input()
"""


@pytest.mark.parametrize(
    ("code", "moved"),
    [
        ("os.write(ours.fileno(), bytes(300_000))", True),
        ("open('/dev/zero', 'rb', 0).read(300_000)", True),
        ("open('/dev/null', 'wb', 0).write(bytes(300_000))", True),
        (f"run(['sh', '-c', {MONITOR!r}], stdout=subprocess.PIPE).stdout.readline()", False),
        ("pass", False),
    ],
)
def test_what_moves_is_what_its_own_processes_read_and_write(begin, code, moved):
    idle = begin(MOVES.format("pass"))
    process = begin(MOVES.format(code))
    assert idle.stdout.readline() == process.stdout.readline() == b"done\n"
    (_, less), (_, more) = stacks.used([idle.pid, process.pid])
    assert (more - less > 250_000) == moved
