"""Laws of the life cycle: they hold for any events in any order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.events import (
    CancelRequested,
    Event,
    Exited,
    Finished,
    Granted,
    MasterStarted,
    Moment,
    Progressed,
    Released,
    Retried,
    Returned,
    Started,
    Submitted,
    Waiting,
    Warned,
)
from submarine_engine.job import JobState, TaskState
from submarine_engine.lifecycle import JobStatus, apply, fold

TASKS = ("worker-0", "worker-1", "ps-0")
TASK = st.sampled_from([*TASKS, "stranger-9"])
GPUS = st.sampled_from([(), ("0",), ("1", "2")])

EVENTS = st.one_of(
    st.builds(Submitted, gpus=st.integers(0, 4), tasks=st.just(TASKS)),
    st.builds(Waiting, ahead=st.integers(0, 9), reason=st.sampled_from(["", "full"])),
    st.builds(
        Granted,
        task=TASK,
        host=st.just("h"),
        container=st.just("c"),
        gpus=GPUS,
        attempt=st.integers(1, 3),
    ),
    st.builds(MasterStarted, seconds=st.floats(0, 9)),
    st.builds(Started, task=TASK),
    st.builds(Warned, text=st.sampled_from(["", "it hangs"])),
    st.builds(Progressed, task=TASK, fraction=st.floats()),
    st.builds(Returned, task=TASK),
    st.builds(Exited, task=TASK, exit_code=st.integers(-15, 3)),
    st.builds(Released, task=TASK),
    st.builds(Retried, attempt=st.integers(1, 4), counted=st.booleans()),
    st.builds(CancelRequested, reason=st.sampled_from(["", "bored"])),
    st.builds(Finished, state=st.sampled_from(JobState)),
)


def in_time(events: list[Event]) -> list[Event]:
    """Let one second pass between events; the wall clock runs backwards, and nobody minds."""
    return [replace(event, at=Moment(-i, i)) for i, event in enumerate(events)]


# A job is on record before anything else happens to it, as on a real cluster.
STREAMS = (
    st.lists(EVENTS, max_size=40)
    .map(lambda events: [Submitted(gpus=2, tasks=TASKS), *events])
    .map(in_time)
)


def statuses(events: list[Event]) -> list[JobStatus]:
    """Return the status after each event."""
    found = [JobStatus()]
    for event in events:
        found.append(apply(found[-1], event))
    return found


@given(STREAMS)
def test_a_final_state_is_final(events):
    over = None
    for status in statuses(events):
        if over:
            assert replace(status, tasks=()) == replace(over, tasks=())
            released = [replace(task, released=None) for task in status.tasks]
            assert released == [replace(task, released=None) for task in over.tasks]
        elif status.state.final:
            over = status


@given(STREAMS, st.integers(0, 41))
def test_a_stream_may_be_folded_in_pieces(events, cut):
    assert fold(events[cut:], fold(events[:cut])) == fold(events)


@given(STREAMS)
def test_an_event_told_twice_counts_once(events):
    status = JobStatus()
    for event in events:
        status = apply(status, event)
        assert apply(status, event) == status


@given(STREAMS)
def test_a_task_goes_forward_only(events):
    rank = [TaskState.PENDING, TaskState.STARTING, TaskState.RUNNING]
    before = JobStatus()
    for status in statuses(events)[1:]:
        for old, new in zip(before.tasks, status.tasks, strict=False):
            anew = TaskState.PENDING, TaskState.STARTING
            again = new.attempt > old.attempt and new.state in anew
            if old.state.final:
                assert new.state is old.state or again
            elif not new.state.final and not again:
                assert rank.index(new.state) >= rank.index(old.state)
        before = status


@given(STREAMS)
def test_the_moments_of_a_task_are_complete_and_in_order(events):
    for task in fold(events).tasks:
        stages = [task.queued, task.held, task.busy, task.returned, task.exited]
        reached = [moment.mono for moment in stages if moment]
        assert reached == sorted(reached)
        assert task.queued
        assert task.held or not (task.busy or task.released)
        assert task.busy or not task.returned
        assert task.exited or not task.state.final
        assert not task.released or task.held.mono <= task.released.mono


@given(STREAMS)
def test_after_the_end_every_task_is_over(events):
    status = fold(events)
    assert status.state.final == (status.finished is not None)
    if status.state.final:
        assert all(task.state.final for task in status.tasks)
        assert status.ahead is None


@given(STREAMS)
def test_every_granted_gpu_is_held_or_released(events):
    status = fold(events)
    released = sum(len(task.gpus) for task in status.tasks if task.released)
    granted = sum(len(task.gpus) for task in status.tasks if task.held)
    assert status.ledger.held_now + released == granted
    everything_back = [*events, *(Released(task=task) for task in TASKS)]
    assert fold(everything_back).ledger.held_now == 0


@given(STREAMS)
def test_the_ledger_never_counts_more_time_than_there_was(events):
    status = fold(events)
    now = Moment(0, len(events))
    seconds = status.ledger.seconds(now)
    assert set(seconds) == {"queued", "held", "busy"}
    elapsed = status.submitted.until(status.finished or now)
    assert all(0 <= value <= elapsed for value in seconds.values())
    if len([task for task in status.tasks if task.held]) <= 1 and status.finished:
        assert all(sum(task_seconds(task, status.finished)) <= elapsed for task in status.tasks)


def task_seconds(task, end):
    """Return the seconds of one task's stages, as the ledger counts them."""
    one = JobStatus(submitted=task.queued, finished=end, tasks=(task,))
    return one.ledger.seconds(end).values()


@given(STREAMS)
def test_progress_is_a_fraction(events):
    progress = fold(events).progress
    assert progress is None or 0 <= progress <= 1


@given(STREAMS)
def test_a_stranger_changes_nothing(events):
    known = [event for event in events if getattr(event, "task", TASKS[0]) in TASKS]
    assert fold(events) == fold(known)
