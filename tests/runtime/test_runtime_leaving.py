"""The end of a task: nothing of it stays, nothing that was written is lost."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from multiprocessing import shared_memory
from pathlib import Path

import pytest
from submarine_runtime import leave

from tests.runtime.conftest import MAIN, lives, wait_for


def gone(pid):
    wait_for(lambda: not lives(pid))


def unhurried(script):
    """Give a script's end longer than a second, which a busy machine may take for what it does."""
    return f"from submarine_runtime import leave\nleave.PATIENCE = 60\n{textwrap.dedent(script)}"


def test_forked_children_do_not_outlive_it(task):
    task.run(
        """
        import os, subprocess, time
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        deep = subprocess.Popen(["sh", "-c", "trap '' TERM INT HUP; sleep 600 & wait"])
        [pid, deep.pid]
        """
    )
    assert task.outcome["kind"] == "returned"
    for pid in task.value:
        gone(pid)


def test_children_of_multiprocessing_do_not_outlive_it(task):
    script = """
        import multiprocessing, time
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("fork")
        child = context.Process(target=time.sleep, args=(600,))
        child.start()
        loader = context.Process(target=time.sleep, args=(600,), daemon=True)
        loader.start()
        pool = ProcessPoolExecutor(1, mp_context=context)
        pool.submit(time.sleep, 600)
        [child.pid, loader.pid, *pool._processes]
    """
    task.run(unhurried(script))
    assert task.outcome["kind"] == "returned", task.stderr
    for pid in task.value:
        gone(pid)
    assert task.stderr == ""


POOLS = {
    "spawn": """
        import multiprocessing

        if __name__ == "__main__":
            pool = multiprocessing.get_context("spawn").Pool(2)
            pool.map(abs, [-1, -2])
            waits = pool.imap(time.sleep, [600, 600, 600])
            [child.pid for child in multiprocessing.active_children()]
    """,
    "fork": """
        import multiprocessing

        pool = multiprocessing.get_context("fork").Pool(2)
        pool.map(abs, [-1, -2])
        [child.pid for child in multiprocessing.active_children()]
    """,
    "manager": """
        import multiprocessing

        if __name__ == "__main__":
            manager = multiprocessing.get_context("spawn").Manager()
            shared = manager.dict(a=1)
            queue = multiprocessing.get_context("spawn").Queue()
            queue.put(bytes(1_000_000))  # its thread waits for somebody who reads it
            [child.pid for child in multiprocessing.active_children()]
    """,
    "futures": """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        if __name__ == "__main__":
            pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
            list(pool.map(abs, [-1, -2]))
            waits = pool.submit(time.sleep, 600)
            list(pool._processes)
    """,
    "loky": """
        joblib = __import__("pytest").importorskip("joblib")

        if __name__ == "__main__":
            waits = joblib.Parallel(n_jobs=2, return_as="generator")(
                joblib.delayed(time.sleep)(600) for _ in range(3)
            )
            [child.pid for child in __import__("multiprocessing").active_children()]
    """,
}


@pytest.mark.parametrize("pool", POOLS)
def test_a_pool_that_is_left_open_ends_without_a_word(task, pool):
    script = textwrap.dedent(POOLS[pool])
    task.run(unhurried(f"import time\n{script}"))
    assert task.outcome["kind"] == "returned", task.stderr
    assert task.value
    for pid in task.value:
        gone(pid)
    assert task.stderr == ""


def test_a_thread_does_not_hold_it(task):
    assert (
        task.run(
            """
        import threading, time
        threading.Thread(target=time.sleep, args=(600,)).start()
        "done"
        """
        )
        == 0
    )
    assert task.value == "done"


def test_an_exit_hook_runs(task):
    task.run(unhurried("import atexit\natexit.register(print, 'bye')\n1"))
    assert task.stdout == "bye\n"


def test_an_exit_hook_does_not_hold_it(task):
    code = task.run("import atexit, time\natexit.register(time.sleep, 600)\nprint('there')\n3")
    assert (code, task.value, task.stdout) == (0, 3, "there\n")
    assert "exit hooks of the job's code took too long" in task.stderr


def test_hooks_are_not_blamed_for_what_is_none_of_theirs(task):
    script = """
        import os
        read, write = os.pipe()
        file = open(write, "w", buffering=10_000_000)
        file.write("x" * 1_000_000)  # a pipe that nobody reads
        3
    """
    assert task.run(textwrap.dedent(script)) == 0
    assert "buffered took too long" in task.stderr
    assert "exit hooks" not in task.stderr


def test_time_without_a_processor_is_not_the_hooks(monkeypatch):
    starved = iter(range(1, 200))
    monkeypatch.setattr(leave, "PATIENCE", 0.05)
    monkeypatch.setattr(leave, "_STEP", 0.001)
    monkeypatch.setattr(leave, "_LONGEST", 10_000)
    monkeypatch.setattr(leave, "_waited", lambda _: next(starved, 200))  # a second each time
    monkeypatch.setattr(leave, "end_others", lambda: None)
    monkeypatch.setattr(os, "_exit", lambda _: None)
    leave._leave_late(0, threading.get_native_id(), [""])
    assert next(starved, None) is None


def test_a_thread_that_sleeps_does_not_wait_for_a_processor():
    assert leave._waited(threading.get_native_id()) >= 0
    assert leave._waited(-1) == 0


def test_an_exit_hook_that_raises_changes_nothing(task):
    assert task.run("import atexit\n@atexit.register\ndef f(): raise SystemExit(5)\n1") == 0


def test_what_is_buffered_is_written(task):
    script = """
        import ctypes, sys
        file = open("metrics.csv", "w")
        file.write("0.5")
        binary = open("model.bin", "wb")
        binary.write(b"weights")
        sys.stdout = open(1, "w", buffering=100_000, closefd=False)
        print("python")
        ctypes.CDLL(None).printf(b"C\\n")
    """
    task.run(unhurried(script))
    assert (task.workdir / "metrics.csv").read_text() == "0.5"
    assert (task.workdir / "model.bin").read_bytes() == b"weights"
    assert sorted(task.stdout.split()) == ["C", "python"]


@pytest.mark.parametrize(
    ("opened", "read"),
    [
        ("open('written', 'wb')", "open('written', 'rb').read()"),
        ("open('written', 'wb+')", "open('written', 'rb').read()"),
        ("os.fdopen((ends := os.pipe())[1], 'wb')", "os.read(ends[0], 9)"),
        ("(ends := socket.socketpair())[0].makefile('wb')", "ends[1].recv(9)"),
    ],
)
def test_what_is_buffered_is_written_wherever_it_goes(task, opened, read):
    script = f"""
        import atexit, os, socket
        class Log:
            file = {opened}
            ends = locals().get("ends")
        Log.file.write(b"kept")
        atexit.register(lambda ends: print({read}), Log.ends)
    """
    task.run(unhurried(script))
    assert task.stdout == "b'kept'\n", task.stderr


def test_temporary_folders_are_removed(task):
    script = "import tempfile\nfolder = tempfile.TemporaryDirectory()\nname = folder.name"
    task.run(unhurried(script))
    assert not Path(task.value).exists()


def test_shared_memory_is_removed(task):
    script = """
        from multiprocessing import shared_memory
        block = shared_memory.SharedMemory(create=True, size=1000)
        block.buf[0] = 1
        name = block.name
    """
    task.run(unhurried(script))
    with pytest.raises(FileNotFoundError):
        shared_memory.SharedMemory(task.value)


def test_streams_that_are_gone_change_nothing(task):
    assert task.run("import sys\nsys.stdout.close()\nsys.stderr = None\n4") == 0
    assert task.value == 4


def test_a_fork_that_runs_on_is_not_the_task(task):
    task.run(
        """
        import os
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        "parent" if pid else "child"
        """
    )
    assert task.value == "parent"
    assert task.stderr == ""


def test_a_fork_that_raises_is_not_the_task(task):
    code = task.run(
        """
        import os
        pid = os.fork()
        if not pid:
            raise ValueError("in the child")
        os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        """
    )
    assert (code, task.value) == (0, 1)
    assert "ValueError: in the child" in task.stderr


def test_other_groups_are_left_alone(task):
    task.run(
        "import subprocess\np = subprocess.Popen(['sleep', '600'], start_new_session=True)\np.pid"
    )
    pid = task.value
    try:
        assert lives(pid)  # the driver knows what to do with it
    finally:
        os.kill(pid, signal.SIGKILL)


def test_without_a_group_of_its_own_it_ends_its_descendants_alone(task):
    task.start("print('first')")
    task.wait()
    script = "import subprocess\np = subprocess.Popen(['sleep', '600'])\np.pid"
    (task.bundle / "script.py").write_text(script)
    neighbour = subprocess.Popen(["sleep", "600"])
    try:
        subprocess.run([sys.executable, MAIN, task.folder], check=True)
        gone(task.value)
        assert lives(neighbour.pid)
    finally:
        neighbour.kill()
        neighbour.wait()


@pytest.mark.parametrize("ending", ["raise ValueError", "import sys; sys.exit(3)"])
def test_a_failure_leaves_nothing_either(task, ending):
    task.run(f"import os, time\npid = os.fork()\nif not pid: time.sleep(600)\nprint(pid)\n{ending}")
    gone(int(task.stdout))
