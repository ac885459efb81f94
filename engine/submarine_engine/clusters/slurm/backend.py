"""Slurm as a backend: what a job may ask for, whose the GPUs are, and what its jobs share."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_engine.clusters import saving
from submarine_engine.clusters.backend import Backend, KeptJob
from submarine_engine.clusters.base import Gpu, GpuRoom, GpuShare, node_shares, room_on
from submarine_engine.clusters.refusals import Largest, completed, refuse_foreign, refuse_larger
from submarine_engine.clusters.saving import FolderTarget, MessageHook, kept_storage
from submarine_engine.clusters.slurm.client import (
    FINAL,
    Node,
    Partition,
    Slurm,
    find_conf,
)
from submarine_engine.clusters.slurm.images import image_of
from submarine_engine.clusters.slurm.sbatch import (
    NOTE,
    arguments,
    disk_path,
    job_name,
    partition_of,
)
from submarine_engine.clusters.slurm.state import SlurmState
from submarine_engine.config import load_config
from submarine_engine.errors import (
    ClusterError,
    ConfigError,
    ResourcesError,
    SubmissionError,
    UnsupportedError,
)
from submarine_engine.history import JobPaths, read_json

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters.base import Saved
    from submarine_engine.clusters.saving import SaveRequest
    from submarine_engine.clusters.slurm.request import SlurmRequest
    from submarine_engine.job import JobSpec

_INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH",
    "MPLBACKEND",
)  # fmt: skip
"""What tasks have of the submitter's environment: none of it is a secret."""

_OF_THE_IMAGE = ("PATH", "HOME", "SHELL", "LD_LIBRARY_PATH")
_NOTHING = "#!/bin/sh\n"
_SHAPE_HOLDS = 60.0  # seconds: each question is a tenth of what a job takes to begin


class _Shape(NamedTuple):
    """What a cluster is made of: that hardly ever changes."""

    nodes: list[Node]
    partitions: list[Partition]


_shapes: dict[Path, tuple[float, _Shape]] = {}  # by configuration: when it was told, and what
_WOULD_WAIT = ("not available", "nodes required", "reserved for jobs")


class SlurmBackend(Backend):
    """Jobs of a Slurm cluster, whose nodes see the folder that jobs are kept in.

    Parameters
    ----------
    home
        Where jobs are kept, see `default_home`.

    Raises
    ------
    ConfigError
        There is no Slurm here.
    """

    name = "slurm"
    title = "Slurm"
    no_gpus = "see `sinfo -o '%P %G'`; GPUs that Slurm shall share out are gres of its nodes"
    frames_within = 10.0  # shared disks show late what is new

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.slurm = Slurm()
        tasks = home / self.name / self.key / "tasks"
        self.state = SlurmState(self.slurm, tasks, self.submit_queue)

    @classmethod
    def configured(cls) -> bool:
        """Return whether there is a Slurm to use."""
        try:
            return find_conf() is not None
        except ConfigError:  # it is told where the cluster is used
            return False

    @classmethod
    def machine_path(cls, path: str, option: str) -> Path | None:
        """Return the path of this machine that an option names: the nodes see it, too."""
        return disk_path(path, option)

    @property
    def key(self) -> str:
        """What tells one Slurm from another."""
        return self.slurm.fingerprint

    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what the cluster cannot do, and fill in what was left to it."""
        image_of(spec, self.slurm)
        refuse_foreign(spec)
        try:
            filled = _filled(spec, shape := self._shape())
        except (UnsupportedError, ResourcesError):  # the cluster may be another one by now
            filled = _filled(spec, shape := self._shape(fresh=True))
        if not filled.gpus and completed(spec, 1).gpus:  # it had none a minute ago
            filled = _filled(spec, shape := self._shape(fresh=True))
        self._try_out(filled, shape.partitions)
        return filled

    def _shape(self, *, fresh: bool = False) -> _Shape:
        """Return what the cluster is made of, as it was a minute ago at most."""
        asked_at, shape = _shapes.get(self.slurm.conf, (-math.inf, None))
        if shape is None or fresh or time.monotonic() - asked_at > _SHAPE_HOLDS:
            shape = _Shape(self.slurm.nodes(), self.slurm.partitions())
            _shapes[self.slurm.conf] = time.monotonic(), shape
        return shape

    def _try_out(self, spec: JobSpec, partitions: Sequence[Partition]) -> None:
        """Have Slurm itself say what is wrong: an account, a limit, a constraint."""
        try:
            words = arguments(spec.smallest, "submarine-check", partitions)
            self.slurm.try_out(words, _NOTHING)
        except SubmissionError as error:  # a node that is down now may be up when it runs
            if not any(word in str(error).lower() for word in _WOULD_WAIT):
                raise

    def prepare(
        self,
        spec: JobSpec,
        bundle: Bundle,  # noqa: ARG002 - likewise
        tell: Callable[[str], object],  # noqa: ARG002 - nothing takes long
    ) -> dict[str, Any]:
        """Note which Python tasks run by, and what they have of this process's environment."""
        python = load_config().value("slurm_python") or sys.executable
        outer = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        if (image := image_of(spec, self.slurm)) is not None:
            # What programs and libraries there are, the image says.
            outer = {name: value for name, value in outer.items() if name not in _OF_THE_IMAGE}
            return {"python": image.python, "outer": outer, "image": image._asdict()}
        paths = (str(Path(python).parent), outer.get("PATH", os.defpath))
        return {"python": python, "outer": {**outer, "PATH": os.pathsep.join(paths)}}

    def gpus(self, held: Mapping[str, str]) -> list[Gpu]:
        """Return the GPUs of all nodes and who holds each, as Slurm accounts them."""
        ours = {container.partition("/")[0]: job for container, job in held.items()}
        holders = self.state.holders(self.slurm.jobs(mine=False))
        found = []
        for node in self.slurm.nodes():
            for index in range(node.gpus):
                job = holders.get((node.name, index))
                if job is None and not node.usable:
                    words = f"nobody: the node is {node.state.lower()}"
                else:
                    words = f"{job.user}: job {job.id} {job.name}" if job else ""
                found.append(
                    Gpu(
                        id=f"{node.name}:{index}",
                        name=node.gpu_type or "GPU",
                        host=node.name,
                        job_id=ours.get(str(job.leader)) if job else None,
                        holder=words or None,
                        queue=job.partition if job else None,
                    )
                )
        return found

    def gpu_room(self, spec: JobSpec, held: Mapping[str, str]) -> GpuRoom:
        """Return how many GPUs of its partition jobs like this one could have now."""
        shape, partition = self._shape(), partition_of(spec)
        if partition is None:
            partition = next((one.name for one in shape.partitions if one.is_default), None)
        hosts = {node.name for node in shape.nodes if partition in (None, *node.partitions)}
        return room_on([gpu for gpu in self.gpus(held) if gpu.host in hosts], spec)

    def gpu_shares(self) -> list[GpuShare]:
        """Return what every node and every partition has of the GPUs."""
        shares = node_shares(self.gpus({}))
        free = {one.name: one.free for one in shares}
        nodes = [node for node in self.slurm.nodes() if node.gpus]
        for partition in sorted({name for node in nodes for name in node.partitions}):
            part = [node for node in nodes if partition in node.partitions]
            total = sum(node.gpus for node in part)
            some = sum(free.get(node.name, 0) for node in part)
            shares.append(GpuShare("queue", partition, some, total))
        return shares

    def save(self, asked: SaveRequest, path: str) -> Saved:
        """Bring the model of a running job to a folder."""
        noted = read_json(asked.paths.root / NOTE) or {}
        place = self.state.place(asked.paths.job_id, int(noted.get("attempt", 1)))
        hook = MessageHook(asked, lambda task: place / task)
        return saving.save(
            asked, FolderTarget(Path(path)), hook, kept_storage(asked, self.machine_path)
        )

    def request(self, job: KeptJob) -> SlurmRequest:
        """Return what asks for a job and follows it."""
        from submarine_engine.clusters.slurm.request import SlurmRequest  # noqa: PLC0415 - keepers'

        return SlurmRequest(self.state, job)

    def give_up(self, paths: JobPaths) -> None:
        """End what Slurm has of a job that cannot be followed."""
        prefix = job_name(paths.job_id, "")
        for job in self.slurm.jobs(mine=True):
            if job.name.startswith(prefix) and job.state not in FINAL:
                with suppress(ClusterError):
                    self.slurm.cancel(job.leader)


def _filled(spec: JobSpec, shape: _Shape) -> JobSpec:
    """Fill in the GPUs that were left open; refuse what fits no node of the job's partition."""
    partition, known = partition_of(spec), [one.name for one in shape.partitions]
    if partition is not None and partition not in known:
        raise UnsupportedError(
            f"Slurm has no partition {partition!r}",
            where="--queue" if spec.queue else "slurm_partition",
            fix=f"choose one of {', '.join(known)}",
        )
    usable = [node for node in shape.nodes if partition is None or partition in node.partitions]
    largest = Largest(
        max((node.gpus for node in usable), default=0),
        max((node.memory for node in usable), default=0),
        max((node.cores for node in usable), default=0),
    )
    spec = completed(spec, largest.gpus)
    for role in spec.roles:
        refuse_larger(role, largest, "`sinfo -N -o '%N %G %m %c'`")
    return spec
