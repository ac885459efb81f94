"""Kernels that run as jobs, by Jupyter's own kernel manager and provisioner."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager
from submarine_engine import JobState, list_jobs, open_job
from submarine_engine.cli import main
from submarine_engine.history import JobPaths, default_home
from tornado.web import HTTPError

from tests.jobs import LIMIT, until

pytestmark = pytest.mark.service


@pytest.fixture
def manager(tmp_path, monkeypatch, capsys):
    """Install a kernel with options, and give its manager; it is shut down at the end."""
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    managers = []

    def install(*words):
        assert main(["notebook", "kernel", "install", *words]) == 0
        managers.append(KernelManager(kernel_name=capsys.readouterr().out.strip()))
        return managers[-1]

    yield install
    for one in managers:
        if one.has_kernel:
            one.shutdown_kernel(now=True)
    for summary in list_jobs():
        job = open_job(summary.id)
        job.kill()
        job.wait(LIMIT)


class Client:
    """Runs code in a kernel."""

    def __init__(self, manager):
        self.client = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(LIMIT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_channels()

    def run(self, code, within=LIMIT):
        told = []
        self.client.execute_interactive(code, timeout=within, output_hook=told.append)
        return "".join(
            one["content"].get("text", one["content"].get("ename", ""))
            for one in told
            if one["msg_type"] in {"stream", "error"}
        )


def the_job():
    [summary] = [one for one in list_jobs() if not one.state.final]
    return open_job(summary.id)


def test_a_kernel_is_a_job_that_is_interrupted_begun_anew_and_shut_down(manager, tmp_path):
    kernel = manager("--gpus", "1", "--name", "mine")
    kernel.start_kernel(cwd=str(tmp_path))
    job = the_job()
    with Client(kernel) as client:
        code = "import os; print(os.getcwd(), os.environ['SUBMARINE_JOB_ID'], os.getpid())"
        folder, job_id, pid = client.run(code).split()
        assert (folder, job_id) == (str(tmp_path), job.id)
        client.run("kept = 1")
        client.client.execute("import time\nprint('loops')\nwhile True: time.sleep(0.1)")
        until(lambda: _prints(client))
        kernel.interrupt_kernel()
        # What comes before the interrupt is through is left out by ipykernel.
        until(lambda: client.run("print(kept)") == "1\n")
        # The key is in files of this user's alone, and neither in the log nor in an argument.
        key = kernel.session.key.decode()
        paths = JobPaths(default_home(), job.id)
        for path in [*paths.root.rglob("*"), Path(kernel.connection_file)]:
            if path.is_file() and key.encode() in path.read_bytes():
                assert path.stat().st_mode & 0o077 == 0
                assert path.name not in {"stdout", "stderr", "record.json", "script.py"}
        kernel.restart_kernel()
        client.client.wait_for_ready(LIMIT)
        again, other = until(lambda: _asked(client)).split()
        assert (again, other != pid) == ("False", True)
        kernel.restart_kernel(now=True)
        client.client.wait_for_ready(LIMIT)
        assert client.run("print('there')") == "there\n"
    assert the_job().id == job.id  # it has kept its GPU
    kernel.shutdown_kernel()
    job.wait(LIMIT)
    status = job.status()
    assert (status.state, status.reason) == (JobState.CANCELLED, "the kernel was shut down")
    assert status.ledger.released_after is not None
    assert not Path(f"/proc/{other}").exists()


def _asked(client):
    """Ask a kernel that was begun anew; nothing where the client only seemed to hear it.

    What the former one said last may come late, and is a sign to it that it does.
    """
    with suppress(TimeoutError):
        return client.run("import os; print('kept' in globals(), os.getpid())", within=10)
    return ""


def _prints(client):
    """Until its code runs, ipykernel ignores interrupts, also of a cell that is busy."""
    message = client.client.get_iopub_msg(timeout=LIMIT)
    return message["msg_type"] == "stream"


def test_a_kernel_that_nobody_uses_gives_its_gpu_back(manager, tmp_path):
    kernel = manager("--gpus", "1", "--idle", "6s")
    kernel.start_kernel(cwd=str(tmp_path))
    job = the_job()
    with Client(kernel) as client:
        client.run("import time; time.sleep(7)")  # busy, and so in use
        assert kernel.is_alive()
    job.wait(LIMIT)
    assert job.status().state is JobState.SUCCEEDED
    assert not kernel.is_alive()
    log = JobPaths(default_home(), job.id).task("worker-0").stdout.read_text()
    assert "nobody has used it for 6 s: it ends, its GPUs are given back" in log


def test_a_kernel_that_nobody_uses_says_that_it_ends_and_is_kept(manager, tmp_path, capsys):
    kernel = manager("--gpus", "0", "--idle", "603s")
    kernel.start_kernel(cwd=str(tmp_path))
    job, events = the_job(), JobPaths(default_home(), the_job().id).events
    until(lambda: job.status().unused, LIMIT)
    assert "it ends in 10 min" in job.status().warning
    assert main(["notebook", "keep", job.id]) == 0
    assert capsys.readouterr().out == f"{job.id} goes on\n"

    def said():
        told = [json.loads(line) for line in events.read_text().splitlines()]
        return [each["text"] for each in told if each["event"] == "Warned"]

    until(lambda: "" in said(), LIMIT)  # what was said before holds no more
    assert kernel.is_alive()


def test_a_kernel_that_dies_is_a_job_that_failed(manager, tmp_path, caplog):
    kernel = manager("--gpus", "0")
    kernel.start_kernel(cwd=str(tmp_path))
    job = the_job()
    with Client(kernel) as client:
        client.client.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        job.wait(LIMIT)
    caplog.clear()
    with caplog.at_level(logging.WARNING, kernel.provisioner.log.name):
        assert not kernel.is_alive()
        assert not kernel.is_alive()
    assert "the kernel has ended (by SIGKILL)" in job.status().reason
    # The page shows that it is gone; why, Jupyter's log says, once.
    told = [one.getMessage() for one in caplog.records]
    assert (
        sum(f"job {job.id} is over: NotebookError: the kernel has ended" in one for one in told)
        == 1
    )


def test_a_kernel_without_a_gpu_in_time_says_so(manager, tmp_path):
    first = manager("--gpus", "1")
    first.start_kernel(cwd=str(tmp_path))
    late = manager("--gpus", "1", "--within", "1s")
    with pytest.raises(HTTPError, match="it did not start within 1 s") as raised:
        late.start_kernel(cwd=str(tmp_path))
    assert raised.value.status_code == 503
    assert not late.has_kernel
    states = sorted(open_job(one.id).status().state.value for one in list_jobs())
    assert states in (["cancelled", "running"], ["queued", "running"])


def test_a_kernelspec_says_what_was_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    words = ["--gpus", "2", "--memory", "8G", "--queue", "fast", "--name", "two", "--idle", "30m"]
    assert main(["notebook", "kernel", "install", *words, "--cluster", "local", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    spec = json.loads((Path(told["folder"]) / "kernel.json").read_text())
    assert spec["display_name"] == "Python on local, 2 GPUs, two"
    found = spec["metadata"]["kernel_provisioner"]
    assert found["provisioner_name"] == "submarine-provisioner"
    assert set(zip(*[iter(found["config"]["words"])] * 2, strict=True)) == {
        ("--name", "two"), ("--queue", "fast"), ("--gpus", "2"), ("--memory", "8G"),
        ("--cluster", "local"), ("--idle", "1800"),
    }  # fmt: skip
    assert main(["notebook", "kernel", "remove"]) == 64
    assert main(["notebook", "kernel", "install", "--gpus", "some"]) == 64
