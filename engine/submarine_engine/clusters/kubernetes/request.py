"""One attempt of a job: its pods, asked for once, brought their files, and followed by them."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_runtime.pod import BEGUN

from submarine_engine.amounts import exactly, shortened
from submarine_engine.clusters.backend import Allocated, Counted, KeptJob
from submarine_engine.clusters.container import OOM
from submarine_engine.clusters.kubernetes.archive import task_archive
from submarine_engine.clusters.kubernetes.client import (
    LONGEST_REASON,
    QuotaError,
    RefusedError,
    TakenError,
)
from submarine_engine.clusters.kubernetes.environment import (
    EnvironmentSender,
    refuse_other_python,
)
from submarine_engine.clusters.kubernetes.files import (
    AGAIN_AFTER,
    EndedSource,
    PodFiles,
    PodSource,
)
from submarine_engine.clusters.kubernetes.manifest import (
    FILES_CONTAINER,
    NOBODY_CAME,
    OWNER,
    TASK_CONTAINER,
    chosen,
    gpu_resource,
    manifests,
    node_labels,
    read_volumes,
    tolerations_of,
)
from submarine_engine.clusters.kubernetes.noted import NOTE
from submarine_engine.clusters.kubernetes.quota import refuse_beyond_quota
from submarine_engine.clusters.kubernetes.state import (
    CONTAINER_WORDS,
    HOPELESS,
    IMAGE_WORDS,
    OOM_WORDS,
    Pod,
    fits,
    needs,
)
from submarine_engine.clusters.log_mirror import EXIT
from submarine_engine.clusters.noted_request import NotedRequest
from submarine_engine.clusters.store import add_warning
from submarine_engine.errors import ClusterError, SubmissionError

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import AllocatedByTask
    from submarine_engine.clusters.exchange import Messages
    from submarine_engine.clusters.kubernetes.state import KubernetesState
    from submarine_engine.clusters.tasks import TaskRun
    from submarine_engine.job import JobSpec

_GPUS = "gpus"  # the line of jobs that wait for GPUs

_PODS = "pods"  # in the job's folder: what tasks that are over have left

_TRIES_EVERY = 2.0  # seconds between two tries to ask a server that is silent
_LOOKS_EVERY = 1.0  # seconds between two looks whether a job of several finds room
_BACK_AFTER = 20.0
"""Seconds that some pods of a job hold nodes while others find none; then all are given back."""

_NODES_WITHIN = 900.0
"""The same for a job that has no room in the cluster as it is, which may be adding nodes. Where the
nodes are not ours to know, each turn has twice the time of the one before, up to this."""

_ASKS_AGAIN = 30.0  # seconds: each question goes through all that admits pods there
_RESTS_FOR = 5.0
"""Seconds at most that a job which has given its pods back waits before it asks for others."""

_RESTS_AT_MOST = 60.0
"""The same for one that a quota keeps from having them all: each turn has twice as many."""

_STUCK_FOR = 120.0
"""Seconds for which is tried what may pass: a registry may be away for a while, and what the
cluster adds to pods may come after them."""

_SOONEST = 0.1
"""Seconds between two tries to run a program in a pod whose containers its node makes now."""

_OVERDUE = 30.0
"""Seconds after a pod's grace in which its node has to end it: a node that is gone never does."""

_GRACE = 1  # seconds for what is ended without more ado; 0 would forget pods that still run
_OOM = "137 oom\n"
_LONGEST_END = 100


class KubernetesRequest(NotedRequest):
    """An attempt of a job on Kubernetes.

    Parameters
    ----------
    state
        Its cluster.
    job
        The job.
    """

    def __init__(self, state: KubernetesState, job: KeptJob) -> None:
        # Who stands in a queue of the cluster's, or asks for no GPUs, stands in no line here.
        line = _GPUS if job.spec.gpus and not job.spec.queue else job.paths.job_id
        super().__init__(job, NOTE, state.submit_queue, line)
        self._state = state
        self._tried_at = self._asked_at = self._rests_until = float("-inf")
        self._no_room_until = float("-inf")
        # What was given before: of a pod that is over the cluster may know nothing any more.
        given = self._note.get("given") or {}
        self._given = {task: Allocated(*told) for task, told in given.items()}
        self._last: dict[str, Pod] = {}  # by task, as it was seen last
        self._ending: dict[str, float] = {}  # since when each pod is seen to end
        self._files: dict[str, PodFiles] = {}
        self._sender: EnvironmentSender | None = None
        self._sources: dict[str, PodSource | EndedSource] = {}
        self._brought = set(self._given)
        self._placed: dict[str, float] = {}  # since when each pod is seen to have a node
        self._partly_since: float | None = None
        self._stuck_since: float | None = None
        self._stopped = False
        self._wrong = self._unasked = ""
        self._held_up: ClusterError | None = None  # what keeps it from beginning with its pods
        self._tolerations = tolerations_of(job.spec)
        if self._names and not self._note.get("created"):
            state.miss_answer()  # a keeper was killed as it asked

    @property
    def _names(self) -> dict[str, str]:
        """The names of the attempt's pods, by task; none before it was asked for."""
        return dict(self._note.get("pods") or {})

    # Asking, so that it is asked once: pods of these names are this attempt's.

    def ask(self) -> AllocatedByTask | None:
        """Create the job's pods unless they are there; return its tasks once all have begun."""
        if self._given:
            return self._given
        if self._note.get("withdrawn"):
            return None
        if not self._note.get("created"):
            try:
                if not self._is_time():
                    return None
                self._create()
            except SubmissionError:
                raise
            except ClusterError as error:  # it does not answer, say: `waiting` tells
                self._unasked = error.what
                self._state.miss_answer()
                return None
            self._unasked = ""
        return self._look()

    def _is_time(self) -> bool:
        """Whether to ask now: it is the job's turn, and there is room for all of it."""
        pause = _LOOKS_EVERY if len(self._job.spec.tasks) > 1 else _TRIES_EVERY
        if not self._state.submit_queue.is_turn(self._id):
            return False
        if time.monotonic() < self._rests_until:
            return False
        if time.monotonic() - self._tried_at < pause:
            return False
        self._tried_at = time.monotonic()
        if self._note.get("pods"):
            return True  # an earlier keeper has begun to ask
        spec = None
        with suppress(ClusterError):
            spec = self._sized()
        if spec is None:
            return False
        made = self._manifests(spec)
        names = {task: one["metadata"]["name"] for task, one in made.items()}
        workers = None if self._job.spec.elastic is None else _workers(spec)
        self._note_first(pods=names, workers=workers, asked=time.time())
        return True

    def _note_first(self, **more: object) -> None:
        """Note what is done next; nothing is noted where that cannot be written.

        Raises
        ------
        ClusterError
            It cannot be written now, as the disk is full, say.
        """
        before = self._note
        try:
            self._note_down(**more)
        except OSError as error:
            self._note = before
            raise ClusterError(
                f"the job's folder cannot be written: {error.strerror or error}",
                where=str(self._job.paths.root),
                fix="make room on its disk: the job goes on by itself then",
            ) from error

    def _sized(self) -> JobSpec | None:
        """Return the job as large as there is room for; None where it has to wait for that.

        One pod waits by the scheduler's own means, as do those of a queue that admits them at once.
        """
        spec, role = self._job.spec, self._job.spec.elastic
        if role is not None and role.least is not None:
            most = max(role.least, int(self._note.get("most", role.count)))
            sizes = [spec.sized(n) for n in range(most, role.least - 1, -1)]
        elif len(spec.tasks) == 1 or spec.queue:
            return spec
        else:
            sizes = [spec]
        if (
            free := self._state.free(node_labels(spec), self._tolerations)
        ) is None:  # not ours to know: it is given back if need be
            return sizes[-1]
        for one in sizes:
            if fits((pod["spec"] for pod in self._manifests(one).values()), free):
                return one
        smallest = sizes[-1]
        return smallest if len(smallest.tasks) == 1 or not self._would_fit(smallest) else None

    def _would_fit(self, spec: JobSpec) -> bool | None:
        """Return whether all of a job had room if nothing else ran; None for not ours to know.

        Where it has not, it is asked for all the same: the cluster may add nodes for its pods.
        """
        if (known := self._state.nodes()) is None:
            return None
        labels = node_labels(spec)
        nodes = [one for one in known if one.usable and one.takes(labels, self._tolerations)]
        pods = (pod["spec"] for pod in self._manifests(spec).values())
        return fits(pods, {node.name: node.room for node in nodes})

    def _manifests(self, spec: JobSpec) -> dict[str, dict[str, Any]]:
        return manifests(
            spec,
            job_id=self._id,
            attempt=self._job.attempt,
            turn=int(self._note.get("turn", 0)),
            owner=self._state.owner,
            launch=self._job.launch,
        )

    def _create(self) -> None:
        """Create those pods that are not there.

        Raises
        ------
        SubmissionError
            The cluster refuses one.
        ClusterError
            It does not answer now.
        """
        there = set(self._pods(since=time.monotonic()))
        for task, manifest in self._manifests(self._spec).items():
            if task in there:
                continue
            try:
                self._state.api.create(manifest)
            except QuotaError as error:
                self._meet_quota(error, len(there))
                raise
            except TakenError as error:
                if self._names[task] not in self._state.pods(since=time.monotonic()):
                    raise SubmissionError(
                        "there is a pod of that name, and it is not of this home",
                        where=self._names[task],
                        fix="submit the job again: it gets another name",
                    ) from error
            there.add(task)
        self._asked_at = time.monotonic()
        self._note_first(created=True)

    def _meet_quota(self, error: QuotaError, created: int) -> None:
        """Have the job wait for its quota, and hold nothing meanwhile that others could have.

        A job that has begun before is not refused for good: its quota was another one then.
        """
        if self._job.attempt == 1:
            smallest = self._manifests(self._job.spec.smallest)
            refuse_beyond_quota(error, [pod["spec"] for pod in smallest.values()])
        self._unasked = error.what  # it rests longer for that
        if created:
            self._give_back(created)

    def _pods(self, *, since: float = float("-inf"), hurry: bool = False) -> dict[str, Pod]:
        """Return the attempt's pods by task, as far as there are any; they are remembered."""
        found = self._state.pods(since=max(since, self._asked_at), hurry=hurry)
        mine = {task: found[name] for task, name in self._names.items() if name in found}
        self._last.update(mine)
        if mine and len(mine) == len(self._names):  # admission may have added some
            told = [pod.told["spec"].get("tolerations") or [] for pod in mine.values()]
            self._tolerations = [one for each in told for one in each]
        for pod in mine.values():
            if pod.ending:
                self._ending.setdefault(pod.name, time.monotonic())
        self._stopped = self._stopped or any(
            self._is_by_hand(pod) and not self._is_home(pod.name) for pod in mine.values()
        )
        return mine

    def _is_by_hand(self, pod: Pod) -> bool:
        """Return whether somebody has deleted a pod: what the cluster itself ends says so."""
        ours = any(self._note.get(one) for one in ("withdrawn", "turning", "killed"))
        return pod.ending and not (ours or pod.final or pod.is_lost)

    # Beginning.

    def _look(self) -> AllocatedByTask | None:
        """Bring each pod that runs its files; return the tasks once all have them."""
        try:
            if self._note.get("turning"):
                self._turn_back()
                self._held_up = None
                return None
            pods = self._pods(hurry=True)
            for task, pod in pods.items():
                if task not in self._brought:
                    self._bring_once_it_runs(task, pod)
            # A pod whose files are there need not run its task: that container has the GPUs.
            if not all(one in pods and self._has_begun(one, pods[one]) for one in self._names):
                self._refuse_hopeless(pods)
                if not self._turn_if_lost(pods):
                    self._give_back_if_partly(pods)
                self._held_up = None
                return None
            self._note_given()
        except SubmissionError:
            raise
        except ClusterError as error:  # for now
            self._held_up = error
            return None
        self._end_sending()
        self._state.submit_queue.leave(self._id)
        return self._given

    def _note_given(self) -> None:
        # Whole seconds are told: before it was asked for it held nothing.
        asked = float(self._note.get("asked", 0.0))
        given = {
            task: Allocated(name, self._last[task].node, max(self._last[task].scheduled_at, asked))
            for task, name in self._names.items()
        }
        self._note_first(given=given)
        self._given = given

    def _bring_once_it_runs(self, task: str, pod: Pod) -> None:
        """Bring a pod its files; try it before the cluster says that the pod runs.

        A node looks once a second what its containers do, and tells the cluster then, but runs a
        program in one as soon as that is there.
        """
        if _runs(pod, FILES_CONTAINER):
            self._reach(task).again_after = AGAIN_AFTER
            self._bring(task)
        elif pod.node and not (pod.trouble or pod.final or pod.ending):
            now = time.monotonic()
            waits = now - self._placed.setdefault(task, now)
            # Each try costs the node something: seldom where it takes long, to get an image say.
            self._reach(task).again_after = min(max(waits / 10, _SOONEST), AGAIN_AFTER)
            with suppress(ClusterError):
                self._bring(task)
                self._reach(task).again_after = AGAIN_AFTER

    def _has_begun(self, task: str, pod: Pod) -> bool:
        """Whether a pod's task runs; its files run in another container, which has no GPU."""
        if task not in self._brought or pod.trouble:
            return False
        return _runs(pod, TASK_CONTAINER) or BEGUN in self._reach(task).sizes()[0]

    def _bring(self, task: str) -> None:
        sender = self._sender
        if sender is not None and task in sender.began and not sender.has(task):
            return
        files = self._reach(task)
        told = files.hello()
        refuse_other_python(self._job.launch, told)
        if not told.get("ready"):
            if self._job.launch.get("layers") and (sender is None or not sender.has(task)):
                self._send_environment(task)
                return
            files.bring(task_archive(self._job, self._spec, task))
        self._brought.add(task)

    def _send_environment(self, task: str) -> None:
        """Begin to send a pod its environment, which another thread does: it may take minutes."""
        if self._sender is None:
            volumes = list(read_volumes(chosen(self._spec, "volumes")))
            self._sender = EnvironmentSender(self._state.api, self._job.launch, volumes)
        self._sender.begin(task, self._names[task])

    def _end_sending(self) -> None:
        if self._sender is not None:
            self._sender.close()
            if self._sender.note:
                with suppress(OSError):  # a full disk
                    add_warning(
                        self._job.paths, f"no volume keeps the environment: {self._sender.note}"
                    )
            self._sender = None

    def _reach(self, task: str) -> PodFiles:
        if task not in self._files:
            python = str(self._job.launch["python"])
            self._files[task] = PodFiles(self._state.api, self._names[task], task, python)
        return self._files[task]

    def _refuse_hopeless(self, pods: Mapping[str, Pod]) -> None:
        """Refuse a job whose pods will never begin."""
        wrong = next(filter(None, (pod.trouble for pod in pods.values())), "")
        # Said once: each try has words of its own.
        self._wrong = wrong and (self._wrong or wrong)
        if not wrong:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = time.monotonic()
        late = self._stuck_since is not None and time.monotonic() - self._stuck_since > _STUCK_FOR
        for task, pod in pods.items():
            if pod.final and task not in self._brought and not self._stopped:
                self._refuse_over(pod)
            for name in (TASK_CONTAINER, FILES_CONTAINER):
                state, more = pod.container(name)
                reason = str(more.get("reason") or "")
                if state == "waiting" and (reason in HOPELESS or (late and reason in IMAGE_WORDS)):
                    raise SubmissionError(
                        f"its pod cannot begin: {pod.wait_words}",
                        where=str(self._job.launch["image"]),
                        fix="name another image by --docker_image or kubernetes_image, and a secret"
                        " by --pull_secret where its registry wants to know who asks",
                    )
                if state == "waiting" and late and reason in CONTAINER_WORDS:
                    raise SubmissionError(
                        f"its pod cannot begin: {pod.wait_words}",
                        where=pod.name,
                        fix="ask whoever runs the cluster: it adds to pods what is not there (a"
                        " secret, a config map), or its nodes cannot give them what they ask for;"
                        " --volumes and --node_selector say what else a job asks of them",
                    )
                if state == "terminated" and task not in self._brought:
                    self._refuse_over(pod)

    def _refuse_over(self, pod: Pod) -> None:
        if pod.is_lost:
            return
        said = [pod.end_words]
        for name in (TASK_CONTAINER, FILES_CONTAINER):
            state, more = pod.container(name)
            if state == "terminated":
                said.append(
                    shortened(str(more.get("message") or more.get("reason")), LONGEST_REASON)
                )
        words = "; ".join(dict.fromkeys(filter(None, said))) or pod.phase
        if NOBODY_CAME in words and self._held_up is not None:
            raise SubmissionError(
                f"its pod ended before its task began: {self._held_up.what}",
                where=pod.name,
                fix=self._held_up.fix,
            )
        raise SubmissionError(
            f"its pod ended before its task began: {words}",
            where=str(self._job.launch["image"]),
            fix="the image needs a Python of this release, for the processor of its nodes:"
            " kubernetes_python says where it is in there, kubernetes_user as whom it runs;"
            " --volumes names what the pod cannot have where that is one of its volumes",
        )

    def _give_back_if_partly(self, pods: Mapping[str, Pod]) -> None:
        """Give all pods back where some hold nodes and others find none: another job could run."""
        placed = sum(bool(pod.node) for pod in pods.values())
        if self._spec.queue or placed in (0, len(self._names)):
            self._partly_since = None
            return
        self._partly_since = self._partly_since or time.monotonic()
        if time.monotonic() - self._partly_since > self._patience():
            self._partly_since = None
            self._give_back(placed)

    def _give_back(self, found: int) -> None:
        """Give all pods back; an elastic job asks again for no more of them than were `found`."""
        others = len(self._names) - _workers(self._spec)
        self._note_first(created=True, turning=True, most=found - others)
        self._turn_back()

    def _patience(self) -> float:
        """Return for how many seconds some of the pods may hold nodes that others lack."""
        if (would_fit := self._would_fit(self._spec)) is not None:
            return _BACK_AFTER if would_fit else _NODES_WITHIN
        # Whoever holds the others' GPUs may be done soon, or the cluster may be adding nodes.
        return min(_BACK_AFTER * 2.0**self._doublings, _NODES_WITHIN)

    @property
    def _doublings(self) -> int:
        """How often a pause was doubled: once a turn. A float holds no thousand of them."""
        return min(int(self._note.get("turn", 0)), 10)

    def _turn_if_lost(self, pods: Mapping[str, Pod]) -> bool:
        """Ask for all pods anew where the cluster has taken one back before its task began.

        Raises
        ------
        SubmissionError
            Somebody has deleted one by hand.
        """
        waiting = {task: name for task, name in self._names.items() if task not in self._brought}
        lost = any(pods[task].final and pods[task].is_lost for task in waiting if task in pods)
        for task, name in waiting.items():
            if task in pods:
                continue
            last = self._last.get(task)
            if not self._spec.queue and (last is None or not last.is_lost):
                self._stopped = True  # at once: one that no node has got is never seen to end
                raise SubmissionError(
                    "its pod was deleted before its task began",
                    where=name,
                    fix="submit the job again; `submarine job cancel JOB` ends one that waits",
                )
            lost = True
        if lost:
            self._note_first(turning=True)
            self._turn_back()
        return lost

    def _turn_back(self) -> None:
        """End all pods, and ask for others once these are gone, and a moment later.

        A job that has given its GPUs back lets others have them, and two that each hold what the
        other lacks do not do so again and again in step.
        """
        for name in self._names.values():
            self._state.api.delete(name, grace=_GRACE)
        if not self._pods(since=time.monotonic()):
            self._end_sending()
            for files in self._files.values():
                files.close()
            self._files, self._brought, self._last, self._placed = {}, set(), {}, {}
            rests = _RESTS_FOR
            if self._unasked:
                rests = min(_RESTS_FOR * 2.0**self._doublings, _RESTS_AT_MOST)
            turn = int(self._note.get("turn", 0))
            self._note_first(turn=turn + 1, pods=None, created=False, turning=False)
            self._rests_until = time.monotonic() + random.uniform(0.5, 1.0) * rests  # noqa: S311 - no secret

    # Following.

    def count(self) -> Counted:
        """Return the pods that hold something."""
        if not self._names:
            return Counted(frozenset(), over=True)
        found = self._pods(hurry=True)
        pods = {task: pod for task, pod in found.items() if not self._forget_overdue(pod)}
        held = {pod.name for pod in pods.values() if pod.node and not pod.final}
        over = all(pod.is_out for pod in pods.values())
        return Counted(held, over=over and (bool(self._note.get("created")) or not pods))

    def _forget_overdue(self, pod: Pod) -> bool:
        """Have a pod forgotten that its node does not end; whether it is one."""
        since = self._ending.get(pod.name)
        grace = float(pod.told["metadata"].get("deletionGracePeriodSeconds") or 0)
        if since is None or pod.final or time.monotonic() - since < grace + _OVERDUE:
            return False
        self._state.api.delete(pod.name, grace=0)
        return True

    def room(self) -> int:
        """Return how many workers more there is room for; 0 where another job waits."""
        spec, api = self._job.spec, self._state.api
        if spec.elastic is None or self._state.submit_queue.has(_GPUS):
            return 0
        pods, free = api.all_pods(), self._state.free(node_labels(spec), self._tolerations)
        if pods is None or free is None:  # not ours to know
            return 0
        name = gpu_resource(spec)
        if any(_waits(pod["spec"]) and needs(pod["spec"])[name] for pod in pods):
            return 0
        had = self._spec.tasks
        more = [pod for task, pod in self._manifests(spec).items() if task not in had]
        sizes = range(len(more), 0, -1)
        found = next((n for n in sizes if fits((pod["spec"] for pod in more[:n]), free)), 0)
        return found if found and self._is_allowed(more[0]) else 0

    def _is_allowed(self, manifest: Mapping[str, Any]) -> bool:
        """Whether the cluster would take one more pod: a quota may have no room where nodes do."""
        if time.monotonic() < self._no_room_until:
            return False
        try:
            self._state.api.create(manifest, dry_run=True)
        except (QuotaError, SubmissionError):
            self._no_room_until = time.monotonic() + _ASKS_AGAIN
            return False
        return True

    @property
    def trouble(self) -> str:
        """Why its pods cannot begin now, most often since an image cannot be pulled."""
        tries = f"it is tried for {exactly(_STUCK_FOR)}" if self._stuck_since else ""
        return "; ".join(filter(None, (self._wrong, self._wrong and tries)))

    @property
    def stopped(self) -> str:
        """That somebody deleted one of its pods, by the cluster's own means."""
        return "somebody deleted its pod in Kubernetes" if self._stopped else ""

    def is_lost(self, container: TaskRun, *, wanted: bool) -> bool:
        """Return whether the cluster ended a pod: preempted, evicted, gone with its node."""
        with suppress(ClusterError):
            self._pods(hurry=True)
        pod = self._last.get(container.task)
        if self._stopped or (pod is None and container.task not in self._given):
            return False
        if pod is not None and pod.is_lost:
            return True
        name = self._names.get(container.task, "")
        is_over = (pod is not None and pod.final) or self._is_home(name)
        return not (is_over or wanted) and name not in self._state_names()

    def _is_home(self, pod: str) -> bool:
        """Return whether all that a pod's task has left is here: it is over, and was let go."""
        return pod in self._ends or (self._job.paths.root / _PODS / pod).exists()

    @property
    def _ends(self) -> dict[str, str]:
        """How pods ended whose files the job has, as `EXIT` says it."""
        return dict(self._note.get("ends") or {})

    def _state_names(self) -> set[str]:
        with suppress(ClusterError):
            return set(self._state.pods())
        return set(self._names.values())

    def words(self, task: str, *, patient: bool) -> str:  # noqa: ARG002 - it is known at once
        """Return what the cluster says of a pod's end."""
        with suppress(ClusterError):
            self._pods(hurry=True)
        pod = self._last.get(task)
        if pod is not None and self._stopped and not pod.final:
            return "its pod was deleted"
        return (pod.end_words if pod is not None else "") or self._memory_words(task)

    def _memory_words(self, task: str) -> str:
        """Return the cluster's word for a task that was killed for its memory, else nothing.

        The kernel may have ended the task alone: its container lives, and is let go before the
        cluster says anything of it.
        """
        name = self._names.get(task, "")
        told = self._ends.get(name, "")
        with suppress(OSError):
            told = (self._job.paths.root / _PODS / name / EXIT).read_text(errors="replace")
        if OOM.decode() not in told.split():
            return ""
        role = next(role for role in self._spec.roles if task in role.tasks)
        return OOM_WORDS if role.resources.memory else "OOMKilled: its node had no memory left"

    def signal(self, container: str, *, kill: bool) -> None:
        """Ask a task to end, or kill it, by a word in its folder; else by the pod's own end."""
        task = self._task_of(container)
        try:
            self._reach(task).signal("KILL" if kill else "TERM")
        except ClusterError:
            if not kill:
                raise
            self._note_down(killed=True)  # it was nobody else who has deleted the pod
            self._state.api.delete(container, grace=_GRACE)

    def _task_of(self, container: str) -> str:
        return next(task for task, name in self._names.items() if name == container)

    def withdraw(self) -> None:
        """Delete what the cluster has of the attempt."""
        self._state.submit_queue.leave(self._id)
        if not self._names:
            return
        self._note_down(withdrawn=True, created=True)
        left = {
            task: pod
            for task, pod in self._pods(since=time.monotonic()).items()
            if not (pod.is_out or self._forget_overdue(pod))
        }
        for pod in left.values():
            self._state.api.delete(pod.name, grace=_GRACE)
        if left and any(not pod.is_out for pod in self._pods(since=time.monotonic()).values()):
            raise ClusterError("its pods are ending", where=self._id)

    def exchange(self, messages: Mapping[str, Messages]) -> Mapping[str, Messages]:
        """Bring messages to the tasks' folders in their pods, and return the tasks' own."""
        said = {}
        for task in messages or self._names:  # of none who is not asked: it may be out of reach
            source = self._sources.get(task)
            if task in self._brought and not (source is not None and source.is_home):
                said[task] = self._reach(task).exchange(messages.get(task, {}))
        return said

    def source(self, container: Allocated) -> PodSource | EndedSource:
        """Return the task's files in its pod."""
        task = self._task_of(container.id)
        if (said := self._ends.get(container.id)) is not None:
            self._sources[task] = EndedSource(container.id, said.encode())
            return self._sources[task]
        spool = self._job.paths.root / _PODS / container.id
        self._sources[task] = PodSource(
            self._reach(task),
            container.id,
            spool,
            last_words=lambda: self._last_words(task),
            see=lambda: self._see(container.id),
            let_go=lambda: self._let_go(container.id),
        )
        return self._sources[task]

    def _see(self, pod: str) -> Pod | None:
        """Look whether the cluster, or somebody, has ended a pod whose task may be home already."""
        pods = self._pods(since=time.monotonic()).values()
        found = next((one for one in pods if one.name == pod), None)
        self._stopped = self._stopped or (found is not None and self._is_by_hand(found))
        return found

    def _let_go(self, pod: str) -> bool:
        """Have the cluster forget a pod at once, whose task's processes are gone.

        Returns whether it holds nothing any more.

        Its node needs a second or two to tell that its containers have ended, for which the pod
        would hold its GPUs. Queues of the cluster's want to see for themselves how a pod ended.
        """
        if self._spec.queue:
            found = self._see(pod)
            return found is None or found.final
        self._state.api.delete(pod, grace=0)
        self._asked_at = time.monotonic()
        return True

    def _last_words(self, task: str) -> str | None:
        """Return how a task ended that was killed with all that could tell it; None for not yet."""
        pod = self._pods(hurry=True).get(task)
        state, more = pod.container(TASK_CONTAINER) if pod is not None else ("", {})
        if state != "terminated":
            return None
        return _OOM if more.get("reason") == "OOMKilled" else f"{more.get('exitCode') or 137}\n"

    def is_over(self, task: str) -> bool:
        """Return whether a task's pod has ended, or is gone."""
        pod = self._last.get(task)
        if pod is None and task not in self._given:
            return False
        is_final = pod is not None and pod.final
        return is_final or self._names.get(task) not in self._state_names()

    def waiting(self) -> tuple[int, str]:
        """Return how many jobs of this home are before it, and what it waits for in words."""
        queue = self._state.submit_queue
        used = self._used()
        pods = self._pods() if self._names else {}
        said = [pod.wait_words for pod in pods.values()]
        words = next(filter(None, said), "")
        if self._spec.queue and any(pod.is_gated for pod in pods.values()):
            before, told = self._before_in_queue()
            return before, "; ".join(filter(None, (used, told or words)))
        if self._sender is not None:
            words = self._sender.words or words
        if not pods and len(self._job.spec.tasks) > 1 and queue.is_turn(self._id):
            words = f"it waits until all {len(self._job.spec.tasks)} of its tasks find room at once"
        if self._held_up is not None:
            words = f"{self._held_up.what}; {self._held_up.fix}"
        words = self._unasked or words
        return queue.before(self._id), "; ".join(filter(None, (used, words)))

    def _before_in_queue(self) -> tuple[int, str]:
        """Return what Kueue says of the job; nothing where the role sees no workloads."""
        with suppress(RefusedError):
            return self._state.kueue.waiting(str(self._spec.queue), self._names.values())
        return 0, ""

    def _used(self) -> str:
        """Return how many of the GPUs are in use; empty where that is not ours to know."""
        labels = node_labels(self._job.spec)
        nodes, free = self._state.nodes(), self._state.free(labels, self._tolerations)
        if nodes is None or free is None:
            return ""
        name = gpu_resource(self._job.spec)
        mine = (node for node in nodes if node.takes(labels, self._tolerations))
        total = int(sum(node.room.get(name, 0) for node in mine))
        left = int(sum(max(0, room[name]) for room in free.values()))
        return f"{total - left}/{total} GPUs in use"

    def give_back(self) -> None:
        """Remove what pods have left, which the job has: nobody finds half of it afterwards.

        How each ended is noted first, for another keeper that has to tell of the job's end.
        """
        if not self._names:
            return
        left = self._job.paths.root / _PODS
        ends = self._ends
        for name in self._names.values():
            with suppress(FileNotFoundError):
                ends[name] = (
                    (left / name / EXIT).read_bytes()[:_LONGEST_END].decode("ascii", "replace")
                )
        with suppress(OSError):  # a full disk: it is removed when the job's end is noted
            self._note_down(ends=ends)
            shutil.rmtree(left, ignore_errors=True)

    def forget(self) -> None:
        """Delete the job's pods, which are over, of all its attempts."""
        shutil.rmtree(self._job.paths.root / _PODS, ignore_errors=True)
        with suppress(ClusterError):
            for told in self._state.api.pods(
                f"{OWNER}={self._state.owner},submarine/job={self._id}"
            ):
                self._state.api.delete(told["metadata"]["name"], grace=_GRACE)

    def close(self) -> None:
        """Leave the line, and hang up; the job may run on."""
        self._state.submit_queue.leave(self._id)
        self._end_sending()
        for files in self._files.values():
            files.close()


def _workers(spec: JobSpec) -> int:
    return sum(task.startswith("worker-") for task in spec.tasks)


def _waits(pod_spec: Mapping[str, Any]) -> bool:
    """Return whether a pod waits for a node: one that a queue holds back does not yet."""
    return not (pod_spec.get("nodeName") or pod_spec.get("schedulingGates"))


def _runs(pod: Pod, container: str) -> bool:
    return bool(pod.node) and pod.container(container)[0] == "running"


__all__ = ["KubernetesRequest"]
