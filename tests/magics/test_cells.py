"""The log of a real shell: what was executed, how far, under which number."""

import gc
import sys
import textwrap
import types

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.bundle import Cell
from submarine_engine.errors import CellSyntaxError
from submarine_magics.cells import CellLog
from traitlets.config import Config

from tests.kernels import Driven


@pytest.fixture
def shell(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # put back afterwards
    monkeypatch.setattr(sys, "path", list(sys.path))  # likewise: a shell puts itself first
    gc.freeze()  # what the process has loaded for other tests need not be looked through
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    yield shell
    shell.restore_sys_module_state()
    gc.collect()
    gc.unfreeze()


@pytest.fixture
def run(shell):
    """Run a cell as a front end does."""

    def run(raw, cell_id=None, **options):
        return shell.run_cell(
            textwrap.dedent(raw), **{"store_history": True, "cell_id": cell_id, **options}
        )

    return run


@pytest.fixture
def log(shell):
    return CellLog(shell)


def seen(log):
    return [(cell.number, cell.id, cell.source.strip(), cell.executed) for cell in log.cells()]


def test_cells_are_kept_in_order_of_execution(log, run):
    run("x = 1", "a")
    run("y = 1", "b")
    run("x = 2", "a")
    assert seen(log) == [
        (1, "a", "x = 1", None),
        (2, "b", "y = 1", None),
        (3, "a", "x = 2", None),
    ]


def test_cells_before_the_log_come_from_the_history(shell, run):
    run("x = 1", "a")
    run("def f(:")
    run("pwd")
    shell.push({"CellLog": CellLog, "logs": []})
    run("logs.append(CellLog(get_ipython()))\n1/0")
    run("z = 1")
    log = shell.user_ns["logs"][0]
    assert [(cell.number, cell.source) for cell in log.cells()] == [
        (1, "x = 1"),
        (2, "def f(:"),
        (3, "os.getcwd()"),
        (4, "logs.append(CellLog(get_ipython()))\n1/0"),
        (5, "z = 1"),
    ]
    assert log.cells()[3].executed == 1


def test_cells_that_did_not_parse_took_no_effect(log, run):
    run("x = (")
    run("def f(:\n  pass")
    run("")
    run("\n\n")
    assert seen(log) == []


@pytest.mark.filterwarnings("ignore:To exit")  # IPython's word to SystemExit
@pytest.mark.parametrize(
    ("raw", "executed"),
    [
        ("x = 1\n\n1/0\ny = 1", 2),
        ("1/0", 0),
        ("\n\nx = 1\n1/0", 3),
        ("!true \\\n  and more\n\nx = 1\n1/0", 4),
        ("def f():\n  1/0\n\nx = 1\nf()", 4),
        ("import no_such_module", 0),
        ("x = 1\nraise SystemExit(3)", 1),
        ("x = 1\nraise KeyboardInterrupt", 1),
        ("import asyncio\nawait asyncio.sleep(0)\n1/0", 2),
        ("%%time\nx = 1\n1/0\ny = 1", 2),
        ("\n%%time\n\n\nx = 1\n1/0", 5),
        ("%%prun\nx = 1\n1/0", 2),
        ("%%capture\nx = 1\n1/0", 2),
        ("%%time\nx = (", 0),
        ("%%no_such_magic\nx = 1", 0),
        ("%%time\nx = 1\nif x:\n    1/0", 3),
        ("x = 1\n%prun 1/0\ny = 1", 1),
    ],
)
def test_what_stood_above_the_line_that_raised_took_effect(log, run, raw, executed):
    run(raw)
    (cell,) = log.cells()
    assert cell.executed == executed


def test_a_body_that_a_magic_runs_is_no_cell_of_its_own(log, run):
    run("%%capture out\nx = 1\n", "a")
    assert seen(log) == [(1, "a", "x = 1", None)]


def test_files_and_notebooks_that_a_cell_runs_are_kept_with_their_names(log, run, tmp_path):
    cells = [nbformat.v4.new_code_cell(source) for source in ("def f():\n    pass", "y = 2")]
    cells.insert(1, nbformat.v4.new_markdown_cell("Words"))
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "other.ipynb")
    (tmp_path / "helpers.py").write_text("import sys\nz = 3\n")
    run("name = 'helpers'")
    run("if name:\n    %run other.ipynb\n%run -i {name} --epochs 3", "a")
    assert [(cell.label, cell.id, cell.source) for cell in log.cells()][1:-1] == [
        ("other.ipynb", "a", "def f():\n    pass"),
        ("other.ipynb", "a", "y = 2"),
        ("helpers.py", "a", "import sys\nz = 3\n"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        *("%run gone.py", "%run -m json", "%run 'x", "%run broken.ipynb", "%run deep.ipynb"),
        *("%run .", "%run ~no_such_user/x"),
    ],
)
def test_files_that_cannot_be_read_are_left_out(log, run, tmp_path, line):
    (tmp_path / "broken.ipynb").write_text("[]")
    (tmp_path / "deep.ipynb").write_text("[" * 100_000 + "]" * 100_000)
    run(line)
    assert [cell.file for cell in log.cells()] == [None]


@pytest.mark.parametrize(
    "raw",
    [
        *("%%bash don't\nls", "%%script \\\nls", "%%submarine --gpus '\nx = 1"),
        *("%time %run .", "%time %run ~no_such_user/x", "x = 1\r\r\r\n!true"),
        "%time \ud800",
        pytest.param(f"%env A={{{'-' * 6000}1}}", id="many signs"),
        pytest.param("%%capture\n" * 1200 + "x = 1", id="many magics"),
    ],
)
def test_no_cell_that_ran_makes_a_later_one_fail(log, run, raw, capsys):
    run(raw)
    run("y = 1")
    assert log.cells()[-1].source == "y = 1"
    assert log.translate("print(y)").source == "print(y)"
    assert "Error in callback" not in capsys.readouterr().out


def test_of_a_cell_that_an_extension_cannot_transform_any_more_its_own_text_stays(log, run, shell):
    run("y = 1\n!true")

    def transform(lines):
        raise AttributeError

    shell.input_transformer_manager.line_transforms.append(transform)
    log._runs[0].cell = None
    assert [cell.source for cell in log.cells()] == ["y = 1\n!true"]


def test_a_shell_that_fails_itself_leaves_the_log_in_order(log, run, shell):
    info = types.SimpleNamespace(raw_cell="x = 1", store_history=True, cell_id="a")
    shell.events.trigger("pre_run_cell", info)
    shell.events.trigger("post_run_cell", None)
    run("y = 1")
    assert [cell.source for cell in log.cells()] == ["x = 1", "y = 1"]
    assert log.number is None


def test_executions_without_a_number_are_kept_and_silent_ones_are_not(log, run, shell):
    run("x = 1", store_history=False)
    run("y = 1", silent=True)
    run("z = 1")
    assert [(cell.number, cell.source) for cell in log.cells()] == [(None, "x = 1"), (1, "z = 1")]
    assert log.cells()[0].label == "code run without a cell"


def test_a_reset_is_no_reason_to_forget(log, run):
    run("x = 1")
    run("%reset -f")
    run("y = 1")
    assert [cell.source for cell in log.cells()] == ["x = 1", "", "y = 1"]


def test_a_closed_log_hears_nothing(log, run):
    log.close()
    run("x = 1")
    assert log.cells() == []


# The cell that runs now


@pytest.fixture
def magic(shell, log):
    """Make ``%%submarine`` translate its body, and return what came of it."""
    found = []

    def submarine(line, body):
        found.append((log.number, log.translate(body, -1, None)))

    shell.register_magic_function(submarine, "cell", "submarine")
    return found


def test_the_running_cell_knows_its_number_id_and_lines(run, magic, log):
    run("y = 1")
    run("\n%%submarine --gpus 2\n\n!ls {y}\n%matplotlib inline\ntrain()\n", "main")
    number, cell = magic[0]
    assert number == 2
    assert cell == Cell(
        number=2,
        id="main",
        raw="\n%%submarine --gpus 2\n\n!ls {y}\n%matplotlib inline\ntrain()\n",
        source='\n\n\nsubprocess.run(f"ls {y}", shell=True)\n\ntrain()\n',
        imports=("import subprocess",),
        dropped=cell.dropped,
    )
    assert [line.line for line in cell.dropped] == [5]
    assert log.number is None


def test_a_job_in_a_wrapper_keeps_its_lines(run, magic):
    run("%%time\n%%submarine\ntrain()\n", "main")
    assert magic[0][1].source == "\n\ntrain()\n"


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("\nx = (\n", 3, "was never closed"),
        ("def f():\n    await x\n", 3, "await"),
        ("return 1\n", 2, "'return' outside function"),
        ("%run other.py\n", 2, "%run other.py"),
        ("%%cython\ncdef int x\n", 2, "%%cython"),
        ("x = %who_ls\n", 2, "%who_ls"),
    ],
)
@pytest.mark.usefixtures("magic")
def test_what_cannot_be_a_script_is_shown_at_cell_and_line(run, body, line, words):
    result = run(f"%%submarine\n{body}")
    error = result.error_in_exec
    assert isinstance(error, CellSyntaxError)
    assert error.where == f"In [1], line {line}"
    assert words in error.what
    assert error.fix


def test_a_body_that_is_not_of_a_running_cell_is_taken_as_it_is(log):
    assert log.translate("x = 1", 4, "a") == Cell(number=4, id="a", source="x = 1", raw="x = 1")
    with pytest.raises(CellSyntaxError) as caught:
        log.translate("x = (")
    assert caught.value.where == "this cell, line 1"


def test_of_a_job_cell_the_log_keeps_only_what_came_back(run, magic, log):
    run("%%submarine\nmodel = Net()\nloss = train(model)\n")
    (cell,) = log.cells()
    lines = cell.source.split("\n")
    assert lines[:2] == ["", ""]
    assert lines[2].startswith("loss = get_ipython()")


@pytest.mark.service
def test_a_kernel_tells_the_ids_of_its_cells(tmp_path):
    kernel = Driven(str(tmp_path), module="ipykernel_launcher")
    try:
        sources = {
            "first": "from submarine_magics.cells import CellLog\nlog = CellLog(get_ipython())",
            "second": "x = 1\n1/0",
            "third": "print([(c.number, c.id, c.executed) for c in log.cells()])",
        }
        ran = [kernel.run(code, {"cellId": cell_id}) for cell_id, code in sources.items()]
        outputs = "".join(one.stream("stdout") + one.stream("stderr") for one in ran)
        assert outputs == "[(1, 'first', None), (2, 'second', 1)]\n"
    finally:
        kernel.stop()
