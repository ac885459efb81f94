"""The way into a task on another machine: by TLS, for who has the application's key alone."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
from contextlib import closing, suppress

import pytest
import skein
from submarine_engine.clusters.inside import Credentials, begin
from submarine_engine.errors import JobError
from submarine_engine.events import Granted, Started, Submitted
from submarine_engine.history import JobPaths
from submarine_engine.lifecycle import fold
from submarine_runtime import inside
from submarine_runtime.channel import BEGIN, EXIT, OUTPUT, PIECE, Channel, wait

JOB, TASK = "20260101-000000-abcde", "worker-0"
QUESTION = b'{"id": "asked"}'


class Far:
    """A container's folder, and what is known of its job here."""

    def __init__(self, folder):
        self.paths = JobPaths(folder / "home", JOB)
        self.files = self.paths.task(TASK)
        self.files.root.mkdir(parents=True)
        self.place = folder / "container"
        self.place.mkdir()
        plan = {"task": TASK, "job_id": JOB, "workdir": str(self.place), "command": None}
        (self.place / "task.json").write_text(json.dumps(plan))
        (self.place / "started.json").write_text('{"gpus": ["GPU-7"]}')
        self.credentials = self.make("own", ".skein")
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        gpus = inside.with_gpus({"PATH": os.environ["PATH"]}, str(self.place))
        task = inside.Task(str(self.place), self.process.pid, gpus)
        self.told = inside.begin_beside(task, str(self.place), QUESTION)
        self.files.inside.write_bytes(self.told)

    def make(self, name, base=""):
        """Make a certificate of its own; put it beside the task, too, where `base` is given."""
        security = skein.Security.new_credentials()
        for kind, ending in (("cert", "crt"), ("key", "pem")):
            data = security._get_bytes(kind)
            (self.place.parent / f"{name}.{ending}").write_bytes(data)
            if base:
                (self.place / f"{base}.{ending}").write_bytes(data)
        return Credentials(self.place.parent / f"{name}.crt", self.place.parent / f"{name}.pem")

    def begin(self, credentials, **asked):
        granted = Granted(task=TASK, host="far", container="1")
        events = [Submitted(gpus=1, tasks=(TASK,)), granted, Started(task=TASK)]
        return begin(self.paths, None, asked, lambda: fold(events), lambda: None, credentials)[1]


@pytest.fixture
def far(tmp_path, monkeypatch):
    # On a busy machine a connection by TLS takes seconds.
    monkeypatch.setattr("submarine_engine.clusters.inside._CONNECT", 120.0)
    found = Far(tmp_path)
    yield found
    found.process.kill()
    with found.process:
        pass


def all_of(channel):
    found = {}
    while EXIT not in found:
        assert wait(channel, 60)
        for kind, data in channel.read():
            found[kind] = found.get(kind, b"") + data
        assert not channel.over or EXIT in found
    return found


def test_who_has_the_key_is_let_in_by_tls_and_out_with_the_task(far):
    argv = ["sh", "-c", 'echo "$PWD $CUDA_VISIBLE_DEVICES"; head -c 300000 /dev/zero; exit 9']
    with closing(far.begin(far.credentials, argv=argv)) as channel:
        assert isinstance(channel._connection, ssl.SSLSocket)
        found = all_of(channel)
    assert json.loads(found[EXIT]) == {"code": 9}
    assert found[OUTPUT] == f"{far.place} GPU-7\n".encode() + bytes(300_000)
    assert b"asked" not in b"".join(
        path.read_bytes() for path in far.place.iterdir() if path.name != "inside.json"
    )
    with closing(far.begin(far.credentials, argv=["sleep", "600"])) as channel:
        far.process.kill()
        far.process.wait()
        assert wait(channel, 60)
        channel.read()
        assert channel.over


def test_who_has_another_key_or_none_is_not(far, monkeypatch):
    monkeypatch.setattr("submarine_engine.clusters.inside.PATIENCE", 1.0)
    with pytest.raises(JobError, match="worker-0"):
        far.begin(far.make("other"), argv=["id"])
    told = json.loads(far.told)
    with closing(socket.create_connection((told["host"], told["port"]))) as plain:
        plain.sendall(b"B\0\0\0\2{}")
        with suppress(ConnectionResetError):
            assert b"uid" not in plain.recv(PIECE)
    far.files.inside.write_text(json.dumps({**told, "id": "guessed"}))
    with pytest.raises(JobError, match="nobody has opened a way"):
        far.begin(far.credentials, argv=["id"])
    far.files.inside.write_bytes(far.told)
    with pytest.raises(JobError, match="is on another machine"):
        far.begin(None, argv=["id"])


@pytest.mark.parametrize("said", [b"", b"X" * 5, b"o\xff\xff\xff\xff", b"o\0\0\0\3ab"])
def test_half_a_frame_and_one_without_measure_are_none(said):
    here, there = socket.socketpair()
    channel = Channel(here)
    there.sendall(said)
    there.shutdown(socket.SHUT_WR)
    assert wait(channel, 60)
    assert channel.read() == []
    assert channel.over
    channel.close()
    there.close()


def test_what_the_other_end_would_not_take_is_refused_before_it_is_sent():
    here, there = map(Channel, socket.socketpair())
    with closing(here), closing(there):
        with pytest.raises(OSError, match="1,048,577 bytes are more than"):
            here.send(BEGIN, bytes((1 << 20) + 1))
        assert not here.waiting
        here.send(BEGIN, b"{}")
        assert there.read() == [(BEGIN, b"{}")]
