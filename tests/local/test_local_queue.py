"""The queue: first come first served, all or none, told in words, and left without a trace."""

from __future__ import annotations

import errno
import os
import shutil
import signal

import pytest
from submarine_engine.clusters import store
from submarine_engine.clusters.local.leases import Holder, release_lease
from submarine_engine.clusters.local.scheduler import Queue, QueueFile, Ticket
from submarine_engine.errors import SubmissionError
from submarine_engine.events import Waiting
from submarine_engine.job import JobState

from tests.jobs import until

from .conftest import ids_of

HOLD = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\n"


@pytest.fixture
def held(local, declare_gpus, tmp_path):
    """Hold the machine's two GPUs by a job that ends when the file is made."""
    declare_gpus(2)
    gate = tmp_path / "gate"
    job_id = local.submit(HOLD.format(str(gate)), gpus=2, name="mnist")
    local.until_running(job_id)
    yield job_id, gate
    gate.touch()
    local.follow(job_id)


def test_what_a_job_waits_for_is_told_in_words(local, held):
    holder, gate = held
    first = local.submit("1", gpus=1, name="next")
    second = local.submit("1", gpus=1)
    busy = f"2 of 2 GPUs in use by 'mnist' (…{holder[-5:]})"
    assert (local.cluster.status(first).ahead, local.cluster.status(first).waiting_reason) == (
        0,
        busy,
    )
    behind = "waiting behind next (1 GPU, 0 free)"
    assert local.cluster.status(second).waiting_reason == behind
    third = local.submit("1", gpus=2)
    assert local.cluster.status(third).waiting_reason == f"{behind}, 2 jobs ahead"
    gate.touch()
    story = local.follow(second)
    told = [event for event in story.events if isinstance(event, Waiting)]
    assert told[0].reason == behind
    assert story.status.waiting_reason == ""
    local.follow(first)
    local.follow(third)


def test_a_follower_sees_the_job_move_up(local, held):
    first, second = local.submit("1", gpus=2), local.submit("1", gpus=2)
    local.cluster.cancel(first)
    until(lambda: local.cluster.status(second).ahead == 0)
    held[1].touch()
    local.follow(second)


def test_all_of_a_jobs_gpus_or_none(local, declare_gpus, tmp_path):
    declare_gpus(2)
    gate = tmp_path / "gate"
    one = local.submit(HOLD.format(str(gate)), gpus=1)
    two = local.submit("1", gpus=2)
    small = local.submit("1", gpus=1)
    assert local.state(two) is JobState.QUEUED
    # One GPU is free, but it is not this job's turn.
    assert local.state(small) is JobState.QUEUED
    gate.touch()
    for job in (one, two, small):
        assert local.follow(job).state is JobState.SUCCEEDED


def test_jobs_without_gpus_wait_for_nobody(local, held):
    local.submit("1", gpus=1)
    assert local.run("print('now')").out == "now\n"
    held[1].touch()


def test_a_queued_job_whose_folder_is_deleted_holds_nobody_up(local, held):
    gone, stays = local.submit("1", gpus=2), local.submit("1", gpus=2)
    shutil.rmtree(local.paths(gone).root)
    held[1].touch()
    assert local.follow(stays).state is JobState.SUCCEEDED


def test_the_keeper_lives_only_while_tickets_wait(local, held):
    assert not keepers(local)
    waits = local.submit("1", gpus=1)
    assert len(until(lambda: keepers(local))) == 1
    local.submit("1", gpus=1)
    assert len(keepers(local)) == 1
    held[1].touch()
    local.follow(waits)
    until(lambda: not keepers(local))


def test_a_keeper_that_was_killed_is_replaced_by_whoever_looks(local, held):
    waits = local.submit("1", gpus=2)
    (pid,) = until(lambda: keepers(local))
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid not in keepers(local))
    until(lambda: local.cluster.status(waits) and keepers(local))
    held[1].touch()
    assert local.follow(waits).state is JobState.SUCCEEDED


def test_a_job_starts_though_its_submitter_and_the_keeper_are_gone(local, held):
    holder, gate = held
    (job_id,) = ids_of(local.notebook(("print(42)", 2), kill=True), -signal.SIGKILL)
    for pid in until(lambda: keepers(local)):
        os.kill(pid, signal.SIGKILL)
    gate.touch()
    local.follow(holder)
    # Nobody follows it: the supervisor that ended has started it.
    until(lambda: '"succeeded"' in local.paths(job_id).status.read_text())
    assert local.follow(job_id).out == "42\n"


def test_a_thousand_tickets_keep_their_order_and_are_written_once(local, held, monkeypatch):
    first = local.submit("1", gpus=2)
    queue = Queue(local.home)
    ids = [f"20260101-{n:06d}-aaaaa" for n in range(1000)]
    waiting = [*queue, *(Ticket(job_id, "job", 1, ("0", "1")) for job_id in ids)]
    queue._file.replace(ticket.line for ticket in waiting)
    with monkeypatch.context() as patch:
        patch.setattr(QueueFile, "replace", None)  # one line more, not a thousand lines anew
        last = local.submit("print('last')", gpus=1)
    assert [ticket.job_id for ticket in queue] == [first, *ids, last]
    assert local.cluster.status(last).ahead == 1001
    local.cluster.cancel(first)
    # The thousand are not on record: whoever grants passes over them at once.
    held[1].touch()
    assert local.follow(last).out == "last\n"
    assert Queue(local.home).grant() is False


def test_a_line_that_is_no_ticket_is_passed_over(local, held):
    waits = local.submit("1", gpus=2)
    file = next(local.home.glob("hosts/*/queue"))
    file.write_text("of a later release\nhere\n" + file.read_text())
    assert [ticket.job_id for ticket in Queue(local.home)] == [waits]
    held[1].touch()
    assert local.follow(waits).state is JobState.SUCCEEDED


def test_half_a_ticket_is_none(local, held):
    waits = local.submit("1", gpus=2)
    file = next(local.home.glob("hosts/*/queue"))
    with file.open("a") as queue:
        queue.write("20260101-000000-aaaaa jo")
    assert [ticket.job_id for ticket in Queue(local.home)] == [waits]
    after = local.submit("1", gpus=1)
    assert [ticket.job_id for ticket in Queue(local.home)] == [waits, after]
    held[1].touch()
    assert local.follow(after).state is JobState.SUCCEEDED


def test_a_queue_that_cannot_be_written_refuses_and_leaves_nothing(local, held):
    folder = next((local.home / "hosts").iterdir())
    blocked = folder / "queue"
    blocked.unlink(missing_ok=True)
    blocked.mkdir()
    try:
        with pytest.raises(SubmissionError, match="the queue cannot be written"):
            local.submit("1", gpus=1)
    finally:
        blocked.rmdir()
    assert len(list((local.home / "jobs").iterdir())) == 1


class FullTurnsDouble:
    """Turns of a shared machine, as a process has them that can open no more files."""

    def took(self, _gpus):
        raise OSError(errno.EMFILE, "too many open files")


def test_gpus_that_cannot_be_counted_as_taken_are_free_again(tmp_path):
    queue = Queue(tmp_path)
    queue._shared = (None, None, FullTurnsDouble())
    with pytest.raises(OSError, match="too many open files"):
        queue.take_spare(Ticket("20260101-000000-aaaaa", "job", 2, ("0", "1")))
    taken = queue.leases.take(("0", "1"), 2, Holder("", ""))
    assert taken is not None
    release_lease(taken)


def test_a_job_that_another_machine_of_the_home_has_cancelled_leaves_the_queue(local, held):
    """That machine can write only its wish: the queue is this one's."""
    first = local.submit("1", gpus=2)
    wanted, stays = local.submit("1", gpus=2), local.submit("1", gpus=2)
    store.request_cancel(local.paths(wanted), "not needed", kill=False)
    until(lambda: wanted not in Queue(local.home))
    local.until_noted(wanted, "cancelled")
    assert [ticket.job_id for ticket in Queue(local.home)] == [first, stays]
    assert local.cluster.status(wanted).reason == "not needed"
    held[1].touch()
    assert local.follow(stays).state is JobState.SUCCEEDED


def test_the_gpus_tell_who_holds_them(local, held):
    assert [gpu.job_id for gpu in local.cluster.gpus()] == [held[0], held[0]]
    held[1].touch()
    local.follow(held[0])
    until(lambda: [gpu.job_id for gpu in local.cluster.gpus()] == [None, None])


def keepers(local):
    return {pid for pid, command in local.processes().items() if "scheduler import main" in command}


def supervisors(local):
    return {pid for pid, command in local.processes().items() if "supervisor.py" in command}
