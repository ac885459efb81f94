"""Which status of HTTP an error is."""

from __future__ import annotations

from http import HTTPStatus

from submarine_engine.errors import ClusterError, CommandError, ConfigError

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
