"""The card in a page that a server feeds: its tree has all that the page draws."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace

import pytest
from submarine_engine.history import make_private
from submarine_engine.job import JobSpec
from submarine_engine.serving.record import FrontState, ServingRecord
from submarine_engine.stacks import Stacks, Step, TaskStacks, Thread
from submarine_engine.traceback import Frame
from submarine_magics.card import view
from submarine_magics.card.served import Extras, corners, measured, served_tree, stacks_tree
from submarine_magics.card.trying import Trying, read_trying

FRAMES = [
    {"cell": "In [2]", "cell_id": "c2", "line": 6, "function": "<module>", "text": "train()"},
    {"cell": "net.py", "cell_id": "", "line": 3, "function": "f", "text": "1 / 0"},
]
EVERYTHING = Extras(
    frames=FRAMES, scalars={"loss": [(1, 2.0), (5, 0.25)]}, tensorboard=True, can_save=True
)


@pytest.fixture
def draw(stage):
    def draw(name="running", extras=EVERYTHING, **changes):
        card = view(stage.record(**changes), stage.statuses[name], stage.at(14))
        return served_tree(card, extras).to_json()

    return draw


def elements(part):
    """Yield each element of a tree."""
    if isinstance(part, list):
        yield part
        for child in part[2]:
            yield from elements(child)


def words(part):
    return part if isinstance(part, str) else "".join(map(words, part[2]))


def named(part, attribute):
    return {each[1][attribute]: each for each in elements(part) if attribute in each[1]}


def test_the_page_s_script_knows_each_element_and_attribute(draw):
    script = files("submarine_magics.card").joinpath("tree.js").read_text()
    sets = dict(re.findall(r"const (\w+) = new Set\((.*?)\);", script, re.DOTALL))
    tags, attributes = (set(re.findall(r"[\w-]+", sets[name])) for name in ("TAGS", "ATTRIBUTES"))
    every = replace(EVERYTHING, trying=Trying(port=1, path="invocations", body="{}"))
    for state in ("running", "failed", "queued", "team"):
        for tag, given, _ in elements(draw(state, every)):
            assert tag in tags
            plain = {key for key in given if not key.startswith(("aria-", "data-"))}
            assert plain <= attributes | {"class", "grow", "width"}


def test_a_running_job_can_be_looked_at_saved_and_ended(draw):
    tree = draw()
    assert set(named(tree, "data-action")) == {
        "log", "stacks", "terminal", "tensorboard", "save", "cancel", "kill", "jump",
    }  # fmt: skip
    bare = set(named(draw(extras=Extras()), "data-action"))
    assert bare == {"log", "stacks", "terminal", "cancel", "kill"}
    for waits in ("queued", "starting"):  # nothing runs that could stand anywhere
        assert set(named(draw(waits, Extras()), "data-action")) == {"log", "cancel", "kill"}
    assert set(named(draw("succeeded", Extras()), "data-action")) == {"log", "again"}
    slots = named(tree, "data-slot")
    assert set(slots) >= {"form", "saves", "saved", "unsaved", "problem", "jump", "note"}
    waiting = (slots[name] for name in ("form", "saved", "unsaved", "problem", "jump", "note"))
    assert all("hidden" in part[1] for part in waiting)


def test_the_failing_lines_lead_to_their_cells(draw):
    tree = draw("failed")
    (jump,) = [part for part in elements(tree) if part[1].get("data-action") == "jump"]
    assert jump[1].items() >= {
        "data-cell": "c2", "data-line": "6", "data-named": "In [2]",
    }.items()  # fmt: skip
    listed = [words(part) for part in elements(tree) if part[0] == "li" and "title" not in part[1]]
    assert listed[:2] == ["In [2], line 6train()", "net.py, line 3, in f1 / 0"]


def test_what_a_notebook_does_not_keep_has_its_place_in_what_it_keeps(draw):
    served, saved = draw(), draw(extras=Extras(), script_name="")
    assert len(served[2]) == len(saved[2])
    kept = [at for at, part in enumerate(served[2]) if part and "data-kept" in part[1]]
    assert [saved[2][at] for at in kept] == ["", ""]
    assert [served[2][at][1]["class"] for at in kept] == ["smc-scalars", "smc-script"]


def test_hostile_names_stay_text(draw):
    tag = "\u202eloss<b>"
    text = json.dumps(draw(extras=Extras(scalars={tag: [(1, 2.0)]})), ensure_ascii=False)
    assert "\u202e" not in text
    assert "[U+202E]loss<b>" in text


@pytest.mark.parametrize(
    "points", [[(0, 1.0)], [(0, 2.0), (9, 2.0)], [(1, -1.7e308), (2, 0.0), (3, 1.7e308)]]
)
def test_a_curve_stays_within_its_area(points):
    drawn = corners(points)
    assert len(drawn) == len(points)
    assert all(0 <= x <= 120 and 0 <= y <= 26 for x, y in drawn)


def places(*stood):
    """Return stacks of ranks that stand there: a frame of their own, and a library's."""
    tasks = [
        TaskStacks(
            f"worker-{rank}",
            "gpu-1",
            (Thread((Step("s.py", 1, own.function, own), Step("/l/x.py", 2, "wait", None))),)
            if own
            else (),
        )
        for rank, own in enumerate(stood)
    ]
    return Stacks(1.0, tuple(tasks), {task.task: rank for rank, task in enumerate(tasks)})


def test_tasks_stand_side_by_side_the_odd_one_first_and_their_words_stay_text():
    there = Frame("In [2]", 6, "train", "loss.backward() <b>\u202e")
    away = Frame("In [1]", 3, "load", "read()")
    tree = stacks_tree(places(there, away, there, None)).to_json()
    shown = [part for part in elements(tree) if part[1].get("class") == "smc-place"]
    assert [words(part).partition("In [")[0] for part in shown[1:]] == ["rank 1", "ranks 0, 2"]
    assert words(shown[0]).startswith("rank 3no answer from gpu-1")
    told = words(shown[2])
    assert "In [2], line 6, in train" in told
    assert "loss.backward() <b>[U+202E]→ wait" in told
    assert "1 thread of worker-0main thread:\n  In [2], line 6" in told
    script = files("submarine_magics.card").joinpath("tree.js").read_text()
    tags = re.findall(r"[\w-]+", re.search(r"TAGS = new Set\((.*?)\);", script, re.DOTALL)[1])
    assert {part[0] for part in elements(tree)} <= set(tags)


def test_a_served_model_has_a_form_to_try_it_by(draw):
    trying = Trying(port=4711, path="invocations", body='{"x": "</textarea><b>\u202e"}')
    tree = draw(extras=Extras(trying=trying))
    slots = named(tree, "data-slot")
    assert slots["try"][1]["data-to"] == "4711/invocations"
    assert {"sends", "tried", "untried", "answer"} <= set(slots)
    (body,) = (part for part in elements(tree) if part[0] == "textarea")
    assert body[2] == ['{"x": "</textarea><b>[U+202E]"}']
    assert "try" not in named(draw(extras=Extras()), "data-slot")
    assert "try" not in named(draw("succeeded", Extras(trying=trying)), "data-slot")


def test_only_a_front_that_serves_can_be_tried(tmp_path):
    home = tmp_path / "home"
    job = SimpleNamespace(id="20260101-000000-aaaaa", cluster=SimpleNamespace(home=home))
    assert read_trying(job, JobSpec(name="digits")) is None
    record = ServingRecord(
        folder=make_private(home / "servings" / "digits"), cluster="local", port=4711,
        workdir="/", takes={"width": 2}, jobs=(job.id,),
    )  # fmt: skip
    record.write()
    assert read_trying(job, JobSpec(name="digits")) is None  # nothing is ready
    record.tell(FrontState(job=job.id, serves=1, server="mlflow"))
    found = read_trying(job, JobSpec(name="digits"))
    assert found == Trying(port=4711, path="invocations", body='{"inputs": [[0.0, 0.0]]}')
    record.tell(FrontState(job=job.id, serves=1, server="mlserver"))
    assert read_trying(job, JobSpec(name="digits")).path == "v2/models/digits/infer"
    other = SimpleNamespace(id="20260101-000000-bbbbb", cluster=job.cluster)
    assert read_trying(other, JobSpec(name="digits")) is None  # a replica has the same name
    replace(record, takes={"width": 4096}).write()
    assert read_trying(job, JobSpec(name="digits")).body == ""  # too long for a card
    (home / "servings" / "digits" / "serving.json").write_text("{")
    assert read_trying(job, JobSpec(name="digits")) is None


def test_of_very_many_places_the_first_are_shown():
    tree = stacks_tree(places(*(Frame("In [2]", line, "f", "") for line in range(40)))).to_json()
    assert words(tree).endswith("… 8 places more")
    assert words(stacks_tree(places()).to_json()) == "No task runs now"


def test_a_job_without_scalars_has_no_curve(draw):
    assert "svg" not in {part[0] for part in elements(draw(extras=Extras(scalars={"x": []})))}


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0, "0"), (0.25, "0.25"), (1234.56, "1235"), (-3.0, "-3"), (1e-5, "1.00e-5"),
     (123456.0, "123500"), (2.5e6, "2.50e+6")],
)  # fmt: skip
def test_what_was_measured_is_told_in_few_digits(value, told):
    assert measured(value) == told
