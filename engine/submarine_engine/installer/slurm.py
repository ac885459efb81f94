"""A Slurm of one's own on this machine: real munged, slurmctld and slurmd, on loopback.

What it shares with other such clusters is in `MarkedCluster`.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.history import make_private
from submarine_engine.installer.cluster import READY_IN, Report, sole_process
from submarine_engine.installer.daemons import end_process, own_pids, strings_of
from submarine_engine.installer.marked import MarkedCluster, find_program
from submarine_engine.installer.plan import BLOCK, DEFAULT_COUNT

SLURM_NAME = "slurm"
"""What a cluster is called unless it is given a name."""

_MARK = "SUBMARINE_SLURM_CLUSTER"
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "srun")
_NULL_DEVICE = os.makedev(1, 3)
_LONGEST_SOCKET = 107
_SOCKET_OF_A_JOB = (
    "spool.n99/n99_999999.4294967291"  # that of its batch step, without which it ends
)

# A controller that schedules at once: where one waits at a cell, Slurm's usual pause is long.
_CONF = """\
ClusterName=submarine
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool.%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
ReturnToService=2
KillWait=30
MinJobAge=300
CompleteWait=0
SlurmdParameters=config_overrides
"""


@dataclass(frozen=True, slots=True)
class SlurmPlan:
    """What such a cluster is made of: nodes, GPUs of each, its first port."""

    nodes: int
    gpus: int
    port: int


class SlurmCluster(MarkedCluster[SlurmPlan]):
    """A Slurm of one's own on this machine, see `OwnCluster`.

    Parameters
    ----------
    home, name
        As `OwnCluster` has them; the path of the folder has to be short enough for sockets.
    """

    kind = SLURM_NAME
    mark = _MARK
    server = "slurmctld"
    plan_type = SlurmPlan

    def __init__(self, home: Path | None = None, name: str | None = None) -> None:
        super().__init__(home, name)
        self.conf = self.root / "slurm.conf"
        self._socket = self.root / "munge.socket"
        for socket in (self._socket, self.root / _SOCKET_OF_A_JOB):
            if len(bytes(socket)) <= _LONGEST_SOCKET:
                continue
            raise CommandError(
                f"the path of its socket is longer than {_LONGEST_SOCKET} bytes",
                where=str(socket),
                fix="let SUBMARINE_HOME name a folder of a shorter path",
            )

    def environment(self) -> dict[str, str]:
        """Return the variables that let programs find it."""
        return {"SLURM_CONF": str(self.conf)}

    def up(
        self,
        nodes: int | None = None,
        gpus: int | None = None,
        *,
        report: Report = str,
        timeout: float = READY_IN,
    ) -> SlurmPlan:
        """Start it, or what of it is not up; return when a job could run.

        Parameters
        ----------
        nodes, gpus
            How many, and the GPUs of each; one with four, unless given or there already.
        report
            Is told in words what goes on.
        timeout
            Seconds to wait for the daemons.

        Raises
        ------
        ClusterError
            A program is missing; the cluster is there, of another shape; a daemon ended by itself,
            or was not ready in time.
        """
        _check_machine()
        with sole_process(self.layout.lock):
            plan = self.plan
            if plan is None:
                self._end()
            elif {nodes, plan.nodes, None} != {plan.nodes, None} or gpus not in {None, plan.gpus}:
                raise ClusterError(
                    f"the cluster {self.name!r} is there already, with {plan.nodes} nodes of "
                    f"{plan.gpus} GPUs",
                    where=str(self.root),
                    fix=f"end it first (`submarine cluster down --name {self.name}`), or give the "
                    "new one a --name",
                )
            with self._hold_ports(plan.port if plan else None) as port:
                plan = replace(plan, port=port) if plan else _plan(nodes, gpus, port)
                self._write(plan)
                self._start(plan, report)
                self._wait(plan, time.monotonic() + timeout)  # until they have their ports
        return plan

    def problems(self) -> list[str]:
        """Return what is missing before a job could run, in words; empty when it could."""
        ended = [f"{one.name} does not run" for one in self.daemons() if one.pid is None]
        return ended or self._not_ready()

    # What it does.

    def _write(self, plan: SlurmPlan) -> None:
        """Write its files; written once more they are as they were."""
        for folder in (self.root, self.layout.logs, self.root / "state", self.root / "dev"):
            make_private(folder)
        key = self.root / "munge.key"
        if not key.exists():
            descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(secrets.token_bytes(1024))
        lines = [_CONF.format(user=getpass.getuser(), port=plan.port, root=self.root)]
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
        cores = max(os.cpu_count() or 1, 2 * max(plan.gpus, 4))  # what trains on GPUs wants some
        for number in range(1, plan.nodes + 1):
            make_private(self.root / f"spool.n{number}")
            gres = f"Gres=gpu:{plan.gpus} " if plan.gpus else ""
            lines.append(
                f"NodeName=n{number} NodeHostname=localhost NodeAddr=127.0.0.1 "
                f"Port={plan.port + number} CPUs={cores} RealMemory={memory} {gres}State=UNKNOWN\n"
            )
        lines.append(
            f"PartitionName=main Nodes=n[1-{plan.nodes}] Default=YES MaxTime=INFINITE State=UP\n"
        )
        self.conf.write_text("".join(lines))
        # Slurm counts GPUs by their device files: such a declared one gives and takes nothing.
        for number in range(plan.gpus):
            device = self.root / "dev" / f"nvidia{number}"
            if not device.exists():
                os.mknod(device, 0o600 | stat.S_IFCHR, _NULL_DEVICE)
        last = f"[0-{plan.gpus - 1}]" if plan.gpus > 1 else "0"
        device_line = f"Name=gpu File={self.root}/dev/nvidia{last}\n" if plan.gpus else ""
        (self.root / "gres.conf").write_text(device_line)
        self._write_plan(plan)

    def _start(self, plan: SlurmPlan, report: Report) -> None:
        running = self._running()
        for name in self._names(plan):
            if name in running:
                continue
            report(f"starting {name}")
            with self.layout.log(name).open("ab") as log:
                subprocess.run(  # noqa: S603 - Slurm's own programs
                    # The first is gone at once, and init waits for the daemon, not this process.
                    [_program("setsid"), "--fork", *self._command(name)],
                    env={**os.environ, "SLURM_CONF": str(self.conf), _MARK: str(self.root)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    umask=0o077,
                    check=True,
                )
            if name == "munged":  # who starts before it has no way to sign
                self._until(self._socket.exists, time.monotonic() + READY_IN, "munged")

    def _command(self, name: str) -> list[str]:
        if name == "munged":
            files = {
                "key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid",
                "log-file": "logs/munged.log", "seed-file": "munge.seed",
            }  # fmt: skip
            told = [f"--{option}={self.root / file}" for option, file in files.items()]
            return [_program("munged"), "--foreground", "--force", *told]
        if name == "slurmctld":
            return [_program(name), "-D", "-f", str(self.conf)]
        node = name.removeprefix("slurmd-")
        return [_program("slurmd"), "-D", "-N", node, "-f", str(self.conf)]

    def _wait(self, plan: SlurmPlan, end: float) -> None:
        self._until_running(plan, end)
        self._until(lambda: not self._not_ready(), end, "slurmctld")

    def _not_ready(self) -> list[str]:
        done = self._ask("sinfo", "--noheader", "--Node", "--format=%N %T")
        if done is None:
            return ["the controller does not answer"]
        states = dict(line.split()[:2] for line in done.splitlines() if " " in line)
        good = ("idle", "mixed", "allocated", "completing")
        return [f"node {name} is {state}" for name, state in states.items() if state not in good]

    def _ask(self, *words: str) -> str | None:
        """Return what a program of Slurm's says; None where it fails."""
        environment = {**os.environ, **self.environment()}
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(  # noqa: S603 - Slurm's own programs
                words, env=environment, capture_output=True, text=True, timeout=5, check=False
            )
            return done.stdout if done.returncode == 0 else None
        return None

    def _is_of_a_job(self, pid: int) -> bool:
        told = strings_of(pid, "environ")
        return f"SLURM_CONF={self.conf}" in told and any(
            one.startswith("SLURM_JOB_ID=") for one in told
        )

    def _names(self, plan: SlurmPlan) -> list[str]:
        return ["munged", "slurmctld", *(f"slurmd-n{n}" for n in range(1, plan.nodes + 1))]

    def _running(self) -> dict[str, int]:
        """Return the pids of its daemons by name."""
        found = {}
        for pid in self._marked():
            words = strings_of(pid, "cmdline")
            program = Path(words[0]).name if words else ""
            if program.startswith("slurmd") and "-N" in words:
                found[f"slurmd-{words[words.index('-N') + 1]}"] = pid
            elif program in {"munged", "slurmctld", "slurmctld-wlm"}:
                found[program.removesuffix("-wlm")] = pid
        return found

    def _end(self) -> None:
        """End all processes of it, what its jobs have started first, and remove its files."""
        if "slurmctld" in self._running():
            self._ask("scancel", "--signal=KILL", "--full", "--state=RUNNING", "--user=" + _user())
            self._ask("scancel", "--user=" + _user())
        # The jobs' processes have parents that are daemons: gone, they would be nobody's.
        for ours in (self._is_of_a_job, self._is_ours):
            while found := [pid for pid in own_pids() if ours(pid)]:
                for pid in found:
                    end_process(pid, ours)
        shutil.rmtree(self.root, ignore_errors=True)


def running_conf(home: Path) -> Path | None:
    """Return the configuration of the one Slurm of a home that runs; None where none does.

    Parameters
    ----------
    home
        The folder of Submarine's records.
    """
    cluster = SlurmCluster.running_in(home)
    return None if cluster is None else cluster.conf


def _plan(nodes: int | None, gpus: int | None, port: int) -> SlurmPlan:
    plan = SlurmPlan(1 if nodes is None else nodes, DEFAULT_COUNT if gpus is None else gpus, port)
    if not 1 <= plan.nodes < BLOCK:
        raise CommandError(
            f"a cluster of {plan.nodes} nodes is not possible here",
            where="--nodes",
            fix=f"write 1 to {BLOCK - 1}",
        )
    return plan


def _user() -> str:
    return getpass.getuser()


def _program(name: str) -> str:
    return find_program(
        name, "install Slurm and munge (on Debian as root: apt-get install slurm-wlm munge)"
    )


def _check_machine() -> None:
    for name in _PROGRAMS:
        _program(name)
    if os.geteuid() != 0:
        raise ClusterError(
            "slurmd starts jobs as their users, and its GPUs are device files: only root can that",
            where="submarine cluster up slurm",
            fix="run it as root, for example in a container",
        )


__all__ = ["SLURM_NAME", "SlurmCluster", "SlurmPlan", "running_conf"]
