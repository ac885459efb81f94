"""Events: what a cluster wrote is what a front end reads."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine import events
from submarine_engine.events import EVENTS, Event, Finished, Moment, Started, event_from_json
from submarine_engine.job import JobState

TIMES = st.floats(0, 1e12)
VALUES = {
    "at": st.builds(Moment, TIMES, TIMES),
    "task": st.sampled_from(["worker-0", "ps-11"]),
    "failed_task": st.sampled_from(["", "worker-0"]),
    "tasks": st.lists(st.sampled_from(["worker-0", "ps-0"])).map(tuple),
    "gpus": st.lists(st.text()).map(tuple),
    "host": st.text(),
    "container": st.text(),
    "message": st.text(),
    "text": st.text(),
    "reason": st.text(),
    "ahead": st.integers(0, 10_000),
    "attempt": st.integers(1, 9),
    "counted": st.booleans(),
    "expired": st.booleans(),
    "unused": st.booleans(),
    "exit_code": st.integers(-64, 255),
    "fraction": st.floats(0, 1),
    "size": st.integers(0, 1 << 50),
    "seconds": st.floats(0, 1e6),
    "clock": st.none() | st.floats(0, 1e6),
    "state": st.sampled_from([state for state in JobState if state.final]),
}


def any_event(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Build events of that kind with every field filled."""
    fields = {field.name: VALUES[field.name] for field in dataclasses.fields(kind)}
    if kind is events.Submitted:
        fields["gpus"] = st.integers(0, 64)
    return st.builds(kind, **fields)


def test_every_event_is_on_the_list():
    kinds = {
        name
        for name, value in vars(events).items()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
    }
    assert kinds == set(EVENTS)


@given(st.sampled_from(list(EVENTS.values())).flatmap(any_event))
def test_an_event_survives_json(event):
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event


def test_fields_of_a_later_release_are_left_aside():
    started = Started(task="worker-0")
    assert event_from_json({**started.to_json(), "colour": "red"}) == started


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"event": "Exploded", "at": [0, 0]},
        {"event": "Event", "at": [0, 0]},
        {"event": "Started", "at": [0, 0]},
        {"event": "Started", "at": 0, "task": "worker-0"},
        {"event": "Finished", "at": [0, 0], "state": "tired"},
    ],
)
def test_what_is_no_event_is_refused(data):
    with pytest.raises((ValueError, KeyError, TypeError)):
        event_from_json(data)


def test_an_event_knows_when_it_was_made():
    before = Moment.now()
    event = Finished(state=JobState.SUCCEEDED)
    assert before.mono <= event.at.mono <= Moment.now().mono


@given(TIMES, TIMES, TIMES, TIMES)
def test_a_wall_clock_that_jumps_changes_no_duration(wall, later_wall, mono, seconds):
    elapsed = Moment(wall, mono).until(Moment(later_wall, mono + seconds))
    assert elapsed == max(0.0, (mono + seconds) - mono)


def test_a_duration_is_never_negative():
    assert Moment(100, 10).until(Moment(0, 5)) == 0
    # The machine was started anew in between: its monotonic clock began again.
    assert Moment(0, 10).until(Moment(100, 5)) == 100
