"""A machine whose GPUs several users share: one folder that root has made, and what lies in it.

``policy.toml`` says what users may have (`policy`), ``leases`` who holds what (`leases`),
``waiting`` who waits (`turns`). Root alone may write the folder itself; below, members of one group
may make files, and nobody may touch another's. Without that folder each user's queue is their own.
"""

from __future__ import annotations

import grp
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters.local.leases import VARIABLE, Lease, SharedLeases, machine_folder
from submarine_engine.clusters.local.policy import TEMPLATE, Policy, read_policy
from submarine_engine.clusters.local.turns import Turns, Waiter
from submarine_engine.clusters.machine import user_name_of
from submarine_engine.errors import ClusterError, ConfigError, SubmissionError

if TYPE_CHECKING:
    from submarine_engine.job import JobSpec

GROUP = "gpus"

_OPEN = 0o3770
"""Of what users write to: nobody but the owner removes a file, and the group may read it."""
_FRESH = 1.0  # seconds: each turn of a queue asks for it, and root changes it seldom


class SharedMachine:
    """A machine that `setup` has made a shared one.

    Parameters
    ----------
    folder
        The machine's folder.

    Raises
    ------
    ConfigError
        Somebody but root may change what is in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.leases_folder = folder / "leases"
        self.waiting_folder = folder / "waiting"
        self.policy_path = folder / "policy.toml"
        self._policy: tuple[float, Policy] | None = None
        _check_owned(folder, 0o022, "755")
        for below in (self.leases_folder, self.waiting_folder):
            if not stat.S_IMODE(_check_owned(below, 0o002, "3770").st_mode) & stat.S_ISVTX:
                raise _unsound(below, "others may remove what one user has put there", "3770")

    @property
    def group(self) -> str:
        """The group whose members share the machine."""
        number = self.leases_folder.stat().st_gid
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return str(number)

    @property
    def is_member(self) -> bool:
        """Whether this process's user may have GPUs."""
        return os.access(self.leases_folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=True)

    def policy(self) -> Policy:
        """Return what users may have; raises as `read_policy` does."""
        if self._policy is None or time.monotonic() - self._policy[0] > _FRESH:
            self._policy = time.monotonic(), read_policy(self.policy_path)
        return self._policy[1]

    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse a job that the machine's owner does not allow; return it with the limits.

        Parameters
        ----------
        spec
            What is asked for; without GPUs it may be any user's.

        Raises
        ------
        SubmissionError
            Its user does not belong to the group.
        ResourcesError, UnsupportedError, ConfigError
            As `Policy.check` and `read_policy`.
        """
        if spec.gpus and not self.is_member:
            user = user_name_of(os.geteuid())
            raise SubmissionError(
                f"the GPUs of this machine are shared by the group {self.group!r}, and {user} is "
                "no member of it",
                where=str(self.folder),
                fix=f"ask who owns the machine for `usermod -aG {self.group} {user}`, then log in "
                "anew; without a GPU the job runs as it is",
            )
        return self.policy().check(spec, str(self.policy_path))

    def leases(self, own: Path, home: Path) -> SharedLeases:
        """Return the machine's leases, as a user's queue takes them.

        Parameters
        ----------
        own
            The folder of leases that this user had before the machine was shared.
        home
            Where this user's jobs are kept.
        """
        return SharedLeases(self.leases_folder, own, home)

    def turns(self, own: Path, home: Path) -> Turns:
        """Return who waits, for a user's queue; raises as `policy` does.

        Parameters
        ----------
        own
            The folder of the user's queue, which notes what the user was given.
        home
            Where this user's jobs are kept.
        """
        return Turns(self.waiting_folder, own / "served", self.policy(), home)

    def held(self) -> list[Lease]:
        """Return the leases that are held."""
        nowhere = self.folder / "none"
        found = SharedLeases(self.leases_folder, nowhere, nowhere).look()
        return sorted(lease for lease in found if lease.held)

    def waiting(self) -> list[Waiter]:
        """Return who waits."""
        return self.turns(self.folder, self.folder).others()

    def members(self) -> list[str]:
        """Return who may have GPUs, by the group's list."""
        with suppress(KeyError):
            return sorted(grp.getgrnam(self.group).gr_mem)
        return []


def _check_owned(path: Path, forbidden: int, mode: str) -> os.stat_result:
    seen = path.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != 0 or seen.st_mode & forbidden:
        raise _unsound(path, "others than root may change it", mode)
    return seen


def _unsound(path: Path, why: str, mode: str) -> ConfigError:
    return ConfigError(
        f"the folder in which this machine's users share its GPUs cannot be trusted: {why}",
        where=str(path),
        fix=f"root looks at it, then `submarine machine setup`, which makes it root's, {mode}",
    )


_known: tuple[Path, tuple[int, ...], SharedMachine] | None = None


def shared_machine() -> SharedMachine | None:
    """Return this machine as its users share it; None where nobody has set that up.

    Raises
    ------
    ConfigError
        As `SharedMachine`.
    """
    global _known  # noqa: PLW0603 - each look for a GPU comes here
    folder = machine_folder()
    try:
        seen = (folder / "leases").lstat(), folder.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    # Each lease changes the folder's times, and not what is checked of it.
    version = tuple(n for one in seen for n in (one.st_ino, one.st_mode, one.st_uid, one.st_gid))
    if _known is None or _known[:2] != (folder, version):
        _known = folder, version, SharedMachine(folder)
    return _known[2]


def setup(group: str = GROUP, folder: Path | None = None) -> SharedMachine:
    """Make this a machine whose users share its GPUs; once more, it mends what is not right.

    Parameters
    ----------
    group
        Whose members may have GPUs. It has to be there.
    folder
        Where; see `machine_folder`.

    Raises
    ------
    ClusterError
        This process's user is not root.
    ConfigError
        There is no such group, or something else lies there.
    """
    folder = folder or machine_folder()
    if os.geteuid() != 0:
        raise ClusterError(
            "only root can set up a machine for several users",
            where=str(folder),
            fix="sudo submarine machine setup",
        )
    try:
        number = grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigError(
            f"this machine has no group {group!r}",
            where="--group",
            fix=f"groupadd {group}, and usermod -aG {group} USER for each who may have GPUs",
        ) from None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        _make(folder, 0o755, 0)
        for name in ("leases", "waiting"):
            _make(folder / name, _OPEN, number)
        policy = folder / "policy.toml"
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(policy, flags, 0o644)
            try:
                os.write(descriptor, TEMPLATE.encode())
                os.fchmod(descriptor, 0o644)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise ConfigError(
            f"the machine's folder cannot be made: {error.strerror}",
            where=str(error.filename or folder),
            fix=f"make room there, or let {VARIABLE} name another folder for all users",
        ) from error
    machine = SharedMachine(folder)
    machine.policy()
    return machine


def _make(folder: Path, mode: int, group: int) -> None:
    """Make a folder, or give the one that is there its owner and mode back."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(folder, flags)
    try:
        os.fchown(descriptor, 0, group)
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
