"""`sweep` of plain programs on the real local cluster: found, pruned, failed, told once each."""

import pytest

from tests.sweeps.programs import run_program


@pytest.fixture
def program(tmp_path):
    """Run a program that ends in `body`; return what it printed last, and its errors."""

    return lambda body: run_program(tmp_path, body)


def test_a_sweep_finds_what_is_good_and_says_so_trial_by_trial(program):
    told, text = program("""
        space = {"rate": loguniform(1e-4, 1e-1), "units": [32, 64]}
        found = search(train, space, trials=15)
        table = found.results()
        again = found.job.result()
        print(json.dumps({
            "best": [found.best.params, found.best.value],
            "states": [trial.state for trial in found.trials],
            "columns": list(table.columns), "rows": len(table),
            "study": len(found.study.trials), "same": again.best.value == found.best.value,
            "least": min(trial.value for trial in found.trials if trial.value is not None),
        }))
    """)
    params, value = told["best"]
    assert params.keys() == {"rate", "units"}
    assert value == told["least"] < 0.3
    assert told["columns"] == ["state", "rate", "units", "loss", "seconds", "error"]
    assert told["rows"] == told["study"] == len(told["states"]) == 15
    assert set(told["states"]) <= {"complete", "pruned"}
    assert told["same"]
    assert all(f"trial {number}: " in text for number in range(15))
    assert "by trial" in text


def test_a_trial_that_fails_is_one_row_and_is_tried_again(program):
    told, text = program("""
        def train(x):
            if x == 1: raise ValueError("no ones")
            if x == 2: os._exit(7)
            if x == 3: return "n/a"
            if x == 4: return float("nan")
            if x == 5: return None
            if x == 6: report(0, loss="0.1")
            if x == 7: return x, 1
            if x == 8:
                report(accuracy=0.5)
                return {"val_loss": 1}
            if x == 9: raise optuna.TrialPruned
            if x == 10:  # not by report(), which takes no such number
                running = reports._running()
                running.report({"step": 0, "values": {"loss": 10**400}, "keeps": False})
            return x

        import optuna
        from submarine_runtime import reports
        # Others may be through before the first one that succeeds.
        found = search(train, {"x": range(11)}, sampler="grid", forks=True, first_failures=11)
        rows = {trial.params["x"]: [trial.state, trial.error] for trial in found.trials}
        found.retry_failed().wait()
        tried = [trial.params["x"] for trial in found.trials if trial.retry_of is not None]
        print(json.dumps([rows, found.best.value, sorted(tried), len(found.trials)]))
    """)
    rows, best, tried, count = told
    assert best == 0
    states = ["complete", *["failed"] * 8, "pruned", "complete"]
    assert [rows[str(x)][0] for x in range(11)] == states
    words = ["", "raised ValueError: no ones", "code 7", "loss is 'n/a', of type str: no number"]
    words += ["loss is not a number (NaN)", "neither returned nor reported loss", "a number is"]
    words += ["it returned a tuple: return a number, or {'loss': …}"]
    words += ["the dict that it returned has val_loss; its reports have accuracy"]
    for x, said in enumerate(words):
        assert said in rows[str(x)][1]
    assert tried == [1, 2, 3, 4, 5, 6, 7, 8]
    assert count == 19
    assert "failed: raised ValueError: no ones" in text
    assert """, in train(): if x == 1: raise ValueError("no ones")""" in rows["1"][1]


@pytest.mark.long
def test_failed_trials_are_tried_again_while_the_others_run(program):
    told, _ = program("""
        def train(x):
            flag = os.environ["SUBMARINE_HOME"] + f".{x}"
            deadline = time.time() + 180
            while x == 2 and not os.path.exists(flag):
                assert time.time() < deadline
                time.sleep(0.02)
            if x == 1 and not os.path.exists(flag):
                raise ValueError("not yet")
            return x

        def wait_for(condition):
            deadline = time.time() + 180
            while not condition():
                assert time.time() < deadline
                time.sleep(0.02)

        def twice(x):
            flag = os.environ["SUBMARINE_HOME"] + f".twice{x}"
            if not os.path.exists(flag):
                open(flag, "w").close()
                raise ValueError("once")
            return x

        again = search(twice, {"x": [0, 1]}, sampler="grid", retries=1)
        assert again.counts() == {"complete": 2}, again.counts()
        found = search(train, {"x": [0, 1, 2]}, sampler="grid", wait=False)
        wait_for(lambda: found.failed)
        open(os.environ["SUBMARINE_HOME"] + ".1", "w").close()
        found.retry_failed()
        wait_for(lambda: found.counts().get("complete") == 2)
        try:
            found.retry_failed()
        except ValueError as error:
            said = str(error)
        open(os.environ["SUBMARINE_HOME"] + ".2", "w").close()
        found.wait()
        print(json.dumps([said, found.counts()]))
    """)
    assert "no trial has failed that was not tried again" in told[0]
    assert told[1] == {"complete": 3, "failed": 1}


def test_values_that_a_study_cannot_hold_reach_the_code_as_they_are(program):
    told, _ = program("""
        def train(layer, widen, kind, offset):
            assert isinstance(layer, Layer)
            return widen(layer.size) + offset

        layers = [Layer(3), Layer(5)]
        bound = functools.partial(train, offset=1)
        found = search(bound, {"layer": layers, "widen": [wide, abs], "kind": ["a"]},
                       sampler="grid", forks=False)
        best = found.best.params
        try:
            found.retry_failed()
        except ValueError as error:
            assert "no trial has failed" in str(error)
        print(json.dumps([best["layer"] is layers[0], best["widen"] is abs, found.best.value,
                          [str(t.params["layer"]) for t in found.job.result().trials]]))
    """)
    assert told[:3] == [True, True, 4.0]
    assert set(told[3]) == {"0: Layer(3)", "1: Layer(5)"}


def test_values_are_read_from_the_log_where_code_says_nothing_else(program):
    told, _ = program("""
        def train(x):
            print(f"epoch 1: loss: 9.5, val_loss: 77")
            print(f"epoch 2: loss={x}.25e0, other", file=sys.stderr)

        found = search(train, {"x": [1, 2]}, sampler="grid", metric_from_log=True)
        print(json.dumps([sorted(trial.value for trial in found.trials)]))
    """)
    # Of both streams, what stands on stdout counts.
    assert told == [[9.5, 9.5]]


def test_a_trial_is_pruned_by_what_it_prints(program, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")  # one after the other
    told, _ = program("""
        import subprocess

        def train(x):
            number = int(os.environ["SUBMARINE_TRIAL"])
            if number == 0:
                for step in range(3):
                    print(f"\\r {step}/3 | \\x1b[32mLoss={x}\\x1b[0m", end="")
            else:  # code that is not to be changed, which never ends by itself
                line = f"while :; do echo loss: {x + number}; sleep 0.02; done"
                subprocess.run(["sh", "-c", line])

        found = search(train, {"x": [1]}, trials=2, pruner="halving", metric_from_log=True,
                       gpus=1, first_failures=1)
        print(json.dumps([[t.state, t.value, list(t.reports.items())[:2]] for t in found.trials]))
    """)
    assert told[0] == ["complete", 1.0, [[0, 1.0], [1, 1.0]]]
    assert told[1] == ["pruned", None, [[0, 2.0], [1, 2.0]]]


@pytest.mark.long
def test_several_objectives_have_several_best(program):
    told, text = program("""
        def train(x):
            return {"loss": x, "accuracy": x / 10}

        found = search(train, {"x": uniform(0, 1)}, trials=4, maximize="accuracy")
        print(json.dumps([len(found.bests), list(found.results().columns)]))
    """)
    assert told == [4, ["state", "x", "loss", "accuracy", "seconds", "error"]]
    assert "(4 that none beats)" in text


@pytest.mark.long
def test_a_sweep_all_of_whose_trials_fail_ends_with_the_first_error(program):
    told, text = program("""
        def train(x):
            raise ValueError(f"never {x}")

        said = []
        for count, given in (40, {"first_failures": 3}), (2, {}):
            try:
                search(train, {"x": range(count)}, sampler="grid", **given)
            except Exception as error:
                said.append([type(error).__name__, str(error)])
        print(json.dumps(said))
    """)
    assert [kind for kind, _ in told] == ["JobFailedError"] * 2
    for count, (_, said) in zip((3, 2), told, strict=True):
        assert f"all of the first {count} trials failed" in said
        assert "raised ValueError: never" in said
    assert "attempt" not in text  # it would fail again


def test_what_is_not_possible_is_refused_before_anything_is_asked_for(program):
    told, _ = program("""
        def print_all(config):
            print(config)

        def refused(function, *space, **given):
            try:
                sweep(function, *space, **given)
            except ValueError as error:
                return str(error)

        rate = {"rate": [1], "units": [1]}
        print(json.dumps([
            refused(train, rate, trials=2),
            refused(train, {"rat": [1], "units": [1]}, trials=2, minimize="loss"),
            refused(train, {"rate": [1]}, trials=2, minimize="loss"),
            refused(train, {}, trials=2, minimize="loss"),
            refused(train, rate, minimize="loss"),
            refused(train, {**rate, "rate": uniform(0, 1)}, sampler="grid", minimize="loss"),
            refused(train, rate, trials=2, minimize="loss", gpus=2, max_gpus=1),
            refused(3, rate, trials=2, minimize="loss"),
            refused(train, rate),
            refused(train, rate, n_trials=2, metric="loss", mode="min"),
            refused(lambda trial: 0, trials=2, minimize="loss"),
            refused(lambda trial: 0, rate, trials=2, minimize="loss"),
            refused(print_all, rate, trials=2, minimize="loss"),
        ]))
    """)
    for said, words in zip(
        told,
        [
            "nobody said what the best trial is",
            "train() has no argument rat",
            "train() needs units",
            "the space is empty",
            "how many trials",
            "has no end",
            "less than one trial's 2 GPUs",
            "is no function",
            "the best trial is, nor how many trials",
            "has no n_trials, metric, mode\n→ for n_trials= write trials=",
            "what is to be searched\n→ give a space",
            "only trial\n→ take each value as an argument: def <lambda>(rate, units), none",
            "only config\n→ take each value as an argument: def print_all(rate, units), or sweep(",
        ],
        strict=True,
    ):
        assert words in said
        assert "→" in said


def test_a_sweep_is_extended_paused_and_resumed(program):
    told, _ = program("""
        from submarine_runtime import job

        def train(x):
            state = {"total": 0}
            for step in job.steps(300, state, every=1000):
                state["total"] += 1
                time.sleep(0 if os.path.exists(os.environ["GO"]) else 0.05)
                report(step, loss=x)
            return {"loss": x + state["total"]}

        os.environ["GO"] = go = os.environ["SUBMARINE_HOME"] + ".go"  # it is slow until then
        found = search(train, {"x": integer(1, 100)}, trials=1, pruner="none", wait=False)
        deadline = time.time() + 180
        while not any(trial.reports for trial in found.trials):
            assert time.time() < deadline
            time.sleep(0.02)
        found.pause().wait()
        paused = [[trial.state, len(trial.reports)] for trial in found.trials]
        open(go, "w").close()
        found.resume().wait()
        after = [[trial.state, len(trial.reports), trial.value - trial.params["x"]]
                 for trial in found.trials]
        found.extend(1).wait()
        jobs = os.environ["SUBMARINE_HOME"] + "/jobs"
        logs = [open(f"{jobs}/{one}/tasks/worker-0/stdout").read() for one in found._record().jobs]
        print(json.dumps([paused, after, [trial.state for trial in found.trials], "".join(logs)]))
    """)
    ((state, reports),), after, states, logs = told
    assert "trial 0 paused; it goes on from its checkpoint" in logs
    assert "begins again" not in logs
    assert state == "running"
    assert 0 < reports < 300
    assert after == [["complete", 300, 300.0]]  # every step once, none lost
    assert states == ["complete", "complete"]


@pytest.mark.long
def test_a_cancelled_sweep_is_found_by_its_name_with_what_it_has_found(program):
    told, _ = program("""
        from submarine_engine import JobCancelledError, open_sweep

        def train(x):
            if x > 1:
                time.sleep(600)
            return {"loss": x}

        running = search(train, {"x": [1, 2]}, sampler="grid", name="halves", wait=False)
        found = open_sweep("halves")
        deadline = time.time() + 180
        while "complete" not in found.counts() or len(found.trials) < 2:
            assert time.time() < deadline
            time.sleep(0.02)
        running.cancel()
        try:
            running.wait()
        except JobCancelledError as error:
            said = str(error)
        print(json.dumps([said, open_sweep("halves").best.params]))
    """)
    assert "what it has found: open_sweep('halves')" in told[0]
    assert told[1] == {"x": 1}


@pytest.mark.parametrize("whole", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_sweep_whose_controller_is_killed_tells_each_trial_once(program, whole):
    """Its process alone, which the job begins again; and its supervisor, too: then people do."""
    told, _ = program(f"""
        import signal
        from contextlib import suppress
        from pathlib import Path

        def train(x, n):
            number = os.environ["SUBMARINE_TRIAL"]
            with open(os.environ["SEEN"], "a") as file:
                file.write(f"{{number}}\\n")
            time.sleep(0.1)
            # Some are left whenever it is killed, and too few are done for the second kill before
            # the next controller is there.
            for kill, last in enumerate((4, 8)):
                while int(number) > last and not os.path.exists(f"{{os.environ['SEEN']}}-{{kill}}"):
                    time.sleep(0.02)
            return x

        def kill(job_id):
            path = Path(os.environ["SUBMARINE_HOME"], "jobs", job_id, "supervisor.lock")
            while not (text := path.read_text()):  # its supervisor says a moment later who it is
                time.sleep(0.02)
            told = json.loads(text)
            if {whole}:
                os.kill(told["pid"], signal.SIGKILL)
            with suppress(ProcessLookupError):  # it goes with its supervisor
                os.killpg(told["session"], signal.SIGKILL)

        os.environ["SEEN"] = seen = os.environ["SUBMARINE_HOME"] + ".seen"
        found = search(train, {{"x": uniform(0, 1), "n": [1]}}, trials=12, wait=False)
        killed = 0
        deadline = time.time() + 200
        while len([t for t in found.trials if t.state == "complete"]) < 12 or found.runs:
            assert time.time() < deadline
            done = sum(trial.state == "complete" for trial in found.trials)
            if killed < 2 and done >= 3 * (killed + 1):
                kill(found.job.id)
                open(f"{{seen}}-{{killed}}", "w").close()
                killed += 1
                if {whole}:
                    while found.runs:
                        time.sleep(0.02)
                    found.resume()
            time.sleep(0.02)
        states = [trial.state for trial in found.wait().trials]
        numbers = Path(seen).read_text().split()
        print(json.dumps([killed, states, numbers, len({{t.params["x"] for t in found}})]))
    """)
    killed, states, numbers, params = told
    assert killed == 2
    assert states == ["complete"] * 12
    assert params == 12
    assert set(numbers) == set(map(str, range(12)))
    if not whole:  # the workers live on, so none begins twice
        assert len(numbers) == 12


def test_a_sweep_whose_job_is_not_on_record_goes_on(program):
    told, _ = program("""
        import shutil
        from pathlib import Path
        from submarine_engine import open_sweep
        from submarine_engine.sweeps import sweeping

        def train(x):
            return x

        def killed(*args, **given):
            raise KeyboardInterrupt

        submitted, sweeping.control_job = sweeping.control_job, killed
        try:
            search(train, {"x": uniform(0, 1)}, trials=1, name="cut", wait=False)
        except KeyboardInterrupt:
            sweeping.control_job = submitted
        found = open_sweep("cut")
        before = [found.job_id, found.runs]
        found.resume().wait()
        folder = Path(os.environ["SUBMARINE_HOME"], "jobs", found.job_id)
        # Its supervisor's last word, which comes after that for those who wait.
        while json.loads((folder / "status.json").read_text())["finished"] is None:
            time.sleep(0.02)
        shutil.rmtree(folder)
        before += [found.runs]
        found.extend(1).wait()
        print(json.dumps([before, found.counts()]))
    """)
    assert told == [["", False, False], {"complete": 2}]


def test_a_second_controller_of_a_sweep_is_refused(program):
    told, _ = program("""
        from submarine_engine.history import default_home
        from submarine_engine.pool.controller import control
        from submarine_engine.pool import controller

        controller._PATIENCE = 0.2
        def train(x):
            time.sleep(60)

        found = search(train, {"x": [1, 2]}, trials=2, wait=False)
        deadline = time.time() + 180
        while not found.trials:
            assert time.time() < deadline
            time.sleep(0.02)
        try:
            control(found._folder.name)
        except Exception as error:
            said = str(error)
        found.cancel()
        try:
            found.wait()
        except Exception as error:
            said = [said, type(error).__name__]
        print(json.dumps(said))
    """)
    assert "another job runs this pool already" in told[0]
    assert told[1] == "JobCancelledError"
