"""The wire between Zeppelin and its interpreter: Thrift's strict binary protocol on plain sockets.

``zeppelin.thrift`` beside this file says what goes over it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import thriftpy2
from submarine_engine.errors import ConfigError
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TClient, TException, TProcessor
from thriftpy2.transport import TBufferedTransportFactory, TSocket

IDL: Any = thriftpy2.load(
    str(Path(__file__).with_name("zeppelin.thrift")), module_name="submarine_zeppelin_thrift"
)
"""The structs and services of ``zeppelin.thrift``."""

PROTOCOL = TBinaryProtocolFactory(strict_read=True, strict_write=True)
TRANSPORT = TBufferedTransportFactory()
_BACKLOG = 128
_PATIENCE = 5_000  # milliseconds


class RefusedError(OSError):
    """Zeppelin answers that it cannot do what it was asked: asking again is of no use."""


class Listener:
    """A socket that listens on one address, for Zeppelin's calls.

    Parameters
    ----------
    host
        The one address to listen on.
    ports
        ``first:last``, as Zeppelin's ``zeppelin.interpreter.rpc.portRange`` has it; either may be
        missing, and ``:`` is any.

    Raises
    ------
    ConfigError
        No port of the range is free, or it is no range.
    """

    def __init__(self, host: str, ports: str = ":") -> None:
        self.host = host
        self._socket = _bind(host, ports)
        self._socket.listen(_BACKLOG)
        self.port: int = self._socket.getsockname()[1]

    def serve(self, handler: object, delivered: Callable[[], None]) -> None:
        """Answer calls in threads of their own, until `close`; returns at once.

        Parameters
        ----------
        delivered
            Called in the thread of a call once its answer has been sent.
        """
        processor = TProcessor(IDL.RemoteInterpreterService, handler)
        work = (processor, delivered)
        threading.Thread(target=self._accept, args=work, name="accept", daemon=True).start()

    def close(self) -> None:
        """Take no more calls."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self, *work: Any) -> None:  # noqa: ANN401 - passed on
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=_answer, args=(client, *work), daemon=True).start()


def _answer(client: socket.socket, processor: Any, delivered: Callable[[], None]) -> None:  # noqa: ANN401 - thriftpy2's
    """Answer the calls of one connection; whatever breaks it ends nothing else."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport = TRANSPORT.get_transport(TSocket(sock=client))
    protocol = PROTOCOL.get_protocol(transport)
    try:
        while True:
            processor.process(protocol, protocol)
            delivered()
    except (OSError, EOFError, ValueError, TException, MemoryError):
        transport.close()


class EventServer:
    """Zeppelin's RemoteInterpreterEventService; one call at a time, from any thread.

    Parameters
    ----------
    host, port
        Where it listens.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = host, port
        self._lock = threading.Lock()
        self._client: Any = None

    def call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - as the method has it
        """Call a method of the service, and return what it returns.

        Raises
        ------
        RefusedError
            Zeppelin answers that it cannot.
        OSError
            It does not answer.
        """
        with self._lock:
            try:
                if self._client is None:
                    self._client = self._connect()
                return getattr(self._client, method)(*arguments)
            except IDL.InterpreterRPCException as error:
                raise RefusedError(f"Zeppelin says: {error.errorMessage}") from error
            except (OSError, EOFError, TException) as error:
                self._close()
                raise OSError(f"Zeppelin does not answer at {self.address}: {error}") from error

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        with self._lock:
            self._close()

    def _connect(self) -> Any:  # noqa: ANN401 - thriftpy2's
        host, port = self.address
        transport = TRANSPORT.get_transport(TSocket(host, port, socket_timeout=_PATIENCE))
        transport.open()
        return TClient(IDL.RemoteInterpreterEventService, PROTOCOL.get_protocol(transport))

    def _close(self) -> None:
        if self._client is not None:
            with suppress(OSError):
                self._client.close()
            self._client = None


def address_towards(host: str, port: int) -> str:
    """Return the one address of this machine that leads to Zeppelin.

    Where Zeppelin runs on the same machine that is a loopback address.

    Raises
    ------
    OSError
        Nobody listens there.
    """
    with socket.create_connection((host, port), timeout=_PATIENCE / 1000) as connection:
        found: str = connection.getsockname()[0]
        return found


def _bind(host: str, ports: str) -> socket.socket:
    first, _, last = ports.partition(":")
    try:
        lowest = int(first or 0)
        highest = int(last or (65535 if lowest else 0))
    except ValueError:
        raise ConfigError(f"{ports!r} is no range of ports", fix="write FIRST:LAST") from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in range(lowest, highest + 1):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except (OSError, OverflowError):
            listening.close()
        else:
            return listening
    raise ConfigError(
        f"no port of {ports} is free on {host}",
        fix="give zeppelin.interpreter.rpc.portRange a wider range",
    )
