"""Measures what tasks use, once a second, in a process beside them.

`sampling` starts it, and it writes into the tasks' folders. It is a process of its own so that code
which holds Python's lock hides nothing, a driver that hangs holds up nobody, and the task has one
thing less to do. It begins a second after the task: the first line does not wait for it. It takes
at most `SHARE` of a core: where measuring takes longer, it is done less often.

A row of `FILE` (see `series`) has, of all processes of the task: ``cpu`` in cores, ``memory`` in
bytes, what they ``read`` from disks and ``write`` to them in bytes a second, their number. Of the
network Linux knows no processes: ``received`` and ``sent``, in bytes a second, are the machine's,
or those of the container where that has a network of its own. Of the task's GPUs: ``gpu0`` in
percent, ``gpu0_memory`` in bytes.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from submarine_runtime.lean import suppress
from submarine_runtime.series import AT, Series

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Sequence

    from submarine_runtime.nvml import Gpu, Nvml


FILE = "metrics"
EVERY = 1.0
"""Seconds between two rows."""

SHARE = 0.004
"""Of a core, at most."""

_SCAN_SHARE = 0.001  # a part of `SHARE`: for looks at all processes of the machine
_SCAN_EVERY = 2.0  # seconds: children of known processes are seen each second without that look
_PSS_SHARE = 0.0005  # likewise a part: for the pages that processes share
_SLOWEST = 60.0  # seconds between two rows, however long a look takes: an hour has a curve yet
_SMOOTH = 30  # looks
_SENT = 8  # of the numbers of an interface in net/dev
_LARGEST = 1 << 16
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")
_PDEATHSIG, _SIGKILL = 1, 9


def main(arguments: Sequence[str]) -> None:
    """Write what tasks use, until none of them is there.

    Parameters
    ----------
    arguments
        The process with which this one ends, 0 for none; of each task what `sampling` says.
    """
    import ctypes  # noqa: PLC0415 - not for who starts this process

    starter, *told = arguments
    if starter != "0":
        ctypes.CDLL(None).prctl(_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if os.getppid() != int(starter):  # it went before the line above
            return
    with suppress(OSError):
        os.setsid()  # what is sent to the job's processes is not meant for this one
        os.nice(5)
    from submarine_runtime.nvml import Nvml  # noqa: PLC0415 - as above

    nvml, processes = Nvml(), Processes()
    tasks = []
    for folder, pid, gpus in zip(told[::3], told[1::3], told[2::3], strict=True):
        with suppress(OSError):
            mine = nvml.gpus(None if gpus == "all" else gpus[1:])
            tasks.append(TaskMeter(folder, int(pid), processes, nvml, mine))
    rest = PauseBetween()
    while tasks:
        processes.scan([task.root for task in tasks])
        tasks = [task for task in tasks if task.step()]
        time.sleep(rest.after(time.process_time()))


class PauseBetween:
    """How long to rest between two looks: a second, more where looks take long."""

    def __init__(self) -> None:
        self._used: float | None = None
        self._takes = 0.0  # one that takes long, since the file is thinned, makes no hole
        self._due = time.monotonic()

    def after(self, used: float) -> float:
        """Return how many seconds to rest.

        Parameters
        ----------
        used
            Seconds of the processor that were used until now.
        """
        if self._used is not None:
            self._takes += (used - self._used - self._takes) / _SMOOTH
        self._used = used
        now = time.monotonic()
        self._due += max(EVERY, self._takes / SHARE)
        if self._due < now:  # a machine that slept owes no rows
            self._due = now + EVERY
        return min(_SLOWEST, self._due - now)


class TaskMeter:
    """Writes what one task uses.

    Parameters
    ----------
    folder, root
        The task's folder, and its process.
    processes
        The processes of this machine.
    nvml, gpus
        Where to ask for its GPUs.

    Raises
    ------
    OSError
        Its folder cannot be written.
    """

    def __init__(
        self, folder: str, root: int, processes: Processes, nvml: Nvml, gpus: Sequence[Gpu]
    ) -> None:
        self.root = root
        self._processes, self._nvml, self._gpus = processes, nvml, gpus
        self._series = Series(f"{folder}/{FILE}")
        self._tree = Tree(root)
        self._net = f"/proc/{root}/net/dev"
        self._last: tuple[float, dict[str, float]] | None = None

    def step(self) -> bool:
        """Write what it uses now; False where it is over."""
        found = self._tree.find(self._processes)
        if not found:
            return False
        now, totals = time.monotonic(), self._tree.totals(found)
        totals["received"], totals["sent"] = _network(self._net)
        row: dict[str, float] = {AT: round(time.time(), 2)}
        if self._last is not None:
            at, before = self._last
            rates = {name: max(0.0, totals[name] - before[name]) / (now - at) for name in totals}
            row["cpu"] = round(min(rates.pop("cpu"), os.cpu_count() or 1), 3)
            row.update((name, round(rate)) for name, rate in rates.items())
        self._last = now, totals
        row["memory"] = self._tree.memory(found)
        row["processes"] = len(found)
        for number, gpu in enumerate(self._gpus):
            use, memory = self._nvml.use(gpu)
            if use is not None:
                row[f"gpu{number}"] = use
            if memory is not None:
                row[f"gpu{number}_memory"] = memory
        with suppress(OSError):  # a full disk: the next one
            self._series.add(row)
        return True


class Stat(NamedTuple):
    """A part of ``/proc/PID/stat``: `ticks` of processors, of children that are gone, too."""

    parent: int
    session: int
    ticks: int
    start: int
    memory: int


class Processes:
    """The processes of this machine; all are read as often as `_SCAN_SHARE` of a core allows."""

    def __init__(self) -> None:
        self.all: dict[int, Stat] = {}
        """All as they were a moment ago, by their ids; empty where nobody has looked now."""
        self._due = 0.0

    def scan(self, roots: Sequence[int]) -> None:
        """Look at all where it is time for that, and this process may do so.

        Parameters
        ----------
        roots
            The tasks' first processes; without any, nothing is looked at.
        """
        self.all = {}
        if time.monotonic() < self._due or not roots:
            return
        began = time.process_time()
        with suppress(OSError):
            for name in os.listdir("/proc"):  # noqa: PTH208 - names only
                if name.isdecimal() and (stat := read_stat(int(name))):
                    self.all[int(name)] = stat
        took = time.process_time() - began
        self._due = time.monotonic() + max(_SCAN_EVERY, took / _SCAN_SHARE)


class Tree:
    """The processes of a task: its first one, all below that, and all of its session.

    One that has lost its parent stays one of them. Between two looks at all processes of the
    machine, those are seen that the main threads of known ones have started.

    Parameters
    ----------
    root
        The first.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._known: dict[int, int] = {}  # when each began: a number alone is used again
        self._share, self._share_due = 1.0, 0.0
        self._share_of: frozenset[int] = frozenset()

    def find(self, processes: Processes) -> dict[int, Stat]:
        """Return the task's processes; none where the first is gone."""
        known = {pid: stat for pid in self._known if (stat := self._still(pid))}
        root = known.get(self._root) or read_stat(self._root)
        if root is None:
            return {}
        known[self._root] = root
        below: dict[int, list[int]] = {}
        for pid, stat in processes.all.items():
            below.setdefault(stat.parent, []).append(pid)
            if stat.session == self._root:
                known.setdefault(pid, stat)
        waiting = list(known)
        while waiting:
            pid = waiting.pop()
            children = below.get(pid, ()) if processes.all else _children(pid)
            for child in children:
                stat = processes.all.get(child) or read_stat(child)
                if child not in known and stat is not None:
                    known[child] = stat
                    waiting.append(child)
        self._known = {pid: stat.start for pid, stat in known.items()}
        return known

    def _still(self, pid: int) -> Stat | None:
        stat = read_stat(pid)
        return stat if stat is not None and stat.start == self._known[pid] else None

    def totals(self, found: dict[int, Stat]) -> dict[str, float]:
        """Return seconds of processors and bytes of disks, with those of children that are gone.

        Parameters
        ----------
        found
            The task's processes by their ids, as of `find`.
        """
        told = {
            "cpu": sum(stat.ticks for stat in found.values()) / _TICK,
            "read": 0.0,
            "write": 0.0,
        }
        for pid in found:
            for line in _lines(f"/proc/{pid}/io"):
                name, _, value = line.partition(b": ")
                if name == b"read_bytes":
                    told["read"] += int(value)
                elif name == b"write_bytes":
                    told["write"] += int(value)
        return told

    def memory(self, found: dict[int, Stat]) -> int:
        """Return the memory of all in bytes, pages that they share counted once.

        The kernel goes through all pages to tell what is shared (``Pss`` of proc(5)), so that is
        asked now and then, and as processes come and go, and taken for the same part meanwhile.

        Parameters
        ----------
        found
            The task's processes by their ids, as of `find`.
        """
        whole = sum(stat.memory for stat in found.values())
        if len(found) == 1:
            return whole
        due = time.monotonic() >= self._share_due or self._share_of != found.keys()
        if due and whole:
            began = time.process_time()
            shares = [_proportional(pid, stat.memory) for pid, stat in found.items()]
            took = time.process_time() - began
            self._share, self._share_of = sum(shares) / whole, frozenset(found)
            self._share_due = time.monotonic() + max(_SCAN_EVERY, took / _PSS_SHARE)
        return round(whole * self._share)


def _proportional(pid: int, memory: int) -> int:
    for line in _lines(f"/proc/{pid}/smaps_rollup"):
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return memory


def read_stat(pid: int) -> Stat | None:
    """Return what ``/proc/PID/stat`` says of the process `pid`; None where it runs no more."""
    for line in _lines(f"/proc/{pid}/stat"):
        fields = line.rpartition(b")")[2].split()  # the name before it may hold anything
        if fields[0] in (b"Z", b"X"):
            return None
        return Stat(
            parent=int(fields[1]),
            session=int(fields[3]),
            ticks=sum(map(int, fields[11:15])),
            start=int(fields[19]),
            memory=int(fields[21]) * _PAGE,
        )
    return None


def _children(pid: int) -> list[int]:
    return [
        int(child) for line in _lines(f"/proc/{pid}/task/{pid}/children") for child in line.split()
    ]


def _network(path: str) -> tuple[int, int]:
    """Return the bytes received and sent, loopback aside."""
    received = sent = 0
    for line in _lines(path):
        name, _, numbers = line.partition(b":")
        fields = numbers.split()
        if len(fields) > _SENT and name.strip() != b"lo":
            received += int(fields[0])
            sent += int(fields[_SENT])
    return received, sent


def _lines(path: str) -> list[bytes]:
    """Return the lines of a file of /proc; none where its process is gone, or another user's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return os.read(descriptor, _LARGEST).splitlines()
    except OSError:
        return []
    finally:
        os.close(descriptor)
