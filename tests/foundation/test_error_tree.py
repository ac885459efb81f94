"""Errors carry what, where and the fix, also through pickle; the drawn tree is the real one."""

from __future__ import annotations

import pickle
import re

import pytest
from submarine_engine import errors
from submarine_engine.errors import JobError, JobFailedError, SubmarineError

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, SubmarineError)
}


def drawn() -> dict[str, tuple[str, ...]]:
    """Read the tree at the top of the module: class name to its bases."""
    tree, path = {}, []
    for line in errors.__doc__.splitlines():
        if found := re.fullmatch(r"    ([│├└─ ]*)(\w+Error)(?: \((\w+)\))?(?:  .*)?", line):
            depth = len(found[1]) // 4
            path[depth:] = [found[2]]
            parent = path[depth - 1] if depth else "Exception"
            tree[found[2]] = (parent, found[3]) if found[3] else (parent,)
    return tree


def test_the_tree_is_drawn_as_it_is():
    real = {name: tuple(base.__name__ for base in kind.__bases__) for name, kind in CLASSES.items()}
    assert drawn() == real


@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_every_error_says_when_it_is_raised(kind):
    assert kind.__doc__.strip()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_every_error_pickles_whole(kind, protocol):
    error = kind("it broke", where="In [3], line 2", fix="mend it")
    error.__cause__ = None
    again = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own bytes
    assert type(again) is kind
    assert (str(again), vars(again), again.args) == (str(error), vars(error), error.args)


def test_a_job_error_names_the_job_also_after_pickling():
    error = pickle.loads(pickle.dumps(JobFailedError("exit code 3", job_id="j")))  # noqa: S301
    assert (error.job_id, error.where) == ("j", "job j")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SubmarineError("it broke"), "it broke"),
        (SubmarineError("it broke", where="In [1]"), "In [1]: it broke"),
        (SubmarineError("it broke", fix="mend it"), "it broke\n→ mend it"),
        (JobError("it broke", job_id="x", fix="mend it"), "job x: it broke\n→ mend it"),
        (JobError("it broke", job_id="x", where="line 1"), "line 1: it broke"),
    ],
)
def test_the_text_says_where_what_and_the_fix(error, text):
    assert str(error) == text


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.CommandError, ValueError),
        (errors.ConfigError, ValueError),
        (errors.JobNotFoundError, LookupError),
    ],
)
def test_some_are_what_python_would_raise_too(kind, builtin):
    assert issubclass(kind, builtin)
