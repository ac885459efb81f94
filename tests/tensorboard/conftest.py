"""Real jobs that write real events with TensorBoard's own writer, and real TensorBoards."""

from __future__ import annotations

import pytest
import requests
from submarine_engine.clusters import locks
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.history import JobPaths
from submarine_engine.tensorboard import stop_board
from submarine_engine.tensorboard.board import Files, ids

from tests.jobs import LIMIT, bundle_of, end_processes_of, follow, spec_of, until

WRITES = """
import os
from tensorboard.summary import Writer
for run in {runs!r}:
    writer = Writer(os.path.join(os.environ["SUBMARINE_LOGDIR"], run))
    for step in range({steps}):
        for tag in {tags!r}:
            writer.add_scalar(tag, 1 / (step + 1), step)
    writer.close()
"""


def writes(*tags, runs=("",), steps=10):
    """Return a script that writes scalars."""
    return WRITES.format(tags=tags or ("loss",), runs=runs, steps=steps)


class Boards:
    """A home with a local cluster and its TensorBoards."""

    def __init__(self, home, folder):
        self.home, self.folder = home, folder
        self.cluster = LocalCluster(home)

    def submit(self, script, **options):
        return self.cluster.submit(spec_of(**options), bundle_of(script), workdir=self.folder)

    def run(self, script, **options):
        job_id = self.submit(script, **options)
        story = follow(self.cluster, job_id)
        assert story.state.value == "succeeded", story.logs["stderr"].decode()
        return job_id

    def paths(self, job_id):
        return JobPaths(self.home, job_id)


class Reader:
    """A browser of a TensorBoard's own address."""

    def __init__(self, board):
        self.session = requests.Session()
        self.session.trust_env = False
        self.base = f"http://127.0.0.1:{board.port}{board.path}"
        self.session.get(board.address, timeout=180).raise_for_status()

    def runs(self):
        return self.session.get(f"{self.base}data/runs", timeout=180).json()

    def scalars(self, run, tag):
        asked = {"run": run, "tag": tag}
        found = self.session.get(f"{self.base}data/plugin/scalars/scalars", asked, timeout=180)
        return [[step, value] for _, step, value in found.json()] if found.ok else []

    def until_runs(self, *runs):
        until(lambda: sorted(self.runs()) == sorted(runs))


def end_boards(home):
    """End the TensorBoards of a home, those too that are still starting."""
    for files in [Files(home, board_id) for board_id in ids(home)]:
        until(lambda files=files: files.live() or locks.is_free(files.lock))
        stop_board(home, files.record.stem)
    assert end_processes_of(home, patience=LIMIT) == {}


@pytest.fixture
def here(tmp_path):
    found = Boards(tmp_path / "home", tmp_path)
    yield found
    end_boards(found.home)
