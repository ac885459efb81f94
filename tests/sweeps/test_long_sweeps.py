"""What a sweep loses over many yields, and what a thousand trials cost its controller: nothing."""

from collections import Counter

import pytest

from tests.sweeps.programs import run_program

PATIENCE = 1500
"""Seconds for each program: on a busy machine fifty yields take longer than other sweeps may."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(PATIENCE + 300)]

MORE = """
    from pathlib import Path

    from submarine_engine import submit
    from submarine_engine.clusters import open_cluster
    from submarine_runtime import job

    def wait_for(condition):
        deadline = time.time() + 300
        while not condition():
            assert time.time() < deadline
            time.sleep(0.01)

    def held():
        return sum(gpu.held_by is not None for gpu in open_cluster("local").gpus())

    def folder_of(found):
        return Path(os.environ["SUBMARINE_HOME"], "pools", found.id)

    def told(found):
        # Of Optuna's own file: who was told to have come to an end, as often as it was.
        lines = map(json.loads, (folder_of(found) / "study.log").read_text().splitlines())
        ends = [line for line in lines if line["op_code"] == 6 and line["state"] in (1, 2, 3)]
        return sorted(line["trial_id"] for line in ends)
"""


def test_nothing_is_lost_over_fifty_yields(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    told, _ = run_program(
        tmp_path,
        """
        def train(x):
            state = {"total": 0}
            for step in job.steps(100_000, state, every=1000):
                state["total"] += 1
                with open(f"{os.environ['GO']}-{x}", "a") as ran:
                    ran.write(f"{step}\\n")
                time.sleep(0.01)
                report(step, loss=x)
                if step >= 10 and os.path.exists(os.environ["GO"]):
                    break
            return {"loss": state["total"]}

        found = search(train, {"x": [1, 2, 3]}, sampler="grid", gpus=1, pruner="none", wait=False)
        log = Path(os.environ["SUBMARINE_HOME"], "jobs", found.job.id, "tasks/worker-0/stdout")
        yields = lambda: log.read_text().count("gives its GPU to another job")
        asked = 0
        while yields() < 50:
            wait_for(lambda: held() == 2)
            assert submit(abs, -asked, gpus=1).result() == asked
            asked += 1
            assert asked < 100
        Path(os.environ["GO"]).touch()
        found.wait()
        steps = {str(x): Path(f"{os.environ['GO']}-{x}").read_text().split() for x in (1, 2, 3)}
        trials = {str(t.params["x"]): [t.state, t.value, sorted(t.reports)] for t in found.trials}
        print(json.dumps([yields(), steps, trials, told(found)]))
        """,
        more=MORE,
        timeout=PATIENCE,
    )
    yields, steps, trials, ends = told
    assert yields >= 50
    assert ends == [0, 1, 2]  # each once
    for x, (state, value, reports) in trials.items():
        ran = list(map(int, steps[x]))
        # Each step ran once, in its order, on whichever worker: all progress was kept.
        assert ran == list(range(len(ran)))
        assert (state, value) == ("complete", len(ran))
        assert reports == ran


def test_a_thousand_trials_take_no_more_memory_and_a_bounded_journal(tmp_path, monkeypatch):
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    told, _ = run_program(
        tmp_path,
        """
        def train(x):
            last = int(os.environ["SUBMARINE_TRIAL"]) >= 990  # it is looked at before it is through
            while last and not os.path.exists(os.environ["GO"]):
                time.sleep(0.02)
            for step in range(3):
                report(step, loss=x)
            return {"loss": x}

        def memory(pid):
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20

        found = search(train, {"x": uniform(0, 1)}, trials=1000, sampler="random", wait=False)
        lock = Path(os.environ["SUBMARINE_HOME"], "jobs", found.job.id, "supervisor.lock")
        seen, sizes = {}, {}
        for least in (250, 990):
            wait_for(lambda: sum(found.counts().values()) >= least)
            seen[least] = memory(json.loads(lock.read_text())["session"])
        Path(os.environ["GO"]).touch()
        found.wait()
        for path in folder_of(found).iterdir():
            if path.is_file():
                sizes[path.name] = path.stat().st_size
        print(json.dumps([list(seen.values()), sizes, found.counts(), told(found)]))
        """,
        more=MORE,
        timeout=PATIENCE,
    )
    (early, late), sizes, counts, ends = told
    assert sum(counts.values()) == 1000
    assert Counter(ends) == Counter(range(1000))
    assert late - early < 32, (early, late)  # MiB, Optuna's trials among them
    assert sizes["calls.jsonl"] < 1000 * 1000, sizes
    assert sizes["arguments"] + sizes["values"] < 300 * 1000, sizes
