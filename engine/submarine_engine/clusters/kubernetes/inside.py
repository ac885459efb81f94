"""The way into a task of a pod: a program there leads to the server beside it, over ``exec``."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_runtime.channel import KEEP_ALIVE, MUCH, PIECE
from submarine_runtime.pod import ROOT
from websocket import ABNF

from submarine_engine.clusters.kubernetes.client import WIRE_ERRORS
from submarine_engine.clusters.kubernetes.manifest import FILES_CONTAINER

if TYPE_CHECKING:
    from submarine_engine.clusters.kubernetes.client import Kubernetes

_STDIN, _STDOUT = b"\0", b"\1"
"""What the data of a frame begins with, as Kubernetes has it."""

_PING_AFTER = 30.0
"""Seconds of silence: what stands between here and the cluster hangs up where nothing is said."""

_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def reach(api: Kubernetes, pod: str, task: str, python: str) -> socket.socket:
    """Connect to the server beside a task, see `submarine_runtime.inside`.

    Parameters
    ----------
    api
        The cluster.
    pod, task
        Which.
    python
        The interpreter in its image.

    Returns
    -------
    socket.socket
        One end of a pair: a thread of this process has the other, until either is closed.

    Raises
    ------
    ClusterError
        Nothing can be begun in the pod now.
    """
    program = f"{ROOT}/lib/submarine_runtime/pod.py"
    wire = api.open(pod, FILES_CONTAINER, [python, "-I", program, "reach", ROOT, task])
    ours, theirs = socket.socketpair()
    pump = _Pump(wire.sock, theirs)
    threading.Thread(target=pump.run, name=f"into {pod}", daemon=True).start()
    return ours


class _Pump:
    """Carries bytes between a WebSocket and a socket, and never waits for one of them alone.

    Parameters
    ----------
    wire
        The WebSocket, whose handshake is done.
    end
        The socket.
    """

    def __init__(self, wire: Any, end: socket.socket) -> None:  # noqa: ANN401 - untyped
        self._wire, self._plain, self._end = wire, wire.sock, end
        self._goes = bytearray()  # to the pod, in frames
        self._came = bytearray()  # from there
        self._first = b""  # what the message began with whose frames come now
        self._over = False
        for one in (self._plain, end):
            one.setblocking(False)
        for option, value in KEEP_ALIVE:
            with suppress(OSError):
                self._plain.setsockopt(socket.IPPROTO_TCP, option, value)

    def run(self) -> None:
        """Carry until one side is gone."""
        try:
            while not self._over:
                self._step()
            self._end.settimeout(_PING_AFTER)
            self._end.sendall(self._came)
        except WIRE_ERRORS:  # whoever is left sees that the other one is gone
            pass
        finally:
            self._end.close()
            with suppress(*WIRE_ERRORS):
                self._wire.shutdown()

    def _step(self) -> None:
        poll = select.poll()
        hears, takes = len(self._came) < MUCH, len(self._goes) < MUCH
        poll.register(self._plain, hears * select.POLLIN | bool(self._goes) * select.POLLOUT)
        poll.register(self._end, takes * select.POLLIN | bool(self._came) * select.POLLOUT)
        # TLS takes more off the network than one frame.
        is_there = hears and isinstance(self._plain, ssl.SSLSocket) and self._plain.pending()
        ready = dict(poll.poll(0 if is_there else _PING_AFTER * 1000))
        if not ready and not is_there:
            self._frame(b"", ABNF.OPCODE_PING)
        # Nobody hears what comes, nor has more to say.
        self._over = bool(ready.get(self._end.fileno(), 0) & (select.POLLHUP | select.POLLERR))
        with suppress(*_LATER):
            if hears and (is_there or ready.get(self._plain.fileno())):
                self._hear()
        with suppress(*_LATER):
            if takes and ready.get(self._end.fileno(), 0) & select.POLLIN:
                data = self._end.recv(PIECE)
                self._over = self._over or not data
                self._frame(_STDIN + data, ABNF.OPCODE_BINARY)
        with suppress(*_LATER):
            if self._goes:
                del self._goes[: self._plain.send(bytes(memoryview(self._goes)[:PIECE]))]
        with suppress(*_LATER):
            if self._came:
                del self._came[: self._end.send(memoryview(self._came)[:PIECE])]

    def _hear(self) -> None:
        """Take the next frame; a half one is kept, and the next look goes on with it."""
        frame = self._wire.recv_frame()
        if frame.opcode == ABNF.OPCODE_CLOSE:
            self._over = True
        elif frame.opcode == ABNF.OPCODE_PING:
            self._frame(frame.data, ABNF.OPCODE_PONG)
        elif frame.opcode in (ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT, ABNF.OPCODE_CONT):
            data = bytes(frame.data)
            if frame.opcode != ABNF.OPCODE_CONT:
                self._first, data = data[:1], data[1:]
            if self._first == _STDOUT:
                self._came += data

    def _frame(self, data: bytes, opcode: int) -> None:
        self._goes += ABNF.create_frame(data, opcode).format()
