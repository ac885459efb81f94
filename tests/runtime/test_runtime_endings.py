"""However a script ends: the exit code, the outcome and the log say the same."""

import signal
import sys

import pytest


def frames(error):
    return [(frame["file"], frame["line"], frame["function"], frame["text"]) for frame in error]


def test_an_exception_is_told_with_its_frames(task):
    code = task.run(
        """
        import helper

        def train(x):
            return helper.halve(x)

        train("a")
        """,
        files={"helper.py": "def halve(x):\n    return x / 2\n"},
    )
    error = task.outcome["error"]
    assert (code, task.outcome["exit_code"], task.outcome["kind"]) == (1, 1, "raised")
    assert (error["type"], error["module"], error["builtin"]) == (
        "TypeError",
        "builtins",
        "TypeError",
    )
    assert error["message"] == "unsupported operand type(s) for /: 'str' and 'int'"
    assert frames(error["frames"]) == [
        ("script.py", 7, "<module>", 'train("a")'),
        ("script.py", 5, "train", "return helper.halve(x)"),
        ("helper.py", 2, "halve", "return x / 2"),
    ]


def test_the_log_holds_pythons_own_traceback(task):
    task.run("def f():\n    raise ValueError('bad')\n\nf()")
    path = task.bundle / "script.py"
    assert task.stderr.startswith(
        f'Traceback (most recent call last):\n  File "{path}", line 4, in <module>\n    f()\n'
    )
    assert task.stderr.endswith("ValueError: bad\n")
    assert "submarine" not in task.stderr.replace(str(path), "")


def test_frames_of_libraries_keep_their_whole_path(task):
    task.run("import json\njson.loads('{')")
    files = [frame["file"] for frame in task.outcome["error"]["frames"]]
    assert files[0] == "script.py"
    assert files[-1].endswith("/json/decoder.py")
    assert files[-1].startswith("/")
    assert task.outcome["error"]["builtin"] == "ValueError"


def test_chains_and_notes_are_told(task):
    task.run(
        """
        try:
            try:
                {}["key"]
            except KeyError as error:
                raise OSError(2, "gone") from error
        except OSError:
            late = RuntimeError("late")
            late.__notes__ = ["look at the disk"]
            raise late
        """
    )
    error = task.outcome["error"]
    assert (error["type"], error["message"], error["notes"]) == (
        "RuntimeError", "late", ["look at the disk"],
    )  # fmt: skip
    assert error["cause"] is None
    assert error["context"]["message"] == "[Errno 2] gone"
    assert error["context"]["cause"]["message"] == "'key'"


def test_a_chain_in_a_circle_ends(task):
    assert (
        task.run(
            "a, b = ValueError('a'), ValueError('b')\na.__cause__ = b\nb.__cause__ = a\nraise a"
        )
        == 1
    )
    assert task.outcome["error"]["cause"]["cause"]["message"] == "a"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_groups_are_told(task):
    task.run("raise ExceptionGroup('two', [ValueError('a'), TypeError('b')])")
    error = task.outcome["error"]
    assert error["message"] == "two (2 sub-exceptions)"
    assert [one["message"] for one in error["group"]] == ["a", "b"]


def test_a_str_that_raises_is_told(task):
    code = task.run(
        """
        class Bad(Exception):
            def __str__(self):
                raise ZeroDivisionError("in str")

        raise Bad
        """
    )
    assert code == 1
    error = task.outcome["error"]
    assert (error["type"], error["module"]) == ("Bad", "__main__")
    assert error["message"] == "<exception str() failed>"
    assert "Bad: <exception str() failed>" in task.stderr


def test_a_hook_of_the_users_shows_the_exception(task):
    task.run(
        "import sys\nsys.excepthook = lambda *of: print('mine', of[1], file=sys.stderr)\n1 / 0"
    )
    assert task.stderr == "mine division by zero\n"
    assert task.outcome["error"]["type"] == "ZeroDivisionError"


def test_a_hook_that_raises_hides_nothing(task):
    task.run("import sys\nsys.excepthook = None\n1 / 0")
    assert "ZeroDivisionError: division by zero" in task.stderr


def test_a_recursion_without_end_is_told_in_short(task):
    assert task.run("def f():\n    f()\n\nf()") == 1
    error = task.outcome["error"]
    assert error["type"] == "RecursionError"
    assert len(error["frames"]) == 60


def test_a_message_that_json_cannot_hold_is_escaped(task):
    task.run("raise ValueError('\\ud800' + 'x' * 100_000)")
    message = task.outcome["error"]["message"]
    assert message.startswith("\\ud800xxx")
    assert len(message) < 30_000


@pytest.mark.parametrize(("where", "line"), [("script.py", 2), ("helper.py", 3)])
def test_a_syntax_error_is_told_at_its_line(task, where, line):
    files = {"script.py": "import helper", "helper.py": "x = 1\n\ny = = 2\n"}
    if where == "script.py":
        files = {"script.py": "x = 1\ny = = 2\n"}
    assert task.run(files=files, script=files["script.py"]) == 1
    error = task.outcome["error"]
    assert (error["type"], error["message"]) == ("SyntaxError", "invalid syntax")
    last = error["frames"][-1]
    assert (last["file"], last["line"], last["text"]) == (where, line, "y = = 2")


EXITS = {
    "nothing": ("", 0, ""),
    "None": ("None", 0, ""),
    "0": ("0", 0, ""),
    "3": ("3", 3, ""),
    "256": ("256", 0, ""),
    "-1": ("-1", 255, ""),
    "True": ("True", 1, ""),
    "text": ("'no data'", 1, "no data\n"),
    "a list": ("[1]", 1, "[1]\n"),
}


@pytest.mark.parametrize(("argument", "code", "stderr"), EXITS.values(), ids=EXITS)
@pytest.mark.parametrize("call", ["sys.exit", "raise SystemExit"])
def test_an_exit_is_an_end_with_that_code(task, call, argument, code, stderr):
    assert task.run(f"import sys\nx = 1\n{call}({argument})\n2", outputs=["x"]) == code
    outcome = task.outcome
    assert (outcome["kind"], outcome["exit_code"]) == ("exited", code)
    assert task.stderr == stderr
    assert (outcome["error"] is None) == (code == 0)
    assert list(outcome["outputs"]) == (["x"] if code == 0 else [])


def test_an_exit_with_an_object_whose_str_raises(task):
    task.run("class Bad:\n    def __str__(self): raise ValueError\nraise SystemExit(Bad())")
    assert (task.outcome["exit_code"], task.stderr) == (1, "<Bad>\n")


def test_os_exit_leaves_no_outcome(task):
    assert task.run("import os\nos._exit(7)") == 7
    assert task.outcome is None


def test_a_crash_in_native_code_leaves_its_stack_in_the_log(task):
    assert task.run("import ctypes\n\ndef f():\n    ctypes.string_at(0)\n\nf()") == -signal.SIGSEGV
    assert task.outcome is None
    assert "Fatal Python error: Segmentation fault" in task.stderr
    assert 'script.py", line 4 in f' in task.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_is_asked_to_end_may_clean_up(task, number):
    task.start(
        """
        import time
        try:
            print("began")
            # Python hears a signal that comes just before a system call after it alone.
            while True: time.sleep(0.1)
        except KeyboardInterrupt:
            print("interrupted")
            raise
        finally:
            print("cleaned up")
        """
    )
    task.said("began")
    task.process.send_signal(number)
    assert task.wait() == 130
    assert task.stdout == "began\ninterrupted\ncleaned up\n"
    assert task.outcome["error"]["type"] == "KeyboardInterrupt"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_while_its_end_is_told_changes_nothing(task, number):
    task.run(
        f"""
        import os
        asked = []
        class Odd(Exception):
            def __str__(self):
                if not asked:
                    asked.append(os.kill(os.getpid(), {int(number)}))
                return "odd"
        raise Odd
        """
    )
    assert (task.outcome["error"]["type"], task.outcome["exit_code"]) == ("Odd", 1)
    assert "KeyboardInterrupt" not in task.stderr


def test_who_is_asked_to_end_may_return(task):
    task.start(
        """
        import time
        try:
            print("began")
            # Python hears a signal that comes just before a system call after it alone.
            while True: time.sleep(0.1)
        except KeyboardInterrupt:
            pass
        "early"
        """
    )
    task.said("began")
    task.process.terminate()
    assert task.wait() == 0
    assert task.value == "early"


def test_a_forked_child_ends_at_once_when_asked_to(task):
    task.run(
        """
        import os, signal, time
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        os.kill(pid, signal.SIGTERM)
        os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        """
    )
    assert task.value == -signal.SIGTERM


PLANS = {
    "of another version": {"version": 2},
    "without a working directory": {"workdir": "/nowhere"},
    "for another folder": {"bundle": 3, "command": "true"},
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_that_cannot_be_done_is_said(task, plan):
    assert task.run("1", **plan) == 127
    assert task.stderr.startswith("submarine: the task cannot begin: ")
    assert task.outcome is None


def test_a_plan_that_is_no_json_is_said(task, tmp_path):
    task.start("import time\ntime.sleep(600)", entry="script.py")
    task.end()
    (task.folder / "task.json").write_text("")
    import subprocess

    from tests.runtime.conftest import MAIN

    ran = subprocess.run([sys.executable, MAIN, task.folder], capture_output=True, check=False)
    assert (ran.returncode, b"the task cannot begin" in ran.stderr) == (127, True)


def test_a_script_that_is_not_there_is_said(task):
    assert task.run(entry="other.py") == 1
    assert task.outcome["error"]["type"] == "FileNotFoundError"
