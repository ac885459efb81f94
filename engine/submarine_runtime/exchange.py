"""The messages between a task and its driver: the task says hello, and learns where the others are.

`task` calls `meet` before the user's code begins. The messages are small files of the task's
folder, each written aside and renamed:

``hello.json``
    by the task: its host, free ports, its process.
``answer.json``
    by the driver, once all tasks have said hello: who is where. Then the code begins.

How they come from one machine to the other is the cluster's part: `Carrier` is what a task needs of
it. The variables by which frameworks find each other are made of the answer (`rendezvous`).
"""

from __future__ import annotations

# The C half of `socket`: the other half imports selectors and enum, 10 ms each.
import _socket
import os
import time

from submarine_runtime import lean, rendezvous
from submarine_runtime.lean import mode_in, suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Carrier(Protocol):
        """Brings a task's messages to the driver, and the driver's to the task."""

        def say(self, name: str, data: bytes) -> None:
            """Bring a message to the driver; OSError where that fails now."""

        def hear(self, name: str) -> bytes | None:
            """Return a driver's message; None where there is none yet, OSError as of `say`."""


HELLO = "hello.json"
ANSWER = "answer.json"
VERSION = 1

INSIDE_ASK = "inside-asked.json"
"""By who would go into a running task, see `inside`: the question that has its server begin."""

INSIDE = "inside.json"
"""Where that server listens."""

PATIENCE = 600.0
"""Seconds that a task waits for the answer: longer than the driver waits for the last hello, which
can name the task that does not come.
"""

PORTS = 4
"""Free ports that a task offers; `rendezvous` says which is whose."""

_SOONEST = 0.01  # seconds until the second look; the pauses double up to the latest
_LATEST = 0.02  # seconds: a look at one file, by which every task's first line is late
_CALLS = 2000.0  # a second: so often all tasks that wait ask whoever has the answer


_held: list[_socket.socket] = []
"""The task's ports, until it ends."""

_framework = rendezvous.AUTO
"""Whose variables are set, as ``--framework`` has it."""


class NobodyAnsweredError(Exception):
    """The driver has not answered in time."""


class Files:
    """A task whose driver sees its folder.

    Parameters
    ----------
    folder
        The task's.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def say(self, name: str, data: bytes) -> None:
        """Write `data` as the message `name`."""
        put(self._folder, name, data)

    def hear(self, name: str) -> bytes | None:
        """Read the message `name`; None where there is none yet."""
        try:
            with open(f"{self._folder}/{name}", "rb") as file:  # noqa: PTH123 - pathlib is slow
                return file.read()
        except FileNotFoundError:
            return None


def put(folder: str, name: str, data: bytes, mode: int | None = None) -> None:
    """Write a file of a task's folder, whole or not at all.

    Parameters
    ----------
    folder
        The task's.
    name
        The file's.
    data
        All of it.
    mode
        Who may read it; unless given, whoever may read the folder.

    Raises
    ------
    OSError
        It cannot be written.
    """
    aside = f"{folder}/.{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(aside, flags, mode or mode_in(folder)), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(data)
    os.replace(aside, f"{folder}/{name}")  # noqa: PTH105 - as above


def meet(folder: str, plan: dict[str, Any], carrier: Carrier | None = None) -> dict[str, Any]:
    """Say hello, wait for the answer, set the variables of the frameworks; return all tasks.

    The ports are this task's alone until the answer is there. Then they are held on, so that the
    system gives none of them to anybody; who means one, and sets SO_REUSEADDR as servers do, gets
    it.

    Parameters
    ----------
    folder
        The task's.
    plan
        Its ``task.json``.
    carrier
        Brings the messages; unless given, the driver sees the folder.

    Raises
    ------
    NobodyAnsweredError
        The others did not come, or the driver is gone.
    OSError, ValueError, KeyError, TypeError
        There is no free port, or the answer is none.
    """
    carrier = carrier or Files(folder)
    held = [_free_port() for _ in range(PORTS)]
    try:
        hello = {
            "version": VERSION,
            "job_id": plan["job_id"],
            "task": plan["task"],
            "attempt": plan.get("attempt", 1),
            "host": own_host(),
            "network": _network(),
            "ports": [one.getsockname()[1] for one in held],
            "pid": os.getpid(),
        }
        data = _wait(carrier, lean.dumps(hello).encode(), plan.get("peers", 1))
    except BaseException:
        for one in held:
            one.close()
        raise
    for one in held:
        one.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    _held[:] = held
    answer = lean.loads(data.decode())
    if answer["version"] != VERSION:
        raise ValueError(f"the answer is of version {answer['version']!r}, not {VERSION}")
    if not isinstance(carrier, Files):
        put(folder, ANSWER, data)  # `submarine_runtime.job` reads it there
    tasks: dict[str, Any] = answer["tasks"]
    global _framework  # noqa: PLW0603 - of the process
    _framework = plan.get("framework", rendezvous.AUTO)
    rendezvous.enter(folder, tasks, plan["task"], _framework)
    return tasks


def ports() -> list[int]:
    """Return the ports of this task; none where it is alone."""
    return [one.getsockname()[1] for one in _held]


def offer() -> None:
    """Hold other ports from now on: whatever a former training has left listens at the old ones."""
    new = [_free_port() for _ in _held]
    for one in _held:
        one.close()
    _held[:] = new


def meet_again(folder: str, offers: dict[str, list[int]]) -> None:
    """Begin another training of the same tasks, at other ports.

    Parameters
    ----------
    folder
        The task's.
    offers
        The ports by task.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError
        The answer of the first meeting is gone, or these are not its tasks.
    """
    data = Files(folder).hear(ANSWER) or b""
    answer = lean.loads(data.decode())
    for task, own in offers.items():
        answer["tasks"][task]["ports"] = own
    for one in _held:
        one.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    put(folder, ANSWER, lean.dumps(answer).encode())
    rendezvous.enter(folder, answer["tasks"], os.environ["SUBMARINE_TASK"], _framework)


def _wait(carrier: Carrier, hello: bytes, tasks: int) -> bytes:
    said, rest = False, _SOONEST
    latest = _LATEST if isinstance(carrier, Files) else max(_LATEST, tasks / _CALLS)
    until = time.monotonic() + PATIENCE
    while True:
        why = ""
        try:
            if not said:
                carrier.say(HELLO, hello)
                said = True
            if (data := carrier.hear(ANSWER)) is not None:
                return data
        except OSError as error:  # whoever carries it is away for a while
            why = f": {type(error).__name__}: {error}"
        if time.monotonic() > until:
            raise NobodyAnsweredError(
                f"no answer came within {PATIENCE:g} s: either the other tasks never began, or"
                f" nobody follows this job any more{why}"
            )
        time.sleep(rest)
        rest = min(2 * rest, latest)


def _free_port() -> _socket.socket:
    """Return a socket that holds a free port: without SO_REUSEADDR nobody else can bind to it."""
    found = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    found.bind(("", 0))
    return found


def own_host() -> str:
    """Return by what name or address other machines reach this one."""
    # A pod's own address: nobody else knows its name. What YARN calls the node; else what the
    # machine calls itself, where that means something.
    told = (os.environ.get(name, "") for name in ("SUBMARINE_HOST", "NM_HOST"))
    for name in (*told, os.uname().nodename):
        with suppress(OSError):
            if name and _socket.getaddrinfo(name.encode(), 0):
                return name
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:  # nothing is sent: the system only chooses the address that it would send from
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
    finally:
        probe.close()


def _network() -> str:
    """Return what is the same for tasks that reach each other by 127.0.0.1, and for no others."""
    boot = "/proc/sys/kernel/random/boot_id"
    with suppress(OSError), open(boot) as file:  # noqa: PTH123 - pathlib is slow
        return f"{file.read().strip()}/{os.stat('/proc/self/ns/net').st_ino}"  # noqa: PTH116 - likewise
    return ""


class TaskPlace:
    """Which of a job's tasks this is, for `submarine_runtime.job`.

    Parameters
    ----------
    tasks
        As the answer has them.
    me
        Which of them.
    attempt
        From 1.
    """

    def __init__(self, tasks: dict[str, Any], me: str, attempt: int) -> None:
        ranks = rendezvous.ranked(tasks)
        mine = tasks[me]
        self.rank = -1 if mine["rank"] is None else int(mine["rank"])
        self.world_size = len(ranks)
        self.role = str(mine["role"])
        self.index = int(mine["index"])
        self.hosts = tuple(str(one["host"]) for one in ranks)
        near = [int(one["rank"]) for one in ranks if one["host"] == mine["host"]]
        self.local_rank = near.index(self.rank) if self.rank >= 0 else -1
        self.local_world_size = len(near)
        self.attempt = attempt
        self.is_chief = self.rank == 0
        self.first = ranks[0] if ranks else {}
        """The worker of rank 0, as the answer has it."""


def place(folder: str | None) -> TaskPlace:
    """Return where this task stands; outside a job, and in a job of one task, it is alone.

    Parameters
    ----------
    folder
        The task's; None outside a job.
    """
    me = os.environ.get("SUBMARINE_TASK", "worker-0")
    data = Files(folder).hear(ANSWER) if folder else None
    if data is not None:
        answer = lean.loads(data.decode())
        return TaskPlace(answer["tasks"], me, int(answer["attempt"]))
    role, _, index = me.rpartition("-")
    alone = {"role": role, "index": int(index), "rank": 0, "host": "localhost", "ports": []}
    return TaskPlace({me: alone}, me, int(os.environ.get("SUBMARINE_ATTEMPT", "1")))
