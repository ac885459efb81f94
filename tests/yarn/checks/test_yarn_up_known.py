"""A cluster that ``submarine cluster up`` has noted as up is found by each front end by itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.cli import main
from submarine_engine.clusters.yarn import gpus
from submarine_engine.errors import ConfigError
from submarine_engine.installer import ClusterPlan, HadoopCluster, Wanted
from submarine_engine.installer.daemons import marks
from submarine_engine.installer.java import Java
from submarine_engine.installer.plan import FIRST
from submarine_engine.installer.sites import write_files
from submarine_jupyter.cards import Overview
from submarine_jupyter.work import Work
from submarine_magics.workbench import bench_of
from traitlets.config import Config

pytestmark = pytest.mark.filterwarnings("ignore:distutils Version:DeprecationWarning")  # skein's

PATIENCE = 200
IDS = ["0", "1", "2", "3"]
"""The GPUs of the recorded cluster."""


@pytest.fixture
def up(recorded, monkeypatch, tmp_path):
    """Give a cluster that is up for a while: a process with its marks, recorded answers."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(gpus, "_NODE_TIMEOUT", 30.0)
    monkeypatch.chdir(tmp_path)

    @contextmanager
    def is_up():
        layout = HadoopCluster().layout
        java = Java(Path("/java"), 17)
        write_files(
            ClusterPlan.make(Wanted(gpus=1), port=FIRST, java=java, jars=Path("/jars")), layout
        )
        manager = recorded("busy")
        manager.nodes()[0]["nodeHTTPAddress"] = manager.address
        manager.folder = layout.conf
        manager.configure()
        code = "import time; print(flush=True); time.sleep(600)"
        command = [sys.executable, "-c", code, *marks(layout, "resourcemanager")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                process.stdout.readline()
                yield
            finally:
                process.kill()

    return is_up


def test_a_terminal_finds_it(up, capsys):
    words = ["gpus", "--cluster", "yarn", "--json"]
    assert main(words) != 0
    assert "submarine cluster up" in capsys.readouterr().err
    with up():
        assert main(words) == 0
        found = map(json.loads, capsys.readouterr().out.splitlines())
        assert [one["id"] for one in found if "id" in one] == IDS


@pytest.fixture
def bench(monkeypatch):
    """Give what the magics of a shell share, in which nothing has run."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # put back afterwards
    monkeypatch.setattr(sys, "path", list(sys.path))  # likewise: a shell puts itself first
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "submarine_magics")
    yield bench_of(shell)
    bench_of(shell).cells.close()
    shell.restore_sys_module_state()


def test_a_notebook_finds_it(up, bench):
    def use():
        bench.shell.run_cell("%submarine use yarn").raise_error()

    with pytest.raises(ConfigError, match="submarine cluster up"):
        use()
    assert bench.cluster_in_use is None
    with up():
        use()
        assert bench.cluster_in_use == "yarn"
        assert [gpu.id for gpu in bench.cluster().gpus()] == IDS


def clusters_of_panel():
    """Return the clusters of Jupyter's panel by name, with the GPUs of YARN's where it is one."""

    async def look(work):
        overview, found = Overview(work), {}
        while not found or found.get("yarn", {"total": 1})["total"] == 0:
            text, _ = await overview.poll()
            told = json.loads(text)["clusters"] if text else ()
            found |= {one["name"]: one for one in told}
            await asyncio.sleep(0.02)
        return found

    work = Work()
    try:
        return asyncio.run(asyncio.wait_for(look(work), PATIENCE))
    finally:
        work.stop()


def test_jupyters_panel_finds_it(up):
    assert "yarn" not in clusters_of_panel()
    with up():
        found = clusters_of_panel()["yarn"]
    assert (found["total"], found["error"]) == (len(IDS), "")
    assert [gpu["id"] for gpu in found["gpus"]] == IDS
