"""Laws of how a job ends: the same on every cluster."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, example, given
from hypothesis import strategies as st
from submarine_engine.events import CancelRequested, Moment
from submarine_engine.job import JobState
from submarine_engine.lifecycle import TaskEnd, final_state

MOMENTS = st.integers(1, 9).map(lambda seconds: Moment(-seconds, seconds))
DONE = st.builds(
    TaskEnd,
    state=st.just(JobState.SUCCEEDED),
    at=MOMENTS,
    returned=st.none() | MOMENTS,
    to_its_end=st.booleans(),
)
BROKEN = st.builds(
    TaskEnd,
    state=st.sampled_from([JobState.FAILED, JobState.LOST]),
    reason=st.sampled_from(["exited with code 1", "ended by SIGKILL"]),
    at=st.none() | MOMENTS,
    returned=st.none() | MOMENTS,
)
ENDS = st.lists(DONE | BROKEN, min_size=1, max_size=4)
CANCELS = st.builds(CancelRequested, reason=st.sampled_from(["", "bored"]), at=MOMENTS)


@given(ENDS, st.none() | CANCELS, st.sampled_from(["", "its folder was deleted"]))
def test_a_job_whose_tasks_are_over_is_over(ends, cancelled, cause):
    state, _ = final_state(ends, cancelled=cancelled, cause=cause)
    assert state.final


@given(ENDS, CANCELS)
def test_a_cancelled_job_had_returned_or_handled_it_or_is_cancelled(ends, cancelled):
    state, reason = final_state(ends, cancelled=cancelled)
    returned = any(end.returned and end.returned.mono < cancelled.at.mono for end in ends)
    if returned or all(end.to_its_end for end in ends):
        assert (state, reason) == final_state(ends)
    else:
        assert (state, reason) == (JobState.CANCELLED, cancelled.reason)


@given(ENDS, CANCELS)
def test_what_returned_before_the_cancel_stays_so_however_late_that_is_seen(ends, cancelled):
    before = final_state(ends, cancelled=cancelled)
    assume(before[0] is not JobState.CANCELLED)
    later = replace(cancelled, at=Moment(0, cancelled.at.mono + 100))
    assert final_state(ends, cancelled=later) == before


@given(ENDS)
def test_one_task_that_failed_is_enough(ends):
    state, _ = final_state(ends)
    assert (state is JobState.SUCCEEDED) == all(end.state is JobState.SUCCEEDED for end in ends)


@given(st.lists(BROKEN.filter(lambda end: end.at is not None), min_size=1, max_size=4))
@example(
    [
        TaskEnd(state=JobState.FAILED, reason="connection lost", at=Moment(0, 2)),
        TaskEnd(state=JobState.FAILED, reason="division by zero", at=Moment(0, 1)),
    ]
)
@example(
    [
        TaskEnd(state=JobState.FAILED, reason="lost", at=Moment(0, 2), returned=Moment(0, 1.5)),
        TaskEnd(state=JobState.FAILED, reason="division", at=Moment(0, 2), returned=Moment(0, 1.4)),
    ]
)
def test_the_first_to_fail_speaks_for_the_job(ends):
    first = min(ends, key=lambda end: (end.returned or end.at).mono)  # as it says, if it does
    assert final_state(ends) == (first.state, first.reason)


@given(ENDS, st.none() | CANCELS)
def test_a_cause_of_ours_counts_until_a_function_has_returned(ends, cancelled):
    found = final_state(ends, cancelled=cancelled, cause="over its memory")
    without = final_state(ends, cancelled=cancelled)
    if without[0] is JobState.CANCELLED or any(end.returned for end in ends):
        assert found == without
    else:
        assert found == (JobState.FAILED, "over its memory")
