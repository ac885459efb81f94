"""Runs the trials of a sweep, each a call of a pool's worker.

The script of such a worker ends in `serve`. A trial's code finds a folder of its own for
checkpoints and one for TensorBoard; what it returned, or reported last, is checked here, so that
nothing but numbers goes back.
"""

from __future__ import annotations

import os
import sys

from submarine_runtime import reports, worker
from submarine_runtime.lean import suppress, type_name

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

NUMBER = "SUBMARINE_TRIAL"
"""The variable that has a trial's number."""


def serve(
    function: Callable[..., Any],
    *known: Any,  # noqa: ANN401 - of any kind
    objectives: Sequence[str],
    choices: Mapping[str, Sequence[Any]] | None = None,
    from_log: bool = False,
    forks: bool = True,
) -> None:
    """Run `function` for each trial that comes, until there are no more.

    Parameters
    ----------
    function
        What each trial calls.
    known
        As `worker.serve` has them.
    objectives
        The names of what is searched for.
    choices
        What the parameters with values of any kind may be, by name: a trial is told which one.
    from_log
        Whether lines like ``loss: 0.12`` in a trial's log are looked at, too.
    forks
        Whether each trial runs in a process of its own.
    """
    trial = Trial(function, objectives, choices or {}, from_log=from_log, forks=forks)
    worker.serve(trial, *known, forks=forks)


class Trial:
    """Runs one trial after the other.

    Parameters
    ----------
    function, objectives, choices, from_log, forks
        As `serve` has them.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        objectives: Sequence[str],
        choices: Mapping[str, Sequence[Any]],
        *,
        from_log: bool = False,
        forks: bool = True,
    ) -> None:
        self._from_log = from_log
        self._forks = forks
        self._function = function
        self._objectives = objectives
        self._choices = choices

    def __call__(
        self, number: int, params: Mapping[str, Any], checkpoints: str | None
    ) -> dict[str, Any]:
        """Run one trial.

        Parameters
        ----------
        number
            Its own.
        params
            What it is given; of `choices` which one.
        checkpoints
            Where it keeps them; None where nothing is kept from one worker to the next.

        Returns
        -------
        dict
            ``values``, a number for each objective, or ``problem`` in words.
        """
        if not self._forks:
            _free()
        begin = _log_sizes()
        _prepare(number, checkpoints)
        given = {
            name: self._choices[name][value] if name in self._choices else value
            for name, value in params.items()
        }
        logged: Mapping[str, float] = {}
        if self._from_log:
            with reports.log_watcher(self._objectives, begin) as watcher:
                value = self._run(given)
            logged = watcher.last()
        else:
            value = self._run(given)
        return self._came_to(value, logged)

    def _run(self, given: Mapping[str, Any]) -> object:
        try:
            value = self._function(**given)
            if type(value).__name__ == "coroutine" and hasattr(value, "cr_await"):
                import asyncio  # noqa: PLC0415 - of coroutines

                value = asyncio.run(value)
        except KeyboardInterrupt:
            if reports.Last.paused:  # its loop has kept a checkpoint, and ended as it was asked
                raise worker.Ended(reports.PAUSE) from None
            raise
        except Exception as error:
            kind = type(error)
            if kind.__name__ == "TrialPruned" and kind.__module__.startswith("optuna."):
                raise worker.Ended(reports.STOP) from error  # as Optuna's users say it
            raise
        return value

    def _came_to(self, value: object, logged: Mapping[str, float]) -> dict[str, Any]:
        found = {}
        for place, name in enumerate(self._objectives):
            one = self._named(value, name, place)
            if one is None:
                one = reports.Last.values.get(name)
            if one is None:
                one = logged.get(name)
            if one is None:
                return {"problem": self._without(name, value), "lacks": name}
            try:
                found[name] = reports.number(name, one)
            except (TypeError, ValueError):
                kind = type(one).__name__
                return {"problem": f"{name} is {one!r:.60}, of type {kind}: no number"}
        return {"values": found}

    def _without(self, name: str, value: object) -> str:
        """Return in words that an objective has no value, and what there is in its place."""
        ways = f", nor is a line like `{name}: 0.12` in its log" if self._from_log else ""
        there = []
        if isinstance(value, dict):
            there.append(f"the dict that it returned has {_listed(value)}")
        elif value is not None:
            kind = type_name(value)
            there.append(f"it returned a {kind:.60}: return a number, or {{{name!r}: …}}")
        if reports.Last.values:
            there.append(f"its reports have {_listed(reports.Last.values)}")
        more = f" ({'; '.join(there)})" if there else ""
        return f"it has neither returned nor reported {name}{ways}{more}"

    def _named(self, value: object, name: str, place: int) -> object:
        """Return what a returned value says of an objective; None for nothing."""
        if isinstance(value, dict):
            return value.get(name)
        if isinstance(value, (tuple, list)) and len(value) == len(self._objectives) > 1:
            found: object = value[place]
            return found
        if value is None or len(self._objectives) > 1:
            return None
        if isinstance(value, str) or hasattr(value, "__float__"):
            return value
        return None  # a model, a history: what was reported counts


def _listed(names: Mapping[Any, object]) -> str:
    shown = [f"{name!s:.40}" for name in names]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{', '.join(shown[:_SHOWN]) or 'nothing'}{more}"


_SHOWN = 5


def _log_sizes() -> dict[int, int]:
    sizes = {}
    for descriptor in (2, 1):  # what stands on stdout counts where both say something
        with suppress(OSError):
            sizes[descriptor] = os.fstat(descriptor).st_size
    return sizes


def _free() -> None:
    """Let go of what the trial before in this process has left: its model may be on the GPU."""
    import gc  # noqa: PLC0415 - only without forks

    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None:
        with suppress(Exception):
            torch.cuda.empty_cache()


def _prepare(number: int, checkpoints: str | None) -> None:
    """Give a trial its own folders; forget what one before it in this process has left."""
    os.environ[NUMBER] = str(number)
    if checkpoints is None:
        os.environ.pop("SUBMARINE_CHECKPOINT_PATH", None)
    else:
        os.environ["SUBMARINE_CHECKPOINT_PATH"] = f"{checkpoints}/trial-{number}"
    global _logdir  # noqa: PLW0603 - of the process
    if _logdir is None:
        _logdir = os.environ.get("SUBMARINE_LOGDIR", "")
    if _logdir:
        os.environ["SUBMARINE_LOGDIR"] = f"{_logdir}/trial-{number}"
    global _outputs  # noqa: PLW0603 - likewise
    if _outputs is None:
        _outputs = os.environ.get("SUBMARINE_OUTPUT_PATH", "")
    if _outputs:
        os.environ["SUBMARINE_OUTPUT_PATH"] = f"{_outputs}/trial-{number}"
        with suppress(OSError):
            os.makedirs(os.environ["SUBMARINE_OUTPUT_PATH"], 0o700, exist_ok=True)  # noqa: PTH103 - pathlib is slow
    reports.Last.forget()
    loops = sys.modules.get("submarine_runtime.checkpoints")
    if loops is not None:
        loops.forget()


_logdir: str | None = None
_outputs: str | None = None
