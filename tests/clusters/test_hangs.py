"""What is a hang, and what is not: by three looks at a quiet job of several tasks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from submarine_engine.clusters import hangs
from submarine_engine.clusters.hangs import HangFinder
from submarine_engine.clusters.stacks import TaskStack
from submarine_engine.errors import CommandError
from submarine_engine.history import TaskPaths
from submarine_engine.job import JobSpec, Resources, Role

WAITS = 'Thread 0x1 (most recent call first):\n  File "/bundle/script.py", line 3 in wait\n'
LOADS = WAITS.replace("3 in wait", "9 in load")
REDUCES = (
    "Current thread 0x2 (most recent call first):\n"
    '  File "/lib/torch/distributed/distributed_c10d.py", line 1 in all_reduce\n'
    '  File "/bundle/script.py", line 4 in train\n'
)
ASKS = WAITS + '  File "/lib/submarine_runtime/asking.py", line 1 in ask\n'


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(time=1000.0)
    monkeypatch.setattr(hangs.time, "monotonic", lambda: now.time)
    return now


@pytest.fixture
def tasks(tmp_path):
    def make(count, **others):
        names = [f"worker-{n}" for n in range(count)]
        names += [f"{role}-{n}" for role, many in others.items() for n in range(many)]
        for name in names:
            (tmp_path / name).mkdir()
        return [SimpleNamespace(task=name, files=TaskPaths(tmp_path / name)) for name in names]

    return make


def spec(count=2, after=100.0, command=None, **others):
    none = Resources(gpus=0)
    roles = (Role(count=count, resources=none, command=command),)
    roles += tuple(Role(name=name, count=many, resources=none) for name, many in others.items())
    return JobSpec(roles=roles, hang_after=after)


def looks_of(finder, running, clock, told, *, between=lambda _: None):
    """Let time go by until the job has been looked at three times; return what each look found.

    Parameters
    ----------
    told
        Of a number of the look: what each task tells then.
    """
    found = []
    for _ in range(1000):
        clock.time += 1.0
        if finder.is_due(running):
            text = told(len(found))
            tasks = {
                one.task: TaskStack("host", *said) for one, said in zip(running, text, strict=True)
            }
            found.append(
                (clock.time - 1000, finder.see(SimpleNamespace(told=tasks, mono=clock.time)))
            )
            between(len(found))
    return found


def test_all_stand_still_and_none_uses_a_processor(clock, tasks):
    running = tasks(2)
    found = looks_of(HangFinder(spec()), running, clock, lambda _: [(WAITS, 5.0), (LOADS, 7.5)])
    # after a half, three quarters and all of its time; then not again
    assert found == [(52.0, False), (76.0, False), (103.0, True)]


def test_who_serves_may_do_what_it_likes(clock, tasks):
    running = tasks(2, ps=1)
    told = lambda look: [(WAITS, 5.0), (LOADS, 7.5), (f"{WAITS} {look}", 50.0 * look)]  # noqa: E731
    assert looks_of(HangFinder(spec(ps=1)), running, clock, told)[-1][1]


def test_a_collective_that_waits_busily_hangs_with_who_does_not_come(clock, tasks):
    told = lambda look: [(REDUCES, 50.0 * look), (LOADS, 7.5)]  # noqa: E731
    assert looks_of(HangFinder(spec()), tasks(2), clock, told)[-1][1]


def test_a_task_that_does_not_answer_hangs_with_those_that_wait(clock, tasks):
    told = lambda _: [("", 5.0), (WAITS, 7.5)]  # noqa: E731
    assert looks_of(HangFinder(spec()), tasks(2), clock, told)[-1][1]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(lambda look: [(WAITS, 50.0 * look), (WAITS, 1.0)], id="one computes"),
        pytest.param(lambda look: [(LOADS if look == 1 else WAITS, 1.0), (WAITS, 1.0)], id="moves"),
        pytest.param(lambda _: [(WAITS, None), (WAITS, 1.0)], id="nobody knows its processor"),
        pytest.param(lambda _: [("", 1.0), ("", 1.0)], id="all are silent"),
        pytest.param(lambda look: [("", 1.0) if look else (WAITS, 1.0), (WAITS, 1.0)], id="silent"),
        pytest.param(lambda _: [(ASKS, 1.0), (WAITS, 1.0)], id="waits for a person"),
        pytest.param(lambda look: [(WAITS, 1.0, 60_000 * look), (WAITS, 1.0)], id="moves data"),
        pytest.param(lambda look: [(REDUCES, 1.0, 60_000 * look), (WAITS, 1.0)], id="sends"),
        pytest.param(
            lambda look: [(REDUCES.replace("train", "fit").replace("c10d", "x"), 50.0 * look),
                          (WAITS, 1.0)],
            id="busy elsewhere",
        ),
    ],
)  # fmt: skip
def test_what_is_no_hang(clock, tasks, told):
    found = looks_of(HangFinder(spec()), tasks(2), clock, lambda look: told(look % 3))
    assert len(found) > 20  # three looks each hundred seconds
    assert not any(hang for _, hang in found)


def test_what_hangs_after_it_has_computed_in_silence(clock, tasks):
    told = lambda look: [(WAITS, 50.0 * min(look, 4)), (LOADS, 7.5)]  # noqa: E731
    found = looks_of(HangFinder(spec()), tasks(2), clock, told)
    assert [hang for _, hang in found] == [False] * 8 + [True]
    assert 300 < found[-1][0] < 320


def test_a_heartbeat_is_no_work(clock, tasks):
    told = lambda look: [(WAITS, 1.0, 1000 + 2000 * look), (WAITS, 1.0)]  # noqa: E731
    assert looks_of(HangFinder(spec()), tasks(2), clock, told)[-1][1]


def test_a_number_of_a_thread_is_no_change(clock, tasks):
    told = lambda look: [(WAITS.replace("0x1", f"0x{look}"), 1.0), (WAITS, 1.0)]  # noqa: E731
    assert looks_of(HangFinder(spec()), tasks(2), clock, told)[-1][1]


@pytest.mark.parametrize(
    "written", ["stdout", "displays", "progress.json", "reported", "logdir/run/events.1"]
)
def test_any_sign_of_life_begins_anew(clock, tasks, written):
    running = tasks(2)
    path = running[1].files.root / written
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(look):
        if look == 2:
            path.write_text("a sign")

    finder = HangFinder(spec())
    told = lambda _: [(WAITS, 5.0), (LOADS, 7.5)]  # noqa: E731
    found = looks_of(finder, running, clock, told, between=write)
    assert [hang for _, hang in found] == [False, False, False, False, True]
    assert found[2][0] >= found[1][0] + 50.0
    assert finder.is_quiet
    path.write_text("another sign")
    clock.time += 5.0
    assert not finder.is_due(running)
    assert not finder.is_quiet


@pytest.mark.parametrize(
    "spec",
    [spec(after=0.0), spec(count=1), spec(count=1, ps=3), spec(command="torchrun train.py")],
    ids=["not wanted", "one task", "one worker", "a command"],
)
def test_what_is_never_looked_at(clock, tasks, spec):
    running = tasks(
        *(role.count for role in spec.roles[:1]), ps=len(spec.tasks) - spec.roles[0].count
    )
    assert looks_of(HangFinder(spec), running, clock, pytest.fail) == []


def test_as_long_as_a_worker_has_not_begun_nobody_looks(clock, tasks):
    running = tasks(2)
    finder = HangFinder(spec())
    assert looks_of(finder, running[:1], clock, pytest.fail) == []
    assert len(looks_of(finder, running, clock, lambda _: [(WAITS, 1.0)] * 2)) == len("abc")


def test_ten_minutes_unless_given(clock, tasks):
    found = looks_of(HangFinder(spec(after=None)), tasks(2), clock, lambda _: [(WAITS, 1.0)] * 2)
    assert [at for at, _ in found] == [301.0, 451.0, 601.0]


@pytest.mark.parametrize("after", [-1.0, float("inf"), float("nan")])
def test_a_time_that_is_none_is_refused(after):
    with pytest.raises(CommandError, match="it must be a length of time"):
        spec(after=after)
