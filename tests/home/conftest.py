"""A real shell whose cells become real jobs of the local cluster."""

from __future__ import annotations

import gc
import sys
import textwrap

import pytest
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine import list_jobs, open_job
from submarine_magics.workbench import bench_of
from traitlets.config import Config

from tests.jobs import LIMIT


class Notebook:
    """Runs cells one after the other; an error is raised here."""

    def __init__(self, *, loaded: bool = True) -> None:
        self.shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
        if loaded:
            self.shell.run_line_magic("load_ext", "submarine_magics")
        self.names = self.shell.user_ns
        self.said = ""

    def run(self, source: str) -> object:
        result = self.shell.run_cell(textwrap.dedent(source).strip("\n"), store_history=True)
        if result.error_before_exec or result.error_in_exec:
            raise result.error_before_exec or result.error_in_exec
        return result.result

    def job(self, source: str, options: str = "") -> object:
        return self.run(f"%%submarine {options}\n{textwrap.dedent(source).strip()}")

    def __getitem__(self, name: str) -> object:
        return self.names[name]

    def __contains__(self, name: str) -> bool:
        return name in self.names


@pytest.fixture
def notebook(request, monkeypatch, tmp_path):
    """Give a notebook; with the parameter ``plain`` one that has yet to load the extension."""
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    monkeypatch.setenv("SUBMARINE_GRACE", "120")  # what an interrupted cell did comes home in it
    # A job's traceback is the cell's own, however slow its end.
    monkeypatch.setattr("submarine_magics.stream._KEPT_BACK", LIMIT)
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path / "notes")
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # put back afterwards
    monkeypatch.setattr(sys, "path", list(sys.path))  # likewise: a shell puts itself first
    gc.freeze()  # what the process has loaded for other tests need not be looked through
    made = Notebook(loaded=getattr(request, "param", "") != "plain")
    yield made
    for job in list_jobs():
        if not job.state.final:
            open_job(job.id).kill()
    bench_of(made.shell).cells.close()
    made.shell.restore_sys_module_state()
    gc.collect()
    gc.unfreeze()
