"""Doubles: of pods, whose programs run here by a folder of this machine, and of an API server."""

from __future__ import annotations

import json
import os
import select
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from submarine_engine.clusters.kubernetes.files import PodFiles
from submarine_engine.errors import SubmissionError
from submarine_engine.testing.jobs import spec_of
from submarine_runtime.pod import ROOT

TASK = "worker-0"
PLUGIN_API = "client.authentication.k8s.io/v1"
CLOUD_LOGIN = """#!{python}
import json
with open({folder!r} + "/calls", "a") as calls: calls.write("x")
token = open({folder!r} + "/token").read()
api = "client.authentication.k8s.io/v1"
print(json.dumps(dict(apiVersion=api, kind="ExecCredential", status=dict(token=token))))
"""
"""A credential plugin, as clouds have them: it gives the token of a file."""


def logged_in_by(path, *args):
    """Return the user of a kubeconfig whom a plugin logs in."""
    return {"exec": {"apiVersion": PLUGIN_API, "command": str(path), "args": list(args)}}


class WireOfThisMachine:
    """The double of ``exec``'s WebSocket: the same program, by a pipe."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        self.sock = self

    def write_stdin(self, data):
        with suppress(BrokenPipeError):  # a WebSocket takes what its program hears no more
            self.process.stdin.write(data)

    def read_channel(self, channel, timeout=0):
        stream = self.process.stdout if channel == 1 else self.process.stderr
        ready, _, _ = select.select([stream], [], [], timeout)
        return os.read(stream.fileno(), 1 << 16) if ready and channel < 3 else b""

    def peek_channel(self, _channel):
        return b""

    def read_all(self):
        return b""

    def is_open(self):
        return self.process.poll() is None

    def shutdown(self):
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        self.process.kill()
        self.process.wait()


class PodsOfThisMachine:
    """The double of the API server's ``exec``: a folder of this machine is the pod's volume."""

    def __init__(self, root):
        self.root = root
        self.wires = []

    def open(self, _name, _container, command):
        words = [sys.executable if word == "python" else word for word in command]
        self.wires.append(WireOfThisMachine([str(self.root) if w == ROOT else w for w in words]))
        return self.wires[-1]


@pytest.fixture
def pods(tmp_path):
    root = tmp_path / "volume"
    root.mkdir()
    found = PodsOfThisMachine(root)
    yield found
    for wire in found.wires:
        if wire.process.returncode is None:
            wire.shutdown()


@pytest.fixture
def files(pods):
    files = PodFiles(pods, "pod-1", TASK, "python")
    yield files
    files.close()


class StandInServer:
    """The double of an API server that answers every question alike, or as `answers` says."""

    def __init__(self, certificate=None):
        self.answers = None  # a function of command, path and body: status and answer
        self.status, self.body = 200, {}
        self.tokens: set[str] = set()  # anybody may ask where empty
        self.asked: list[tuple[str, str, str]] = []
        self.seen: list[str | None] = []
        outer = self

        class Answers(BaseHTTPRequestHandler):
            def answer(self):
                size = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(size).decode()
                outer.asked.append((self.command, self.path, body))
                outer.seen.append(self.headers.get("authorization"))
                known = not outer.tokens or self.headers.get("authorization") in outer.tokens
                status, told = outer.status, outer.body
                if not known:
                    status, told = 401, {"message": "Unauthorized"}
                elif outer.answers is not None:
                    status, told = outer.answers(self.command, self.path.partition("?")[0], body)
                data = told if isinstance(told, bytes) else json.dumps(told).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - as the module has them

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def kubeconfig(path, url, user=None, *, called="one", **context):
    """Write a kubeconfig of one context, which has a cluster and a user of its own name."""
    named = {"cluster": f"cluster-{called}", "user": f"user-{called}"}
    told = {
        "apiVersion": "v1", "kind": "Config", "current-context": called,
        "clusters": [{"name": named["cluster"], "cluster": {"server": url}}],
        "users": [{"name": named["user"], "user": user or {"token": "t"}}],
        "contexts": [{"name": called, "context": {**named, **context}}],
    }  # fmt: skip
    path.write_text(json.dumps(told))
    return path


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = StandInServer()
    path = kubeconfig(tmp_path / "kubeconfig", server.url, namespace="research")
    monkeypatch.setenv("KUBECONFIG", str(path))
    yield server
    server.close()


def takes(place, **options):
    """Return whether a cluster takes such a job: it hears of what was just made a moment later."""
    try:
        return place.seam.check(spec_of(**options))
    except SubmissionError:
        return None
