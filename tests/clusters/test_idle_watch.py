"""GPUs that do nothing: said at half of the time, then the model is saved and the job ends."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest
from submarine_engine.clusters import idle, locks
from submarine_engine.clusters.idle import IdleWatch
from submarine_engine.clusters.job_run import JobRun
from submarine_engine.errors import SaveError
from submarine_engine.events import Moment
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.job import JobSpec

from tests.jobs import until

BEGAN = 1000.0
GIB = 1 << 30


class Tasks:
    """Tasks whose rows the test writes, as the process beside each would, and their watch."""

    def __init__(self, folder, count=1, after=60.0, save=None, gpus=1):
        self.paths = JobPaths(folder, new_job_id())
        self.paths.root.mkdir(parents=True)
        self.tasks = [self.task(f"worker-{number}", gpus) for number in range(count)]
        self.saved, self.notes = [], []
        self.watch = IdleWatch(after, self.paths, save or self.saved.append, self.notes.append)

    def task(self, name, gpus):
        files = self.paths.task(name)
        files.root.mkdir(parents=True)
        started = Moment(BEGAN, 5.0)
        told = {"started": started, "gpus": gpus, "over": False, "released": False}
        return SimpleNamespace(task=name, files=files, **told)

    def write(self, *rows, task=0):
        with self.tasks[task].files.metrics.open("a") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)

    def use(self, first, last, busy=0, *, task=0, **more):
        rows = [{"at": BEGAN + at, "cpu": 1, "gpu0": busy, **more} for at in range(first, last)]
        self.write(*rows, task=task)

    def step(self):
        return self.watch.step(self.tasks)

    def reason(self):
        return until(lambda: self.watch.reason)


@pytest.fixture(autouse=True)
def _each_look(monkeypatch):
    monkeypatch.setattr(idle, "_EVERY", 0.0)
    monkeypatch.setattr(idle, "_SHARE", 1e9)


def test_it_is_said_at_half_of_the_time_then_saved_and_ended(tmp_path):
    job = Tasks(tmp_path)
    assert job.step() is None  # nothing is known yet
    job.use(1, 30)
    assert job.step() is None
    job.use(30, 31)
    assert job.step() == (
        "its GPU did nothing for 30 s; after 1 min the job's model is saved and it ends (--idle)"
    )
    job.use(31, 60)
    assert job.step() is None
    assert not job.watch.reason
    job.use(60, 61)
    assert job.step().startswith("its GPU did nothing for 1 min (--idle): its model is saved")
    saved = str(job.paths.saved)
    assert job.reason() == f"its GPU did nothing for 1 min (--idle); its model is saved in {saved}"
    assert job.saved == [saved]
    assert job.step() is None


@pytest.mark.parametrize(
    "sign",
    [{"gpu0": 1}, {"gpu0_memory": 3 * GIB}, {"gpu1": 90}, {"gpu0": [0, 0.1, 7], "rows": 4}],
    ids=str,
)
def test_one_sign_of_life_within_the_time_begins_it_anew(tmp_path, sign):
    job = Tasks(tmp_path)
    job.use(0, 59, gpu0_memory=2 * GIB)
    assert "after 1 min" in job.step()
    job.write({"at": BEGAN + 59, "gpu0": 0, "gpu0_memory": 2 * GIB, **sign})
    assert job.step() == ""
    held = sign.get("gpu0_memory", 2 * GIB)
    job.use(60, 119, gpu0_memory=held)
    assert "after 1 min" in job.step()
    job.use(119, 120, gpu0_memory=held)
    job.step()
    assert job.reason()


def test_data_that_loads_in_bursts_is_no_alarm(tmp_path):
    job = Tasks(tmp_path)
    said = []
    for second in range(600):
        job.use(second, second + 1, 80 if second % 29 == 0 else 0)
        said.append(job.step())
    assert {*said} == {None}


def test_several_are_idle_where_all_are_that_have_gpus_and_run(tmp_path):
    job = Tasks(tmp_path, 3, gpus=2)
    job.tasks.append(job.task("ps-0", 0))
    for task in range(3):
        job.use(0, 100, 50 if task == 2 else 0, task=task)
    assert job.step() is None
    job.tasks[2].over = True
    assert job.step().startswith("its 4 GPUs did nothing for 1 min (--idle)")
    assert job.reason()


def test_one_that_has_not_begun_is_not_idle_nor_are_the_others(tmp_path):
    job = Tasks(tmp_path, 2)
    job.use(0, 100)
    job.tasks[1].started = None
    assert job.step() is None


def test_time_without_rows_does_not_count_as_where_the_machine_slept_or_its_clock_was_set(tmp_path):
    job = Tasks(tmp_path)
    job.use(0, 20)
    job.use(7200, 7209)  # it slept, or the clock went on two hours
    assert job.step() is None
    job.use(-500, -497)  # the clock went back
    assert job.step() is None
    job.use(-497, -496, 99)  # and there is life, also on the clock of before
    job.use(-496, -437)
    assert "for 59 s" in job.step()
    assert not job.saved


def test_rows_far_apart_are_not_enough(tmp_path):
    job = Tasks(tmp_path, after=5.0)
    job.write(*({"at": BEGAN + at, "gpu0": 0} for at in (0, 9, 18)))
    assert job.step() is None


def test_without_a_word_of_gpus_it_never_ends_and_says_so_once(tmp_path):
    job = Tasks(tmp_path)
    for second in range(1, 200):
        job.write({"at": BEGAN + second, "cpu": 0}, {"at": BEGAN + second + 0.5, "gpu0": "NaN"})
        assert job.step() is None
    (note,) = job.notes
    assert note.startswith("nobody tells how busy the GPUs of worker-0 are")


def test_rows_of_the_attempt_before_damaged_ones_and_half_a_one_do_not_count(tmp_path):
    job = Tasks(tmp_path)
    job.use(-100, 0)
    metrics = job.tasks[0].files.metrics
    with metrics.open("a") as file:
        file.write('[1]\n{"at": NaN}\n{"gpu0": 0}\n{"at": 1002, "gpu0": {}}\n\n{"at": 1003, "gp')
    assert job.step() is None
    with metrics.open("a") as file:
        file.write('u0": 0}\n')
    job.use(4, 60)
    assert "for 59 s" in job.step()
    metrics.unlink()
    assert job.step() == ""  # nobody knows what was meanwhile
    metrics.mkdir()
    assert job.step() is None


def test_a_file_that_is_thinned_and_rows_of_a_long_silence_are_all_seen(tmp_path):
    job = Tasks(tmp_path, after=3600.0)
    job.use(0, 900)
    job.step()
    metrics = job.tasks[0].files.metrics
    lines = metrics.read_text().splitlines()
    merged = {"at": BEGAN + 500, "rows": 501, "gpu0": [0, 2, 9]}  # of long ago, and taken in
    metrics.write_text("".join(f"{line}\n" for line in (json.dumps(merged), *lines[501:])))
    job.use(900, 1801)
    assert "for 30 min" in job.step()
    job.use(1801, 1802, 5)
    job.use(1802, 3300)  # more than one look at the file's end tells
    assert job.step() == ""


@pytest.mark.parametrize(
    ("told", "is_watched"),
    [
        ({"idle": 60.0}, True),
        ({"idle": 60.0, "parent": "of a pool"}, False),
        ({"idle": 0.0}, False),
    ],
    ids=str,
)
def test_a_pool_sees_to_its_workers_and_zero_is_for_ever(tmp_path, told, is_watched):
    run = JobRun.__new__(JobRun)  # what it is made of needs a cluster
    run._spec, run._paths = JobSpec(**told), JobPaths(tmp_path, new_job_id())
    assert (run._idle_watch() is not None) is is_watched


def fails(path):
    del path
    raise SaveError("its code gives no way to the model")


def breaks(path):
    raise RuntimeError(path)


@pytest.mark.parametrize("save", [fails, breaks])
def test_a_model_that_cannot_be_saved_ends_it_all_the_same_and_says_why(tmp_path, save):
    job = Tasks(tmp_path, save=save)
    job.use(0, 70)
    job.step()
    why = "its code gives no way to the model" if save is fails else "RuntimeError: "
    assert f"(--idle); its model is not saved: {why}" in job.reason()


def test_a_driver_that_takes_over_saves_no_second_time(tmp_path):
    job = Tasks(tmp_path)
    job.paths.saved.mkdir()
    job.use(0, 70)
    job.step()
    assert job.reason().endswith(f"is saved in {job.paths.saved}")
    assert not job.saved


def test_it_waits_for_somebody_who_saves_the_model_right_now(tmp_path):
    waits = threading.Event()
    job = Tasks(tmp_path)
    wait = job.watch._wait_for_others
    job.watch._wait_for_others = lambda: (waits.set(), wait())
    lock = locks.take(job.paths.save_lock)
    job.use(0, 70)
    job.step()
    assert waits.wait(180)
    assert not job.saved
    locks.drop(lock)
    assert job.reason()
    assert job.saved
