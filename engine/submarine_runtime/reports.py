"""``report(step, loss=…)`` for training code: of a trial to its sweep, else for the job's curves.

>>> from submarine_runtime import report
>>> for epoch in range(20):
...     report(epoch, loss=train_one_epoch())

A trial that is to end hears so at its next report. What `report` raises then is no `Exception`, so
that code which catches those ends all the same. Packages with loops of their own have a callback
each: `keras`, `lightning`, `transformers`, `xgboost`. They look whether the trial is to end as the
next epoch or step begins, when the package's own checkpoint of the last one is kept.
"""

from __future__ import annotations

import math
import os
import sys
from _thread import allocate_lock

from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from submarine_runtime.log_metrics import LogWatcher

_MOST_VALUES = 100
_LONGEST_NAME = 100

STOP, PAUSE = "stop", "pause"
_TELLING = allocate_lock()  # a trial's log is read by a thread


class Last:
    """What was reported last, by name, for the value of a trial whose code returns none."""

    values: dict[str, float] = {}  # noqa: RUF012 - of the process, as there is one trial in it
    step = -1
    paused = False

    @classmethod
    def forget(cls) -> None:
        """Begin another trial."""
        cls.values, cls.step, cls.paused = {}, -1, False


def in_trial() -> bool:
    """Return whether a trial of a sweep runs here."""
    return _running() is not None


def _running() -> Any:  # noqa: ANN401 - a `worker.Running`, of a module that is loaded in workers
    worker = sys.modules.get("submarine_runtime.worker")
    return None if worker is None else worker.current


def report(step: int | None = None, /, **values: float) -> None:
    """Say what the training has come to after a step.

    A sweep prunes by it, and takes the last one for the trial's value where the code returns none.
    Any other job has it in `Job.reported`. Outside a job it does nothing, so the same code runs in
    a plain cell.

    >>> report(epoch, loss=0.12, accuracy=0.93)

    Parameters
    ----------
    step
        The number of the step or epoch: whole, 0 or more, and each once. Unless given it is the one
        after the last.
    values
        Numbers by name, one at least, the objective among them. Those of torch, numpy, jax and
        TensorFlow are numbers, too.

    Raises
    ------
    TypeError, ValueError
        The step is no such number, or a value is no number.
    Ended
        The trial is pruned or paused. ``finally`` runs; ``except Exception`` does not see it.
    """
    if step is None and "step" in values:
        step = values.pop("step")  # type: ignore[assignment] # looked at below
    at = Last.step + 1 if step is None else _step(step)
    if not values:
        raise TypeError(f"report({'' if step is None else step}) says nothing: {_example(step)}")
    if len(values) > _MOST_VALUES:
        raise ValueError(
            f"report() was given {len(values)} values, {_MOST_VALUES} at most are kept"
        )
    told = {name: number(name, value) for name, value in values.items()}
    _tell(at, told)
    obey()


def _example(step: object) -> str:
    return f"write report({'epoch' if step is None else f'{step!r:.20}'}, loss=0.12)"


def _tell(step: int, told: Mapping[str, float]) -> None:
    """Tell numbers by name: a trial's to its sweep."""
    running = _running()
    Last.step = step
    if running is None:
        from submarine_runtime import reported  # noqa: PLC0415 - only who reports waits for it

        reported.note(step, told)
        return
    Last.values = {**Last.values, **told}
    _send(running, step, told)


def _send(running: Any, step: int, told: Mapping[str, float]) -> None:  # noqa: ANN401 - as `_running`
    # JSON has no word for what is no number.
    sent = {name: value if math.isfinite(value) else str(value) for name, value in told.items()}
    with _TELLING:
        running.report({"step": step, "values": sent, "keeps": _keeps()})


def _keeps() -> bool:
    """Return whether the trial can go on elsewhere from a checkpoint: a loop's, or its own."""
    checkpoints = sys.modules.get("submarine_runtime.checkpoints")
    if checkpoints is not None and checkpoints.notice.looked_at:
        return True
    folder = os.environ.get("SUBMARINE_CHECKPOINT_PATH", "").removeprefix("file://")
    with suppress(OSError, ValueError):
        return bool(folder) and bool(os.listdir(folder))  # noqa: PTH208 - pathlib takes long to import
    return False


def _word(running: Any) -> str:  # noqa: ANN401 - as `_running`
    if Last.paused:
        return ""
    with _TELLING:
        return str(running.word())


def obey() -> None:
    """End the trial where it was told to end.

    Raises
    ------
    Ended
        It is pruned or paused.
    """
    running = _running()
    if running is not None:
        _end(_word(running))


def _end(word: str) -> None:
    checkpoints = sys.modules.get("submarine_runtime.checkpoints")
    if word == PAUSE and checkpoints is not None and checkpoints.notice.take():
        Last.paused = True  # the loop keeps a checkpoint after this step, and ends then
    elif word in {STOP, PAUSE} and not Last.paused:
        raise sys.modules["submarine_runtime.worker"].Ended(word)


def log_watcher(names: Sequence[str], begin: Mapping[int, int]) -> LogWatcher:
    """Return what reports the numbers that a trial prints, where its code reports none itself.

    Parameters
    ----------
    names
        Of what is searched for.
    begin
        The descriptors of the log, and where the trial's own text begins in each.
    """
    from submarine_runtime.log_metrics import LogWatcher  # noqa: PLC0415 - where it is asked for

    running = _running()

    def tell(step: int, told: Mapping[str, float]) -> bool:
        if Last.step >= 0:
            return False
        _send(running, step, told)
        return True

    return LogWatcher(names, begin, tell=tell, told=lambda: _word(running), end=_end)


def _step(step: object) -> int:
    index = getattr(step, "__index__", None)
    if isinstance(step, dict):
        raise TypeError(f"report({step!r:.40}): write report(epoch, **{step!r:.40})")
    if isinstance(step, bool) or index is None:
        raise TypeError(f"report({step!r:.40}, …): the step is a whole number; {_example(None)}")
    number = int(index())
    if not 0 <= number < 1 << 53:
        raise ValueError(f"report({number}, …): the step is 0 or more")
    return number


def number(name: str, value: object) -> float:
    """Return a number, also of what holds one: a scalar of numpy, torch, jax or TensorFlow.

    Parameters
    ----------
    name
        What it is of.
    value
        A number, or what holds one.

    Raises
    ------
    TypeError, ValueError
        It is none, or the name is too long.
    """
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"report(…, {name:.40}…=…): the name is too long")
    # A text could be read as one, and would be wrong the day that it is "n/a".
    if not isinstance(value, (str, bytes, bool)):
        with suppress(TypeError, ValueError, OverflowError, RuntimeError):
            return float(value)  # type: ignore[arg-type] # what holds no number says so
    raise TypeError(f"report(…, {name}={value!r:.40}): a number is reported")


# Callbacks of packages that have loops of their own. Nothing of them is imported here: each is made
# where the package is there.


def keras() -> Any:  # noqa: ANN401 - a keras.callbacks.Callback
    """Return a callback for Keras's ``fit`` that reports each epoch's numbers.

    >>> model.fit(x, y, validation_data=(a, b), callbacks=[reports.keras()])
    """
    callbacks = _package("keras.callbacks", "tf_keras.callbacks", "tensorflow.keras.callbacks")

    class Report(callbacks.Callback):  # type: ignore[misc, name-defined] # of what is there
        """Reports each epoch's numbers."""

        def on_epoch_begin(self, _epoch: int, _logs: Any = None) -> None:  # noqa: ANN401 - Keras's
            """End where the trial is to end."""
            obey()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401 - Keras's
            """Report what Keras logs at an epoch's end."""
            _report_numbers(epoch, logs or {})

    return Report()


def lightning() -> Any:  # noqa: ANN401 - a Callback of Lightning
    """Return a callback for Lightning's ``Trainer`` that reports the metrics after each validation.

    A module without a validation is reported after each epoch of training.

    >>> Trainer(callbacks=[reports.lightning()]).fit(model, data)
    """
    package = _package("lightning.pytorch", "pytorch_lightning")

    class Report(package.Callback):  # type: ignore[misc, name-defined] # of what is there
        """Reports the metrics that the module has logged."""

        def on_train_batch_start(self, *_: Any) -> None:  # noqa: ANN401 - Lightning's
            """End where the trial is to end."""
            obey()

        def on_validation_end(self, trainer: Any, _module: Any) -> None:  # noqa: ANN401 - Lightning's
            """Report what a validation came to, but for the look that comes before all training."""
            if not trainer.sanity_checking:
                _report_numbers(trainer.current_epoch, trainer.callback_metrics)

        def on_train_epoch_end(self, trainer: Any, _module: Any) -> None:  # noqa: ANN401 - likewise
            """Report an epoch that no validation follows."""
            if not trainer.enable_validation:
                _report_numbers(trainer.current_epoch, trainer.callback_metrics)

    return Report()


def transformers() -> Any:  # noqa: ANN401 - a TrainerCallback
    """Return a callback for the ``Trainer`` of transformers that reports what it logs.

    That is each evaluation's metrics, and the training's own as often as these are logged.

    >>> Trainer(model, arguments, …, callbacks=[reports.transformers()]).train()
    """
    package = _package("transformers")

    class Report(package.TrainerCallback):  # type: ignore[misc, name-defined] # of what is there
        """Reports what the ``Trainer`` logs."""

        def on_step_begin(self, *_: Any, **_more: Any) -> None:  # noqa: ANN401 - as transformers calls it
            """End where the trial is to end."""
            obey()

        def on_log(
            self,
            _arguments: Any,  # noqa: ANN401 - as transformers calls it
            state: Any,  # noqa: ANN401 - likewise
            _control: Any,  # noqa: ANN401 - likewise
            logs: Any = None,  # noqa: ANN401 - likewise
            **_more: Any,  # noqa: ANN401 - likewise
        ) -> None:
            """Report what is logged."""
            _report_numbers(state.global_step, logs or {})

    return Report()


def xgboost() -> Any:  # noqa: ANN401 - a TrainingCallback
    """Return a callback for ``xgboost.train`` that reports each round, as ``test_logloss``.

    >>> xgboost.train(parameters, matrix, evals=[(test, "test")], callbacks=[reports.xgboost()])
    """
    callbacks = _package("xgboost.callback")

    class Report(callbacks.TrainingCallback):  # type: ignore[misc, name-defined] # of what is there
        """Reports each round's evaluations."""

        def before_iteration(self, *_: Any) -> bool:  # noqa: ANN401 - XGBoost's
            """End where the trial is to end."""
            obey()
            return False

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ANN401 - XGBoost's
            """Report a round, and let it go on."""
            told = {
                f"{data}_{metric}": history[-1]
                for data, metrics in evals_log.items()
                for metric, history in metrics.items()
            }
            # Of a booster that goes on XGBoost counts the new rounds alone. With cross-validation
            # each value is a mean and its deviation.
            rounds = getattr(model, "num_boosted_rounds", lambda: epoch + 1)()
            _report_numbers(
                rounds - 1, {k: v[0] if isinstance(v, tuple) else v for k, v in told.items()}
            )
            return False

    return Report()


def _report_numbers(step: int, logged: Any) -> None:  # noqa: ANN401 - a mapping of a package's own
    """Report those of a package's logs that are numbers, where there are any."""
    told = {}
    for name, value in logged.items():
        with suppress(TypeError, ValueError):  # what else it logs is its own business
            told[str(name)] = number(str(name), value)
    if told:
        _tell(_step(step), dict(list(told.items())[:_MOST_VALUES]))


def _package(*names: str) -> Any:  # noqa: ANN401 - a module
    """Return the first of the modules that is there; one that is imported already before others."""
    for name in sorted(names, key=lambda name: name not in sys.modules):
        with suppress(ImportError):
            __import__(name)
            return sys.modules[name]
    package = names[0].partition(".")[0]
    raise ImportError(f"{package} is not installed here: this callback is for trainings with it")
