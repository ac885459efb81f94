"""What the tests of the local cluster share: real jobs, followed to their end, none left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.clusters.base import Cursor
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.events import Event, LogChunk
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.lifecycle import fold

LIMIT = 60.0


def until(condition, limit=LIMIT):
    """Wait for something to become true, and return it."""
    end = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < end, f"not true after {limit} s"
        time.sleep(0.01)
    return found


@dataclass
class Story:
    """All that a job's stream told."""

    events: list[Event] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=lambda: {"stdout": b"", "stderr": b""})

    @property
    def status(self):
        return fold(self.events)

    @property
    def state(self):
        return self.status.state

    @property
    def out(self):
        return self.logs["stdout"].decode()

    @property
    def kinds(self):
        return [type(event).__name__ for event in self.events]


class Local:
    """A local cluster with a home of its own, and jobs from the text of a script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.cluster = LocalCluster(self.home)

    def submit(self, script, *, command=None, cluster=None, workdir=None, **options):
        resources = {k: options.pop(k) for k in ("gpus", "memory", "vcores") if k in options}
        role = Role(resources=Resources(**{"gpus": 0, **resources}), command=command)
        spec = JobSpec(roles=(role,), **options)
        workdir = workdir or self.folder
        return (cluster or self.cluster).submit(spec, bundle_of(script), workdir=workdir)

    def notebook(self, *jobs, kill=False):
        """Start another process that submits ``(script, gpus)``; `ids_of` tells what became."""
        program = Path(__file__).with_name("notebook.py")
        process = subprocess.Popen(
            [sys.executable, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SUBMARINE_HOME": str(self.home)},
            start_new_session=True,
        )
        process.stdin.write(json.dumps({"jobs": jobs, "kill": kill}))
        process.stdin.close()
        return process

    def paths(self, job_id):
        return JobPaths(self.home, job_id)

    def follow(self, job_id, *, cursor=None, limit=1 << 20, cluster=None):
        cursor, story = cursor or Cursor(), Story()
        end = time.monotonic() + LIMIT
        while True:
            batch = (cluster or self.cluster).read(job_id, cursor, limit=limit)
            for item in batch.items:
                if isinstance(item, LogChunk):
                    assert item.offset == len(story.logs[item.stream])
                    story.logs[item.stream] += item.data
                else:
                    story.events.append(item)
            cursor = batch.cursor
            if batch.ended:
                return story
            assert time.monotonic() < end, f"job {job_id} does not end: {story}"
            time.sleep(0 if batch.items else 0.01)

    def run(self, script, **options):
        return self.follow(self.submit(script, **options))

    def state(self, job_id):
        return self.cluster.status(job_id).state

    def until_running(self, job_id, flag=None):
        """Wait until the job's code runs; with `flag`, until it has made that file."""
        until(lambda: self.state(job_id) is JobState.RUNNING)
        if flag is not None:
            until(flag.exists)

    def supervisor(self, job_id):
        """Return the pid of the job's supervisor."""
        return self._signature(job_id)["pid"]

    def session(self, job_id):
        """Return the session of the job's task, which is the pid of its leader."""
        return self._signature(job_id)["session"]

    def _signature(self, job_id):
        until(lambda: self.paths(job_id).lock.read_text().endswith("}"))
        return json.loads(self.paths(job_id).lock.read_text())

    def processes(self):
        """Return the command lines of living processes that belong to this home, by pid."""
        return {pid: command for pid, command in _living() if str(self.home) in _traces(pid)}


def ids_of(notebook, code=0):
    """Return the ids of the jobs that another notebook has submitted, once it is gone."""
    with notebook:
        ids = notebook.stdout.read().split()
    assert notebook.returncode == code
    return ids


def bundle_of(script, **files):
    content = {"script.py": script.encode()}
    content |= {name: text.encode() for name, text in files.items()}
    return Bundle(files=content, manifest=Manifest(entry="script.py", python="3.11"))


def _living():
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                state = entry.joinpath("stat").read_text().rpartition(")")[2].split()[0]
                command = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if state not in "ZX":
                yield int(entry.name), command


def _traces(pid):
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes() + b"\0"
        text += Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    return text.decode(errors="replace")


@pytest.fixture
def local(tmp_path):
    """Give a local cluster; afterwards no process of it may be left."""
    here = Local(tmp_path)
    yield here
    end = time.monotonic() + 15
    while (left := here.processes()) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"left running: {left}"


@pytest.fixture
def declare_gpus(monkeypatch):
    """Declare GPUs, as a user does where none can be found."""
    return lambda count: monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", str(count))
