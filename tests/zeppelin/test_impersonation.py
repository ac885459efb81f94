"""Zeppelin's user impersonation: each person's interpreter and jobs run as that person."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.errors import ConfigError
from submarine_zeppelin import impersonation
from submarine_zeppelin.impersonation import carried_variables, command, without_user

from tests.jobs import until
from tests.local.users import Place, environment_for_all, needs_root
from tests.zeppelin.rest import Client, outputs, text

WHO = "import os, pwd\nwho = pwd.getpwuid(os.getuid()).pw_name\n"
JOB = """\
%submarine.run --gpus {gpus} --name {name} --secret TOKEN
import os, pwd, time
print("it runs", flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.02)
found = pwd.getpwuid(os.getuid()).pw_name, len(os.environ["TOKEN"])
found
"""
PEEK = """\
%submarine.python
import os
found = []
for path in {paths!r}:
    try:
        found.append((path, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(9)))
    except (PermissionError, FileNotFoundError, ProcessLookupError):  # closed, or gone meanwhile
        pass
print("seen:", found)
"""
KNOCK = """\
%submarine.python
import socket
heard = []
for port in {ports!r}:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
        try:
            heard.append(one.recv(10))
        except ConnectionError:
            heard.append(b"")
print("heard:", heard)
"""


@pytest.fixture(scope="module")
def place():
    needs_root()
    place = Place().begin()
    yield place
    place.end()


@pytest.fixture(scope="module")
def server(place, zeppelin_of_the_module):
    users = {place.user(name).name: f"of-{name}" for name in ("alice", "bob")}
    environment = {
        impersonation.COMMAND: "runuser -u ${ZEPPELIN_IMPERSONATE_USER} -- bash -c",
        "SERVERS_PASSWORD": "of the server alone",
        "SUBMARINE_MACHINE_FOLDER": str(place.machine),
    }
    strangers = {"nobody-of-here": "x", "root": "y"}
    server = zeppelin_of_the_module(
        users=users | strangers,
        environment=environment,
        python=environment_for_all(place.folder / "python"),
    )
    for client in (Client(server.url, name, word) for name, word in users.items()):
        client.configure(
            option={"perUser": "isolated", "perNote": "shared", "isUserImpersonate": True}
        )
    return server


@pytest.fixture
def clients(server, place):
    """Return alice and bob: as users of the machine, and logged in to Zeppelin."""
    return [
        (user, Client(server.url, user.name, f"of-{name}"))
        for user, name in zip(place._users, ("alice", "bob"), strict=True)
    ]


def processes_of(user):
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it is gone
            if folder.stat().st_uid == user.uid:
                found[int(folder.name)] = (folder / "cmdline").read_bytes().split(b"\0")
    return found


def interpreter_of(user):
    (pid,) = (pid for pid, words in processes_of(user).items() if b"submarine_zeppelin" in words)
    return pid


def html(paragraph):
    return "".join(data for kind, data in outputs(paragraph) if kind == "HTML")


def ports_of(pid):
    """Return the ports on which a process listens."""
    links = []
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it has just been closed
            links.append(os.readlink(one))  # noqa: PTH115 - no path
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(r[1][-4:], 16) for r in rows if r[3] == "0A" and f"socket:[{r[9]}]" in links]


@pytest.mark.long
def test_each_person_of_zeppelin_is_that_user_of_the_machine(server, place, clients):
    alice, bob = (user for user, _ in clients)
    go = place.folder / "go"
    notes = {user: client.note(f"of {user.name}") for user, client in clients}
    for user, note in notes.items():
        told = note.write(
            f"%submarine.python\n{WHO}"
            "os.environ['TOKEN'] = 'x' * 20\n"
            "print(who, os.environ['HOME'], os.environ['USER'], os.environ.get('SERVERS_PASSWORD'))"
        )
        assert text(told) == f"{user.name} {user.home} {user.name} None\n", told

    # One queue for both: bob reads for whom he waits.
    jobs = {user: note.add(JOB.format(gpus=3, name=f"of-{user.uid}", go=str(go)))
            for user, note in notes.items()}  # fmt: skip
    notes[alice].start(jobs[alice])
    notes[alice].wait(jobs[alice], lambda found: "it runs" in text(found))
    notes[bob].start(jobs[bob])
    waits = f"3 of 4 GPUs are {alice.name}'s; you are next"
    notes[bob].wait(jobs[bob], lambda found: waits in html(found))

    # What is alice's is closed to bob: files, processes, ports.
    jobs_of_hers = alice.home / ".local/share/submarine/jobs"
    pid = interpreter_of(alice)
    assert Path(f"/proc/{pid}").stat().st_uid == alice.uid
    running = [number for number, words in processes_of(alice).items() if b"-c" not in words]
    paths = [
        str(alice.home), str(jobs_of_hers), *map(str, jobs_of_hers.rglob("*")),
        *(f"/proc/{number}/environ" for number in running),
        *(f"/proc/{number}/mem" for number in running),
    ]  # fmt: skip
    paths = [path for path in paths if not Path(path).is_fifo() and not Path(path).is_socket()]
    assert any(path.endswith("record.json") for path in paths)
    assert text(notes[bob].client.note("a look").write(PEEK.format(paths=paths))) == "seen: []\n"
    ports = ports_of(pid)
    assert ports
    knocks = notes[bob].client.note("a knock").write(KNOCK.format(ports=ports))
    assert text(knocks) == f"heard: {[b''] * len(ports)}\n", text(knocks)
    logs = (alice.home / ".local/share/submarine/zeppelin/logs").glob("*.log")
    assert any(f"user {bob.name}" in log.read_text() for log in logs)

    go.touch()
    for user, note in notes.items():
        found = note.wait(jobs[user])
        assert (found["status"], text(found)) == ("FINISHED", f"it runs\n('{user.name}', 20)\n")
    for user in (alice, bob):
        for path in (user.home / ".local").rglob("*"):
            with suppress(FileNotFoundError):  # it was written under another name first
                seen = path.lstat()
                assert seen.st_uid == user.uid, path
                assert stat.S_ISLNK(seen.st_mode) or not seen.st_mode & 0o007, path
        arguments = b" ".join(b" ".join(words) for words in processes_of(user).values())
        assert b"x" * 20 not in arguments

    # They end with Zeppelin, as any interpreter does.
    server.stop()
    for user in (alice, bob):
        until(lambda user=user: b"submarine_zeppelin" not in str(processes_of(user)).encode())
    server.start()


@pytest.mark.long
@pytest.mark.parametrize(
    ("user", "password", "words"),
    [
        ("nobody-of-here", "x", "is no user of this machine"),
        ("root", "y", "would run as root"),
    ],
)
def test_who_is_no_user_of_the_machine_is_told_so(server, user, password, words):
    note = Client(server.url, user, password).note(user)
    told = note.write("%submarine.python\n1")
    assert told["status"] == "ERROR"
    assert words in json.dumps(told), told


def test_a_users_name_is_one_word_of_the_command(monkeypatch):
    program = ["/opt/a b/python", "-m", "submarine_zeppelin", "-c", "127.0.0.1"]
    told = command("ana", program, {})
    assert told == ["sudo", "-n", "-H", "-u", "ana", "--", *program]
    named = {impersonation.COMMAND: "sudo -H -u ${ZEPPELIN_IMPERSONATE_USER} bash -c "}
    told = command("a;b $(c)", program, named)
    assert told[:6] == ["sudo", "-H", "-u", "a;b $(c)", "bash", "-c"]
    assert shlex.split(told[6]) == program
    ssh = {impersonation.COMMAND: "ssh -i $ZEPPELIN_HOME/k ${ZEPPELIN_IMPERSONATE_USER}@localhost",
           "ZEPPELIN_HOME": "/z"}  # fmt: skip
    assert command("ana", program, ssh)[:4] == ["ssh", "-i", "/z/k", "ana@localhost"]
    with pytest.raises(ConfigError, match="is no command"):
        command("ana", program, {impersonation.COMMAND: "sudo 'x"})


def test_what_is_the_servers_own_travels_to_nobody():
    environment = {
        "PATH": "/bin", "JAVA_HOME": "/j", "HADOOP_CONF_DIR": "/h", "LC_ALL": "C.UTF-8",
        "SUBMARINE_CLUSTER": "yarn", "SUBMARINE_HOME": "/zeppelin", "SUBMARINE_USER": "zeppelin",
        "SUBMARINE_NOTIFY": "https://hooks.example/secret", "AWS_SECRET_ACCESS_KEY": "x",
        "LD_PRELOAD": "/x", "PYTHONPATH": "/zeppelin", "XDG_RUNTIME_DIR": "/run/user/7",
        "KRB5CCNAME": "FILE:/zeppelin", "KRB5_CONFIG": "/krb5.conf",
        "SUBMARINE_YARN_KEYTAB": "/zeppelin.keytab", "SUBMARINE_YARN_PRINCIPAL": "zeppelin",
    }  # fmt: skip
    assert set(carried_variables(environment)) == {
        "PATH", "JAVA_HOME", "HADOOP_CONF_DIR", "KRB5_CONFIG", "LC_ALL", "SUBMARINE_CLUSTER",
    }  # fmt: skip


def test_the_interpreters_arguments_lose_only_whom_it_becomes():
    told = ["-d", "/x", "-c", "::1", "-p", "9", "-u", "ana", "-g", "submarine", "-uana", "-i", "u"]
    assert without_user(told) == ["-d", "/x", "-c", "::1", "-p", "9", "-g", "submarine", "-i", "u"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("nobody-of-here", "is no user of this machine"), ("root", "would run as root"),
     ("a\0b", "is no user of this machine")],
)  # fmt: skip
def test_whom_it_cannot_become_is_said_before_anything_is_run(monkeypatch, name, words):
    monkeypatch.setattr(os, "execvpe", lambda *_: pytest.fail("it was run"))
    with pytest.raises(ConfigError, match=words):
        impersonation.become(name, [])


def run(*words, stdin=subprocess.DEVNULL, **environment):
    return subprocess.run(
        [sys.executable, "-m", "submarine_zeppelin", *words],
        env={**os.environ, **environment}, stdin=stdin, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_a_way_that_is_not_there_is_said_in_words():
    needs_root()
    other = pwd.getpwuid(65534).pw_name
    told = run("-u", other, ZEPPELIN_IMPERSONATE_CMD="/no/such/program")
    assert told.returncode == 1
    assert f"cannot be started as {other}: /no/such/program: No such file" in told.stderr
    assert "ZEPPELIN_IMPERSONATE_CMD" in told.stderr


def test_variables_that_do_not_come_are_missed():
    told = run(impersonation.FOLLOW)
    assert told.returncode == 1
    assert "Zeppelin's variables did not come" in told.stderr
