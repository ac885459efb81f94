"""The model of a running job, brought to the user's path while training goes on.

Who gives it: a function that the training code named, else the last complete checkpoint. Who asks
writes beside the target first, so that a model is there whole or not at all.
"""

from __future__ import annotations

import errno
import json
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from submarine_runtime.saving import ASK

from submarine_engine.clusters import locks
from submarine_engine.clusters.base import Saved
from submarine_engine.clusters.environment import file_address
from submarine_engine.config import load_config
from submarine_engine.errors import SaveError, SubmissionError, UnsupportedError
from submarine_engine.failures import Source
from submarine_engine.history import JobPaths, read_foreign, read_json, write_json
from submarine_engine.job import JobState
from submarine_engine.masking import masker_of
from submarine_engine.outcome import RemoteError, read_error

if TYPE_CHECKING:
    from submarine_engine.lifecycle import JobStatus


# What a task says of its function and of a save, and what is told to who asked for one.


NOTE = "save.json"
"""Written by the runtime into a task's folder as soon as its code has given a function."""

_STATES = ("ready", "saving", "done", "failed")
_MOST_PIECES = 10_000
LARGEST_NOTE = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What ``save.json`` says.

    Parameters
    ----------
    number
        How many saves have begun in the task's process.
    id
        What the asker of the last one calls it; empty where it was a signal.
    began
        When it was written, on the wall clock of the task's machine.
    pieces, sha256
        Bytes of each piece of the archive, and the sum of all of them.
    """

    state: str
    number: int
    id: str = ""
    began: float = 0.0
    pieces: tuple[int, ...] = ()
    sha256: str = ""
    error: RemoteError | None = None


def read_note(data: bytes) -> Note | None:
    """Read what a runtime writes, as the word of a stranger; None where it is something else.

    Parameters
    ----------
    data
        What was read.
    """
    try:
        found: Mapping[str, Any] = json.loads(data)
        sizes = tuple(int(size) for size in found.get("pieces") or ())
        note = Note(
            state=str(found["state"]),
            number=int(found["number"]),
            id=str(found.get("id") or ""),
            began=float(found["at"][0]),
            pieces=sizes,
            sha256=str(found.get("sha256") or ""),
            error=read_error(found.get("error")),
        )
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    wrong = note.state not in _STATES or len(sizes) > _MOST_PIECES or any(n <= 0 for n in sizes)
    return None if wrong else note


def failed(note: Note, job_id: str, task: Path) -> SaveError:
    """Return the error of a function that failed, with its own words at cell and line.

    Parameters
    ----------
    note
        What the task says of its function.
    job_id
        The job's id.
    task
        The task's folder on this machine.
    """
    if note.error is None:
        return SaveError("its function failed and does not say why", job_id=job_id)
    trace = Source.of(task).trace(note.error)
    place = str(trace.frames[-1]) if trace.frames else trace.raised_in
    masker = masker_of(task.parent.parent)
    why = masker.text(trace.summary) if masker else trace.summary
    return SaveError(
        f"the function given to on_save failed: {why}",
        job_id=job_id,
        where=place,
        fix="the job goes on; see what the function does there",
    )


def busy(note: Note, job_id: str) -> SaveError:
    """Return the error of a function that still runs for who asked before.

    Parameters
    ----------
    note
        What the task says of its function.
    job_id
        The job's id.
    """
    since = max(0.0, time.time() - note.began)
    return SaveError(
        f"its function still saves for who asked before, {since:.0f} s ago",
        job_id=job_id,
        fix="ask later; where it never ends, the function hangs",
    )


def hangs(job_id: str) -> SaveError:
    """Return the error of a function that patience has ended with.

    Parameters
    ----------
    job_id
        The job's id.
    """
    return SaveError(
        "the function given to on_save has not returned in time; the job goes on",
        job_id=job_id,
        fix="give it longer: --timeout, or the setting save_patience",
    )


def unheard(job_id: str) -> SaveError:
    """Return the error of a job that has not even begun to save.

    Parameters
    ----------
    job_id
        The job's id.
    """
    return SaveError(
        "the job has not answered in time: its process is stopped, or its native code lets no "
        "other thread run",
        job_id=job_id,
        fix="ask again, or give it longer: --timeout, or the setting save_patience",
    )


def ended(job_id: str) -> SaveError:
    """Return the error of a job that ended first.

    Parameters
    ----------
    job_id
        The job's id.
    """
    return SaveError(
        "the job ended before its model was saved",
        job_id=job_id,
        fix="what it returned and its checkpoints are where they always are",
    )


# The last complete checkpoint of a job, copied while the job may be writing the next one.
#
# What counts as one: an entry of the checkpoint path, a folder or a file; the files of TensorFlow's
# formats (``ckpt-5.index``, ``ckpt-5.data-00000-of-00001``) together. What is written aside (hidden
# names, and such as hold ``tmp`` or end in ``.part``) is none yet. The newest one at rest is taken:
# of which nothing has changed for `REST` seconds, before and while it is copied.


REST = 1.0  # seconds: what is being written changes in it, and a person waits for each
_TRIES = 5  # rests: a checkpoint that changes through all of them is written all the time
_ASIDE = re.compile(
    r"^[._]|^te?mp[-_.]|[-_.]te?mp([-_.]|$)|\.(part|partial|incomplete|lock)$|~$", re.IGNORECASE
)
_PARTS = re.compile(r"^(.+)\.(?:index|meta|data-[0-9]{5}-of-[0-9]{5})$")
_POINTER = "checkpoint"  # TensorFlow's note of which one is the last


class File(NamedTuple):
    """A file below a checkpoint path: its path there, bytes, and when it was changed."""

    path: str
    size: int
    changed: float


class Storage(Protocol):
    """A checkpoint path."""

    @property
    def name(self) -> str:
        """The path, for people."""

    def files(self) -> Sequence[File]:
        """Return all files below it; none where it is not there."""

    def get(self, path: str, to: Path) -> None:
        """Copy the file at `path` there.

        Parameters
        ----------
        path
            One of `files`.
        to
            Where to, on this machine.
        """

    def is_whole(self, path: str) -> bool:
        """Return whether nobody has the file open for writing, as far as can be told.

        Parameters
        ----------
        path
            One of `files`.
        """


def copy_newest(storage: Storage, folder: Path, job_id: str) -> str:
    """Copy the last complete checkpoint into an empty folder; return its name.

    Parameters
    ----------
    storage
        Where the job writes its checkpoints.
    folder
        Where to.
    job_id
        Which job, for the error.

    Raises
    ------
    SaveError
        There is none.
    OSError, ClusterError
        It cannot be read, or not be written here.
    """
    before = _checkpoints(storage.files())
    for _ in range(_TRIES):
        time.sleep(REST)
        now = _checkpoints(storage.files())
        resting = [
            name for name, files in now.items()
            if before.get(name) == files and all(storage.is_whole(file.path) for file in files)
        ]  # fmt: skip
        for name in sorted(resting, key=lambda name: _age(now[name]), reverse=True):
            if _copy(storage, name, now[name], folder):
                return name
        before = now
    if before:
        raise SaveError(
            f"the checkpoints in {storage.name} change all the time: none is complete",
            job_id=job_id,
            fix="let the job write each one under another name and rename it, or give a function "
            "to submarine_runtime.on_save",
        )
    raise SaveError(
        f"there is no checkpoint in {storage.name} yet, and the job's code gives no function",
        job_id=job_id,
        fix="ask after its first checkpoint, or let it call submarine_runtime.on_save(save)",
    )


def _checkpoints(files: Sequence[File]) -> dict[str, tuple[File, ...]]:
    """Return the files of each checkpoint, by its name."""
    found: dict[str, list[File]] = {}
    for file in files:
        name = file.path.partition("/")[0]
        if _ASIDE.search(name) or name == _POINTER:
            continue
        if (parts := _PARTS.match(name)) and name == file.path:
            name = parts[1]
        found.setdefault(name, []).append(file)
    return {name: tuple(sorted(some)) for name, some in found.items()}


def _age(files: Sequence[File]) -> float:
    return max(file.changed for file in files)


def _copy(storage: Storage, name: str, files: Sequence[File], folder: Path) -> bool:
    """Copy a checkpoint; whether it was still the same afterwards."""
    made = []
    try:
        for file in files:
            to = folder.joinpath(*file.path.split("/"))
            to.parent.mkdir(parents=True, exist_ok=True)
            storage.get(file.path, to)
            made.append(to)
    except FileNotFoundError:  # the job keeps the last few only: it was the turn of this one
        same = False
    else:
        same = _checkpoints(storage.files()).get(name) == tuple(files)
        same = same and [path.stat().st_size for path in made] == [file.size for file in files]
    if not same:
        for path in made:
            path.unlink()
    return same


class FolderStorage:
    """A checkpoint path on this machine.

    Parameters
    ----------
    root
        Its folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def name(self) -> str:
        """The folder's path."""
        return str(self._root)

    def files(self) -> list[File]:
        """Return all files below it."""
        found = []
        for path in self._root.rglob("*"):
            try:
                status = path.stat()
            except OSError:  # gone since
                continue
            if path.is_file():
                relative = path.relative_to(self._root).as_posix()
                found.append(File(relative, status.st_size, status.st_mtime))
        return found

    def get(self, path: str, to: Path) -> None:
        """Copy a file, with its time of change.

        Parameters
        ----------
        path
            One of `files`.
        to
            Where to.
        """
        import shutil  # noqa: PLC0415 - where something is copied

        shutil.copy2(self._root / path, to)

    def is_whole(self, path: str) -> bool:  # noqa: ARG002 - as storages have it
        """Return that nothing speaks against it: only its rest can be seen.

        Parameters
        ----------
        path
            One of `files`.
        """
        return True


def kept_storage(
    asked: SaveRequest, read: Callable[[str, str], Path | None] = file_address
) -> FolderStorage | None:
    """Return the checkpoints of a job that keeps them in a folder of this machine; None of others.

    Parameters
    ----------
    asked
        Whose.
    read
        Returns the path of this machine that the option means, as `ClusterKind.machine_path` has
        it.
    """
    record = read_json(asked.paths.record) or {}
    kept = read(record["spec"]["checkpoint_path"] or "", "--checkpoint_path")
    return FolderStorage(Path(record["workdir"]) / kept) if kept else None


# Where a model is brought to: written aside, and there whole or not at all.


class Target(Protocol):
    """A folder that a model is brought to."""

    @property
    def name(self) -> str:
        """The folder, as the user calls it."""

    def begin(self) -> Path:
        """Return an empty folder of this machine to write the files into.

        Raises
        ------
        SaveError
            There is something at the path already.
        OSError, ClusterError, SubmissionError
            It cannot be written.
        """

    def commit(self) -> None:
        """Put the files into their place; raises as `begin` does."""

    def discard(self) -> None:
        """Remove what `begin` made, where it is there yet."""


class FolderTarget:
    """A folder of this machine.

    Parameters
    ----------
    path
        Absolute.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._aside: Path | None = None

    @property
    def name(self) -> str:
        """The folder's path."""
        return str(self._path)

    def begin(self) -> Path:
        """Make a folder beside the one that is meant."""
        if self._path.is_symlink() or (self._path.exists() and not _is_empty(self._path)):
            raise occupied(self.name)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._path.with_name(f".{self._path.name[:100]}.{secrets.token_hex(4)}.part")
        aside.mkdir(mode=0o700)
        self._aside = aside
        return aside

    def commit(self) -> None:
        """Rename it; an empty folder gives way."""
        if self._aside is not None:
            try:
                self._aside.rename(self._path)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise occupied(self.name) from error
                raise
            self._aside = None
            with suppress(OSError):  # the mode that any new folder of the user's would have
                self._path.chmod(0o777 & ~_umask())

    def discard(self) -> None:
        """Remove the folder beside it."""
        if self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)
            self._aside = None


def _umask() -> int:
    """Return the process's umask, see proc(5): to ask by `os.umask` changes it for other threads.

    Raises
    ------
    OSError
        There is no ``/proc``.
    """
    found = re.search(r"^Umask:\s*(\d+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 8) if found else 0o077


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def occupied(name: str) -> SaveError:
    """Return the error of a path where something lies already.

    Parameters
    ----------
    name
        The path, as the user gave it.
    """
    return SaveError(
        f"{name} exists",
        fix="choose another folder",
    )


# Who may ask for a job's model, who gives it, and what is said where nobody can.


_GIVE = (
    "let the training code give a function, submarine_runtime.on_save(save), or run it with "
    "--checkpoint_path and write checkpoints there"
)


class Hook(Protocol):
    """The way to the function that a job's code has given."""

    @property
    def unseen(self) -> str:
        """Why no function can be seen from here, in words; empty where one could be."""

    def find(self) -> str | None:
        """Return the task that has one, see `in_order`; None where none is seen."""

    def ask(self, task: str, folder: Path, until: float) -> None:
        """Have the function's files written into `folder`, which is there and empty.

        Parameters
        ----------
        task
            Whose function.
        folder
            Where to.
        until
            When patience with the function ends, on the monotonic clock.

        Raises
        ------
        SaveError
            Told to who asked.
        """


_LOOK = 0.02  # seconds: people wait for it; a look reads one small file of this machine


class MessageHook:
    """The way to the function of a task: a message, which whoever runs the job brings there.

    Parameters
    ----------
    asked
        Whose model is asked for.
    folder
        Returns the folder, of this machine, that a task writes its files into.
    """

    unseen = ""

    def __init__(self, asked: SaveRequest, folder: Callable[[str], Path]) -> None:
        self._asked = asked
        self._folder = folder

    def find(self) -> str | None:
        """Return the task that has a function."""
        tasks = in_order(self._asked.status())
        return next((task for task in tasks if self.note(task) is not None), None)

    def ask(self, task: str, folder: Path, until: float) -> None:
        """Have its files written.

        Parameters
        ----------
        task
            Whose function.
        folder
            Where to.
        until
            When patience with the function ends, on the monotonic clock.
        """
        wait_for(self._asked, task, lambda: self.note(task), until, folder)

    def note(self, task: str) -> Note | None:
        """Return what a task says of its function.

        Parameters
        ----------
        task
            Which task, as ``worker-0``.
        """
        try:
            return read_note(read_foreign(self._folder(task) / NOTE, LARGEST_NOTE))
        except OSError:  # it is not there, or is none
            return None


def wait_for(
    asked: SaveRequest, task: str, read: Callable[[], Note | None], until: float, folder: Path
) -> Note:
    """Ask a task for its model, and wait until it is written where it runs.

    Parameters
    ----------
    asked
        Whose model is asked for.
    task
        Which task of it has a function.
    read
        Returns what the task says of its function.
    until
        When patience ends, on the monotonic clock.
    folder
        Where the files are to lie, if the task sees that.

    Raises
    ------
    SaveError
        As `Hook.ask`.
    """
    paths, job_id, name = asked.paths, asked.paths.job_id, secrets.token_hex(8)
    before = read()
    if before and before.state == "saving":
        raise busy(before, job_id)
    question = paths.task(task).root / ASK
    write_json(question, {"id": name, "folder": str(folder)})
    try:
        while (note := read()) is None or note.id != name or note.state == "saving":
            if asked.status().state.final and read() == note:
                raise ended(job_id)
            if time.monotonic() > until:
                heard = note is not None and note.id == name
                raise hangs(job_id) if heard else unheard(job_id)
            time.sleep(_LOOK)
    finally:
        question.unlink(missing_ok=True)  # nobody is to hear it any more
    if note.state == "failed":
        raise failed(note, job_id, paths.task(task).root)
    return note


def in_order(status: JobStatus) -> list[str]:
    """Return a job's tasks in the order in which they are asked: the chief's model is the job's.

    Parameters
    ----------
    status
        The job as it stands.
    """
    tasks = [task.task for task in status.tasks]
    first = [task for task in ("chief-0", "master-0", "worker-0") if task in tasks]
    return [*first, *(task for task in tasks if task not in first)]


def default_name(job_name: str) -> str:
    """Return the name of a folder for a model that is saved now, where the user gives none.

    Parameters
    ----------
    job_name
        The job's.
    """
    plain = re.sub(r"[^\w.=+-]+", "-", job_name).strip("-.") or "model"
    return f"{plain[:80]}-{time.strftime('%Y%m%d-%H%M%S')}"


def absolute(path: str, folder: Path) -> str:
    """Return a path as `Cluster.save` takes it: relative ones begin at `folder`.

    Parameters
    ----------
    path
        As the user gave it: a path or an address.
    folder
        The user's own.
    """
    return path if "://" in path else str(folder / Path(path).expanduser())


def can_save(paths: JobPaths, status: JobStatus) -> bool:
    """Return whether a job can be asked for its model now. Looks at a few files, at no cluster.

    Parameters
    ----------
    paths
        The job's files.
    status
        The job as it stands.
    """
    if status.state is not JobState.RUNNING:
        return False
    if any((paths.task(task.task).root / NOTE).exists() for task in status.tasks):
        return True
    record = read_json(paths.record) or {}
    if record.get("spec", {}).get("checkpoint_path"):
        return True
    return paths.checkpoint_kept.exists()


class SaveRequest(NamedTuple):
    """Whose model is asked for.

    Parameters
    ----------
    status
        Tells how the job stands.
    patience
        As of `Cluster.save`.
    of_code
        Whether the code's own function is to give it, and no checkpoint is copied.
    """

    paths: JobPaths
    status: Callable[[], JobStatus]
    patience: float | None
    of_code: bool = False


def save(asked: SaveRequest, target: Target, hook: Hook, storage: Storage | None) -> Saved:
    """Save a job's model, see `Cluster.save`.

    Parameters
    ----------
    asked
        Whose model, and how long it may take.
    target
        Where to.
    hook
        The way to the functions of the job's tasks.
    storage
        The job's checkpoint path; None where it has none that can be read from here.
    """
    paths, status = asked.paths, asked.status
    limit = asked.patience
    if limit is None or not asked.of_code:  # a driver may have no configuration to read
        limit = load_config({"save_patience": asked.patience}).value("save_patience")
    with _alone(paths), _words_for_the_disk(paths.job_id):
        found = status()
        # Of what cannot be seen before its end, nobody knows that it runs.
        if not (found.state is JobState.STARTING and hook.unseen):
            expect_running(paths.job_id, found)
        task = None if hook.unseen else hook.find()
        if task is None and (storage is None or asked.of_code):
            why = hook.unseen or "its code gives no way to the model"
            raise SaveError(why, job_id=paths.job_id, fix=_GIVE)
        try:
            folder = target.begin()
            if task is not None:
                hook.ask(task, folder, time.monotonic() + limit)
                by, source = "hook", task
            else:
                assert storage is not None  # noqa: S101 - for the type checker
                by, source = "checkpoint", copy_newest(storage, folder, paths.job_id)
            sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
            target.commit()
        finally:
            target.discard()
    return Saved(path=target.name, by=by, source=source, files=len(sizes), size=sum(sizes))


def expect_running(job_id: str, status: JobStatus) -> None:
    """Refuse a job that does not run.

    Parameters
    ----------
    job_id
        Which job, for the error.
    status
        The job as it stands.

    Raises
    ------
    SaveError
        It waits, or is over.
    """
    if status.state is JobState.RUNNING:
        return
    if status.state.final:
        raise SaveError(
            f"the job is over ({status.state.value}): there is no model in its memory any more",
            job_id=job_id,
            fix="what it returned and its checkpoints are where they always are",
        )
    raise SaveError(
        f"the job does not run yet ({status.state.value})", job_id=job_id, fix="ask when it does"
    )


@contextmanager
def _alone(paths: JobPaths) -> Iterator[None]:
    """Let nobody else ask the same job meanwhile, from whichever process."""
    lock = locks.take(paths.save_lock)
    if lock is None:
        raise SaveError(
            "another save of this job is under way", job_id=paths.job_id, fix="ask when it is done"
        )
    try:
        yield
    finally:
        locks.drop(lock)


@contextmanager
def _words_for_the_disk(job_id: str) -> Iterator[None]:
    try:
        yield
    except UnsupportedError:
        raise
    except SubmissionError as error:  # as HDFS says it
        raise SaveError(error.what, where=error.where, job_id=job_id, fix=error.fix) from error
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise SaveError(
            f"the model cannot be written: {error.strerror or error}{where}",
            job_id=job_id,
            fix="name a new folder where you may write, on a disk with room",
        ) from error
