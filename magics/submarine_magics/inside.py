"""``%submarine job exec``: a program inside a running job, its output as this cell's."""

from __future__ import annotations

import codecs
import sys

from submarine_engine.command import Command
from submarine_engine.history import JobPaths, default_home
from submarine_engine.inside import Session, command_words
from submarine_engine.masking import masker_of
from submarine_engine.records import open_job

from submarine_magics.show import say


def run_inside(command: Command) -> None:
    """Run the program of `command` inside its job; an interrupt of the cell is the program's.

    A notebook keeps what it shows, so the job's secrets are masked as they are in its log.
    """
    words = command_words(command.values.get("args", ()))
    job = open_job(command.values["job"])
    streams = {name: _Stream(name, job.id) for name in ("stdout", "stderr")}
    session = Session(job.cluster, job.id, {"argv": words}, command.values.get("task"))
    try:
        code = session.follow(lambda stream, data: streams[stream].write(data))
    finally:
        session.close()
        for stream in streams.values():
            stream.write(b"", last=True)
    if code:
        say(f"{words[0]} has ended with exit code {code}")


class _Stream:
    """Bytes of a program as text of this cell.

    Parameters
    ----------
    name
        ``stdout`` or ``stderr``.
    job_id
        Whose secrets are masked.
    """

    def __init__(self, name: str, job_id: str) -> None:
        self._name = name
        self._masker = masker_of(JobPaths(default_home(), job_id).root)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""

    def write(self, data: bytes, *, last: bool = False) -> None:
        """Show what may be shown now: the first half of a secret waits for its other half."""
        data, self._held = self._held + data, b""
        if self._masker is not None:
            # Every secret that begins before the cut is in it whole.
            data = self._masker.data(data)
            cut = len(data) if last else max(0, len(data) - self._masker.reach)
            data, self._held = data[:cut], data[cut:]
        if text := self._decoder.decode(data, final=last):
            stream = getattr(sys, self._name)
            stream.write(text)
            stream.flush()
