"""The interpreter in each way that a real Zeppelin can run it: how many processes and kernels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs import until
from tests.zeppelin.rest import Client, text
from tests.zeppelin.server import free_port

pytestmark = pytest.mark.long

PLACE = "%submarine.python\nimport os; print(os.getppid(), os.getpid())"
GLOBALLY = {"perNote": "shared", "perUser": "shared"}


@pytest.fixture(scope="module")
def server(zeppelin_of_the_module):
    """Return a server whose setting these tests change; how the events go is pinned, too.

    Notes are left to it: for each that is deleted, Zeppelin ends a process and waits for seconds.
    """
    port = free_port()
    return zeppelin_of_the_module(site={"zeppelin.server.rpc.portRange": f"{port}:{port}"})


@pytest.fixture
def client(server):
    client = Client(server.url)
    before = client.setting()
    yield client
    client.call("PUT", f"/interpreter/setting/{before['id']}", before)


def place(note):
    """Return the pids of the interpreter and of the kernel that a note's paragraphs run in."""
    found = note.write(PLACE)
    assert found["status"] == "FINISHED", text(found)
    interpreter, kernel = map(int, text(found).split())
    return interpreter, kernel


def gone(pid):
    """Return whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.parametrize(
    ("mode", "interpreters", "kernels"), [("shared", 1, 1), ("scoped", 1, 2), ("isolated", 2, 2)]
)
def test_notes_of_a_mode(client, server, mode, interpreters, kernels):
    client.configure(option={**GLOBALLY, "perNote": mode})
    notes = [client.note(f"{mode} {number}") for number in range(2)]
    notes[0].write("%submarine.python\nfound = 42")
    places = [place(note) for note in notes]
    assert len({interpreter for interpreter, _ in places}) == interpreters
    assert len({kernel for _, kernel in places}) == kernels
    assert set(server.interpreters()) == {interpreter for interpreter, _ in places}
    # What one note defines, the other has only where they share a kernel.
    assert text(notes[0].write("%submarine.python\nfound")) == "42\n"
    other = notes[1].write("%submarine.python\nfound")
    assert ("NameError" in text(other)) == (kernels == 2), text(other)
    # The note's own interpreter restarted is a fresh one; the other note keeps its own.
    if kernels == 2:
        client.restart(notes[0])
        until(lambda: gone(places[0][1]))
        assert place(notes[1]) == places[1]
        assert place(notes[0])[1] != places[0][1]
    client.restart()
    until(lambda: not server.interpreters())
    for _, kernel in places:
        until(lambda kernel=kernel: gone(kernel))


def test_properties_that_cannot_be_used_are_named_in_one_message(client):
    client.configure(
        option=GLOBALLY,
        submarine__job__gpus="many",
        submarine__graze="5",
        submarine__capture_limit="much",
    )
    note = client.note("bad properties")
    assert note.write("%submarine.python\n1 + 1")["status"] == "FINISHED"
    found = note.write("%submarine.run --name never\nprint('never')")
    assert found["status"] == "ERROR"
    for named in ("3 properties", "submarine.job.gpus=many", "submarine.graze",
                  "submarine.grace", "submarine.capture_limit=much"):  # fmt: skip
        assert named in text(found), text(found)
    assert "Traceback" not in text(found)
    assert "never" not in text(note.write("%submarine job list"))


def test_an_interpreter_that_was_started_by_hand(client, server, tmp_path):
    port = free_port()
    environment = {**os.environ, "SUBMARINE_HOME": str(server.jobs_home),
                   "SUBMARINE_LOCAL_GPUS": "2"}  # fmt: skip
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "submarine_zeppelin", "-r", f"{port}:{port}"],
            stderr=log, env=environment,
        )  # fmt: skip
    try:
        until(lambda: f"port {port}" in (tmp_path / "log").read_text())
        existing = {"isExistingProcess": True, "host": "127.0.0.1", "port": port}
        client.configure(option={**GLOBALLY, **existing})
        note = client.note("by hand")
        assert place(note)[0] == process.pid
        number = note.add("%submarine.run --gpus 1 --name by-hand\nprint('it ran')\nfound = 7")
        with client.socket() as socket:
            socket.watch(note)
            note.start(number)
            socket.until("PARAS_INFO", lambda told: "'label': 'Log'" in str(told))
        found = note.wait(number)
        assert found["status"] == "FINISHED", text(found)
        assert "it ran\n" in text(found)
        assert text(note.write("%submarine.python\nfound")) == "7\n"
        # Zeppelin does not end what it has not started; a restart is a fresh kernel in it.
        client.restart()
        assert place(note)[0] == process.pid
        assert "NameError" in text(note.write("%submarine.python\nfound"))
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0
