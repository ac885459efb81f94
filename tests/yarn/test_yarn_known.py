"""A cluster of one's own is known to jobs without variables, as the docs promise."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.clusters import locks
from submarine_engine.clusters.yarn.driver import KeeperFolder
from submarine_engine.clusters.yarn.hadoop import load_hadoop

from tests.hadoop import PROXIES
from tests.jobs import end_processes_of, until
from tests.kernels import Driven
from tests.repo.test_docs import ROOT, blocks

PATIENCE = 200
PAGE = ROOT / "docs/yarn.md"


@pytest.fixture
def plain(monkeypatch):
    """Give an environment that knows nothing of Hadoop."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("SUBMARINE_YARN_IDLE", "1")
    return monkeypatch


def submarine(*words):
    command = [sys.executable, "-m", "submarine_engine.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.long
def test_a_job_in_a_terminal_needs_no_variable(yarn, plain, tmp_path):
    home = yarn.cluster.layout.root.parents[1]
    plain.setenv("SUBMARINE_HOME", str(home))
    script = tmp_path / "train.py"
    script.write_text("print('trained')")
    done = submarine("job", "run", str(script), "--cluster", "yarn", "--gpus", "0")
    assert done.stdout == "trained\n", done.stderr
    conf = load_hadoop({})
    assert conf.folder == yarn.conf
    keeper = KeeperFolder(home, conf)  # the cluster's daemons are of this home too: they stay
    until(lambda: locks.is_free(keeper.lock), PATIENCE)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("clusters of their own")
def test_the_first_steps_of_the_page_work_as_they_stand(plain, tmp_path):
    section = re.search(r"^## Try it.*?(?=^## )", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    page = tmp_path / "page.md"
    page.write_text(section[0])
    [start], [cells] = blocks(page, "console"), blocks(page, "text")
    home = tmp_path / "home"
    plain.setenv("SUBMARINE_HOME", str(home))
    try:
        for line in start.text.splitlines():
            done = submarine(*shlex.split(line.removeprefix("$ submarine ")))
            assert done.returncode == 0, done.stderr
        assert "For the commands yarn and hdfs: eval" in done.stdout
        plain.setenv("HADOOP_CONF_DIR", str(tmp_path))
        again = submarine("cluster", "up")
        assert f"jobs go elsewhere ({tmp_path}, from HADOOP_CONF_DIR)" in again.stderr
        plain.delenv("HADOOP_CONF_DIR")
        kernel = Driven(str(home), module="ipykernel_launcher", env=dict(os.environ))
        try:
            setup, first = cells.text.split("\n\n", 1)
            kernel.run(setup)
            ran = kernel.run(first, patience=PATIENCE)
            assert ran.stream("stdout").startswith("trained on GPU "), ran.text
            assert ran.value == "0.0625"
        finally:
            kernel.stop()
    finally:
        done = submarine("cluster", "down")
        end_processes_of(Path(home), patience=3)
    assert done.returncode == 0, done.stderr
    told = submarine("doctor", "--cluster", "yarn").stdout
    assert "no cluster of `submarine cluster up` runs" in told
