"""What the driver and the tasks of a job tell each other.

Small messages, by name: `submarine_runtime.exchange` has what each says. A task says hello, the
driver answers with where all tasks are; that opens the gate. While a task runs, the driver asks for
its stacks and it tells them (`submarine_runtime.stacks`); to a pool's worker it brings what the
controller has written for it (`CallCarrier`). A message from a task is the word of a stranger until
it is read here.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from submarine_runtime.call_frames import CALLS, PART, TAKEN, part, whole
from submarine_runtime.exchange import ANSWER, HELLO, PORTS, VERSION
from submarine_runtime.messages import LARGEST
from submarine_runtime.messages import exchange as bring

from submarine_engine.errors import ClusterError
from submarine_engine.lifecycle import WORKERS

if TYPE_CHECKING:
    from submarine_engine.job import JobSpec

_ASK_AGAIN = 1.0  # seconds: whether what was sent has come is a question to the cluster

_LONGEST = 255  # characters of a host's name, as DNS has it
_LOOPBACK = "127.0.0.1"

Messages = Mapping[str, bytes]
"""Messages of one task, or for it, by name."""


class WrongHelloError(ClusterError):
    """What a task said is no hello, or not its own."""


class Hello(NamedTuple):
    """What a task says of itself.

    Parameters
    ----------
    host
        By what name or address other machines reach it.
    network
        The same for tasks that reach each other by 127.0.0.1; empty where nobody knows.
    ports
        Which it holds free for its code.
    """

    host: str
    network: str
    ports: tuple[int, ...]


def read_hello(data: bytes, job_id: str, task: str, attempt: int = 1) -> Hello:
    """Read a hello, as the word of a stranger.

    Parameters
    ----------
    data
        What came.
    job_id, task, attempt
        Whose it has to be.

    Raises
    ------
    WrongHelloError
        It is something else.
    """
    if len(data) > LARGEST:
        raise WrongHelloError(f"its hello has more than {LARGEST:,} bytes")
    try:
        told = json.loads(data)
        ids = told["version"], told["job_id"], told["task"], told["attempt"]
        host, network, ports = told["host"], told["network"], told["ports"]
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise WrongHelloError("what it said is no hello") from error
    if ids != (VERSION, job_id, task, attempt):
        raise WrongHelloError(f"its hello is of another task, job or release: {ids!r:.200}")
    texts = isinstance(host, str) and isinstance(network, str)
    if not texts or not _is_host(host) or len(network) > _LONGEST:
        raise WrongHelloError(f"invalid host name in its hello: {host!r:.100}")
    if not isinstance(ports, list) or len(ports) != PORTS or not all(map(_is_port, ports)):
        raise WrongHelloError(f"invalid ports in its hello: {ports!r:.100}")
    return Hello(host, network, tuple(ports))


def _is_host(name: str) -> bool:
    """Return whether it is a name or an address, which can stand before a port."""
    return 0 < len(name) <= _LONGEST and all(
        c.isascii() and (c.isalnum() or c in "-_.:") for c in name
    )


def _is_port(number: object) -> bool:
    return type(number) is int and 0 < number < 1 << 16


def answer(spec: JobSpec, hellos: Mapping[str, Hello], attempt: int = 1) -> bytes:
    """Return what the driver tells each task, once all have said hello.

    The same for the same hellos: whoever takes over a job says it again.

    Parameters
    ----------
    spec
        The job.
    hellos
        Of all its tasks.
    attempt
        How often the job has been begun, this time included.
    """
    order = sorted(spec.roles, key=lambda role: (*WORKERS, role.name).index(role.name))
    ranked = [task for role in order if role.name in WORKERS for task in role.tasks]
    networks = {hello.network for hello in hellos.values()}
    near = len(networks) == 1 and "" not in networks
    tasks = {
        task: {
            "role": role.name,
            "index": index,
            "rank": ranked.index(task) if role.name in WORKERS else None,
            # All are on one machine: its own name may mean nothing there, or lead through a VPN.
            "host": _LOOPBACK if near else hellos[task].host,
            "ports": list(hellos[task].ports),
        }
        for role in spec.roles
        for index, task in enumerate(role.tasks)
    }
    return json.dumps({"version": VERSION, "attempt": attempt, "tasks": tasks}).encode()


class CallCarrier:
    """Brings a task elsewhere the calls that its pool's controller writes: each byte, in order.

    The controller appends to a file of the job's folder, and the task reads its own copy of that,
    which says how far it is. So whoever takes the job over goes on there, and what is brought twice
    is written once.

    Parameters
    ----------
    path
        What the controller writes.
    task
        Who has the copy.
    exchange
        As `Request.exchange`.
    """

    def __init__(
        self,
        path: Path,
        task: str,
        exchange: Callable[[Mapping[str, Messages]], Mapping[str, Messages]],
    ) -> None:
        self._path = path
        self._task = task
        self._exchange = exchange
        self._size = 0
        self._whole = 0
        self._there = 0  # of a former driver's there may be more, which the first answer tells
        self._said: tuple[int, int] | None = None
        self._asked_at = 0.0

    def step(self) -> bool:
        """Bring what is new, a bounded part of it; return whether there is more to bring now.

        Raises
        ------
        ClusterError
            The task cannot be told now.
        OSError, ValueError
            What the controller wrote cannot be read.
        """
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            size = os.fstat(descriptor).st_size
            if size > self._size:
                # The half of a frame may still be cut off, by the controller after this one.
                self._whole = whole(descriptor, self._whole, size)
                self._size = self._whole
            if self._there >= self._whole:
                return False
            says = self._there, min(PART, self._whole - self._there)
            if says != self._said:
                data = os.pread(descriptor, says[1], says[0])
                self._hear(self._exchange({self._task: {CALLS: part(says[0], data)}}))
                self._said, self._asked_at = says, time.monotonic()
            elif says[1] == PART or time.monotonic() - self._asked_at > _ASK_AGAIN:
                self._asked_at = time.monotonic()
                self._hear(self._exchange({}))
        finally:
            os.close(descriptor)
        is_full, is_new = says[1] == PART, self._there != says[0]
        return self._there < self._whole and (is_full or is_new)

    def _hear(self, said: Mapping[str, Messages]) -> None:
        told = said.get(self._task, {}).get(TAKEN, b"")
        if told.isdigit() and len(told) < len(str(1 << 62)):
            self._there = min(int(told), self._whole)


def exchange_files(
    folder: Path, messages: Messages, ask: Callable[[str], object] | None = None
) -> dict[str, bytes]:
    """Do what `Request.exchange` does for one task whose folder this machine sees.

    Parameters
    ----------
    folder
        The task's.
    messages
        For the task.
    ask
        Has the launcher ask what a task hears of by its machine's kernel: that tells of no file
        that another machine writes on a shared disk. None where both are one.

    Raises
    ------
    ClusterError
        The folder cannot be written now.
    """
    try:
        return bring(str(folder), messages, ask)
    except OSError as error:
        raise ClusterError(f"the task's folder cannot be written: {error}") from error


__all__ = [
    "ANSWER",
    "HELLO",
    "LARGEST",
    "Hello",
    "Messages",
    "WrongHelloError",
    "answer",
    "read_hello",
]
