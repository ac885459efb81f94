"""Every error that Submarine raises on purpose.

::

    SubmarineError                  all of ours; says what, where, and what to do next
    ├── CommandError (ValueError)   a command line or option that does not parse
    │   └── ProgramError            a program that cannot be begun inside a job
    ├── ArgumentsError (TypeError)  arguments that the function of a job does not take
    ├── ConfigError (ValueError)    a configuration value that cannot be used
    ├── BundleError                 the cells cannot become a script (nothing was asked for yet)
    │   ├── CellSyntaxError         a cell does not parse
    │   ├── UndefinedNameError      a name that the job needs is defined nowhere
    │   ├── CannotTravelError       a value that cannot leave the notebook's process
    │   └── CaptureTooLargeError    the captured values exceed the size budget
    ├── FlowError (ValueError)      a notebook that cannot become a flow, or no sound flow
    ├── SubmissionError             the cluster refuses the job (nothing runs)
    │   ├── UnsupportedError        the job asks for what this cluster cannot do
    │   └── ResourcesError          the job asks for more than the cluster has
    ├── JobError                    about a job that was submitted
    │   ├── JobNotFoundError (LookupError)
    │   ├── JobFailedError          the job's code raised, exited or was killed
    │   ├── JobCancelledError       somebody cancelled the job
    │   ├── JobLostError            the job's supervisor vanished
    │   ├── SaveError               a running job's model could not be saved; the job goes on
    │   └── ResultError             the job succeeded, its result cannot be loaded here
    └── ClusterError                the cluster does not answer
        └── KerberosError           it wants Kerberos, and there is no ticket that it takes

Errors carry data: ``what`` happened, ``where`` (cell, line, job, host), the ``fix``; they pickle.
"""

from __future__ import annotations

import re
import sys
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from submarine_engine.bundle.model import CapturedValue
    from submarine_engine.traceback import Frame, Trace


# A command of the terminal within a text; the group is a verb that no notebook has.
_COMMAND = re.compile(
    r"(?<![\w%!./=-])submarine (?:job [a-z]+\b|(?:gpus|tensorboard|script|use|doctor|help|"
    r"(cluster|zeppelin))\b)"
)


class SubmarineError(Exception):
    """Base of all of Submarine's errors.

    Parameters
    ----------
    what
        What happened, one sentence.
    where
        The cell and line, job or host it happened at; empty where there is no such place.
    fix
        What to do next; empty only where nothing can be done.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n→ {self.fix}" if self.fix else text

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback: our frames would tell nobody a thing.

        The hook is IPython's (``InteractiveShell.showtraceback``); the error stays a real one.
        """
        _end_at_the_user(self)
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {in_a_notebook(str(self))}"]

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own __reduce__ would drop the keyword-only arguments.
        return _rebuild, (type(self), self.what, self.__dict__)


_OURS = re.compile(r"(submarine_(engine|magics)|IPython)\b")
"""Modules that stand between the user's line and the raise."""


def _end_at_the_user(error: BaseException) -> None:
    """Have ``%debug`` begin at the user's own line: the frames below it are ours and IPython's."""
    if getattr(sys, "last_value", None) is not error:
        return
    steps: list[types.TracebackType] = []
    step = error.__traceback__
    while step is not None:
        steps.append(step)
        step = step.tb_next
    while steps and _OURS.match(steps[-1].tb_frame.f_globals.get("__name__") or ""):
        steps.pop()
    if steps:
        below = getattr(error, "frames_below", None)
        ended: types.TracebackType | None = below() if below else None
        for step in reversed(steps):
            ended = types.TracebackType(ended, step.tb_frame, step.tb_lasti, step.tb_lineno)
        error.__traceback__ = sys.last_traceback = ended


def in_a_notebook(text: str) -> str:
    """Return the advice `text` with its commands as a cell runs them: ``%submarine job list``."""
    line = "%" if "submarine_magics" in sys.modules else "!"
    return _COMMAND.sub(lambda found: f"{'!' if found[1] else line}{found[0]}", text)


def _rebuild(kind: type[SubmarineError], what: str, state: dict[str, object]) -> SubmarineError:
    error = kind.__new__(kind, what)
    error.args = (what,)
    error.__dict__.update(state)
    return error


class CommandError(SubmarineError, ValueError):
    """A command line, an option or its value does not parse."""


class ProgramError(CommandError):
    """A program cannot be begun inside a running job.

    Attributes
    ----------
    exit_code
        What a shell says of it: 127 where there is none of that name, 126 where it cannot be run.
    """

    exit_code = 126


class ArgumentsError(SubmarineError, TypeError):
    """A function cannot be called with the arguments that it was given for its job."""


class ConfigError(SubmarineError, ValueError):
    """A configuration file or environment variable holds a value that cannot be used."""


class BundleError(SubmarineError):
    """The cells cannot become a training script; nothing was asked of a cluster."""


class CellSyntaxError(BundleError):
    """A cell does not parse as Python, or holds syntax that a script cannot hold."""


class UndefinedNameError(BundleError):
    """The job needs a name that neither a cell nor the notebook's kernel defines."""


class CannotTravelError(BundleError):
    """A value that the job needs cannot leave the notebook's process (open file, lock, …)."""


class CaptureTooLargeError(BundleError):
    """The values captured for the job exceed the size budget; the message lists the largest.

    Parameters
    ----------
    what, where, fix
        As in `SubmarineError`.
    values
        Everything that was captured, largest first. A size is the least that the value needs, since
        what is too large is not counted to its end.
    limit
        Bytes that all of them together may need.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        fix: str = "",
        values: Sequence[CapturedValue] = (),
        limit: int | None = None,
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.values = tuple(values)
        self.limit = limit


class FlowError(SubmarineError, ValueError):
    """A notebook cannot become a flow, or what is given as a flow is none that can run."""


class SubmissionError(SubmarineError):
    """The cluster refuses the job; nothing runs and nothing is held."""


class UnsupportedError(SubmissionError):
    """The job asks for something that this cluster cannot do."""


class ResourcesError(SubmissionError):
    """The job asks for more than this cluster has in all."""


class JobError(SubmarineError):
    """Something about a job that was submitted.

    Parameters
    ----------
    what, fix
        As of `SubmarineError`.
    job_id
        The job it is about.
    where
        As of `SubmarineError`; the job, unless given.
    """

    def __init__(self, what: str, *, job_id: str = "", where: str = "", fix: str = "") -> None:
        super().__init__(what, where=where or (f"job {job_id}" if job_id else ""), fix=fix)
        self.job_id = job_id


class JobNotFoundError(JobError, LookupError):
    """No job of that id or name is on record."""


class JobFailedError(JobError):
    """The job's code raised, exited with a code that is not 0, or was killed.

    Where the job raised a type of exception that this process knows (any built-in one, say
    `ValueError`), the error that is raised here is an instance of that type, too.

    Parameters
    ----------
    what, job_id, where, fix
        As of `JobError`.
    trace
        What the job raised with the user's own frames; None where there is none.

    Attributes
    ----------
    frames_below
        Gives the job's frames, for a debugger that begins at this error; None where nobody has
        looked for them.
    """

    def __init__(
        self,
        what: str,
        *,
        job_id: str = "",
        where: str = "",
        fix: str = "",
        trace: Trace | None = None,
    ) -> None:
        super().__init__(what, job_id=job_id, where=where, fix=fix)
        self.trace = trace
        self.frames_below: Callable[[], types.TracebackType | None] | None = None

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The user's own frames at cell and line, outermost first."""
        return self.trace.frames if self.trace else ()

    @property
    def remote_type(self) -> str:
        """Name of the exception's type in the job; empty where it raised none."""
        return self.trace.type if self.trace else ""

    @property
    def remote_message(self) -> str:
        """The exception's message in the job; empty where it raised none."""
        return self.trace.message if self.trace else ""

    def __str__(self) -> str:
        from submarine_engine.traceback import plain_lines  # noqa: PLC0415 - errors stand alone

        text = f"{self.where}: {self.what}" if self.where else self.what
        lines = [text, *(plain_lines(self.trace) if self.trace else ())]
        return "\n".join([*lines, f"→ {self.fix}"] if self.fix else lines)

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the job's own traceback, the user's frames alone."""
        from submarine_engine.traceback import notebook_lines  # noqa: PLC0415 - as above

        if self.trace is None:
            return super()._render_traceback_()
        _end_at_the_user(self)
        return notebook_lines(self.trace, self.what, in_a_notebook(self.fix))


class JobCancelledError(JobError):
    """The job was cancelled."""


class JobLostError(JobError):
    """The job's supervisor vanished without a last word (killed, or the machine went down)."""


class SaveError(JobError):
    """The model of a job could not be saved now; the job itself is as it was."""


class ResultError(JobError):
    """The job succeeded, but its result cannot be loaded in this process."""


class ClusterError(SubmarineError):
    """The cluster does not answer, or answers nonsense."""


class KerberosError(ClusterError):
    """The cluster wants Kerberos, and there is no ticket that it takes; the fix gets one."""
