"""Jobs in every state, told by the events that a cluster would write, and their records."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
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
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.lifecycle import fold
from submarine_magics.card import Record

JOB_ID = "20250314-150926-abcde"


def at(second: float) -> Moment:
    return Moment(1_741_964_966 + second, 1000 + second)


def story(*, gpus: int = 2, tasks: int = 1) -> list:
    """Return the life of a job that succeeds: submission at 0 s, grant 3, start 4, end 16 s."""
    names = tuple(f"worker-{index}" for index in range(tasks))
    ids = [tuple(str(gpus * index + n) for n in range(gpus)) for index in range(tasks)]
    events = [
        Submitted(at=at(0), gpus=gpus * tasks, tasks=names),
        Waiting(at=at(0.1), ahead=1, reason="waits for 2 GPUs, 1 is free"),
    ]
    for name, granted in zip(names, ids, strict=True):
        events.append(Granted(at=at(3), task=name, host="gpu-host-1", container="c", gpus=granted))
    events += [Started(at=at(4), task=name) for name in names]
    for fraction in (0.25, 0.72):
        for index, name in enumerate(names):
            events.append(
                Progressed(
                    at=at(8 + fraction), task=name, fraction=fraction + index / 100,
                    message=f"epoch {fraction * 100:.0f}/100",
                )
            )  # fmt: skip
    events += [Returned(at=at(16), task=name) for name in names]
    events += [Exited(at=at(16.02), task=name, exit_code=0) for name in names]
    events += [Released(at=at(16.038), task=name) for name in names]
    return [*events, Finished(at=at(16.04), state=JobState.SUCCEEDED)]


def until(events: list, kind: type, add: tuple = ()) -> list:
    """Return `events` up to the last one of `kind`, and `add`."""
    last = max(index for index, event in enumerate(events) if isinstance(event, kind))
    return [*events[: last + 1], *add]


def all_stories() -> dict:
    """Return a status for each state that a card can be in, by name."""
    whole = story()
    failing = (
        Returned(at=at(16), task="worker-0"),
        Exited(at=at(16.02), task="worker-0", exit_code=1, reason="exit code 1"),
        Released(at=at(16.5), task="worker-0"),
        Finished(at=at(16.6), state=JobState.FAILED, reason="ValueError: shapes (64,) and (10,)"),
    )
    cancelling = (CancelRequested(at=at(9), reason="cancelled on its card"),)
    cancelled = (
        *cancelling,
        Exited(at=at(10), task="worker-0", exit_code=-15),
        Released(at=at(10.2), task="worker-0"),
        Finished(at=at(10.2), state=JobState.CANCELLED, reason="cancelled on its card"),
    )
    lost = (Finished(at=at(11), state=JobState.LOST, reason="the supervisor is gone"),)
    stories = {
        "queued": until(whole, Waiting),
        "starting": until(whole, Granted),
        "running": until(whole, Progressed),
        "cancelling": until(whole, Progressed, cancelling),
        "succeeded": whole,
        "failed": until(whole, Progressed, failing),
        "cancelled": until(whole, Progressed, cancelled),
        "lost": until(whole, Progressed, lost),
        "cpu": story(gpus=0),
        "team": until(story(tasks=3), Progressed),
    }
    return {name: fold(events) for name, events in stories.items()}


STORIES = all_stories()


def make_record(**changes) -> Record:
    """Return the record of a job with two GPUs, a script and a quicklink."""
    spec = JobSpec(
        name="mnist",
        roles=(Role(resources=Resources(gpus=2)),),
        quicklinks=(("Experiments", "https://example.org/runs?job=1&x=2"),),
    )
    fields = {
        "job_id": JOB_ID,
        "cluster": "local",
        "spec": spec,
        "origin": "In [3]",
        "log_url": "http://127.0.0.1:8123/t0ken/jobs/20250314-150926-abcde/",
        "bundle_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "script": "# %% In [3]\nhistory = train(epochs=10)\n",
        "script_name": "script.py",
        "script_size": 39,
    }
    return Record(**{**fields, **changes})


@pytest.fixture
def stage():
    """Give the tests stories to tell: `at`, `story`, `until`, `record`, `statuses`."""
    return SimpleNamespace(
        at=at, story=story, until=until, record=make_record, statuses=STORIES, job_id=JOB_ID
    )
