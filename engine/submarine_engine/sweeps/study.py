"""A sweep's trials, as Optuna keeps them: a real study in a journal file, open to others meanwhile.

    optuna.load_study(study_name=…, storage=JournalStorage(JournalFileBackend("…/study.log")))

Optuna has every word about what is tried next and what is given up. Here stands what it leaves to
whoever runs the trials: each is asked for once and told once, whatever is killed in between.
"""

from __future__ import annotations

import importlib
import json
import math
import random
import sys
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_runtime.call_frames import append

from submarine_engine.errors import SubmarineError
from submarine_engine.extras import install_extra
from submarine_engine.outcome import clean
from submarine_engine.sweeps.plan import SweepPlan
from submarine_engine.sweeps.space import Space

if TYPE_CHECKING:
    import optuna
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

STUDY_FILE = "study.log"
ERROR = "submarine:error"
RETRY_OF = "submarine:retry_of"
SECONDS = "submarine:seconds"

_GRACE = 10  # seconds; a lock whose holder was killed is given up after that long
_LONGEST_ERROR = 2000
_LONGEST_TRIAL = 1e9
_RUNG = 1  # the step from which halving and Hyperband may stop a trial


class StudyError(SubmarineError):
    """A sweep's study cannot be read, or is another sweep's."""


@dataclass(frozen=True, slots=True)
class OpenTrial:
    """A trial that is to run.

    Parameters
    ----------
    number
        Its number in the study.
    params
        What its code is given, by name.
    """

    number: int
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What came of a trial, or has so far.

    Parameters
    ----------
    number
        Its number in the study.
    state
        ``complete``, ``pruned``, ``failed``, ``running`` or ``waiting``.
    params
        As the code was given them.
    values
        One for each objective; none where there are none.
    error
        What it failed with, in words.
    seconds
        How long its code ran.
    reports
        The first objective by step.
    retry_of
        The failed trial that this one tries again.
    """

    number: int
    state: str
    params: Mapping[str, Any]
    values: tuple[float, ...]
    error: str = ""
    seconds: float | None = None
    reports: Mapping[int, float] | None = None
    retry_of: int | None = None

    @property
    def value(self) -> float | None:
        """The first objective's value; None where there is none."""
        return self.values[0] if self.values else None

    def value_of(self, place: int) -> object:
        """Return an objective's value, or else the last report of the first one; else nothing.

        Parameters
        ----------
        place
            Which objective.
        """
        if self.values:
            return self.values[place]
        return self.reports[max(self.reports)] if self.reports and not place else ""


def import_optuna(sampler: str = "") -> Any:  # noqa: ANN401 - a module
    """Return Optuna, quiet.

    Parameters
    ----------
    sampler
        Which one is to be used; Optuna does not bring along all that they need.

    Raises
    ------
    SubmarineError
        It is not installed, or the sampler's package is not.
    """
    if sampler == "cmaes" and find_spec("cmaes") is None:
        raise SubmarineError(
            "the sampler cmaes needs the package cmaes, which is not installed",
            fix=f"{install_extra('sweep')}, or take another sampler",
        )
    try:
        import optuna  # noqa: PLC0415 - where a sweep is made
    except ImportError as error:
        raise SubmarineError(
            f"a sweep's search is Optuna's, which cannot be imported: {error}",
            fix=install_extra("sweep"),
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class Study:
    """The trials of one sweep, for whoever runs them; there is one such at a time.

    Parameters
    ----------
    folder
        The sweep's.
    name
        Of the study: the sweep's id.
    plan, space
        What is asked, and of what.

    Raises
    ------
    StudyError
        The file is damaged, or another sweep's.
    SubmarineError
        Optuna is not installed.
    """

    def __init__(self, folder: Path, name: str, plan: SweepPlan, space: Space) -> None:
        self._optuna = import_optuna()
        self._plan = plan
        self._space = space
        self._distributions = space.distributions()
        path = self._path = folder / STUDY_FILE
        path.touch(mode=0o600)
        lock = _lock(path)
        lock.acquire()  # another program of Optuna's may be about to write there
        try:
            _cut_torn(path)
        finally:
            lock.release()
        self._study = _open(self._optuna, path, name, plan)
        self._storage = self._study._storage  # noqa: SLF001 - of `Study`; its calls are public
        self._study.pruner = _pruner(self._optuna, plan)
        self._grid = _Grid(space, plan.seed) if plan.searches_by == "grid" else None

    def ask(self) -> OpenTrial:
        """Begin one more trial, and return it."""
        self._study.sampler = self._sampler(self._count())
        if self._grid is not None and not self._waiting():
            self._study.enqueue_trial(self._grid.point(self._count() - self.retries()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Optuna, about what it may change
            trial = self._study.ask(self._distributions)
        return self._open_trial(trial.number, trial.params)

    def running(self) -> tuple[OpenTrial, ...]:
        """Return the trials that were begun and not told yet, for whoever takes over.

        One that has parameters which are not searched is another program's.
        """
        return tuple(
            self._open_trial(trial.number, self._params(trial))
            for trial in self._trials()
            if trial.state == self._optuna.trial.TrialState.RUNNING
            and trial.params.keys() <= self._distributions.keys()
        )

    def check(self, numbers: Collection[int]) -> None:
        """Refuse a file that has not all of the trials that are known to have begun.

        Parameters
        ----------
        numbers
            Theirs.

        Raises
        ------
        StudyError
            The file was cut off: other parameters would get their numbers, values and checkpoints.
        """
        trials = self._trials()
        lost = [
            number
            for number in sorted(numbers)
            if number >= len(trials)
            or not self._distributions.keys() <= trials[number].params.keys()
        ]
        if lost:
            raise StudyError(
                f"the study's file is cut off: trial {lost[0]} has begun, and is there no more",
                where=str(self._path),
                fix="restore it, or begin a new sweep; open_sweep() has what stands before the cut",
            )

    def begun(self) -> int:
        """Return how many trials were begun so far, those that are to be tried again aside."""
        waits = self._optuna.trial.TrialState.WAITING
        return sum(trial.state != waits for trial in self._trials())

    def retries(self) -> int:
        """Return how many trials are, or were, failed ones that are tried again."""
        return sum(_retry_of(trial) is not None for trial in self._trials())

    def waiting(self) -> int:
        """Return how many trials are in line to be tried again."""
        return len(self._waiting())

    def report(self, number: int, step: int, value: float) -> bool:
        """Note what a trial reported; return whether it is to be pruned.

        Parameters
        ----------
        number
            The trial's.
        step
            As it was reported; of one step the first word counts.
        value
            The objective's.
        """
        if self._plan.several:
            return False
        trial = self._trial(number)
        if trial.state.is_finished():
            return False
        if step not in trial.intermediate_values:
            self._storage.set_trial_intermediate_value(trial._trial_id, step, value)  # noqa: SLF001 - its key
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(self._study.pruner.prune(self._study, self._trial(number)))

    def tell(
        self,
        number: int,
        values: Sequence[float] | None,
        *,
        error: str = "",
        seconds: float | None = None,
    ) -> bool:
        """Say how a trial ended, once; return whether this was news.

        Parameters
        ----------
        number
            The trial's.
        values
            One for each objective; None where it was pruned or has failed.
        error
            What it failed with; it was pruned where empty and there are no values.
        seconds
            How long it ran.
        """
        trial = self._trial(number)
        if trial.state.is_finished():
            return False
        states = self._optuna.trial.TrialState
        notes = {ERROR: error[:_LONGEST_ERROR] or None, SECONDS: seconds}
        for key, note in notes.items():
            if note is not None:
                self._storage.set_trial_user_attr(trial._trial_id, key, note)  # noqa: SLF001 - its key
        state = states.FAIL if error else states.PRUNED if values is None else states.COMPLETE
        self._study.sampler = self._sampler(number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = list(values) if values is not None and not error else None
            self._study.tell(number, told, state=state, skip_if_finished=True)
        return True

    def again(self, numbers: Sequence[int]) -> int:
        """Put the parameters of failed trials in line once more; return how many.

        Parameters
        ----------
        numbers
            Theirs; one that is in line, or was tried again by now, is passed over.
        """
        tried = {_retry_of(trial) for trial in self._trials()}
        fresh = [number for number in numbers if number not in tried]
        for number in fresh:
            params = dict(self._trial(number).params)
            self._study.enqueue_trial(params, user_attrs={RETRY_OF: number})
        return len(fresh)

    def results(self) -> tuple[TrialResult, ...]:
        """Return all trials, in the order of their numbers."""
        return tuple(trial_result(trial, self._space) for trial in self._trials())

    def result_of(self, number: int) -> TrialResult:
        """Return one trial, by its number."""
        return trial_result(self._trial(number), self._space)

    def some(self, numbers: Sequence[int]) -> tuple[TrialResult, ...]:
        """Return some trials, those of these numbers that there are.

        Parameters
        ----------
        numbers
            Theirs.
        """
        trials = self._trials()
        return tuple(
            trial_result(trials[number], self._space)
            for number in dict.fromkeys(numbers)
            if number < len(trials)
        )

    def best(self) -> tuple[TrialResult, ...]:
        """Return the best trial; of several objectives all that no other beats in each."""
        return best_of(self._study, self._space)

    def importance(self) -> tuple[tuple[str, float], ...]:
        """Return how much each parameter matters to the first objective, as Optuna computes it.

        By PED-ANOVA, which needs no other package and takes some hundredths of a second for a
        thousand trials. Names and parts of 1, the largest first; none where Optuna has no answer.
        """
        importance = _importance_module()
        # Of several objectives it takes a small value for a good one.
        sign = -1 if self._plan.objectives[0][1] == "maximize" else 1
        first = (lambda trial: sign * trial.values[0]) if self._plan.several else None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = importance.get_param_importances(
                    self._study,
                    evaluator=importance.PedAnovaImportanceEvaluator(),
                    target=first,
                )
        except (AttributeError, ValueError, RuntimeError, ArithmeticError):
            return ()  # of an older release, or all values are the same
        told = ((name, float(part)) for name, part in found.items())
        return tuple((name, part) for name, part in told if math.isfinite(part))

    def pruned_first(self, number: int) -> float:
        """Return how badly a trial does by its last report: the more, the sooner it may go.

        Parameters
        ----------
        number
            The trial's. One that has not reported says nothing of itself, and goes last.
        """
        values = self._trial(number).intermediate_values
        last = values[max(values)] if values else math.nan
        if math.isnan(last):
            return -math.inf
        return -last if self._plan.objectives[0][1] == "maximize" else last

    def _trials(self) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._study._study_id, deepcopy=False)  # noqa: SLF001 - its key

    def _trial(self, number: int) -> FrozenTrial:
        return self._trials()[number]

    def _count(self) -> int:
        return len(self._trials())

    def _waiting(self) -> list[FrozenTrial]:
        waits = self._optuna.trial.TrialState.WAITING
        return [trial for trial in self._trials() if trial.state == waits]

    def _params(self, trial: FrozenTrial) -> Mapping[str, object]:
        """Return a trial's parameters; those are sampled now that a kill came before."""
        if self._distributions.keys() <= trial.params.keys():
            return trial.params
        self._study.sampler = self._sampler(trial.number)
        made = self._optuna.trial.Trial(self._study, trial._trial_id)  # noqa: SLF001 - its key
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {
                name: made._suggest(name, distribution)  # noqa: SLF001 - what `ask` does
                for name, distribution in self._distributions.items()
            }

    def _open_trial(self, number: int, params: Mapping[str, object]) -> OpenTrial:
        return OpenTrial(number, self._space.values(params))

    def _sampler(self, number: int) -> BaseSampler:
        """Return the sampler for one trial.

        What it has learned is in the study. Its random numbers are the trial's own: one that began
        anew with the seed after a kill would give the first trials' parameters once more.
        """
        samplers = self._optuna.samplers
        seed = None if self._plan.seed is None else (self._plan.seed * 1_000_003 + number) % 2**32
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made: BaseSampler = {
                # The trials that run count as bad ones meanwhile, so that those beside each other
                # do not try the same.
                "tpe": lambda: samplers.TPESampler(seed=seed, constant_liar=True),
                "random": lambda: samplers.RandomSampler(seed=seed),
                "grid": lambda: samplers.RandomSampler(seed=seed),
                "cmaes": lambda: samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
                "nsgaii": lambda: samplers.NSGAIISampler(seed=seed),
            }[self._plan.searches_by]()
        return made


class _Grid:
    """The points of a grid in an order of their own: the number of a trial says which it is.

    Optuna's own sampler of grids writes all of it beside each trial, and ends an `optimize` that
    is not there.
    """

    def __init__(self, space: Space, seed: int | None) -> None:
        self._values = space.grid()
        self._order = list(range(space.grid_size()))
        random.Random(seed or 0).shuffle(self._order)  # noqa: S311 - no secret

    def point(self, number: int) -> dict[str, Any]:
        left = self._order[number % len(self._order)]
        point = {}
        for name, values in self._values.items():
            left, at = divmod(left, len(values))
            point[name] = values[at]
        return point


def _pruner(optuna: Any, plan: SweepPlan) -> Any:  # noqa: ANN401 - of a module that may not be there
    pruners = optuna.pruners
    return {
        "median": lambda: pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=_RUNG),
        "halving": lambda: pruners.SuccessiveHalvingPruner(min_resource=_RUNG),
        "hyperband": lambda: pruners.HyperbandPruner(min_resource=_RUNG),
        "none": pruners.NopPruner,
    }[plan.prunes_by]()


def _importance_module() -> Any:  # noqa: ANN401 - of a module that may not be there
    """Return Optuna's module of importance, without what its other ways of computing it need.

    Where scikit-learn is installed it would be imported with it, in seconds in which no trial
    would begin; Optuna goes without where it is not there.
    """
    name = "optuna.importance"
    if name not in sys.modules:
        kept = {one: sys.modules[one] for one in _NOT_NEEDED if one in sys.modules}
        try:
            for one in _NOT_NEEDED:
                sys.modules.setdefault(one, None)  # type: ignore[arg-type] # "not there", to import
            importlib.import_module(name)
        finally:
            for one in _NOT_NEEDED:
                if one not in kept:
                    del sys.modules[one]
    return sys.modules[name]


_NOT_NEEDED = ("sklearn", "scipy")


def open_storage(folder: Path) -> Any:  # noqa: ANN401 - of a module that may not be there
    """Return Optuna's storage over a sweep's file.

    Parameters
    ----------
    folder
        The sweep's.
    """
    import_optuna()
    from optuna.storages import JournalStorage  # noqa: PLC0415 - where it is there
    from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415 - likewise

    path = str((folder / STUDY_FILE).absolute())
    lock = _lock(Path(path))

    class Backend(JournalFileBackend):
        """Optuna's file, with its lock and its lines, and no wait for the disk at each word.

        That is some milliseconds, four times a trial. What a kill leaves is in the file either way;
        what a machine leaves that goes down is as much as of the pool's journal.
        """

        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            text = "".join(f"{json.dumps(log, separators=(',', ':'))}\n" for log in logs)
            lock.acquire()
            try:
                with Path(path).open("ab", buffering=0) as file:
                    append(file.fileno(), text.encode())
            finally:
                lock.release()

    return JournalStorage(Backend(path, lock))


def _lock(path: Path) -> Any:  # noqa: ANN401 - of a module that may not be there
    from optuna.storages.journal import JournalFileSymlinkLock  # noqa: PLC0415 - where it is there

    # Absolute: it is a link beside the file that names it.
    return JournalFileSymlinkLock(str(path.absolute()), _GRACE)


def _open(optuna: Any, path: Path, name: str, plan: SweepPlan) -> optuna.Study:  # noqa: ANN401
    """Open the study in `path`, or make it in a file that holds none."""
    fix = "a sweep's file is its own: restore it, or begin a new sweep"
    try:
        storage = open_storage(path.parent)
        names = [summary.study_name for summary in optuna.get_all_study_summaries(storage)]
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise StudyError(
            f"the study's file is damaged: {error}", where=str(path), fix=fix
        ) from None
    if not names:
        ways = [way for _, way in plan.objectives]
        made = optuna.create_study(study_name=name, storage=storage, directions=ways)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Optuna, about what it may change
            made.set_metric_names([one for one, _ in plan.objectives])
        return made  # type: ignore[no-any-return] # of a module that may not be there
    if name not in names:
        raise StudyError(
            f"the file holds the study {names[0]!r:.60}, not this sweep's", where=str(path), fix=fix
        )
    return optuna.load_study(study_name=name, storage=storage)  # type: ignore[no-any-return] # likewise


def _cut_torn(path: Path) -> None:
    """Cut off the half of a line at the end, where a writer was killed: Optuna reads no further."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        at = size
        while at > 0:
            begin = max(0, at - 4096)
            file.seek(begin)
            newline = file.read(at - begin).rfind(b"\n")
            if newline >= 0:
                at = begin + newline + 1
                break
            at = begin
        if at != size:
            file.truncate(at)


def trial_result(trial: FrozenTrial, space: Space) -> TrialResult:
    """Return what a study has of a trial, in our words.

    Parameters
    ----------
    trial
        Of Optuna.
    space
        The sweep's.
    """
    state = trial.state.name.lower()
    return TrialResult(
        trial.number,
        "failed" if state == "fail" else state,
        _params_of(trial, space),
        tuple(trial.values) if state == "complete" else (),
        clean(str(trial.user_attrs.get(ERROR, ""))[:_LONGEST_ERROR]),
        _seconds_of(trial),
        dict(trial.intermediate_values),
        _retry_of(trial),
    )


# Other programs may write into the file, too: trials of their own, and notes on ours.


def _params_of(trial: FrozenTrial, space: Space) -> Mapping[str, Any]:
    try:
        return space.values(trial.params)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError):
        return dict(trial.params)


def _seconds_of(trial: FrozenTrial) -> float | None:
    noted = trial.user_attrs.get(SECONDS)
    # Beyond that it is no time that anything took; NaN is no number that compares.
    told = isinstance(noted, (int, float)) and 0 <= noted < _LONGEST_TRIAL
    return float(noted) if told else None  # type: ignore[arg-type] # a number


def _retry_of(trial: FrozenTrial) -> int | None:
    noted = trial.user_attrs.get(RETRY_OF)
    return noted if type(noted) is int else None


def best_of(study: optuna.Study, space: Space) -> tuple[TrialResult, ...]:
    """Return the best trial of a study; of several objectives all that no other beats in each.

    Parameters
    ----------
    study
        Of Optuna.
    space
        The sweep's.
    """
    if len(study.directions) > 1:
        return tuple(trial_result(trial, space) for trial in study.best_trials)
    try:
        return (trial_result(study.best_trial, space),)
    except ValueError:  # none is complete
        return ()
