"""A model of scikit-learn from a folder to its answers, and what cannot be served."""

from __future__ import annotations

import asyncio
import http.client
import io
import itertools
import json
import os
import shutil
import socket
import tarfile
import urllib.error
import urllib.request
from contextlib import closing
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import CommandError, JobError, JobFailedError, UnsupportedError
from submarine_engine.future import Job
from submarine_engine.history import JobPaths
from submarine_engine.records import open_job
from submarine_engine.serving import front
from submarine_engine.serving.launching import stand, start, wait
from submarine_engine.serving.model import open_model, packed, saved, unpack
from submarine_engine.serving.record import FrontState
from submarine_engine.serving.replica import load
from submarine_engine.serving.replicas import LARGEST, READY, LostError, Request

from tests.cli.conftest import folder, submarine  # noqa: F401 - fixtures
from tests.jobs import bundle_of, spec_of, until
from tests.serving.conftest import ask


@pytest.mark.service
def test_a_model_is_served_listed_and_stopped(home, submarine, digits):  # noqa: F811 - fixtures
    path, images, labels = digits
    assert b"nothing is served" in submarine("serve", "list").stderr
    started = submarine("serve", "start", str(path), "--name", "digits", "--json")
    assert started.returncode == 0, started.stderr.decode()
    told = json.loads(started.stdout)
    assert (told["state"], told["ready"], told["version"]) == ("ready", 1, 1)
    assert ask(told["address"], {"inputs": images}) == (200, {"predictions": labels})
    assert ask(told["address"], {"odd": 1}).status == 400  # the model's server says what is wrong

    assert told["address"].startswith("http://127.0.0.1:")
    if os.getuid() == 0:  # only root can be somebody else
        assert status_for_another_user(told["address"]) == 403

    elsewhere = urllib.request.Request(told["address"], headers={"Host": "rebound.example"})  # noqa: S310 - of this machine
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(elsewhere, timeout=180)  # noqa: S310 - likewise
    refused.value.close()

    (listed,) = submarine("serve", "list").stdout.decode().splitlines()[1:]
    assert listed.split()[:4] == ["digits", "ready", "1/1", "1"]
    assert told["address"] in listed
    shown = submarine("job", "list").stdout.decode()
    assert shown.count("digits") == 1  # its replicas work for the front
    taken = submarine("serve", "start", str(path), "--name", "digits")
    assert taken.returncode
    assert b"served under the name digits already" in taken.stderr
    kept = home / "servings" / "digits"
    assert not (kept.stat().st_mode | (kept / "serving.json").stat().st_mode) & 0o077

    assert submarine("serve", "stop", "digits").returncode == 0
    for job in (told["job"], *told["jobs"]):
        until(lambda job=job: open_job(job).done())
    assert b"nothing is served" in submarine("serve", "list").stderr
    assert b"nothing is served under the name" in submarine("serve", "stop", "digits").stderr


def status_for_another_user(address):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setuid(12345)
            os.write(writer, str(ask(address, {"inputs": [[1]]}).status).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as found:
        return int(found.read())


@pytest.mark.service
def test_a_request_that_is_none_gets_words_and_the_model_goes_on(home, digits):
    path, images, labels = digits
    record = start(str(path), {"name": "digits", "server": "mlflow"})
    wait(record)

    def said(body, kind="application/json", size=None):
        connection = http.client.HTTPConnection("127.0.0.1", record.port, timeout=180)
        with closing(connection):
            headers = {"Content-Type": kind} | ({"Content-Length": str(size)} if size else {})
            connection.request("POST", "/invocations", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    status, told = said(json.dumps({"inputs": [["no number"] * 64]}))
    assert status == 400, told
    assert "Traceback" in told  # the model's own words
    status, told = said(json.dumps({"inputs": [[1, 2]]}))
    assert status == 400, told
    assert "64" in told  # how many it takes
    assert said("no JSON")[0] == 400
    assert said("a,b", "text/plain")[0] == 415
    # More than is ever kept: all of it is read, nothing of it stays, and the answer says how much.
    piece, pieces = bytes(1 << 20), (LARGEST >> 20) + 1
    status, told = said(itertools.repeat(piece, pieces), size=pieces << 20)
    assert status == 413
    assert f"{LARGEST} are the most: ask in parts" in told
    assert ask(record.address, {"inputs": images}) == (200, {"predictions": labels})
    assert [one.state for one in stand(record).told.replicas] == ["ready"]


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_request_that_ends_every_replica_is_refused_after_so_many(monkeypatch, replicas):
    monkeypatch.setattr(front, "_SOON", 0.0)  # they are there again at once
    asked = []

    async def ask(request):
        asked.append(request)
        raise LostError

    async def refusal():
        record = SimpleNamespace(told=lambda: FrontState(serves=1), wanted=1, port=0)
        one = front.Front(record, None, "a job")
        one._replicas = {
            name: SimpleNamespace(job_id=name, version=1, state=READY, busy=0, ask=ask)
            for name in "abc"[:replicas]
        }
        return await one.answer(Request("POST", "/invocations"))

    status, headers, body = asyncio.run(refusal())
    assert len(asked) == front._TRIES
    assert status == 502
    assert "Retry-After" not in headers  # it would end as many once more
    assert f"lost its replica {front._TRIES} times" in json.loads(body)["error"]


@pytest.mark.service
def test_a_model_that_does_not_load_gives_its_traceback(home, constant, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(constant(7), broken)
    (broken / "python_model.pkl").write_bytes(b"no pickle at all")
    record = start(str(broken), {"name": "broken"})
    with pytest.raises(JobFailedError, match=r"pickle|Unpickling|load") as caught:
        wait(record)
    log = JobPaths(home, caught.value.job_id).task("worker-0").log("stderr").read_text()
    assert "Traceback (most recent call last)" in log
    assert "invalid load key" in log
    until(lambda: open_job(record.job).done())
    assert open_job(record.job).status().attempt == 1
    assert stand(record).state == "failed"
    again = start(str(broken), {"name": "broken"})  # the name is free once more
    open_job(again.job).cancel()


LEAVES = """
import os, pathlib
for name in os.environ["MODELS"].split():
    folder = pathlib.Path(os.environ["SUBMARINE_OUTPUT_PATH"], name)
    (folder / "data").mkdir(parents=True)
    (folder / "MLmodel").write_text("flavors: {python_function: {}}")
    (folder / "data" / "weights").write_text(name)
"""


def test_the_model_of_a_job_is_found_among_what_it_has_left(home, tmp_path):
    cluster = LocalCluster(home)

    def leave(name, models):
        spec = spec_of(name=name, env={"MODELS": models})
        Job(cluster, cluster.submit(spec, bundle_of(LEAVES), workdir=tmp_path)).wait(120)

    leave("one", "best")
    with open_model("job:one", tmp_path) as left:
        data = packed(left)
    unpack(data, tmp_path / "copy")
    assert (tmp_path / "copy" / "data" / "weights").read_text() == "best"
    leave("two", "best last")
    with pytest.raises(JobError, match="left 2 models"), open_model("job:two", tmp_path):
        pass
    leave("none", "")
    with pytest.raises(JobError, match="left no model"), open_model("job:none", tmp_path):
        pass


def test_nothing_is_said_of_how_a_model_is_kept(capfd, recwarn):
    def double(rows):
        return [2 * row[0] for row in rows]

    with saved(double) as kept:
        assert (kept / "MLmodel").is_file()
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")
    assert list(recwarn) == []


def test_a_packed_model_writes_nothing_elsewhere(tmp_path):
    (tmp_path / "into").mkdir()
    for name in ("../out", "/submarine-out", "a/../../out"):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        with pytest.raises(ValueError, match="out"):
            unpack(buffer.getvalue(), tmp_path / "into")
    assert [path.name for path in tmp_path.iterdir()] == ["into"]


@pytest.mark.skipif(bool(find_spec("mlserver")), reason="this Python has MLServer")
def test_a_server_that_the_job_s_python_lacks_is_said_with_what_to_install(constant):
    with pytest.raises(UnsupportedError, match="No module named 'mlserver'") as caught:
        load(str(constant(1)), "mlserver")
    assert "mlserver" in caught.value.fix


def test_what_cannot_be_served_is_said_before_anything_is_asked_for(home, constant, tmp_path):
    good = str(constant(7))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CommandError, match="has no file MLmodel"):
        start(str(empty), {"name": "x"})
    with pytest.raises(CommandError, match="is not there"):
        start(str(tmp_path / "missing"), {"name": "x"})
    (empty / "MLmodel").write_text("flavors: {crate: {}}")
    with pytest.raises(CommandError, match="no flavour python_function"):
        start(str(empty), {"name": "x"})
    with pytest.raises(CommandError, match="needs a name"):
        start(good, {})
    with pytest.raises(CommandError, match="cannot name"):
        start(good, {"name": "../../etc"})
    with pytest.raises(CommandError, match="replicas are not possible"):
        start(good, {"name": "x", "replicas": 0})
    with pytest.raises(CommandError, match="no server 'flask'"):
        start(good, {"name": "x", "server": "flask"})
    with pytest.raises(CommandError, match="is no port"):
        start(good, {"name": "x", "port": 70000})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"port {port} of this machine cannot be had"):
            start(good, {"name": "x", "port": port})
    assert not list((home / "jobs").glob("*"))
    assert not list((home / "servings").glob("x"))
