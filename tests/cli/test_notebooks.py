"""Notebook servers as jobs: started, opened, listed and stopped in a terminal."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import uuid
from contextlib import closing
from pathlib import Path

import pytest
import requests
import websocket
from submarine_engine import JobState, open_job
from submarine_engine.history import JobPaths, default_home

from tests.jobs import LIMIT, until


@pytest.fixture(autouse=True)
def gpus(monkeypatch, tmp_path):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))


@pytest.fixture
def ended():
    """End the jobs of the test."""
    names = []
    yield names.append
    for name in names:
        job = open_job(name)
        job.kill()
        job.wait(LIMIT)


class Notebook:
    """A server as a browser has it that was given the page of `notebook open`."""

    def __init__(self, start, name):
        words = ("notebook", "open", name, "--no-browser")
        self.process = start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.page = Path(self.process.stdout.readline().decode().strip().removeprefix("file://"))
        address = re.search(r"url=([^\"]+)", self.page.read_text())[1]
        self.url, self.token = address.split("/lab?token=")
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"token {self.token}"

    def get(self, path, **options):
        return self.session.get(self.url + path, timeout=LIMIT, **options)

    def run(self, code):
        """Return what a new kernel prints for `code`."""
        made = self.session.post(f"{self.url}/api/kernels", timeout=LIMIT)
        address = f"{self.url.replace('http', 'ws')}/api/kernels/{made.json()['id']}/channels"
        header = {"Authorization": self.session.headers["Authorization"]}
        channel = websocket.create_connection(address, LIMIT, header=header)
        with closing(channel):
            mine = uuid.uuid4().hex
            head = {"msg_id": mine, "msg_type": "execute_request", "session": mine, "version": "5"}
            asked = {"header": head, "parent_header": {}, "metadata": {}, "channel": "shell"}
            channel.send(json.dumps({**asked, "content": {"code": code, "silent": False}}))
            printed = ""
            while True:
                told = json.loads(channel.recv())
                if told["parent_header"].get("msg_id") != mine:
                    continue
                printed += told["content"].get("text", "")
                if told["content"].get("execution_state") == "idle":
                    return printed


@pytest.mark.service
def test_notebooks_run_on_the_cluster_for_their_user_alone(submarine, start, folder, ended):
    began = submarine("notebook", "start", "--gpus", "1", "--name", "explore", "--json")
    assert began.returncode == 0, began.stderr
    told = json.loads(began.stdout)
    ended(told["job"])
    assert told["path"] == f"/submarine/proxy/{told['job']}/{told['port']}/lab"
    assert b"explore" in submarine("notebook", "list").stdout

    notebook = Notebook(start, "explore")
    assert notebook.page.stat().st_mode & 0o777 == 0o600
    assert "JupyterLab" in notebook.get("/lab").text
    code = "import os; open('made', 'w').close(); print(os.environ['CUDA_VISIBLE_DEVICES'], 'gpu')"
    assert re.fullmatch(r"\w+ gpu\n", notebook.run(code))
    assert (folder / "made").exists()
    # Nobody without the token; and the token is nowhere that others read.
    assert requests.get(f"{notebook.url}/api/kernels", timeout=LIMIT).status_code == 403
    assert list(listeners(told["port"])) == ["127.0.0.1"]
    paths = JobPaths(default_home(), told["job"])
    for path in paths.root.rglob("*"):
        if path.is_file() and notebook.token.encode() in path.read_bytes():
            assert path.stat().st_mode & 0o077 == 0
            assert path.name not in {"stdout", "stderr", "record.json", "script.py"}
    assert not [pid for pid in processes() if notebook.token in words_of(pid)]

    assert submarine("notebook", "stop", "explore").returncode == 0
    open_job("explore").wait(LIMIT)
    status = open_job("explore").status()
    assert (status.state, status.reason) == (JobState.CANCELLED, "the notebook was stopped")
    assert status.ledger.released_after is not None
    assert notebook.process.wait(LIMIT) != 0  # its port is gone, and says so
    assert b"its ports are gone" in notebook.process.stderr.read()
    assert not notebook.page.exists()
    assert b"no notebook runs" in submarine("notebook", "list").stderr
    assert (folder / "made").exists()


def listeners(port):
    """Yield the addresses of this machine at which somebody listens at a port."""
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            address, _, number = local.partition(":")
            if state == "0A" and int(number, 16) == port:
                yield socket.inet_ntoa(bytes.fromhex(address)[::-1]) if name == "tcp" else address


def processes():
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


def words_of(process):
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.service
def test_a_notebook_that_nobody_uses_gives_its_gpus_back(submarine, ended):
    began = submarine("notebook", "start", "--gpus", "1", "--idle", "2s", "--detach")
    name = began.stdout.decode().strip()
    ended(name)
    job = open_job(name)
    job.wait(LIMIT)
    status = job.status()
    assert status.state is JobState.SUCCEEDED
    assert status.ledger.released_after is not None
    assert b"nobody has used it for 2 s: it ends" in submarine("job", "logs", name).stdout


@pytest.mark.service
def test_a_notebook_that_is_kept_goes_on(submarine, ended):
    began = submarine("notebook", "start", "--gpus", "0", "--name", "mine", "--idle", "603s")
    assert began.returncode == 0, began.stderr
    name = began.stdout.decode().strip()
    ended(name)
    job, events = open_job(name), JobPaths(default_home(), name).events
    until(lambda: job.status().unused, LIMIT)
    assert re.search(r"nobody has used it for \d+ s; it ends in 10 min", job.status().warning)
    assert job.status().progress is None  # that it ends says nothing of how far it is

    def is_kept():  # a server that looks late takes a keep for an old one
        done = submarine("notebook", "keep", "mine")
        assert done.stdout.decode() == f"{name} goes on\n"
        return "" in said(events)

    until(is_kept, LIMIT)  # what was said before holds no more
    assert job.status().state is JobState.RUNNING


def said(events):
    told = [json.loads(line) for line in events.read_text().splitlines()]
    return [each["text"] for each in told if each["event"] == "Warned"]


def test_a_start_that_fails_says_why(submarine, folder, ended):
    done = submarine("notebook", "start", "--name", "astray", "--dir", "not-there")
    assert done.returncode == 1
    assert f"there is no folder {folder}/not-there on".encode() in done.stderr
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        done = submarine("notebook", "start", "--port", port)
    assert done.returncode == 1
    assert f"port {port} of".encode() in done.stderr
    assert b"leave --port out" in done.stderr


def test_a_notebook_without_a_gpu_in_time_is_cancelled(submarine, folder, ended):
    (folder / "holds.py").write_text("import time; time.sleep(3600)")
    held = submarine("job", "run", "holds.py", "--gpus", "2", "--detach").stdout.decode().strip()
    ended(held)
    until(lambda: open_job(held).status().state is JobState.RUNNING)
    done = submarine("notebook", "start", "--gpus", "1", "--name", "late", "--within", "1s")
    assert b"it did not start within 1 s" in done.stderr
    job = open_job("late")
    job.wait(LIMIT)
    assert job.status().state is JobState.CANCELLED


def test_what_is_no_notebook_is_not_stopped_as_one(submarine, folder, ended):
    (folder / "ends.py").write_text("pass")
    assert submarine("job", "run", "ends.py", "--gpus", "0").returncode == 0
    for verb in ("stop", "open", "keep"):
        done = submarine("notebook", verb, "ends")
        assert done.returncode == 64
        assert b"serves no notebooks" in done.stderr
    assert submarine("notebook", "stop", "unknown").returncode == 66
    assert submarine("notebook", "keep", "unknown").returncode == 66


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dir", "hdfs://here/there"), b"is no folder of a machine"),
        (("--port", "70000"), b"70000 is no port"),
        (("--idle", "soon"), b"--idle"),
        (("--num_workers", "2"), b"no option --num_workers"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_asked_for(submarine, words, said):
    done = submarine("notebook", "start", *words)
    assert done.returncode == 64
    assert said in done.stderr
    assert b"no job is on record" in submarine("job", "list").stderr
