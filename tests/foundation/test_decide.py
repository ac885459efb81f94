"""Laws of what a driver does with a job, whatever it sees and in whatever order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from submarine_engine.events import (
    CancelRequested,
    Granted,
    Growing,
    Moment,
    Retried,
    Started,
    Submitted,
    Warned,
)
from submarine_engine.job import JobState
from submarine_engine.lifecycle import (
    HELLO_WITHIN,
    LOST_TRIES,
    MISSED,
    MOST_GRACE,
    Again,
    AskStack,
    Course,
    EndSidecars,
    Finish,
    FinishTask,
    KeepFrames,
    Observations,
    OpenGate,
    Policy,
    Signal,
    TaskEnd,
    TaskSeen,
    Tell,
    Withdraw,
    decide,
    fold,
    grace_for,
    is_echo,
)

GRACE = 5.0
POLICY = Policy(grace=GRACE)
TASKS = ("chief-0", "worker-0", "worker-1")


def at(seconds):
    return Moment(1e9 + seconds, seconds)


@dataclass
class World:
    """A cluster that does what it is told, when the test says so; it speaks no real protocol."""

    size: int
    now: float = 100.0
    containers: dict = field(default_factory=dict)
    alive: set = field(default_factory=set)
    told_over: set = field(default_factory=set)
    deaf: bool = False
    ends: dict = field(default_factory=dict)
    wanted: str | None = None
    urgent: bool = False
    refused: str = ""
    cause: str = ""
    abandoned: str = ""
    hellos: set = field(default_factory=set)
    gone: bool = False
    lost: set = field(default_factory=set)
    asked: set = field(default_factory=set)
    room: int = 0
    kept: bool = False
    policy: Policy = POLICY
    course: Course = field(default_factory=Course)
    did: list = field(default_factory=list)
    events: list = field(default_factory=lambda: [Submitted(gpus=0, tasks=TASKS, at=at(0))])
    finished: Finish | None = None

    @property
    def tasks(self):
        return TASKS[: self.size]

    def observe(self, *, asked=True):
        return Observations(
            tasks=tuple(
                TaskSeen(
                    task=task,
                    container=self.containers.get(task, ""),
                    held=(task in self.alive) if asked and task in self.containers else None,
                    over=task in self.told_over,
                    end=self.ends.get(task),
                    host="alpha",
                    hello=task in self.hellos,
                )
                for task in self.tasks
            ),
            wanted=self.wanted,
            urgent=self.urgent,
            refused=self.refused,
            abandoned=self.abandoned,
            cause=self.cause,
            over=self.gone,
            started=fold(self.events).started,
            room=self.room,
            kept=self.kept,
        )

    def look(self, *, asked=True):
        decision = decide(self.course, self.observe(asked=asked), at(self.now), self.policy)
        self.course = decision.course
        self.events += decision.events
        for one in decision.do:
            self.carry_out(one)
        return decision

    def carry_out(self, one):
        self.did.append((self.now, one))
        if isinstance(one, Signal):
            assert self.containers[one.task] == one.container
            assert one.task not in self.ends, "a stranger may have its number"
            if one.kill or not self.deaf:
                if not one.kill and one.task in self.alive:
                    self.asked.add(one.task)
                self.alive.discard(one.task)
                self.told_over.add(one.task)
        elif isinstance(one, KeepFrames | AskStack):
            assert one.task not in self.ends, "a stranger may have its number"
        elif isinstance(one, FinishTask):
            assert one.task not in self.ends, "settled twice"
            code = JobState.SUCCEEDED if one.task not in self.told_over else JobState.FAILED
            lost, paused = one.task in self.lost, one.task in self.asked
            end = TaskEnd(state=code, at=at(self.now), lost=lost, paused=paused)
            self.ends[one.task] = end
        elif isinstance(one, Again):
            assert set(self.ends) == set(self.tasks), "begun again before all are settled"
            assert not self.alive, "begun twice"
            told = Retried(attempt=one.attempt, counted=one.counted, at=at(self.now))
            self.events.append(told)
            of_it = self.containers, self.told_over, self.ends, self.hellos, self.lost, self.asked
            for held in of_it:
                held.clear()
            self.kept = False
            self.course = course_of(self)
        elif isinstance(one, Finish):
            self.finished = one

    def of(self, kind):
        return [(now, one) for now, one in self.did if isinstance(one, kind)]


def grant(world):
    for number, task in enumerate(world.tasks):
        world.containers[task] = f"container-{number}"
        world.alive.add(task)


def takes_over(world):
    """Another driver: it knows the events, and nothing else."""
    world.course = course_of(world)


def course_of(world):
    asked = next((one for one in world.events if isinstance(one, CancelRequested)), None)
    status = fold(world.events)
    return Course(
        cancelled=asked,
        attempt=status.attempt,
        failures=status.failures,
        growing=status.growing,
        grown=status.grown,
    )


STEPS = {
    "look": lambda world: world.look(),
    "look, the cluster is silent": lambda world: world.look(asked=False),
    "a second": lambda world: setattr(world, "now", world.now + 1),
    "a minute": lambda world: setattr(world, "now", world.now + 61),
    "granted": grant,
    "hello": lambda world: world.hellos.update(world.alive),
    "a task ends": lambda world: world.alive and world.told_over.add(world.alive.pop()),
    "cancel": lambda world: setattr(world, "wanted", world.wanted or "enough"),
    "kill": lambda world: [setattr(world, "wanted", "killed"), setattr(world, "urgent", True)],
    "refused": lambda world: setattr(world, "refused", "no such queue"),
    "its notebook is gone": lambda world: setattr(world, "abandoned", "its notebook is gone"),
    "over its memory": lambda world: setattr(world, "cause", "over its memory"),
    "another driver": takes_over,
}
LIVES = st.lists(st.sampled_from(sorted(STEPS)), max_size=25)
SIZES = st.integers(1, 3)


def live(steps, size, *, deaf=False):
    world = World(size, deaf=deaf)
    for name in steps:
        if world.finished:
            break
        if name != "granted" or not world.containers:
            STEPS[name](world)
    return world


@given(LIVES, SIZES, st.booleans())
def test_nothing_is_over_before_nothing_is_left_of_it(steps, size, deaf):
    world = live(steps, size, deaf=deaf)
    if world.finished is None:
        return
    assert not world.alive
    assert world.finished.state.final
    assert len(world.of(Finish)) == 1
    if not world.containers:
        (before, _), (after, _) = world.did[-2:]
        assert isinstance(world.did[-2][1], Withdraw)
        assert before == after


@given(LIVES, SIZES, st.booleans())
def test_every_job_that_is_to_end_ends(steps, size, deaf):
    world = live(steps, size, deaf=deaf)
    assume(world.wanted or world.refused or world.cause)
    for _ in range(20):
        if world.finished:
            break
        world.look()
        world.now += 1
    assert world.finished


@given(LIVES, SIZES)
def test_a_cancel_is_told_once_and_each_container_asked_once_by_a_driver(steps, size):
    world = live([step for step in steps if step != "another driver"], size, deaf=True)
    assert sum(isinstance(one, CancelRequested) for one in world.events) <= 1
    asked = [one.container for _, one in world.of(Signal) if not one.kill]
    assert len(asked) == len(set(asked))


@given(LIVES, SIZES)
def test_nobody_is_killed_before_the_grace_is_over_without_need(steps, size):
    calm = {"kill", "over its memory", "refused", "another driver"}
    world = live([step for step in steps if step not in calm], size, deaf=True)
    kills = [now for now, one in world.of(Signal) if one.kill and not world.course.cause]
    for now in kills:
        (cancelled,) = [one for one in world.events if isinstance(one, CancelRequested)]
        assert now - cancelled.at.mono >= GRACE


@given(LIVES, SIZES)
def test_a_task_is_settled_when_the_cluster_counts_it_no_more_and_it_is_said_to_be_over(
    steps, size
):
    world = live(steps, size)
    for _, one in world.of(FinishTask):
        assert one.task not in world.alive
        assert one.task in world.told_over


def test_what_the_cluster_does_not_count_is_gone_after_a_while_though_nobody_says_so():
    world = World(1)
    grant(world)
    world.alive.clear()
    assert world.look().do == ()
    world.now += MISSED
    assert world.look().do == ()
    world.alive.add("worker-0")  # it was started anew, and has heard of its nodes' containers
    world.alive.add("chief-0")
    assert world.look().do == ()
    world.alive.clear()
    world.now += 1
    assert world.look().do == ()
    world.now += MISSED + 1
    assert world.look(asked=False).do == ()  # it does not answer: nobody knows
    assert world.look().do == (EndSidecars(), FinishTask("chief-0"))


def test_a_fresh_container_need_not_be_counted_yet():
    seen = TaskSeen(task="worker-0", container="c", held=False, fresh=True, over=True)
    decision = decide(Course(), Observations(tasks=(seen,)), at(1), POLICY)
    assert decision.do == ()
    assert decision.course.missing == {}


@given(SIZES)
def test_all_begin_together_or_none(size):
    world = World(size)
    world.containers = {task: task for task in world.tasks[:-1]}
    world.alive = set(world.containers)
    world.hellos = set(world.containers)
    assert OpenGate() not in world.look().do
    grant(world)
    assert OpenGate() not in world.look().do
    world.hellos = set(world.tasks)
    assert (OpenGate() in world.look().do) == (size > 1)


def test_a_task_that_never_says_hello_ends_the_job_by_name():
    world = World(3)
    grant(world)
    world.hellos = {"chief-0", "worker-0"}
    world.look()
    world.now += HELLO_WITHIN
    world.look()
    assert not world.of(Signal)
    world.now += 1
    world.look()
    assert len(world.of(Signal)) == 3
    assert "worker-1 on alpha did not say hello within 300 s" in world.course.cause
    world.look()
    world.look()
    assert world.finished.state is JobState.FAILED
    assert world.finished.reason == world.course.cause


def test_who_waits_for_one_that_ended_before_it_was_there_is_ended():
    world = World(2)
    grant(world)
    world.hellos = {"chief-0"}
    world.alive.discard("worker-0")
    world.told_over.add("worker-0")
    world.look()  # what it left is home
    assert world.ends
    assert not world.of(Signal)
    world.look()
    assert [one.task for _, one in world.of(Signal)] == ["chief-0"]


def test_one_task_alone_is_waited_for_by_nobody():
    world = World(1)
    grant(world)
    world.look()
    world.now += 10 * HELLO_WITHIN
    assert world.look().do == ()


@given(LIVES, SIZES)
def test_a_refusal_after_the_request_leaves_nothing_running(steps, size):
    world = live([*steps, "refused"], size)
    assume(world.containers and not world.finished)
    world.look()
    world.now += 1
    world.look()
    assert not world.alive
    world.look()
    assert world.finished


@given(st.sampled_from(["a", ""]))
def test_a_queued_job_is_withdrawn_before_it_is_said_to_be_cancelled(reason):
    world = World(2, wanted=reason)
    finish = Finish(JobState.CANCELLED, reason or "cancelled in the queue")
    assert world.look().do == (Withdraw(), finish)
    assert [type(one).__name__ for one in world.events[1:]] == ["CancelRequested"]


def test_who_is_cancelled_while_refused_is_cancelled():
    seen = Observations(tasks=(TaskSeen(task="worker-0"),), wanted="bored", refused="no queue")
    assert decide(Course(), seen, at(1), POLICY).do[-1] == Finish(JobState.CANCELLED, "bored")


def test_a_job_that_nobody_waits_for_goes_only_while_it_waits():
    world = World(1, abandoned="its notebook is gone")
    assert world.look().do[-1] == Finish(JobState.CANCELLED, "its notebook is gone")
    running = World(1, abandoned="its notebook is gone")
    grant(running)
    assert running.look().do == ()


def test_another_driver_ends_what_its_predecessor_was_asked_to_end():
    world = World(1, deaf=True)
    grant(world)
    world.look()
    world.wanted = "enough"
    world.look()
    takes_over(world)
    world.wanted = None  # the folder's note is lost; the events are the truth
    world.look()
    world.now += GRACE
    world.look()
    assert not world.alive
    world.look()  # it is settled
    world.look()
    assert world.finished == Finish(JobState.CANCELLED, "enough")


def test_what_had_returned_before_the_cancel_keeps_its_result():
    end = TaskEnd(state=JobState.SUCCEEDED, at=at(3), returned=at(2))
    course = Course(cancelled=CancelRequested(reason="late", at=at(4)))
    seen = Observations(tasks=(TaskSeen(task="worker-0", container="c", end=end),))
    assert decide(course, seen, at(5), POLICY).do == (Finish(JobState.SUCCEEDED, ""),)
    early = replace(course, cancelled=CancelRequested(reason="early", at=at(1)))
    assert decide(early, seen, at(5), POLICY).do == (Finish(JobState.CANCELLED, "early"),)


def seen(*tasks, **more):
    """Return what is seen of tasks that all have said hello: by id, how each ended."""
    found = [
        TaskSeen(task=task, container=task, held=end is None, hello=True, end=end)
        for task, end in tasks
    ]
    return Observations(tasks=tuple(found), **more)


DONE = TaskEnd(state=JobState.SUCCEEDED, at=at(2), returned=at(2))


def test_the_first_of_several_that_fails_ends_the_others_and_speaks():
    noise = TaskEnd(state=JobState.FAILED, reason="connection reset", at=at(3), returned=at(2.2))
    first = TaskEnd(state=JobState.FAILED, reason="ValueError: no", at=at(3), returned=at(2.1))
    tasks = [("chief-0", noise), ("worker-0", None), ("worker-1", first), ("ps-0", None)]
    decision = decide(Course(), seen(*tasks), at(3), POLICY)
    assert decision.course.cause == "worker-1 failed: ValueError: no"
    assert [one for one in decision.do if isinstance(one, Signal)] == [
        Signal("worker-0", "worker-0", kill=True), Signal("ps-0", "ps-0", kill=True),
    ]  # fmt: skip
    killed = TaskEnd(state=JobState.FAILED, reason="killed", at=at(3.5))
    tasks = [(task, end or killed) for task, end in tasks]
    decision = decide(decision.course, seen(*tasks), at(4), POLICY)
    assert decision.do == (Finish(JobState.FAILED, "ValueError: no", "worker-1"),)
    anew = decide(Course(), seen(*tasks), at(4), POLICY)  # another driver
    assert anew.do == decision.do


def test_who_was_asked_to_end_by_nobody_of_us_speaks_only_where_no_other_does():
    """A cluster that sees one task broken may end the others before it tells of that one."""
    asked = TaskEnd(
        state=JobState.FAILED, reason="was asked to end", at=at(3), returned=at(3), paused=True
    )
    tasks = [("worker-0", asked), ("worker-1", None)]
    first = decide(Course(), seen(*tasks), at(3), POLICY)
    later = decide(first.course, seen(*tasks), at(5.9), POLICY)
    assert (first.course.cause, later.course.cause, kills(later)) == ("", "", [])
    killed = TaskEnd(state=JobState.FAILED, reason="ended by SIGKILL", at=at(5.9))
    over = decide(later.course, seen(tasks[0], ("worker-1", killed)), at(5.9), POLICY)
    assert over.do == (Finish(JobState.FAILED, "ended by SIGKILL", "worker-1"),)
    # Nothing comes of the other one: then it was this one alone.
    alone = decide(later.course, seen(*tasks), at(6.1), POLICY)
    assert alone.course.cause == "worker-0 failed: was asked to end"
    assert kills(alone) == ["worker-1"]
    # One that the cluster itself has ended is reason enough.
    lost = seen(("worker-0", replace(asked, lost=True)), tasks[1])
    assert kills(decide(Course(), lost, at(3), replace(POLICY, retries=1))) == ["worker-1"]


FAILED = TaskEnd(state=JobState.FAILED, reason="ValueError: no", at=at(3), returned=at(3))
KEEPS = replace(POLICY, frames_within=2.0)


def kills(decision):
    return [one.task for one in decision.do if isinstance(one, Signal) and one.kill]


def stacks(decision):
    return [one.task for one in decision.do if isinstance(one, AskStack)]


def keeps(decision):
    return [one.task for one in decision.do if isinstance(one, KeepFrames)]


def test_who_is_ended_by_anothers_failure_is_asked_for_its_frames_and_killed_then():
    tasks = [("worker-0", FAILED), ("worker-1", None), ("worker-2", None)]
    first = decide(Course(), seen(*tasks), at(4), KEEPS)
    assert (keeps(first), stacks(first), kills(first)) == (["worker-1", "worker-2"], [], [])
    # Their stacks are asked for once that has had its time: both at once may end a process.
    waits = decide(first.course, seen(*tasks), at(4.9), KEEPS)
    assert (keeps(waits), stacks(waits), kills(waits)) == ([], [], [])
    again = decide(waits.course, seen(*tasks), at(5.1), KEEPS)
    assert (keeps(again), stacks(again), kills(again)) == ([], ["worker-1", "worker-2"], [])
    again = decide(again.course, seen(*tasks), at(5.9), KEEPS)
    assert (keeps(again), stacks(again), kills(again)) == ([], [], [])
    ended = TaskEnd(state=JobState.FAILED, reason="killed", at=at(4.2))
    tasks[1] = ("worker-1", ended)
    late = decide(again.course, seen(*tasks), at(6), KEEPS)
    assert (keeps(late), kills(late)) == ([], ["worker-2"])
    over = decide(late.course, seen(*tasks[:2], ("worker-2", ended)), at(7), KEEPS)
    assert over.do == (Finish(JobState.FAILED, "ValueError: no", "worker-0"),)


@pytest.mark.parametrize(
    ("policy", "end", "course", "more"),
    [
        (POLICY, FAILED, Course(), {}),
        (replace(KEEPS, retries=1), FAILED, Course(), {}),
        (replace(KEEPS, retries=0), replace(FAILED, lost=True), Course(), {}),
        (KEEPS, FAILED, Course(), {"wanted": "now", "urgent": True}),
        (KEEPS, FAILED, Course(cause="over its memory"), {}),
    ],
)
def test_nobody_waits_for_frames_that_nobody_looks_at(policy, end, course, more):
    decision = decide(course, seen(("worker-0", end), ("worker-1", None), **more), at(4), policy)
    assert (keeps(decision), kills(decision)) == ([], ["worker-1"])


def test_who_has_not_begun_has_no_frames():
    silent = TaskSeen(task="worker-1", container="c", held=True)
    failed = TaskSeen(task="worker-0", container="d", end=FAILED)
    decision = decide(Course(), Observations(tasks=(failed, silent)), at(4), KEEPS)
    assert (keeps(decision), kills(decision)) == ([], ["worker-1"])


def test_a_task_that_lost_another_waits_a_moment_for_that_ones_own_words():
    reset = TaskEnd(state=JobState.FAILED, reason="reset", at=at(3), returned=at(2), echo=True)
    value = TaskEnd(state=JobState.FAILED, reason="ValueError: no", at=at(3.2), returned=at(2.9))
    tasks = [("worker-0", reset), ("worker-1", None), ("worker-2", None)]
    decision = decide(Course(), seen(*tasks), at(3), POLICY)
    assert (decision.course.cause, decision.do) == ("", (OpenGate(),))
    tasks[2] = ("worker-2", value)
    decision = decide(decision.course, seen(*tasks), at(3.2), POLICY)
    assert decision.course.blamed == "worker-2"
    assert [one.task for one in decision.do if isinstance(one, Signal)] == ["worker-1"]
    killed = TaskEnd(state=JobState.FAILED, reason="killed", at=at(3.5))
    tasks = [(task, end or killed) for task, end in tasks]
    decision = decide(decision.course, seen(*tasks), at(4), POLICY)
    assert decision.do == (Finish(JobState.FAILED, "ValueError: no", "worker-2"),)


def test_a_task_that_lost_another_speaks_where_nobody_else_does():
    reset = TaskEnd(state=JobState.FAILED, reason="reset", at=at(3), returned=at(2), echo=True)
    tasks = [("worker-0", reset), ("worker-1", None)]
    course = decide(Course(), seen(*tasks), at(3), POLICY).course
    decision = decide(course, seen(*tasks), at(3.5), POLICY)
    assert decision.course.blamed == "worker-0"
    assert [one.task for one in decision.do if isinstance(one, Signal)] == ["worker-1"]
    killed = TaskEnd(state=JobState.FAILED, reason="killed", at=at(3.6))
    tasks[1] = ("worker-1", killed)
    decision = decide(decision.course, seen(*tasks), at(4), POLICY)
    assert decision.do == (Finish(JobState.FAILED, "reset", "worker-0"),)


def test_the_task_that_died_without_a_word_is_named():
    died = TaskEnd(state=JobState.FAILED, reason="exited with code 9", at=at(3))
    tasks = [("worker-0", None), ("worker-1", died)]
    decision = decide(Course(), seen(*tasks), at(3), POLICY)
    killed = TaskEnd(state=JobState.FAILED, reason="killed", at=at(2.5))
    tasks[0] = ("worker-0", killed)
    decision = decide(decision.course, seen(*tasks), at(4), POLICY)
    reason = "worker-1 failed: exited with code 9"
    assert decision.do == (Finish(JobState.FAILED, reason, "worker-1"),)


def test_what_a_job_is_ended_for_is_no_tasks_failure():
    killed = TaskEnd(state=JobState.FAILED, reason="killed", at=at(3))
    course = Course(cause="its folder was deleted")
    decision = decide(course, seen(("worker-0", killed)), at(4), POLICY)
    assert decision.do == (Finish(JobState.FAILED, "its folder was deleted"),)


@pytest.mark.parametrize(
    ("types", "message", "echo"),
    [
        (("ConnectionResetError", "ConnectionResetError"), "[Errno 104]", True),
        (("MyError", "BrokenPipeError"), "", True),
        (("RuntimeError",), "[pair.cc:534] Connection closed by peer [10.0.0.1]:4711", True),
        (("UnavailableError",), "Collective ops is aborted by: worker 2", True),
        (("XlaRuntimeError",), "UNAVAILABLE: Gloo all-reduce failed", True),
        (
            ("XGBoostError", "ValueError"),
            "[20:46:25] /src/collective/result.cc:83: [quantile.cc:300|20:46:25]:\n\n- Poll error",
            True,
        ),
        (("XGBoostError",), "[20:46:25] /src/objective/objective.cc:26: Unknown", False),
        (("ValueError",), "shapes (64,) and (10,)", False),
        (("RuntimeError",), "CUDA out of memory", False),
        (("RuntimeError",), "a" * 20_000 + "connection reset", False),
    ],
)
def test_what_tells_of_another_task_that_was_lost(types, message, echo):
    assert is_echo(types, message) is echo


def test_who_is_asked_to_end_is_given_its_grace_though_another_failed_of_that():
    course = Course(cancelled=CancelRequested(reason="enough", at=at(1)), kill_at=9.0)
    failed = TaskEnd(state=JobState.FAILED, reason="killed by SIGTERM", at=at(2))
    decision = decide(course, seen(("worker-0", failed), ("worker-1", None)), at(3), POLICY)
    assert decision.course.cause == ""
    assert not [one for one in decision.do if isinstance(one, Signal) and one.kill]


def test_what_serves_the_workers_ends_with_the_last_of_them():
    tasks = [("worker-0", DONE), ("worker-1", None), ("ps-0", None), ("evaluator-0", None)]
    decision = decide(Course(), seen(*tasks), at(3), POLICY)
    assert not [one for one in decision.do if isinstance(one, Signal)]
    tasks[1] = ("worker-1", DONE)
    decision = decide(Course(), seen(*tasks), at(3), POLICY)
    assert [one for one in decision.do if isinstance(one, Signal)] == [
        Signal("ps-0", "ps-0", kill=False), Signal("evaluator-0", "evaluator-0", kill=False),
    ]  # fmt: skip
    decision = decide(decision.course, seen(*tasks), at(4), POLICY)
    assert not [one for one in decision.do if isinstance(one, Signal)]
    decision = decide(decision.course, seen(*tasks), at(4 + GRACE), POLICY)
    assert [one.kill for one in decision.do if isinstance(one, Signal)] == [True, True]
    killed = TaskEnd(state=JobState.FAILED, reason="killed by SIGKILL", at=at(10))
    tasks = [(task, end or killed) for task, end in tasks]
    for course in (decision.course, Course(), Course(cause="killed by SIGKILL")):
        done = decide(course, seen(*tasks), at(10), POLICY)
        assert done.do == (Finish(JobState.SUCCEEDED, ""),)


def test_a_chief_of_parameter_servers_ends_its_workers_too():
    """They are servers of TensorFlow's, which never end by themselves."""
    tasks = [("chief-0", DONE), ("worker-0", None), ("ps-0", None)]
    decision = decide(Course(), seen(*tasks), at(3), POLICY)
    assert [one for one in decision.do if isinstance(one, Signal)] == [
        Signal("worker-0", "worker-0", kill=False), Signal("ps-0", "ps-0", kill=False),
    ]  # fmt: skip
    killed = TaskEnd(state=JobState.FAILED, reason="killed by SIGTERM", at=at(4))
    done = decide(
        decision.course, seen(*((task, end or killed) for task, end in tasks)), at(4), POLICY
    )
    assert done.do == (Finish(JobState.SUCCEEDED, ""),)


def test_a_chief_without_parameter_servers_waits_for_its_workers():
    decision = decide(Course(), seen(("chief-0", DONE), ("worker-0", None)), at(3), POLICY)
    assert not [one for one in decision.do if isinstance(one, Signal)]


def test_where_nobody_works_nobody_serves():
    decision = decide(Course(), seen(("ps-0", None), ("ps-1", None)), at(3), POLICY)
    assert not [one for one in decision.do if isinstance(one, Signal)]


# What is begun again, and when that is enough.


def begin(world):
    grant(world)
    attempt = fold(world.events).attempt
    told = {"task": "chief-0", "at": at(world.now)}
    world.events.append(Granted(**told, host="alpha", container="c", attempt=attempt))
    world.events.append(Started(**told))


def lose(world):
    if world.alive:
        task = world.alive.pop()
        world.told_over.add(task)
        world.lost.add(task)


ENDLESS = {
    **STEPS,
    "a task is lost": lose,
    "there is room": lambda world: setattr(world, "room", 2),
    "there is none": lambda world: setattr(world, "room", 0),
    "a checkpoint": lambda world: setattr(world, "kept", bool(world.alive)),
}
MANY_LIVES = st.lists(st.sampled_from(sorted(ENDLESS)), max_size=60)
RETRIES = st.sampled_from([None, 0, 1, 3])


def live_again(steps, size, retries, time_limit=None):
    world = World(size, policy=Policy(grace=GRACE, retries=retries, time_limit=time_limit))
    for name in steps:
        if world.finished:
            break
        if name != "granted":
            ENDLESS[name](world)
        elif not world.containers:
            begin(world)
    return world


def ended(world, *, lost=False, looks=3):
    """Let all tasks fail, or be lost, and have the driver see to that."""
    begin(world)
    while world.alive:
        lose(world) if lost else world.told_over.add(world.alive.pop())
    for _ in range(looks):
        if not world.ends and not world.containers:
            break
        world.look()


@given(MANY_LIVES, SIZES, RETRIES)
def test_a_job_is_begun_again_only_as_often_as_it_may_be(steps, size, retries):
    world = live_again(steps, size, retries)
    again = [one for _, one in world.of(Again)]
    assert [one.attempt for one in again] == list(range(2, len(again) + 2))
    assert sum(one.counted for one in again) <= (retries or 0)
    grown = sum(one.reason.startswith("there is room") for one in again)
    assert grown <= sum(isinstance(one, Growing) for one in world.events)
    assert sum(not one.counted for one in again) - grown <= LOST_TRIES
    assert retries is not None or not again


@given(MANY_LIVES, SIZES, RETRIES)
def test_what_is_to_end_is_never_begun_again(steps, size, retries):
    for why in ("cancel", "refused"):
        world = live_again([*steps, why], size, retries)
        before = len(world.of(Again))
        for _ in range(20):
            if not world.finished:
                world.look()
                world.now += 1
        assert world.finished
        assert len(world.of(Again)) == before


@given(SIZES, st.integers(0, 4))
def test_code_that_always_fails_is_tried_so_often_and_once(size, retries):
    world = World(size, policy=Policy(grace=GRACE, retries=retries))
    for _ in range(retries + 1):
        assert not world.finished
        ended(world)
    assert world.finished.state is JobState.FAILED
    assert len(world.of(Again)) == retries
    if retries:
        assert world.finished.reason.endswith(f"(attempt {retries + 1} of {retries + 1})")


@given(SIZES)
def test_what_the_cluster_ends_does_not_count_and_is_not_endless(size):
    world = World(size, policy=Policy(grace=GRACE, retries=1))
    for _ in range(LOST_TRIES):
        ended(world, lost=True)
        assert not world.finished
    assert not any(one.counted for _, one in world.of(Again))
    ended(world)  # the code's own failure is still free
    assert world.of(Again)[-1][1].counted
    ended(world, lost=True)
    assert world.finished.state is JobState.FAILED


def test_what_says_that_it_would_come_to_the_same_is_not_begun_again():
    end = TaskEnd(state=JobState.FAILED, reason="all calls failed", final=True)
    for one, done in ((end, Finish), (replace(end, final=False), Again)):
        seen = Observations(tasks=(TaskSeen(task="worker-0", container="c", end=one),))
        (last,) = decide(Course(), seen, at(3), Policy(grace=GRACE, retries=1)).do
        assert isinstance(last, done)


UNSTARTED = TaskEnd(state=JobState.FAILED, reason="the disk is full", unstarted=True)


def test_what_could_not_be_started_does_not_count_and_waits_longer_each_time():
    seen = Observations(tasks=(TaskSeen(task="worker-0", container="c", end=UNSTARTED),))
    policy = Policy(grace=GRACE, retries=1)
    last = [
        decide(Course(attempt=number + 2, failures=1), seen, at(3), policy).do[0]
        for number in range(LOST_TRIES + 1)
    ]
    again, (over,) = last[:-1], last[-1:]
    assert not any(one.counted for one in again)
    pauses = [one.pause for one in again]
    assert pauses[:3] == [0.5, 1, 2]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60
    assert over.state is JobState.FAILED
    failed = replace(UNSTARTED, unstarted=False)
    seen = Observations(tasks=(TaskSeen(task="worker-0", container="c", end=failed),))
    assert decide(Course(), seen, at(3), policy).do == (Again(2, "the disk is full", counted=True),)


def test_a_job_that_waits_for_room_can_be_cancelled():
    task = TaskSeen(task="worker-0", container="c", end=UNSTARTED)
    seen = Observations(tasks=(task,), wanted="not needed")
    decision = decide(Course(), seen, at(3), Policy(grace=GRACE, retries=1))
    assert decision.do == (Finish(JobState.CANCELLED, "not needed"),)
    (cancelled,) = decision.events
    assert cancelled.reason == "not needed"


def test_another_driver_begins_the_same_attempt_and_no_other():
    world = World(1, policy=Policy(grace=GRACE, retries=2))
    ended(world, looks=1)  # settled, and nothing is noted
    takes_over(world)
    world.look()
    takes_over(world)  # it is noted, and nothing is asked for
    assert world.course.attempt == 2
    assert world.look().do == ()
    ended(world)
    assert [one.attempt for _, one in world.of(Again)] == [2, 3]


def test_a_warning_is_of_the_attempt_that_it_was_given_for():
    world = World(1, policy=Policy(grace=GRACE, retries=1))
    world.events.append(Warned(text="nothing goes on"))
    ended(world)
    assert fold(world.events).warning == ""


def test_the_first_to_fail_is_named_and_one_that_was_lost_before_all():
    def of(end, name):
        return TaskSeen(task=name, container=name, end=end, host="alpha")

    policy = Policy(grace=GRACE, retries=1)
    reset = TaskEnd(state=JobState.FAILED, reason="connection reset", at=at(1))
    preempted = TaskEnd(state=JobState.FAILED, reason="preempted", at=at(2), lost=True)
    seen = Observations(tasks=(of(reset, "worker-0"), of(preempted, "worker-1")))
    (again,) = decide(Course(), seen, at(3), policy).do
    assert again == Again(2, "worker-1 on alpha failed: preempted", counted=False)
    own = replace(preempted, lost=False)
    seen = Observations(tasks=(of(reset, "worker-0"), of(own, "worker-1")))
    (again,) = decide(Course(), seen, at(3), policy).do
    assert again == Again(2, "worker-0 on alpha failed: connection reset", counted=True)


LIMIT = Policy(grace=GRACE, retries=5, time_limit=7200)
OVER = "was over its time limit of 2 h (--time_limit)"


def test_at_its_time_limit_a_job_is_asked_to_end_and_has_failed():
    world = World(1, policy=LIMIT, deaf=True)
    grant(world)
    world.now += 1e6  # it waits for the start of its code as long as it takes
    assert world.look().do == ()
    world.alive.clear()
    begin(world)
    began = world.now
    world.now = began + 7199
    assert world.look().do == ()
    world.now = began + 7200
    assert world.look().do == (Signal("chief-0", "container-0", kill=False),)
    takes_over(world)
    world.look()
    world.now += GRACE
    assert world.look().do == (Signal("chief-0", "container-0", kill=True),)
    world.look()
    world.look()
    assert world.finished == Finish(JobState.FAILED, OVER)
    assert not world.of(Again)


def test_the_time_limit_counts_over_all_attempts_and_in_the_queue_between_them():
    world = World(1, policy=LIMIT)
    ended(world)
    began = fold(world.events).started.mono
    world.now = began + 7199
    assert world.look().do == ()
    world.now = began + 7200
    assert world.look().do == (Withdraw(), Finish(JobState.FAILED, OVER))


def test_there_is_no_attempt_after_the_time_limit():
    seen = TaskSeen(task="worker-0", container="c", end=TaskEnd(state=JobState.FAILED, reason="no"))
    late = Observations(tasks=(seen,), started=at(1))
    (finish,) = decide(Course(), late, at(7201), LIMIT).do
    assert finish.reason == "no; there is no time left for another attempt"


def test_the_time_limit_outlives_the_start_of_the_machine():
    seen = TaskSeen(task="worker-0", container="c", held=True)
    started = Moment(1000.0, 9e6)
    now = Moment(1000.0 + 7200, 5.0)
    decision = decide(Course(), Observations(tasks=(seen,), started=started), now, LIMIT)
    assert decision.course.cancelled.expired


def test_who_had_returned_or_comes_to_its_end_keeps_its_result():
    expired = CancelRequested(reason=OVER, expired=True, at=at(3))
    returned = TaskEnd(state=JobState.SUCCEEDED, returned=at(2), at=at(4))
    handled = TaskEnd(state=JobState.SUCCEEDED, returned=at(4), at=at(4), to_its_end=True)
    for end in (returned, handled):
        seen = Observations(tasks=(TaskSeen(task="worker-0", container="c", end=end),))
        assert decide(Course(cancelled=expired), seen, at(5), LIMIT).do == (
            Finish(JobState.SUCCEEDED, ""),
        )


IDLE = "its GPU did nothing for 10 min (--idle); its model is saved in /saved"


def test_a_job_whose_gpus_do_nothing_is_asked_to_end_and_is_not_begun_again():
    task = TaskSeen(task="worker-0", container="c", held=True)
    decision = decide(Course(), Observations(tasks=(task,), idle=IDLE), at(1), LIMIT)
    (event,) = decision.events
    assert (event.reason, event.expired) == (IDLE, True)
    assert decision.do == (Signal("worker-0", "c", kill=False),)
    over = replace(task, end=TaskEnd(state=JobState.FAILED, reason="KeyboardInterrupt"))
    last = decide(decision.course, Observations(tasks=(over,)), at(2), LIMIT)
    assert last.do == (Finish(JobState.FAILED, IDLE),)
    # Who has cancelled it before says why.
    before = CancelRequested(reason="enough", at=at(1))
    cancelled = decide(
        Course(cancelled=before), Observations(tasks=(task,), idle=IDLE), at(2), LIMIT
    )
    assert cancelled.course.cancelled == before


# Jobs that may have more tasks.


ELASTIC = Policy(grace=GRACE, retries=0, grow_after=30.0)


def elastic(**more):
    """Return a job of two tasks that run, and have kept a checkpoint."""
    world = World(2, policy=ELASTIC, kept=True, **more)
    begin(world)
    world.hellos.update(world.tasks)
    world.look()
    return world


def test_a_job_grows_when_there_has_been_room_for_a_while():
    world = elastic(room=2)
    world.now += 29
    world.look()
    assert not world.of(Signal)
    world.now += 1
    world.look()
    assert {one.task for _, one in world.of(Signal)} == set(world.tasks)
    assert not any(one.kill for _, one in world.of(Signal))
    (growing,) = (one for one in world.events if isinstance(one, Growing))
    world.look()
    world.look()
    ((_, again),) = world.of(Again)
    assert again == Again(2, growing.reason, counted=False)
    status = fold(world.events)
    assert (status.grown, status.growing, status.failures) == (1, "", 0)


def test_room_that_comes_and_goes_is_none():
    world = elastic(room=2)
    for room in (2, 0, 2):
        world.room = room
        world.now += 29
        world.look()
    assert not world.of(Signal)


def test_a_job_that_has_kept_nothing_waits_for_its_first_checkpoint():
    world = elastic(room=2)
    world.kept = False
    world.now += 299
    world.look()
    assert not world.of(Tell)
    for _ in range(2):  # and it is said once
        world.now += 1
        world.look()
    ((_, told),) = world.of(Tell)
    assert told.text.startswith("there is room for 3 workers, and it has 1: it goes on with 1")
    assert not world.of(Signal)
    world.kept = True
    world.look()
    assert world.of(Signal)


def test_a_job_whose_code_may_run_once_never_grows():
    world = elastic(room=2)
    world.policy = replace(ELASTIC, retries=None)
    world.now += 300
    assert not [one for one in world.look().do if isinstance(one, Signal)]


def test_a_step_may_take_as_long_as_it_does_but_nobody_waits_for_one_that_stays_behind():
    world = elastic(room=1, deaf=True)
    world.now += 30
    world.look()
    world.now += 1000 * GRACE
    world.look()
    assert not any(one.kill for _, one in world.of(Signal))
    first, second = world.tasks
    world.alive.discard(first)
    world.told_over.add(first)
    world.asked.add(first)
    world.look()  # it is settled
    world.look()
    world.now += GRACE
    world.look()
    assert {one.task for _, one in world.of(Signal) if one.kill} == {second}
    world.look()
    world.look()
    assert [one.counted for _, one in world.of(Again)] == [False]


def test_another_driver_goes_on_with_what_its_predecessor_had_begun():
    world = elastic(room=1, deaf=True)
    world.now += 30
    world.look()
    takes_over(world)
    world.deaf, world.room = False, 0
    for _ in range(3):
        world.look()
    assert [one.counted for _, one in world.of(Again)] == [False]
    assert sum(isinstance(one, Growing) for one in world.events) == 1


def test_who_is_cancelled_while_it_is_to_grow_is_cancelled():
    world = elastic(room=1, deaf=True)
    world.now += 30
    world.look()
    world.wanted = "enough"
    for _ in range(4):
        world.look()
        world.now += GRACE
    assert not world.of(Again)
    assert world.finished == Finish(JobState.CANCELLED, "enough")


def test_a_job_that_comes_to_its_end_meanwhile_has_succeeded():
    world = elastic(room=1, deaf=True)
    world.now += 30
    world.look()
    world.gone = True  # its tasks are through, and nobody has heard the request
    world.alive.clear()
    world.look()
    world.look()
    assert not world.of(Again)
    assert world.finished.state is JobState.SUCCEEDED


def test_growing_does_not_use_up_what_a_job_may_lose():
    world = World(1, policy=ELASTIC)
    for _ in range(LOST_TRIES + 2):
        begin(world)
        world.kept, world.room = True, 1
        world.look()
        world.now += 31
        for _ in range(3):
            world.look()
    assert len(world.of(Again)) == LOST_TRIES + 2
    world.room = 0
    for _ in range(LOST_TRIES):
        ended(world, lost=True)
        assert not world.finished
    ended(world, lost=True)
    assert world.finished.state is JobState.FAILED


@given(st.floats(0, 100), st.lists(st.floats(0, 1e9)))
def test_long_steps_have_their_time_up_to_a_bound(grace, needs):
    found = grace_for(Policy(grace=grace), needs)
    assert found >= grace
    assert found <= max(grace, MOST_GRACE)
    assert all(found >= min(need, MOST_GRACE) for need in needs)
    assert grace_for(Policy(grace=grace, exact_grace=True), needs) == grace


STOPPED = "somebody ended it there"
ASKED = TaskEnd(state=JobState.FAILED, reason="interrupted", at=at(2), returned=at(2), paused=True)
KILLED = TaskEnd(state=JobState.FAILED, reason="ended by SIGKILL", at=at(2))
RAISED = TaskEnd(state=JobState.FAILED, reason="ValueError", at=at(1), returned=at(1))
RESET = TaskEnd(state=JobState.FAILED, reason="reset", at=at(2), returned=at(2), echo=True)


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ((KILLED,), JobState.CANCELLED),
        ((ASKED,), JobState.CANCELLED),
        ((ASKED, RESET), JobState.CANCELLED),
        ((DONE, KILLED), JobState.CANCELLED),
        ((RAISED,), JobState.FAILED),
        ((RAISED, KILLED), JobState.FAILED),
        ((DONE,), JobState.SUCCEEDED),
    ],
)
@pytest.mark.parametrize("retries", [None, 3])
def test_what_somebody_ended_on_the_cluster_is_cancelled_unless_it_had_ended(ends, state, retries):
    looks = replace(seen(*((f"worker-{n}", end) for n, end in enumerate(ends))), stopped=STOPPED)
    course = Course(cause="worker-1 failed", blamed="worker-1") if len(ends) > 1 else Course()
    decision = decide(course, looks, at(3), replace(POLICY, retries=retries))
    (last,) = decision.do
    assert isinstance(last, Finish)  # it is never begun again
    assert last.state is state
    cancelled = [one.reason for one in decision.events if isinstance(one, CancelRequested)]
    assert cancelled == ([STOPPED] if state is JobState.CANCELLED else [])
    assert (last.reason == STOPPED) == (state is JobState.CANCELLED)


@pytest.mark.parametrize("stopped", ["", STOPPED])
def test_what_somebody_ended_on_the_cluster_while_it_waited_is_cancelled(stopped):
    looks = Observations(tasks=(TaskSeen(task="worker-0"),), refused="why", stopped=stopped)
    state = JobState.CANCELLED if stopped else JobState.FAILED
    assert decide(Course(), looks, at(3), POLICY).do == (Withdraw(), Finish(state, "why"))


def test_what_a_driver_ended_for_a_cause_of_its_own_has_failed_of_that():
    looks = replace(seen(("worker-0", KILLED)), stopped=STOPPED)
    decision = decide(Course(cause="its folder was deleted"), looks, at(3), POLICY)
    assert decision.do == (Finish(JobState.FAILED, "its folder was deleted"),)
