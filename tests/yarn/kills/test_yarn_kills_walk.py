"""Every effect that a keeper has on YARN is a point at which somebody is killed with -9.

Which points there are is what one run of a keeper tells, once for each name. At each of them the
keeper is killed, or the application's master, or the job's container; and the submitter at each of
its own. After each: the code ran once or not at all, the GPU is free, no byte of the log is lost
or changed, and state and reason say what happened.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.masters import FINAL
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.errors import ClusterError
from submarine_engine.history import JobPaths, job_ids
from submarine_engine.job import JobState

from tests.clusters.walking import LOG, name_of, pattern_of, points_of, submit
from tests.jobs import end_processes_of, follow, processes_of, until

APPLICATION = re.compile(r"application_\d+_\d+")
WALK = "tests.yarn.kills.walked"
PATIENCE = 300.0
FREE = 10.0
"""Seconds after which no GPU may be left in use by what was killed."""

LOOK = 0.1
MODES = ("warm", "cold")
DULL = re.compile(r"open (#|\..*|.*\.pyc)$|os\.mkdir (tmp.*|skein)$|\S+ driver.*|fcntl\.flock #$")
"""A file that is written aside is renamed next; descriptors have no name."""

REPEATED = 4
ON_RECORD = "os.rename #"
TOLD = ("journal.", "skein.", "os.rename .yarn.json", "os.rename .outcome.json")
"""Where others than the keeper are killed, and where the modes differ: others know of no more.

All of a keeper's effects are walked with a warm master, where a job takes seconds.
"""

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("on_yarn"), pytest.mark.timeout(5400)]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give a home for one walk: driver and warm master serve all of its points."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_YARN_IDLE", "600")
    yield home
    noted = "".join(path.read_text() for path in home.glob("yarn/*/masters.json"))
    (home / "yarn").rename(tmp_path / "over")  # so that keepers end
    end_processes_of(home, patience=30)
    for app_id in APPLICATION.findall(noted):
        ResourceManager(load_hadoop()).kill(app_id)


class Walk:
    """The points of one mode, one after another, in one home."""

    def __init__(self, folder, home, mode):
        self.folder, self.home, self.mode = folder, home, mode
        self.cluster = open_cluster("yarn")
        self.manager = ResourceManager(load_hadoop())
        self.table = []

    def end_keeper(self):
        """Kill the keeper, so that the next job has one that is walked."""
        for pid, command in processes_of(self.home).items():
            if "submarine_engine.clusters.keeper" in command:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        until(lambda: not any("clusters.keeper" in one for one in processes_of(self.home).values()))

    def submit(self, role, number, where="", victim="keeper"):
        """Submit a job and kill at a point; return the folder of this run, and the job's id."""
        self.end_keeper()
        folder = self.folder / f"{self.mode}-{len(list(self.folder.glob('*-*')))}"
        folder.mkdir()
        before = set(job_ids(self.home))
        os.environ["WALK_VICTIM"] = victim
        options = {"mode": self.mode, "gpus": 1, "memory": 256}
        submit(folder, "yarn", role, number, where=where, hold=True, walk=WALK, **options)
        new = set(job_ids(self.home)) - before
        assert len(new) <= 1
        return folder, next(iter(new), None)

    def points(self, role):
        """Return what a process does for a job: a name, and the how many-th of that name it is."""
        for _ in range(2):  # the first keeper of a home makes what later ones find
            folder, job_id = self.submit(role, 0)
            self.follow(folder, job_id)
        effects = (folder / "effects").read_text().splitlines()
        names = [name_of(effect) for effect in effects]
        begins = names.index("open bell") if role == "keeper" else 0
        if self.mode == "cold" and role == "submitter":  # to this point a submitter knows no mode
            begins = names.index(ON_RECORD)
        yield from points_of(names[begins:], DULL, REPEATED)

    def point(self, role, name, number, victim):
        """Kill at one point, have it recovered by whoever looks, and see what came of it."""
        where = pattern_of(name)
        came, free_after, known_after = "not submitted", 0.0, 0.0
        try:
            with self.watched() as used:
                folder, job_id = self.submit(role, number, where, victim)
                if job_id is not None:
                    story, over = self.follow(folder, job_id), time.time()
                    until(lambda: self.gpus_in_use() == 0)
            if job_id is not None:
                killed = folder / "victims"
                failed = killed.exists() and story.state is not JobState.SUCCEEDED
                since = killed.stat().st_mtime if failed else over
                free_after = max(0.0, max(used, default=since) - since)
                known_after = over - since
                came = self.judge(folder, story, job_id, victim)
                assert free_after <= FREE, free_after
            else:
                assert not (folder / "side").exists()
        except AssertionError as error:
            raise AssertionError(f"{self.mode}, {victim} killed at {name}: {error}") from error
        if not (folder / "killed").exists():
            came += ", not reached"
        elif victim not in (role, "keeper") and not (folder / "victims").exists():
            came += ", none there"
        self.table.append((victim, f"{name} {number}", came, free_after, known_after))

    @contextmanager
    def watched(self):
        """Give a list that grows by the time of each look at which a GPU was in use."""
        used, over = [], Event()

        def look():
            while not over.wait(LOOK):
                with suppress(ClusterError):
                    if self.gpus_in_use():
                        used.append(time.time())

        watcher = Thread(target=look)
        watcher.start()
        try:
            yield used
        finally:
            over.set()
            watcher.join()

    def follow(self, folder, job_id):
        """Let the code end as soon as its whole log is home; return the job's story."""
        log = JobPaths(self.home, job_id).task("worker-0").stdout

        def is_home():
            state = self.cluster.status(job_id).state  # as any reader, who starts a keeper
            running = state is JobState.RUNNING and log.exists()
            return state.final or (running and log.read_text() == LOG)

        until(is_home, PATIENCE)
        (folder / "gate").touch()
        return follow(self.cluster, job_id, patience=PATIENCE)

    def judge(self, folder, story, job_id, victim):
        side = folder / "side"
        runs = side.read_text() if side.exists() else ""
        assert runs in ("", "ran\n")
        assert LOG.startswith(story.out), story.out
        kinds = Counter(kind for kind in story.kinds if kind != "Waiting")
        assert max(kinds.values()) == 1, kinds
        until(lambda: all(app["state"] in FINAL for app in self.applications(job_id)))
        assert len(self.applications(job_id)) <= 1
        if story.state is JobState.SUCCEEDED:
            assert (runs, story.out) == ("ran\n", LOG)
            return "succeeded"
        assert victim in ("master", "container"), story.status
        assert story.state is JobState.FAILED, story.status
        said = story.status.reason
        # Of a container's processes one goes first, and YARN may ask the others to end.
        began = ("it ran", "the job began")
        words = ["YARN says: "]
        words += [f"the application ended before {what}: failed: " for what in began]
        told = any(each in said for each in words)
        assert told or (victim == "container" and "SIGKILL" in said), said
        return f"failed, {'ran' if runs else 'never ran'}"

    def applications(self, job_id):
        return self.manager.applications(applicationTags=f"submarine-job:{job_id}")

    def gpus_in_use(self):
        shares = self.cluster.gpu_shares()
        return sum(share.total - share.free for share in shares if share.kind == "node")

    def tell(self, capsys):
        """Print what came of each point."""
        count = Counter((self.mode, victim, came) for victim, _, came, *_ in self.table)
        with capsys.disabled():
            for key, number in sorted(count.items()):
                sys.stdout.write("\n{:5} {:10} {}: {}".format(*key, number))
            free, known = (max(column) for column in list(zip(*self.table, strict=True))[3:])
            sys.stdout.write(
                f"\nafter the kill, or the job's end: GPU free after {free:.1f} s at most, "
                f"end known after {known:.1f} s at most\n"
            )
            for line in self.table:
                sys.stdout.write("  {:10} {:46} {:28} {:.1f} {:.1f} s\n".format(*line))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("victim", ["submitter", "keeper", "master", "container"])
def test_a_kill_at_each_point_of_the_way_of_a_job(tmp_path, home, capsys, mode, victim):
    role = "submitter" if victim == "submitter" else "keeper"
    walk = Walk(tmp_path, home, mode)
    try:
        points = list(walk.points(role))
        for name, number in points:
            if role == "submitter" or name.startswith(TOLD) or (mode, victim) == ("warm", role):
                walk.point(role, name, number, victim)
    finally:
        if walk.table:
            walk.tell(capsys)
    assert any("reached" not in came for _, _, came, *_ in walk.table)
