"""From ``task.json`` to the end of the task."""

from __future__ import annotations

# The C half of `signal`: the other half imports enum, and the first line would wait for it.
import _signal  # type: ignore[import-not-found]
import os
import sys
import time

from submarine_runtime import displays, moments, plainjson
from submarine_runtime.home import Home
from submarine_runtime.leave import die_by, leave, note_files
from submarine_runtime.outcome import Ending, Outcome
from submarine_runtime.script import run_script

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any, NoReturn

VERSION = 1
CANNOT_RUN = 127


def main(folder: str) -> NoReturn:
    """Run the task whose plan is ``task.json`` in `folder`; leave with its exit code."""
    note_files()
    try:
        plan = _read_plan(f"{folder}/task.json")
        os.chdir(plan["workdir"] if plan["command"] is None else plan["bundle"])
        outcome = Outcome(folder, plan["bundle"], plan.get("results", "results"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"submarine: the task cannot begin: {type(error).__name__}: {error}\n")
        leave(CANNOT_RUN)
    command = plan["command"]
    ending = _run_entry(plan, folder) if command is None else _run_command(command)
    code = outcome.write(ending)
    if plan.get("ahead"):
        from submarine_runtime.imported import note  # noqa: PLC0415 - only where it is asked for

        note(folder)
    leave(code)


def _run_entry(plan: dict[str, Any], folder: str) -> Ending:
    import faulthandler  # noqa: PLC0415 - not for commands

    # A crash in native code leaves Python's stack in the log.
    faulthandler.enable()
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _signal.signal(_signal.SIGTERM, _interrupt)
    os.register_at_fork(before=_hold, after_in_child=_forget, after_in_parent=_let_go)
    told = plan.get("home")
    home = Home(plan["bundle"], told, plan["outputs"]) if told else None
    displays.begin(folder, asks=bool(plan.get("asks")))
    if plan.get("moments"):
        moments.begin(folder)
    ending = run_script(plan["bundle"], plan["entry"], plan["outputs"], plan.get("args", ()), home)
    if displays.finish():
        ending.at = [time.time(), time.monotonic()]
    # From here on no code of the user's waits for a last chance.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
    return ending


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """Do as an interrupted notebook cell does, so that its ``except`` and ``finally`` run."""
    from submarine_runtime.failure import ASKED_TO_END  # noqa: PLC0415 - only where it comes to it

    raise KeyboardInterrupt(ASKED_TO_END)


_masks: list[set[int]] = []


def _hold() -> None:
    # A signal that comes to a child before `_forget` would be lost: Python forgets it there.
    _masks.append(_signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGTERM]))


def _let_go() -> None:
    _signal.pthread_sigmask(_signal.SIG_SETMASK, _masks.pop())


def _forget() -> None:
    """Let the signal end a forked child as it would end any process."""
    if _signal.getsignal(_signal.SIGTERM) is _interrupt:
        _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
    _let_go()


def _run_command(command: str) -> Ending:
    """Run a shell command line, this interpreter first on its path."""
    environment = dict(os.environ)
    programs = os.path.dirname(sys.executable)  # noqa: PTH120 - pathlib takes long to import
    environment["PATH"] = f"{programs}{os.pathsep}{environment.get('PATH', os.defpath)}"
    if environment.get("MPLBACKEND") == displays.INLINE:
        environment["MPLBACKEND"] = "Agg"  # a program of its own has no notebook to draw into
    home = sys.path[-1]
    if home == os.path.dirname(os.path.dirname(__file__)):  # noqa: PTH120 - likewise
        # It would not be found otherwise, see `__main__`.
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [environment.get("PYTHONPATH"), home])
        )
    # The whole group gets the signal; what the command makes of it is this task's end.
    _signal.signal(_signal.SIGTERM, lambda *_: None)
    _signal.signal(_signal.SIGINT, lambda *_: None)
    restored = [_signal.SIGPIPE, _signal.SIGXFSZ]  # Python ignores them, a program does not
    words = ["/bin/sh", "-c", command]
    pid = os.posix_spawn(words[0], words, environment, setsigdef=restored)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        die_by(-code)
    return Ending("exited", code)


def _read_plan(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes long to import
        plan: dict[str, Any] = plainjson.loads(file.read())
    if plan["version"] != VERSION:
        raise ValueError(f"{path} is of version {plan['version']!r}, this runtime's is {VERSION}")
    return plan
