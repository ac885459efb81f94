"""Exit codes: the job's own where a job ran; ours are those of ``sysexits.h``, which jobs leave be.

A script can tell "my code failed with 3" from "the cluster refused": no code means two things.
"""

from __future__ import annotations

from submarine_engine.errors import (
    BundleError,
    ClusterError,
    CommandError,
    ConfigError,
    JobCancelledError,
    JobLostError,
    JobNotFoundError,
    SubmarineError,
    SubmissionError,
)
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus

OK = 0
FAILED = 1
USAGE = 64  # EX_USAGE
NOT_BUNDLED = 65  # EX_DATAERR
NO_SUCH_JOB = 66  # EX_NOINPUT
REFUSED = 69  # EX_UNAVAILABLE
INTERNAL = 70  # EX_SOFTWARE
LOST = 71  # EX_OSERR
TRY_AGAIN = 75  # EX_TEMPFAIL
CONFIGURATION = 78  # EX_CONFIG
TIMED_OUT = 124  # as timeout(1)
INTERRUPTED = 130  # as a shell says of SIGINT
PIPE_CLOSED = 141  # as a shell says of SIGPIPE
CANCELLED = 143  # as a shell says of SIGTERM

_BY_ERROR: tuple[tuple[type[SubmarineError], int], ...] = (
    (CommandError, USAGE),
    (ConfigError, CONFIGURATION),
    (BundleError, NOT_BUNDLED),
    (SubmissionError, REFUSED),
    (JobNotFoundError, NO_SUCH_JOB),
    (JobCancelledError, CANCELLED),
    (JobLostError, LOST),
    (ClusterError, TRY_AGAIN),
)


def code_of_error(error: SubmarineError) -> int:
    """Return the exit code that stands for `error`."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), INTERNAL)


def code_of_job(status: JobStatus) -> int:
    """Return the exit code of a command whose job is over.

    Returns
    -------
    int
        0 where it succeeded; the code of the first task that failed (128 and the signal where a
        signal ended it), 1 where none is known; 143 where it was cancelled; 71 where it was lost.
    """
    if status.state is JobState.SUCCEEDED:
        return OK
    if status.state is JobState.CANCELLED:
        return CANCELLED
    if status.state is JobState.LOST:
        return LOST
    code = next((task.exit_code for task in status.tasks if task.exit_code), FAILED)
    return 128 - code if code < 0 else code & 0xFF or FAILED
