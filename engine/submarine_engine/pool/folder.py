"""A pool's folder: every file of it, named once.

It lies beside the jobs, not in one of them: `job retry` runs a controller again as a new job, which
goes on where the one before was ended.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_engine.bundle.model import Bundle
from submarine_engine.clusters import locks
from submarine_engine.clusters.outbox import accept
from submarine_engine.errors import ConfigError, JobNotFoundError, SubmissionError
from submarine_engine.history import (
    JobPaths,
    check_home,
    is_job_id,
    make_private,
    new_job_id,
    read_foreign,
    read_json,
    write_aside,
    write_json,
)
from submarine_engine.job import JobSpec
from submarine_engine.masking import FILE, Masker, masker_of, write_marks
from submarine_engine.secret_values import secret_variables

VERSION = 1
_DAY = 86_400.0
_LARGEST_SCRIPT = 1 << 16
_CONTROLS = re.compile(rb"^ *control\(['\"]([\w-]+)['\"]\)", re.MULTILINE)


class PoolFolder:
    """The files of one pool.

    Parameters
    ----------
    root
        Its folder: ``<home>/pools/<id>``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plan = root / "pool.json"
        self.bundle = root / "bundle"
        self.calls = root / "calls.jsonl"
        self.arguments = root / "arguments"
        self.values = root / "values"
        self.inputs = root / "inputs"
        self.withdrawn = root / "withdrawn"
        self.lock = root / "controller.lock"
        self.giver = root / "giver.lock"
        self.job = root / "job.json"

    @property
    def home(self) -> Path:
        """Where the jobs are kept."""
        return self.root.parent.parent

    @classmethod
    def new(
        cls,
        home: Path,
        plan: Mapping[str, Any],
        spec: JobSpec,
        bundle: Bundle,
        former: PoolFolder | None = None,
    ) -> PoolFolder:
        """Make the folder of a new pool.

        Parameters
        ----------
        home
            Where the jobs are kept.
        plan
            What the controller has to know, as `read` gives it back.
        spec
            The workers'.
        bundle
            What they run.
        former
            The pool that this one runs again; what it keeps secret stays so.

        Raises
        ------
        SubmissionError
            The disk is full, or the folder cannot be written; or a secret, or the webhook, has no
            value.
        ConfigError
            As `check_home`.
        """
        check_home(home)
        secrets = secret_variables(spec)
        spec = accept(spec, home)
        folder = cls(home / "pools" / new_job_id())
        try:
            make_private(folder.root)
            with suppress(OSError):
                remove_left(home)
            marked = former.root if former else None
            write_marks(folder.root, (*secrets.items(), *bundle.secrets), marked)
            bundle.write(folder.bundle)
            # A controller is without GPUs, so it sees none: its workers see those that we see.
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            told = {**plan, "version": VERSION, "spec": spec.to_json(), "visible": visible}
            write_json(folder.plan, told)
        except (OSError, ValueError) as error:
            raise SubmissionError(
                f"the pool's folder cannot be written: {error}",
                where=str(folder.root),
                fix="make room there, or let SUBMARINE_HOME name a folder of yours with room",
            ) from error
        return folder

    @classmethod
    def of(cls, home: Path, pool: str) -> PoolFolder:
        """Return the folder of the pool of that id, where the jobs are kept in `home`.

        Raises
        ------
        JobNotFoundError
            It is no id, or there is no such pool.
        """
        folder = cls(home / "pools" / pool)
        if not is_job_id(pool) or not folder.plan.is_file():
            raise JobNotFoundError(f"there is no pool {pool!r} in {home}")
        return folder

    @classmethod
    def of_job(cls, home: Path, job_id: str) -> PoolFolder | None:
        """Return the folder of the pool that the job `job_id` of `home` runs; None for no pool.

        Its script says so from its first moment on, that of a `job retry` too.
        """
        with suppress(OSError, JobNotFoundError):
            script = read_foreign(JobPaths(home, job_id).bundle / "script.py", _LARGEST_SCRIPT)
            if found := _CONTROLS.search(script):
                return cls.of(home, found[1].decode())
        return None

    @property
    def job_id(self) -> str:
        """The job that runs the pool, or ran it last; empty before there is one."""
        with suppress(OSError, ValueError, AttributeError):  # of one pool that is damaged
            return str((read_json(self.job) or {}).get("id", ""))
        return ""

    def note_job(self, job_id: str) -> None:
        """Note that the job `job_id` runs the pool, in place of any before it."""
        write_json(self.job, {"id": job_id})

    def again(self, more: Mapping[str, Any]) -> PoolFolder:
        """Make the folder of a new pool of the same workers.

        Parameters
        ----------
        more
            What its plan has besides this one's.

        Raises
        ------
        SubmissionError, JobNotFoundError
            As `new` and `read`.
        """
        plan = self.read()
        spec = JobSpec.from_json(plan.pop("spec"))
        return self.new(self.home, {**plan, **more}, spec, Bundle.read(self.bundle), self)

    @property
    def masker(self) -> Masker | None:
        """What masks the secrets of its workers; None where they have none."""
        return masker_of(self.root)

    def hand_on_marks(self, job_id: str) -> None:
        """Let the job `job_id` of the pool know the secrets again, and with it the workers' jobs.

        Raises
        ------
        OSError
            They cannot be written.
        """
        with suppress(FileNotFoundError):
            write_aside(JobPaths(self.home, job_id).root / FILE, (self.root / FILE).read_bytes())

    def _check(self) -> None:
        """Refuse a folder that somebody else has put there, or may change."""
        try:
            found = self.root.lstat()
        except OSError:  # it is gone, which is said in other words
            return
        # A link may lead anywhere, whoever may write there.
        own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        if not own or found.st_mode & 0o022:
            raise ConfigError(
                "the pool's folder is not this user's alone: what lies there would run as you",
                where=str(self.root),
                fix="remove it where it is not yours; else: chmod 700",
            )

    def read(self) -> dict[str, Any]:
        """Return the plan.

        Raises
        ------
        JobNotFoundError
            It is gone, or of another release.
        ConfigError
            Somebody else may change it: what is loaded from it is code.
        """
        check_home(self.home)
        self._check()
        try:
            plan = read_json(self.plan)
        except (OSError, json.JSONDecodeError) as error:
            raise JobNotFoundError(f"the pool {self.root} cannot be read: {error}") from error
        if not isinstance(plan, dict) or plan.get("version") != VERSION:
            raise JobNotFoundError(
                f"the pool's plan {self.plan} is gone, or of another release",
                fix="run it again from its cell",
            )
        return plan


def remove_left(home: Path) -> None:
    """Remove the pools whose jobs were removed, or that never had one; once a day at most.

    Parameters
    ----------
    home
        Where the jobs are kept.

    Raises
    ------
    OSError
        It cannot be looked at.
    """
    pools, now = home / "pools", time.time()
    looked = pools / "looked"
    with suppress(FileNotFoundError):
        if 0 <= now - looked.stat().st_mtime < _DAY:
            return
    looked.touch(mode=0o600)
    left, formers = list[Path](), set[object]()
    for root in pools.iterdir():
        if not is_job_id(root.name) or root.is_symlink():
            continue
        if _is_left(root, home, now):
            left.append(root)
        else:  # what was run again still has the values of the one before
            formers.add(_read_object(root / "pool.json").get("former"))
    for root in left:
        if root.name not in formers:
            shutil.rmtree(root, ignore_errors=True)


def _is_left(root: Path, home: Path, now: float) -> bool:
    """Return whether a pool is a day old, and nobody is about to run it or can find it again."""
    if now - root.stat().st_mtime < _DAY:
        return False
    noted = _read_object(root / "sweep.json").get("jobs")
    jobs = [_read_object(root / "job.json").get("id"), *(noted if isinstance(noted, list) else ())]
    if any(isinstance(one, str) and (home / "jobs" / one).exists() for one in jobs if one):
        return False
    return all(locks.is_free(root / name) for name in ("controller.lock", "giver.lock"))


def _read_object(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        return read_json(path) or {}
    return {}
