"""What a controller tells of its sweep: bounded, the same as the study, also after a kill."""

import dataclasses
import math
from types import SimpleNamespace

import pytest
from submarine_engine.sweeps.plan import SweepPlan
from submarine_engine.sweeps.record import SweepRecord
from submarine_engine.sweeps.rows import RowsReader, RowsWriter, TrialRow, row_of
from submarine_engine.sweeps.space import Space
from submarine_engine.sweeps.study import Study, TrialResult
from submarine_engine.sweeps.summary import FILE, Summarizer, read_summary

from tests.sweeps.programs import run_program


@pytest.fixture
def sweep(tmp_path):
    """Make a sweep of so many trials, told one by one, and what tells of it."""

    def sweep(way="minimize", trials=300, **given):
        plan = SweepPlan(
            objectives=(("loss", way),), trials=trials, sampler="random", gpus=2, **given
        )
        space = Space.of("rate=loguniform(1e-4, 1e-1); units=[32, 64]")
        record = SweepRecord(folder=tmp_path, name="train", plan=plan, space=space)
        study = Study(tmp_path, record.study_name, plan, space)
        pool = SimpleNamespace(holding=1, most=4)
        summarizer = Summarizer(tmp_path, study)

        def run(values, errors=()):
            for number, value in enumerate(values):
                asked = study.ask()
                error = "raised ValueError: no\nat all" if number in errors else ""
                study.tell(asked.number, None if error else [value], error=error, seconds=1.0)
                summarizer.ended(study.result_of(asked.number))

        def look(goes_on=()):
            summarizer.update(record, pool, dict(goes_on), now=True)
            return read_summary(tmp_path)

        return SimpleNamespace(**locals())

    return sweep


@pytest.mark.parametrize("way", ["minimize", "maximize"])
def test_the_best_come_first_and_the_newest_are_there(sweep, way):
    one = sweep(way)
    values = [math.sin(number) for number in range(200)]
    one.run(values, errors={7})
    found = one.look()
    order = sorted((n for n in range(200) if n != 7), key=lambda n: values[n])
    order = order if way == "minimize" else order[::-1]
    assert [row.number for row in found.best] == order[:10]
    assert found.best[0].number == one.study.best()[0].number
    assert [row.number for row in found.newest] == list(range(199, 189, -1))
    assert dict(found.states) == {"complete": 199, "failed": 1}
    assert (found.total, found.unit, found.held, found.most) == (300, "GPU", 2, 8)
    assert len(found.history) == 100
    assert (found.history[0][0], found.history[-1][0]) == (0, 199)
    assert found.improved[-1] == (order[0], pytest.approx(values[order[0]]))
    assert found.until > found.began


@pytest.mark.long
def test_it_has_a_bound_however_much_there_is(sweep, tmp_path):
    one = sweep()
    one.run([1 / (number + 1) for number in range(300)], errors={299})
    for number in range(1000):
        one.pool.holding = number % 5
        found = one.look()
    assert len(found.improved) == 100
    assert len(found.holding) <= 201
    assert found.newest[0].error == "raised ValueError: no"
    assert found.until is None
    assert (tmp_path / FILE).stat().st_size < 30_000


def test_trials_that_go_on_have_the_state_that_the_controller_gives_them(sweep):
    one = sweep()
    numbers = [one.study.ask().number for _ in range(3)]
    one.study.report(1, 0, 0.25)
    words = zip(numbers, ("waiting", "running", "paused"), strict=True)
    found = one.look(words)
    assert [(row.number, row.state) for row in found.newest] == [
        (2, "paused"), (1, "running"),
    ]  # fmt: skip
    assert [row.number for row in found.open] == [1, 2, 0]
    assert found.newest[1].values == (0.25,)
    assert dict(found.states) == {"running": 1, "paused": 1, "waiting": 1}


def test_who_takes_over_goes_on_with_what_was_held(sweep, tmp_path):
    one = sweep()
    one.look()
    one.pool.holding = 3
    before = one.look()
    later = Summarizer(tmp_path, one.study)
    one.pool.holding = 0
    later.update(one.record, one.pool, {}, now=True)
    after = read_summary(tmp_path)
    assert after.began == before.began
    assert [number for _, number in after.holding] == [2, 6, 0]


def test_a_full_disk_ends_no_sweep(sweep, tmp_path):
    one = sweep()
    (tmp_path / FILE).mkdir()
    assert one.look() is None


def test_a_sweep_tells_its_card_all_that_it_found(tmp_path):
    told, _ = run_program(
        tmp_path,
        """
        from submarine_engine.history import JobPaths, default_home
        from submarine_engine.sweeps.summary import read_summary

        def some(x):
            if x == 3: raise ValueError("no threes")
            return x

        found = search(some, {"x": range(12)}, sampler="grid")
        told = read_summary(JobPaths(default_home(), found.job_id).task("worker-0").root)
        print(json.dumps([dict(told.states), found.counts(), told.best[0].values, told.total,
                          told.unit, [n for _, n in told.holding], told.held]))
        """,
    )
    states, counts, best, total, unit, holding, held = told
    assert states == counts == {"complete": 11, "failed": 1}
    assert (best, total, unit) == ([0], 12, "worker")
    assert max(holding) >= 1
    assert held == holding[-1] == 0


def test_all_trials_that_have_ended_are_in_a_file_of_rows(sweep, tmp_path):
    one = sweep()
    one.run([1 / (number + 1) for number in range(120)], errors={7})
    one.study.ask()
    one.study.report(120, 0, 0.5)
    one.study.report(120, 1, 0.25)
    found = one.look({120: "running"})
    rows = RowsReader(tmp_path).read()
    assert list(rows) == list(range(120))
    assert (rows[7].state, rows[7].error) == ("failed", "raised ValueError: no")
    assert (rows[3].values, rows[3].params[1]) == ((0.25,), one.study.result_of(3).params["units"])
    assert [(row.number, row.curve) for row in found.open] == [(120, ((0, 0.5), (1, 0.25)))]
    assert (tmp_path / "trials.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_trial_that_goes_on_stays_listed_though_many_newer_began(sweep):
    one = sweep()
    slow = one.study.ask().number
    one.run([1.0] * 30)
    found = one.look({slow: "running"})
    assert slow not in [row.number for row in found.newest]
    assert [row.number for row in found.open] == [slow]


def test_rows_are_read_as_they_come_and_anew_after_a_take_over(sweep, tmp_path):
    one = sweep()
    reader = RowsReader(tmp_path)
    assert reader.read() == {}
    one.run([1.0, 2.0])
    one.look()
    assert list(reader.read()) == [0, 1]
    one.run([3.0])
    one.look()
    assert list(reader.read()) == [0, 1, 2]
    later = Summarizer(tmp_path, one.study)
    for told in one.study.results():
        later.ended(told, before=True)
    later.update(one.record, one.pool, {}, now=True)
    assert [row.values for row in reader.read().values()] == [(1.0,), (2.0,), (3.0,)]


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b"null", b"[" * 5000, b'{"number": 1}', b"\xff", b"x" * 70_000,
     b'{"number":1,"state":"a","values":[NaN],"params":[],"seconds":null,"error":"","curve":[]}',
     b'{"number":1,"state":"a","values":[' + b"9" * 400 + b'],"params":[],"seconds":null,'
     b'"error":"","curve":[]}',
     b'{"number":1e999,"state":"a","values":[],"params":[],"seconds":2,"error":"","curve":[]}'],
)  # fmt: skip
def test_a_line_that_is_no_row_is_passed_over(tmp_path, line):
    writer = RowsWriter(tmp_path)
    row = TrialRow(number=3, state="complete", values=(1.0,), params=())
    writer.add(row)
    writer.write()
    with (tmp_path / "trials.jsonl").open("ab") as file:
        file.write(line + b"\n")
    writer.add(dataclasses.replace(row, number=4))
    writer.write()
    assert list(RowsReader(tmp_path).read()) == [3, 4]


@pytest.mark.parametrize("value", [10**400, 10**5000, math.inf, "\x1b[2J\u202ea"], ids=range(4))
def test_any_parameter_is_a_short_text_or_a_number_that_json_holds(tmp_path, value):
    told = TrialResult(0, "complete", {"rate": value}, (1.0,), "", 1.0)
    writer = RowsWriter(tmp_path)
    writer.add(row_of(told, ["rate"], 1))
    writer.write()
    (shown,) = RowsReader(tmp_path).read().values()
    assert not {"\x1b", "\u202e"} & {*str(shown.params[0])}
    assert len(str(shown.params[0])) <= 100


def test_a_link_is_no_file_of_rows(tmp_path):
    (tmp_path / "other").write_text("")
    (tmp_path / "trials.jsonl").symlink_to(tmp_path / "other")
    assert RowsReader(tmp_path).read() == {}


def test_what_matters_is_optunas_word(sweep):
    one = sweep("maximize")
    assert one.look().importance == ()
    for _ in range(60):
        asked = one.study.ask()
        one.study.tell(asked.number, [asked.params["rate"]])
        one.summarizer.ended(one.study.result_of(asked.number))
    told = one.look().importance
    assert [name for name, _ in told] == ["rate", "units"]
    assert sum(part for _, part in told) == pytest.approx(1, abs=1e-3)
    assert told[0][1] > 0.8
