"""Jobs that were run by the real runtime, in folders as a cluster leaves them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import submarine_runtime
from submarine_engine.bundle import Bundle, LineSpan, Manifest
from submarine_engine.job import JobState, TaskState
from submarine_engine.lifecycle import JobStatus, TaskStatus
from submarine_engine.results import load_results

JOB = "20250101-000000-abcde"
MAIN = Path(submarine_runtime.__file__).with_name("__main__.py")


class FolderCluster:
    """The questions that results ask of a cluster, answered for one job's folder."""

    def __init__(self, folder, url=None):
        self.folder = folder
        self.url = url

    def results(self, job_id, task=None):  # noqa: ARG002 - it has one
        assert job_id == JOB
        return self.folder

    def log_url(self, job_id):
        assert job_id == JOB
        return self.url

    def warnings(self, job_id):
        assert job_id == JOB
        return []


class Ran:
    """A job that is over.

    Its script is what `cells` hold, one after the other; each by label, id and first line.
    """

    def __init__(self, root):
        self.root = root
        self.folder = root / "tasks" / "worker-0"
        self.folder.mkdir(parents=True)
        self.cluster = FolderCluster(self.folder)

    def run(self, *cells, files=None, outputs=(), python=sys.executable, command=None):
        """Run cells: text, or (label, text)."""
        lines, spans = ["# Written by a machine", ""], []
        for number, cell in enumerate(cells, 1):
            label, source = cell if isinstance(cell, tuple) else (f"In [{number}]", cell)
            source = textwrap.dedent(source).strip("\n").split("\n")
            spans.append(
                LineSpan(
                    file="script.py",
                    line=len(lines) + 1,
                    count=len(source),
                    cell=label,
                    cell_id=f"id-{number}",
                    cell_number=number,
                    cell_line=1,
                )
            )
            lines += [*source, ""]
        files = {name: textwrap.dedent(text) for name, text in (files or {}).items()}
        everything = {"script.py": "\n".join(lines), **files}
        manifest = Manifest(
            entry="script.py", python="3", lines=tuple(spans), modules=tuple(sorted(files))
        )
        contents = {name: text.encode() for name, text in everything.items()}
        bundle = Bundle(files=contents, manifest=manifest)
        bundle.write(self.root / "bundle")
        plan = {
            "version": 1, "job_id": JOB, "task": "worker-0", "bundle": str(self.root / "bundle"),
            "entry": "script.py", "command": command, "workdir": str(self.root),
            "outputs": list(outputs), "env": {},
        }  # fmt: skip
        (self.folder / "task.json").write_text(json.dumps(plan))
        with (self.folder / "stderr").open("wb") as log:
            self.code = subprocess.run(
                [python, "-u", MAIN, self.folder],
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                timeout=180,
                check=False,
            ).returncode
        return self

    def status(self, reason="", state=None):
        good = self.code == 0
        task = TaskStatus(
            task="worker-0",
            state=TaskState.SUCCEEDED if good else TaskState.FAILED,
            exit_code=self.code,
            reason=reason,
        )
        state = state or (JobState.SUCCEEDED if good else JobState.FAILED)
        return JobStatus(state=state, reason=reason, tasks=(task,))

    def results(self, reason="", state=None):
        return load_results(self.cluster, JOB, self.status(reason, state))

    def rewrite(self, **fields):
        """Change fields of the outcome, as a hostile job may."""
        path = self.folder / "outcome.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.fixture
def ran(tmp_path):
    return Ran(tmp_path)
