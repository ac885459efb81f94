"""Whose turn it is in a session: one paragraph has the kernel, and jobs do without it."""

from __future__ import annotations

import threading

import pytest
from submarine_engine.errors import ClusterError
from submarine_zeppelin.sessions import ParagraphQueue, QueuePlace

from tests.jobs import until


class Paragraph:
    """A paragraph in a queue, which has the kernel until it is told to go on."""

    def __init__(self, queue, note, label="", **wanted):
        self.place = QueuePlace(note, label, **wanted)
        self.words = []
        self.turns = []
        self._queue = queue
        self._go = threading.Semaphore(0)
        self._standing = queue.standing(self.place)
        self._standing.__enter__()

    def wants(self):
        threading.Thread(target=self._turn, daemon=True).start()
        until(lambda: self.place.wants or self.turns)  # else who comes later may be first
        return self

    def has(self):
        """Wait until it has the kernel."""
        return until(lambda: self.turns)

    def gives_back(self):
        self._go.release()
        until(lambda: self.turns == ["over"])
        self.turns.clear()

    def goes(self):
        self._standing.__exit__(None, None, None)

    def _turn(self):
        try:
            with self._queue.turn(self.place, self.words.append) as has:
                self.turns.append(has)
                if has:
                    self._go.acquire()
            self.turns[:] = ["over"]
        except ClusterError as error:
            self.turns.append(str(error))


@pytest.fixture
def queue():
    return ParagraphQueue()


def test_one_after_another_in_order(queue):
    first, second, third = (Paragraph(queue, f"note {n}").wants() for n in range(3))
    first.has()
    assert not second.turns
    assert not third.turns
    first.gives_back()
    first.goes()
    second.has()
    assert not third.turns


def test_a_job_lets_other_notes_pass_and_holds_its_own(queue):
    job = Paragraph(queue, "a", "paragraph 1").wants()
    job.has()
    job.gives_back()
    job.place.job_id = "it-1"
    own, other = Paragraph(queue, "a").wants(), Paragraph(queue, "b").wants()
    other.has()
    other.gives_back()
    until(lambda: own.words)
    assert "waits for paragraph 1: what its job it-1 leaves behind comes home" in own.words[0]
    assert "wait=false" in own.words[0]
    # Home comes before what waited for it.
    job.wants().has()
    assert not own.turns
    job.gives_back()
    job.goes()
    own.has()
    assert own.words[-1] == ""


def test_one_that_does_not_wait_passes_the_job_of_its_note(queue):
    job = Paragraph(queue, "a").wants()
    job.has()
    job.gives_back()
    Paragraph(queue, "a", waits=False).wants().has()


def test_as_many_jobs_of_a_note_run_at_a_time_as_the_setting_says(queue):
    jobs = []
    for number in (1, 2):
        jobs.append(Paragraph(queue, "a", at_once=2).wants())
        jobs[-1].has()
        jobs[-1].gives_back()
        jobs[-1].place.job_id = f"it-{number}"
    third, plain = Paragraph(queue, "a", at_once=2).wants(), Paragraph(queue, "a").wants()
    until(lambda: third.words)
    assert "its job it-1" in third.words[0]
    # The second is over before the first: a job waits no longer, other code still does.
    jobs[1].wants().has()
    jobs[1].gives_back()
    jobs[1].goes()
    third.has()
    assert not plain.turns
    third.gives_back()
    third.goes()
    jobs[0].goes()
    plain.has()


def test_one_that_leaves_has_no_turn_and_holds_nobody(queue):
    first, second, third = (Paragraph(queue, "a").wants() for _ in range(3))
    first.has()
    queue.leave(second.place)
    until(lambda: second.turns == ["over"])
    second.goes()
    first.gives_back()
    first.goes()
    third.has()


def test_a_closed_queue_ends_all_waiting(queue):
    first, second = (Paragraph(queue, "a").wants() for _ in range(2))
    first.has()
    queue.close()
    assert "restarted before" in second.has()[0]
