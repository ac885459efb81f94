"""Test double of Zeppelin: speaks its real Thrift protocol both ways with a real interpreter."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from submarine_zeppelin.wire import IDL, PROTOCOL, TRANSPORT
from thriftpy2.thrift import TClient, TException, TProcessor
from thriftpy2.transport import TSocket

from tests.jobs import LIMIT, until

PYTHON, COMMAND = "submarine_zeppelin.Python", "submarine_zeppelin.Command"
RUN, SHELL = "submarine_zeppelin.Run", "submarine_zeppelin.Shell"


class EventServerDouble:
    """Zeppelin's side of the events, and what it was told."""

    def __init__(self):
        self.registered = []
        self.updates = []
        self.links = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open = []
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def registerInterpreterProcess(self, info):  # noqa: N802 - the wire's
        self.registered.append(info)

    def updateOutput(self, event):  # noqa: N802
        self.updates.append((event.index, event.type, event.data))

    def updateAllOutput(self, event):  # noqa: N802
        self.updates += [(i, m.type, m.data) for i, m in enumerate(event.msg)]

    def sendParagraphInfo(self, _group, told):  # noqa: N802
        self.links.append(told)

    def getParagraphList(self, _user, note):  # noqa: N802
        return [IDL.ParagraphInfo(note, "p1", "", "")]

    def checkpointOutput(self, *_):  # noqa: N802
        return None

    def close(self):
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        with suppress(OSError):
            while True:
                one, _ = self._socket.accept()
                self._open.append(one)
                threading.Thread(target=self._answer, args=(one,), daemon=True).start()

    def _answer(self, one):
        protocol = PROTOCOL.get_protocol(TRANSPORT.get_transport(TSocket(sock=one)))
        processor = TProcessor(IDL.RemoteInterpreterEventService, self)
        with suppress(OSError, EOFError, TException), one:
            while True:
                processor.process(protocol, protocol)


class Client(TClient):
    """A client that tells when its call is on its way."""

    sent = None

    def _send(self, *arguments, **fields):
        super()._send(*arguments, **fields)
        if self.sent:
            self.sent.set()


class Talk:
    """An interpreter process, and calls to it as Zeppelin makes them."""

    def __init__(self, home: Path, *arguments: str, **environment: str):
        self.events = EventServerDouble()
        self.log = home / "interpreter.log"
        home.mkdir(parents=True, exist_ok=True)
        self.began = time.monotonic()
        told = ["-c", "127.0.0.1", "-p", str(self.events.port), "-r", ":", "-i", "submarine-x"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "submarine_zeppelin", "-d", "x", *told, *arguments],
                env={
                    **os.environ,
                    "SUBMARINE_LOCAL_GPUS": "2",
                    "PYTHONFAULTHANDLER": "1",
                    **environment,
                },
                stderr=log,
            )
        until(lambda: self.events.registered or self.process.poll() is not None)
        self.took = time.monotonic() - self.began
        assert self.events.registered, self.log.read_text()
        self.port = self.events.registered[0].port

    def begin(self, session="s1", **properties):
        self.call("init", {})
        for name in (COMMAND, PYTHON, RUN, SHELL):
            self.call("createInterpreter", "submarine-x", session, name, properties, "anonymous")
        return self

    def call(self, method, *arguments, sent=None):
        """Make one call on a connection of its own, as those of Zeppelin's pool are."""
        transport = TRANSPORT.get_transport(
            TSocket("127.0.0.1", self.port, socket_timeout=LIMIT * 1000)
        )
        transport.open()
        client = Client(IDL.RemoteInterpreterService, PROTOCOL.get_protocol(transport))
        client.sent = sent
        try:
            return client._req(method, *arguments)  # `close` is one of the client's own, too
        finally:
            client.close()

    def context(self, paragraph="p1", note="n1", *, title="", user="anonymous", **local):
        return IDL.RemoteInterpreterContext(
            note, "a note", paragraph, "", title, "", f'{{"user":"{user}"}}', "{}", "{}", "{}",
            local,
        )  # fmt: skip

    def interpret(self, text, name=PYTHON, session="s1", context=None, sent=None):
        """Return code and outputs of a paragraph."""
        found = self.call("interpret", session, name, text, context or self.context(), sent=sent)
        return found.code, [(message.type, message.data) for message in found.msg]

    def start(self, text, name=PYTHON, session="s1", context=None):
        """Send a paragraph from a thread; return a list that its code and outputs will come to."""
        found, sent = [], threading.Event()

        def run():
            with suppress(OSError, EOFError, TException):  # the process was killed
                found.append(self.interpret(text, name, session, context, sent))

        threading.Thread(target=run, daemon=True).start()
        assert sent.wait(LIMIT)
        return found

    def hear(self, word):
        """Wait until a paragraph has shown a word; else tell where all threads are, which end."""
        try:
            until(lambda: any(word in data for _, _, data in self.events.updates))
        except AssertionError as error:
            ends = [*kernel_of(self.process.pid), self.process.pid]
            for pid in ends:
                os.kill(pid, signal.SIGABRT)  # `faulthandler` answers
            until(lambda: all(is_over(pid) for pid in ends))
            logs = [self.log, *Path(os.environ["SUBMARINE_HOME"]).glob("zeppelin/logs/*")]
            told = "\n".join(log.read_text(errors="replace") for log in logs)
            raise AssertionError(f"{word!r} is not shown: {error}\n{told}") from None

    def close(self):
        self.process.kill()
        self.process.wait()
        self.events.close()


def is_over(pid):
    """Return whether a process is gone, or nobody has waited for its end yet."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def kernel_of(pid):
    """Return the pids of the kernels of an interpreter."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"KernelApp" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def shown(outputs):
    return "".join(data for kind, data in outputs if kind == "TEXT")
