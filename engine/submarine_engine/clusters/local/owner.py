"""What root does with its users' jobs on a machine that they share: always as the user.

A user's files may say whatever that user likes. So who looks into them, or ends a job, is a process
that has given root's rights up before it opens the first of them.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from submarine_engine import records, usage
from submarine_engine.clusters.local import cluster
from submarine_engine.clusters.local.shared import SharedMachine, shared_machine
from submarine_engine.errors import ClusterError, ConfigError, JobNotFoundError, SubmarineError
from submarine_engine.usage import GpuTime, Usage

_MOST = 1 << 24
_WHO = "ended by the owner of this machine"
_OF_HOMES = ("jobs", "hosts", "cache")


class Account(NamedTuple):
    """A user of the machine, as its list of users has them."""

    name: str
    uid: int
    gid: int
    home: Path


def account(name: str) -> Account:
    """Return a user by name, or by number.

    Raises
    ------
    ConfigError
        There is none.
    """
    try:
        found = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        if name.isdecimal() and 0 < int(name) < 1 << 31:  # of a directory service that is away
            return Account(f"user {name}", int(name), int(name), Path("/nonexistent"))
        raise ConfigError(
            f"this machine has no user {name!r}", fix="see `submarine machine list`"
        ) from None
    return Account(found.pw_name, found.pw_uid, found.pw_gid, Path(found.pw_dir))


def owned_machine() -> SharedMachine:
    """Return the machine, for root.

    Raises
    ------
    ClusterError
        It is not shared, or this process's user is not root.
    """
    machine = found_machine()
    if os.geteuid() != 0:
        raise ClusterError(
            "only root may do that: the jobs are other users'",
            where=str(machine.folder),
            fix="sudo submarine machine …; your own jobs end by `submarine job cancel JOB`",
        )
    return machine


def found_machine() -> SharedMachine:
    """Return the machine as its users share it.

    Raises
    ------
    ClusterError
        Nobody has set it up.
    """
    machine = shared_machine()
    if machine is None:
        raise ClusterError(
            "this machine is not set up to be shared: each user's jobs have a queue of their own",
            fix="sudo submarine machine setup",
        )
    return machine


def homes(machine: SharedMachine, who: Account) -> list[Path]:
    """Return where a user's jobs may be: where his leases and his queues say, and as is usual.

    Parameters
    ----------
    machine
        The machine that they share.
    who
        The user.
    """
    told = [
        lease.holder_notes().get("home", "") for lease in machine.held() if lease.uid == who.uid
    ]
    told += [waiter.home for waiter in machine.waiting() if waiter.uid == who.uid]
    usual = who.home / ".local" / "share" / "submarine"
    return list(dict.fromkeys([*(Path(one) for one in told if one.startswith("/")), usual]))


def end_job(user: str, job: str, reason: str) -> tuple[str, bool]:
    """Ask somebody's job to end, with a reason that its user reads.

    Parameters
    ----------
    job
        Its id, the end of its id, or its name.
    reason
        One line.

    Returns
    -------
    tuple
        The job's id, and whether it was not over.

    Raises
    ------
    JobNotFoundError
        The user has no such job.
    ClusterError, ConfigError
        As `owned_machine` and `account`.
    """
    machine, who = owned_machine(), account(user)
    for home in homes(machine, who):
        with suppress(JobNotFoundError):
            job_id, asked = _as(who, home, partial(_end, job, f"{_WHO}: {reason}"))
            return job_id, asked
    raise JobNotFoundError(
        f"{who.name} has no job {job!r} on record",
        fix="see `submarine machine list`; the job's id is in its first column",
    )


def _end(wanted: str, reason: str) -> tuple[str, bool]:
    found = records.open_job(wanted)
    asked = not found.done()
    if asked:
        found.cluster.cancel(found.id, reason)
    return found.id, asked


def all_usage(since: float | None) -> Iterator[Usage]:
    """Yield what each of the machine's users has had.

    Parameters
    ----------
    since
        As `usage.usage` takes it.

    Raises
    ------
    ClusterError
        As `owned_machine`.
    """
    machine = owned_machine()
    names = set(machine.members())
    uids = {one.uid for one in machine.held()} | {one.uid for one in machine.waiting()}
    found = []
    for name in names:
        with suppress(ConfigError):
            found.append(account(name))
    known = {one.uid for one in found}
    found += [account(str(uid)) for uid in uids - known if uid]
    for who in sorted(found, key=lambda one: one.name):
        spent = Usage(of=who.name, jobs=0, time=GpuTime())
        for home in homes(machine, who):
            for jobs, times in _as(who, home, partial(_usage_of, home, since)):
                time = spent.time + GpuTime(*times)
                spent = Usage(of=who.name, jobs=spent.jobs + jobs, time=time)
        yield spent


def _usage_of(home: Path, since: float | None) -> list[tuple[int, list[float]]]:
    if not any((home / name).is_dir() for name in _OF_HOMES):
        return []
    found = usage.usage("cluster", since, home)
    return [
        (one.jobs, [one.time.queued, one.time.held, one.time.busy, one.time.idle,
            one.time.measured]) for one in found
    ]  # fmt: skip


def _as(who: Account, home: Path, function: Callable[[], Any]) -> Any:  # noqa: ANN401 - as it returns
    """Call a function as another user, in a process of its own; return what it returns, as JSON.

    Raises
    ------
    JobNotFoundError, ClusterError
        As it raises.
    """
    loaded = cluster.LocalCluster  # that user may not be able to read root's Python
    assert loaded is not None  # noqa: S101 - likewise
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        _drop_and_call(who, home, function, writer)
    os.close(writer)
    with open(reader, "rb") as told:  # noqa: PTH123 - a descriptor
        text = told.read(_MOST)
    os.waitpid(pid, 0)
    try:
        came: dict[str, Any] = json.loads(text)
    except ValueError:
        came = {"error": "its process was ended", "missing": False}
    if "error" in came:
        kind = JobNotFoundError if came["missing"] else ClusterError
        raise kind(f"as {who.name}: {came['error']}", where=str(home))
    return came["result"]


def _drop_and_call(who: Account, home: Path, function: Callable[[], Any], writer: int) -> None:
    """Give root's rights up, for good, then call; never returns."""
    told: dict[str, Any] = {"error": "root's rights could not be given up", "missing": False}
    try:
        groups = os.getgrouplist(who.name, who.gid) if who.home != Path("/nonexistent") else []
        os.setgroups(groups)
        os.setresgid(who.gid, who.gid, who.gid)
        os.setresuid(who.uid, who.uid, who.uid)
        for name in [name for name in os.environ if name.startswith(("SUBMARINE_", "XDG_"))]:
            if name != "SUBMARINE_MACHINE_FOLDER":
                del os.environ[name]
        os.environ.update(HOME=str(who.home), SUBMARINE_HOME=str(home))
        os.chdir("/")
        told = {"result": function()}
    except JobNotFoundError as error:
        told = {"error": error.what, "missing": True}
    except SubmarineError as error:
        told = {"error": error.what, "missing": False}
    except BaseException as error:  # noqa: BLE001 - the process ends here, whatever it is
        told = {"error": f"{type(error).__name__}: {error}", "missing": False}
    finally:
        with suppress(OSError):
            data = json.dumps(told).encode()
            while data:
                data = data[os.write(writer, data) :]
        sys.stderr.flush()
        os._exit(0)
