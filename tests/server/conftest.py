"""A real Jupyter server with our extension, driven over HTTP."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys

import pytest
import requests
from submarine_engine.clusters.local import LocalCluster

from tests.jobs import LIMIT, bundle_of, end_processes_of, spec_of, until
from tests.zeppelin.server import free_port

TOKEN = "a-token-for-tests"  # noqa: S105 - of a server that ends with its test
CONFIG = """
others = ["jupyterlab", "jupyter_lsp", "jupyter_server_terminals", "notebook_shim"]
c.ServerApp.jpserver_extensions = {"submarine_jupyter": True} | dict.fromkeys(others, False)
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.ServerApp.port_retries = 0
"""


class Server:
    """A server over the jobs in `home`; `options` are its own, `environment` is added to ours.

    `base` is what its addresses begin with, where its options say so.
    """

    def __init__(self, folder, home, *options, base="", **environment):
        self.folder, self.home = folder, home
        self.options, self.environment = options, environment
        self.port = free_port()
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"token {TOKEN}"
        self.url = f"http://127.0.0.1:{self.port}{base}/submarine"
        (folder / "config.py").write_text(CONFIG)
        self.start()

    def start(self):
        command = [sys.executable, "-m", "jupyter_server", "--config", "config.py"]
        command += [f"--ServerApp.port={self.port}", f"--IdentityProvider.token={TOKEN}"]
        command += self.options
        log = (self.folder / "server.log").open("ab")
        folders = {
            f"JUPYTER_{kind}_DIR": str(self.folder) for kind in ("CONFIG", "RUNTIME", "DATA")
        }
        environment = {**os.environ, **folders, "SUBMARINE_HOME": str(self.home)}
        environment |= {"SUBMARINE_LOCAL_GPUS": "2", "SUBMARINE_GRACE": "120", **self.environment}
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=log, stderr=log
        )
        log.close()
        until(self._answers, 180)

    def _answers(self):
        assert self.process.poll() is None, (self.folder / "server.log").read_text()
        try:
            return self.get("/api/clusters").ok
        except requests.ConnectionError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(180)

    def get(self, path, **options):
        return self.session.get(self.url + path, timeout=LIMIT, **options)

    def post(self, path, **options):
        return self.session.post(self.url + path, timeout=LIMIT, **options)

    def events(self, job_id, cursor=None):
        """Yield (kind, data, id) of a job's stream as they come."""
        headers = {"Last-Event-ID": cursor} if cursor else {}
        return self.stream(f"/api/jobs/{job_id}/events", headers=headers)

    def stream(self, path, **options):
        """Yield (kind, data, id) of server-sent events as they come."""
        with self.get(path, stream=True, **options) as answer:
            assert answer.status_code == 200, answer.text
            left = b""
            for chunk in answer.iter_content(chunk_size=None):
                *whole, left = (left + chunk).split(b"\n\n")
                for text in whole:
                    lines = (line.partition(": ") for line in text.decode().split("\n"))
                    found = {key: value for key, _, value in lines if key}
                    if found:
                        yield found["event"], json.loads(found["data"]), found.get("id")


def log_bytes(events):
    return b"".join(base64.b64decode(data["data"]) for kind, data, _ in events if kind == "log")


@pytest.fixture(scope="module")
def module_home(tmp_path_factory):
    home = tmp_path_factory.mktemp("server-home")
    yield home
    assert end_processes_of(home, patience=LIMIT) == {}


@pytest.fixture(scope="module")
def server(tmp_path_factory, module_home):
    server = Server(tmp_path_factory.mktemp("server"), module_home)
    yield server
    server.stop()


@pytest.fixture
def start_server(tmp_path_factory, module_home):
    """Start another server, over the same jobs unless it is given a home."""
    started = []

    def start(*options, home=module_home, **environment):
        folder = tmp_path_factory.mktemp("server")
        started.append(Server(folder, home, *options, **environment))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def cluster(module_home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBMARINE_LOCAL_GPUS", "2")
        patch.setenv("SUBMARINE_HOME", str(module_home))
        yield LocalCluster(module_home, grace=120)


@pytest.fixture
def submit(cluster, module_home, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    monkeypatch.setenv("SUBMARINE_HOME", str(module_home))
    begun = []

    def submit(script, **options):
        begun.append(cluster.submit(spec_of(**options), bundle_of(script), workdir=tmp_path))
        return begun[-1]

    submit.cluster = cluster
    yield submit
    for job_id in begun:
        cluster.kill(job_id)
        until(lambda job_id=job_id: cluster.status(job_id).state.final)
