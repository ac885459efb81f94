"""Every name that a job's cell binds is there afterwards, as after a plain cell."""

import os
import signal
import threading
from pathlib import Path

import pytest
from submarine_engine.errors import JobCancelledError, JobFailedError, ResultError

from tests.jobs import until


def interrupt_at(flag):
    """Interrupt this process, as a notebook's stop button does, once the file `flag` is there."""

    def wait():
        until(flag.exists)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def test_what_the_cell_binds_is_there_afterwards(notebook):
    notebook.job("x = 1 + 1\ny = [x]\nprint(x)")
    assert notebook["x"] == 2
    assert notebook["y"] == [2]


def test_definitions_and_imports_are_executed_at_home(notebook):
    notebook.run("scale = 1")
    notebook.job(
        """
        import math as m
        from collections import deque
        def area(r):
            return scale * m.pi * r * r
        class Shape:
            sides = 3
        shape = Shape()
        q = deque([1], 2)
        """
    )
    notebook.run("scale = 2\nresult = area(1)")
    assert notebook["result"] == pytest.approx(6.2831853)
    assert type(notebook["shape"]) is notebook["Shape"]
    assert notebook["q"].maxlen == 2
    notebook.job("again = area(2) + Shape.sides", "")
    assert notebook["again"] == pytest.approx(28.1327412)


def test_functions_made_as_the_cell_runs_come_home_with_the_notebooks_globals(notebook):
    notebook.run("factor = 2")
    notebook.job(
        """
        base = factor * 10
        scaled = lambda x: x * factor
        def below(x, limit=base):
            return x < limit
        table = {"half": lambda x: x / factor}
        """
    )
    notebook.run("factor = 4\nresults = scaled(3), below(19), table['half'](8)")
    assert notebook["results"] == (12, True, 2.0)


def test_one_graph_comes_home(notebook):
    notebook.job("a = [1]\nb = {'a': a}\nc = (a, b)")
    assert notebook["b"]["a"] is notebook["a"]
    assert notebook["c"][0] is notebook["a"]
    assert notebook["c"][1] is notebook["b"]


def test_what_cannot_come_stays_and_the_name_keeps_what_it_had(notebook, capsys):
    notebook.run("loader = 'old'")
    notebook.job("loader = (i for i in range(3))\nx = next(loader)\ny = [x]")
    assert notebook["loader"] == "old"
    assert notebook["y"] == [0]
    assert "stayed in the job: `loader` (generator" in capsys.readouterr().err


def test_a_value_that_cannot_come_is_called_so(notebook, capsys):
    notebook.job("import os\nwith open(os.devnull) as file:\n    pass\nfile")
    assert notebook["file"].closed
    assert "stayed in the job: the cell's value (_io.TextIOWrapper" in capsys.readouterr().err


def test_over_the_budget_the_smallest_come_first(notebook, monkeypatch, capsys):
    monkeypatch.setenv("SUBMARINE_RETURN_LIMIT", "100K")
    notebook.job("big = bytes(200_000)\nsmall = b'x' * 1000\nother = {'small': small}")
    assert "big" not in notebook
    assert notebook["other"]["small"] is notebook["small"]
    said = capsys.readouterr().err
    assert "`big` (bytes, 195.3 KiB); fetch with %submarine job fetch" in said
    notebook.run(said[said.index("%submarine") :].splitlines()[0])
    assert notebook["big"] == bytes(200_000)
    with pytest.raises(ResultError, match="it has not kept `none_such`"):
        notebook.run(said[said.index("%submarine") :].splitlines()[0] + " none_such")


def test_names_asked_for_know_no_budget(notebook, monkeypatch, capsys):
    monkeypatch.setenv("SUBMARINE_RETURN_LIMIT", "100K")
    notebook.job("big = bytes(200_000)", "-o big")
    assert notebook["big"] == bytes(200_000)
    assert capsys.readouterr().err == ""


def test_names_asked_for_narrow_what_comes(notebook):
    notebook.job("a = 1\nb = 2", "-o b")
    assert "a" not in notebook
    assert notebook["b"] == 2


def test_deleted_names_are_gone(notebook):
    notebook.run("data = [1, 2]\nother = 5")
    notebook.job("total = sum(data) + other\ndel data, other")
    assert notebook["total"] == 8
    assert "data" not in notebook
    assert "other" not in notebook


def test_a_failing_cell_leaves_what_it_did_until_then(notebook):
    notebook.run("seen = []")
    with pytest.raises(JobFailedError, match="no more"):
        notebook.job(
            """
            import string
            def used(): return string.digits
            step = 3
            seen.append(step)
            raise ValueError("no more")
            late = 1
            """
        )
    assert notebook["step"] == 3
    assert notebook["seen"] == [3]
    assert notebook.run("used()") == "0123456789"
    assert "late" not in notebook


def test_a_function_that_binds_globals(notebook):
    notebook.run(
        "count = 0\ndef bump():\n    global count, fresh\n    count += 1\n    fresh = [count]"
    )
    notebook.job("bump()\nbump()")
    assert notebook["count"] == 2
    assert notebook["fresh"] == [2]


def test_the_value_is_the_notebooks_own_object(notebook):
    notebook.run("history = []")
    value = notebook.job("history.append(1)\nhistory")
    assert value is notebook["history"]
    assert value == [1]


EPOCHS = """
import time
losses = []
{begin}
    for epoch in range(600):
        losses.append(epoch)
        model.step = epoch
        if epoch == 2:
            open({flag!r}, "w")
            time.sleep(600)
{end}
"""


def test_an_interrupted_cell_leaves_what_it_did(notebook, tmp_path):
    notebook.run("class Model: pass\nmodel = Model()")
    flag = Path(tmp_path / "flag")
    interrupt_at(flag)
    with pytest.raises(JobCancelledError) as caught:
        notebook.job(EPOCHS.format(begin="if True:", end="", flag=str(flag)))
    ends = ": cancelled; what it did until then is in the notebook: `"
    assert ends in str(caught.value)
    assert "`losses`" in caught.value.what
    assert caught.value.what.endswith(", and what it changed in place")  # the model
    assert "KeyboardInterrupt" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2  # what, and where the log is
    assert notebook["losses"] == [0, 1, 2]
    assert notebook["model"].step == 2


def test_a_cell_that_handles_the_interrupt_has_succeeded(notebook, tmp_path):
    notebook.run("class Model: pass\nmodel = Model()")
    flag = Path(tmp_path / "flag")
    interrupt_at(flag)
    end = 'except KeyboardInterrupt:\n    print("stopped early")\n    stopped = True'
    notebook.job(EPOCHS.format(begin="try:", end=end, flag=str(flag)))
    assert notebook["losses"] == [0, 1, 2]
    assert notebook["model"].step == 2
    assert notebook["stopped"]


def test_a_value_whose_metaclass_raises_takes_nothing_else_with_it(notebook):
    """Such a one lost all results once: "exited with code 1, without a last word from Python"."""
    notebook.job(
        """
        class Stern(type):
            def __getattribute__(cls, name):
                if name not in ("__dict__", "__module__"): raise RuntimeError("no " + name)
                return super().__getattribute__(name)
        class Strange(metaclass=Stern): pass
        strange, held, plain = Strange(), [Strange()], 3
        """
    )
    assert notebook["plain"] == 3
    assert "strange" not in notebook
    assert "held" not in notebook


def test_where_the_job_misses_what_the_notebook_has_the_error_says_how_to_send_it(notebook):
    notebook.run("df_1 = 5\nnumber = 1")
    for code in ("print(globals()[f'df_{number}'])", "print(eval(f'df_{number}'))"):
        with pytest.raises((JobFailedError, KeyError, NameError)) as caught:
            notebook.job(code)
        assert "`df_1` is in the notebook, but no code of the cell names it" in str(caught.value)
    assert notebook.job("globals()['made'] = globals()['df_1'] + 1\nmade") == 6
    assert notebook["made"] == 6


def test_an_attribute_of_a_function_that_a_job_has_set_last(notebook):
    notebook.run("def count(seen=[]):\n    seen.append(1)\n    return len(seen)")
    notebook.job("count()\ncount.label = 'a'")
    assert notebook.job("count(), count.label") == (2, "a")
    assert notebook.run("count(), count.label") == (3, "a")
