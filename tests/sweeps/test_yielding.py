"""A sweep takes GPUs as they fall free, and gives one away as another job waits."""

import pytest

from tests.sweeps.programs import run_program

TRAIN = """
    from submarine_engine import submit
    from submarine_runtime import job

    # A trial lasts until it is let go, so what is seen while it runs is no matter of time.
    go = os.environ["GO"]

    def train(x):
        state = {"total": 0}
        for step in job.steps(4000, state, every=1000):
            state["total"] += 1
            time.sleep(0.05)
            report(step, loss=x)
            if step >= 10 and os.path.exists(go):
                break
        return {"loss": x}

    def plain(x):
        for step in range(4000):
            time.sleep(0.05)
            report(step, loss=x)
            if step >= 10 and os.path.exists(go):
                break

    def wait_for(condition):
        deadline = time.time() + 200
        while not condition():
            assert time.time() < deadline
            time.sleep(0.02)

    def begin(function, **given):
        given = {"gpus": 1, "pruner": "none", "wait": False, **given}
        found = search(function, {"x": integer(1, 100)}, **given)
        wait_for(lambda: sum(bool(trial.reports) for trial in found.trials) == 2)
        return found

    def log_of(found):
        home, job = os.environ["SUBMARINE_HOME"], found.job.id
        return open(f"{home}/jobs/{job}/tasks/worker-0/stdout").read()
"""


@pytest.mark.sampled
@pytest.mark.parametrize("function", ["train", "plain"])
def test_another_job_does_not_wait_for_a_trial_to_end(tmp_path, monkeypatch, function):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    told = run_program(
        tmp_path,
        f"""
        found = begin({function}, trials=2)
        other = submit(abs, -3, gpus=1)
        other.result()
        running = [trial.state for trial in found.trials]
        open(go, "w").close()
        found.wait()
        trials = [[trial.state, sorted(trial.reports)] for trial in found.trials]
        print(json.dumps([running, trials, log_of(found)]))
        """,
        more=TRAIN,
    )[0]
    running, trials, log = told
    assert running == ["running", "running"]
    for state, reports in trials:  # each step is there, whoever has run it
        assert state == "complete"
        assert reports == list(range(len(reports)))
    assert "gives its GPU to another job" in log
    kept = {"train": "goes on from its checkpoint", "plain": "begins again"}[function]
    assert f"paused; it {kept} when there is a GPU" in log


def test_a_sweep_keeps_its_least_and_gives_all_where_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    told = run_program(
        tmp_path,
        """
        found = begin(train, trials=2, min_gpus=0)
        other = submit(abs, -3, gpus=2)  # both
        other.result()
        states = [trial.state for trial in found.trials]
        open(go, "w").close()
        found.wait()
        print(json.dumps([states, [trial.state for trial in found.trials]]))
        """,
        more=TRAIN,
    )[0]
    assert told == [["running", "running"], ["complete", "complete"]]
