"""The model of a running job, saved when somebody asks: by a function that the training code gave.

It runs in a thread of its own, not in a signal's handler: a handler would stand between any two
instructions of the main thread, in the middle of a step as well, would wait for native code to
return, and could hold the training up for ever. Code that must not see a half-done step shares a
lock with the training loop.

Somebody asks by a line in the named pipe ``save`` of the task's folder, which says where to write.
On YARN nobody can write there: SIGQUIT asks, which `container` has blocked in all its processes,
and the model lies in the folder as pieces ``save.0000``, … of a tar archive until it is fetched.
``save.json`` tells how far it is; it is there as soon as there is a function.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys
import time
from _thread import start_new_thread

from submarine_runtime import lean
from submarine_runtime.lean import mode_in, standard, suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[[Path], object])

STATE = "save.json"
BELL = "save"
PLACE = "SUBMARINE_SAVE"
"""On YARN: the folder that models are written to before they are packed."""

KEPT = 600.0
"""Seconds that a packed model lies ready to be fetched."""

_MOST = 1 << 16  # all that a pipe holds
_TRIES = 3
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")


def on_save(function: Function) -> Function:
    """Give the function that saves the model when somebody asks; does nothing outside a job.

    It is asked for by ``submarine job save``, by a click on the job card, or by `Job.save`, and
    runs in a thread while training goes on. Of several functions the last one counts, of several
    processes of a task the first one's (``LOCAL_RANK`` 0).

    Parameters
    ----------
    function
        Called with a `pathlib.Path`: a new, empty folder, to write the model's files into.

    Returns
    -------
    Function
        `function`, so that this can be its decorator.

    Raises
    ------
    TypeError
        `function` cannot be called.
    """
    if not callable(function):
        raise TypeError(f"on_save({function!r:.40}): give a function that takes a folder")
    folder = os.environ.get("SUBMARINE_TASK_DIR")
    if folder and _is_first():
        with suppress(OSError):  # a full disk is no reason to end a training
            _saver.take(folder, function)
    return function


def forget_packed() -> None:
    """Remove what lies ready to be fetched: logs are kept, and a model is none."""
    folder = os.environ.get("SUBMARINE_TASK_DIR")
    if folder and PLACE in os.environ:
        with suppress(OSError):
            _remove_packed(folder)


def _remove_packed(folder: str) -> None:
    for name in os.listdir(folder):  # noqa: PTH208 - pathlib takes long to import
        if name.startswith(f"{BELL}.") and name[len(BELL) + 1 :].isdecimal():
            os.unlink(f"{folder}/{name}")  # noqa: PTH108 - likewise


def _is_first() -> bool:
    """Tell whether this is a task's own process, or the first of those that train for it."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        return False
    return all(os.environ.get(name, "0") == "0" for name in _LOCAL_RANKS)


class _Saver:
    """Waits for somebody to ask, and saves; one a process."""

    def __init__(self) -> None:
        self._function: Callable[[Path], object] | None = None
        self._owner = 0

    def take(self, folder: str, function: Callable[[Path], object]) -> None:
        if self._owner not in (0, os.getpid()):  # a fork: the function is its parent's
            return
        self._function = function
        if self._owner:
            return
        self._bundle = os.path.dirname(  # noqa: PTH120 - as above
            getattr(sys.modules.get("__main__"), "__file__", None) or os.getcwd() + "/."  # noqa: PTH109
        )
        # Now, not in the thread: what hides the user's own modules hides them from all threads.
        for name in ("linecache", "pathlib", "shutil", "tarfile", "hashlib"):
            standard(name, self._bundle)
        wait = _by_signal(folder) if PLACE in os.environ else _by_pipe(f"{folder}/{BELL}")
        _say(folder, {"state": "ready", "number": 0})
        self._owner = os.getpid()
        start_new_thread(self._serve, (folder, wait))

    def _serve(self, folder: str, wait: Callable[[], dict[str, Any]]) -> None:
        number = 0
        while True:
            asked = wait()
            number += 1
            head = {"number": number, "id": str(asked.get("id", ""))}
            _say(folder, {**head, "state": "saving"})
            target = str(asked.get("folder") or f"{os.environ[PLACE]}/.save-{number}")
            try:
                told = self._save(folder, target, packed="folder" not in asked)
            except BaseException as error:  # noqa: BLE001 - the training goes on, whatever it is
                from submarine_runtime.failure import describe  # noqa: PLC0415 - only here

                # Room for what is told of it, where it was the disk that was full.
                standard("shutil", self._bundle).rmtree(target, ignore_errors=True)
                told = {"state": "failed", "error": describe(error, self._bundle)}
            _say(folder, {**head, **told})

    def _save(self, folder: str, target: str, *, packed: bool) -> dict[str, Any]:
        from submarine_runtime.packing import pack  # noqa: PLC0415 - where somebody asks

        if self._function is None:  # never: it is there before the thread is
            raise RuntimeError("there is no function")
        if packed:
            _remove_packed(folder)
        path = standard("pathlib", self._bundle).Path(target)
        if packed:
            path.mkdir(mode=0o700)
        elif not path.is_dir():  # removed by who asked, when it took too long
            raise FileNotFoundError("nobody waits for it any more")
        self._function(path)
        if not any(path.iterdir()):
            raise FileNotFoundError("the function given to on_save wrote no file into its folder")
        if not packed:
            return {"state": "done"}
        try:
            return {"state": "done", **pack(target, f"{folder}/{BELL}", mode_in(folder))}
        except BaseException:
            _remove_packed(folder)
            raise
        finally:
            standard("shutil", self._bundle).rmtree(target, ignore_errors=True)


def _by_pipe(path: str) -> Callable[[], dict[str, Any]]:
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - as above
    os.mkfifo(path, 0o600)
    # For writing too: else each asker that closes it would be the end of the file.
    pipe = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def wait() -> dict[str, Any]:
        while True:
            with suppress(ValueError, IndexError, RecursionError):
                asked = lean.loads(os.read(pipe, _MOST).splitlines()[-1].decode())
                if isinstance(asked, dict) and isinstance(asked.get("folder"), str):
                    return asked

    return wait


def _by_signal(folder: str) -> Callable[[], dict[str, Any]]:
    quit_ = {_signal.SIGQUIT}
    while _signal.sigtimedwait(quit_, 0):  # one that opened a gang's gate a second time
        pass

    def wait() -> dict[str, Any]:
        if _signal.sigtimedwait(quit_, KEPT) is None:
            with suppress(OSError):
                _remove_packed(folder)
            _signal.sigwait(quit_)
        return {}

    return wait


def _say(folder: str, told: dict[str, Any]) -> None:
    told = {"version": 1, "at": [time.time(), time.monotonic()], **told}
    aside = f"{folder}/.{STATE}.{os.getpid()}"
    for attempt in range(_TRIES):
        with suppress(OSError):
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode_in(folder))
            with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
                file.write(lean.dumps(told))
            os.replace(aside, f"{folder}/{STATE}")  # noqa: PTH105 - as above
            return
        if told["state"] == "ready":
            return
        time.sleep(attempt + 1)


_saver = _Saver()
