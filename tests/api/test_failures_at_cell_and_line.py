"""A job that failed, as its user sees it: own frames at cell and line, the type that it raised."""

import dataclasses
import pickle
import re
import signal
import sys
import traceback
import types

import pytest
from submarine_engine.errors import JobError, JobFailedError, ResultError, in_a_notebook
from submarine_engine.events import Moment
from submarine_engine.future import Job
from submarine_engine.job import TaskState
from submarine_engine.results import load_results

TRAIN = "def train(rate):\n    # a remark\n    step = rate\n    return 1 / step"


def failed(ran, reason=""):
    with pytest.raises(JobFailedError) as caught:
        ran.results(reason)
    return caught.value


def shown(error):
    """What IPython shows, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error._render_traceback_()))


def test_frames_are_at_cell_and_line(ran):
    error = failed(ran.run(TRAIN, "x = 0\n\ntrain(x)"))
    assert [str(frame) for frame in error.frames] == [
        "In [2], line 3: train(x)",
        "In [1], line 4, in train(): return 1 / step",
    ]
    assert [frame.cell_id for frame in error.frames] == ["id-2", "id-1"]
    assert (error.remote_type, error.remote_message) == ("ZeroDivisionError", "division by zero")
    assert (error.what, error.job_id) == (
        "ZeroDivisionError: division by zero", "20250101-000000-abcde",
    )  # fmt: skip


def test_a_terminal_shows_it_in_a_few_lines(ran):
    assert str(failed(ran.run(TRAIN, "train(0)"))) == (
        "job 20250101-000000-abcde: ZeroDivisionError: division by zero\n"
        "  In [2], line 1: train(0)\n"
        "  In [1], line 4, in train(): return 1 / step\n"
        "→ its log: submarine job logs 20250101-000000-abcde"
    )


def test_a_notebook_shows_it_in_ipythons_manner(ran):
    error = failed(ran.run(TRAIN, "x = 1\ntrain(0)\ny = 2"))
    assert shown(error) == (
        f"{'-' * 75}\n"
        f"ZeroDivisionError{'Traceback (most recent call last)':>58}\n"
        "Cell In[2], line 2\n"
        "      1 x = 1\n"
        "----> 2 train(0)\n"
        "      3 y = 2\n"
        "\n"
        "Cell In[1], line 4, in train()\n"
        "      2     # a remark\n"
        "      3     step = rate\n"
        "----> 4     return 1 / step\n"
        "\n"
        "ZeroDivisionError: division by zero\n"
        f"→ its log: {in_a_notebook('submarine job logs 20250101-000000-abcde')}"
    )


def test_a_cell_in_a_block_of_the_script_is_shown_as_it_was(ran):
    ran.run("x = 0\nif x == 0:\n    1 / x")
    script = ran.root / "bundle" / "script.py"
    script.write_text(script.read_text().replace("\n", "\n    "))
    assert "Cell In[1], line 3\n      1 x = 0\n      2 if x == 0:\n----> 3     1 / x\n" in shown(
        failed(ran)
    )


def test_files_that_travelled_are_shown_as_files(ran):
    files = {"helper.py": "def halve(x):\n    return x / 2\n"}
    error = failed(ran.run("import helper\nhelper.halve('a')", files=files))
    assert [str(frame) for frame in error.frames] == [
        "In [1], line 2: helper.halve('a')",
        "helper.py, line 2, in halve(): return x / 2",
    ]
    assert "File helper.py:2, in halve()\n" in shown(error)


def test_frames_of_libraries_are_left_out_but_the_place_is_told(ran):
    error = failed(ran.run("import json\n\njson.loads('{')"))
    assert [frame.line for frame in error.frames] == [3]
    assert re.search(r"\n  \(raised in /.*/json/decoder\.py, line \d+, in raw_decode\)", str(error))
    assert re.search(r"raised in /.*/json/decoder\.py, line \d+, in raw_decode\n", shown(error))


def test_lines_that_no_cell_wrote_are_left_out(ran):
    ran.run("def f():\n    raise ValueError('x')", "f()")
    manifest = ran.root / "bundle" / "manifest.json"
    text = manifest.read_text()
    start = text.index("{", text.index('"id-1"'))
    span = text[start : text.index("}", start) + 1]
    manifest.write_text(text.replace(span, "").replace("},\n  \n ]", "}\n ]"))
    assert [str(frame.cell) for frame in failed(ran).frames] == ["In [1]"]


def test_without_a_manifest_lines_of_the_script_are_told(ran):
    ran.run("1 / 0")
    (ran.root / "bundle" / "manifest.json").unlink()
    assert [str(frame) for frame in failed(ran).frames] == ["script.py, line 3: 1 / 0"]


def test_what_came_before_is_shown_first(ran):
    error = failed(
        ran.run(
            """
            try:
                {}["key"]
            except KeyError as error:
                raise ValueError("no key") from error
            """
        )
    )
    text = shown(error)
    assert text.index("KeyError: 'key'") < text.index("was the direct cause of")
    assert text.index("was the direct cause of") < text.index("ValueError: no key")
    assert "\n  caused by KeyError: 'key'\n    In [1], line 2: {}[\"key\"]\n" in str(error)


def test_what_was_being_handled_is_shown(ran):
    error = failed(ran.run("try:\n    1 / 0\nexcept ArithmeticError:\n    {}['a']"))
    assert "During handling of the above exception, another exception occurred:" in shown(error)
    assert "\n  while handling ZeroDivisionError: division by zero\n" in str(error)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_members_of_a_group_are_shown(ran):
    error = failed(ran.run("raise ExceptionGroup('two', [ValueError('a'), TypeError('b')])"))
    assert type(error) is JobFailedError
    assert "---- 1 of 2 ----\nValueError: a\n---- 2 of 2 ----\nTypeError: b" in shown(error)
    assert "  with ValueError: a\n  with TypeError: b" in str(error)


def test_a_recursion_is_shown_in_short(ran):
    error = failed(ran.run("def f():\n    f()\n\nf()"))
    assert isinstance(error, RecursionError)
    assert shown(error).count("Cell In[1]") == 20
    assert "… 40 frames more" in shown(error)


def test_a_syntax_error_of_a_file_is_shown_at_its_line(ran):
    error = failed(ran.run("import helper", files={"helper.py": "x = 1\ny = = 2\n"}))
    assert type(error) is JobFailedError
    assert str(error.frames[-1]) == "helper.py, line 2: y = = 2"
    assert error.remote_type == "SyntaxError"


TYPES = {
    "ValueError": ("ValueError('x')", ValueError),
    "KeyError": ("KeyError('x')", KeyError),
    "FileNotFoundError": ("FileNotFoundError(2, 'x')", OSError),
    "UnicodeDecodeError": ("UnicodeDecodeError('utf-8', b'x', 0, 1, 'x')", ValueError),
    "ImportError": ("ImportError('x')", ImportError),
    "StopIteration": ("StopIteration()", JobFailedError),
    "a module's own": ("__import__('subprocess').CalledProcessError(1, 'x')", JobFailedError),
    "one that is not here": ("type('Mine', (LookupError,), {})('x')", LookupError),
}


@pytest.mark.parametrize(("raised", "kind"), TYPES.values(), ids=TYPES)
def test_the_error_is_of_the_type_that_the_job_raised(ran, raised, kind):
    error = failed(ran.run(f"raise {raised}"))
    assert isinstance(error, kind)
    assert isinstance(error, JobFailedError)
    assert not isinstance(error, StopIteration)
    assert str(error).startswith("job 20250101-000000-abcde: ")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert (str(again), again.frames, again.args) == (str(error), error.frames, error.args)
    assert again._render_traceback_() == error._render_traceback_()
    assert getattr(again, "errno", None) == getattr(error, "errno", None)


def test_an_exception_of_the_notebook_can_be_caught_by_its_class(ran, monkeypatch):
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    cell = "class Diverged(Exception):\n    def __init__(self, a, b): super().__init__(a)"
    exec(cell, main.__dict__)  # noqa: S102 - as a notebook does
    error = failed(ran.run(cell, "raise Diverged('loss', 2)"))
    assert isinstance(error, main.Diverged)
    assert error.what == "Diverged: loss"


def test_no_type_is_imported_on_a_jobs_word(ran):
    error = failed(
        ran.run("import this_module", files={"this_module.py": "class E(Exception): ...\nraise E"})
    )
    assert type(error) is JobFailedError
    assert "this_module" not in sys.modules


def test_an_exit_tells_code_and_place(ran):
    error = failed(ran.run("import sys\n\ndef f():\n    sys.exit(3)\n\nf()"))
    assert error.what == "exited with code 3"
    assert [frame.line for frame in error.frames] == [6, 4]
    assert "JobFailedError: exited with code 3" in shown(error)
    assert isinstance(error.__cause__, SystemExit)
    assert error.__cause__.code == 3


def test_an_exit_with_text_tells_it(ran):
    assert failed(ran.run("raise SystemExit('no data')")).what == "exited with code 1: no data"


def test_os_exit_is_told(ran):
    error = failed(ran.run("import os\nos._exit(7)"))
    assert (error.what, error.frames) == ("exited with code 7", ())
    assert "os._exit() and native code end a job without a traceback" in error.fix
    assert "\x1b[31mJobFailedError\x1b[0m: job" in error._render_traceback_()[0]


def test_a_crash_is_told_at_cell_and_line(ran):
    error = failed(ran.run("import ctypes\n\ndef f():\n    ctypes.string_at(0)\n\nf()"))
    assert error.what == "ended by SIGSEGV"
    assert [str(frame) for frame in error.frames] == [
        "In [1], line 6: f()",
        "In [1], line 4, in f(): ctypes.string_at(0)",
    ]
    assert "it crashed in native code, not in Python" in error.fix
    assert "JobFailedError: ended by SIGSEGV" in shown(error)


def test_of_a_crash_in_a_thread_of_a_librarys_own_the_line_is_told_that_waited_for_it(ran):
    begin = "ctypes.CDLL(None).pthread_create(ctypes.byref(thread), None, None, None)"
    body = f"{begin}\n    threading.Event().wait(60)"
    code = f"import ctypes, threading\nthread = ctypes.c_ulong()\ndef f():\n    {body}\nf()"
    error = failed(ran.run(code))
    assert error.what == "ended by SIGSEGV"
    assert str(error.frames[0]) == "In [1], line 6: f()"
    assert str(error.frames[1]).startswith(("In [1], line 4, in f()", "In [1], line 5, in f()"))


def test_memory_that_ran_out_is_told_in_the_clusters_words(ran):
    ran.run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    error = failed(ran, "ended by SIGKILL: the machine had no memory left")
    assert error.what == "ended by SIGKILL: the machine had no memory left"
    assert "use smaller batches" in error.fix


def test_a_command_tells_its_code_and_what_it_means(ran):
    error = failed(ran.run(command="exit 3"))
    assert error.what == "exited with code 3"
    error = failed(ran.run(command="(kill -SEGV $BASHPID; exit 139) ; exit 139"))
    assert error.what == "exited with code 139 (SIGSEGV)"
    assert ran.code == 128 + signal.SIGSEGV


def test_a_bad_str_in_the_job_is_told(ran):
    error = failed(ran.run("class Bad(Exception):\n    def __str__(self): 1 / 0\nraise Bad"))
    assert error.what == "Bad: <exception str() failed>"


def test_hostile_text_is_text(ran):
    ran.run("raise ValueError('\\x1b[2J\\x1b]0;title\\x07<b>\\u202eevil\\n\\tfine')")
    text = str(failed(ran))
    assert not set(text) & set("\x1b\x07\u202e")
    assert "<b>" in text
    assert "\n\tfine" in text


def test_frames_lead_nowhere_else(ran):
    ran.run("1 / 0")
    secret = ran.root / "secret.py"
    secret.write_text("password = 1\n")
    frame = {"line": 1, "function": "f", "text": "x"}
    frames = [{"file": file, **frame} for file in ("../secret.py", str(secret), "<string>")]
    ran.rewrite(error={"type": "E", "module": "m", "message": "", "frames": frames})
    error = failed(ran)
    assert error.frames == ()
    assert "password" not in str(error)


BROKEN = [{"type": 3}, {"type": "E", "frames": [3]}, {"type": "E", "frames": [{"file": "x"}]}, {}]


@pytest.mark.parametrize("error", BROKEN)
def test_an_error_that_is_none_is_refused_or_left_aside(ran, error):
    ran.run("1 / 0")
    ran.rewrite(error=error)
    with pytest.raises((ResultError, JobFailedError)) as caught:
        ran.results("it failed")
    assert isinstance(caught.value, JobError)


def test_a_chain_without_end_ends(ran):
    error = {"type": "E", "message": "end", "frames": []}
    for _ in range(500):
        error = {"type": "E", "message": "x", "frames": [], "cause": error}
    ran.run("1 / 0")
    ran.rewrite(error=error)
    assert str(failed(ran)).count("caused by") == 9


def test_a_frame_of_compiled_code_has_no_line_to_show(ran):
    code = "exec(compile('1 / 0', 'lib/fast.pyx', 'exec'))"
    text = shown(
        failed(
            ran.run(
                f"try:\n    {code}\nexcept ZeroDivisionError as e:\n    raise KeyError('a') from e"
            )
        )
    )
    assert "File lib/fast.pyx:1\n\nZeroDivisionError" in text


def of_two(ran, cell):
    """Return the error of two tasks: the second fails by the cell, 2 s after the first's end."""
    ran.run(cell)
    status = ran.status("it failed")
    done, failed_ = (
        dataclasses.replace(
            status.tasks[0], task=f"worker-{n}", host=f"gpu-{n}", exited=Moment(0, 10 + 2 * n)
        )
        for n in (0, 1)
    )
    done = dataclasses.replace(done, state=TaskState.SUCCEEDED, exit_code=0)
    status = dataclasses.replace(status, tasks=(done, failed_), failed_task="worker-1")
    with pytest.raises(JobFailedError) as caught:
        load_results(ran.cluster, "20250101-000000-abcde", status)
    return caught.value


def test_of_several_tasks_it_says_which_failed_first(ran):
    error = of_two(ran, "1 / 0")
    assert error.fix == (
        "the first to fail was worker-1 on gpu-1; "
        "its log: submarine job logs 20250101-000000-abcde --task worker-1"
    )


def test_where_it_lost_another_it_says_who_had_come_to_the_end(ran):
    error = of_two(ran, "raise ConnectionResetError('by peer')")
    assert "before it worker-0 on gpu-0 (2.0 s) had come to the end without an error" in error.fix
    assert "by a barrier" in error.fix


def test_the_error_holds_what_the_exception_held(ran):
    cell = """
        class Odd(KeyError):
            def __init__(self, *both): super().__init__(*both); self.both = both
        raise Odd(1, {"two": [2]}) from OSError(28, "no space")
    """
    error = failed(ran.run(cell))
    assert isinstance(error, KeyError)
    assert (error.args, error.both) == ((1, {"two": [2]}),) * 2
    assert repr(error) == "KeyError(1, {'two': [2]})"
    assert (type(error.__cause__), error.__cause__.errno) == (OSError, 28)
    assert error.what == "Odd: (1, {'two': [2]})"


@pytest.mark.parametrize(
    "spoilt", [b"", b"\x80", pickle.dumps("no exception"), b"cno_such_module\nName\n."]
)
def test_what_is_no_exception_leaves_the_words(ran, spoilt):
    ran.run("raise ValueError(1, 2)")
    (ran.folder / "results" / "raised.pkl").write_bytes(spoilt)
    error = failed(ran)
    assert isinstance(error, ValueError)
    assert error.what == "ValueError: (1, 2)"


@pytest.mark.parametrize(
    "cell",
    [
        "raise ValueError(1, lambda: 2)",
        "class E(ValueError):\n    def __reduce__(self): raise SystemExit\nraise E(1)",
    ],
)
def test_an_exception_that_does_not_pickle_is_told_in_words(ran, cell):
    error = failed(ran.run(cell))
    assert isinstance(error, ValueError)
    assert "(1" in error.what or error.what == "E: 1"


def test_an_interrupt_that_the_code_raises_does_not_end_this_program(ran):
    error = failed(ran.run("raise KeyboardInterrupt('mine')"))
    assert not isinstance(error, KeyboardInterrupt)
    assert isinstance(error.__cause__, KeyboardInterrupt)


def test_it_is_one_object_by_every_method(ran):
    job = Job(ran.run("raise ValueError(1, 2)").cluster, "20250101-000000-abcde")
    job.status = ran.status
    found = [job.exception()]
    for method in (job.result, job.results, job.result):
        with pytest.raises(ValueError, match=r"\(1, 2\)") as caught:
            method()
        found.append(caught.value)
    assert all(error is found[0] for error in found)
    steps = [frame.f_code.co_name for frame, _ in traceback.walk_tb(found[0].__traceback__)]
    assert steps.count("results") == 1
