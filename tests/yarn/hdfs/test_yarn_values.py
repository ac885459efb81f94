"""Large values of a notebook go to a real HDFS once, however many jobs take them along."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from submarine_engine.bundle import Cell, build
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn import uploads
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.errors import SubmissionError
from submarine_engine.history import default_home
from submarine_engine.job import JobState

from tests.jobs import follow, spec_of

PATIENCE = 200.0


@pytest.fixture
def run(shared_home):
    """Return a function that runs a cell over variables, and returns what both of them said."""
    cluster = open_cluster("yarn")

    def run(source, namespace, **options):
        said = []
        cluster.tell = said.append
        bundle = build(Cell(number=2, source=source), [], namespace)
        spec = spec_of(gpus=0, notebook="values.ipynb", **options)
        job_id = cluster.submit(spec, bundle, workdir=Path())
        story = follow(cluster, job_id, patience=PATIENCE)
        assert story.state is JobState.SUCCEEDED, story.err
        return story.out, said

    return run


def in_cache(size):
    """Return the files of so many bytes: other tests' jobs bring theirs there meanwhile."""
    files = open_hdfs(load_hadoop())
    try:
        folder = f"{files.home}/.submarine/cache"
        return {entry.path for entry in files.list(folder) if entry.size == size}
    finally:
        files.close()


def begun(said):
    """Return what was said without how much of an upload went, as every two seconds of one."""
    return [line for line in said if " MB of " not in line]


@pytest.mark.long
def test_a_second_job_with_the_same_array_uploads_nothing(run):
    array = np.random.default_rng().random(400_000)
    text = "a" * (2 << 20)
    total = f"{array.sum():.6f}\n"
    size = array.nbytes + 64
    before = in_cache(size)
    out, said = run("print(f'{x.sum():.6f}')", {"x": array})
    assert out == total
    assert begun(said) == ["uploading x (3.2 MB)"]
    held = in_cache(size)
    assert len(held - before) == 1
    # Another script over the same values, and one more.
    out, said = run("print(f'{x.sum():.6f}', len(t))", {"x": array, "t": text})
    assert out == f"{total.strip()} {2 << 20}\n"
    assert begun(said) == ["uploading t (2.1 MB)"]
    out, said = run("x += 1\nprint(f'{x.sum() - 400_000:.6f}')", {"x": array, "t": text})
    assert (out, said) == (total, [])
    assert in_cache(size) == held


def test_hdfs_that_refuses_leaves_no_job_behind(run, monkeypatch):
    def refuse(*_, **__):
        raise SubmissionError("Quota exceeded", where="/user/ada")

    monkeypatch.setattr(uploads, "send_once", refuse)
    jobs = set((default_home() / "jobs").glob("*"))
    with pytest.raises(SubmissionError, match="Quota exceeded"):
        run("print(x.sum())", {"x": np.zeros(400_000)})
    assert set((default_home() / "jobs").glob("*")) == jobs
