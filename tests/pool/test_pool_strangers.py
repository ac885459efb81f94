"""What a call's code writes where its worker tells the pool: its call may fail, the map goes on."""

import json
import os
from types import SimpleNamespace

import pytest
from submarine_engine.history import JobPaths
from submarine_engine.lifecycle import TaskStatus
from submarine_engine.pool.workers import PoolWorker
from submarine_runtime import call_frames
from submarine_runtime.sealing import attempt_key

from tests.pool.programs import Program

PROGRAM = """
    import os
    from pathlib import Path

    from submarine_engine import map

    def spoils(told, n):
        told = told.replace(b'"index": 0,', b'"index": %d,' % n)
        for path in Path(os.environ["HOME_OF_JOBS"]).glob("jobs/*/tasks/*/returns"):
            with path.open("ab") as file:
                file.write(told)
        return len(told)

    if __name__ == "__main__":
"""


def frame(size=0, payload=b"", **head):
    return json.dumps({"kind": "ended", **head, "size": size}).encode() + b"\n" + payload


OF = {"index": 0, "try": 1}
SPOILT = {
    "a list for an index": frame(index=[1], **{"try": 1}),
    "no key": frame(index=0.0, **{"try": True}),
    "a list for an error": frame(**OF, outcome="error", error=[1]),
    "text for an error": frame(**OF, outcome="error", error="x"),
    "escapes": frame(**OF, outcome="error", error={"type": "\x1b[2J<b>", "message": "\x1b[2J"}),
    "a list for an outcome": frame(**OF, outcome=["value"]),
    "a time of many digits": frame(**OF, outcome="died", seconds=10**400),
    "a host": frame(kind="ready", host="\x1b[31m\n" * 500),
    "a deep report": frame(100_000, b"[" * 100_000, kind="report", **OF),
}
NO_FRAME = {
    "a size that nobody has": frame(1 << 62),
    "a deep head": b'{"kind": "ended", "size": 0, "x": ' + b"[" * 100_000 + b"\n",
}


@pytest.fixture
def program(tmp_path, monkeypatch, request):
    monkeypatch.setenv("HOME_OF_JOBS", str(tmp_path / "home"))
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
    return Program(tmp_path, PROGRAM)


def test_frames_of_a_stranger_end_no_map(program):
    program.run(f"""
        told = {list(SPOILT.values())!r}
        found = map(spoils, told, range(len(told)), gpus=0, max_workers=1, give_up=None).wait()
        assert len(found.results()) + len(found.failed) == len(told)
        assert sorted(found.failed) == [2, 3, 4, 5, 6], found.failed
        assert found.job.status().state.value == "succeeded"
        log = found.job.cluster.results(found.job.id, "worker-0") / "stdout"
        assert chr(27) not in log.read_text(), log.read_text()
    """)


@pytest.mark.sampled
@pytest.mark.parametrize("told", NO_FRAME.values(), ids=NO_FRAME)
def test_what_is_no_frame_costs_the_worker_and_not_the_map(program, told):
    program.run(f"""
        found = map(spoils, [{told!r}, b""], range(2), gpus=0, max_workers=1, give_up=None).wait()
        assert found.results() == {{1: 0}}, found
        assert "lost with its worker" in str(found.failed[0]), found.failed
        assert "cannot be read" in str(found.failed[0]), found.failed
    """)


class Elsewhere:
    """A cluster whose one job has a container, as soon as it is there."""

    def __init__(self):
        self.container = ""

    def status(self, _job_id):
        return SimpleNamespace(tasks=(TaskStatus(task="worker-0", container=self.container),))


def test_of_a_worker_elsewhere_nothing_is_taken_that_its_container_has_not_marked(tmp_path):
    job, key = "20250101-000000-abcde", os.urandom(32)
    paths = JobPaths(tmp_path, job)
    paths.task("worker-0").root.mkdir(parents=True)
    paths.results_key.write_bytes(key)
    ready = call_frames.frame({"kind": "ready", "host": "node-7"})
    mine = attempt_key(key, job, "worker-0", "container_1")
    returns = paths.task("worker-0").log("returns")
    cluster = Elsewhere()
    worker = PoolWorker(cluster, tmp_path, job, "worker-0")
    worker.read()
    returns.write_bytes(call_frames.sealed(ready, mine))
    worker.read()
    assert (worker.ready, worker.spoilt) == (
        False,
        "",
    )  # nobody knows yet which container has written it
    cluster.container = "container_1"
    worker.read()
    assert (worker.ready, worker.host) == (True, "node-7")
    with returns.open("ab") as file:
        file.write(call_frames.sealed(ready, attempt_key(key, job, "worker-0", "container_2")))
    assert worker.read() == []
    assert "somebody else has written" in worker.spoilt
    worker.close()
