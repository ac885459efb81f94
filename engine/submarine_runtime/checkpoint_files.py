"""The files of a checkpoint: written aside, with checksums, renamed; checked when they are read.

`checkpoints` uses it. A checkpoint is a folder ``step-000000001200`` with ``state.pickle``, of
several ranks ``rank-2.pickle`` for each other one, and ``checkpoint.json``, which says how many
bytes each has and their sum. One that is not as it says is passed over.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time

from submarine_runtime import lean
from submarine_runtime.lean import standard, suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

STATE = "state.pickle"
NOTE = "checkpoint.json"
VERSION = 1
ASIDE_LIVES = 24 * 3600.0
"""Seconds after which nobody goes on with what is written aside."""

_NAME = "step-"
_ASIDE = ".part"
_PIECE = 1 << 20
# Gone since, or a link that leads where nobody can look; all else is the disk's.
_UNSEEN = (errno.ENOENT, errno.ELOOP, errno.EACCES)


def name_of(step: int) -> str:
    """Return the name of the checkpoint after `step` steps."""
    return f"{_NAME}{step:012}"


def part_of(rank: int) -> str:
    """Return the name of the file that another rank than the first adds."""
    return f"rank-{rank}.pickle"


def aside_of(step: int, key: str = "") -> str:
    """Return a name for the checkpoint while it is written.

    Another job may write the same step there, from another machine.

    Parameters
    ----------
    key
        What all ranks of a job have in common; unless given, nobody else has the name.
    """
    key = key or f"{os.environ.get('SUBMARINE_JOB_ID', '')}.{os.urandom(6).hex()}"
    return f".{name_of(step)}.{key}{_ASIDE}"


def complete(storage: Folder, *, others: bool = True) -> Iterator[tuple[int, str]]:
    """Yield the steps and names of the complete checkpoints in `storage`, the newest first.

    Parameters
    ----------
    storage
        Where they lie.
    others
        Whether another user's is an error, and one that cannot be read is worth a word, as to
        whoever goes on from here; they are passed over else.

    Raises
    ------
    PermissionError
        There is one of another user's.
    """
    for name in sorted(storage.names(), reverse=True):
        number = name[len(_NAME) :]
        if name.startswith(_NAME) and number.isascii() and number.isdigit():
            try:
                storage.expect_own(name)
            except FileNotFoundError:
                continue
            except PermissionError:
                if others:
                    raise
                continue
            try:
                told = _whole_note(storage, name)
            except OSError as error:
                told = None
                if others:
                    _warn_unread(storage, name, error)
            if told is not None:
                yield int(number), name


def note_of(storage: Folder, name: str) -> dict[str, Any] | None:
    """Return what the checkpoint `name` in `storage` says of itself; None if it is not complete."""
    with suppress(OSError):
        return _whole_note(storage, name)
    return None


def _whole_note(storage: Folder, name: str) -> dict[str, Any] | None:
    """Return what `note_of` does.

    Raises
    ------
    OSError
        The disk, and not the checkpoint, is why nothing is known of it.
    """
    malformed = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
    with suppress(NotADirectoryError, *malformed):
        told = _read_note(storage, name)
        if told["version"] == VERSION:
            files, there = told["files"], storage.names(name)
            whole = all(there.get(one) == size for one, (size, _) in files.items())
            return told if whole and STATE in files else None
    return None


def _read_note(storage: Folder, name: str) -> dict[str, Any]:
    told: dict[str, Any] = lean.loads((storage.read(f"{name}/{NOTE}") or b"").decode("ascii"))
    return told


def expect_known(storage: Folder) -> None:
    """Refuse `storage` where it has checkpoints that a later release has written.

    Raises
    ------
    ValueError
        It has; this one would begin from before them, and then remove them.
    """
    for name in storage.names():
        version = 0
        if name.startswith(_NAME):
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                version = _read_note(storage, name)["version"]
        if isinstance(version, int) and version > VERSION:
            raise ValueError(
                f"{storage.where}/{name} was written by a later release (format {version}, this "
                f"one knows {VERSION}): upgrade submarine, or give another --checkpoint_path"
            )


def is_sound(storage: Folder, name: str) -> bool:
    """Tell whether all files of a checkpoint are as they were written; with a word where not.

    Parameters
    ----------
    storage
        Where it lies.
    name
        As of `name_of`.
    """
    told = note_of(storage, name)
    if told is None:
        return False
    crc32 = standard("zlib", "").crc32
    try:
        for file, (_, expected) in told["files"].items():
            found = 0
            with storage.opened(f"{name}/{file}") as content:
                while piece := content.read(_PIECE):
                    found = crc32(piece, found)
            if found != expected:
                warn(f"the checkpoint {storage.where}/{name} is damaged; taking the one before it")
                return False
    except PermissionError:
        raise
    except OSError as error:
        _warn_unread(storage, name, error)
        return False
    return True


def _warn_unread(storage: Folder, name: str, error: OSError) -> None:
    words = error.strerror or error
    warn(f"the checkpoint {storage.where}/{name} cannot be read: {words}")


def load(storage: Folder, name: str, file: str) -> dict[str, Any]:
    """Return what a sound checkpoint keeps in a file.

    Parameters
    ----------
    storage
        Where it lies.
    name
        The checkpoint's, as of `name_of`.
    file
        `STATE`, or another rank's as of `part_of`.
    """
    with storage.opened(f"{name}/{file}") as content:
        kept: dict[str, Any] = standard("pickle", "").load(content)
        return kept


def write_note(storage: Folder, aside: str, step: int, files: dict[str, list[int]]) -> None:
    """Write what a checkpoint says of itself, the last of its files.

    Parameters
    ----------
    storage
        Where it lies.
    aside
        Its name while it is written, as of `aside_of`.
    step
        After how many steps it is.
    files
        How many bytes each of its files has, and their CRC-32, by the file's name.
    """
    told = {
        "version": VERSION,
        "step": step,
        "time": time.time(),
        "job": os.environ.get("SUBMARINE_JOB_ID", ""),
        "files": files,
    }
    with storage.new(f"{aside}/{NOTE}") as note:
        note.write(lean.dumps(told).encode())


def put_in_place(storage: Folder, aside: str, name: str) -> None:
    """Give a checkpoint its name.

    Parameters
    ----------
    storage
        Where it lies.
    aside
        Its name while it was written, as of `aside_of`.
    name
        As of `name_of`; what lay there before is removed.
    """
    # One that says otherwise of itself lies there: this one is of the same step.
    storage.remove(name)
    try:
        storage.put_in_place(aside, name)
    except OSError:
        if note_of(storage, name) is None:
            raise
        storage.remove(aside)  # another job has been faster


def forget_all_but(storage: Folder, count: int) -> None:
    """Remove from `storage` all complete checkpoints of this user's but the `count` newest."""
    for step, name in list(complete(storage, others=False))[count:]:
        # Renamed first: of one that a kill leaves half removed, nobody would see what is left.
        aside = aside_of(step)
        with suppress(OSError):
            storage.put_in_place(name, aside)
            storage.remove(aside)


def forget_cut(storage: Folder) -> None:
    """Remove from `storage` what a former attempt was killed at."""
    for name in storage.names():
        if name.startswith(f".{_NAME}") and name.endswith(_ASIDE) and storage.is_cut(name):
            with suppress(OSError):
                storage.remove(name)


def warn(words: str) -> None:
    """Say `words`, a line, to whoever reads the log."""
    sys.stderr.write(f"submarine: {words}\n")


def _open_file(path: str, flags: int) -> int:
    """Open a regular file; who opens a named pipe would wait for its other end, maybe for ever.

    Raises
    ------
    OSError
        Something else lies there.
    """
    is_file = False
    descriptor = -1
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.EISDIR):  # a pipe that nobody reads, a folder
            raise
    finally:
        if descriptor >= 0 and not is_file:
            os.close(descriptor)
    if not is_file:
        words = "it is no regular file: remove it, or give another --checkpoint_path"
        raise OSError(errno.EINVAL, words, path)
    return descriptor


def _size_of(entry: os.DirEntry[str]) -> int | None:
    """Return the size of a file, -1 of what is none; None of what cannot be seen."""
    try:
        return entry.stat().st_size if entry.is_file() else -1
    except OSError as error:
        if error.errno not in _UNSEEN:
            raise
        return None


class Folder:
    """A folder of a file system that all who write there see.

    Parameters
    ----------
    path
        Where; it is made with the first file.
    """

    look = 0.05
    """Seconds between two looks at what others say."""

    wait = 0.01
    """Seconds between two looks of whoever waits for it."""

    def __init__(self, path: str) -> None:
        self.where = path

    def _path(self, name: str) -> str:
        return f"{self.where}/{name}" if name else self.where

    def names(self, name: str = "") -> dict[str, int]:
        """Return the sizes of what lies there by name; nothing where it is no folder."""
        found = {}
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._path(name)) as all_:
            for one in all_:
                size = _size_of(one)
                if size is not None:
                    found[one.name] = size
        return found

    def read(self, name: str) -> bytes | None:
        """Return the content of the small file `name`; None where there is none.

        Raises
        ------
        OSError
            It is no regular file, or cannot be read.
        """
        with (
            suppress(FileNotFoundError),
            open(_open_file(self._path(name), os.O_RDONLY), "rb") as file,
        ):
            return file.read()
        return None

    def opened(self, name: str) -> BinaryIO:
        """Open the file `name` to read it.

        Raises
        ------
        PermissionError
            It is another user's.
        OSError
            It is no regular file, or cannot be read.
        """
        descriptor = _open_file(self._path(name), os.O_RDONLY)
        file = open(descriptor, "rb")  # noqa: PTH123, SIM115 - as above; the caller closes it
        try:
            # Of what was opened: by its name another file may lie there by now.
            self._expect_owner(os.fstat(file.fileno()).st_uid, self._path(name))
        except BaseException:
            file.close()
            raise
        return file

    def new(self, name: str) -> NewFile:
        """Make the file `name`, which is not there yet."""
        return NewFile(self._path(name))

    def make(self, name: str) -> None:
        """Make the folder `name`, and those above it; no-op where it is there."""
        os.makedirs(self._path(name), 0o700, exist_ok=True)  # noqa: PTH103 - as above

    def put_in_place(self, aside: str, name: str) -> None:
        """Give the folder `aside` another name, `name`, for good."""
        os.rename(self._path(aside), self._path(name))  # noqa: PTH104 - as above
        descriptor = os.open(self.where, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove what lies at `name`, as far as that can be done."""
        path = self._path(name)
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - as above
            return
        if os.path.isdir(path):  # noqa: PTH112 - as above
            standard("shutil", "").rmtree(path, ignore_errors=True)

    def is_cut(self, aside: str) -> bool:
        """Tell whether nobody writes checkpoint `aside` any more: another job of the path may."""
        try:
            flags = os.O_RDWR | os.O_NOFOLLOW
            descriptor = _open_file(f"{self._path(aside)}/{STATE}", flags)
        except OSError:  # just made, and empty; or another rank's part came too late
            with suppress(OSError):
                made = os.stat(self._path(aside)).st_mtime  # noqa: PTH116 - as above
                return time.time() - made > ASIDE_LIVES
            return False
        fcntl = standard("fcntl", "")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        finally:
            os.close(descriptor)
        return True

    def expect_own(self, name: str) -> None:
        """Refuse `name` where another user has put it there: whoever loads a pickle runs it.

        Raises
        ------
        PermissionError
            It is another user's.
        """
        path = self._path(name)
        self._expect_owner(os.stat(path).st_uid, path)  # noqa: PTH116 - as above

    def _expect_owner(self, owner: int, path: str) -> None:
        if owner not in (0, os.geteuid()) and owner != self._own_name():
            raise PermissionError(
                f"{path} belongs to user {owner}, and to load a checkpoint is to run what is in "
                "it: give another --checkpoint_path, or a copy of it where you trust it"
            )

    def _own_name(self) -> int:
        """Return whose the files are that this process makes there.

        A file system may have another name for a user, as NFS has for root.
        """
        probe = self._path(f".{_NAME}{os.urandom(6).hex()}")
        try:
            os.mkdir(probe, 0o700)  # noqa: PTH102 - as above
            owner = os.stat(probe).st_uid  # noqa: PTH116 - likewise
            os.rmdir(probe)  # noqa: PTH106 - likewise
        except OSError:
            return -1
        return owner

    # Messages are written in place, and never renamed: NFS shows what is new in a file to whoever
    # opens it, a new name only after a while.

    def tell(self, name: str, line: str) -> None:
        """Add `line` to the file `name` that others read; OSError where not all of it is there."""
        # Where others may write, a link could lead into any file of the user's.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        descriptor = _open_file(self._path(name), flags)
        try:
            data, size = f"{line}\n".encode(), os.fstat(descriptor).st_size
            if os.write(descriptor, data) < len(data):
                # A full disk: what is said next would be read as the rest of this line.
                os.ftruncate(descriptor, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)

    def hear(self, name: str, since: int = 0) -> str:
        """Return the whole lines of `name` from byte `since` on; none where there are none yet."""
        try:
            descriptor = _open_file(self._path(name), os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW)
        except FileNotFoundError:  # nor its folder
            return ""
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            file.seek(since)
            lines, end, _ = file.read().rpartition(b"\n")
            return (lines + end).decode("ascii")

    def tidy(self) -> None:
        """Let go of what was copied to read it: nothing."""

    def free(self) -> str:
        """Return how much room there is, in words."""
        try:
            found = os.statvfs(self.where)
        except OSError:
            return "unknown"
        return f"{found.f_bavail * found.f_frsize / 2**20:,.0f} MiB"


_LOCK_TRIES, _LOCK_REST = 100, 0.01  # how often, and the seconds between two of them


class NewFile:
    """A new file that counts and sums what is written, and is on the disk when it is closed.

    As long as it is open, and not closed by `let_go`, a lock of it says that somebody writes here.

    Parameters
    ----------
    path
        Where; nothing may lie there.
    """

    _held = -1  # also of one that could not be made

    def __init__(self, path: str) -> None:
        self.size = self.sum = 0
        self._crc32 = standard("zlib", "").crc32
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = open(descriptor, "wb")  # noqa: PTH123, SIM115 - closed below
        self._lock()  # at once: what nobody holds looks cut

    def _lock(self) -> None:
        fcntl = standard("fcntl", "")
        self._held = os.dup(self._file.fileno())
        for _ in range(_LOCK_TRIES):
            if self._locks(fcntl):
                break
            time.sleep(_LOCK_REST)

    def _locks(self, fcntl: Any) -> bool:  # noqa: ANN401 - the module
        """Return False where somebody has the lock: who looks whether it is cut, for a moment."""
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def __del__(self) -> None:
        """Let go of the lock."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Write `data`; return how many bytes that was."""
        self.sum = self._crc32(data, self.sum)
        count = self._file.write(data)
        self.size += count
        return count
