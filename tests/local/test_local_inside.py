"""Into a running job of this machine: programs, a shell, a port; for its owner, and as its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from submarine_engine.clusters import inside
from submarine_engine.clusters.inside import _connect_here
from submarine_engine.errors import CommandError, JobError
from submarine_engine.future import Job
from submarine_engine.inside import Forward, Session, connect, is_own
from submarine_engine.job import JobState, Resources, Role
from submarine_runtime.channel import INPUT, MUCH, REFUSED, SIZE, VERSION, Channel, wait

from tests.jobs import LIMIT, until

WAITS = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.05)\n"
LISTENS = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
def serve(connection):
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)
        connection.sendall(b"end")
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


@pytest.fixture
def begin(local):
    jobs = []

    def begin(script=WAITS, **options):
        jobs.append(Job(local.cluster, local.submit(script, **options)))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.kill()
        job.wait(180)


def printed(job, local):
    log = local.paths(job.id).task("worker-0").stdout
    return until(lambda: log.exists() and log.read_text())


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # also where it goes as it is read
        return False


def test_much_comes_and_goes_whole(begin):
    job = begin()
    much = os.urandom(5 * MUCH)
    assert job.exec(["cat"], stdin=much).stdout == much
    # Nobody reads what it is given, and what it starts holds its output open.
    found = job.exec(["sh", "-c", "echo told; sleep 600 & exit 3"], stdin=much)
    assert (found.returncode, found.stdout) == (3, b"told\n")
    assert job.exec(["sh", "-c", "kill -9 $$"]).returncode == 137
    # As it is: no shell reads it.
    assert job.exec(["printf", "%s", "$HOME `id` *;"]).stdout == b"$HOME `id` *;"


def test_who_goes_takes_along_what_ran_and_the_rest_goes_on(begin, local):
    job = begin()
    script = "trap '' HUP TERM; echo $$; setsid sleep 600 & echo $!; while :; do sleep 600; done"
    session, told = Session(local.cluster, job.id, {"argv": ["sh", "-c", script]}), bytearray()

    def follow():
        with (
            closing(session),
            pytest.raises(JobError, match="the connection to worker-0 has ended"),
        ):
            session.follow(lambda _, data: told.extend(data))

    follower = threading.Thread(target=follow)
    follower.start()
    until(lambda: told.count(b"\n") == 2)
    pids = [int(word) for word in told.split()]
    assert all(map(lives, pids))
    session._channel._connection.shutdown(socket.SHUT_RDWR)  # as a kernel that is killed
    until(lambda: not any(map(lives, pids)))
    follower.join(180)
    assert job.running()
    assert job.exec(["true"]).returncode == 0


def test_the_server_is_made_again_and_strangers_learn_nothing(begin, local, monkeypatch):
    job = begin()
    task = local.paths(job.id).task("worker-0")
    printed(job, local)
    task.inside.write_text(json.dumps({"version": 1, "path": "/nowhere/inside.sock", "host": "x"}))
    assert job.exec(["true"]).returncode == 0
    told = json.loads(task.inside.read_text())
    way = task.root / "inside.sock"
    monkeypatch.chdir(task.root)  # its path is too long for one of a socket
    assert (way.stat().st_mode & 0o777, way.stat().st_uid) == (0o600, os.getuid())
    assert task.inside.stat().st_mode & 0o777 == 0o600
    for said in (b"", b"B\xff\xff\xff\xff", b"I\0\0\0\1x", b"B\0\0\0\2{]", b"B\0\0\0\2[]"):
        with closing(socket.socket(socket.AF_UNIX)) as stranger:
            stranger.connect("inside.sock")
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
    for asked in ({"version": 0}, {"version": 1, "argv": "ls"}, {"version": 1, "port": 70_000}):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect("inside.sock")
        channel = Channel(connection)
        channel.send(b"B", json.dumps(asked).encode())
        wait(channel, 180)
        assert channel.read()[0][0] == REFUSED
        channel.close()
    os.kill(told["pid"], signal.SIGKILL)  # what it would have ended is the supervisor's then
    assert job.exec(["true"]).returncode == 0
    assert json.loads(task.inside.read_text())["pid"] != told["pid"]


def test_a_port_leads_to_the_task_for_this_user(begin, local):
    job = begin(LISTENS)
    port = int(printed(job, local))
    failed = []
    forward = Forward(local.cluster, job.id, port, 0, failed=failed.append)

    def serve():
        with pytest.raises(JobError, match="its ports are gone"):
            forward.serve()

    over = threading.Thread(target=serve)
    over.start()
    much = os.urandom(3 * MUCH)
    with closing(socket.create_connection(("127.0.0.1", forward.port))) as connection:
        assert is_own(connection.getsockname()[1], forward.port)
        sender = threading.Thread(
            target=lambda: (connection.sendall(much), connection.shutdown(socket.SHUT_WR))
        )
        sender.start()
        came = bytearray()
        while data := connection.recv(1 << 16):
            came += data
        sender.join(180)
    assert came == much + b"end"
    with pytest.raises(CommandError, match=f"port {forward.port} of this machine cannot be had"):
        Forward(local.cluster, job.id, port, forward.port)
    job.kill()
    over.join(180)
    assert not over.is_alive()
    assert not is_own(1, forward.port)
    forward.close()


def test_what_cannot_be_is_said(begin, local, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    first, second = begin(gpus=1), begin(gpus=1)
    until(lambda: second.status().state is JobState.QUEUED)
    with pytest.raises(JobError, match=r"does not run yet \(queued\)"):
        second.exec(["true"])
    for words, what in (
        ([], "the command is missing"),
        ("ls -l", "no list of words"),
        ([b"ls"], "no list of words"),
        (["a\0b"], "NUL"),
        ([str(local.folder)], "cannot be run: Permission denied"),
    ):
        with pytest.raises(CommandError, match=what):
            first.exec(words)
    with pytest.raises(CommandError, match="no task 'worker-7'"):
        first.exec(["true"], task="worker-7")


def test_a_task_that_is_over_is_said_and_the_next_attempt_has_its_own(begin, local):
    script = (
        "import os, time\nfrom pathlib import Path\nprint('begun', flush=True)\n"
        f"gate = Path({str(local.folder)!r}) / os.environ['SUBMARINE_TASK']\n"
        "while not gate.exists(): time.sleep(0.05)\n"
    )
    roles = (Role(count=2, resources=Resources(gpus=0)),)
    job = begin(script, roles=roles)
    printed(job, local)
    assert job.exec(["sh", "-c", "echo $SUBMARINE_TASK"], task="worker-1").stdout == b"worker-1\n"
    (local.folder / "worker-1").touch()
    until(lambda: job.status().task("worker-1").exited)
    with pytest.raises(JobError, match="worker-1 is over"):
        job.exec(["true"], task="worker-1")
    again = begin(retries=1)
    printed(again, local)
    assert again.exec(["true"]).returncode == 0
    os.kill(json.loads(local.paths(again.id).lock.read_text())["session"], signal.SIGKILL)
    until(lambda: again.status().attempt == 2 and again.running())
    assert again.exec(["sh", "-c", "echo $SUBMARINE_TASK"]).stdout == b"worker-0\n"


def test_a_job_that_ends_before_anybody_has_heard_says_so_and_leaves_no_question(begin, local):
    job, came = begin(), []
    printed(job, local)
    asked = local.paths(job.id).task("worker-0").inside_asked
    supervisor = local.supervisor(job.id)
    until(lambda: job.status().tasks[0].busy)  # its supervisor has told so, before it hears nothing

    def ask():
        with pytest.raises(JobError) as caught:
            job.exec(["true"])
        came.append(caught.value.what)

    os.kill(supervisor, signal.SIGSTOP)  # it hears neither the question nor of the end
    asker = threading.Thread(target=ask)
    try:
        asker.start()
        until(asked.exists)
        job.kill()
    finally:
        os.kill(supervisor, signal.SIGCONT)
    asker.join(180)
    assert came == ["the job is over (cancelled): nothing runs inside it any more"]
    assert not asked.exists()


def below(pid):
    """Return the processes that a process has started, and those of these."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = set(map(int, children))
    for child in children:
        with suppress(FileNotFoundError, ProcessLookupError):
            found |= below(int(child))
    return found


def test_a_client_that_is_gone_at_any_point_leaves_nothing(begin, local):
    job = begin()
    assert job.exec(["true"]).returncode == 0
    told = json.loads(local.paths(job.id).task("worker-0").inside.read_text())
    stays = {"argv": ["sh", "-c", "trap '' HUP TERM; sleep 600 & sleep 600"]}
    terminal = {"terminal": {"rows": 24, "columns": 80, "term": "xterm"}}
    said = [
        _frame(json.dumps({"version": VERSION, **asked}).encode())
        for asked in (stays, {**stays, **terminal})
    ]
    for frame in said:
        for point in (0, 3, len(frame) - 1, len(frame)):
            connection = _connect_here(told["path"])
            connection.sendall(frame[:point])
            connection.close()
        connection = _connect_here(told["path"])
        connection.settimeout(LIMIT)
        connection.sendall(frame)
        assert connection.recv(5) == b"b\0\0\0\0"  # it has begun
        connection.close()
    until(lambda: not below(told["pid"]))
    assert job.exec(["true"]).returncode == 0
    assert json.loads(local.paths(job.id).task("worker-0").inside.read_text()) == told


def _frame(data):
    return b"B" + len(data).to_bytes(4, "big") + data


def test_a_terminal_bears_any_size(begin, local):
    job = begin()
    script = "stty size; read line; stty size"
    asked = {"argv": ["sh", "-c", script], "terminal": {"rows": 0, "columns": 0, "term": None}}
    session, told = Session(local.cluster, job.id, asked), bytearray()
    for size in ({"rows": -1, "columns": 70_000}, {"rows": "x"}, [], {"rows": 1e400}):
        session._channel.send(SIZE, json.dumps(size).encode())
    session._channel.send(SIZE, b"{")
    for number in range(2000):  # a window's edge that somebody drags
        session._channel.send(SIZE, json.dumps({"rows": 30, "columns": number}).encode())
    session._channel.send(INPUT, b"\r")
    with closing(session):
        assert session.follow(lambda _, data: told.extend(data)) == 0
    assert told.split(b"\r\n")[-2] == b"30 1999"


def test_who_reads_slowly_costs_no_memory(begin, local):
    job = begin()
    size = 256 << 20
    argv = ["sh", "-c", f"echo $PPID; exec head -c {size} /dev/zero"]
    session, came, most = Session(local.cluster, job.id, {"argv": argv}), bytearray(), []

    def look(_, data):
        if came.count(b"\n"):
            status = Path(f"/proc/{int(came)}/status").read_text()
            most.append(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10)
        else:
            came.extend(data[:100].partition(b"\0")[0])
        counted[0] += len(data)

    counted = [0]
    with closing(session):
        assert session.follow(look) == 0
    assert counted[0] == size + len(came)
    assert max(most) < 96 << 20


def test_a_hundred_at_once_are_each_answered(begin, monkeypatch):
    for name in ("_ANSWER", "PATIENCE"):  # a busy machine needs long for so many processes
        monkeypatch.setattr(inside, name, LIMIT)
    job = begin()
    with ThreadPoolExecutor(100) as pool:
        found = list(pool.map(lambda n: job.exec(["echo", str(n)]).stdout, range(100)))
    assert found == [f"{number}\n".encode() for number in range(100)]


def test_a_connection_whose_client_is_gone_is_gone(begin, local):
    job = begin(LISTENS)
    port = int(printed(job, local))
    connection = connect(local.cluster, job.id, port)
    connection.sendall(b"here")
    assert connection.recv(100) == b"here"
    told = json.loads(local.paths(job.id).task("worker-0").inside.read_text())
    assert below(told["pid"])
    connection.close()  # the job says nothing that would show it
    until(lambda: not below(told["pid"]))
    with pytest.raises(JobError, match="nobody listens"):
        connect(local.cluster, job.id, 1)
