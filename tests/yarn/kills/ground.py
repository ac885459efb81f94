"""Jobs on a cluster of three nodes that tests break, and what has to hold however it broke."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from submarine_engine import Job
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState

from tests.jobs import (
    _living,
    _traces,
    bundle_of,
    follow,
    processes_of,
    spec_of,
    until,
)

PATIENCE = 180.0
"""Seconds: no test waits for them unless something is broken."""

MASTER = "com.anaconda.skein.ApplicationMaster"
ALIVE = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")

STEADY = """
import os, time
with open({flag!r}, "w") as file: file.write(str(os.getpid()))
number = 0
while not os.path.exists({gate!r}):
    print(f"line {{number}} \\u00fc", flush=True)
    number += 1
    time.sleep(0.01)
print("end", number)
number
"""
"""A job that writes numbered lines until a file is there."""

FULL = """
import os, time
for number in range(1000): print(f"line {{number}} \\u00fc")
with open({flag!r}, "w") as file: file.write(str(os.getpid()))
while not os.path.exists({gate!r}): time.sleep(0.05)
"""
"""A job that writes a thousand lines and waits for a file."""


def lines(number):
    return "".join(f"line {n} ü\n" for n in range(number))


class Running:
    """A job of a test: its script writes `flag` when it runs, and goes on to its end at `gate`."""

    def __init__(self, ground, job, folder) -> None:
        self.ground = ground
        self.job = job
        self.id = job.id
        self.flag = folder / "flag"
        self.gate = folder / "gate"

    @property
    def noted(self):
        return read_json(self.ground.paths(self).root / "yarn.json") or {}

    @property
    def node(self):
        """The daemon that runs the job's container."""
        ((_, address, _),) = self.noted["containers"].values()
        return self.ground.node_at(address)

    @property
    def pid(self):
        return int(self.flag.read_text())

    def until_running(self):
        until(self._is_running, PATIENCE)
        until(lambda: self.flag.exists() and self.flag.read_text(), PATIENCE)
        return self

    def _is_running(self):
        status = self.job.status()
        assert not status.state.final, status.reason
        return status.state is JobState.RUNNING

    def until_shown(self, text):
        """Read on until the job's log has so much."""
        until(lambda: text.encode() in self._log(), PATIENCE)
        return self

    def until_further(self, number=30):
        """Read on until the log has grown by so many lines."""
        before = self._log().count(b"\n")
        until(lambda: self._log().count(b"\n") >= before + number, PATIENCE)
        return self

    def _log(self):
        self.job.status()  # as any reader, who sees to it that a keeper lives
        log = self.ground.paths(self).task("worker-0").stdout
        return log.read_bytes() if log.exists() else b""

    def follow(self):
        return self.ground.follow(self.id)

    def follow_to_end(self):
        """Let the job end, and hold it to having lost and repeated no byte."""
        self.gate.touch()
        story = self.follow()
        assert story.state is JobState.SUCCEEDED, story.status.reason
        body, _, last = story.out.rpartition("end ")
        assert body == lines(int(last))
        assert self.follow().logs == story.logs  # attached anew, from the first byte
        return story


class Ground:
    """A home of jobs, and the cluster of three nodes below it."""

    def __init__(self, yarn, home, folder) -> None:
        self.yarn = yarn
        self.home = home
        self.folder = folder
        self.seam = open_cluster("yarn")
        self.rm = ResourceManager(load_hadoop())
        self.jobs = []

    def submit(self, script=STEADY, **options):
        folder = self.folder / f"job-{len(self.jobs)}"
        folder.mkdir()
        script = script.format(flag=str(folder / "flag"), gate=str(folder / "gate"))
        options = {"gpus": 1, "memory": 256, "mode": "warm", **options}
        count = options.pop("count", 1)
        spec = spec_of(notebook=str(self.folder.parent / "kills.ipynb"), **options)
        spec = replace(spec, roles=(replace(spec.roles[0], count=count),))
        job_id = self.seam.submit(spec, bundle_of(script), workdir=self.folder)
        self.jobs.append(Running(self, Job(self.seam, job_id), folder))
        return self.jobs[-1]

    def follow(self, job_id):
        return follow(self.seam, job_id, patience=PATIENCE)

    def paths(self, job):
        return JobPaths(self.home, job.id)

    def process(self, *words):
        """Return the pid of the one process of this home whose command line has the words."""

        def found():
            every = processes_of(self.home).items()
            pids = [pid for pid, command in every if all(word in command for word in words)]
            return pids if len(pids) == 1 else []  # what it forks looks like it for a moment

        (pid,) = until(found, PATIENCE)
        return pid

    @property
    def keeper(self):
        return self.process("submarine_engine.clusters.keeper")

    @property
    def keeper_log(self):
        return "".join(path.read_text() for path in self.home.glob("yarn/*/keeper.log"))

    @property
    def driver(self):
        return self.process("java", "com.anaconda.skein.Driver")

    def master_of(self, app_id):
        """Return the pid of an application's master."""
        living = ((pid, command.split(" ")) for pid, command in _living())
        masters = (pid for pid, words in living if "java" in words[0] and MASTER in words)
        for pid in masters:
            if app_id in _traces(pid):
                return pid
        raise AssertionError(f"no master of {app_id}")

    def node_at(self, address):
        for status in self.yarn.cluster.daemons():
            if status.web.endswith(address[address.rindex(":") :]):
                return self.yarn.daemon(status.name)
        raise AssertionError(f"no node at {address}")

    def alive(self):
        """Return the applications that the ResourceManager has not ended."""
        return [app["id"] for app in self.rm.applications(states=",".join(ALIVE))]

    def gpus_in_use(self):
        nodes = [share for share in self.seam.gpu_shares() if share.kind == "node"]
        return sum(share.total - share.free for share in nodes)

    def until_free(self):
        """Wait until the ResourceManager counts no GPU as used, and no container but masters."""
        until(lambda: self.gpus_in_use() == 0, PATIENCE)
        until(self._only_masters, PATIENCE)

    def _only_masters(self):
        return all(len(self.rm.containers(app)) <= 1 for app in self.alive())

    def end(self):
        for running in self.jobs:
            if not running.job.done():
                running.job.kill()
                running.job.wait(PATIENCE)


def kill(pid):
    os.kill(pid, signal.SIGKILL)
