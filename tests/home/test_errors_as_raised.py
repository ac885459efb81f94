"""The error of a job's cell is what the cell raised, with all that it held."""

from __future__ import annotations

import re
import sys
import traceback
from functools import partial

import pytest
from submarine_engine import JobFailedError, JobNotFoundError, SubmarineError

CLASSES = """
class TwoArgumentsError(Exception):
    def __init__(self, code, why):
        super().__init__(f"{code}: {why}")
        self.code, self.why = code, why

class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class OwnBaseError(BaseException):
    pass
"""

HERE = """
class HereError(ValueError):
    def __init__(self, *both):
        self.both = both
raise HereError(1, 2)
"""


def raised(notebook, cell):
    notebook.run(CLASSES)
    with pytest.raises(JobFailedError) as caught:
        notebook.job(cell)
    assert sys.last_value is caught.value
    return caught.value


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("cell", "kind", "held"),
    [
        ("raise TwoArgumentsError(3, ['w'])", "TwoArgumentsError", {"code": 3, "why": ["w"]}),
        ("raise MuteError(1)", "MuteError", {"args": (1,)}),
        ("open('/no/such')", "FileNotFoundError", {"errno": 2, "filename": "/no/such"}),
        ("b'\\xff'.decode()", "UnicodeDecodeError", {"start": 0, "object": b"\xff"}),
        ("import no_such_module", "ModuleNotFoundError", {"name": "no_such_module"}),
        ("{}['k']", "KeyError", {"args": ("k",)}),
        ("raise KeyboardInterrupt('mine')", "KeyboardInterrupt", {"args": ("mine",)}),
        (
            HERE,
            "HereError",
            {"both": (1, 2)},
        ),
    ],
)
def test_it_is_of_the_same_type_and_holds_the_same(notebook, cell, kind, held):
    error = raised(notebook, cell)
    here = notebook.names.get(kind) or getattr(__import__("builtins"), kind)
    assert isinstance(error, here)
    assert {name: getattr(error, name) for name in held} == held
    assert error.__cause__ is None
    assert error.job_id in str(error)


@pytest.mark.parametrize(
    ("cell", "kind", "held"),
    [
        ("raise StopIteration(5)", StopIteration, {"value": 5}),
        ("exec('a b')", SyntaxError, {"filename": "<string>", "lineno": 1}),
        ("raise SystemExit('text')", SystemExit, {"code": "text"}),
    ],
)
def test_what_an_error_of_ours_cannot_be_is_its_cause(notebook, cell, kind, held):
    error = raised(notebook, cell)
    assert type(error.__cause__) is kind
    assert {name: getattr(error.__cause__, name) for name in held} == held


def test_a_base_exception_of_the_notebooks_is_the_cause(notebook):
    cause = raised(notebook, "raise OwnBaseError('x')").__cause__
    assert type(cause) is notebook["OwnBaseError"]
    assert cause.args == ("x",)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no groups yet")
def test_a_group_is_the_cause_with_its_parts_which_are_shown(notebook, capsys):
    error = raised(
        notebook,
        "raise ExceptionGroup('many', [TwoArgumentsError(1, 2), "
        "ExceptionGroup('in', [TypeError('b')])])",
    )
    first, second = error.__cause__.exceptions
    assert (type(first), first.why) == (notebook["TwoArgumentsError"], 2)
    assert [str(one) for one in second.exceptions] == ["b"]
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("TypeError") == 2  # in the code, and its part
    assert "1: 2" in shown.out


def test_causes_are_those_of_the_cell(notebook):
    notebook.run("data = [1]")
    error = raised(
        notebook,
        """
        try:
            {}["k"]
        except KeyError as missing:
            problem = ValueError("bad", data)
            problem.holds = data
            raise problem from missing
        """,
    )
    assert type(error.__cause__) is KeyError
    assert error.__cause__.args == ("k",)
    assert error.holds is error.args[1] is notebook["data"]


def test_what_cannot_be_pickled_is_left_out_alone(notebook):
    error = raised(
        notebook,
        "problem = ValueError('bad')\nproblem.file = open('/dev/null')\nraise problem",
    )
    assert isinstance(error, ValueError)
    assert error.args == ("bad",)
    assert not hasattr(error, "file")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no notes yet")
def test_a_note_is_shown_once(notebook, capsys):
    raised(notebook, "e = ValueError('v')\ne.add_note('a note')\nraise e")
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("a note") == 2  # in the code, and where it is read


@pytest.mark.parametrize(
    "cell",
    [
        "raise ValueError(f'not {secret}', [secret])",
        "error = ValueError('no'); error.__notes__ = [secret]; raise error",
        "raise StopIteration(secret)",
        "try:\n    {}[secret]\nexcept KeyError as error:\n    raise SystemExit(secret) from error",
        "secret.encode('utf-16').decode('ascii', secret)",
        "error = ValueError(); error.itself = [error, {1: secret}]; raise error",
    ],
)
def test_no_traceback_shows_a_secret_whoever_prints_it(notebook, monkeypatch, cell):
    monkeypatch.setenv("SECRET_WORD", "violet-zebra-99")
    monkeypatch.setattr(notebook, "job", partial(notebook.job, options="--secret SECRET_WORD"))
    notebook.run("import os; secret = os.environ['SECRET_WORD']")
    error = raised(notebook, cell)
    shown = "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))
    assert "violet-zebra-99" not in shown
    assert "<secret" in shown


def test_an_exception_among_its_own_arguments_is_made_once(notebook):
    # Of each link there would be six times as many as of the one before it.
    error = raised(notebook, "e = ValueError(); e.args = (e, [e], 1) + (e,) * 4; raise e")
    assert isinstance(error, ValueError)
    assert error.args[0] is error
    assert error.args[1] == [error]
    assert error.args[2] == 1


def test_a_cause_that_is_the_context_is_so_afterwards(notebook):
    cell = "try:\n    {}[1]\nexcept KeyError as e:\n    raise ValueError(e) from e"
    error = raised(notebook, cell)
    assert error.args[0] is error.__cause__
    assert error.__cause__ is error.__context__


@pytest.mark.parametrize("word", ["SystemExit(3)", "KeyboardInterrupt"])
def test_a_pickle_that_ends_the_process_does_not_hide_what_was_raised(notebook, word):
    cell = f"""
    class SelfishError(Exception):
        def __reduce__(self):
            raise {word}
    raise SelfishError(7)
    """
    error = raised(notebook, cell)
    assert (error.remote_type, error.args) == ("SelfishError", (7,))


def test_the_debugger_begins_at_the_cell(notebook):
    with pytest.raises(SubmarineError):
        notebook.run("%%submarine\nno_such_name")
    *_, last = traceback.walk_tb(sys.last_traceback)
    assert last[0].f_globals is notebook.names
    assert last[0].f_code.co_name == "<module>"


def test_the_debugger_begins_where_the_job_failed(notebook):
    with pytest.raises(ZeroDivisionError):
        notebook.run("%%submarine\nrate = 3\n1 / 0")
    *_, (frame, line) = traceback.walk_tb(sys.last_traceback)
    assert re.fullmatch(r"<In \[1\] of job \w+>", frame.f_code.co_filename)
    assert (frame.f_code.co_name, line, frame.f_globals["rate"]) == ("<module>", 3, 3)


def test_the_debugger_begins_at_the_line_that_asks(notebook):
    notebook.run("from submarine_engine import open_job")
    notebook.run("def look(name):\n    return open_job(name)")
    with pytest.raises(JobNotFoundError):
        notebook.run("look('no-such')")
    *_, last = traceback.walk_tb(sys.last_traceback)
    assert last[0].f_locals == {"name": "no-such"}
