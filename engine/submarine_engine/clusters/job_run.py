"""One job from its request to its end: what a keeper does in a thread for each.

A `JobRun` looks at the job (its folder, its containers, the cluster), lets `lifecycle.decide` say
what is to be done, and does that by the job's `Request`. Its record is on disk: another keeper can
go on at any point. The local cluster has no keeper: a supervisor does it for its one job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from submarine_runtime.call_frames import CALLS
from submarine_runtime.exchange import INSIDE, INSIDE_ASK
from submarine_runtime.notices import NOTICE
from submarine_runtime.peer_failed import ASK as FRAMES_ASK
from submarine_runtime.saving import ASK
from submarine_runtime.stacks import ASK as STACKS_ASK
from submarine_runtime.stacks import ASK_MAIN as STACKS_ASK_MAIN

from submarine_engine.clusters import store
from submarine_engine.clusters.backend import AllocatedByTask, KeptJob
from submarine_engine.clusters.exchange import (
    ANSWER,
    HELLO,
    LARGEST,
    CallCarrier,
    Hello,
    WrongHelloError,
    answer,
    read_hello,
)
from submarine_engine.clusters.hangs import HangFinder, StackSampler
from submarine_engine.clusters.machine import boot_id, lives, session_of
from submarine_engine.clusters.memory import MemoryWatch, exceeded, lost_process, peak_words
from submarine_engine.clusters.store import Journal, read_events
from submarine_engine.clusters.tasks import (
    NO_ROOM,
    Ending,
    TaskRun,
    final_task_state,
    here,
    read_outcome,
    returned_event,
    tells_of_another,
)
from submarine_engine.errors import ClusterError, SubmarineError, SubmissionError
from submarine_engine.events import (
    CancelRequested,
    Event,
    Exited,
    Finished,
    MasterStarted,
    Moment,
    Progressed,
    Released,
    Resized,
    Retried,
    Waiting,
    Warned,
)
from submarine_engine.history import JobPaths, read_foreign, read_json, write_aside
from submarine_engine.job import JobSpec, JobState
from submarine_engine.lifecycle import (
    GROW_AFTER,
    Again,
    AskStack,
    Course,
    EndSidecars,
    Finish,
    FinishTask,
    Instruction,
    KeepFrames,
    Observations,
    OpenGate,
    Policy,
    Signal,
    TaskEnd,
    TaskSeen,
    TaskStatus,
    Tell,
    Withdraw,
    apply,
    decide,
    final_state,
    fold,
    grace_for,
)

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import Backend, Counted
    from submarine_engine.clusters.idle import IdleWatch

# How long a driver rests between two looks. Somebody waits for the first line, and somebody else
# for the GPU: both are looked for more often than all between.

_NEXT = 0.003  # seconds: its first line may come at any moment
_FIRST = 0.008  # seconds until the first line shows: half of a screen's frame
_LAUNCH = 0.1  # seconds that a node takes at least to launch a container
_EARLY = 2.0  # seconds after its grant; a job that is silent for longer imports much, or is slow
_LIVELY = 0.03  # seconds while a task is awaited that has not begun: two frames of a screen
_EASY = 0.05  # seconds while it runs: text that comes so late still seems to come at once
_EVERY = 1.0  # seconds between two questions to the cluster itself, whose answers are no newer
_RELEASE = 0.02  # seconds: a GPU that falls free is the next job's; processes end within some
_TELLING = 1.0  # seconds: a place in a queue is read by people, and asking for it costs the cluster
_UNTOLD = 0.5  # seconds of waiting that are not worth a word, nor three questions to the cluster

# Of many tasks all but the first are looked at ever more seldom, so that their driver costs hardly
# more than that of a few: a look at one takes a tenth of a millisecond.
_EACH = 0.008  # seconds a task
_CROWD = 0.5  # seconds: what text may be late by, at most, however many tasks there are

_REST = 12  # times what turns take of the processor: hundreds of tasks take a twelfth of a core

_ROOM_COMES = 30.0  # seconds that a full disk is given before the job ends between two attempts

_WOKEN = 0.5  # where a host is woken: limits of time and memory are looked at so often

_LONGEST_REASON = 500
_SIGKILL = 9

_SILENT = 30.0  # seconds without a word of any task, until that is said: a line may be gone

_ABANDONED = "its notebook is gone"
_ORPHANED = "the job that it works for is over"


class Stop(Protocol):
    """What a driver rests by, as a `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the driver ends, and leaves the job to the next one."""

    def wait(self, timeout: float) -> object:
        """Rest `timeout` seconds, less where something happens."""


class JobRun:
    """Sees a job through.

    Parameters
    ----------
    backend
        The job's cluster.
    paths
        The job's files.
    load
        Tells how many jobs share the keeper: with many, each looks less often.
    launch
        What ``launch.json`` says, where it is gone by now.

    Raises
    ------
    ClusterError
        The job cannot be followed now.
    OSError
        Its folder cannot be read.
    """

    def __init__(
        self,
        backend: Backend,
        paths: JobPaths,
        load: Callable[[], int],
        launch: Mapping[str, Any] | None = None,
    ) -> None:
        self._backend = backend
        self._paths = paths
        self._load = load
        record = read_json(paths.record)
        launch = launch or read_json(paths.root / "launch.json")
        if record is None or launch is None:
            raise ClusterError("its record is gone", where=str(paths.root))
        self._launch = launch
        self._record = record
        self._whole = spec = JobSpec.from_json(record["spec"])
        told = [event for event, _ in read_events(paths.events)[0]]
        self._status = fold(told)
        self._policy = Policy(
            grace=float(launch["grace"]) if spec.grace is None else spec.grace,
            exact_grace=spec.grace is not None,
            hello_within=backend.hello_within,
            missed_within=backend.missed_within,
            retries=spec.tries,
            time_limit=spec.time_limit,
            grow_after=float(launch.get("grow_after", GROW_AFTER)),
            frames_within=backend.frames_within if _keeps_frames(spec) else 0.0,
        )
        self._unwritten: list[Event] = []
        self._dead_at: float | None = None
        self._full_since: float | None = None
        # Of the keeper before this one: what returned after it has not returned before the cancel.
        asked_to_end = (event for event in told if isinstance(event, CancelRequested))
        self._begin(next(asked_to_end, None))
        try:
            self._journal = Journal(paths, record)
        except OSError:
            self._request.close()
            raise

    def _begin(self, cancelled: CancelRequested | None = None) -> None:
        """Begin with the newest attempt, or go on with it."""
        status, paths = self._status, self._paths
        attempt = status.attempt
        if attempt > 1 and not any(task.held for task in status.tasks):
            self._clear()
        job = KeptJob(paths, self._whole, self._launch, self._record, attempt)
        self._request = self._backend.request(job)
        self._course = Course(
            cancelled=cancelled,
            attempt=attempt,
            failures=status.failures,
            growing=status.growing,
            grown=status.grown,
        )
        self._is_sized = self._whole.elastic is None
        self._follow([task.task for task in status.tasks] or list(self._whole.smallest.tasks))
        self._hellos: dict[str, Hello] = {}
        self._wrong_hello = ""
        self._answer = b""  # what the tasks are told; a former keeper may have told them already
        if paths.answer.exists():
            self._answer = paths.answer.read_bytes()
        self._answered = False
        self._is_checkpoint_noted = False
        self._room, self._room_at = 0, 0.0
        self._relayed: dict[str, bytes] = {}
        self._brings_more = False
        self._let_in: dict[str, bytes] = {}
        self._told_inside: dict[str, bytes] = {}
        self._refused = ""
        self._counted_at = 0.0
        self._ends: dict[str, TaskEnd] = {}
        self._over_at: float | None = None  # where another attempt comes
        self._told_waiting_at = time.monotonic() - _TELLING + _UNTOLD
        self._came_on_at = time.monotonic()  # a container was last given, or began
        self._effort = 0.0  # seconds of the processor that the last turn took

    def _follow(self, tasks: Collection[str]) -> None:
        """Follow these tasks, which are those of the attempt."""
        workers = sum(task.startswith("worker-") for task in tasks)
        self._spec = self._whole if self._whole.elastic is None else self._whole.sized(workers)
        self._containers = [
            self._request.follow(self._paths, task, role.resources.gpus or 0)
            for role in self._spec.roles
            for task in role.tasks
        ]
        for container in self._containers:
            container.gathered = self._request.ends_with_job
            container.follows = bool(self._status.tasks) and (
                container.task != self._status.ranked[0].task
            )
            container.attempt = self._status.attempt
        self._carriers: dict[str, CallCarrier] = {}
        if self._spec.parent and not self._backend.tasks_here:
            for one in self._containers:
                path = one.files.root / CALLS
                self._carriers[one.task] = CallCarrier(path, one.task, self._request.exchange)
        warned, finder = bool(self._status.warning), HangFinder(self._spec)
        self._memory, self._idle = MemoryWatch(self._spec), self._idle_watch()
        self._said: dict[object, str] = {}  # what each of these has warned of last
        self._silent_since: float | None = None
        self._stacks = StackSampler(self._paths, self._request, finder, warned=warned)

    def _idle_watch(self) -> IdleWatch | None:
        """Return what watches for idle GPUs; None where they may be: a pool sees to its workers."""
        if not self._spec.idle or self._spec.parent:
            return None
        # imported late: few jobs are watched so, and who supervises others need not wait for it
        from submarine_engine.clusters.idle import SAVE_WITHIN, IdleWatch  # noqa: PLC0415
        from submarine_engine.clusters.saving import SaveRequest  # noqa: PLC0415 - likewise

        asked = SaveRequest(self._paths, lambda: self._status, SAVE_WITHIN, of_code=True)
        return IdleWatch(
            self._spec.idle,
            self._paths,
            lambda path: self._backend.save(asked, path),
            self._add_warning,
        )

    def _clear(self) -> None:
        """Remove what the attempt before this one has left."""
        former = [*(task.task for task in self._status.tasks), *self._status.gone]
        store.clear_attempt(self._paths, former, self._between)

    @property
    def _between(self) -> str:
        """The line that stands in the log between the attempt before this one and this one."""
        status = self._status
        lost = status.attempt - 1 - status.failures
        most = max(status.attempt, 1 + lost + (self._policy.retries or 0))
        why = " ".join(status.retried.split())
        return f"— attempt {status.attempt} of {most} begins: {why} —"

    def run(self, stop: Stop) -> bool:
        """See the job through; False where `stop` came first.

        Raises
        ------
        OSError
            Its folder is gone, or cannot be written.
        """
        while not self._status.state.final:
            if stop.is_set():
                return False
            began = time.thread_time()
            again = self._turn()
            effort, self._effort = self._effort, time.thread_time() - began
            if not again:
                if not any(container.id for container in self._containers):
                    self._journal.rest()  # it may wait for days, beside a thousand others
                pause = _LIVELY if self._stacks.is_sampling else self._pause()
                # What one turn takes once, as bringing a pod its files, is no measure of the next.
                usual = min(effort, self._effort)
                self._rest(stop, max(pause, min(usual * _REST, _EVERY)))
        self._request.forget()
        return True

    def _rest(self, stop: Stop, pause: float) -> None:
        """Rest until the next turn; where that is long, go on with the log that is shown."""
        until = time.monotonic() + pause
        first = self._containers[0]
        while (left := until - time.monotonic()) > _EASY and self._is_crowd and not first.over:
            stop.wait(_EASY)
            if stop.is_set():
                return
            # The node is silent, or the disk here is full: the turn sees to that.
            with suppress(ClusterError, OSError):
                self._note(*first.poll())
        if left > 0 and not first.over:
            stop.wait(left)

    def close(self) -> None:
        """Let go of the job, over or not."""
        self._request.close()
        self._journal.close()

    def _turn(self) -> bool:
        """Observe, decide, act; return whether there is more to do at once."""
        seen = self._observe()
        now = Moment.now()
        decision = decide(self._course, seen, now, replace(self._policy, grace=self._grace))
        self._course = decision.course
        self._write(*decision.events)
        for instruction in decision.do:
            if isinstance(instruction, Again):
                return self._begin_again(instruction, now)
            try:
                self._act(instruction, now)
            except ClusterError:  # it does not answer now: nothing more may be done
                if isinstance(instruction, Signal):
                    asked = self._course.asked - {instruction.container}
                    self._course = replace(self._course, asked=asked)
                    continue
                return False
        return any(isinstance(one, FinishTask) for one in decision.do)

    # What a job is like.

    def _observe(self) -> Observations:
        cancel = store.cancel_request(self._paths)
        if len(self._ends) == len(self._containers):
            tasks = tuple(self._seen(one, None) for one in self._containers)
            return Observations(
                tasks=tasks,
                wanted=cancel.reason if cancel else None,
                started=self._started,
                stopped=self._request.stopped,
            )
        ending = cancel is not None or self._course.cancelled is not None
        given: AllocatedByTask | None = None
        # A job that shall end is asked for only where the cluster may know of it already.
        if not self._refused and (not ending or self._request.begun):
            try:
                given = self._request.ask()
            except (SubmissionError, ClusterError) as error:
                self._refused = str(error)
        if given is not None:
            self._size(given)
            self._grant_tasks(given)
        if not all(container.id for container in self._containers) and not ending:
            self._tell_waiting()
        self._poll_tasks()
        self._note_checkpoint()
        self._renew_access()
        if not ending:
            self._collect_hellos()
            self._relay()
            self._bring_calls()
            self._let_inside()
            self._check_stacks()
            self._check_memory()
            self._check_idle()
            self._check_use()
        counted = self._count()
        return Observations(
            tasks=tuple(self._seen(container, counted) for container in self._containers),
            wanted=cancel.reason if cancel else None,
            urgent=cancel is not None and cancel.kill,
            refused=self._refused,
            abandoned=self._abandoned(),
            cause=self._wrong_hello or self._request.cause,
            over=counted is not None and counted.over,
            started=self._started,
            stopped=self._request.stopped if self._refused else "",
            room=self._check_room(),
            kept=any(container.progress.kept for container in self._containers),
            idle=self._idle.reason if self._idle and not self._course.growing else "",
        )

    def _note_checkpoint(self) -> None:
        """Have a file say that there is a checkpoint: who shows the job offers to save it then."""
        if not self._is_checkpoint_noted and any(
            container.progress.checkpoint for container in self._containers
        ):
            with suppress(OSError):  # the disk is full: once there is room again
                self._paths.checkpoint_kept.touch(mode=0o600)
                self._is_checkpoint_noted = True

    @property
    def _started(self) -> Moment | None:
        """When the job's code began, on this machine's clock as it is since its last start."""
        started = self._status.started
        boot = self._record.get("boot")
        if started is None or not boot or boot == boot_id():
            return started
        return here(started.wall)

    def _size(self, given: AllocatedByTask) -> None:
        """Follow as many tasks as an elastic job was given for this attempt."""
        if self._is_sized:
            return
        self._is_sized = True
        tasks = tuple(task for task in self._whole.tasks if task in given)
        if tasks != tuple(one.task for one in self._containers):
            sized = self._whole.sized(sum(task.startswith("worker-") for task in tasks))
            self._write(Resized(tasks=tasks, gpus=sized.gpus or 0))
            self._follow(tasks)

    def _check_room(self) -> int:
        """Return how many workers more the job could have; asked about once a second."""
        role, workers = self._whole.elastic, self._spec.roles
        count = next((one.count for one in workers if one.name == "worker"), 0)  # a chief alone
        runs = self._answered or len(self._containers) == 1
        if role is None or count == role.count or not runs or self._course.growing:
            return 0
        if time.monotonic() - self._room_at >= _EVERY:
            self._room_at = time.monotonic()
            with suppress(ClusterError):  # it does not answer now: as before
                self._room = min(self._request.room(), role.count - count)
        return self._room

    def _seen(self, container: TaskRun, counted: Counted | None) -> TaskSeen:
        held = None if counted is None or not container.id else container.id in counted.held
        return TaskSeen(
            task=container.task,
            container=container.id,
            held=held,
            fresh=held is False and self._request.is_fresh(container.id),
            over=container.over or (held is False and self._request.is_over(container.task)),
            end=self._ends.get(container.task),
            host=container.node.partition(":")[0],
            hello=bool(self._answer) or container.task in self._hellos,
        )

    def _collect_hellos(self) -> None:
        """Read the hellos of the tasks of a job of several, until all are there."""
        several, given = len(self._containers) > 1, all(one.id for one in self._containers)
        if not several or not given or self._answer:
            return
        try:
            said = self._request.exchange({})
        except ClusterError:  # it does not answer now
            return
        for container in self._containers:
            data = said.get(container.task, {}).get(HELLO)
            if data is None or container.task in self._hellos:
                continue
            try:
                attempt = self._course.attempt
                hello = read_hello(data, self._paths.job_id, container.task, attempt)
            except WrongHelloError as error:
                host = container.node.partition(":")[0]
                self._wrong_hello = f"{container.task} on {host} cannot begin: {error.what}"
            else:
                self._hellos[container.task] = hello
        if len(self._hellos) == len(self._containers):
            told = answer(self._spec, self._hellos, self._course.attempt)
            # Kept before anybody hears it: whoever takes the job over says the same, and knows
            # that nobody's hello is to be waited for.
            write_aside(self._paths.answer, told)
            self._answer = told

    def _answer_hellos(self) -> None:
        """Answer all hellos: tell each task where the others are, so that they begin."""
        if not self._answered:
            told = {ANSWER: self._answer}
            self._request.exchange({one.task: told for one in self._containers})
            self._answered = True

    def _relay(self) -> None:
        """Bring to the tasks what somebody asks of them while they run.

        Who asks writes a file into the job's folder, from whichever process: see `saving`.
        """
        for one in self._containers:
            if one.started is None or one.released:
                continue
            # It does not answer now: once more. What the job's code has put there is no question.
            with suppress(OSError, ClusterError):
                ask = one.files.root / ASK
                if not ask.exists():  # hundreds are looked at, and few are asked anything
                    continue
                asked = read_foreign(ask, LARGEST)
                if asked != self._relayed.get(one.task):
                    self._request.exchange({one.task: {ASK: asked}})
                    self._relayed[one.task] = asked

    def _renew_access(self) -> None:
        """Renew what running tasks have access by, also while they end."""
        running = [one.task for one in self._containers if one.id and not one.over]
        if running:
            with suppress(SubmarineError):  # the next turn looks again
                self._request.renew_access(running)

    def _bring_calls(self) -> None:
        """Bring a pool's worker what its controller has written for it."""
        self._brings_more = False
        for one in self._containers:
            carrier = self._carriers.get(one.task)
            if carrier is None or one.started is None or one.released:
                continue
            # It does not answer now, or what is there is no controller's: the next look goes on.
            with suppress(OSError, ValueError, ClusterError):
                self._brings_more = carrier.step() or self._brings_more

    def _let_inside(self) -> None:
        """Have a server begin beside each task that somebody would go into, see `inside`."""
        for one in self._containers:
            if one.started is None or one.released or not one.files.inside_asked.exists():
                continue
            with suppress(OSError, ClusterError):  # as `_relay` has it
                asked = read_foreign(one.files.inside_asked, LARGEST)
                if asked != self._let_in.get(one.task):
                    self._request.exchange({one.task: {INSIDE_ASK: asked}})
                    self._let_in[one.task] = asked
                elif not self._backend.tasks_here:
                    told = self._request.exchange({}).get(one.task, {}).get(INSIDE)
                    if told and told != self._told_inside.get(one.task):
                        write_aside(one.files.inside, told)
                        self._told_inside[one.task] = told

    def _check_stacks(self) -> None:
        said = self._stacks.step(self._containers)
        if said is not None:
            self._write(Warned(text=said))
            if said:
                self._add_warning(said)

    def _check_memory(self) -> None:
        running = [one for one in self._containers if one.started and not one.over]
        if said := self._warn(self._memory, self._memory.step(running)):
            self._add_warning(said)

    def _check_idle(self) -> None:
        if self._idle is not None and not self._course.growing:
            self._warn(self._idle, self._idle.step(self._containers))

    def _check_use(self) -> None:
        """Say what a task says of its end because nobody uses it, or that somebody does."""
        running = [one.progress.unused for one in self._containers if not one.over]
        told = [text for text in running if text is not None]
        said = next(filter(None, told), "")
        # Compared with what is on record: a driver before this one may have said it.
        if told and said != (self._status.warning if self._status.unused else ""):
            self._write(Warned(text=said, unused=bool(said)))

    def _warn(self, watch: object, said: str | None) -> str:
        """Say what a watch warns of, or that it holds no more; return what is new."""
        if said is None or (said == "" and self._status.warning != self._said.get(watch)):
            return ""  # nothing new, or what is said now is of something else
        self._said[watch] = said
        self._write(Warned(text=said))
        return said

    def _add_warning(self, text: str) -> None:
        """Add to the job's ``warnings.json``, which lasts as long as its folder."""
        with suppress(OSError):  # a full disk: the job goes on as it is
            store.add_warning(self._paths, text)

    @property
    def _grace(self) -> float:
        """Seconds that the tasks have to end in, if they were asked to now."""
        running = (one.progress.needs for one in self._containers if not one.released)
        return grace_for(self._policy, running)

    def _give_notice(self, task: str) -> None:
        """Tell a task why it will be asked to end, as far as that can be told now."""
        course = self._course
        cancelled, cause = course.cancelled, course.cause
        reason = (cancelled.reason if cancelled else cause or course.growing)[:_LONGEST_REASON]
        told = json.dumps({"reason": reason, "seconds": self._grace}).encode()
        with suppress(ClusterError):
            self._request.exchange({task: {NOTICE: told}})

    def _ask_once_more(self, task: str, *asks: str) -> None:
        """Ask a task that is about to be killed for something."""
        with suppress(ClusterError):  # it is killed all the same
            self._request.exchange({task: dict.fromkeys(asks, b"{}")})

    def _grant_tasks(self, given: AllocatedByTask) -> None:
        if given and self._status.master == 0 and (master := self._request.master) is not None:
            asked, ran = master
            self._note(MasterStarted(seconds=max(0.0, ran - asked), at=here(ran)))
        for container in self._containers:
            found = given.get(container.task)
            if found is None or container.id:
                continue
            container.give(found)
            if self._status.state is JobState.QUEUED and self._status.warning:
                self._write(Warned(text=""))  # what was wrong while it waited
            self._came_on_at = time.monotonic()
            self._write(container.granted(found.began or time.time()))

    def _poll_tasks(self) -> None:
        early, silent, full, heard = self._is_early, "", "", False
        for container in self._containers:
            if container.released:
                continue
            before = container.started
            try:
                seen = container.poll(hurry=early)
            except ClusterError as error:  # the node is silent, the cluster knows why
                silent = f"nothing is heard of it now, it runs on where it can: {error.what}"
                continue
            except OSError as error:
                # What runs elsewhere needs no room here. That it has begun is told by this poll
                # alone: where it was lost, it is read anew.
                if error.errno not in NO_ROOM or container.started is not before:
                    raise
                full = f"its log cannot be copied here: {error.strerror or error}"
                continue
            heard = True
            if container.started is not before:
                self._came_on_at = time.monotonic()
            # How far hundreds are is written at once; what happens to one, as soon as it is seen.
            self._note(*seen)
            if any(not isinstance(event, Progressed) for event in seen):
                self._write()
        self._write()
        is_missed = self._status.started is not None and not heard
        self._warn_of_silence(full or (silent if is_missed else ""))

    def _warn_of_silence(self, why: str) -> None:
        """Say why nothing is heard of tasks that run, and take it back when something is."""
        now = time.monotonic()
        if not why:
            self._silent_since = None
            self._warn("silence", "")
            return
        self._silent_since = self._silent_since or now
        if now - self._silent_since > _SILENT and not self._said.get("silence"):
            self._warn("silence", why)

    def _count(self) -> Counted | None:
        """Ask the cluster what it counts as the job's, as often as that is worth it."""
        if not any(container.id for container in self._containers):
            return None
        over = [c for c in self._containers if c.over and not c.released]
        if not over and time.monotonic() - self._counted_at < _EVERY:
            return None
        self._counted_at = time.monotonic()
        try:
            return self._request.count()
        except ClusterError:  # it is away for a while: the job goes on
            return None

    def _abandoned(self) -> str:
        """Return that nobody waits for a job in the queue any more, and that for a while.

        A job whose code has run before goes on without its notebook.
        """
        if self._course.attempt > 1 or any(container.id for container in self._containers):
            return ""
        if lives(session_of(self._launch)) and not self._is_orphan():
            self._dead_at = None
            return ""
        self._dead_at = self._dead_at or time.monotonic()
        if time.monotonic() - self._dead_at <= self._backend.lease:
            return ""
        return _ORPHANED if self._spec.parent else _ABANDONED

    def _is_orphan(self) -> bool:
        """Return whether the job that this one works for is over."""
        if self._spec.parent is None:
            return False
        with suppress(OSError, ValueError, KeyError, TypeError):
            told = read_json(JobPaths(self._backend.home, self._spec.parent).status)
            return told is None or JobState(told["state"]).final
        return False

    def _tell_waiting(self) -> None:
        if time.monotonic() - self._told_waiting_at < _TELLING:
            return
        self._told_waiting_at = time.monotonic()
        try:
            ahead, reason = self._request.waiting()
        except ClusterError as error:
            ahead, reason = 0, str(error)
        if (self._status.ahead, self._status.waiting_reason) != (ahead, reason):
            self._write(Waiting(ahead=ahead, reason=reason))
        # Compared with what is on record: a driver before this one may have said it.
        trouble, queued = self._request.trouble, self._status.state is JobState.QUEUED
        if queued and self._status.warning != trouble:
            self._write(Warned(text=trouble))

    # What is done with it.

    def _act(self, instruction: Instruction, now: Moment) -> None:
        if isinstance(instruction, Signal):
            if not instruction.kill:
                self._give_notice(instruction.task)
            self._request.signal(instruction.container, kill=instruction.kill)
        elif isinstance(instruction, KeepFrames | AskStack):
            frames = isinstance(instruction, KeepFrames)
            # There is no time to see first whether the task answers with Python's lock.
            asks = (FRAMES_ASK,) if frames else (STACKS_ASK, STACKS_ASK_MAIN)
            self._ask_once_more(instruction.task, *asks)
        elif isinstance(instruction, Withdraw):
            self._request.withdraw()
        elif isinstance(instruction, OpenGate):
            self._answer_hellos()
        elif isinstance(instruction, Tell):
            self._add_warning(instruction.text)
        elif isinstance(instruction, EndSidecars):
            self._request.end_sidecars()
        elif isinstance(instruction, FinishTask):
            container = next(c for c in self._containers if c.task == instruction.task)
            self._finish_task(container, now)
        elif isinstance(instruction, Finish):
            self._finish(instruction)

    def _begin_again(self, again: Again, now: Moment) -> bool:
        """Ask for all tasks anew; False where that cannot be noted yet.

        Noted first: whoever takes the job over from here on asks for this attempt, and for no
        other. What a backend has of the one before, it forgets when it is asked for this one.
        """
        self._over_at = now.mono if self._over_at is None else self._over_at
        if now.mono - self._over_at < again.pause:
            return False
        try:
            if self._status.attempt < again.attempt:
                counted, why = again.counted, again.reason
                noted = Retried(attempt=again.attempt, reason=why, counted=counted, at=now)
                self._journal.append(*self._unwritten, noted)
                self._unwritten.clear()
                self._status = apply(self._status, noted)
            self._clear()
        except OSError as error:
            return self._wait_for_room(again, error)
        self._full_since = self._over_at = None
        self._request.close()
        # It has left the line long ago, and stands at its end now.
        self._backend.submit_queue.join(self._paths.job_id)
        self._begin()
        return True

    def _wait_for_room(self, again: Again, error: OSError) -> bool:
        """End a job that stays where it is for want of room: it may hold GPUs, and hears nobody."""
        now = time.monotonic()
        self._full_since = self._full_since or now
        if now - self._full_since < _ROOM_COMES:
            return False
        why = f"the job's folder cannot be written: {error.strerror or error}"
        reason = f"{again.reason}; it is not begun again, since {why}"
        self._finish(Finish(JobState.FAILED, reason, self._course.blamed))
        return True

    def _finish_task(self, container: TaskRun, released: Moment) -> None:
        """Bring home what a task has left, and write its last events."""
        container.released = True
        container.bring_home()
        status = container.exit_status
        ending = Ending(-9 if status is None else status, read_outcome(container.files))
        ours = self._course.cancelled is not None or bool(self._course.growing)
        patient = ending.asked_to_end and not ours
        container.said = self._request.words(container.task, patient=patient)
        if not container.id:
            reason = container.said or "its container never came"
            self._ends[container.task] = TaskEnd(state=JobState.FAILED, reason=reason)
            return
        returned = None
        if container.started is not None:
            returned = ending.returned_at(container.started, released)
        now = TaskStatus(task=container.task, exited=released, returned=returned)
        container.lost = self._is_lost(container, ending)
        end = self._end(container, ending, now)
        came = container.last_progress() if end.state is not JobState.SUCCEEDED else []
        # As if it were the job's only task: why it was ended says more than by which signal.
        course = self._course
        _, reason = final_state([end], cancelled=course.cancelled, cause=course.cause)
        self._write(*_last_events(container, ending, now, [*container.late, *came], reason))
        known = self._status.task(container.task)
        self._ends[container.task] = self._end(container, ending, known or now)

    def _end(self, container: TaskRun, ending: Ending, known: TaskStatus) -> TaskEnd:
        to_its_end, paused, final = ending.came_to_its_end, ending.paused, ending.final
        if not ending.kind and known.exit_code:
            ending = Ending(known.exit_code, {})
        state, reason = self._task_state(container, ending)
        return TaskEnd(
            state=state,
            reason=reason,
            at=known.exited,
            returned=known.returned,
            to_its_end=to_its_end,
            echo=tells_of_another(ending),
            lost=container.lost and state is not JobState.SUCCEEDED,
            paused=paused,
            unstarted=container.unstarted or ending.could_not_begin,
            final=final,
        )

    def _is_lost(self, container: TaskRun, ending: Ending) -> bool:
        """Return whether the cluster has ended a container by itself, where that matters."""
        course = self._course
        if self._policy.retries is None or (ending.kind and not ending.interrupted):
            return False
        wanted = bool(course.cancelled or course.cause or course.killed_at or course.asked)
        return self._request.is_lost(container, wanted=wanted)

    def _task_state(self, container: TaskRun, ending: Ending) -> tuple[JobState, str]:
        oom, files = container.oom_killed, container.files
        state, reason = final_task_state(ending, self._paths.root, oom_killed=oom)
        if state is JobState.SUCCEEDED:
            return state, reason
        said, limit = container.said, self._memory.limit(container.task)
        says = f"{self._backend.title} says: {said}" if said else ""
        unknown = not ending.kind and container.exit_status is None
        if unknown and self._request.forgotten:
            why = f"how it ended is lost: {self._backend.title} has forgotten the job"
            return JobState.LOST, f"{why}, and it has left no last word"
        if container.lost and said:
            return state, says
        wanted = self._course.cancelled is not None
        peak = ""
        if not ending.kind or (ending.interrupted and not wanted):
            if why := exceeded(said):
                return state, _joined(why, peak_words(files, limit, is_known=True), says)
            reason = _joined(reason, says)
        if not ending.kind and ending.status == -_SIGKILL and not wanted:
            peak = peak_words(files, limit, oom_killed=oom)
        elif ending.kind == "raised" and oom and lost_process(reason):
            why = "the kernel ended a process of its machine meanwhile, which had no memory left"
            peak = _joined(why, peak_words(files, limit, oom_killed=oom))
        return state, _joined(reason, peak)

    def _finish(self, finish: Finish) -> None:
        last = Finished(state=finish.state, reason=finish.reason, failed_task=finish.failed_task)
        self._request.give_back()
        self._journal.append_last(*self._unwritten, last)
        self._status = apply(self._status, last)
        if self._ends:
            first = self._status.ranked[0].task
            self._request.keep(next(one.files for one in self._containers if one.task == first))

    def _note(self, *events: Event) -> None:
        """Keep events that change the status: a driver before us may have written others."""
        for event in events:
            after = apply(self._status, event)
            if after != self._status:
                self._unwritten.append(event)
                self._status = after

    def _write(self, *events: Event) -> None:
        """Write events, and those that are kept."""
        self._note(*events)
        if not self._unwritten:
            return
        try:
            self._journal.append(*self._unwritten)
        except OSError:  # a full disk: with the next, and at last in the room that is kept for them
            self._unwritten = [one for one in self._unwritten if not isinstance(one, Progressed)]
        else:
            self._unwritten.clear()

    # How soon it is looked at again.

    def _pause(self) -> float:
        meeting = len(self._containers) > 1 and not self._answered
        listens = self._course.echoed is not None and not self._course.cause
        if self._request.is_woken and not meeting and not listens:
            kill_at = self._course.kill_at
            if kill_at is None or self._course.killed_at is not None:
                return _WOKEN
            return min(_WOKEN, max(0.0, kill_at - time.monotonic()))
        if any(c.over and not c.released for c in self._containers):
            return _RELEASE
        if (begins := any(c.begins for c in self._containers)) or self._brings_more:
            return _NEXT if begins else _FIRST
        begun = all(container.started for container in self._containers)
        if self._is_early:
            # The first line is waited for by somebody.
            since = time.monotonic() - self._came_on_at
            launching = not any(container.started for container in self._containers)
            return max(_FIRST, _LAUNCH - since if launching else 0.0, self._gap)
        rest = min(_EACH * len(self._containers), _CROWD) if self._is_crowd else _EASY
        return max(rest if begun else _LIVELY, self._gap)

    @property
    def _is_crowd(self) -> bool:
        """Whether so many tasks run that it matters how often each is looked at."""
        return (
            not self._request.is_woken
            and _EACH * len(self._containers) > _EASY
            and self._answered
            and not self._course.cause
            and all(one.started and not one.over for one in self._containers)
        )

    @property
    def _gap(self) -> float:
        """Seconds between two turns at least: many jobs share a keeper."""
        return self._load() * _EASY / 8

    @property
    def _is_early(self) -> bool:
        """Whether a container was given or began a moment ago, and has said nothing yet."""
        silent = any(c.id and not c.spoke and not c.released for c in self._containers)
        return silent and time.monotonic() - self._came_on_at < _EARLY


def _joined(*words: str) -> str:
    return "; ".join(filter(None, words))


def _keeps_frames(spec: JobSpec) -> bool:
    """Return whether the tasks of a job can be asked for their frames: commands cannot."""
    return spec.post_mortem == "on" and all(role.command is None for role in spec.roles)


def _last_events(
    container: TaskRun, ending: Ending, now: TaskStatus, came: list[Event], reason: str
) -> list[Event]:
    """Return the last events of a task, which is over `now`; `came` tells how far it came."""
    task, released = container.task, now.exited or Moment.now()
    events = came
    if now.returned:
        events = [*events, returned_event(task, ending, now.returned)]
    exited = Exited(task=task, exit_code=ending.exit_code, reason=reason, at=released)
    return [*events, exited, Released(task=task, at=released)]
