"""Which status of HTTP an error is, and its words."""

from __future__ import annotations

from http import HTTPStatus

from submarine_engine.errors import ClusterError, CommandError, ConfigError, SubmarineError

_STATUS = {
    LookupError: HTTPStatus.NOT_FOUND,
    FileNotFoundError: HTTPStatus.NOT_FOUND,
    CommandError: HTTPStatus.BAD_REQUEST,
    ConfigError: HTTPStatus.CONFLICT,
    ClusterError: HTTPStatus.SERVICE_UNAVAILABLE,
    OSError: HTTPStatus.INTERNAL_SERVER_ERROR,
}


def status_of(error: Exception) -> HTTPStatus:
    """Return the status of an answer that tells of `error`; 409 for what a job's state forbids."""
    found = (code for kind, code in _STATUS.items() if isinstance(error, kind))
    return next(found, HTTPStatus.CONFLICT)


def told(error: Exception, where: str = "") -> dict[str, str]:
    """Return an error as the API tells it: ``what``, ``where`` and ``fix``.

    Parameters
    ----------
    error
        Whatever was raised; an error that nobody foresaw is told with its type.
    where
        What was asked for, for an error that does not know.
    """
    if isinstance(error, SubmarineError):
        return {"what": error.what, "where": error.where, "fix": error.fix}
    if isinstance(error, FileNotFoundError):
        what = "the job has no such file"
    elif isinstance(error, OSError):
        what, where = f"the disk says: {error.strerror or error}", ""
    else:
        what = f"{type(error).__name__}: {error}"
    return {"what": what, "where": where, "fix": ""}
