"""An exception that a cell keeps comes home as it was: attributes, notes, cause and context."""

import sys

CLASSES = """
import json

class Stop(Exception):
    def __init__(self, step, *, best):
        self.step, self.best = step, best

class Http(OSError):
    def __init__(self, code):
        super().__init__(code, f"text {code}")
        self.code = code
"""

CATCH = """
errors = []
ways = [
    lambda: Stop(3, best=[1]), lambda: Http(404), lambda: open("/nonexistent/file"),
    lambda: json.loads("{"), lambda: bytes([255]).decode(), lambda: {}["key"],
    lambda: __import__("no_such_module"),
]
for way in ways:
    try:
        raise way()
    except Exception as error:
        error.seen = True
        errors.append(error)
"""


def told(errors):
    return [
        (type(one).__name__, str(one), one.args, vars(one), [type(e) for e in (one.__cause__,)])
        for one in errors
    ]


def test_exceptions_are_as_they_were(notebook):
    notebook.run(CLASSES)
    notebook.run(CATCH)
    plain = told(notebook["errors"])
    notebook.run("del errors")
    notebook.job(CATCH)
    errors = notebook["errors"]
    assert told(errors) == plain
    assert (errors[2].errno, errors[2].filename) == (2, "/nonexistent/file")
    assert (errors[3].lineno, errors[4].start) == (1, 0)
    assert errors[6].name == "no_such_module"


def test_what_led_to_an_exception(notebook):
    notebook.run(CLASSES)
    notebook.job(
        """
        try:
            try:
                1 / 0
            except ZeroDivisionError as inner:
                raise Stop(1, best=[]) from inner
        except Stop as error:
            kept = error
        if hasattr(kept, "add_note"):
            kept.add_note("a note")
        """
    )
    kept = notebook["kept"]
    assert isinstance(kept.__cause__, ZeroDivisionError)
    assert kept.__context__ is kept.__cause__
    assert kept.__suppress_context__
    if sys.version_info >= (3, 11):
        assert kept.__notes__ == ["a note"]


def test_an_exception_of_the_notebook_is_changed_in_place(notebook):
    notebook.run(
        CLASSES + "error = Stop(1, best=[1])\nerror.old = 1\nerror.__cause__ = KeyError(2)"
    )
    error, best = notebook["error"], notebook["error"].best
    notebook.job(
        "error.best.append(2)\nerror.new, cause = error.step, repr(error.__cause__)\ndel error.old"
    )
    assert notebook["error"] is error
    assert vars(error) == {"step": 1, "best": [1, 2], "new": 1}
    assert error.best is best
    assert notebook["cause"] == "KeyError(2)"
    assert repr(error.__cause__) == "KeyError(2)"


def test_a_class_with_a_way_of_its_own_is_pickled_by_that(notebook):
    notebook.run(
        """
        class Own(Exception):
            def __init__(self, code, text):
                super().__init__(f"{code}: {text}")
                self.code, self.text = code, text
            def __reduce__(self):
                return Own, (self.code, self.text)
        """
    )
    notebook.job("kept = Own(1, 'bad')\nkept.more = 5\nkept.__cause__ = KeyError(2)")
    kept = notebook["kept"]
    assert (kept.code, kept.text, str(kept), kept.more) == (1, "bad", "1: bad", 5)
    assert repr(kept.__cause__) == "KeyError(2)"
