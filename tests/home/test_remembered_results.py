"""Cells with ``--cache``: nothing runs again that is known, and the notebook is as if it had."""

import os

import pytest
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine import JobFailedError, list_jobs, open_job
from submarine_engine.cache import Cache
from submarine_engine.errors import CommandError, JobNotFoundError
from submarine_engine.events import Moment
from submarine_magics import frontend
from submarine_magics.card.model import view
from submarine_magics.card.record import read_record

from tests.home.conftest import Notebook
from tests.jobs import until

BEFORE = """
import numpy as np
rate, log, weights = 0.5, [], np.zeros(3)
alias = log
def helper(x):
    return x * rate
def unneeded(x):
    return x
"""
CELL = """
def added(x):
    return helper(x) + 1
class Net:
    layers = 2
log.append(len(log))
weights += 1
out = {"loss": added(2), "ran": np.random.default_rng().random()}
print("training")
out["loss"]
"""


def cell(notebook, source=CELL, options="--cache"):
    """Run a cell; return its value, and whether a job ran for it."""
    before = len(list_jobs())
    value = notebook.job(source, options)
    return value, len(list_jobs()) > before


def again(other=BEFORE):
    notebook = Notebook()
    notebook.run(other)
    return notebook


def test_the_second_time_everything_is_there_and_nothing_runs(notebook, capsys):
    notebook.run(BEFORE)
    assert cell(notebook) == (2.0, True)
    capsys.readouterr()
    other = again()
    assert cell(other) == (2.0, False)
    assert capsys.readouterr().out.count("training") == 1
    assert other["out"] == notebook["out"]  # with its random number
    assert other["log"] is other["alias"]
    assert other["log"] == [0]
    assert other["weights"].tolist() == [1, 1, 1]
    assert other.run("added(4), Net.layers, Net().__class__.__name__") == (3.0, 2, "Net")
    # What it is used for afterwards is a job as any other.
    assert cell(other, "made = Net(); made.layers += added(0)", "") == (None, True)
    assert other["made"].layers == 3.0


def test_run_again_in_the_same_notebook_the_cell_is_what_it_would_be(notebook):
    notebook.run(BEFORE)
    assert cell(notebook) == (2.0, True)
    assert cell(notebook) == (2.0, True)  # its list and weights are others by now
    assert notebook["log"] == [0, 1]
    notebook.run("alias.clear()\nweights[:] = 0")
    assert cell(notebook) == (2.0, False)
    assert notebook["log"] == [0]
    assert notebook["weights"].tolist() == [1, 1, 1]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("before", "source"),
    [
        pytest.param(BEFORE.replace("return x\n", "return x + 1\n"), CELL, id="another helper"),
        pytest.param(BEFORE + "unneeded(3)\nmore = 5\n", CELL, id="more that is not needed"),
        pytest.param(
            BEFORE.replace("    return x * ", "    # by\n\n    return x*"), CELL, id="layout"
        ),
        pytest.param(BEFORE, "# again\n\n" + CELL.replace("+= 1", "+=  1  # up"), id="comments"),
    ],
)
def test_what_the_cell_does_not_need_may_change(notebook, before, source):
    notebook.run(BEFORE)
    assert cell(notebook) == (2.0, True)
    other = again(before)
    assert cell(other, source) == (2.0, False)
    # Its definitions are those of its own text, at its own lines.
    line = 1 + 1 + source.strip().split("\n").index("def added(x):")
    assert other["added"].__code__.co_firstlineno == line


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("change", "options", "why"),
    [
        (("x * rate", "x * rate * 2"), "", "definition `helper` changed (In [1], line 4)"),
        (("0.5", "0.25"), "", "value `rate`: 0.5 → 0.25"),
        (("zeros(3)", "ones(3)"), "", "value `weights` changed"),
        (("+= 1", "+= 2"), "", "the cell's own code changed"),
        (("layers = 2", "layers = 3"), "", "definition `Net` changed (In [2], line 4)"),
        (("", ""), "--gpus 1", "--gpus: not given → 1"),
        (("", ""), "--env SEED=3", "environment variable SEED is new"),
    ],
)
def test_what_it_needs_may_not_and_is_told(notebook, capsys, change, options, why):
    notebook.run(BEFORE)
    cell(notebook)
    capsys.readouterr()
    other = again(BEFORE.replace(*change))
    _, ran = cell(other, CELL.replace(*change), f"--cache {options}")
    assert ran
    assert "runs again: " in (told := capsys.readouterr().err)
    assert why in told


def test_values_of_constants_are_shown(notebook, capsys):
    notebook.run("rate = 0.1")
    assert cell(notebook, "out = rate * 10") == (None, True)
    notebook.run("rate = 0.2")
    notebook.job("out = rate * 10", "--cache --dry-run")
    told = capsys.readouterr().out
    assert "value `rate`: 0.1 → 0.2 (In [3], line 1)" in told
    assert "it is not remembered: the job would run" in told
    assert "value `rate` = 0.2 (In [3], line 1)" in told
    assert len(list_jobs()) == 1
    notebook.run("rate = 0.1")
    notebook.job("out = rate * 10", "--cache --dry-run")
    assert "it is remembered, from " in capsys.readouterr().out


def test_a_secret_is_in_no_explanation(notebook, capsys, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "abcdefgh12345678")
    notebook.run("api_key = 'abcdefgh12345678'")
    cell(notebook, "out = len(api_key)", "--cache --secret MY_TOKEN")
    notebook.run("api_key = 'abcdefgh12345679'")
    monkeypatch.setenv("MY_TOKEN", "abcdefgh12345670")
    cell(notebook, "out = len(api_key)", "--cache --secret MY_TOKEN")
    told = capsys.readouterr().err
    assert "environment variable MY_TOKEN changed" in told
    assert "value `api_key` changed" in told
    notes = b"".join(path.read_bytes() for path in Cache().root.iterdir())
    assert "abcdefgh" not in told
    assert b"abcdefgh" not in notes


def test_refresh_runs_it_and_remembers_the_new_result(notebook):
    source = "import os\nout = os.urandom(8)"
    assert cell(notebook, source)[1]
    first = notebook["out"]
    assert cell(notebook, source, "--cache --refresh")[1]
    second = notebook["out"]
    assert cell(notebook, source) == (None, False)
    assert first != second == notebook["out"]
    assert cell(notebook, source, "--no-cache")[1]
    assert notebook["out"] not in (first, second)
    assert cell(notebook, source, "")[1]  # nobody opted in


def test_a_refresh_that_fails_leaves_the_result_that_was(notebook, tmp_path):
    bad = f"os.path.exists(os.path.join({str(tmp_path)!r}, 'bad'))"
    source = f"import os\nif {bad}: raise OSError\nout = 1"
    assert cell(notebook, source)[1]
    (tmp_path / "bad").touch()
    with pytest.raises(OSError):  # noqa: PT011 - the cell's own
        cell(notebook, source, "--cache --refresh")
    assert cell(notebook, source) == (None, False)


def test_what_fails_or_is_cancelled_is_not_remembered(notebook):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cell(notebook, "1 / 0")
    assert len(list_jobs()) == 2
    for count in (3, 4):
        job = notebook.job("import time\ntime.sleep(1000)", "--cache --detach")
        assert job.id == list_jobs()[0].id
        job.cancel()
        job.wait()
        assert len(list_jobs()) == count


def test_a_job_that_outlives_its_cell_is_remembered_and_two_at_once_both_run(
    notebook, capsys, tmp_path
):
    # Neither a file beside the notebook nor one that the code names: both would count.
    wait = "while 'go' + 'ne' not in os.listdir(os.pardir):"
    source = f"import os, time\n{wait}\n    time.sleep(0.05)\nout = 4"
    first = notebook.job(source, "--cache --detach")
    second = notebook.job(source, "--cache --detach")
    assert first.id != second.id
    assert f"the same runs now, as job {first.id}" in capsys.readouterr().err
    (tmp_path / "gone").touch()
    until(lambda: first.done() and second.done())
    third = notebook.job(source, "--cache --detach")
    assert third.id == second.id
    assert third.remembered.startswith("from ")
    assert third.results().outputs["out"] == 4


def test_files_that_the_code_names_count_by_their_content(notebook, tmp_path):
    data = tmp_path / "notes" / "data.csv"
    data.write_text("1\n2\n")
    source = "out = open('data.csv').read().count('1')"
    assert cell(notebook, source)[1]
    os.utime(data, (1, 1))
    assert not cell(notebook, source)[1]
    data.write_text("1\n1\n")
    os.utime(data, (1, 1))  # of the same size and time
    assert cell(notebook, source)[1]
    assert notebook["out"] == 2
    folder = tmp_path / "notes" / "images"
    folder.mkdir()
    source = "import os\nout = sorted(os.listdir('images'))"
    assert cell(notebook, source)[1]
    (folder / "a").touch()
    assert cell(notebook, source)[1]
    assert notebook["out"] == ["a"]


def test_the_input_counts_by_its_content(notebook, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("1")
    source = "import os\nout = os.listdir(os.environ['SUBMARINE_INPUT_PATH'])"
    options = f"--cache --input_path {tmp_path / 'in'}"
    assert [cell(notebook, source, options)[1] for _ in range(2)] == [True, False]
    (tmp_path / "in" / "a").write_text("2")
    assert cell(notebook, source, options)[1]
    os.mkfifo(tmp_path / "in" / "b")  # nobody waits for what it gives
    assert cell(notebook, source, options)[1]
    assert sorted(notebook["out"]) == ["a", "b"]


def test_a_checkpoint_path_contradicts(notebook, tmp_path):
    with pytest.raises(CommandError, match="contradict"):
        cell(notebook, "out = 1", f"--cache --checkpoint_path {tmp_path / 'kept'}")
    assert list_jobs() == []


def test_a_name_that_the_cell_deletes_is_gone_all_the_same(notebook):
    source = "for step in range(3): pass\ndel step\nout = 1"
    assert cell(notebook, source)[1]
    notebook.run("step = 5")
    assert cell(notebook, source)[1]  # the earlier job could not tell that it goes
    assert "step" not in notebook
    notebook.run("step = 5")
    assert not cell(notebook, source)[1]
    assert "step" not in notebook


def test_a_result_whose_files_are_gone_or_changed_is_none(notebook, capsys):
    assert cell(notebook, "out = list(range(1000))")[1]
    assert not cell(notebook, "out = list(range(1000))")[1]
    [summary] = list_jobs()
    folder = open_job(summary.id).cluster.results(summary.id)
    stored = folder / "results" / "home.pkl"
    stored.write_bytes(stored.read_bytes()[:-10])
    assert cell(notebook, "out = list(range(1000))")[1]
    assert f"the files of job {summary.id}, which had this result, changed" in (
        capsys.readouterr().err
    )
    newest = list_jobs()[0].id
    (Cache().home / "jobs" / newest).rename(Cache().home / "elsewhere")
    assert cell(notebook, "out = list(range(1000))")[1]
    assert f"job {newest}, which had this result, was removed" in capsys.readouterr().err


def test_one_that_is_cut_off_before_anybody_looked_is_none(notebook, capsys):
    job = notebook.job("out = list(range(1000))", "--cache --detach")
    until(job.done)
    stored = job.cluster.results(job.id) / "results" / "home.pkl"
    stored.write_bytes(stored.read_bytes()[:-10])
    assert cell(notebook, "out = list(range(1000))")[1]
    assert "cannot be used: it is cut off" in capsys.readouterr().err


def test_listed_and_forgotten(notebook):
    assert notebook.run("%submarine cache list") == []
    cell(notebook, "out = 1", "--cache --name one")
    cell(notebook, "out = 2", "--cache --name two")
    found = notebook.run("%submarine cache list")
    assert [entry.name for entry in found] == ["two", "one"]
    assert "JOB" in repr(found)
    assert "out" in repr(found)
    notebook.run("%submarine cache clear one")
    assert [entry.name for entry in Cache().entries()] == ["two"]
    assert not cell(notebook, "out = 2", "--cache")[1]
    assert cell(notebook, "out = 1", "--cache")[1]
    notebook.run("%submarine cache clear")
    assert Cache().entries() == []
    assert len(list_jobs()) == 3
    with pytest.raises(JobNotFoundError):
        notebook.run("%submarine cache clear nothing")


def test_calls_are_remembered_with_their_arguments(notebook, capsys, monkeypatch):
    monkeypatch.setattr(InteractiveShell, "_instance", notebook.shell)  # what a kernel does
    notebook.run(
        """
        import numpy as np
        from submarine_engine import launch, submit
        def square(x):
            print("squaring")
            return x * x
        """
    )
    assert notebook.run("launch(square, 3, cache=True)") == 9
    assert capsys.readouterr().out.count("squaring") == 1
    assert notebook.run("launch(square, 3, cache=True)") == 9
    assert capsys.readouterr().out.count("squaring") == 1  # what it printed is shown again
    assert len(list_jobs()) == 1
    assert notebook.run("launch(square, np.int64(3), cache=True)") == 9
    assert notebook.run("launch(square, 4, cache=True)") == 16
    assert notebook.run("launch(square, 4, cache='refresh')") == 16
    assert len(list_jobs()) == 4
    assert notebook.run("submit(square, 3, cache=True).result()") == 9
    assert len(list_jobs()) == 4
    with pytest.raises(CommandError, match="cache='always' is not possible"):
        notebook.run("launch(square, 3, cache='always')")


def test_the_card_says_whose_result_it_is(notebook):
    cell(notebook, "out = 1", "--cache --name first")
    job = notebook.job("out = 1", "--cache --name other --detach")
    card = view(read_record(job), job.status(), Moment.now())
    assert card.sentence.startswith("Result from ")
    assert "job first; with --refresh the cell runs again" in card.sentence


def test_an_error_in_what_is_read_is_a_run_and_no_more(notebook, capsys):
    cell(notebook, "out = 1")
    [path] = Cache().root.glob("*.json")
    for content in (b"", b"{", b"[]", b'{"version": 2}', path.read_bytes()[:-20]):
        path.write_bytes(content)
        assert cell(notebook, "out = 1")[1]
        assert "what was remembered cannot be read" in capsys.readouterr().err
        assert not cell(notebook, "out = 1")[1]
    with pytest.raises(JobFailedError):
        cell(notebook, "import sys\nsys.exit(3)")


def test_where_the_job_is_followed_elsewhere_the_cell_says_whose_result_it_is(
    notebook, monkeypatch, capsys
):
    cell(notebook, "out = 1", "--cache --name first")
    given = []
    monkeypatch.setattr(frontend.current, "leave", lambda job, **_: given.append(job.id))
    assert not cell(notebook, "out = 1")[1]
    assert given == [list_jobs()[0].id]
    assert ", job first; with --refresh the cell runs again" in capsys.readouterr().err
