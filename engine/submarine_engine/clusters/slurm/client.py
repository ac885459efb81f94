"""Slurm's own programs, asked by argument lists within a time limit, and their answers read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from submarine_engine.config import DEFAULT, load_config
from submarine_engine.errors import ClusterError, ConfigError, SubmissionError

PATIENCE = 6.0
"""Seconds that Slurm's programs have: without a controller ``squeue`` itself would try for 9 s."""

_SBATCH_PATIENCE = 20.0  # its answer says whether there is a job: worth more of a wait
_EXPRESSIONS = 4096  # ways to say which nodes a job has, of which it is remembered what they mean
_SILENT_FOR = 3.0  # seconds for which a controller that did not answer is not asked again
_OF_ACCOUNTS = "sacctmgr"  # asks a database: what that says tells nothing of the controller
_SYSTEM_CONF = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf")
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "SLURM_CLUSTERS")

# Passes by itself, and says nothing of the job.
_UNREACHABLE = re.compile(
    r"unable to contact|timed out|connection refused|communication|temporarily|zero bytes"
    r"|controller not responding|try again|backup controller",
    re.IGNORECASE,
)

FINAL = frozenset({
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
    "DEADLINE", "OUT_OF_MEMORY", "REVOKED",
})  # fmt: skip
"""Slurm's states of jobs that hold nothing any more."""

LOST = frozenset({"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED", "TIMEOUT"})
"""Those by which the cluster, and nobody's wish, has ended the job."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as ``squeue --json`` tells of it; the components of a heterogeneous one are such jobs.

    Parameters
    ----------
    id, leader
        Its number, and that of the first component.
    state, reason
        As Slurm writes them: ``PENDING``, ``Priority``.
    began
        When it started, on Slurm's wall clock; 0 for not yet.
    gres
        What each of its nodes gives: ``gpu:2(IDX:0-1)``.
    preempted
        Whether it was asked to end for another job. Where it does so within the partition's
        ``GraceTime``, its state does not say why.
    qos
        Its quality of service; empty where Slurm keeps no accounts.
    """

    id: int
    leader: int
    name: str
    state: str
    reason: str
    user: str
    partition: str
    priority: int
    began: float
    nodes: str
    gres: tuple[str, ...]
    preempted: bool = False
    qos: str = ""

    @property
    def final(self) -> bool:
        """Whether it holds nothing any more."""
        return self.state in FINAL

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> SlurmJob:
        """Read what any release since 22.05 writes.

        Parameters
        ----------
        told
            One of ``jobs``.
        """
        number = int(_number(told.get("job_id")))
        states = told.get("job_state") or ""
        # Newer releases list it with its flags, as in ["RUNNING", "COMPLETING"].
        names = states if isinstance(states, list) else [states]
        return cls(
            id=number,
            leader=int(_number(told.get("het_job_id"))) or number,
            name=str(told.get("name") or ""),
            state=str(names[0]).split()[0] if names and names[0] else "",
            reason=str(told.get("state_reason") or ""),
            user=str(told.get("user_name") or told.get("user_id") or ""),
            partition=str(told.get("partition") or ""),
            priority=int(_number(told.get("priority"))),
            began=_number(told.get("start_time")),
            nodes=str(told.get("nodes") or ""),
            gres=tuple(str(one) for one in told.get("gres_detail") or ()),
            preempted=_number(told.get("preempt_time")) > 0,
            qos=str(told.get("qos") or ""),
        )


def _number(told: object) -> float:
    """Return a number of Slurm's JSON, which newer releases wrap; 0 for none."""
    if isinstance(told, Mapping):
        told = told.get("number") if told.get("set", True) else 0
    return float(told) if isinstance(told, int | float) else 0.0


@dataclass(frozen=True, slots=True)
class Node:
    """A node as ``scontrol show node`` tells of it; memory in mebibytes, GPUs by index."""

    name: str
    state: str
    partitions: tuple[str, ...]
    cores: int
    memory: int
    gpu_type: str
    gpus: int

    @property
    def usable(self) -> bool:
        """Whether it may run jobs now."""
        return not re.search(r"DOWN|DRAIN|FAIL|UNKNOWN|NOT_RESPONDING|\*", self.state)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as ``scontrol show partition`` tells of it.

    Parameters
    ----------
    name
        Its own.
    is_default
        Whether it is that of jobs that name none.
    longest
        Seconds that a job may take there; None for as long as it likes.
    qos
        The quality of service whose limits hold for its jobs besides their own; empty for none.
    """

    name: str
    is_default: bool
    longest: float | None
    qos: str = ""


class GpuLimits(NamedTuple):
    """How many GPUs a quality of service lets a user hold, and all users; None for any number."""

    of_user: int | None = None
    of_all: int | None = None


_TRES = re.compile(r"(?:^|,)gres/gpu=(\d+)(?:,|$)")
_GRES = re.compile(r"gpu(?::(?P<type>[^:(,]+(?=:)))?:(?P<count>\d+)")
_INDICES = re.compile(r"gpu[^(]*\(IDX:([\d,-]+)\)")


def read_gres(text: str) -> tuple[str, int]:
    """Return the type and number of the GPUs that ``gpu:a100:4(S:0-1)`` says.

    Parameters
    ----------
    text
        As Slurm has it; other gres may be among it. Of several types the first one is told.
    """
    found = list(_GRES.finditer(text))
    kind = next((one["type"] for one in found if one["type"]), "")
    return kind, sum(int(one["count"]) for one in found)


def read_indices(text: str) -> list[int]:
    """Return the indices that ``gpu:2(IDX:0-1,3)`` says.

    Parameters
    ----------
    text
        As Slurm has it.
    """
    indices: list[int] = []
    for ranges in _INDICES.findall(text):
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            indices += range(int(first), int(last or first) + 1)
    return indices


def find_conf(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the configuration of the Slurm to use; None where there is none.

    Parameters
    ----------
    environ
        This process's unless given.
    """
    environ = os.environ if environ is None else environ
    config = load_config()
    value, origin = config.value("slurm_conf"), config.origin("slurm_conf")
    if value and origin != str(config.path):
        return Path(value)
    if named := environ.get("SLURM_CONF"):
        return Path(named).expanduser().absolute()
    if origin != DEFAULT:
        return Path(value)
    if (system := next((Path(p) for p in _SYSTEM_CONF if Path(p).exists()), None)) is not None:
        return system
    from submarine_engine.installer.slurm import running_conf  # noqa: PLC0415 - most name a file

    return running_conf(config.value("home"))


class Slurm:
    """The cluster of one configuration, by the programs in the user's path.

    Parameters
    ----------
    conf
        The one that `find_conf` finds unless given.

    Raises
    ------
    ConfigError
        There is none, or no ``sbatch``.
    """

    def __init__(self, conf: Path | None = None) -> None:
        found = conf or find_conf()
        if found is None:
            raise ConfigError(
                "no Slurm is configured here, and none of `submarine cluster up slurm` runs",
                where="SLURM_CONF",
                fix="work where `sbatch` does (a login node), or start one: submarine cluster up "
                "slurm",
            )
        if not found.is_file():
            raise ConfigError(
                "there is no such configuration of Slurm",
                where=str(found),
                fix="let SLURM_CONF name the file slurm.conf of your cluster",
            )
        if shutil.which("sbatch") is None:
            raise ConfigError(
                "the program sbatch is missing",
                where="PATH",
                fix="load the module of your site that has Slurm's programs, or install them (on "
                "Debian: apt-get install slurm-client)",
            )
        self.conf = found
        self._lock = threading.Lock()
        self._silent: tuple[float, ClusterError] | None = None
        self._expand = lru_cache(_EXPRESSIONS)(self._ask_for_hosts)

    @property
    def fingerprint(self) -> str:
        """What tells this cluster from others."""
        return hashlib.sha256(bytes(self.conf)).hexdigest()[:16]

    def environment(self) -> dict[str, str]:
        """Return what its programs run with: no more of this process's than they need.

        The variables of the job in which this process may run itself would be taken for options.
        """
        kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
        asked = {key: value for key, value in os.environ.items() if key.startswith("SBATCH_")}
        return {**kept, **asked, "SLURM_CONF": str(self.conf)}

    def submit(self, arguments: Sequence[str], script: str, keep: int) -> int:
        """Submit a batch script; return the job's number.

        Parameters
        ----------
        arguments
            Of ``sbatch``.
        script
            Its text.
        keep
            A descriptor that is open as long as ``sbatch`` runs, though this process may be gone.

        Raises
        ------
        SubmissionError
            Slurm refuses the job.
        ClusterError
            It does not answer now.
        """
        words = ["sbatch", "--parsable", *arguments]
        told = self._run(words, script=script, patience=_SBATCH_PATIENCE, keep=(keep,))
        number = told.strip().partition(";")[0].splitlines()[-1:]
        if not number or not number[0].isdecimal():
            raise SubmissionError(
                f"sbatch has said no job's number: {told[:200]!r}",
                where="sbatch",
                fix="see what it says by hand; a wrapper of your site must pass --parsable on",
            )
        return int(number[0])

    def try_out(self, arguments: Sequence[str], script: str) -> None:
        """Raise `SubmissionError` where Slurm would never run such a job.

        Parameters
        ----------
        arguments, script
            As `submit` has them.
        """
        self._run(["sbatch", "--test-only", *arguments], script=script, patience=PATIENCE)

    def jobs(self, *, mine: bool) -> list[SlurmJob]:
        """Return the jobs that the controller knows: those that wait and run, and just ended.

        Parameters
        ----------
        mine
            Whether those of this user alone.

        Raises
        ------
        ClusterError
            It does not answer.
        """
        words = ["squeue", "--json", "--states=all" if mine else "--states=PENDING,RUNNING"]
        if mine:
            words.append(f"--user={os.getuid()}")
        told = self._run(words)
        try:
            return [SlurmJob.read(one) for one in json.loads(told)["jobs"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ClusterError(
                f"what squeue --json says cannot be read: {error}",
                where="squeue",
                fix="this needs Slurm 22.05 or newer with its JSON plugin: see `squeue --json`",
            ) from error

    def nodes(self) -> list[Node]:
        """Return the nodes; raises as `jobs`."""
        told = self._run(["scontrol", "--details", "--oneliner", "show", "node"])
        return [_read_node(line) for line in told.splitlines() if line.startswith("NodeName=")]

    def partitions(self) -> list[Partition]:
        """Return the partitions; raises as `jobs`."""
        told = self._run(["scontrol", "--oneliner", "show", "partition"])
        lines = told.splitlines()
        return [_read_partition(line) for line in lines if line.startswith("PartitionName=")]

    def gpu_limits(self) -> dict[str, GpuLimits]:
        """Return how many GPUs each quality of service allows, by its name.

        Asks the database of accounts, not the controller; empty where it does not say.
        """
        words = [_OF_ACCOUNTS, "--noheader", "--parsable2", "show", "qos"]
        try:
            told = self._run([*words, "format=Name,MaxTRESPU,GrpTRES"])
        except ClusterError:
            return {}
        lines = [line.split("|") for line in told.splitlines()]
        return {
            name: GpuLimits(
                *(int(found[1]) if (found := _TRES.search(one)) else None for one in of)
            )
            for name, *of in lines
            if len(of) == len(GpuLimits._fields)
        }

    def hosts(self, expression: str) -> list[str]:
        """Return the nodes that ``n[1-3,5]`` says; asks no controller.

        Each expression costs a process once: every job that waits wants to know it of every job
        that runs.
        """
        if "[" not in expression:
            return expression.split(",") if expression else []
        return list(self._expand(expression))

    def _ask_for_hosts(self, expression: str) -> tuple[str, ...]:
        return tuple(self._run(["scontrol", "show", "hostnames", expression]).split())

    def options_of_srun(self) -> str:
        """Return what ``srun`` says of its options, those of the site's plugins too.

        Asks no controller; empty where it does not say.
        """
        try:
            return self._run(["srun", "--help"])
        except ClusterError:
            return ""

    def cancel(self, number: int) -> None:
        """End the job `number` at once; nothing where it is over. Raises as `jobs`."""
        self._run(["scancel", "--signal=KILL", "--full", str(number)], may_fail=True)
        self._run(["scancel", "--quiet", str(number)])

    def _run(
        self,
        words: Sequence[str],
        *,
        script: str = "",
        patience: float = PATIENCE,
        keep: tuple[int, ...] = (),
        may_fail: bool = False,
    ) -> str:
        program = words[0]
        if program != _OF_ACCOUNTS:
            self._refuse_silent()
        try:
            done = subprocess.run(  # noqa: S603 - Slurm's own programs, no shell
                words,
                input=script,
                env=self.environment(),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=patience,
                check=False,
                pass_fds=keep,
            )
        except subprocess.TimeoutExpired:
            raise self._note_silent(program, f"no answer within {patience:g} s") from None
        except OSError as error:
            raise ClusterError(
                f"{program} cannot be run: {error.strerror}",
                where=program,
                fix="see that Slurm's programs are in PATH",
            ) from error
        if done.returncode == 0 or may_fail:
            return done.stdout
        said = read_complaint(done.stderr)
        if _UNREACHABLE.search(done.stderr):
            raise self._note_silent(program, said)
        kind = SubmissionError if program == "sbatch" else ClusterError
        raise kind(
            f"Slurm refuses: {said}",
            where=program,
            fix="choose others of its options (--queue, --account, --qos, --constraint), or ask "
            "for less; `sacctmgr show associations` and `sinfo` tell what you may have",
        )

    def _refuse_silent(self) -> None:
        """Raise at once what a question has just found, so that many jobs wait once."""
        with self._lock:
            if self._silent and time.monotonic() - self._silent[0] < _SILENT_FOR:
                raise self._silent[1]

    def _note_silent(self, program: str, said: str) -> ClusterError:
        error = ClusterError(
            f"Slurm's controller does not answer: {said}",
            where=program,
            fix="nothing to be done here: jobs that run go on, and this asks again by itself",
        )
        if program != _OF_ACCOUNTS:
            with self._lock:
                self._silent = time.monotonic(), error
        return error


def read_complaint(text: str) -> str:
    """Return what one of Slurm's programs complains of, in one line without its own name.

    Parameters
    ----------
    text
        Its stderr.
    """
    lines = [re.sub(r"^\w+: (error|fatal): ", "", line.strip()) for line in text.splitlines()]
    told = [line for line in lines if line]
    return "; ".join(dict.fromkeys(told))[:500] or "it does not say why"


_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)")


def read_time(text: str) -> float | None:
    """Return the seconds that ``1-12:00:00`` says; None for ``UNLIMITED``, and what is no time.

    Parameters
    ----------
    text
        As Slurm writes lengths of time.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S*)", line))


def _read_partition(line: str) -> Partition:
    fields = _fields(line)
    return Partition(
        name=fields["PartitionName"],
        is_default=fields.get("Default") == "YES",
        longest=read_time(fields.get("MaxTime", "")),
        qos=fields.get("QoS", "").replace("N/A", ""),
    )


def _read_node(line: str) -> Node:
    fields = _fields(line)
    kind, gpus = read_gres(fields.get("Gres", ""))
    return Node(
        name=fields["NodeName"],
        state=fields.get("State", ""),
        partitions=tuple(filter(None, fields.get("Partitions", "").split(","))),
        cores=int(fields.get("CPUTot") or 0),
        memory=int(fields.get("RealMemory") or 0),
        gpu_type=kind,
        gpus=gpus,
    )
