"""A sweep's study: each trial asked for once and told once, whatever is killed in between."""

import math

import optuna
import pytest
from submarine_engine.sweeps.plan import SweepPlan
from submarine_engine.sweeps.space import Space
from submarine_engine.sweeps.study import STUDY_FILE, Study, StudyError, open_storage

SPACE = Space.of("rate=loguniform(1e-4, 1e-1); units=[32, 64, 128]; depth=int(1, 4)")


def plan(**given):
    return SweepPlan(**{"objectives": (("loss", "minimize"),), "trials": 10, "seed": 1, **given})


def opened(folder, space=SPACE, name="sweep-1", **given):
    return Study(folder, name, plan(**given), space)


def loss(params):
    return (math.log10(params["rate"]) + 2) ** 2 + params["depth"]


@pytest.mark.parametrize("sampler", ["tpe", "random", "cmaes", "nsgaii"])
def test_a_search_finds_what_is_good(tmp_path, sampler):
    space = Space.of("rate=loguniform(1e-4, 1e-1); depth=int(1, 4)")
    study = opened(tmp_path, space, sampler=sampler)
    for _ in range(15):
        asked = study.ask()
        assert study.tell(asked.number, [loss(asked.params)], seconds=0.5)
    (best,) = study.best()
    assert best.value == min(told.value for told in study.results())
    assert best.params.keys() == {"rate", "depth"}
    assert best.seconds == 0.5
    assert (tmp_path / STUDY_FILE).stat().st_mode & 0o777 == 0o600


def test_it_is_a_study_that_optuna_loads_while_it_runs(tmp_path):
    study = opened(tmp_path)
    asked = study.ask()
    loaded = optuna.load_study(study_name="sweep-1", storage=open_storage(tmp_path))
    assert [trial.state.name for trial in loaded.trials] == ["RUNNING"]
    assert loaded.trials[0].params == asked.params
    study.tell(asked.number, [1.0])
    assert loaded.best_value == 1.0
    assert loaded.metric_names == ["loss"]


def test_a_trial_is_told_once(tmp_path):
    study = opened(tmp_path)
    number = study.ask().number
    assert study.tell(number, [1.0])
    assert not study.tell(number, [2.0])
    assert not study.tell(number, None, error="late")
    assert not study.report(number, 1, 5.0)
    assert study.best()[0].value == 1.0


def test_who_takes_over_finds_what_was_begun_and_asks_for_none_twice(tmp_path):
    first = opened(tmp_path)
    asked = [first.ask() for _ in range(3)]
    first.tell(1, [0.5])
    second = opened(tmp_path)
    assert second.running() == (asked[0], asked[2])
    assert second.begun() == 3
    assert second.ask().number == 3


def test_a_trial_that_a_kill_left_without_parameters_gets_them(tmp_path):
    study = opened(tmp_path)
    study.ask()
    whole = (tmp_path / STUDY_FILE).read_bytes().splitlines(keepends=True)
    for kept in range(3, len(whole)):
        (tmp_path / STUDY_FILE).write_bytes(b"".join(whole[:kept]) + whole[kept][:7])
        again = opened(tmp_path)
        running = again.running()
        assert all(asked.params.keys() == set(SPACE.names) for asked in running)
        number = running[0].number if running else again.ask().number
        assert number == 0
        assert again.tell(number, [1.0])


def test_the_same_seed_asks_for_the_same_whatever_is_killed(tmp_path):
    def numbers(folder, *, killed):
        folder.mkdir()
        study = opened(folder)
        found = []
        for _ in range(12):
            asked = study.ask()
            found.append(asked)
            study.tell(asked.number, [loss(asked.params)])
            if killed:
                study = opened(folder)
        return found

    one = numbers(tmp_path / "one", killed=False)
    assert one == numbers(tmp_path / "two", killed=True)
    assert len({asked.params["rate"] for asked in one}) == 12


def test_a_grid_is_gone_through_once(tmp_path):
    space = Space.of({"units": [32, (64, 32), "wide"], "depth": range(1, 5)})
    found = []
    for _ in range(12):  # opened anew each time, as after a kill
        study = opened(tmp_path, space, sampler="grid", trials=None)
        asked = study.ask()
        found.append((asked.params["units"], asked.params["depth"]))
        study.tell(asked.number, [1.0])
    assert sorted(map(str, found)) == sorted(
        str((units, depth)) for units in [32, (64, 32), "wide"] for depth in range(1, 5)
    )


@pytest.mark.parametrize("pruner", ["median", "halving", "hyperband"])
def test_what_does_badly_is_pruned(tmp_path, pruner):
    study = opened(tmp_path, pruner=pruner)
    pruned = 0
    for number in range(30):
        asked = study.ask()
        for step in range(9):
            if study.report(asked.number, step, number + 1 / (step + 1)):
                study.tell(asked.number, None)
                pruned += 1
                break
        else:
            study.tell(asked.number, [float(number)])
    assert pruned >= 5
    assert {told.state for told in study.results()} == {"complete", "pruned"}
    assert study.best()[0].number == 0


def test_without_a_pruner_none_is(tmp_path):
    study = opened(tmp_path, pruner="none")
    for number in range(12):
        study.ask()
        assert not any(study.report(number, step, float(number)) for step in range(5))
        study.tell(number, [float(number)])


def test_a_step_that_is_reported_twice_counts_once(tmp_path):
    study = opened(tmp_path)
    study.ask()
    study.report(0, 1, 0.5)
    study.report(0, 1, 0.7)
    study.report(0, 2, math.nan)
    reports = study.results()[0].reports
    assert reports[1] == 0.5
    assert math.isnan(reports[2])


def test_several_objectives_have_several_best(tmp_path):
    both = (("loss", "minimize"), ("accuracy", "maximize"))
    study = opened(tmp_path, objectives=both, sampler="nsgaii")
    for values in ([1.0, 0.5], [2.0, 0.9], [3.0, 0.1]):
        study.tell(study.ask().number, values)
    assert [told.values for told in study.best()] == [(1.0, 0.5), (2.0, 0.9)]
    number = study.ask().number
    assert not study.report(number, 1, 1.0)


def test_what_failed_is_tried_again_once(tmp_path):
    study = opened(tmp_path)
    asked = study.ask()
    study.tell(asked.number, None, error="ValueError: no")
    assert study.results()[0].error == "ValueError: no"
    assert study.results()[0].state == "failed"
    assert study.again([0]) == 1
    assert study.again([0]) == 0
    assert study.waiting() == 1
    assert study.begun() == 1
    again = study.ask()
    assert again.params == asked.params
    assert study.results()[1].retry_of == 0
    study.tell(again.number, [1.0])
    assert study.best()[0].number == 1


def test_the_worst_by_its_last_report_goes_first(tmp_path):
    for way, worst in (("minimize", 0), ("maximize", 1)):
        folder = tmp_path / way
        folder.mkdir()
        study = opened(folder, objectives=(("loss", way),))
        for value in (5.0, 1.0, None):
            number = study.ask().number
            if value is not None:
                study.report(number, 1, value)
        assert max(range(3), key=study.pruned_first) == worst


def test_another_sweep_s_study_is_refused(tmp_path):
    opened(tmp_path, name="sweep-1").ask()
    with pytest.raises(StudyError, match="'sweep-1', not this sweep's"):
        opened(tmp_path, name="sweep-2")


@pytest.mark.parametrize("line", [1, 3])
def test_a_damaged_study_is_refused_in_words(tmp_path, line):
    opened(tmp_path).ask()
    path = tmp_path / STUDY_FILE
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line] = b"\x00\x00 not a word\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(StudyError, match="damaged"):
        opened(tmp_path)


def test_without_optuna_it_says_what_to_install(tmp_path, monkeypatch):
    import sys

    from submarine_engine.errors import SubmarineError

    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SubmarineError, match="cannot be imported") as refused:
        opened(tmp_path)
    assert "install" in refused.value.fix


# Other programs write into the file, too.


ODD = ["soon", math.nan, 10**400, -1, [1], {"a": 1}, True, None, "\x1b[2J\u202e<b>"]


@pytest.mark.parametrize("noted", ODD, ids=lambda value: f"{value!r:.20}")
def test_notes_that_others_have_written_are_a_stranger_s(tmp_path, noted):
    study = opened(tmp_path)
    asked = study.ask()
    keys = ("submarine:seconds", "submarine:error", "submarine:retry_of")
    theirs = optuna.load_study(study_name="sweep-1", storage=open_storage(tmp_path))
    state = optuna.trial.TrialState.FAIL
    made = optuna.trial.create_trial(state=state, user_attrs=dict.fromkeys(keys, noted))
    theirs.add_trial(made)
    study = opened(tmp_path)
    told = study.results()[1]
    assert told.seconds is None or 0 <= told.seconds < 1e9
    assert not {"\x1b", "\u202e"} & {*told.error}
    assert told.retry_of in (None, -1, 10**400)
    study.tell(asked.number, None, error="ValueError: no")
    assert study.again([asked.number]) == 1
    assert study.ask().params == asked.params


def test_trials_of_another_program_are_none_of_ours(tmp_path):
    study = opened(tmp_path)
    ours = study.ask()
    theirs = optuna.load_study(study_name="sweep-1", storage=open_storage(tmp_path))
    theirs.optimize(lambda trial: trial.suggest_float("x", 0, 1) + 100, n_trials=2)
    trial = theirs.ask()
    trial.suggest_float("x", 0, 1)  # it runs
    again = opened(tmp_path)
    assert [asked.number for asked in again.running()] == [ours.number]
    again.tell(ours.number, [1.0])
    assert again.best()[0].number == ours.number
    assert [told.state for told in again.results()] == [
        "complete",
        "complete",
        "complete",
        "running",
    ]
    asked = again.ask()
    assert asked.params.keys() == ours.params.keys()
    assert again.tell(asked.number, [2.0])


def test_a_study_that_lost_trials_which_have_begun_is_not_gone_on_with(tmp_path):
    study = opened(tmp_path)
    numbers = [study.ask().number for _ in range(3)]
    path = tmp_path / STUDY_FILE
    whole = path.read_bytes()
    refused = 0
    for end in [at + 1 for at, byte in enumerate(whole) if byte == 10][3:]:
        for more in (0, 7):  # in the middle of the next line, too
            path.write_bytes(whole[: end + more])
            cut = opened(tmp_path)
            try:
                cut.check(numbers)
            except StudyError as error:
                assert "cut off" in str(error)  # noqa: PT017 - each is one or the other
                refused += 1
            else:
                assert [told.params for told in cut.results()] == [
                    t.params for t in study.results()
                ]
    assert refused
    path.write_bytes(whole)
    opened(tmp_path).check(numbers)


def test_a_word_without_room_leaves_nothing_behind(tmp_path):
    import resource

    study = opened(tmp_path)
    path = tmp_path / STUDY_FILE
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            study.ask()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes().endswith(b"\n")
    assert opened(tmp_path).ask().number == 0


def test_a_sampler_whose_package_is_missing_names_it(monkeypatch):
    from submarine_engine.errors import SubmarineError
    from submarine_engine.sweeps import study

    assert study.import_optuna("cmaes") is optuna
    monkeypatch.setattr(study, "find_spec", lambda _: None)
    with pytest.raises(SubmarineError, match="needs the package cmaes") as refused:
        study.import_optuna("cmaes")
    assert "another sampler" in refused.value.fix
    study.import_optuna("tpe")
