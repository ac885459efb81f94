"""A keeper that was started without Java stands in nobody's way once the PATH was mended."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from submarine_engine.clusters import locks
from submarine_engine.clusters.yarn.doctor import keeper_check
from submarine_engine.clusters.yarn.driver import KeeperFolder
from submarine_engine.clusters.yarn.hadoop import HadoopConf, load_hadoop
from submarine_engine.findings import BAD, OK
from submarine_engine.job import JobState

from tests.hadoop import yarn_cluster
from tests.jobs import bundle_of, end_processes_of, follow, spec_of, until

PATIENCE = 300.0


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    yield home
    (home / "yarn").rename(tmp_path / "over")  # so that keepers end
    end_processes_of(home, patience=3)


@pytest.mark.long
def test_the_job_after_a_mended_path_runs(on_yarn, home, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_YARN_IDLE", "900")
    cluster = yarn_cluster(home)

    def run():
        job_id = cluster.submit(spec_of(gpus=0), bundle_of("print('on')\n"), workdir=tmp_path)
        return follow(cluster, job_id, patience=PATIENCE)

    with monkeypatch.context() as wrong:
        wrong.setenv("PATH", str(tmp_path))
        wrong.delenv("JAVA_HOME", raising=False)
        story = run()
        assert story.state is JobState.FAILED
        assert "skein says" in story.status.reason
    until(lambda: locks.is_free(KeeperFolder(home, load_hadoop()).lock), PATIENCE)
    assert run().out == "on\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "yarn-site.xml").write_text("<configuration></configuration>")
    folder = KeeperFolder(tmp_path / "home", HadoopConf(tmp_path, {}, "f"))
    folder.make()
    return folder


@pytest.mark.parametrize("path", ["/nowhere", "the right one"])
def test_the_doctor_finds_a_keeper_that_has_no_java(folder, tmp_path, path):
    if path != "/nowhere":
        path = tmp_path / "bin"
        path.mkdir()
        for name, says in (("yarn", "a.jar"), ("java", 'openjdk version \\"17.0.1\\"')):
            (path / name).write_text(f'#!/bin/sh\necho "{says}"\n')
            (path / name).chmod(0o755)
    words = ["submarine_engine.clusters.keeper", str(folder.home), "yarn", folder.root.name]
    sleep = "print(flush=True); import time; time.sleep(600)"
    with (
        locks.held(folder.lock),
        subprocess.Popen(
            [sys.executable, "-c", sleep, *words],
            env={"PATH": f"{path}", "HOME": os.environ.get("HOME", "/")},
            stdout=subprocess.PIPE,
        ) as keeper,
    ):
        keeper.stdout.readline()
        found = list(keeper_check(folder.home, folder.conf))
        keeper.kill()
    bad = [check for check in found if check.verdict == BAD]
    if path != "/nowhere":
        assert bad == []
        return
    assert [check.title for check in bad] == ["keeper", "keeper"]
    assert "there is no program `yarn` on the PATH" in bad[0].what
    assert "no `java` is on the PATH" in bad[1].what
    assert bad[0].fix.endswith(f"kill {keeper.pid}")
    assert found[0].verdict == OK
