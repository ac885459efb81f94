"""The first interrupt is held back, the second is not."""

import os
import signal
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import JobCancelledError, SubmarineError
from submarine_engine.future import Job
from submarine_engine.history import JobPaths
from submarine_engine.interrupts import noted
from submarine_engine.job import JobState
from submarine_magics import cell_view
from submarine_magics.cell_view import Interrupt, KernelEnds, follow_job
from submarine_magics.workbench import Workbench

from tests.jobs import bundle_of, spec_of


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_interrupt_is_remembered_only():
    with noted(Interrupt()) as held:
        assert not held.pending
        interrupt()
        assert held.pending


def test_the_second_interrupt_raises():
    with noted(Interrupt()):
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_interrupts_are_given_back_however_it_ends():
    former = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="x"), noted(Interrupt()):
        raise ValueError("x")
    assert signal.getsignal(signal.SIGINT) is former
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_submission_that_takes_long_heeds_it_where_it_tells_something(capsys):
    class Sending(LocalCluster):
        def submit(self, *_, **__):
            self.tell("uploading x (200 MB)")
            interrupt()
            self.tell("uploading x: 56 MB of 200 MB")
            raise AssertionError("it went on")

    bench, cluster, bundle = Workbench(InteractiveShell()), Sending(), bundle_of("1")
    with noted(Interrupt()) as held, pytest.raises(KeyboardInterrupt):
        bench.submit(cluster, bundle, partial(cluster.submit, spec_of(), bundle), held)
    assert capsys.readouterr().err == "uploading x (200 MB)\nuploading x: 56 MB of 200 MB\n"


def test_another_thread_holds_nothing():
    seen = []

    def work():
        with noted(Interrupt()) as held:
            seen.append(held.pending)

    former = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
    assert signal.getsignal(signal.SIGINT) is former


def test_an_interrupt_is_meant_once_the_kernel_is_not_about_to_end(monkeypatch):
    monkeypatch.setattr(cell_view, "_SETTLES", 60)
    with noted(Interrupt()) as held:
        assert not held.meant()
        interrupt()
        assert not held.meant()
        monkeypatch.setattr(cell_view, "_SETTLES", 0)
        assert held.meant()


def test_the_interrupt_of_a_kernel_that_ends_is_not_for_the_cell(monkeypatch):
    class Shell:
        exit_now = True

    monkeypatch.setattr(cell_view, "get_ipython", Shell)
    with noted(Interrupt()) as held:
        assert not held.meant()
        interrupt()
        with pytest.raises(KernelEnds):
            held.meant()


class Twice(Interrupt):
    """Interrupted twice at the first question."""

    def meant(self):
        if not self.pending:
            self.note(signal.SIGINT, None)
            self.note(signal.SIGINT, None)
        return super().meant()


@pytest.fixture
def sleeper(tmp_path):
    cluster = LocalCluster()
    bundle = bundle_of("import time; time.sleep(600)")
    job = Job(cluster, cluster.submit(spec_of(), bundle, workdir=tmp_path))
    yield job
    job.kill()
    job.wait(180)


def test_a_second_interrupt_cancels_the_job_before_the_first_was_taken_up(sleeper):
    with pytest.raises(JobCancelledError, match="the job is being cancelled"):
        follow_job(sleeper, Twice())
    assert sleeper.wait(180).state is JobState.CANCELLED


def test_who_ends_the_kernel_may_interrupt_it_twice(sleeper, monkeypatch):
    """Zeppelin aborts a paragraph once for each class of its interpreter before it closes that."""
    monkeypatch.setattr(cell_view, "get_ipython", lambda: SimpleNamespace(exit_now=True))
    with pytest.raises(SubmarineError, match="the kernel is shutting down; the job goes on"):
        follow_job(sleeper, Twice())
    assert not sleeper.status().state.final
    assert not (JobPaths(sleeper.cluster.home, sleeper.id).root / "cancel.json").exists()


def test_interrupts_while_one_settles_say_nothing_new(monkeypatch):
    def interrupted(_seconds):
        # Then it has settled: by the clock it could have before the interrupt comes.
        monkeypatch.setattr(cell_view, "_SETTLES", 0)
        interrupt()

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=interrupted)
    monkeypatch.setattr(cell_view, "time", clock)
    monkeypatch.setattr(cell_view, "_SETTLES", 600)
    with noted(Interrupt()) as held:
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        held.wait_until_meant()
        assert cell_view._SETTLES == 0
        assert held.meant()
