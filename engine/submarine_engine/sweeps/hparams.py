"""A sweep's trials for TensorBoard's HParams: parameters, what was reported, what each came to.

Each trial that is over has an event file in the log directory of the sweep's own job, written by
TensorBoard's own code; where that is not installed, nobody could look at one.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from submarine_engine.sweeps.study import TrialResult

_MOST_REPORTS = 1000


class HParams:
    """Writes what TensorBoard shows of a sweep.

    Parameters
    ----------
    folder
        The job's log directory; None for none.
    objectives
        Their names.
    """

    def __init__(self, folder: Path | None, objectives: Sequence[str]) -> None:
        self._folder = folder
        self._objectives = objectives
        there = folder.iterdir() if folder and folder.is_dir() else ()
        self._written = {run.name for run in there}
        self._writer: _Writer | None = None

    def ended(self, told: TrialResult) -> None:
        """Write down a trial that is over, once.

        Parameters
        ----------
        told
            What came of it.
        """
        run = f"trial-{told.number}"
        if self._folder is None or run in self._written:
            return
        self._written.add(run)
        try:
            self._writer = self._writer or _Writer()
        except ImportError:
            self._folder = None
            return
        with suppress(OSError):  # a full disk is no reason to end a sweep
            self._writer.write(self._folder / run, told, self._objectives)


class _Writer:
    """What of TensorBoard is needed, which takes some time to load."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it imports
            self._event: Any = import_module("tensorboard.compat.proto.event_pb2")
            self._summary: Any = import_module("tensorboard.compat.proto.summary_pb2")
            self._metadata: Any = import_module("tensorboard.plugins.hparams.metadata")
            self._data: Any = import_module("tensorboard.plugins.hparams.plugin_data_pb2")
            self._records: Any = import_module("tensorboard.summary.writer.record_writer")

    def write(self, folder: Path, told: TrialResult, objectives: Sequence[str]) -> None:
        """Write a trial's event file into a folder of its own.

        Raises
        ------
        OSError
            It cannot be written.
        """
        folder.mkdir(mode=0o700, exist_ok=True)
        now = time.time()
        begun = now - (told.seconds or 0)
        path = folder / f"events.out.tfevents.{int(begun)}.trial{told.number}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 - with its mode
            records = self._records.RecordWriter(file)
            for event in self._events(told, objectives, begun, now):
                records.write(event.SerializeToString())

    def _events(
        self, told: TrialResult, objectives: Sequence[str], begun: float, now: float
    ) -> Iterator[Any]:
        event = self._event.Event
        yield event(wall_time=begun, file_version="brain.Event:2")
        start = self._data.SessionStartInfo(
            group_name=f"trial-{told.number}", start_time_secs=begun
        )
        for name, value in told.params.items():
            kept = start.hparams[name]
            if isinstance(value, bool):
                kept.bool_value = value
            elif isinstance(value, (int, float)):
                kept.number_value = value
            else:
                kept.string_value = str(value)
        yield self._session("START", begun, session_start_info=start)
        for step, values in _scalars(told, objectives).items():
            shown = [
                self._summary.Summary.Value(tag=name, simple_value=value)
                for name, value in values.items()
            ]
            yield event(wall_time=now, step=step, summary=self._summary.Summary(value=shown))
        states = import_module("tensorboard.plugins.hparams.api_pb2")
        status = states.STATUS_FAILURE if told.state == "failed" else states.STATUS_SUCCESS
        end = self._data.SessionEndInfo(status=status, end_time_secs=now)
        yield self._session("END", now, session_end_info=end)

    def _session(self, which: str, at: float, **info: Any) -> Any:  # noqa: ANN401 - TensorBoard's
        value = self._summary.Summary.Value(
            tag=getattr(self._metadata, f"SESSION_{which}_INFO_TAG"),
            metadata=self._metadata.create_summary_metadata(self._data.HParamsPluginData(**info)),
            tensor=self._metadata.NULL_TENSOR,
        )
        return self._event.Event(wall_time=at, summary=self._summary.Summary(value=[value]))


def _scalars(told: TrialResult, objectives: Sequence[str]) -> Mapping[int, Mapping[str, float]]:
    """Return what is drawn: the reports by step, and what the trial came to behind the last."""
    reports = told.reports or {}
    steps = sorted(reports)
    drawn = steps[:: max(1, -(-len(steps) // _MOST_REPORTS))]
    found: dict[int, dict[str, float]] = {step: {objectives[0]: reports[step]} for step in drawn}
    final = dict(zip(objectives, told.values, strict=False))
    if final and not (drawn and final == found[drawn[-1]]):
        found[steps[-1] + 1 if steps else 0] = final
    return found
