"""The TensorBoard beside a job on YARN: what it is told, and what it outlasts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.backend import Allocated
from submarine_engine.clusters.yarn import tensorboard_main
from submarine_engine.clusters.yarn.log_transport import Channel, Choice
from submarine_engine.clusters.yarn.request import YarnRequest
from submarine_engine.clusters.yarn.tensorboard_service import TENSORBOARD_ROLE
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec
from submarine_runtime.delegation import TOKEN
from submarine_runtime.sealing import KEY_SIZE, unseal
from submarine_runtime.skein_store import key

JOB = "20260101-000000-abcde"
KEY = bytes(KEY_SIZE)


class TokensOfHdfs:
    """Stands in for an HDFS that replaces its token."""

    def __init__(self):
        self.token = "first"  # noqa: S105 - a name

    def delegation_token(self, *, wait):
        assert not wait
        return self.token

    def token_message(self, token):
        return json.dumps(token).encode()


class Messages(dict):
    """Stands in for the store of an application's master."""

    put = dict.__setitem__

    def told(self):
        """Return what each container was told, which has taken it then."""
        found = {where: json.loads(unseal(data, KEY)) for where, data in self.items()}
        self.clear()
        return found


@pytest.fixture
def hdfs():
    return TokensOfHdfs()


@pytest.fixture
def request_of(recorded, hdfs, tmp_path):
    """Give a job's request on a secure cluster, whose containers run."""

    def begin(**spec):
        services = SimpleNamespace(
            rm=recorded("busy").rm,
            conf=SimpleNamespace(kerberos=True),
            hdfs_at_once=hdfs,
            key=KEY,
            logs=SimpleNamespace(choice=lambda: Choice(Channel.NODES, "")),
        )
        job = SimpleNamespace(
            paths=JobPaths(tmp_path, JOB), spec=JobSpec(**spec), launch={}, attempt=1
        )
        request = YarnRequest(services, job)
        request._allocator._app = SimpleNamespace(kv=Messages())
        request._allocator._known = {"worker-0": Allocated("container_2", "node:1", 0.0)}
        return request

    return begin


def container(service, name, state="RUNNING"):
    return SimpleNamespace(service_name=service, yarn_container_id=name, state=state)


def where(name):
    return key(JOB, name, TOKEN)


def test_the_next_token_comes_to_it_as_to_the_tasks(request_of, hdfs):
    request = request_of(tensorboard=True)
    store, seen = request._allocator._app.kv, request._allocator._seen
    seen["worker_0"] = container("worker", "container_2")
    seen["tensorboard_0"] = container(TENSORBOARD_ROLE, "", "WAITING")  # nobody to be told yet
    for token, told in (("first", ["container_2"]), ("second", ["container_2", "container_3"])):
        hdfs.token, request._access_at = token, 0.0
        request.renew_access(["worker-0"])
        assert store.told() == {where(name): token for name in told}
        request._access_at = 0.0
        request.renew_access(["worker-0"])
        assert store.told() == {}
        seen["tensorboard_0"] = container(TENSORBOARD_ROLE, "container_3")
    seen["tensorboard_0"] = container(TENSORBOARD_ROLE, "container_3", "FAILED")
    hdfs.token, request._access_at = "third", 0.0
    request.renew_access(["worker-0"])
    assert store.told() == {where("container_2"): "third"}


def test_it_waits_while_hdfs_is_away_and_not_for_what_is_not_there(monkeypatch):
    answers = [
        ConnectionError("away"),
        PermissionError("token is expired"),
        RuntimeError("standby"),
    ]
    monkeypatch.setattr(tensorboard_main, "_EVERY", 0.0)

    class Answers:
        """Stands in for fsspec's WebHDFS."""

        def _call(self, op, *, path):
            if path == "/missing":
                raise FileNotFoundError(path)
            if answers:
                raise answers.pop(0)
            return op, path

    files = tensorboard_main.patient(Answers)()
    assert files._call("LISTSTATUS", path="/logs") == ("LISTSTATUS", "/logs")
    assert not answers
    with pytest.raises(FileNotFoundError):
        files._call("OPEN", path="/missing")
