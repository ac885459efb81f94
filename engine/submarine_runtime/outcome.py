"""Writes what a task leaves behind: ``outcome.json`` and ``results/``.

`task` calls it when the code has ended; `submarine_engine.outcome` and ``results`` read it. What
stands there is in ``docs/architecture.md``.
"""

from __future__ import annotations

import errno
import os
import sys
import time

from submarine_runtime import lean
from submarine_runtime.frames import FILE
from submarine_runtime.home import Ending
from submarine_runtime.lean import mode_in, standard, suppress, type_name

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedWriter
    from typing import Any

    from submarine_runtime.home import Home

VERSION = 1
RAISED = "raised.pkl"
"""What the code raised, of a job that no cell waits for: a cell's has it among its frames."""

MISSING = object()
"""Stands for the value of a variable that is not there."""

_RESERVE = 64 * 1024
_PIECE = 1 << 20
_LONGEST_TEXT = 20_000
_LONGEST_NAME = 100


class Outcome:
    """Writes the outcome of a task; room for it is taken now, while the disk has some.

    Parameters
    ----------
    folder
        The task's.
    bundle
        The folder of the bundle that runs.
    results
        The name of the folder for values, in the task's.
    key
        File with the key that outcome and results are marked with, see `sealing`; empty for none.

    Raises
    ------
    OSError
        It has none, or the folder is not there.
    """

    def __init__(self, folder: str, bundle: str, results: str = "results", key: str = "") -> None:
        self._key = key
        self._bundle = bundle
        self._path = f"{folder}/outcome.json"
        self._aside = f"{folder}/.outcome.json.new"
        self._results = f"{folder}/{results}"
        self._file = _open(self._aside)
        try:
            os.posix_fallocate(self._file.fileno(), 0, _RESERVE)
        except OSError as error:
            if error.errno == errno.ENOSPC:  # any other: this file system cannot keep room
                raise

    def write(self, ending: Ending) -> int:
        """Write results and outcome; return the exit code, 1 where something could not be kept.

        Parameters
        ----------
        ending
            How the code ended, and what it gave.
        """
        try:
            told = self._tell(ending)
        except BaseException as error:  # noqa: BLE001 - what is written raises what it likes
            from submarine_runtime.failure import describe  # noqa: PLC0415 - only on a full disk
            from submarine_runtime.frames import said  # noqa: PLC0415 - likewise

            full = isinstance(error, OSError)
            why = (error.strerror if full else said(error)) or error  # type: ignore[attr-defined]  # of an OSError
            kind = OSError if full else RuntimeError
            failed = kind(f"the result could not be written: {why}")
            sys.stderr.write(f"submarine: {failed}\n")
            told = {**_head(ending), "kind": "raised", "exit_code": 1, "outputs": {}}
            told.update(result=_entry(None), error=describe(failed, self._bundle))
        try:
            self._commit(told, ending)
        except OSError as error:
            sys.stderr.write(f"submarine: the outcome could not be written: {error}\n")
            return ending.exit_code or 1
        return int(told["exit_code"])

    def _tell(self, ending: Ending) -> dict[str, Any]:
        if ending.home is not None:
            return self._tell_home(ending, ending.home)
        outputs: dict[str, dict[str, Any]] = {}
        for number, (name, value) in enumerate(ending.outputs.items()):
            # Not every file system and not every Java can name a file `été`.
            plain = name.isascii() and len(name) <= _LONGEST_NAME
            stem = f"var-{name if plain else number}"
            outputs[name] = self._store(value, stem, f"`{name}`")
        same = [name for name, value in ending.outputs.items() if value is ending.value]
        if names := ending.names or same[:1]:  # written once, read as both
            result = {**_entry(ending.value), "format": "outputs", "names": list(names)}
        else:
            result = self._store(ending.value, "return", "the result")
        return self._with_error({**_head(ending), "result": result, "outputs": outputs}, ending)

    def _tell_home(self, ending: Ending, home: Home) -> dict[str, Any]:
        if not home.first:
            return self._tell_value(ending, home)
        written = home.write(ending, self._results)
        frames = {frame["name"]: frame for frame in written["frames"] if frame["kind"] == "name"}
        outputs = {
            name: {**_entry(None), "format": "home", "type": frame["type"]}
            for name, frame in frames.items()
        }
        last = written["frames"][-1] if written["frames"] else None
        if ending.kind == "returned" and ending.names and all(map(frames.get, ending.names)):
            result = {**_entry(ending.value), "format": "outputs", "names": list(ending.names)}
        elif last is not None and last["kind"] == "value":
            result = {**_entry(ending.value), "format": "home"}
        elif ending.kind == "returned" and ending.value is not None and not ending.names:
            result = self._store(ending.value, "return", "the result")
        else:
            result = _entry(None)
        told = {**_head(ending), "result": result, "outputs": outputs, "home": written}
        return self._with_error(told, ending)

    def _tell_value(self, ending: Ending, home: Home) -> dict[str, Any]:
        """Tell of a task that is not of rank 0: its value, and what it raised, are all of it."""
        written = home.write_error(ending, self._results)
        gives = ending.kind == "returned" and home.gives_value
        result = self._store(ending.value, "return", "the result") if gives else _entry(None)
        told = {**_head(ending), "result": result, "outputs": {}, "home": written}
        return self._with_error(told, ending)

    def _with_error(self, told: dict[str, Any], ending: Ending) -> dict[str, Any]:
        told["error"] = None
        if ending.error is not None and ending.exit_code != 0:
            from submarine_runtime.failure import describe  # noqa: PLC0415 - only on a failure

            told["error"] = describe(ending.error, self._bundle)
            if ending.home is None:
                told["raised"] = self._keep(ending.error)
        return told

    def _keep(self, error: BaseException) -> bool:
        """Write what the code raised; whether that could be done."""
        from submarine_runtime.failure import Raised  # noqa: PLC0415 - only on a failure

        for state in (True, False):
            file = None
            with suppress(BaseException):  # a full disk, too: how it ended is more than this
                os.makedirs(self._results, mode=0o700, exist_ok=True)  # noqa: PTH103 - as below
                file = _ResultFile(f"{self._results}/{RAISED}")
                _pickle(Raised(error, state=state), file, self._bundle)
                file.finish()
                return True
            if file is not None:
                file.discard()
        return False

    def _commit(self, told: dict[str, Any], ending: Ending) -> None:
        entries = [told["result"], *told["outputs"].values()]
        entries += [{"file": told.get("home") and FILE}, {"file": told.get("raised") and RAISED}]
        names = {str(entry["file"]) for entry in entries if entry.get("file")}
        paths = {name: f"{self._results}/{name}" for name in names}
        paths = {name: path for name, path in paths.items() if os.path.exists(path)}  # noqa: PTH110 - pathlib takes long to import
        key = b""
        if self._key:
            from submarine_runtime.sealing import mark  # noqa: PLC0415 - of containers alone

            with open(self._key, "rb") as file:  # noqa: PTH123 - as above
                key = file.read()
            told["marks"] = {name: mark(name, _pieces(path), key) for name, path in paths.items()}
        # What the GPU was held for after the return: to write the results, and to mark them.
        told["wrote"] = {
            "size": sum(os.stat(path).st_size for path in paths.values()),  # noqa: PTH116 - as above
            "seconds": max(0.0, time.monotonic() - ending.at[1]),
        }
        data = lean.dumps(told).encode()
        if key:  # the outcome's own mark stands on its next line
            data += b"\n" + mark("outcome.json", (data,), key).encode() + b"\n"
        with self._file as file:
            file.write(data)
            file.flush()
            file.truncate()
        os.replace(self._aside, self._path)  # noqa: PTH105 - as above

    def _store(self, value: object, stem: str, called: str) -> dict[str, Any]:
        """Write one value to ``results/``: pickled, else as text; OSError on a full disk."""
        if value is MISSING:
            return {**_entry(None), "warning": f"{called} was never assigned"}
        entry = _entry(value)
        if value is None:
            return entry
        os.makedirs(self._results, mode=0o700, exist_ok=True)  # noqa: PTH103 - as above
        file = _ResultFile(f"{self._results}/{stem}.pkl")
        try:
            _pickle(value, file, self._bundle)
        except BaseException as error:  # noqa: BLE001 - a foreign __reduce__ raises what it likes
            file.discard()
            if file.error:
                raise file.error from None
            from submarine_runtime.failure import message  # noqa: PLC0415 - only here

            why = f"{type(error).__name__}: {message(error)}"
        else:
            return {**entry, "format": "pickle", "file": f"{stem}.pkl", "size": file.finish()}
        file = _ResultFile(f"{self._results}/{stem}.txt")
        file.write(_text(value))
        entry.update(format="text", file=f"{stem}.txt", size=file.finish())
        warning = f"{called} ({entry['type']}) cannot be pickled and came back as text: {why}"
        return {**entry, "warning": warning}


class _ResultFile:
    """A file written aside, which keeps its own error apart from those of what is pickled."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._aside = f"{path}.new"
        self._file = _open(self._aside)
        self.error: OSError | None = None

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def finish(self) -> int:
        """Put the file into its place and return its size in bytes."""
        size = self._file.tell()
        self._file.close()
        os.replace(self._aside, self._path)  # noqa: PTH105 - pathlib takes long to import
        return size

    def discard(self) -> None:
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.unlink(self._aside)  # noqa: PTH108 - pathlib takes long to import


def _pickle(value: object, file: _ResultFile, folder: str) -> None:
    standard("pickle", folder).Pickler(file, protocol=5).dump(value)


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes long to import
        while piece := file.read(_PIECE):
            yield piece


def _text(value: object) -> bytes:
    try:
        text = repr(value)
    except BaseException:  # noqa: BLE001 - a foreign __repr__ raises what it likes
        text = object.__repr__(value)
    if len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}… ({len(text):,} characters in all)"
    return text.encode(errors="backslashreplace")


def _head(ending: Ending) -> dict[str, Any]:
    return {
        "version": VERSION,
        "kind": ending.kind,
        "returned_at": ending.at,
        "exit_code": ending.exit_code,
        "python": sys.version.split()[0],
        "paused": _is_paused(),
        "final": getattr(ending.error, "submarine_final", False) is True,
    }


def _is_paused() -> bool:
    """Tell whether a loop that keeps checkpoints has stopped early, since the job was asked to."""
    checkpoints = sys.modules.get("submarine_runtime.checkpoints")
    return checkpoints is not None and bool(checkpoints.notice.obeyed)


def _entry(value: object) -> dict[str, Any]:
    told = type_name(value)
    return {"format": "none", "type": told, "file": None, "size": 0, "warning": None}


def _open(path: str) -> BufferedWriter:
    """Open a new file for writing."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode_in(os.path.dirname(path)))  # noqa: PTH120 - as above
    return open(descriptor, "wb")  # noqa: PTH123 - a descriptor; the caller closes it
