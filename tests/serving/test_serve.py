"""A model of scikit-learn from a folder to its answers, and what cannot be served."""

from __future__ import annotations

import json
import os
import shutil
import socket
import urllib.error
import urllib.request

import pytest
from submarine_engine.errors import CommandError, JobFailedError
from submarine_engine.history import JobPaths
from submarine_engine.records import open_job
from submarine_engine.serving.launching import stand, start, wait

from tests.cli.conftest import folder, submarine  # noqa: F401 - fixtures
from tests.jobs import until
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
        urllib.request.urlopen(elsewhere, timeout=60)  # noqa: S310 - likewise
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
