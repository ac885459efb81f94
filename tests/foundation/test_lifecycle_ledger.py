"""The life of one job, told event by event, and what the ledger says of it."""

from __future__ import annotations

from dataclasses import replace

from submarine_engine.events import (
    CancelRequested,
    Exited,
    Finished,
    Granted,
    Moment,
    Progressed,
    Released,
    Returned,
    Started,
    Submitted,
    Waiting,
)
from submarine_engine.job import JobState, TaskState
from submarine_engine.lifecycle import fold

WORKER = "worker-0"


def at(second: float) -> Moment:
    return Moment(1_000_000 + second, second)


def granted(second: float, task: str = WORKER, gpus=("0", "1"), attempt: int = 1) -> Granted:
    return Granted(at=at(second), task=task, host="h", container="c", gpus=gpus, attempt=attempt)


SUBMITTED = Submitted(at=at(0), gpus=2, tasks=(WORKER,))
LIFE = (
    SUBMITTED,
    Waiting(at=at(0), ahead=3, reason="4 GPUs are busy"),
    granted(10),
    Started(at=at(11), task=WORKER),
    Progressed(at=at(20), task=WORKER, fraction=0.5, message="epoch 5"),
    Returned(at=at(31), task=WORKER),
    Exited(at=at(31.02), task=WORKER, exit_code=0),
    Released(at=at(31.05), task=WORKER),
    Finished(at=at(31.06), state=JobState.SUCCEEDED),
)


def test_a_waiting_job_says_where_it_stands():
    status = fold(LIFE[:2])
    assert (status.state, status.ahead, status.waiting_reason) == (
        JobState.QUEUED, 3, "4 GPUs are busy",
    )  # fmt: skip
    assert (status.ledger.gpus, status.ledger.held_now) == (2, 0)


def test_gpus_are_held_from_the_grant_and_busy_from_the_start():
    held = fold(LIFE[:3])
    assert (held.state, held.ledger.held_now, held.ahead) == (JobState.STARTING, 2, None)
    busy = fold(LIFE[:4])
    assert (busy.state, busy.task(WORKER).state) == (JobState.RUNNING, TaskState.RUNNING)
    assert busy.ledger.seconds(at(15)) == {"queued": 10, "held": 1, "busy": 4}


def test_a_container_that_was_seen_late_was_given_when_its_code_began():
    status = fold([*LIFE[:2], granted(12), *LIFE[3:]])
    assert status.task(WORKER).held == at(11)
    assert status.ledger.seconds(at(1e9)) == {"queued": 11, "held": 0, "busy": 20}


def test_a_machine_that_was_started_anew_tells_no_earlier_grant():
    anew = replace(LIFE[3], at=Moment(1_000_011, 0.5))  # its other clock has begun again
    assert fold([*LIFE[:3], anew]).task(WORKER).held == at(10)


def test_the_ledger_of_a_whole_life():
    status = fold(LIFE)
    ledger = status.ledger
    assert (status.state, status.progress) == (JobState.SUCCEEDED, 1.0)
    assert ledger.seconds(at(1e9)) == {"queued": 10, "held": 1, "busy": 20}
    assert round(ledger.released_after, 3) == 0.05
    assert (ledger.gpus, ledger.held_now) == (2, 0)


def test_progress_is_the_mean_of_those_that_tell():
    tasks = ("worker-0", "worker-1", "worker-2")
    events = [Submitted(at=at(0), gpus=0, tasks=tasks)]
    for task in tasks:
        events += [granted(1, task, ()), Started(at=at(1), task=task)]
    assert fold(events).progress is None
    events += [
        Progressed(at=at(2), task="worker-0", fraction=0.25),
        Progressed(at=at(2), task="worker-1", fraction=7),
    ]
    assert fold(events).progress == 0.625


def test_gpus_may_come_back_after_the_end():
    late = (*LIFE[:7], LIFE[8], Released(at=at(40), task=WORKER))
    assert fold(late[:-1]).ledger.held_now == 2
    assert fold(late[:-1]).ledger.released_after is None
    assert fold(late).ledger.held_now == 0


def test_a_task_that_never_returned_is_released_after_its_exit():
    events = (
        *LIFE[:4],
        Exited(at=at(12), task=WORKER, exit_code=-9),
        Released(at=at(13), task=WORKER),
    )
    status = fold(events)
    assert status.task(WORKER).state is TaskState.FAILED
    assert status.ledger.released_after == 1


def test_a_cancelled_task_was_killed_unless_it_ended_well():
    def ended(exit_code):
        cancelled = (*LIFE[:4], CancelRequested(at=at(12), reason="bored"))
        return fold((*cancelled, Exited(at=at(13), task=WORKER, exit_code=exit_code)))

    assert ended(-15).task(WORKER).state is TaskState.KILLED
    assert ended(0).task(WORKER).state is TaskState.SUCCEEDED
    assert ended(0).cancelling
    assert ended(0).reason == "bored"


def test_a_job_that_ends_while_it_waits_held_nothing():
    status = fold((SUBMITTED, Finished(at=at(5), state=JobState.CANCELLED, reason="bored")))
    assert status.task(WORKER).state is TaskState.KILLED
    assert status.ledger.held_now == 0
    assert status.ledger.released_after is None
    assert status.ledger.seconds(at(100)) == {"queued": 5, "held": 0, "busy": 0}


def test_what_had_not_begun_may_be_given_anew():
    again = replace(granted(50, gpus=("3",)), container="another")
    task = fold([SUBMITTED, granted(10), again]).task(WORKER)
    assert (task.attempt, task.container, task.gpus, task.held) == (1, "another", ("3",), at(50))
    repeated = fold([SUBMITTED, granted(10), granted(50)]).task(WORKER)
    assert repeated.held == at(10)
    begun = fold([SUBMITTED, granted(10), Started(task=WORKER, at=at(20)), again]).task(WORKER)
    assert begun.container == "c"


def test_a_second_attempt_begins_anew():
    again = granted(50, gpus=("3",), attempt=2)
    status = fold((*LIFE[:4], Exited(at=at(40), task=WORKER, exit_code=1),
                   Released(at=at(41), task=WORKER), again))  # fmt: skip
    task = status.task(WORKER)
    assert (task.attempt, task.state, task.gpus) == (2, TaskState.STARTING, ("3",))
    assert (task.busy, task.exited, task.released) == (None, None, None)
    assert status.ledger.held_now == 1


def test_an_unfinished_finish_is_no_finish():
    assert fold((*LIFE[:4], Finished(state=JobState.RUNNING))) == fold(LIFE[:4])


def test_a_task_knows_its_role():
    assert fold([SUBMITTED]).task(WORKER).role == "worker"
    assert fold([SUBMITTED]).task("ps-0") is None
