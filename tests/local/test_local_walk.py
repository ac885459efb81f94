"""Every effect that a process of the local cluster has is a point at which it is killed with -9.

After each: the code ran once or not at all, the GPUs are free, no byte of the log is lost or
changed, and state and reason say what happened.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from submarine_engine.clusters.local import LocalCluster, launch, zygotes
from submarine_engine.history import job_ids
from submarine_engine.job import JobState

from tests.jobs import end_processes_of, follow, processes_of, until

WALKED = Path(__file__).with_name("walked.py")
LOG = "".join(f"line {number}\n" for number in range(500))
CODE = """
import os, sys
if os.environ["SUBMARINE_TASK"] != "worker-0":
    sys.exit()  # of a gang one writes
descriptor = os.open({side!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(descriptor, b"ran\\n")
if {again} and os.environ["SUBMARINE_ATTEMPT"] == "1":
    raise ValueError("once more")
for number in range(500):
    print("line", number)
7
"""
SUBMIT = """
import os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from submarine_engine.clusters.local import LocalCluster, launch
from submarine_engine.job import Resources, Role
from tests.jobs import bundle_of, spec_of
if {walked!r}:
    launch._SUPERVISOR = Path({walked!r})
os.environ["WALK_GRANTER"] = str(os.getpid())
cluster = LocalCluster()
if {submitter}:
    from tests.local.walked import Walk
    Walk(os.environ["WALK"], ("submitter",))
roles = (Role(count={tasks}, resources=Resources(gpus={gpus})),)
spec = spec_of(roles=roles, retries=3 if {again} else None, options={options!r})
print(cluster.submit(spec, bundle_of({code!r}), workdir=Path({folder!r})))
"""
WALKS = (
    ("submitter", 1, 0), ("submitter", 1, 2), ("supervisor", 1, 0), ("supervisor", 1, 2),
    ("guard", 1, 2), ("supervisor+guard", 1, 2), ("supervisor+granter", 1, 0),
    ("supervisor+granter", 1, 2), ("submitter", 2, 1), ("supervisor", 2, 1),
    ("supervisor+guard", 2, 1), ("supervisor again", 1, 2), ("supervisor+guard again", 1, 2),
    ("supervisor ahead", 1, 2), ("supervisor+guard ahead", 1, 2),
)  # fmt: skip
"""Who is killed, in the life of a job of how many tasks, each with how many GPUs.

``again``: of a job whose code fails the first time, and is begun again. ``ahead``: whose second
attempt is forked from a process with the imports of the first, besides.
"""


class Point:
    """One run whose `role` is killed at its effect number `number`."""

    def __init__(self, folder, number, role, tasks, gpus):
        self.folder, self.number = folder, number
        self.role, _, again = role.partition(" ")
        self.again, self.ahead = bool(again), again == "ahead"
        self.tasks, self.gpus = tasks, gpus
        self.home, self.side, self.killed = folder / "home", folder / "side", folder / "killed"
        folder.mkdir()
        (folder / "site-packages").mkdir()
        for module in range(zygotes._MANY if self.ahead else 0):
            (folder / "site-packages" / f"m{module}.py").touch()

    def run(self):
        """Run it, have it recovered by whoever looks; return what came of it, None past the end."""
        submitter = self.role == "submitter"
        environment = {
            **os.environ,
            "SUBMARINE_HOME": str(self.home),
            "SUBMARINE_LOCAL_GPUS": "2",
            "WALK": f"{self.role}:{self.number}:{self.folder}",
            "WALKED_SUPERVISOR": str(launch._SUPERVISOR),
            "PYTHONPATH": str(self.folder / "site-packages"),
        }
        imports = f"for number in range({zygotes._MANY}): __import__(f'm{{number}}')\n"
        code = SUBMIT.format(
            path=[entry for entry in sys.path if entry] + [str(Path.cwd())],
            walked="" if submitter else str(WALKED),
            submitter=submitter,
            tasks=self.tasks,
            gpus=self.gpus,
            again=self.again,
            code=imports * self.ahead + CODE.format(side=str(self.side), again=self.again),
            options={"isolation": "shared"} if self.ahead else {},
            folder=str(self.folder),
        )
        told = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if submitter and self.killed.exists():
            assert told.returncode == -signal.SIGKILL, told.stderr
        elif told.returncode != -signal.SIGKILL or "granter" not in self.role:
            assert told.returncode == 0, told.stderr
        return self.recovered()

    def is_gone(self):
        for folder in self.home.glob("hosts/*/zygotes/*"):
            zygotes.end(folder)  # it is there for the notebook's next job, and may import still
        return not processes_of(self.home)

    def recovered(self):
        cluster = LocalCluster(self.home)
        jobs = list(job_ids(self.home))
        assert len(jobs) <= 1
        story = follow(cluster, jobs[0]) if jobs else None
        until(lambda: all(gpu.job_id is None for gpu in cluster.gpus()))
        until(self.is_gone)
        runs = self.side.read_text() if self.side.exists() else ""
        if not self.killed.exists():
            assert story.state is JobState.SUCCEEDED, story.status
            assert self.ahead == bool(list(self.home.glob("hosts/*/zygotes/*/log")))
            assert runs == "ran\n" * (1 + self.again)
            return None
        assert runs in ("", "ran\n", "ran\n" * (1 + self.again))
        if story is None:
            assert runs == ""
            return "not submitted"
        assert LOG.startswith(story.out)
        if story.state is JobState.SUCCEEDED:
            assert (runs, story.out) == ("ran\n" * (1 + self.again), LOG)
            return "succeeded"
        if self.again and story.state is JobState.FAILED:  # between its end and the next attempt
            assert runs == "ran\n"
            assert "ValueError: once more; it is not begun again, since" in story.status.reason
            assert "supervisor vanished" in story.status.reason
            return "failed once"
        assert story.state is JobState.LOST
        if self.role == "submitter":
            assert "submitted it was killed" in story.status.reason
        else:
            assert "supervisor vanished" in story.status.reason
            assert all(task.released or task.held is None for task in story.status.tasks)
        return "lost, ran" if runs else "lost, never ran"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("walk", WALKS, ids=str)
def test_a_kill_at_each_point_of_the_way_of_a_job(tmp_path, monkeypatch, capsys, walk):
    role, tasks, gpus = walk
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    table, number = [], 0
    while True:
        number += 1
        point = Point(tmp_path / str(number), number, *walk)
        try:
            came = point.run()
        except AssertionError as error:
            what = point.killed.read_text() if point.killed.exists() else "the end"
            raise AssertionError(f"{role} killed at point {number} ({what}): {error}") from error
        finally:
            end_processes_of(point.home)
        if came is None:
            break
        table.append((number, point.killed.read_text(), came))
    with capsys.disabled():
        came = dict(Counter(came for *_, came in table))
        sys.stdout.write(f"\n{role}, {tasks} of {gpus} GPUs each: {came}\n")
        for line in table:
            sys.stdout.write("  {:3} {:45} {}\n".format(*line))
    assert table


@pytest.mark.parametrize("role", ["supervisor again", "supervisor+guard again"])
def test_a_job_that_was_granted_twice_is_begun_again(tmp_path, monkeypatch, role):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    point = Point(tmp_path / "1", 1, role, 1, 2)
    try:
        assert point.run() == "succeeded"
    finally:
        end_processes_of(point.home)
