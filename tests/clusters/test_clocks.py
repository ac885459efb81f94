"""A node whose clock is another one than this machine's: its moments are put where they can be."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from submarine_engine.clusters.base import Allocated
from submarine_engine.clusters.container import Container
from submarine_engine.clusters.log_mirror import FolderSource
from submarine_engine.events import Moment, Started
from submarine_engine.history import JobPaths, new_job_id


class Disk:
    """The disk that the node shares with this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def source(self, container):
        return FolderSource(container.id, self.folder)

    def recover(self, container):
        """Bring nothing: all of it is there."""


@pytest.mark.parametrize("ahead", [-3600.0, -10.0, 0.0, 10.0, 3600.0])
def test_a_task_begins_and_returns_within_its_life_whatever_its_nodes_clock_says(
    tmp_path, monkeypatch, ahead
):
    apart = time.time() - time.monotonic()
    now = classmethod(lambda cls: cls((mono := time.monotonic()) + apart, mono))
    monkeypatch.setattr(Moment, "now", now)  # both clocks at one moment
    node = tmp_path / "node"
    node.mkdir()
    paths = JobPaths(tmp_path / "home", new_job_id())
    container = Container(paths, "worker-0", 0, Disk(node))
    mono, given = time.monotonic(), time.time()
    container.give(Allocated("1/worker-0", "n1", given))
    began, returned = time.time() + ahead, time.time() + ahead + 0.001
    (node / "started.json").write_text(json.dumps({"at": [began, 5.0], "gpus": []}))
    (node / "stdout").write_text("here\n")
    outcome = {"kind": "returned", "returned_at": [returned, 6.0], "exit_code": 0}
    (node / "outcome.json").write_text(json.dumps(outcome))
    (node / "exit").write_text("0\n")
    (started,) = [one for one in container.poll() if isinstance(one, Started)]
    container.bring_home()
    wall, home = json.loads(container.files.outcome.read_text())["returned_at"]
    assert mono - 0.1 <= started.at.mono <= home <= time.monotonic()
    assert given <= started.at.wall <= wall <= time.time() + 0.01
