"""Job records: every file of a job, named once.

A job's folder is its record: whoever may read it can explain, follow and stop the job, from any
process. Folders are the owner's alone (0700) and files too (0600). A file that is replaced is
written aside and renamed, so that a reader never sees half of one; ``events.jsonl`` and the logs
are only ever appended to.
"""

from __future__ import annotations

import calendar
import errno
import json
import math
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from submarine_engine.errors import ConfigError, JobNotFoundError

RECORD_VERSION = 1

_JOB_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z2-7]{5}")
_SECOND = len("20260101-000000")
_TASK_ID = re.compile(r"[a-z]{1,16}-[0-9]{1,6}")
_LONGEST_SUMMARY = 1 << 16
LARGEST = 1 << 28
"""Bytes of a record, or of what is new among a job's events: no file of ours is so large."""
LARGEST_OUTCOME = 16 * 1024 * 1024
"""Bytes of an ``outcome.json`` that are read."""
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def default_home() -> Path:
    """Return where jobs are kept: the setting `home`, of which ``$SUBMARINE_HOME`` comes first.

    Raises
    ------
    ConfigError
        The configuration's file cannot be used.
    """
    if home := os.environ.get("SUBMARINE_HOME"):
        return Path(home).expanduser().absolute()
    from submarine_engine.config import load_config  # noqa: PLC0415 - a job's processes need none

    return Path(load_config().value("home"))


def home_id(home: Path) -> str:
    """Return what tells a home from all others, on whichever machine it is seen.

    Parameters
    ----------
    home
        As of `default_home`; made where it is missing.
    """
    path = home / "id"
    with suppress(FileNotFoundError):
        return path.read_text().strip()
    make_private(home)
    write_first(path, os.urandom(16).hex().encode())
    return path.read_text().strip()


def shown_user() -> str | None:
    """Return whose jobs are shown: the setting `user`, of which ``$SUBMARINE_USER`` comes first.

    Returns
    -------
    str or None
        None for everybody's.

    Raises
    ------
    ConfigError
        As `default_home`.
    """
    if user := os.environ.get("SUBMARINE_USER"):
        return user
    from submarine_engine.config import load_config  # noqa: PLC0415 - as above

    named: str | None = load_config().value("user")
    return named


def job_user(home: Path, job_id: str) -> str | None:
    """Return who submitted a job, by its record; None where nobody can tell.

    Parameters
    ----------
    home
        Where jobs are kept.
    job_id
        The job's id.
    """
    try:
        record = read_json(JobPaths(home, job_id).record)
    except (OSError, ValueError):
        return None
    user = record.get("user") if isinstance(record, dict) else None
    return user if isinstance(user, str) else None


def new_job_id() -> str:
    """Make a job id: UTC date, time and five random letters, so that ids sort by age in seconds."""
    tail = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in os.urandom(5))
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + tail


def is_job_id(text: str) -> bool:
    """Return whether a text is of the form of a job id.

    Parameters
    ----------
    text
        Any.
    """
    return _JOB_ID.fullmatch(text) is not None


def submitted_at(job_id: str) -> float:
    """Return when a job was submitted, on the wall clock, to the second, as its id says.

    Parameters
    ----------
    job_id
        The job's id.
    """
    try:
        return float(calendar.timegm(time.strptime(job_id[:_SECOND], "%Y%m%d-%H%M%S")))
    except ValueError:
        return 0.0


_STREAMS = (
    "stdout", "stderr", "displays", "events", "returns", "metrics", "reported", "startup",
)  # fmt: skip


class TaskPaths:
    """The files of one task, written by the runtime inside its container.

    Parameters
    ----------
    root
        The task's folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plan = root / "task.json"
        self.stdout = root / "stdout"
        self.stderr = root / "stderr"
        self.displays = root / "displays"
        self.moments = root / "moments"
        self.origins = root / ".origins.json"
        self.progress = root / "progress.json"
        self.metrics = root / "metrics"
        self.reported = root / "reported"
        self.startup = root / "startup"
        self.outcome = root / "outcome.json"
        self.inside = root / "inside.json"
        self.inside_asked = root / "inside-asked.json"
        self.results = root / "results"
        self.post_mortem = self.results / "post-mortem.json"
        self.logdir = root / "logdir"
        self.artifacts = root / "artifacts"
        self.artifacts_note = root / "artifacts.json"

    def log(self, stream: str) -> Path:
        """Return the path of a file by its name: ``stdout``, ``metrics``, ``events`` (packed) ….

        Parameters
        ----------
        stream
            Its name.
        """
        if stream not in _STREAMS:
            raise ValueError(stream)
        return self.root / stream


class JobPaths:
    """The files of one job.

    Parameters
    ----------
    home
        Where all jobs are kept, see `default_home`.
    job_id
        Checked to be one: a job id never leads out of `home`.

    Raises
    ------
    JobNotFoundError
        `job_id` is not of the form of a job id.
    """

    def __init__(self, home: Path, job_id: str) -> None:
        if not is_job_id(job_id):
            raise JobNotFoundError(f"{job_id!r} is not a job id", fix="see `submarine job list`")
        self.job_id = job_id
        self.root = home / "jobs" / job_id
        self.record = self.root / "record.json"
        self.status = self.root / "status.json"
        self.events = self.root / "events.jsonl"
        self.bundle = self.root / "bundle"
        self.cancel = self.root / "cancel.json"
        self.lock = self.root / "supervisor.lock"
        self.supervisor_log = self.root / "supervisor.log"
        self.results_key = self.root / "results.key"
        self.answer = self.root / "answer.json"
        self.stacks_asked = self.root / "stacks-asked.json"
        self.stacks = self.root / "stacks.json"
        self.save_lock = self.root / "save.lock"
        self.saved = self.root / "saved"
        self.checkpoints = self.root / "checkpoints"  # of a job that names no place for them
        self.checkpoint_kept = self.root / "checkpoint-kept"  # there once any attempt has kept one

    def task(self, task_id: str) -> TaskPaths:
        """Return the files of the task ``ROLE-NUMBER``.

        Parameters
        ----------
        task_id
            Which, as ``worker-0``.
        """
        if not _TASK_ID.fullmatch(task_id):
            raise ValueError(task_id)
        return TaskPaths(self.root / "tasks" / task_id)


def write_aside(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write `data` to `path` under a temporary name, owner-only, then rename it into place.

    Parameters
    ----------
    path
        The file.
    data
        All that it is to hold.

    Raises
    ------
    OSError
        The disk is full or the folder is gone; nothing of a former `path` is lost then.
    """
    # Not by `tempfile`: every supervisor comes here, and that import is slower than its start.
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.writelines([data] if isinstance(data, bytes) else data)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_first(path: Path, data: bytes) -> bool:
    """Write `data` to `path` as `write_aside` does, where nothing is there yet.

    All that make one at once, in whichever process or thread, read the same afterwards.

    Parameters
    ----------
    path
        The file.
    data
        All that it is to hold.

    Returns
    -------
    bool
        Whether it was written; else somebody was quicker.

    Raises
    ------
    OSError
        As `write_aside`.
    """
    aside = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    write_aside(aside, data)
    try:
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        aside.unlink()
    return True


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write `data` as JSON by `write_aside`.

    Parameters
    ----------
    path
        The file.
    data
        An object.
    """
    write_aside(path, json.dumps(data, ensure_ascii=False).encode())


class SpoiltFileError(OSError, ValueError):
    """A file is there, and holds nothing that we have written."""


def open_file(path: str | os.PathLike[str], *, links: bool = True) -> int:
    """Open a file to read it; the job's own code can have put something else in its place.

    No pipe is waited for, and no device read.

    Parameters
    ----------
    path
        The file.
    links
        Whether it may be a link to one.

    Returns
    -------
    int
        The descriptor.

    Raises
    ------
    FileNotFoundError
        There is nothing.
    OSError
        It cannot be opened, or is no file.
    """
    follow = 0 if links else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | follow)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no file", str(path))


def read_whole(path: Path, offset: int = 0) -> bytes:
    """Read a file of ours from `offset` on.

    Parameters
    ----------
    path
        The file.
    offset
        In bytes.

    Raises
    ------
    OSError
        As `open_file`; or it is larger than any that we write.
    """
    with open(open_file(path), "rb") as file:
        if os.fstat(file.fileno()).st_size - offset > LARGEST:
            raise SpoiltFileError(errno.EFBIG, "it is larger than any file of ours", str(path))
        file.seek(offset)
        return file.read(LARGEST)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where the file is not there.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    OSError
        It cannot be read, see `read_whole`.
    SpoiltFileError
        It holds no JSON object; that is an `OSError` and a `ValueError`.
    """
    try:
        return json_object(read_whole(path), str(path))
    except FileNotFoundError:
        return None


def json_object(text: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object that a file holds.

    Parameters
    ----------
    text
        What was read.
    where
        The file, for the error.

    Raises
    ------
    SpoiltFileError
        It is none.
    """
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpoiltFileError(errno.EBADMSG, f"it is no JSON: {error}", where) from error
    if not isinstance(data, dict):
        raise SpoiltFileError(errno.EBADMSG, "it is no JSON object", where)
    return data


def read_foreign(path: Path, most: int) -> bytes:
    """Read the first bytes of a file that a job's code can put in its place, or something else.

    No link is followed, and no pipe waited for.

    Parameters
    ----------
    path
        The file.
    most
        How many bytes.

    Raises
    ------
    FileNotFoundError
        There is nothing.
    OSError
        It cannot be read, or is no file.
    """
    with open(open_file(path, links=False), "rb") as file:
        return file.read(most)


SPOILT = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
)
"""What reading such a file as JSON may raise, whatever somebody has written there."""


def foreign_text(value: object, most: int) -> str:
    """Return the first characters of a text from such a file.

    Parameters
    ----------
    value
        What the file has there.
    most
        How many characters.

    Raises
    ------
    TypeError
        It is no text.
    """
    if not isinstance(value, str):
        raise TypeError("it is no text")
    return value[:most]


def finite(value: Any) -> float:  # noqa: ANN401 - of a file
    """Return a number from such a file.

    Parameters
    ----------
    value
        What the file has there.

    Raises
    ------
    ValueError, TypeError, OverflowError
        It is none, or not finite.
    """
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("it is not finite")
    return number


def make_private(path: Path) -> Path:
    """Make the folder `path` and those of its parents that are missing, for the owner alone.

    Parameters
    ----------
    path
        The folder.
    """
    try:
        path.mkdir(exist_ok=True, mode=0o700)
    except FileNotFoundError:
        # pathlib's own `parents=True` makes them for everybody.
        make_private(path.parent)
        path.mkdir(exist_ok=True, mode=0o700)
    return path


def check_home(home: Path) -> None:
    """Refuse a home that somebody else may change: what is loaded from it is code.

    Parameters
    ----------
    home
        Where jobs are kept.

    Raises
    ------
    ConfigError
        It belongs to another user, or others may write in it.
    """
    try:
        found = home.stat()
    except FileNotFoundError:  # it will be made, for the owner alone
        return
    if found.st_uid != os.getuid():
        raise ConfigError(
            f"the folder of the jobs belongs to another user ({_user(found.st_uid)})",
            where=str(home),
            fix="let SUBMARINE_HOME name a folder of yours",
        )
    if found.st_mode & 0o022:
        raise ConfigError(
            "others may write in the folder of the jobs, and so run code as you",
            where=str(home),
            fix=f"see whether all in it is yours, then: chmod 700 '{home}'",
        )


def _user(uid: int) -> str:
    import pwd  # noqa: PLC0415 - only to say it

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def job_ids(home: Path) -> Iterator[str]:
    """Yield the ids of all jobs on record, newest first; those of one second in any order.

    Parameters
    ----------
    home
        Where jobs are kept.

    Raises
    ------
    ConfigError
        As `check_home`.
    """
    check_home(home)
    try:
        names = sorted(os.listdir(home / "jobs"), reverse=True)  # noqa: PTH208 - 10,000 names
    except FileNotFoundError:
        return
    yield from (name for name in names if is_job_id(name))


def of_one_second(ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield what `job_ids` yields, second by second.

    Parameters
    ----------
    ids
        What that yields.
    """
    for _, group in groupby(ids, lambda job_id: job_id[:_SECOND]):
        yield list(group)


def find_job(home: Path, wanted: str, user: str | None = None) -> JobPaths:
    """Find a job by id, by the end of its id, or by name (the newest of that name).

    What works for another job is found by its id alone.

    Parameters
    ----------
    home
        Where jobs are kept.
    wanted
        An id, the end of one, or a name.
    user
        Only this one's jobs are looked at; everybody's where None.

    Raises
    ------
    JobNotFoundError
        No job, or several by that ending.
    """
    ids = list(job_ids(home))
    ending = [job_id for job_id in ids if wanted and job_id.endswith(wanted)]
    if user is not None:
        ending = [job_id for job_id in ending if job_user(home, job_id) == user]
    if wanted in ending:
        return JobPaths(home, wanted)
    if len(ending) == 1:
        return JobPaths(home, ending[0])
    if len(ending) > 1:
        raise JobNotFoundError(
            f"{len(ending)} jobs have an id that ends in {wanted!r}",
            fix=f"say more of it: {', '.join(ending[:5])}",
        )
    for group in of_one_second(_perhaps_named(home, ids, wanted)):
        named = []
        for job_id in group:
            with suppress(*SPOILT):  # that of another job is none of this one's business
                record = read_json(JobPaths(home, job_id).record)
                # Workers have the name of the job that they work for, and are newer.
                if not record or record["spec"].get("parent"):
                    continue
                if record["spec"]["name"] == wanted and user in (None, record.get("user")):
                    named.append((finite(record["created"][0]), job_id))
        if named:
            return JobPaths(home, max(named)[1])
    raise JobNotFoundError(
        f"no job {wanted!r} is on record in {home}", fix="see `submarine job list`"
    )


def _perhaps_named(home: Path, ids: Iterable[str], name: str) -> Iterator[str]:
    """Yield the jobs whose summary holds a name's text; that it is their name is to be checked.

    Ten thousand jobs are gone through: a system call less counts, and no summary is parsed.
    """
    text = json.dumps(name, ensure_ascii=False).encode(errors="replace")
    for job_id in ids:
        try:
            descriptor = open_file(f"{home}/jobs/{job_id}/status.json")
        except OSError:  # being made, or being deleted
            continue
        try:
            if text in os.read(descriptor, _LONGEST_SUMMARY):
                yield job_id
        finally:
            os.close(descriptor)
