"""A module that has names of another one."""

from like_settings import TABLE, options


def told():
    """Return what it sees there."""
    return sum(TABLE["rows"]), TABLE["counts"], options.rate
