"""Runs one task from ``task.json`` to its end: the script, its value, its outcome.

`__main__` calls it, on YARN `container`. The script runs as ``python script.py`` would. At the end
nobody's clean-up can hold the GPUs: what is buffered is written out within a second, then every
process of the task is ended.
"""

from __future__ import annotations

import _ast

# The C half of `signal`: the other half imports enum, and the first line would wait for it.
import _signal  # type: ignore[import-not-found]
import builtins
import os
import sys
import time

from submarine_runtime import (
    display_hooks,
    displays,
    lean,
    moments,
    notices,
    progress_file,
    stacks,
)
from submarine_runtime.home import NAME, Ending, Home
from submarine_runtime.lean import suppress
from submarine_runtime.leave import die_by, leave, note_file, note_files
from submarine_runtime.outcome import MISSING, Outcome
from submarine_runtime.saving import PLACE

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from types import FrameType, ModuleType
    from typing import Any, NoReturn


# Runs a script as ``python script.py`` would, and takes the value of its last statement.


VALUE = "__submarine_value__"
_EXIT_INTERRUPTED = 130
"""What shells say of a program that was interrupted: 128 + SIGINT."""


def run_script(
    bundle: str,
    entry: str,
    outputs: list[str],
    args: list[str] | tuple[()] = (),
    home: Home | None = None,
) -> Ending:
    """Run the file `entry` of the folder `bundle` as ``__main__``.

    Parameters
    ----------
    outputs
        Names of variables to bring back, besides those that the last statement assigns or shows.
    args
        The script's arguments, as in ``sys.argv[1:]``.
    home
        Brings home what the script leaves behind, where a notebook waits for it.
    """
    path = os.path.join(bundle, entry)  # noqa: PTH118 - pathlib takes long to import
    owner = os.getpid()
    namespace = _become_main(path, bundle).__dict__
    sys.argv = [path, *args]
    if home is not None:
        home.enter(namespace)
    else:
        namespace[NAME] = _Begin(namespace)
    try:
        code, names = _compile(path, home)
        exec(code, namespace)  # noqa: S102 - this is what a runtime is for
    except BaseException as error:  # noqa: BLE001 - however the user's code ends
        _hear_no_more()
        ending = _ending_by(error, bundle)
    else:
        ending = Ending("returned", 0)
        ending.names = names
        ending.value = _value(namespace, names)
    if os.getpid() != owner:
        # A fork that ran on to the end of the script: not the task, so it ends as any child would.
        sys.exit(ending.exit_code)
    namespace.pop(NAME, None)
    ending.home = home
    if ending.exit_code == 0 and home is None:
        ending.outputs = {name: namespace.get(name, MISSING) for name in (*outputs, *names)}
    return ending


def _become_main(path: str, bundle: str) -> ModuleType:
    """Make the module that the script is, so that pickle and multiprocessing find it as theirs."""
    main = type(sys)("__main__")
    main.__file__ = path
    main.__dict__.update(__builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:
        sys.modules["__mp_main__"] = main
    sys.path.insert(0, bundle)
    return main


def _compile(path: str, home: Home | None) -> tuple[Any, tuple[str, ...]]:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes long to import
        source = file.read()
    tree: Any = compile(source, path, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    names = _take_value(tree.body)
    if home is not None:
        _call_home(tree.body, home)
    else:
        _mark_begin(tree.body)
    return compile(tree, path, "exec", dont_inherit=True), names


def _call_home(body: list[Any], home: Home) -> None:
    """Let the script tell its `Home` when values can be loaded and when the cell begins."""
    for index in reversed(range(len(body))):
        statement = body[index]
        if isinstance(statement, _ast.If) and _asks_for_main(statement.test):
            first = body[index]
            if not any(
                isinstance(one, _ast.If) and _asks_for_main(one.test) for one in body[:index]
            ):
                body.insert(index, _called("begin", first))
                home.hush()
        elif isinstance(statement, _ast.FunctionDef) and statement.name == home.loader:
            body.insert(index + 1, _called("trace", statement))


class _Begin:
    """Takes the place of `Home` for a script that no notebook waits for."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace

    def begin(self) -> None:
        """Note that the script's own statements come next; called right above them."""
        self._namespace.pop(NAME, None)
        progress_file.reach(progress_file.CODE)


def _mark_begin(body: list[Any]) -> None:
    """Let a script tell when its imports and definitions are through."""
    blocks = [at for at, one in enumerate(body) if isinstance(one, _ast.If)]
    main = (at for at in blocks if _asks_for_main(body[at].test))
    own = (at for at, one in enumerate(body) if not _is_above(one))
    place = next(main, next(own, None))
    if place is not None:
        body.insert(place, _called("begin", body[place]))


def _is_above(statement: Any) -> bool:  # noqa: ANN401 - any node
    """Return whether a statement stands above a script's own code: a constant does, too."""
    if isinstance(statement, (_ast.Assign, _ast.AnnAssign, _ast.Expr)):
        return statement.value is None or isinstance(statement.value, _ast.Constant)
    kinds = _ast.Import, _ast.ImportFrom, _ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef
    return isinstance(statement, kinds)


def _called(method: str, near: Any) -> Any:  # noqa: ANN401 - nodes
    at = {"lineno": near.lineno, "col_offset": 0, "end_lineno": near.lineno, "end_col_offset": 0}
    home = _ast.Name(NAME, _ast.Load(), **at)
    called = _ast.Call(_ast.Attribute(home, method, _ast.Load(), **at), [], [], **at)
    return _ast.Expr(called, **at)


def _take_value(body: list[Any]) -> tuple[str, ...]:
    """Make a closing expression assign to `VALUE`; return the names that the close brings back.

    Those are the names of a closing assignment, and variables of the same block that a closing
    expression merely shows (``history``, or ``model, history``), as a notebook's cell would.
    """
    last = body[-1] if body else None
    if isinstance(last, _ast.If) and _asks_for_main(last.test):
        return _take_value(last.body)
    if isinstance(last, _ast.Expr):
        places = ("lineno", "col_offset", "end_lineno", "end_col_offset")
        at = {name: getattr(last, name) for name in places}
        body[-1] = _ast.Assign([_ast.Name(VALUE, _ast.Store(), **at)], last.value, **at)
        shown = _shown(last.value)
        bound = {name for statement in body[:-1] for name in _assigned(statement)}
        return shown if bound.issuperset(shown) else ()
    return _assigned(last)


def _shown(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - any node
    """Return the variables that an expression is made of where it is nothing else."""
    items = value.elts if isinstance(value, _ast.Tuple) else [value]
    names = tuple(dict.fromkeys(item.id for item in items if isinstance(item, _ast.Name)))
    whole = len(names) == len(items) and (len(names) > 1 or items == [value])
    return names if whole else ()


def _assigned(statement: Any) -> tuple[str, ...]:  # noqa: ANN401 - any node
    if isinstance(statement, _ast.Assign):
        return tuple(dict.fromkeys(name for target in statement.targets for name in _names(target)))
    if isinstance(statement, (_ast.AugAssign, _ast.AnnAssign)) and statement.value:
        return tuple(_names(statement.target))
    return ()


def _names(target: Any) -> list[str]:  # noqa: ANN401 - any node
    if isinstance(target, _ast.Name):
        return [target.id]
    if isinstance(target, _ast.Starred):
        return _names(target.value)
    if isinstance(target, (_ast.Tuple, _ast.List)):
        return [name for item in target.elts for name in _names(item)]
    return []


def _asks_for_main(test: Any) -> bool:  # noqa: ANN401 - any node
    if not (isinstance(test, _ast.Compare) and isinstance(test.ops[0], _ast.Eq)):
        return False
    sides = [test.left, *test.comparators]
    return [getattr(side, "id", getattr(side, "value", None)) for side in sides] in (
        ["__name__", "__main__"],
        ["__main__", "__name__"],
    )


def _value(namespace: dict[str, Any], names: tuple[str, ...]) -> object:
    shown = namespace.pop(VALUE, None)
    if len(names) > 1:
        return tuple(namespace.get(name) for name in names)
    return namespace.get(names[0]) if names else shown


def _ending_by(error: BaseException, bundle: str) -> Ending:
    if isinstance(error, SystemExit):
        return _ending_by_exit(error)
    from submarine_runtime.failure import show  # noqa: PLC0415 - only where something failed

    if not (isinstance(error, KeyboardInterrupt) and error.args == (notices.ASKED_TO_END,)):
        show(error, bundle)
    code = _EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return Ending("raised", code, error)


def _ending_by_exit(error: SystemExit) -> Ending:
    """Do as Python does: None is success, a number the exit code, anything else goes to stderr."""
    code = error.code
    if code is None:
        code = 0
    if not isinstance(code, int):
        try:
            sys.stderr.write(f"{code}\n")
        except BaseException:  # noqa: BLE001 - a foreign __str__ raises what it likes
            sys.stderr.write(f"<{type(code).__name__}>\n")
        code = 1
    return Ending("exited", code & 0xFF, error)


# From ``task.json`` to the end of the task.


VERSION = 1
CANNOT_RUN = 127
TRY_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h: nobody answered, or there was no room."""


def main(folder: str) -> NoReturn:
    """Run the task whose plan is ``task.json`` in `folder`; leave with its exit code."""
    note_files()
    try:
        plan = _read_plan(f"{folder}/task.json")
        os.environ["SUBMARINE_ATTEMPT"] = str(plan.get("attempt", 1))
        os.chdir(plan["workdir"] if plan["command"] is None else plan["bundle"])
        outcome = Outcome(
            folder, plan["bundle"], plan.get("results", "results"), plan.get("key", "")
        )
        if plan.get("peers", 1) > 1:
            _meet(folder, plan, outcome)
            note_files()  # its ports are open now
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"submarine: the task cannot begin: {type(error).__name__}: {error}\n")
        leave(TRY_AGAIN if _is_full(error) else CANNOT_RUN)
    command = plan["command"]
    # Looked up now: the code may take them out of its environment.
    debug = plan.get("post_mortem")
    secrets = {name: os.environ.get(name, "") for name in debug["secrets"]} if debug else {}
    if plan.get("metrics"):
        from submarine_runtime.sampling import start_later  # noqa: PLC0415 - not where a driver does

        start_later(folder)
    if command is None and plan.get("ahead", {}).get("watch"):
        from submarine_runtime.imported_modules import record_imports  # noqa: PLC0415 - only where it is asked for

        note_file(record_imports(folder))

    def keep_frames(told: BaseException | FrameType) -> None:
        _keep_frames(told, folder, plan, secrets)

    if debug and command is None and plan.get("peers", 1) > 1:
        from submarine_runtime import peer_failed  # noqa: PLC0415 - of jobs of several tasks

        place = os.environ.get(PLACE)
        peer_failed.begin(place or folder, keep_frames, shell=bool(place))
    ending = _run_entry(plan, folder) if command is None else _run_command(command, folder)
    code = outcome.write(ending)
    if debug and code and ending.error is not None and _failed(ending.error):
        with suppress(BaseException):  # how the task ended is written
            keep_frames(ending.error)
    if plan.get("ahead"):
        from submarine_runtime.imported_modules import note  # noqa: PLC0415 - only where it is asked for

        note(folder)
    leave(code)


def _keep_frames(
    told: BaseException | FrameType, folder: str, plan: dict[str, Any], secrets: dict[str, str]
) -> None:
    """Keep what the frames of an exception held, or those of a thread that stands in a frame."""
    from submarine_runtime import post_mortem  # noqa: PLC0415 - only on a failure

    post_mortem.keep(
        told,
        f"{folder}/{plan.get('results', 'results')}",
        plan["bundle"],
        secrets,
        key=plan.get("key", ""),
        seconds=plan["post_mortem"].get("seconds", post_mortem.TIME),
    )


def _failed(error: BaseException) -> bool:
    """Return whether somebody may ask where it was: not of a job that was cancelled."""
    return not isinstance(error, KeyboardInterrupt) or error.args != (notices.ASKED_TO_END,)


def _is_full(error: Exception) -> bool:
    """Return whether there is no room now: on the disk, or for one more descriptor."""
    import errno  # noqa: PLC0415 - only where it comes to it

    full = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    return isinstance(error, OSError) and error.errno in full


def _meet(folder: str, plan: dict[str, Any], outcome: Outcome) -> None:
    """Wait for the other tasks of the job."""
    from submarine_runtime import exchange  # noqa: PLC0415 - of jobs of several tasks

    carrier = None
    if credentials := plan.get("credentials"):
        from submarine_runtime.skein_store import Store  # noqa: PLC0415 - of jobs on YARN

        carrier = Store(plan["job_id"], credentials)
    try:
        tasks = exchange.meet(folder, plan, carrier)
    except exchange.NobodyAnsweredError as error:
        sys.stderr.write(f"submarine: the task cannot begin: {error}\n")
        leave(TRY_AGAIN)
    finally:
        if carrier is not None:
            carrier.close()
    if plan.get("framework") == "none" or len({one["host"] for one in tasks.values()}) == 1:
        return
    from submarine_runtime import reach  # noqa: PLC0415 - of jobs on several hosts

    try:
        reach.check(tasks, plan["task"])
    except reach.UnreachableError as error:
        sys.stderr.write(f"submarine: the task cannot begin: {error}\n")
        leave(outcome.write(Ending("raised", 1, error)))


def _run_entry(plan: dict[str, Any], folder: str) -> Ending:
    import faulthandler  # noqa: PLC0415 - not for commands

    # A crash in native code leaves Python's stack in the log.
    faulthandler.enable()
    stacks.begin(os.environ.get(PLACE) or folder)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _signal.signal(_signal.SIGTERM, _interrupt)
    os.register_at_fork(before=_hold, after_in_child=_forget, after_in_parent=_let_go)
    told = plan.get("home")
    home = Home(plan["bundle"], told, plan["outputs"]) if told else None
    if home is not None and plan.get("peers", 1) > 1:
        from submarine_runtime.exchange import place  # noqa: PLC0415 - of jobs of several tasks

        home.first = place(folder).is_chief
    display_hooks.begin(folder, asks=bool(plan.get("asks")))
    if plan.get("peers", 1) > 1:
        from submarine_runtime import jax_cluster  # noqa: PLC0415 - of jobs of several tasks

        jax_cluster.join()
    if plan.get("moments"):
        moments.begin(folder)
    _name_cells(plan["bundle"])
    progress_file.note_start(folder, progress_file.SCRIPT)
    ending = run_script(plan["bundle"], plan["entry"], plan["outputs"], plan.get("args", ()), home)
    progress_file.flush_start()  # where it did not come to its code
    if "submarine_runtime.peer_failed" in sys.modules:
        sys.modules["submarine_runtime.peer_failed"].over()
    if display_hooks.finish():
        ending.at = [time.time(), time.monotonic()]
    # From here on no code of the user's waits for a last chance.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
    return ending


def _name_cells(bundle: str) -> None:
    """Have warnings name the cells that lines come from."""

    def name(module: Any) -> None:  # noqa: ANN401 - a module as it is
        plain = module._formatwarnmsg_impl  # noqa: SLF001 - what all ways to format end in

        def formatted(message: object) -> str:
            from submarine_runtime.cell_lines import warning_text  # noqa: PLC0415 - only to warn

            return warning_text(plain, message, bundle)

        module._formatwarnmsg_impl = formatted  # noqa: SLF001 - likewise

    if "warnings" in sys.modules:
        name(sys.modules["warnings"])
    else:
        display_hooks.after_import("warnings", name)


def _interrupt(_number: int, _frame: object) -> None:
    """Do as an interrupted notebook cell does, so that its ``except`` and ``finally`` run.

    A loop that keeps checkpoints comes to the end of its step first.
    """
    # Nothing is imported here: the signal may come while the same module is being imported.
    notices.come()
    checkpoints = sys.modules.get("submarine_runtime.checkpoints")
    if checkpoints is not None and checkpoints.notice.take():
        return
    raise KeyboardInterrupt(notices.ASKED_TO_END)


def _hear_no_more() -> None:
    """Let a second signal, of whoever ends the task as well, not interrupt how its end is told."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) in (_interrupt, _signal.default_int_handler):
            _signal.signal(number, lambda *_: None)


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


def _run_command(command: str, folder: str) -> Ending:
    """Run a shell command line, this interpreter first on its path."""
    progress_file.note_start(folder, progress_file.COMMAND)
    progress_file.flush_start()
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
        plan: dict[str, Any] = lean.loads(file.read())
    if plan["version"] != VERSION:
        raise ValueError(f"{path} is of version {plan['version']!r}, this runtime's is {VERSION}")
    return plan
