"""The trials of a sweep as the server draws them: all of them, sorted, by pages, two compared."""

from __future__ import annotations

import json

import pytest
from submarine_engine.history import JobPaths
from submarine_engine.map_summary import CallsWriter
from submarine_engine.pool.calls import Call, End
from submarine_engine.sweeps.rows import RowsWriter, TrialRow
from submarine_engine.sweeps.summary import Summary

from tests.jobs import until

NOWHERE = "20260101-000000-aaaaa"
HOSTILE = "</td><script>alert(1)</script>\u202e"


def row(number, state="complete", value=0.5, **given):
    return TrialRow(
        number=number, state=state, values=(value,), params=(number / 1000, f"u{number % 3}"),
        seconds=1.0, **given,
    )  # fmt: skip


@pytest.fixture
def sweep(submit, module_home):
    """Return the id of a job that has run a sweep of 1,000 trials, one of which failed."""
    job_id = submit("print('hello')")
    until(lambda: submit.cluster.status(job_id).state.final)
    folder = JobPaths(module_home, job_id).task("worker-0").root
    rows = [row(number, value=((number * 37) % 1000) / 10) for number in range(1000)]
    rows[7] = row(7, "failed", "", error=HOSTILE)
    rows[3] = row(3, value=90.0, curve=((0, 2.0), (1, 1.0)))
    writer = RowsWriter(folder)
    for one in rows:
        writer.add(one)
    writer.write()
    Summary(
        objectives=(("loss", "minimize"),), params=("rate", "units"), total=1000,
        states=(("complete", 999), ("failed", 1)), bests=1, best=(rows[0],), newest=(rows[999],),
        pool=NOWHERE,
    ).write(folder)  # fmt: skip
    return job_id


def asked(server, sweep, **query):
    words = "&".join(f"{name}={value}" for name, value in query.items())
    answer = server.get(f"/api/jobs/{sweep}/trials?{words}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def rows_of(found):
    """Return the cells of the first table's rows."""
    return [[text_of(cell) for cell in one[2]] for one in tagged(found["inside"], "tr")[1:]]


def tagged(part, tag):
    if not part or isinstance(part, str):
        return []
    if isinstance(part[0], str) and len(part) == 3 and isinstance(part[1], dict):
        return ([part] if part[0] == tag else []) + tagged(part[2], tag)
    return [found for one in part for found in tagged(one, tag)]


def text_of(part):
    return part if isinstance(part, str) else "".join(map(text_of, part[2]))


@pytest.mark.long
def test_all_trials_are_reached_a_page_at_a_time(server, sweep):
    found = asked(server, sweep, every=1, column=0, down=0, start=950)
    assert found["total"] == 1000
    assert [cells[0] for cells in rows_of(found)] == [str(number) for number in range(950, 1000)]
    past = asked(server, sweep, every=1, column=0, down=0, start=5000)
    assert rows_of(past)[0][0] == "950"


def test_they_are_sorted_by_any_column_with_what_is_missing_at_the_end(server, sweep):
    up = rows_of(asked(server, sweep, every=1, column=2, down=0))
    assert [float(cells[3]) for cells in up] == sorted(float(cells[3]) for cells in up)
    assert up[0][0] == "0"
    for down in (0, 1):
        last = rows_of(asked(server, sweep, every=1, column=2, down=down, start=950))[-1]
        assert last[0] == "7"
    by_text = rows_of(asked(server, sweep, every=1, column=4, down=1))
    assert {cells[5] for cells in by_text} == {"u2"}
    assert rows_of(asked(server, sweep, every=1, column=40))  # one that there is not


def test_what_is_hostile_stays_text(server, sweep):
    found = asked(server, sweep, every=1, column=6, down=1)
    assert rows_of(found)[0][0] == "7"
    assert "\u202e" not in json.dumps(found, ensure_ascii=False)
    assert tagged(found["inside"], "script") == []


def test_two_are_compared_and_one_is_opened(server, sweep):
    found = asked(server, sweep, pins="3,4", open=4)
    words = " ".join(map(text_of, found["inside"]))
    assert "Trial 3 compared with trial 4" in words
    assert "Both ran the same script" in words
    differ = {text_of(one[2][0]) for one in tagged(found["inside"], "tr")
              if one[1].get("data-differs") == "true"}  # fmt: skip
    assert differ == {"loss", "rate", "units"}
    assert "It has written nothing to its log." in words  # its pool is gone
    assert len(tagged(found["inside"], "polyline")) == 3
    assert "Pin one more" in " ".join(map(text_of, asked(server, sweep, pins="3")["inside"]))
    assert asked(server, sweep, pins="5000,6000", open=7000)["total"] == 1000


def test_what_is_no_question_is_refused(server, sweep):
    for query in ("pins=a", "pins=1,2,3", "column=-1", "every=2", "start=x", "open=-1"):
        answer = server.get(f"/api/jobs/{sweep}/trials?{query}")
        assert (query, answer.status_code) == (query, 400)
        assert answer.json()["fix"]


def test_a_map_s_calls_are_drawn_and_one_is_opened(server, submit, module_home):
    job_id = submit("print('hello')")
    until(lambda: submit.cluster.status(job_id).state.final)
    writer = CallsWriter(JobPaths(module_home, job_id).task("worker-0").root, NOWHERE, gpus=0)
    for index in range(3):
        writer.began(Call(index, b"", HOSTILE))
    writer.ended(Call(1, b"", HOSTILE), End(outcome="error", seconds=1.0), f"raised {HOSTILE}")
    writer.update(3, 1, now=True)
    found = asked(server, job_id, open=2)
    words = " ".join(map(text_of, found["inside"]))
    assert found["total"] == 3
    assert "Failed 1 call" in words
    assert "It has written nothing to its log." in words
    assert "\u202e" not in words
    assert asked(server, job_id, open=900)["total"] == 3


def test_a_job_that_runs_no_sweep_says_so(server, submit):
    job_id = submit("print(1)")
    answer = server.get(f"/api/jobs/{job_id}/trials")
    assert answer.status_code == 409
    assert "no sweep" in answer.json()["what"]
