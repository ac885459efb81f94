"""Calls and trials that several tasks run each: they meet anew each time, and end as one."""

import json

import pytest

from tests.contract.conftest import use_backend
from tests.pool.programs import Program

PROGRAM = """
    import os, socket, sys, time
    from pathlib import Path

    from submarine_engine import Executor, integer, list_jobs, map, submit, sweep
    from submarine_engine.clusters import open_cluster
    from submarine_engine.errors import SubmarineError
    from submarine_runtime import job, report

    def until(condition):
        limit = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < limit
            time.sleep(0.02)

    def held():
        return sum(gpu.held_by is not None for gpu in open_cluster("local").gpus())

    def meet(n):
        # As a framework does: rank 0 listens at the address that all were told.
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        assert (job.rank, job.world_size) == (int(os.environ["RANK"]), 2)
        if job.rank == 0:
            with socket.create_server(("", address[1])) as server:
                server.settimeout(60)
                peer, _ = server.accept()
                peer.sendall(b"%d" % n)
            return peer
        while True:
            try:
                peer = socket.create_connection(address, timeout=180)
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        assert int(peer.recv(1)) == n
        return peer

    def call(n):
        peer = meet(n)
        if n == 3 and job.rank == 1:
            raise KeyError(n)
        if n == 4 and job.rank == 0:
            os._exit(7)
        if n in (3, 4) and not peer.recv(1):  # until the other one is gone
            raise ConnectionResetError("by peer")
        print("rank", job.rank)
        return job.rank, os.environ["MASTER_PORT"], os.environ.get("CUDA_VISIBLE_DEVICES")

    if __name__ == "__main__":
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "4")
    return Program(tmp_path, PROGRAM)


def test_each_call_is_run_by_ranks_that_meet_and_the_first_one_counts(program):
    program.run("""
        found = map(call, range(8), gpus=1, num_workers=2, max_gpus=2).wait()
        values = found.results()
        assert sorted(values) == [0, 1, 2, 5, 6, 7], values
        assert {rank for rank, _, _ in values.values()} == {0}
        # At other ports each time: what a call has left is in nobody's way.
        assert len({port for _, port, _ in values.values()}) > 1
        # The rank that failed by itself is the reason, and it is its log that is shown.
        assert isinstance(found.failed[3], KeyError), found.failed[3]
        assert "worker-1" in str(found.failed[3]) and "KeyError: 3" in found.log(3)
        assert "code 7" in str(found.failed[4]) and found.log(2) == "rank 0\\n"
        (listed,) = list_jobs()
        with Executor(gpus=1, workers=2, max_gpus=2) as ex:
            assert ex.submit(call, 5).result(120)[0] == 0
        for wrong, words in (
            ({"workers": (1, 2)}, "cannot change"),
            ({"workers": 2, "forks": False}, "processes of its own"),
            ({"workers": 2, "batch": 4}, "batch=4"),
            ({"workers": 2, "max_gpus": 1}, "less than the 2 of one call"),
        ):
            try:
                map(call, [1], **{"gpus": 1, **wrong})
            except SubmarineError as error:
                assert words in str(error), error
            else:
                raise AssertionError(wrong)
        assert held() == 0
    """)


@pytest.mark.long
def test_ranks_meet_anew_where_tasks_are_elsewhere(program, tmp_path, monkeypatch):
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    program.run("""
        found = map(call, [0, 1, 3, 5], gpus=0, workers=2, max_workers=1, cluster="hosts").wait()
        assert [value[0] for value in found.results().values()] == [0, 0, 0]
        assert isinstance(found.failed[2], KeyError) and "KeyError: 3" in found.log(2)
        assert found.log(1) == "rank 0\\n", found.log(1)
    """)


@pytest.mark.long
def test_trials_of_several_ranks_are_pruned_and_pause_with_their_checkpoints(program, tmp_path):
    text = program.run(f"""
        go = Path({str(tmp_path / "go")!r})

        def pruned(x):
            peer = meet(x)
            if job.rank and not peer.recv(1):
                time.sleep(600)  # as in a collective that rank 0 never comes to: it is ended
            for step in range(30):
                time.sleep(0.02)  # an answer comes by the next report
                report(step, loss=x)
            if not job.rank:
                peer.sendall(b"through")
            return x

        found = sweep(pruned, {{"x": [1, 2, 3, 4]}}, sampler="grid", gpus=1, workers=2, max_gpus=2,
                      minimize="loss", pruner="halving")
        states = found.counts()
        assert set(states) == {{"complete", "pruned"}} and sum(states.values()) == 4, states

        def train(x):
            meet(x)
            state = {{"total": 0}}
            for step in job.steps(4000, state, every=1000):
                state["total"] += 1
                time.sleep(0.02)
                report(step, loss=x if job.rank == 0 else -1)
                if step >= 5 and go.exists():
                    break
            return {{"loss": state["total"] * 0 + x}}

        found = sweep(train, {{"x": [1, 2]}}, sampler="grid", gpus=1, workers=2, minimize="loss",
                      pruner="none", wait=False)
        until(lambda: sum(bool(trial.reports) for trial in found.trials) == 2)
        assert held() == 4
        # A gang gives both of its GPUs away, and takes both back.
        assert submit(abs, -3, gpus=2).result() == 3
        until(lambda: held() == 4)
        go.touch()
        found.wait()
        log = Path(os.environ["SUBMARINE_HOME"], "jobs", found.job.id, "tasks/worker-0/stdout")
        assert "paused; it goes on from its checkpoint" in log.read_text(), log.read_text()
        trials = [[t.state, t.value, sorted(t.reports)] for t in found.trials]
        import json; print(json.dumps(trials))
    """)
    trials = json.loads(text.splitlines()[-1])
    assert [(state, value) for state, value, _ in trials] == [("complete", 1), ("complete", 2)] or [
        ("complete", 2),
        ("complete", 1),
    ]
    for _, _, reports in trials:  # each step once, whoever has run it
        assert reports == list(range(len(reports)))
