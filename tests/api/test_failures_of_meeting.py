"""Where a framework finds a port taken or nobody at an address, the error says whose it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import JobFailedError
from submarine_engine.future import Job
from submarine_engine.job import Resources, Role
from submarine_engine.lifecycle import JobStatus, TaskStatus
from submarine_engine.unmet import way_out

from tests.jobs import bundle_of, spec_of

TASKS = tuple(TaskStatus(task=f"worker-{n}", host=f"node-{n}") for n in range(2))
STATUS = JobStatus(tasks=TASKS, failed_task="worker-1")

# As torch 2.15, JAX 0.10 and TensorFlow 2.22 have said it.
TORCH_TAKEN = (
    "The server socket has failed to listen on any local network address. port: 4001, useIpv6:"
    " false, code: -98, name: EADDRINUSE, message: address already in use"
)
GRPC_TAKEN = (
    "E0000 00:00:1795383759.673414   10189 add_port.cc:83] Failed to add port to server: No"
    " address added out of total 1 resolved for '0.0.0.0:4003'\n"
)
TORCH_LATE = (
    "The client socket has timed out after 8000ms while trying to connect to (node-0, 4001)."
)
TORCH_NO_WAY = (
    "The client socket has failed to connect to any network address of (10.0.0.9, 29500). The"
    " client socket has failed to connect to 10.0.0.9:29500 (errno: 101 - Network is unreachable)."
)
JAX_LATE = (
    "F1122 21:42:27.855619    9972 client.h:80] Terminating process because the JAX distributed"
    " service detected fatal errors. This most likely indicates that another task died; see the"
    " other task logs for more details. Disable Python buffering, i.e. `python -u`, to be sure to"
    " see all the previous output. absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded\n"
)


@pytest.fixture
def folder(tmp_path):
    """The folder of a task whose job has held ports for both."""
    tasks = {
        f"worker-{n}": {"host": f"node-{n}", "ports": [4001 + 10 * n, 4002, 4003, 4004]}
        for n in range(2)
    }
    (tmp_path / "answer.json").write_text(json.dumps({"tasks": tasks}))
    made = tmp_path / "tasks" / "worker-1"
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize(
    ("message", "log", "words"),
    [
        (TORCH_TAKEN, "", "port 4001 of worker-1 on node-1 is taken: the task opens it twice"),
        ("Could not start gRPC server", GRPC_TAKEN, "port 4003 of worker-1 on node-1 is taken"),
        ("", GRPC_TAKEN, "port 4003 of worker-1 on node-1 is taken"),
        ("[Errno 98] Address already in use", "", "a port of worker-1 on node-1 is taken"),
        (TORCH_TAKEN.replace("4001", "29500"), "", "none of those that the job holds: let worker"),
        (TORCH_LATE, "", "worker-1 on node-1 waited for worker-0 on node-0, at node-0:4001: that"),
        (TORCH_NO_WAY, "", "found nobody at 10.0.0.9:29500, which is no address that the job has"),
        ("", JAX_LATE, "not all tasks came to jax.distributed.initialize()"),
        ("cuda is out of memory", GRPC_TAKEN, ""),
        ("", "Segmentation fault", ""),
    ],
)
def test_what_frameworks_say(folder, message, log, words):
    (folder / "stderr").write_text(log)
    found = way_out(STATUS, message, folder)
    assert words in found
    assert bool(found) == bool(words)


def test_a_job_of_one_task_meets_nobody(folder):
    alone = JobStatus(tasks=TASKS[1:], failed_task="worker-1")
    assert way_out(alone, TORCH_TAKEN, folder) == ""


@pytest.mark.parametrize("answer", ["no JSON", "[]", '{"tasks": {"a": 1}}', "[" * 100_000, None])
def test_without_an_answer_it_is_said_with_fewer_words(folder, answer):
    path = folder.parents[1] / "answer.json"
    path.unlink() if answer is None else path.write_text(answer)
    assert "port 4001 of worker-1 on node-1 is taken: " in way_out(STATUS, TORCH_TAKEN, folder)


def test_a_text_without_end_is_read_soon(folder):
    for text in ("port: 1" * 200_000, "JAX distributed service" * 50_000, "(" * 500_000):
        (folder / "stderr").write_text(text)
        assert way_out(STATUS, text, folder) == ""
        assert way_out(STATUS, "", folder) == ""


TWICE = """
import os, socket
from submarine_runtime import job
address = "", int(os.environ["MASTER_PORT"])
if job.rank == 0:
    with socket.create_server(address):
        socket.create_server(address)
"""


def test_a_port_that_is_opened_twice(tmp_path):
    cluster = LocalCluster(Path(tmp_path / "home"))
    spec = spec_of(roles=(Role(count=2, resources=Resources(gpus=0)),))
    job = Job(cluster, cluster.submit(spec, bundle_of(TWICE), workdir=tmp_path))
    with pytest.raises(JobFailedError, match="Address already in use") as caught:
        job.result(120)
    assert isinstance(caught.value, OSError)
    assert "is taken: the task opens it twice" in caught.value.fix
    assert "the first to fail was worker-0 on" in caught.value.fix
