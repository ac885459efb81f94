"""A complete backend outside the project: tasks on hosts as one has them by ssh.

A host is a folder, and a program on it a process of this machine: where a real backend would write
``scp`` and ``ssh host python …``, this one copies and calls `subprocess`. A task's folder on its
host is the task's claim on GPUs, its files, and what tells every keeper how far it is.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import replace
from glob import escape, glob
from pathlib import Path

from submarine_engine.clusters import locks, machine, saving
from submarine_engine.clusters.backend import Allocated, Backend, Counted, Request
from submarine_engine.clusters.base import Gpu
from submarine_engine.clusters.environment import file_address, refuse_reserved
from submarine_engine.clusters.exchange import exchange_files
from submarine_engine.clusters.log_mirror import EXIT, FolderSource
from submarine_engine.clusters.noted_request import beginning
from submarine_engine.clusters.saving import FolderStorage, FolderTarget, MessageHook
from submarine_engine.errors import ClusterError, ResourcesError, UnsupportedError
from submarine_engine.history import make_private, read_json, write_json
from submarine_engine.job import JobSpec
from submarine_runtime import launcher
from submarine_runtime.launcher import ASKED, BEGUN

HOSTS = {"alpha": 4, "beta": 0}  # the GPUs of each
STARTS_EVERY = 5.0  # seconds: what does not begin is started once more
LOCKED_WITHIN = 5.0  # seconds: the launcher makes `BEGUN`, and locks it right after


class HostsBackend(Backend):
    """Hosts, each a folder of ``<home>/hosts-of-mine``."""

    name = "hosts"
    title = "The host"
    idle = 2.0
    missed_within = 1.0  # a folder is there, or is not
    # Tests see them however busy the machine is.
    frames_within = float(os.environ.get("HOSTS_FRAMES_WITHIN", "60"))
    lease = float(os.environ.get("HOSTS_LEASE", "30"))
    hello_within = float(os.environ.get("HOSTS_HELLO_WITHIN", "120"))

    def check(self, spec: JobSpec) -> JobSpec:
        refuse_reserved(spec.env)
        if spec.queue not in (None, "default") or spec.docker_image:
            raise UnsupportedError(f"hosts know no {spec.queue or spec.docker_image!r}", fix="omit")
        file_address(spec.input_path or "", "--input_path")
        file_address(spec.checkpoint_path or "", "--checkpoint_path")
        for role in spec.roles:
            asked, gpus, cores = role.resources, max(HOSTS.values()), machine.vcores()
            memory = asked.memory, "MiB", machine.memory()
            for one in (asked.gpus, "GPUs", gpus), memory, (asked.vcores, "vcores", cores):
                if (one[0] or 0) > one[2]:
                    what = "the job asks for {} {}, a host has {}".format(*one)
                    raise ResourcesError(what, fix="ask for less")
        one = (replace(r, resources=replace(r.resources, gpus=1)) for r in spec.roles)
        both = zip(spec.roles, one, strict=True)
        return replace(spec, roles=tuple(n if r.resources.gpus is None else r for r, n in both))

    def gpus(self, held):  # noqa: ARG002 - the hosts know whose each is
        taken = {(claim.host, gpu): claim for claim in self.claims() for gpu in claim.gpus}
        return [
            Gpu(id=gpu, name="declared", host=host, job_id=claim.job_id if claim else None)
            for host in HOSTS for gpu in gpus_of(host) for claim in [taken.get((host, gpu))]
        ]  # fmt: skip

    def save(self, asked, path):
        record = read_json(asked.paths.record)
        kept = file_address(record["spec"]["checkpoint_path"] or "", "--checkpoint_path")
        storage = FolderStorage(kept) if kept else None
        found = {claim.task: claim.folder for claim in self.claims_of(asked.paths.job_id)}
        hook = MessageHook(asked, lambda task: found.get(task, asked.paths.root))
        return saving.save(asked, FolderTarget(Path(path)), hook, storage)

    def prepare(self, spec, bundle, tell):  # noqa: ARG002 - the same for all
        outer = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
        return {"python": sys.executable, "outer": outer}

    def request(self, job):
        return HostsRequest(self, job)

    def place(self, host: str, job_id: str) -> Path:
        return self.home / "hosts-of-mine" / host / job_id

    def remove(self, folder: Path) -> None:
        with suppress(OSError):  # renamed first: half a claim would hold its GPUs
            shutil.rmtree(folder.rename(self.home / "hosts-of-mine" / f"gone{time.monotonic_ns()}"))

    def claims_of(self, job_id: str) -> list[Claim]:  # what is written of one is written whole
        # Path.glob fails where another program removes the folder that it looks into.
        folders = glob(f"{escape(str(self.home))}/hosts-of-mine/*/{job_id}/*-*")  # noqa: PTH207
        return [claim for one in sorted(folders) if (claim := Claim(Path(one))).is_whole]

    def claims(self) -> list[Claim]:
        jobs = {path.name for host in HOSTS for path in self.place(host, "-").parent.glob("*-*")}
        return [one for job in sorted(jobs) for one in self.claims_of(job) if not one.is_over]


def gpus_of(host: str) -> list[str]:
    return [f"{host}-gpu-{number}" for number in range(HOSTS[host])]


class Claim:
    """A task's folder on its host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.task, self.job_id, self.host = folder.name, *(p.name for p in folder.parents[:2])
        self.started_at, self.is_whole, self.gpus, self.attempt = float("-inf"), False, [], 0
        with suppress(OSError, ValueError, TypeError):
            launch = read_json(folder / "launch.json")
            self.gpus, self.attempt, self.is_whole = launch["gpus"], launch["attempt"], True
        self.id = f"{self.host}/{self.task}/{self.job_id}/{self.attempt}"

    @property
    def is_over(self) -> bool:
        begun = self.folder / BEGUN
        try:
            age = time.time() - begun.stat().st_mtime
        except FileNotFoundError:
            return False
        ended = (self.folder / EXIT).exists()
        return ended or (age > LOCKED_WITHIN and locks.is_free(begun))

    def start(self) -> None:
        """Start what runs it, unless it has begun; two that start it start it once."""
        if (self.folder / BEGUN).exists() or time.monotonic() - self.started_at < STARTS_EVERY:
            return
        self.started_at = time.monotonic()
        place = str(self.folder.parent)
        command = [sys.executable, launcher.__file__, place, self.task]
        machine.spawn_detached(command, os.environ, log=self.folder / "launcher.log", keep=())

    def end(self, *, kill: bool) -> None:
        """See to it that it never begins; where it has, ask it to end, or have it killed."""
        try:
            os.close(os.open(self.folder / BEGUN, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            (self.folder / EXIT).write_text("143\n")
        except FileExistsError:
            with (self.folder / ASKED).open("a") as asked:
                asked.write("KILL\n" if kill else "TERM\n")


class HostsRequest(Request):
    """A job, which is asked for by making its tasks' folders on hosts."""

    def __init__(self, backend, job):
        self._backend, self._job, self._id = backend, job, job.paths.job_id
        for former in (one for one in backend.claims_of(self._id) if one.attempt < job.attempt):
            backend.remove(former.folder)
        self._claims = backend.claims_of(self._id)  # of a keeper before this one
        backend.submit_queue.name(self._id, "hosts")

    @property
    def begun(self):
        return bool(self._claims)

    def ask(self):
        queue, missing = self._backend.submit_queue, self._missing()
        late = bool(missing and not self._claims and not queue.is_turn(self._id))
        if late or (missing and not self._claim_most(missing)):
            return None
        queue.leave(self._id)
        for claim in self._claims:
            claim.start()
        return {one.task: Allocated(one.id, one.host) for one in self._claims}

    def _missing(self):
        if self._job.spec.elastic and self._claims:  # it has begun with what there was
            return []
        return [t for t in self._job.spec.tasks if t not in {claim.task for claim in self._claims}]

    def _claim_most(self, missing):
        if (role := self._job.spec.elastic) is None:
            return self._claim(missing)
        sizes = map(self._job.spec.sized, range(role.count, role.least - 1, -1))
        return any(self._claim(spec.tasks, spec) for spec in sizes)

    def _places(self, tasks):
        taken = {gpu for claim in self._backend.claims() for gpu in claim.gpus}
        free, places = {h: [gpu for gpu in gpus_of(h) if gpu not in taken] for h in HOSTS}, []
        for task in tasks:
            count = next(r for r in self._job.spec.roles if task in r.tasks).resources.gpus
            asked = self._job.spec.options.get("host")
            host = next((h for h in HOSTS if asked in (None, h) and len(free[h]) >= count), None)
            if host is None:
                break
            places.append((task, host, [free[host].pop(0) for _ in range(count)]))
        return places

    def room(self):
        had = {claim.task for claim in self._claims}
        others = (one for one in self._backend.folder().open_jobs() if one != self._id)
        if any(not self._backend.claims_of(one) for one in others):  # another one waits
            return 0
        return len(self._places([task for task in self._job.spec.tasks if task not in had]))

    def _claim(self, tasks, spec=None):
        if len(places := self._places(tasks)) < len(tasks):
            return False
        try:
            self._claims += [self._write(*place, spec or self._job.spec) for place in places]
        except OSError as error:
            raise ClusterError(f"the host cannot be written: {error}", where=self._id) from error
        return True

    def _write(self, task, host, gpus, spec):
        """Make a task's folder on its host, and all in it, whole or not at all."""
        folder = self._backend.place(host, self._id) / task
        make_private(folder.parent)
        staged = folder.with_name(f".{task}")
        shutil.rmtree(staged, ignore_errors=True)
        shutil.copytree(self._job.paths.bundle, staged / "bundle")
        for made in ("logdir", "artifacts"):
            make_private(staged / made)
        (staged / ASKED).touch(mode=0o600)
        plan, launch = beginning(
            self._job, spec, folder, runtime=Path(launcher.__file__).parent,
            bundle=str(folder / "bundle"), workdir=self._job.record["workdir"],
            outer=self._job.launch["outer"], wanted={},
        )  # fmt: skip
        write_json(staged / "task.json", plan)
        write_json(staged / "launch.json", {**launch, "gpus": gpus, "attempt": self._job.attempt})
        staged.rename(folder)
        return Claim(folder)

    def count(self):
        return Counted(held := {one.id for one in self._claims if not one.is_over}, over=not held)

    def is_lost(self, container, *, wanted):
        ours = (claim for claim in self._claims if claim.id == container.id)
        return not wanted and any(not (claim.folder / EXIT).exists() for claim in ours)

    def signal(self, container, *, kill):
        for claim in (one for one in self._claims if one.id == container):
            claim.end(kill=kill)

    def withdraw(self):
        for claim in self._claims:
            claim.end(kill=True)
        if any(not claim.is_over for claim in self._claims):
            raise ClusterError("its tasks are ending", where=self._id)

    def exchange(self, messages):
        return {c.task: exchange_files(c.folder, messages.get(c.task, {})) for c in self._claims}

    def source(self, container):
        found = (one.folder for one in self._claims if one.id == container.id)
        return FolderSource(container.id, next(found))

    def waiting(self):
        taken = sum(len(claim.gpus) for claim in self._backend.claims())
        used = f"{taken}/{sum(HOSTS.values())} GPUs in use"
        return self._backend.submit_queue.before(self._id), used

    def forget(self):
        for host in HOSTS:
            self._backend.remove(self._backend.place(host, self._id))

    def close(self):
        self._backend.submit_queue.leave(self._id)
