"""Calls that are taken back, wherever each is just then: on its way, in a batch, tried again."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.pool.calls import DONE, Call
from submarine_engine.pool.folder import PoolFolder
from submarine_engine.pool.inputs import Giver
from submarine_engine.pool.pool import Pool, Workers
from submarine_runtime.call_frames import CALLS, RETURNS, Reader, frame

from tests.pool.programs import Program

PROGRAM = """
    import os, time
    from pathlib import Path

    from submarine_engine import Executor

    kept = []

    class Kept(Executor):
        def submit(self, *args, **more):
            kept.append(super().submit(*args, **more))
            return kept[-1]

    def hold(flag):
        Path(flag + ".begun").touch()
        until(Path(flag).exists)
        return flag

    def until(condition):
        limit = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < limit
            time.sleep(0.01)

    def heard(word):
        home = Path(os.environ["SUBMARINE_HOME"])
        return any(word in file.read_bytes() for file in home.glob("jobs/*/tasks/*/calls"))

    if __name__ == "__main__":
"""


@pytest.fixture
def folder(tmp_path):
    found = PoolFolder(tmp_path / "pools" / new_job_id())
    found.root.mkdir(parents=True)
    return found


def test_after_the_last_call_was_given_any_may_be_taken_back_and_no_other_file_has_it(
    folder, tmp_path
):
    giver = Giver(folder)
    giver.give(Call(0, b""))
    giver.close()
    mine = [tmp_path / f"mine-{number}" for number in range(4)]
    with ExitStack() as opened:
        for path in mine:  # one of them has the number that a file of the giver's had
            opened.enter_context(path.open("wb"))
        giver.withdraw(0)
    assert [path.read_bytes() for path in mine] == [b""] * 4
    (taken,) = Reader(str(folder.withdrawn)).read()
    assert (taken[0]["kind"], taken[0]["index"]) == ("withdraw", 0)


def test_calls_are_cancelled_twice_and_after_the_shutdown(tmp_path):
    Program(tmp_path, PROGRAM).run(f"""
        a, b, c, d = [{str(tmp_path)!r} + "/" + name for name in "abcd"]
        with Executor(1, gpus=0) as ex:
            first = ex.submit(hold, a)
            until(first.running)
            others = [ex.submit(hold, flag) for flag in (b, c, d)]
            again = []
            others[0].add_done_callback(lambda future: again.append(future.cancel()))
            assert others[0].cancel() and others[0].cancel()
            assert again == [True], again
            ex.shutdown(wait=False)
            assert others[1].cancel()
            ex.shutdown(wait=False, cancel_futures=True)
            assert all(one.cancelled() for one in others)
            Path(a).touch()
        assert first.result() == a
        assert not [flag for flag in (b, c, d) if Path(flag + ".begun").exists()]
    """)


@pytest.mark.parametrize("forks", [True, False])
def test_a_call_of_a_batch_that_runs_is_taken_back_before_it_begins(tmp_path, forks):
    Program(tmp_path, PROGRAM).run(f"""
        flags = [{str(tmp_path)!r} + "/" + name for name in "abcd"]
        Path(flags[2]).touch()
        with Kept(1, gpus=0, forks={forks}) as ex:
            ex.submit(hold, flags[3])
            until(kept[0].running)  # all three are there before one of them is given
            ex.map(hold, flags[:3], chunksize=3)
            Path(flags[3]).touch()
            until(kept[1].running)
            assert kept[2].cancel()
            until(lambda: heard(b'"withdraw"'))
            Path(flags[0]).touch()
            Path(flags[1]).touch()
            assert kept[3].result(120) == flags[2]
        assert not Path(flags[1] + ".begun").exists()
    """)


class Place:
    """A cluster whose workers say what a test does; the files by which they do are real.

    Parameters
    ----------
    home
        Where their folders are.
    """

    name = "played"
    tasks_here = True

    def __init__(self, home):
        self.home = home
        self.jobs = []
        self.lost = set()

    def submit(self, _spec, _bundle, *, workdir):  # noqa: ARG002 - as clusters have it
        self.jobs.append(f"20250101-00000{len(self.jobs)}-abcde")
        self.folder(self.jobs[-1]).mkdir(parents=True)
        self.tell(self.jobs[-1], kind="ready", host="here")
        return self.jobs[-1]

    def folder(self, job):
        return JobPaths(self.home, job).task("worker-0").root

    def status(self, job):
        state = JobState.LOST if job in self.lost else JobState.RUNNING
        if any(head["kind"] == "end" for head in self.heard(job)):
            state = JobState.SUCCEEDED
        return SimpleNamespace(state=state, tasks=(), reason="")

    def cancel(self, job, _reason):
        self.lost.add(job)

    def tell(self, job, **head):
        with (self.folder(job) / RETURNS).open("ab") as file:
            file.write(frame(head))

    def heard(self, job):
        return [head for head, _ in Reader(str(self.folder(job) / CALLS)).read()]


class Two:
    """A source of two calls of one batch; each word that a worker hears is answered by `react`."""

    def __init__(self, place, react):
        self.place, self.react = place, react
        self.calls = [Call(index, b"", batch=2) for index in range(2)]
        self.answered = Counter()
        self.ends = {}

    def begin(self, pool):
        self.pool = pool

    def poll(self):
        for job in self.place.jobs:
            new = self.place.heard(job)[self.answered[job] :]
            self.answered[job] += len(new)
            for head in new:
                self.react(self, job, head)

    def next(self):
        return self.calls.pop(0) if self.calls else DONE

    def began(self, call, worker):
        pass

    def ended(self, call, end):
        assert call.index not in self.ends
        self.ends[call.index] = end.outcome


def ended(outcome, index=0, attempt=1):
    return {"kind": "ended", "index": index, "try": attempt, "outcome": outcome}


def is_moved(source, job, head):
    """Take call 1 back between the word that it is to move and the worker's that it does."""
    if head["kind"] == "call":
        key = {"index": head["index"], "try": head["try"]}
        if key["try"] > 1:
            source.place.tell(job, **ended("value", 1, key["try"]))
        elif key["index"] == 0:
            source.place.tell(job, kind="began", **key)
    elif head["kind"] == "withdraw" and head["moved"]:
        source.pool.withdraw(1)
        source.place.tell(job, **ended("moved", 1))
        source.place.tell(job, **ended("value"))


def loses_its_worker(source, job, head):
    """Take both back from a worker that is then lost, as it runs call 0."""
    if head["kind"] != "call":
        return
    index, attempt = head["index"], head["try"]
    if attempt > 1:
        source.place.tell(job, **ended("value", index, attempt))
    elif index == 0:
        source.place.tell(job, kind="began", index=0, **{"try": 1})
    else:
        source.pool.withdraw(0)
        source.pool.withdraw(1)
        source.place.lost.add(job)


def fails(source, job, head):
    """Take call 0 back while it runs; then it fails, and could be tried again."""
    if head["kind"] != "call":
        return
    index, attempt = head["index"], head["try"]
    if index == 0 and attempt == 1:
        source.place.tell(job, kind="began", index=0, **{"try": 1})
        source.pool.withdraw(0)
        source.place.tell(job, **ended("error"))
    else:
        source.place.tell(job, **ended("value", index, attempt))


@pytest.mark.parametrize(
    ("react", "ends", "given"),
    [
        (is_moved, {0: "value", 1: "withdrawn"}, {0: 1, 1: 1}),
        (loses_its_worker, {0: "withdrawn", 1: "withdrawn"}, {0: 1, 1: 1}),
        (fails, {0: "error", 1: "value"}, {0: 1, 1: 1}),
    ],
)
def test_a_call_that_was_taken_back_is_given_to_nobody_again(folder, tmp_path, react, ends, given):
    place = Place(tmp_path)
    spec = JobSpec(name="check", roles=(Role(count=1, resources=Resources(gpus=0)),))
    source = Two(place, react)
    workers = Workers(cluster=place, spec=spec, bundle=None, workdir=tmp_path, most=2)
    Pool(folder, workers, retries=1).run(source)
    assert source.ends == ends
    heads = [head for job in place.jobs for head in place.heard(job)]
    assert Counter(head["index"] for head in heads if head["kind"] == "call") == given


class Late(Two):
    """Call 1 is taken back before call 0 ends, and both are seen in one turn of the pool."""

    def __init__(self, place):
        super().__init__(place, self.ends_call)
        self.calls = [Call(0, b""), Call(1, b"")]
        self.is_taken_back = False

    def poll(self):
        if self.is_taken_back:
            self.pool.withdraw(1)
        super().poll()

    def ends_call(self, _source, job, head):
        if head["kind"] == "call":
            self.is_taken_back = True
            self.place.tell(job, **ended("value", head["index"], head["try"]))


def test_what_was_taken_back_before_a_call_ended_is_not_given_in_its_place(folder, tmp_path):
    place = Place(tmp_path)
    spec = JobSpec(name="check", roles=(Role(count=1, resources=Resources(gpus=0)),))
    source = Late(place)
    workers = Workers(cluster=place, spec=spec, bundle=None, workdir=tmp_path, most=1)
    Pool(folder, workers).run(source)
    assert source.ends == {0: "value", 1: "withdrawn"}
