"""One job, asked of Slurm by one ``sbatch`` and followed by the files of its tasks."""

from __future__ import annotations

import json
import platform
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import submarine_runtime
from submarine_runtime.launcher import ASKED
from submarine_runtime.notices import NOTICE

from submarine_engine.clusters import locks
from submarine_engine.clusters.backend import Allocated, Counted, KeptJob
from submarine_engine.clusters.exchange import exchange_files
from submarine_engine.clusters.log_mirror import FolderSource
from submarine_engine.clusters.noted_request import NotedRequest, beginning
from submarine_engine.clusters.slurm.client import LOST, SlurmJob
from submarine_engine.clusters.slurm.images import Image
from submarine_engine.clusters.slurm.sbatch import (
    NOTE,
    arguments,
    asks_for_partitions,
    disk_path,
    gpu_type,
    job_name,
    parts,
    resources,
    warned_before,
)
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.history import make_private, write_json

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import AllocatedByTask
    from submarine_engine.clusters.exchange import Messages
    from submarine_engine.clusters.slurm.client import Partition
    from submarine_engine.clusters.slurm.state import SlurmState
    from submarine_engine.clusters.tasks import TaskRun

# Output goes to the tasks' own files: what else is written is what srun itself complains of.
_SRUN = (
    "srun --kill-on-bad-exit=1 --input=none --output=/dev/null --error=srun.log --open-mode=append"
)

REASONS = {
    "Priority": "jobs of a higher priority are before it",
    "Resources": "it waits for what it asks for to be free",
    "Dependency": "it waits for another job",
    "BeginTime": "its time has not come yet",
    "None": "Slurm has not looked at it yet",
    "ReqNodeNotAvail": "nodes that it needs are down or reserved",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition takes no jobs now",
    "PartitionNodeLimit": "it asks for more nodes than its partition gives to a job",
    "PartitionTimeLimit": "it asks for more time than its partition gives",
    "Reservation": "its reservation has not begun",
    "JobHeldUser": "somebody holds it back: `scontrol release` lets it go",
    "JobHeldAdmin": "an administrator holds it back",
    "Licenses": "it waits for a licence",
    "AssocGrpGRES": "your account's GPUs are all in use",
    "QOSMaxGRESPerUser": "you hold as many GPUs as your QOS allows",
    "QOSMaxJobsPerUserLimit": "you have as many jobs running as your QOS allows",
    "QOSGrpGRES": "the GPUs of your QOS are all in use",
    "MaxGRESPerAccount": "your account holds as many GPUs as its QOS allows",
    "AssocGrpGRESMinutes": "your account's time on GPUs is used up",
    "AssocMaxJobsLimit": "you have as many jobs running as your account allows",
    "BadConstraints": "no node has what it asks for",
}
"""What Slurm's words for why a job waits mean."""

_TIME_IS_UP = "time-is-up"
"""Beside the tasks' folders: Slurm has said that the job's time in it is almost over."""

_OF_IMAGES = (
    "the image (--docker_image) needs the Python release that you have here; slurm_image_python "
    "says where in it that is"
)
_AT_ITS_LIMIT = "the time that Slurm gives the job is over"

_STOPPED = "somebody cancelled it in Slurm (scancel)"
_FORGOTTEN = 0  # the number of a job of which Slurm has nothing, nor will have
_GONE_FOR = 10.0  # seconds without a job in Slurm's answers until it is taken for forgotten

_TRIES_EVERY = 2.0  # seconds between two tries to submit while the controller is silent
_FIRST_LOOK = 2.0  # seconds: schedulers look once a second, and the job's files tell that it began


class SlurmRequest(NotedRequest):
    """An attempt of a job on Slurm.

    Parameters
    ----------
    state
        Its cluster.
    job
        The job.
    """

    def __init__(self, state: SlurmState, job: KeptJob) -> None:
        super().__init__(job, NOTE, state.submit_queue, "slurm")
        self._state = state
        self._slurm = state.slurm
        self._name = job_name(self._id, job.attempt)
        self._place = state.place(self._id, job.attempt)
        self._tried_at = self._asked_at = float("-inf")
        self._given: dict[str, Allocated] = {}
        self._ended_at: float | None = None  # the first of its tasks
        self._gone_since: float | None = None  # Slurm has not known it
        self._unasked = ""  # why it could not be submitted

    @property
    def _number(self) -> int | None:
        return self._note.get("number")

    def ask(self) -> AllocatedByTask | None:
        """Submit the job unless Slurm has it, and return its tasks once all have their nodes."""
        queue = self._queue
        if self._number is None:
            if not queue.is_turn(self._id) or time.monotonic() - self._tried_at < _TRIES_EVERY:
                return None
            self._tried_at = time.monotonic()
            try:
                self._submit()
            except ClusterError as error:  # it does not answer: `waiting` says so
                self._unasked = error.what
                return None
            except OSError as error:
                # Its folder alone may be what cannot be written: others need not wait for that.
                queue.leave(self._id)
                self._unasked = f"the tasks' folder cannot be written: {error.strerror or error}"
                return None
            self._unasked = ""
            queue.leave(self._id)
        return self._look()

    # Asking, so that it is asked once.

    def _submit(self) -> None:
        """Submit the job, or adopt what an earlier keeper has submitted.

        Raises
        ------
        SubmissionError
            Slurm refuses it.
        ClusterError
            It does not answer now.
        OSError
            What the tasks need cannot be written.
        """
        # sbatch inherits the lock: who takes over waits until that of the one before is through.
        lock = locks.take(self._job.paths.root / "slurm.lock")
        if lock is None:
            raise ClusterError("an earlier sbatch is still under way", where=self._id)
        try:
            number = self._adopt() if self._note else None
            if number is None and self._has_begun:
                number = _FORGOTTEN
            if number is None:
                # The tasks' folder may be there already, of as many as the note says.
                workers = (self._place.exists() and self._note.get("workers")) or self._workers()
                self._note_down(workers=workers, asked=time.time())
                self._write_tasks()
                asks = asks_for_partitions(self._spec)
                partitions = self._slurm.partitions() if asks else []
                words = arguments(self._spec, self._name, partitions)
                number = self._slurm.submit(words, self._script(partitions), lock)
            self._asked_at = time.monotonic()
            self._note_down(number=number)
        finally:
            locks.drop(lock)

    @property
    def _has_begun(self) -> bool:
        """Whether a task of the attempt has ever said where it runs: it is not asked for again."""
        return any((self._place / task / "node").exists() for task in self._spec.tasks)

    def _adopt(self) -> int | None:
        """Return the number of what carries this attempt's name; None where nothing does."""
        now = time.monotonic()
        return min((job.leader for job in self._mine(since=now)), default=None)

    def _mine(self, *, since: float = float("-inf"), hurry: bool = False) -> list[SlurmJob]:
        """Return what Slurm has of this attempt's name."""
        return self._state.mine.answer(since=since, hurry=hurry).named(self._name)

    def _workers(self) -> int | None:
        """Return how many workers an elastic job begins with: as many as there is room for."""
        role = self._job.spec.elastic
        if role is None or role.least is None:
            return None
        sizes = range(role.count, role.least, -1)
        # Of jobs that began a moment ago, too.
        free = self._state.free(self._state.partition(self._spec), since=time.monotonic())
        fitting = (n for n in sizes if self._fits(self._job.spec.sized(n).tasks, free))
        return next(fitting, role.least)

    def _fits(self, tasks: tuple[str, ...], room: Mapping[str, int]) -> bool:
        """Whether there is room for tasks, by the GPUs that are free on each node."""
        free = dict(room)
        for role in self._job.spec.roles:
            for task in role.tasks:
                count = role.resources.gpus or 0
                node = next((name for name, left in free.items() if left >= count), None)
                if task in tasks and node is None:
                    return False
                if task in tasks and node is not None:
                    free[node] -= count
        return True

    def room(self) -> int:
        """Return how many workers more there is room for; 0 where another job waits for it."""
        # An older answer may not know of this very job yet, nor of one that waits since.
        now = time.monotonic()
        partition = self._state.partition(self._spec)
        if self._state.all.answer(since=now).wanted(partition):
            return 0
        had, more, free = set(self._spec.tasks), 0, self._state.free(partition)
        extra: list[str] = []
        for task in self._job.spec.tasks:
            if task not in had:
                extra.append(task)
                more += self._fits(tuple(extra), free)
        return more

    @property
    def _image(self) -> Image | None:
        """What the tasks run in; None for the nodes' own Python."""
        noted = self._job.launch.get("image")
        return Image(**{**noted, "mounts": tuple(noted["mounts"])}) if noted else None

    @property
    def _seen(self) -> list[Path]:
        """The folders of this machine that tasks need, wherever they run."""
        runtime, spec = Path(submarine_runtime.__file__).parent, self._spec
        paths = self._on_disk(spec.input_path), self._on_disk(spec.checkpoint_path)
        return [self._place, self._workdir, runtime, *filter(None, paths)]

    @property
    def _workdir(self) -> Path:
        return Path(self._job.record["workdir"])

    def _on_disk(self, path: str | None) -> Path | None:
        """Return the absolute path of the shared disk that an option names."""
        here = disk_path(path or "", "")
        return None if here is None else self._workdir / here

    def _address(self, path: str | None) -> str | None:
        here = self._on_disk(path)
        return path if here is None else here.as_uri()

    def _begun(self, partitions: Sequence[Partition]) -> str:
        """Return the lines of the batch script that begin all tasks at the same time."""
        runtime = str(Path(submarine_runtime.__file__).with_name("launcher.py"))
        begins = [self._job.launch["python"], "-I", "-S", runtime, str(self._place)]
        asked, steps, contained = parts(self._spec), [], []
        if (image := self._image) is not None:
            contained = image.of_srun(self._seen)
            begins = [*image.command(self._seen, gpus=bool(self._spec.gpus)), *begins]
        if len(self._spec.tasks) == 1 and not contained:
            # The batch script has all that the job has: a step would be asked for, begun and
            # ended besides. Slurm's TERM is for the task, as it would be in a step; where the
            # script, or a shell between the two, ended of it, the task would be nobody's.
            return f"trap : TERM\n{shlex.join([*begins, *self._spec.tasks])} </dev/null &"
        together = []
        for number, part in enumerate(asked):
            group = [f"--het-group={number}"] if len(asked) > 1 else []
            kind = gpu_type(self._spec, partitions)
            words = [*group, *resources(part, kind), *contained, *begins, *part.tasks]
            together.append(shlex.join(words))
            if part.beside:  # on the same cores and memory, which were asked for with them in mind
                shared = ["--overlap", "--overcommit", "--gres=none", "--mem=0"]
                count = f"--ntasks={len(part.beside)}"
                words = [*group, *shared, count, *contained, *begins, *part.beside]
                without = "-u SLURM_GPUS_PER_TASK -u SLURM_MEM_PER_CPU -u SLURM_CPUS_PER_TASK"
                steps.append(f"env {without} {_SRUN} {shlex.join(words)}")
        steps.append(f"{_SRUN} {' : '.join(together)}")
        # Where one step breaks, the others end too: none of their tasks could do without it.
        return "\n".join(f"{{ {step} || {{ touch broken; kill 0; }}; }} &" for step in steps)

    def _script(self, partitions: Sequence[Partition]) -> str:
        """Return the batch script: all tasks at once, and for Slurm's records how they ended."""
        seconds = float(warned_before(self._spec))
        notice = shlex.quote(json.dumps({"reason": _AT_ITS_LIMIT, "seconds": seconds}))
        return f"""#!/bin/sh
umask 077
cd {shlex.quote(str(self._place))} || exit 1
exec 2>>srun.log
end_in_time() {{
    : >{_TIME_IS_UP}
    for asked in */{ASKED}; do
        task=${{asked%/*}}
        printf %s {notice} >"$task/.{NOTICE}" && mv -f "$task/.{NOTICE}" "$task/{NOTICE}"
        echo TERM >>"$asked"
    done
}}
trap end_in_time USR1
{self._begun(partitions)}
until wait; do :; done
[ ! -e broken ] || exit 1
for code in */exit; do
    read -r status rest <"$code" || exit 1
    [ "$status" = 0 ] || exit "$status"
done
"""

    def _write_tasks(self) -> None:
        """Write what the nodes need of each task, whole or not at all."""
        staged = self._place.with_name(f".{self._place.name}")
        if self._place.exists():
            return
        shutil.rmtree(staged, ignore_errors=True)
        make_private(staged)
        shutil.copytree(self._job.paths.bundle, staged / "bundle")
        for task in self._spec.tasks:
            self._write_task(staged / task)
        staged.rename(self._place)

    def _write_task(self, staged: Path) -> None:
        for one in (staged, staged / "logdir", staged / "artifacts"):
            make_private(one)
        (staged / ASKED).touch(mode=0o600)
        spec = replace(
            self._spec,
            input_path=self._address(self._spec.input_path),
            checkpoint_path=self._address(self._spec.checkpoint_path),
        )
        plan, launch = beginning(
            self._job,
            spec,
            self._place / staged.name,
            bundle=str(self._place / "bundle"),
            workdir=str(self._workdir),
            runtime=Path(submarine_runtime.__file__).parent,
            outer=self._job.launch["outer"],
            wanted={},
        )
        if self._image is not None:  # the image's own variables hold, and its Python may be another
            launch |= {"tells": "", "release": ".".join(platform.python_version_tuple()[:2])}
        write_json(staged / "task.json", plan)
        write_json(staged / "launch.json", launch)

    # Following.

    def _nodes(self) -> dict[str, str]:
        """Return the nodes of those tasks that have begun, as they have told."""
        nodes = {}
        for task in self._spec.tasks:
            with suppress(OSError):
                nodes[task] = (self._place / task / "node").read_text()[:255]
        return nodes

    def _look(self) -> AllocatedByTask | None:
        """Return the tasks with their nodes once all have begun; None before."""
        tasks = self._spec.tasks
        if len(self._given) == len(tasks):
            return self._given
        nodes = self._nodes()
        began = 0.0
        if len(nodes) < len(tasks) and self._is_new:
            return None
        with suppress(ClusterError):
            found = self._found(hurry=len(nodes) == len(tasks))
            began = max((job.began for job in found), default=0.0)
            if len(nodes) < len(tasks):  # or they have begun since, and are over by now
                nodes = self._nodes()
            if len(nodes) < len(tasks):
                self._refuse_forgotten(found)
                self._refuse_over(found)
                return None
        if len(nodes) < len(tasks):
            return None
        # Slurm tells whole seconds: that before it was asked is none in which it held anything.
        began = max(began, float(self._note.get("asked", 0.0)))
        self._given = {
            task: Allocated(f"{self._number}/{task}", node, began) for task, node in nodes.items()
        }
        return self._given

    @property
    def _is_new(self) -> bool:
        """Whether Slurm has got the job just now: a question would have it begin later."""
        return time.monotonic() - self._asked_at < _FIRST_LOOK

    def _refuse_over(self, found: list[SlurmJob]) -> None:
        """Refuse a job that is over though not all of its tasks have begun."""
        if not found or not all(job.final for job in found) or self._note.get("withdrawn"):
            return
        state = next((job.state for job in found if job.state != "COMPLETED"), "COMPLETED")
        where, again = f"job {self._number} of Slurm", f"submarine job retry {self._id}"
        if state == "CANCELLED" and not any(job.preempted for job in found):
            when = "while it waited"
            if any(job.nodes for job in found):  # Slurm tells the two alike
                when = "before its tasks began, or its node could not start it"
            raise SubmissionError(
                f"{_STOPPED} {when}", where=where, fix=f"`{again}` submits it once more"
            )
        if not any(job.nodes for job in found):
            raise SubmissionError(
                f"Slurm ended the job while it waited ({state})",
                where=where,
                fix=f"`scontrol show job {self._number}` may say why; `{again}` submits it once "
                "more",
            )
        log = ""
        with suppress(OSError):  # no node has seen the folder
            log = (self._place / "srun.log").read_text(errors="replace")
        raise SubmissionError(
            f"Slurm ended the job before its tasks began ({state}): "
            f"{log.strip()[-500:] or 'it says no more'}",
            where=where,
            fix=_OF_IMAGES
            if self._image
            else "the nodes must see the folder of your jobs and this environment's Python: try"
            f" `srun ls {self._place}`; slurm_python names another Python",
        )

    def _refuse_forgotten(self, found: list[SlurmJob]) -> None:
        """Refuse a job that Slurm knows no more: it is over, and not all of its tasks had begun.

        Slurm forgets a job some minutes after its end (MinJobAge); with its state on disk, all.
        """
        now = time.monotonic()
        self._gone_since = None if found else self._gone_since or now
        if self._note.get("withdrawn") or self._gone_since is None:
            return
        if now - self._gone_since >= _GONE_FOR:
            number = f"job {self._number} of Slurm" if self._number else self._name
            raise SubmissionError(
                "Slurm has forgotten the job, and not all of its tasks had said that they began: "
                "how it ended is lost",
                where=number,
                fix=f"`sacct --name={self._name}` tells it where the cluster keeps accounts; "
                f"`submarine job retry {self._id}` submits it once more",
            )

    def _found(self, *, hurry: bool = False) -> list[SlurmJob]:
        """Return what Slurm has of this attempt: a job, or the components of one."""
        jobs = self._mine(since=self._asked_at, hurry=hurry)
        return [job for job in jobs if job.leader == self._number]

    def count(self) -> Counted:
        """Return the containers of a job that Slurm has not ended.

        Slurm gives a job its nodes back as a whole. While some of its tasks run, those that have
        ended are not counted: nobody would ever end the rest of a job whose task has failed.
        """
        if not self._note:
            return Counted(frozenset(), over=True)
        if self._number is None:
            self._take_over()
        running = [task for task in self._spec.tasks if not self._has_ended(task)]
        if not running:  # what is told from now on holds for its last words, too
            self._ended_at = self._ended_at or time.monotonic()
        over = all(job.final for job in self._found(hurry=not running))
        ids = {f"{self._number}/{task}" for task in running or self._spec.tasks}
        return Counted(frozenset() if over else ids, over=over)

    def _take_over(self) -> None:
        """Find what an earlier keeper has asked for, where none may be asked for any more."""
        lock = locks.take(self._job.paths.root / "slurm.lock")
        if lock is None:
            raise ClusterError("an earlier sbatch is still under way", where=self._id)
        try:
            self._note_down(number=self._adopt() or _FORGOTTEN)
        finally:
            locks.drop(lock)

    def _has_ended(self, task: str) -> bool:
        """Return whether a task has told how it ended."""
        return (self._place / task / "exit").exists()

    @property
    def stopped(self) -> str:
        """That somebody cancelled the job by Slurm's own means, which do not say who."""
        if self._note.get("withdrawn") or not self._number:
            return ""
        with suppress(ClusterError):
            jobs = self._found() if self._ended_at is None else self._last()
            by_hand = any(job.state == "CANCELLED" and not job.preempted for job in jobs)
            return _STOPPED if by_hand else ""
        return ""

    @property
    def forgotten(self) -> bool:
        """Whether Slurm knows the job no more."""
        with suppress(ClusterError):
            return not self._last()
        return False

    def is_lost(self, container: TaskRun, *, wanted: bool) -> bool:  # noqa: ARG002 - all of it is
        """Return whether Slurm ended the job: its time, or its node's; it was preempted."""
        if wanted:
            return False
        if self._is_at_its_limit:
            return True
        with suppress(ClusterError):
            jobs = self._last()
            # Of one that it has forgotten nobody knows that it was not the node that failed.
            return not jobs or any(job.state in LOST or job.preempted for job in jobs)
        return False

    def words(self, task: str, *, patient: bool) -> str:  # noqa: ARG002 - Slurm knows at once
        """Return how Slurm says that the job ended, where it was Slurm that ended it."""
        told = {
            "TIMEOUT": "Slurm ended it at its time limit there",
            "OUT_OF_MEMORY": "Slurm ended it: a task took more memory than it asked for",
            "NODE_FAIL": "its node failed",
            "PREEMPTED": "Slurm preempted it for a job of a higher priority",
            "CANCELLED": "it was cancelled in Slurm",
            "DEADLINE": "Slurm ended it at its deadline",
        }
        with suppress(ClusterError):
            states = ["PREEMPTED" if job.preempted else job.state for job in self._last()]
            if said := next((told[state] for state in states if state in told), ""):
                return said
        return _AT_ITS_LIMIT if self._is_at_its_limit else ""

    def _last(self) -> list[SlurmJob]:
        """Return what Slurm has of this attempt, told after a task of it has ended."""
        self._ended_at = self._ended_at or time.monotonic()
        jobs = self._mine(since=self._ended_at, hurry=True)
        return [job for job in jobs if job.leader == self._number]

    @property
    def _is_at_its_limit(self) -> bool:
        """Whether the tasks were asked to end since Slurm would have ended them soon."""
        return (self._place / _TIME_IS_UP).exists()

    def signal(self, container: str, *, kill: bool) -> None:
        """Ask a task to end, or kill it, by a word in its folder: that needs no controller."""
        try:
            self._say(container.partition("/")[2], "KILL" if kill else "TERM")
        except OSError as error:
            if kill and self._number:  # the disk is full: then all of the job
                self._note = {**self._note, "withdrawn": True}  # nobody else has cancelled it
                self._slurm.cancel(self._number)
                return
            raise ClusterError(
                f"the task's folder cannot be written: {error.strerror}", where=str(self._place)
            ) from error

    def _say(self, task: str, word: str) -> None:
        with (self._place / task / ASKED).open("ab") as file:
            file.write(f"{word}\n".encode())

    def withdraw(self) -> None:
        """End what Slurm has of the job, or will never have."""
        self._queue.leave(self._id)
        if not self._note:
            return
        self._note_down(withdrawn=True)
        if self._number is None:
            self._take_over()
        if self._number and not all(job.final for job in self._found(hurry=True)):
            self._slurm.cancel(self._number)
            self._asked_at = time.monotonic()
            if not all(job.final for job in self._found()):
                raise ClusterError("its tasks are ending", where=self._id)

    def exchange(self, messages: Mapping[str, Messages]) -> Mapping[str, Messages]:
        """Bring messages by files of the tasks' folders."""
        return {
            task: exchange_files(
                self._place / task, messages.get(task, {}), partial(self._say, task)
            )
            for task in self._spec.tasks
            if (self._place / task).is_dir()
        }

    def source(self, container: Allocated) -> FolderSource:
        """Return the task's folder, which this machine sees too."""
        return FolderSource(container.id, self._place / container.id.partition("/")[2])

    def waiting(self) -> tuple[int, str]:
        """Return how many jobs are before it, and Slurm's reason in words."""
        if self._is_new:
            return 0, REASONS["None"]
        free, nodes = self._state.free(), self._state.nodes()
        total = sum(node.gpus for node in nodes)
        away = sum(node.gpus for node in nodes if not node.usable)
        used = f"{total - away - sum(free.values())}/{total} GPUs in use"
        used += f", {away} of nodes that take no jobs now" if away else ""
        found = self._found() if self._number else []
        if not found:
            return self._queue.before(self._id), "; ".join(filter(None, (used, self._unasked)))
        mine = found[0]
        words = REASONS.get(mine.reason, f"Slurm says {mine.reason}") if mine.reason else ""
        if (limit := self._state.gpu_limit(mine)) is not None:
            words += f": {limit}"
        ahead = self._state.all.answer().before(mine)
        return ahead, f"{used}; {words}" if words else used

    def forget(self) -> None:
        """Remove the folders that the nodes have seen: what was in them is home."""
        shutil.rmtree(self._place.parent, ignore_errors=True)


__all__ = ["REASONS", "SlurmRequest"]
