"""The first pages of the docs, done: by the command line and in a notebook's kernel."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.history import JobPaths
from submarine_engine.installer.kept import cache_folder
from submarine_engine.job import JobState
from submarine_engine.records import list_jobs
from submarine_engine.testing.jobs import until

from tests.kernels import Driven
from tests.kubernetes.test_kubernetes_cluster import keepers
from tests.kubernetes_own import require_kubernetes

pytestmark = [pytest.mark.long, pytest.mark.service]

DOCS = Path(__file__).parents[2] / "docs"
TRAIN = "print('epoch', 1)\n"


def blocks(page, heading):
    """Return the commands of each block of a page that a person copies, from a heading on."""
    text = (DOCS / page).read_text().partition(heading)[2]
    found = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [
        [shlex.split(line[2:]) for line in one.splitlines() if line.startswith("$ ")]
        for one in found
    ]


def submarine(*words, folder):
    """Run the command as a shell does; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "submarine_engine.cli", *words],
        cwd=folder, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_commands_of_the_page_do_what_it_says(kubernetes_home, kubernetes_folder):
    install, doctor, run = blocks("kubernetes.md", "## From nothing to a trained model")[0]
    assert install == ["pip", "install", "submarine-notebook[kubernetes]"]
    (kubernetes_folder / "train.py").write_text(TRAIN)
    told = submarine(*doctor[1:], folder=kubernetes_folder)
    assert re.search(r"kubernetes", told)
    assert re.search(r"4\b.*GPU", told), told
    before = {job.id for job in list_jobs(kubernetes_home)}
    assert "epoch 1" in submarine(*run[1:], folder=kubernetes_folder)
    (job,) = [job for job in list_jobs(kubernetes_home) if job.id not in before]
    assert (job.cluster, job.state, job.gpus) == ("kubernetes", JobState.SUCCEEDED, 1)


def test_a_cluster_of_ones_own_is_begun_used_and_ended_by_the_commands_of_its_page(
    tmp_path, monkeypatch
):
    require_kubernetes()
    (up, status, down), (run, *_) = blocks("kubernetes-cluster.md", "# A Kubernetes")[:2]
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder().parent))  # its programs are there
    monkeypatch.setenv("HOME", str(tmp_path))  # no kubeconfig there
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "train.py").write_text(TRAIN)
    root = home / "clusters/kubernetes"
    try:
        submarine(*up[1:], folder=tmp_path)
        told = submarine(*status[1:], folder=tmp_path)
        assert "2 nodes, 4 GPUs each, declared" in told
        for daemon in ("kube-apiserver", "kubelet-n2", "gpus-n2"):
            assert re.search(rf"^{daemon} +\d+$", told, re.MULTILINE), told
        assert "epoch 1" in submarine(*run[1:], folder=tmp_path)
        until(lambda: not list(keepers(home)))  # it has nothing to do any more
    finally:
        submarine(*down[1:], folder=tmp_path)
    assert not root.exists()
    assert not list(processes_below(root))


def processes_below(root):
    """Yield the processes that have a folder in their environment or on their command line."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if bytes(root) in told and process.name != str(os.getpid()):
            yield told


@pytest.fixture
def notebook(kubernetes_home, kubernetes_folder):
    kernel = Driven(str(kubernetes_home))
    yield kernel
    kernel.stop()


def test_a_notebook_uses_it_by_one_line(notebook, kubernetes_home):
    notebook.run("%submarine use kubernetes\nscale = 6")
    ran = notebook.run(
        "%%submarine --gpus 1 --name answers\nimport os\nanswer = scale * 7\n"
        "print('on', os.environ['SUBMARINE_NODE'])"
    )
    assert "on n1" in ran.text
    assert notebook.value("answer") == "42"
    (job,) = [job for job in list_jobs(kubernetes_home) if job.name == "answers"]
    assert (job.cluster, job.state) == ("kubernetes", JobState.SUCCEEDED)
    assert JobPaths(kubernetes_home, job.id).root.exists()
