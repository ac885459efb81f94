"""Saves the model of a running job when somebody asks, by the function given to ``on_save``.

The function runs in a thread of its own, not in a signal's handler: a handler would stand between
any two instructions of the main thread, in the middle of a step as well, would wait for native code
to return, and could hold the training up for ever. Code that must not see a half-done step shares a
lock with the training loop.

Somebody asks by the message ``ask.json`` (`exchange`), which says where to write. On YARN and in a
pod the asker sees no folder of the container: the model lies there as pieces ``save.0000``, … of a
tar archive until it is fetched. ``save.json`` tells how far it is; it is there as soon as there is
a function.
"""

from __future__ import annotations

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

    from submarine_runtime.exchange import Carrier

    Function = TypeVar("Function", bound=Callable[[Path], object])

STATE = "save.json"
ASK = "ask.json"
PACKED = "save"
PLACE = "SUBMARINE_SAVE"
"""On YARN, and in a pod: the folder that models are written to before they are packed.

On YARN skein's credentials lie there, too, by which the container hears who asks.
"""

KEPT = 600.0
"""Seconds that a packed model lies ready to be fetched."""

_EVERY = 0.1  # seconds: a look at one file
_EVERY_CALL = 1.0  # seconds: a call of the application's master, which all its containers make
_TRIES = 3  # of telling how a save has ended: a disk that was full may have room again
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
        if name.startswith(f"{PACKED}.") and name[len(PACKED) + 1 :].isdecimal():
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
        questions = _SaveRequests(folder, self._bundle)
        _say(folder, {"state": "ready", "number": 0})
        self._owner = os.getpid()
        start_new_thread(self._serve, (folder, questions))

    def _serve(self, folder: str, questions: _SaveRequests) -> None:
        number = 0
        while True:
            asked = questions.next()
            number += 1
            head = {"number": number, "id": asked["id"]}
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
            return {"state": "done", **pack(target, f"{folder}/{PACKED}", mode_in(folder))}
        except BaseException:
            _remove_packed(folder)
            raise
        finally:
            standard("shutil", self._bundle).rmtree(target, ignore_errors=True)


class _SaveRequests:
    """Waits for the messages that ask for the model.

    Parameters
    ----------
    folder
        The task's.
    bundle
        Where the user's own modules lie.
    """

    def __init__(self, folder: str, bundle: str) -> None:
        self._folder = folder
        self._packs = PLACE in os.environ
        self._last = ""
        if self._packs and os.path.exists(f"{os.environ[PLACE]}/.skein.crt"):  # noqa: PTH110 - as above
            # Beside whatever modules of the user's: TLS takes a dozen of the library's own.
            standard("submarine_runtime.skein_store", bundle)
            store = sys.modules["submarine_runtime.skein_store"].Store
            self._carrier: Carrier = store(os.environ["SUBMARINE_JOB_ID"], os.environ[PLACE])
        else:
            from submarine_runtime.exchange import Files  # noqa: PLC0415 - where it is needed

            self._carrier = Files(folder)

    def next(self) -> dict[str, Any]:
        """Wait for the next question; what is none is passed over."""
        kept_until = time.monotonic() + KEPT if self._packs else 0.0
        while True:
            asked = self._question()
            if asked is not None and asked["id"] != self._last:
                self._last = asked["id"]
                return asked
            if kept_until and time.monotonic() > kept_until:
                kept_until = 0.0
                with suppress(OSError):
                    _remove_packed(self._folder)
            time.sleep(_EVERY_CALL if self._packs else _EVERY)

    def _question(self) -> dict[str, Any] | None:
        with suppress(OSError, ValueError, RecursionError):
            asked = lean.loads((self._carrier.hear(ASK) or b"").decode())
            if isinstance(asked, dict) and isinstance(asked.get("id"), str):
                if self._packs:
                    return {"id": asked["id"]}
                if isinstance(asked.get("folder"), str):
                    return asked
        return None


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
