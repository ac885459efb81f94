"""The runtime, started as a driver starts it: a real process in a session of its own."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest
import submarine_runtime

PATIENCE = 180
"""Seconds: no test waits for them unless something is broken."""

MAIN = Path(submarine_runtime.__file__).with_name("__main__.py")


def wait_for(condition):
    """Wait until `condition()` gives something true, and return it."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(f"{condition} did not come true within {PATIENCE} s")


def lives(pid):
    """Whether a process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class Task:
    """A task's folder and its process."""

    def __init__(self, root):
        self.bundle = root / "bundle"
        self.folder = root / "task"
        self.workdir = root / "work"
        for folder in (self.bundle, self.folder, self.workdir):
            folder.mkdir(mode=0o700)

    def start(self, script="", *, files=None, python=sys.executable, env=None, **plan):
        """Write the bundle and the plan, and start the runtime."""
        for name, source in {"script.py": script, **(files or {})}.items():
            (self.bundle / name).write_text(textwrap.dedent(source))
        told = {
            "version": 1, "job_id": "20250101-000000-abcde", "task": "worker-0",
            "bundle": str(self.bundle), "entry": "script.py", "command": None, "args": [],
            "workdir": str(self.workdir), "outputs": [], "env": {},
        }  # fmt: skip
        (self.folder / "task.json").write_text(json.dumps(told | plan))
        with (
            (self.folder / "stdout").open("ab") as out,
            (self.folder / "stderr").open("ab") as err,
        ):
            self.process = subprocess.Popen(
                [python, "-u", MAIN, self.folder],
                env={**os.environ, "SUBMARINE_TASK_DIR": str(self.folder), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return self

    def run(self, script="", **plan):
        """Start, and wait for the end; return the exit code."""
        return self.start(script, **plan).wait()

    def wait(self):
        return self.process.wait(PATIENCE)

    def end(self):
        """Leave nothing behind, whatever the test did."""
        if process := getattr(self, "process", None):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)

    @property
    def stdout(self):
        return (self.folder / "stdout").read_text()

    @property
    def stderr(self):
        return (self.folder / "stderr").read_text()

    @property
    def outcome(self):
        try:
            return json.loads((self.folder / "outcome.json").read_text())
        except FileNotFoundError:
            return None

    @property
    def value(self):
        """The result, read as plainly as can be."""
        result = self.outcome["result"]
        if result["format"] == "outputs":
            values = tuple(self.output(name) for name in result["names"])
            return values[0] if len(values) == 1 else values
        return self._load(result)

    def output(self, name):
        return self._load(self.outcome["outputs"][name])

    def _load(self, stored):
        if stored["format"] == "none":
            return None
        content = (self.folder / "results" / stored["file"]).read_bytes()
        if stored["format"] == "text":
            return content.decode()
        return pickle.loads(content)  # noqa: S301 - written by our own test

    def said(self, text):
        """Wait until `text` is in stdout."""
        wait_for(lambda: text in self.stdout)


@pytest.fixture
def task(tmp_path):
    task = Task(tmp_path)
    yield task
    task.end()


@pytest.fixture
def master(tmp_path, monkeypatch):
    """Give the master of a YARN application, and this process the variables of its container."""
    from tests.runtime.skein_master import CONTAINER, serve

    credentials = tmp_path / "container"
    credentials.mkdir()
    with serve(credentials) as (double, port):
        monkeypatch.setenv("SKEIN_APPMASTER_ADDRESS", f"127.0.0.1:{port}")
        monkeypatch.setenv("CONTAINER_ID", CONTAINER)
        yield double
