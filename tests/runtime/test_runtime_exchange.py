"""A task of several says hello and begins when it is answered, as a driver starts it."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.exchange import answer, read_hello
from submarine_engine.job import JobSpec, Role
from submarine_runtime import exchange, rendezvous
from submarine_runtime.exchange import ANSWER, HELLO

from tests.runtime.conftest import wait_for

JOB = "20250101-000000-abcde"
SPEC = JobSpec(roles=(Role(count=2),))


def binds(port):
    with closing(socket.socket()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("", port))
        except OSError:
            return False
        return True


def say(task, text):
    (task.folder / ".answer").write_text(text)
    (task.folder / ".answer").rename(task.folder / ANSWER)


def test_its_ports_are_its_own_until_it_is_answered(task):
    code = """
        import os, socket
        from submarine_runtime import job
        socket.create_server(("", int(os.environ["MASTER_PORT"]))).close()
        print(job.rank, job.world_size, job.hosts)
    """
    task.start(code, peers=2)
    hello = wait_for(lambda: (task.folder / HELLO).exists() and (task.folder / HELLO).read_bytes())
    mine = read_hello(hello, JOB, "worker-0")
    assert len(set(mine.ports)) == exchange.PORTS
    assert not any(binds(port) for port in mine.ports)  # nobody takes one in between
    assert (task.folder / HELLO).stat().st_mode & 0o777 == 0o600
    assert json.loads(hello)["pid"] == task.process.pid
    assert task.process.poll() is None
    other = mine._replace(network="elsewhere", host="127.0.0.2")
    say(task, answer(SPEC, {"worker-0": mine, "worker-1": other}).decode())
    assert task.wait() == 0
    assert (task.folder / "stdout").read_text() == f"0 2 {(mine.host, '127.0.0.2')}\n"


@pytest.mark.parametrize(
    "text", ["no JSON", "[]", "{}", '{"version": 2, "tasks": {}}', '{"version": 1, "tasks": {}}']
)
def test_an_answer_that_is_none_ends_it_in_words(task, text):
    task.start("print('it runs')", peers=2)
    wait_for((task.folder / HELLO).exists)
    say(task, text)
    assert task.wait() == 127
    assert "submarine: the task cannot begin: " in (task.folder / "stderr").read_text()
    assert (task.folder / "stdout").read_text() == ""


def test_alone_it_asks_nobody(task):
    assert task.run("from submarine_runtime import job; print(job.rank, job.world_size)") == 0
    assert (task.folder / "stdout").read_text() == "0 1\n"
    assert not (task.folder / HELLO).exists()


class Deaf:
    """Somebody who carries messages, and is away at first."""

    def __init__(self, answer=None):
        self.answer = answer
        self.tries = 0
        self.said = []

    def say(self, name, data):
        self.tries += 1
        if self.tries < 3:
            raise ConnectionResetError("it is away")
        self.said.append((name, data))

    def hear(self, name):  # noqa: ARG002 - as carriers have it
        assert self.said
        return self.answer(self.said[0][1]) if self.answer else None


PLAN = {"job_id": JOB, "task": "worker-0"}


def test_nobody_answers(tmp_path, monkeypatch):
    now = SimpleNamespace(value=0.0)

    def sleep(seconds):
        now.value += seconds

    monkeypatch.setattr(exchange.time, "sleep", sleep)
    monkeypatch.setattr(exchange.time, "monotonic", lambda: now.value)
    monkeypatch.setattr(exchange, "PATIENCE", 1.0)  # the carrier comes back within a moment
    carrier = Deaf()
    with pytest.raises(exchange.NobodyAnsweredError, match="no answer came within 1 s"):
        exchange.meet(str(tmp_path), PLAN, carrier)
    assert len(carrier.said) == 1


@pytest.mark.parametrize(("tasks", "rest"), [(2, 0.02), (100, 0.05), (512, 0.256)])
def test_few_tasks_ask_more_often_than_many(tmp_path, monkeypatch, tasks, rest):
    rests = []
    now = SimpleNamespace(value=0.0)

    def sleep(seconds):
        rests.append(seconds)
        now.value += seconds

    monkeypatch.setattr(exchange.time, "sleep", sleep)
    monkeypatch.setattr(exchange.time, "monotonic", lambda: now.value)
    with pytest.raises(exchange.NobodyAnsweredError):
        exchange.meet(str(tmp_path), {**PLAN, "peers": tasks}, Deaf())
    assert max(rests) == rest


def test_who_carries_messages_may_be_away_for_a_while(tmp_path, monkeypatch):
    def told(hello):
        mine = read_hello(hello, JOB, "worker-0")
        return answer(SPEC, {"worker-0": mine, "worker-1": mine})

    for name in rendezvous.VARIABLES:
        monkeypatch.setenv(name, "of the user's shell")
    exchange.meet(str(tmp_path), PLAN, Deaf(told))
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == ("0", "2")
    assert not [name for name in rendezvous.VARIABLES if "shell" in os.environ[name]]
    assert exchange.place(str(tmp_path)).world_size == 2  # `job` reads the answer in the folder
