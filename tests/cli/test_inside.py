"""Into a running job at a terminal: exec, shell and forward as people type them."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import termios
from contextlib import closing, suppress
from pathlib import Path

import pytest
from submarine_engine import open_job

from tests.cli.test_terminal import Terminal
from tests.jobs import until

LISTENS = """
import socket
server = socket.create_server(("127.0.0.1", 0))
with open("port", "w") as file:
    print(server.getsockname()[1], file=file)
while True:
    with server.accept()[0] as connection:
        connection.sendall(b"it is " + connection.recv(100))
"""


@pytest.fixture
def waits(folder, submarine):
    """Give a job that listens at a port; return the port."""
    (folder / "waits.py").write_text(LISTENS)
    assert submarine("job", "run", "waits.py", "--name", "waits", "--detach").returncode == 0
    port = folder / "port"
    yield until(lambda: port.exists() and port.read_text().strip())
    open_job("waits").kill()
    open_job("waits").wait(180)


def test_a_program_has_this_commands_streams_and_code(waits, start, folder):
    pipe = subprocess.PIPE
    words = ("job", "exec", "waits", "--", "sh", "-c", "cat; pwd >&2; exit 9")
    process = start(*words, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.communicate(b"given\0\xff", 180) == (b"given\0\xff", f"{folder}\n".encode())
    assert process.returncode == 9
    # No shell: dash may lose an interrupt that comes as it starts a program.
    words = (sys.executable, "-c", "print('up', flush=True); import time; time.sleep(600)")
    process = start("job", "exec", "waits", "--", *words, stdout=pipe, stderr=pipe)
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)  # the program's, and so is the code
    assert process.wait(180) == 130


def test_what_a_program_has_not_is_no_harm(waits, start, folder):
    def run(script):
        words = [sys.executable, "-m", "submarine_engine.cli", "job", "exec", "waits", "--"]
        line = f"{shlex.join(words)} {script}"
        return subprocess.run(["sh", "-c", line], check=False, capture_output=True, timeout=180)

    for program, code in (("no-such-program", 127), ("/", 126)):
        done = run(program)
        assert (done.returncode, b"cannot be run" in done.stderr) == (code, True)
    # Without stdin, without stdout; and with bytes that are no text.
    done = run("sh -c 'cat; printf \\\\377; echo told >&2' <&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"\xff", b"told\n")
    done = run("sh -c 'echo lost; echo told >&2; exit 4' >&-")
    assert (done.returncode, done.stdout, done.stderr) == (4, b"", b"told\n")
    # A reader that goes ends the program.
    done = run("sh -c 'echo $$ > pid; exec yes' | head -n 1")
    assert (done.stdout, done.stderr) == (b"y\n", b"")
    until(lambda: not lives(int((folder / "pid").read_text())))


def lives(pid):
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_shell_whose_command_is_killed_ends(waits, start, folder):
    terminal = Terminal(start, "job", "shell", "waits", SHELL="/bin/sh", PS1="> ")
    os.write(terminal.master, b"trap '' HUP; sh -c 'echo $$ $PPID > pids; exec sleep 600'\r")
    pids = folder / "pids"
    found = until(lambda: pids.exists() and pids.read_text().split())
    terminal.process.kill()
    until(lambda: not any(map(lives, map(int, found))))
    os.close(terminal.master)


def test_a_shell_has_this_terminals_keys_and_size(waits, start):
    terminal = Terminal(start, "job", "shell", "waits", SHELL="/bin/sh", PS1="> ")
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("4H", 31, 101, 0, 0))

    def type_(line):
        os.write(terminal.master, line.encode())

    type_("echo said:$((20 + 1))\r")
    terminal.read_until("said:21")
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("4H", 33, 103, 0, 0))
    terminal.process.send_signal(signal.SIGWINCH)
    type_("until [ \"$(stty size)\" = '33 103' ]; do sleep 0.1; done; tty\r")
    terminal.read_until("/dev/pts/")
    type_("sh -c 'echo stays:$((30 + 1)); exec sleep 600'\r")
    terminal.read_until("stays:31")
    type_("\x03")
    type_("echo after:$((40 + 2)); exit 5\r")
    assert "after:42" in terminal.read_all()
    assert terminal.process.wait(180) == 5


def test_a_port_is_here_until_an_interrupt(waits, start):
    process = start("job", "forward", "waits", f"{waits}:0", stdout=subprocess.PIPE)
    host, _, port = process.stdout.readline().decode().strip().partition(":")
    with closing(socket.create_connection((host, int(port)))) as connection:
        connection.sendall(b"me")
        assert connection.recv(100) == b"it is me"
    process.send_signal(signal.SIGINT)
    assert process.wait(180) == 130


def test_what_is_typed_wrong_is_said(waits, submarine):
    for words, what in (
        (["exec", "waits", "ls"], b"the program and its arguments go after --"),
        (["exec", "waits", "-l"], b"there is no option -l"),
        (["exec", "waits"], b"the command is missing"),
        (["shell", "waits"], b"a shell needs a terminal"),
        (["forward", "waits", "x"], b"'x' is no port"),
        (["forward", "waits", "70000"], b"'70000' is no port"),
        (["forward", "waits", "1"], b"nobody listens"),
        (["exec", "waits", "--", "echo", *["x" * 100_000] * 11], b"the command is too long"),
    ):
        done = submarine("job", *words)
        assert what in done.stderr
        assert done.returncode
    done = submarine("job", "exec", "waits", "--json", "--", "sh", "-c", "echo 1; exit 2")
    assert (done.returncode, b'"code": 2, "stdout": "1\\n", "stderr": ""' in done.stdout) == (
        2,
        True,
    )
