"""What tasks use and report, over time: in files that stay small, whatever is killed when."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.clusters.log_mirror import FolderSource, LogMirror
from submarine_engine.history import TaskPaths
from submarine_runtime import eventpack, sampling
from submarine_runtime.nvml import Nvml
from submarine_runtime.series import Series, parse, spread
from submarine_runtime.ship import Shipper

from tests.jobs import until
from tests.runtime.conftest import lives

MIB = 1 << 20


def rows_of(path):
    return parse(path.read_bytes()) if path.exists() else []


# Files that stay small.


def test_a_long_series_stays_small_the_newest_in_full_and_no_extreme_is_lost(tmp_path):
    path = tmp_path / "metrics"
    series = Series(str(path), 20_000, 100)
    for at in range(3000):
        series.add({"at": 1e9 + at, "memory": 9e9 if at == 1500 else at, "cpu": 1})
        assert path.stat().st_size <= 20_000 + 60
    rows = rows_of(path)
    assert [row["memory"] for row in rows[-100:]] == [*range(2900, 3000)]
    assert sum(row.get("rows", 1) for row in rows) == 3000
    assert max(spread(row["memory"])[2] for row in rows) == 9e9
    assert min(spread(row["memory"])[0] for row in rows) == 0
    assert {row["cpu"] for row in rows} == {1}  # what never changed is written once
    mean = sum(spread(row["memory"])[1] * row.get("rows", 1) for row in rows) / 3000
    assert mean == pytest.approx((sum(range(3000)) - 1500 + 9e9) / 3000, rel=1e-3)


def test_a_file_that_was_cut_off_or_damaged_is_read_and_gone_on_with(tmp_path):
    path = tmp_path / "reported"
    good = b'{"at": 1, "loss": 2}\n'
    bad = b'[1]\n{"at": "x"}\n{"at": NaN}\n' + b"[" * 100_000 + b'\n\xff\n{"loss": 1}\n'
    path.write_bytes(good + bad + b'{"at": 2, "lo')
    assert rows_of(path) == [{"at": 1, "loss": 2}]
    series = Series(str(path), 1000)
    series.add({"at": 3, "loss": "nan"})
    assert rows_of(path) == [{"at": 3, "loss": "nan"}]  # what is no series has lost its place
    for at in range(4, 200):
        series.add({"at": at, "loss": 1, "text": ["x", {}]})
    assert path.stat().st_size <= 1100


def test_a_row_that_finds_no_room_is_an_error_and_leaves_no_half(tmp_path):
    path = tmp_path / "metrics"
    series = Series(str(path))
    series.add({"at": 1, "cpu": 1})
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, limits[1]))  # as a disk that fills
    try:
        with pytest.raises(OSError, match="No space left"):
            series.add({"at": 2, "cpu": 1})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    series.add({"at": 3, "cpu": 1})
    assert [row["at"] for row in rows_of(path)] == [1, 3]


def test_the_copy_of_a_file_that_is_thinned_is_what_is_there(tmp_path):
    there, here = tmp_path / "there", TaskPaths(tmp_path / "here")
    for folder in (there, here.root):
        folder.mkdir()
    here.metrics.write_bytes(b'{"at": 1, "of": "the attempt before"}\n')
    series = Series(str(there / "metrics"), 1000, 5)
    mirror = LogMirror(here, FolderSource("container-1", there))
    for at in range(300):
        series.add({"at": 100 + at, "cpu": at % 7})
        mirror.step(last=True)
    assert rows_of(here.metrics)[0]["of"] == "the attempt before"
    assert rows_of(here.metrics)[1:] == rows_of(there / "metrics")
    assert mirror.behind({"metrics": (there / "metrics").stat().st_size}) == 0


# The processes of a task.


TREE = """
import ctypes, os, signal, sys, time
if not os.fork():  # a loader: memory of its own, in a session of its own, and its parent gone
    os.setsid()
    if os.fork():
        time.sleep(0.5 if sys.stdin.readline() else 0)
        os._exit(0)
    block = bytearray(os.urandom(1 << 20)) * 150
    while True:
        sum(range(100_000))
ctypes.PyDLL(None).poll(None, 0, -1)  # holds the lock of Python
"""


def test_all_processes_of_a_task_count_also_one_that_ran_away_behind_held_locks(tmp_path):
    path = tmp_path / "metrics"
    task = subprocess.Popen(
        [sys.executable, "-c", TREE], start_new_session=True, stdin=subprocess.PIPE
    )
    sampler = None
    try:
        sampler = sampling.start([(str(tmp_path), task.pid, "")])
        told = until(lambda: [r for r in rows_of(path) if r["memory"] > 150 * MIB and "cpu" in r])
        assert told[-1]["memory"] < 600 * MIB  # what is shared is counted once
        task.stdin.write(b"go\n")
        task.stdin.flush()
        until(lambda: rows_of(path)[-1]["processes"] == 2)  # its parent is gone
        until(lambda: rows_of(path)[-1].get("cpu", 0) > 0.1)
        assert rows_of(path)[-1]["memory"] > 140 * MIB
        assert {"read", "write", "received", "sent"} <= rows_of(path)[-1].keys()
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        for pid in {task.pid, *_children_of(task.pid)}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        task.stdin.close()
        task.wait()
        if sampler:
            os.waitpid(sampler, 0)  # it ends with its tasks


def _children_of(pid):
    """All that was started below a process: `TREE` leaves its group, and its parent."""
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (one / "cmdline").read_bytes() == command:
                yield int(one.name)


def test_the_process_beside_a_containers_task_has_it_written_too(tmp_path):
    assert not eventpack._sample(str(tmp_path), os.getppid())  # its node has not answered yet
    (tmp_path / "started.json").write_text('{"at": [1, 1], "gpus": null}')
    beside = os.fork()
    if not beside:
        if not eventpack._sample(str(tmp_path), os.getppid()):
            os._exit(1)
        signal.pause()
    try:
        until(lambda: len(rows_of(tmp_path / "metrics")) > 1)
        (sampler,) = Path(f"/proc/{beside}/task/{beside}/children").read_text().split()
    finally:
        os.kill(beside, signal.SIGKILL)
        os.waitpid(beside, 0)
    until(lambda: not lives(int(sampler)))  # it ends with what has started it


CHILDREN = """
import os, pathlib, time
def look():
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("no child", flush=True)
look()
while not pathlib.Path({gate!r}).exists(): time.sleep(0.01)
look()
"""


def _beside(folder):
    """The processes whose command line has the folder."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder).encode() in (one / "cmdline").read_bytes():
                found.append(int(one.name))
    return found


def test_a_task_without_a_driver_beside_it_is_measured_by_what_is_no_child_of_its_own(task):
    task.start(CHILDREN.format(gate="enough"), metrics=True)
    told = until(lambda: [row for row in rows_of(task.folder / "metrics") if "cpu" in row])
    assert told[0]["memory"] > MIB
    (task.workdir / "enough").touch()
    assert task.wait() == 0
    assert task.stdout == "no child\nno child\n"
    until(lambda: not _beside(task.folder))


def test_one_that_is_over_before_it_is_measured_leaves_nothing(task):
    assert task.run("1", metrics=True) == 0
    until(lambda: not _beside(task.folder))


def test_a_file_that_changes_all_the_time_is_seldom_brought_to_hdfs_but_at_the_end(tmp_path):
    brought = []

    class Folder:
        def create(self, name, data):
            del name, data

        def replace(self, name, data):
            brought.append((name, data))

    shipper = Shipper(str(tmp_path), Folder())
    for number in range(5):
        (tmp_path / "metrics").write_bytes(b"%d" % number)
        shipper.step()
    assert brought == [("metrics", b"0")]
    (tmp_path / "exit").write_bytes(b"0")
    shipper.step()
    assert brought[1:] == [("metrics", b"4"), ("exit", b"0")]
    (tmp_path / "exit").write_bytes(b"")  # its shell makes it first
    assert not shipper._has_ended()
    (tmp_path / "exit").write_bytes(b"0\n")
    assert shipper._has_ended()


# GPUs.


def c_function(call, found=None, *, first=None):
    """A C function; the last argument points to what it finds."""
    kinds = [] if first is None else [first]
    if found is None:
        return ctypes.CFUNCTYPE(ctypes.c_int)(call)

    def called(*arguments):
        *others, place = arguments
        return call(*others, ctypes.cast(place, ctypes.POINTER(found)))

    return ctypes.CFUNCTYPE(ctypes.c_int, *kinds, ctypes.c_void_p)(called)


class NvmlDouble:
    """A scripted double of libnvidia-ml: C functions with the real signatures, made by ctypes."""

    def __init__(self, gpus):
        self.gpus = gpus
        self.asked = ""
        names = list(gpus)

        def count(found):
            found[0] = len(names)
            return 0

        def by_index(index, found):
            if index >= len(names):
                return 2
            found[0] = index + 1
            return 0

        def by_uuid(uuid, found):
            if uuid.decode() not in names:
                return 6
            found[0] = names.index(uuid.decode()) + 1
            return 0

        def busy(gpu, found):
            use, _ = gpus[names[gpu - 1]]
            if use is None:
                return 3  # NVML_ERROR_NOT_SUPPORTED
            found[0], found[1] = use, 1
            return 0

        def memory(gpu, found):
            found[0], found[1], found[2] = 1 << 40, 0, gpus[names[gpu - 1]][1]
            return 0

        uint, size = ctypes.c_uint, ctypes.c_size_t
        self.nvmlInit_v2 = c_function(lambda: 0)
        self.nvmlDeviceGetCount_v2 = c_function(count, uint)
        self.nvmlDeviceGetHandleByIndex_v2 = c_function(by_index, size, first=uint)
        self.nvmlDeviceGetHandleByUUID = c_function(by_uuid, size, first=ctypes.c_char_p)
        self.nvmlDeviceGetUtilizationRates = c_function(busy, uint, first=ctypes.c_void_p)
        self.nvmlDeviceGetMemoryInfo = c_function(memory, ctypes.c_ulonglong, first=ctypes.c_void_p)

    def load(self, name):
        self.asked = name
        return self


def test_a_tasks_own_gpus_are_asked_by_index_uuid_or_all():
    double = NvmlDouble({"GPU-a": (97, 40 << 30), "MIG-b": (None, 5 << 30)})
    nvml = Nvml(double.load)
    assert nvml.gpus("") == []
    assert double.asked == ""  # where a task has none, nothing is loaded
    assert [nvml.use(gpu) for gpu in nvml.gpus("MIG-b, GPU-a")] == [(None, 5 << 30), (97, 40 << 30)]
    assert [nvml.use(gpu) for gpu in nvml.gpus("1")] == [(None, 5 << 30)]
    assert len(nvml.gpus(None)) == 2
    assert nvml.gpus("7,GPU-gone") == []
    assert double.asked == "libnvidia-ml.so.1"


def test_a_machine_without_nvml_or_with_a_broken_one_has_no_gpus():
    def absent(name):
        raise OSError(name)

    assert Nvml(absent).gpus("0") == []
    assert Nvml(lambda _: object()).gpus("0") == []


# What the code reports.


def test_reports_of_a_plain_job_are_kept_fast_ones_together_and_the_last_always(task):
    task.start(
        """
        from submarine_runtime import report
        for step in range(3):
            report(step, loss=1 / (step + 1), at=7)
        for step in range(3, 10_000):
            report(step, loss=float("nan") if step == 9_998 else step)
        """
    )
    assert task.wait() == 0
    rows = rows_of(task.folder / "reported")
    assert sum(row.get("rows", 1) for row in rows) == 10_000
    assert len(rows) < 1000
    assert rows[-1]["step"] == 9_999
    assert rows[-1]["loss"] == 9_999
    assert spread(rows[0]["step"])[0] == 0
    assert rows[0]["at_"] == 7


def test_a_fork_of_the_code_reports_nothing_and_breaks_nothing(task):
    task.start(
        """
        import os
        from submarine_runtime import report
        report(0, loss=1)
        if not os.fork():
            report(1, loss=2)
            os._exit(0)
        os.wait()
        report(2, loss=3)
        """
    )
    assert task.wait() == 0
    assert [row["step"] for row in rows_of(task.folder / "reported")] == [0, 2]
