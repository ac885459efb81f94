"""One job's supervisor, second half: it watches the task, ends it, and has the last word.

The first half (`supervisor`) has started the task already. This one sleeps until a child ends, a
signal comes or somebody rings its bell, looks at limits of time and memory, and writes the events.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

from submarine_engine.clusters import locks, machine, store
from submarine_engine.clusters.local.scheduler import Queue
from submarine_engine.clusters.machine import (
    Stat,
    end_children,
    end_group,
    is_driver,
    process_ids,
    process_stat,
)
from submarine_engine.clusters.store import Journal
from submarine_engine.clusters.tasks import (
    Ending,
    Progress,
    final_task_state,
    read_outcome,
    returned_event,
)
from submarine_engine.errors import ClusterError
from submarine_engine.events import (
    Event,
    Exited,
    Finished,
    Moment,
    Released,
    Started,
)
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState
from submarine_engine.lifecycle import (
    Course,
    Observations,
    Signal,
    TaskEnd,
    TaskSeen,
    decide,
    final_state,
)

# How a supervisor sleeps: until a child ends, a signal comes, or somebody rings its bell.


_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Wake:
    """What a supervisor waits for.

    Parameters
    ----------
    bell
        Where to make the named pipe. Where none can be made (some network file systems), the
        supervisor looks at ``cancel.json`` at each of its turns anyhow.
    """

    def __init__(self, bell: Path) -> None:
        self.asked_to_end = False
        self._signals, sender = os.pipe()
        for end in (self._signals, sender):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_ENDING):
            signal.signal(number, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        self._bell: int | None = None
        with suppress(OSError):
            os.mkfifo(bell, 0o600)
        with suppress(OSError):
            # Open for writing too: else each ringer that closes it would be the end of the file.
            self._bell = os.open(bell, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._poll.register(self._bell, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Sleep until something happens, `seconds` at most."""
        ready = [descriptor for descriptor, _ in self._poll.poll(max(0, int(seconds * 1000)))]
        if self._signals in ready:
            numbers = os.read(self._signals, 4096)
            self.asked_to_end = self.asked_to_end or any(s in numbers for s in _ENDING)
        if self._bell in ready:
            with suppress(OSError):
                os.read(self._bell, 4096)


# A job's memory: what all its processes use together, against what was asked for.


_GIB = 1 << 30
_MIB = 1 << 20


def over_limit(root: int, limit: int) -> str | None:
    """Return in words that the processes below `root` use more than `limit` bytes, else None.

    Pages that processes share are counted once: data loaders forked from a large parent do not
    make it larger.
    """
    tree = _descendants(root)
    if sum(seen.rss for seen in tree.values()) <= limit:
        return None
    used = sum(_proportional(pid, seen.rss) for pid, seen in tree.items())
    if used <= limit:
        return None
    return f"used {_words(used)} of {_words(limit)} of memory asked for"


def _descendants(root: int) -> dict[int, Stat]:
    """Return the processes below `root`, but not supervisors of other jobs."""
    everything = {pid: seen for pid in process_ids() if (seen := process_stat(pid))}
    children: dict[int, list[int]] = {}
    for pid, seen in everything.items():
        children.setdefault(seen.parent, []).append(pid)
    found: dict[int, Stat] = {}
    todo = children.get(root, [])
    while todo:
        pid = todo.pop()
        if pid not in found and not is_driver(pid):
            found[pid] = everything[pid]
            todo += children.get(pid, [])
    return found


def _proportional(pid: int, rss: int) -> int:
    """Return the process's share in bytes (Pss of proc(5)); `rss` where the kernel hides it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return rss
    kib = (int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return next(kib, rss // 1024) * 1024


def _words(size: int) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"


# The second half of a supervisor: it watches the task, ends it, and has the last word.


_POLL_INTERVAL = 0.5
_LAST_WORD_TRIES = 60


def supervise(  # noqa: PLR0913 - all that the first half knows
    home: str,
    job_id: str,
    task: str,
    pid: int,
    *,
    started: tuple[float, float],
    leases: list[int],
    grace: float,
    ahead: str = "",
) -> None:
    """Watch a task to its end, and see to the next in the queue.

    Parameters
    ----------
    pid
        The task's process: our child, and the leader of its session.
    started
        When it was started: wall and monotonic clock.
    leases
        Descriptors of the GPU leases.
    grace
        Seconds between SIGTERM and SIGKILL.
    ahead
        The folder of the zygote for jobs like this one, see `zygotes`; empty for none.
    """
    paths = JobPaths(Path(home), job_id)
    wake = Wake(store.bell_path(paths))
    watched = _Task(paths, task, pid, Moment(*started), grace)
    watched.begin()
    while not watched.is_over():
        wake.wait(watched.look(wake.asked_to_end))
    while end_children():  # a process in the kernel's hands still holds its GPU: wait for it
        wake.wait(_POLL_INTERVAL)
    exited = Moment.now()
    for descriptor in leases:
        locks.unlock(descriptor)  # the guard has it open, too
    written = watched.tell_end(exited, Moment.now())
    with suppress(OSError, ClusterError):  # else the keeper sees to them
        Queue(Path(home)).grant()
    for _ in range(_LAST_WORD_TRIES):
        if written:
            break
        time.sleep(1)
        written = watched.tell_end(exited, exited)
    from submarine_engine.clusters.store import sweep  # noqa: PLC0415 - it need not hurry

    with suppress(OSError):
        sweep(Path(home))
    if ahead:
        from submarine_engine.clusters.local import zygotes  # noqa: PLC0415 - likewise

        with suppress(OSError, ValueError, KeyError, TypeError):
            zygotes.prepare(Path(ahead), paths, task)


class _Task:
    def __init__(self, paths: JobPaths, task: str, pid: int, started: Moment, grace: float) -> None:
        self._paths = paths
        self._task = task
        self._files = paths.task(task)
        self._pid = pid
        self._started = started
        self._grace = grace
        self._exit_code = 0
        self._turn_at = 0.0
        self._course = Course()
        self._cause = ""  # why we end it ourselves
        self._unwritten: list[Event] = []
        self._last: tuple[Event, ...] = ()
        self._oom_kills = machine.oom_kills()
        self._progress = Progress(self._files)
        record = read_json(paths.record) or {}
        asked = record["spec"]["roles"][0]["resources"]["memory"]
        self._limit = asked * _MIB if asked else None
        self._journal = Journal(paths, record)

    def begin(self) -> None:
        """Put on record that the task runs, and who runs it."""
        leader = process_stat(self._pid)
        signature = {
            "pid": os.getpid(),
            "session": self._pid,
            "session_start": leader.start if leader else None,
        }
        with suppress(OSError):
            self._paths.lock.write_text(json.dumps(signature))
        self._write(Started(task=self._task, at=self._started))

    def is_over(self) -> bool:
        """Wait for strays that have ended, and at last for the task and its process group."""
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return False
            if ended.si_pid == self._pid:
                end_group(self._pid)  # a zombie keeps its number, so the group is still ours
            _, status = os.waitpid(ended.si_pid, 0)
            if ended.si_pid == self._pid:
                self._exit_code = os.waitstatus_to_exitcode(status)
                return True

    def look(self, asked_to_end: bool) -> float:  # noqa: FBT001 - the one thing it is told
        """Do what is due; return the seconds until the next look."""
        if time.monotonic() >= self._turn_at:
            self._turn_at = time.monotonic() + _POLL_INTERVAL
            self._turn()
        asked = store.cancel_request(self._paths)
        told = "the supervisor was told to end" if asked_to_end else None
        seen = Observations(
            tasks=(TaskSeen(task=self._task, container=str(self._pid), held=True),),
            wanted=asked.reason if asked else told,
            urgent=asked is not None and asked.kill,
            cause=self._cause,
        )
        decision = decide(self._course, seen, Moment.now(), grace=self._grace)
        self._course = decision.course
        for event in decision.events:
            self._write(event)
        for signalled in decision.do:
            if isinstance(signalled, Signal):
                self._signal(kill=signalled.kill)
        due = self._turn_at
        if self._course.kill_at is not None and self._course.killed_at is None:
            due = min(due, self._course.kill_at)
        return due - time.monotonic()

    def tell_end(self, exited: Moment, released: Moment) -> bool:
        """Write the last events; whether the disk had room for them."""
        self._last = self._last or self._judge(exited, released)
        try:
            self._journal.append_last(*self._unwritten, *self._last)
        except OSError:
            return not self._paths.root.exists()
        return True

    def _turn(self) -> None:
        if not self._paths.root.exists():
            self._cause = self._cause or "the job's folder was deleted"
        elif self._limit and (excess := over_limit(os.getpid(), self._limit)):
            self._cause = self._cause or excess
        elif progressed := self._progress.look():
            with suppress(OSError):  # the next one tells it as well
                self._journal.append(progressed)

    def _signal(self, *, kill: bool) -> None:
        if kill:
            end_group(self._pid)
            return
        end_group(self._pid, signal.SIGTERM)
        end_group(self._pid, signal.SIGCONT)  # a stopped process ends only when it goes on

    def _write(self, event: Event) -> None:
        self._unwritten.append(event)
        try:
            self._journal.append(*self._unwritten)
        except OSError:  # a full disk: once more at the end, in the room kept for it
            return
        self._unwritten.clear()

    def _judge(self, exited: Moment, released: Moment) -> tuple[Event, ...]:
        ending = Ending(self._exit_code, read_outcome(self._files))
        returned = ending.returned_at(self._started, exited)
        oom_killed = machine.oom_kills() > self._oom_kills
        state, reason = final_task_state(ending, self._paths.root, oom_killed=oom_killed)
        end = TaskEnd(
            state=state,
            reason=reason,
            at=exited,
            returned=returned,
            to_its_end=ending.came_to_its_end,
        )
        course = self._course
        state, reason = final_state([end], cancelled=course.cancelled, cause=course.cause)
        events: list[Event] = []
        if state is not JobState.SUCCEEDED and (progressed := self._progress.look(last=True)):
            events.append(progressed)  # how far it came, not how far it was when last looked at
        if returned:
            events.append(returned_event(self._task, ending, returned))
        events += [
            Exited(task=self._task, exit_code=ending.exit_code, reason=reason, at=exited),
            Released(task=self._task, at=released),
            Finished(state=state, reason=reason),
        ]
        return tuple(events)
