"""IPython's syntax becomes plain Python on the same lines; what has no place is listed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.bundle import Cell, build
from submarine_magics.cells import ran_files
from submarine_magics.magic_lines import WRAPPERS, expanded
from submarine_magics.translate import translate


def source(raw, **options):
    return translate(raw, **options).source


def dropped(raw, **options):
    return [(line.line, line.text) for line in translate(raw, **options).dropped]


def problems(raw, **options):
    return [(found.line, found.text) for found in translate(raw, **options).problems]


@pytest.mark.parametrize(
    ("raw", "python"),
    [
        ("!ls -l", 'subprocess.run("ls -l", shell=True)'),
        ("files = !ls", 'files = subprocess.getoutput("ls").splitlines()'),
        ("!!ls", 'subprocess.getoutput("ls").splitlines()'),
        ("%sx ls", 'subprocess.getoutput("ls").splitlines()'),
        ("%ls -a", 'subprocess.run("ls -a", shell=True)'),
        ("!echo {x} $x", 'subprocess.run(f"echo {x} {x}", shell=True)'),
        ("!echo {unknown} {x}", 'subprocess.run("echo {unknown} {x}", shell=True)'),
        ("!echo $HOME", 'subprocess.run("echo $HOME", shell=True)'),
        ("!awk '{print $1}' f", "subprocess.run(\"awk '{print $1}' f\", shell=True)"),
        ("%time f(x)", "IPythonClock.start().stop(f(x))"),
        ("%time y = f(x)", "y = IPythonClock.start().stop(f(x))"),
        ("%time y = x, x", "y = IPythonClock.start().stop((x, x))"),
        ("%time import x", "IPythonClock.start(); import x; IPythonClock.stop()"),
        ("%time y: int = (x +\\\n 1)", "y: int = (IPythonClock.start().stop(x +  1))\n"),
        ("y = %time f(x)", "y = IPythonClock.start().stop(f(x))"),
        ("y = %time x, x", "y = IPythonClock.start().stop((x, x))"),
        ("y = %time f(x)  # é", "y = IPythonClock.start().stop(f(x))  # é"),
        ("y = %time (x)  # why", "y = IPythonClock.start().stop((x))  # why"),
        ("%time f(x)  # why", "IPythonClock.start().stop(f(x))  # why"),
        (
            "%time a = 1; b = 2  # why",
            "IPythonClock.start(); a = 1; b = 2; IPythonClock.stop()  # why",
        ),
        ("%time import x; # é", "IPythonClock.start(); import x; IPythonClock.stop(); # é"),
        ("%time for y in x: f(y)", "for y in x: f(y)"),
        (
            "%pip install x",
            'subprocess.run(f"\\"{sys.executable}\\" -m pip install x", shell=True)',
        ),
        ("%uv pip list", 'subprocess.run(f"\\"{sys.executable}\\" -m uv pip list", shell=True)'),
        ("%prun -l 5 f(x)", "f(x)"),
        ("def g():\n  %prun # why", "def g():\n  pass"),
        (
            "%time y = !ls",
            'y = IPythonClock.start().stop(subprocess.getoutput("ls").splitlines())',
        ),
        ("%env A=B c", 'os.environ["A"] = "B c"'),
        ("%env A {x}", 'os.environ["A"] = f"{x}"'),
        ("%set_env A=1", 'os.environ["A"] = "1"'),
        ("home = %env HOME", 'home = os.environ["HOME"]'),
        ("%cd data", 'os.chdir("data")'),
        ("%cd -q ~/data", 'os.chdir(os.path.expanduser("~/data"))'),
        ("%cd 'my data'", 'os.chdir("my data")'),
        ("%cd", 'os.chdir(os.path.expanduser("~"))'),
        ("here = %pwd", "here = os.getcwd()"),
        ("%matplotlib inline", ""),
        ("?f", ""),
        ("f??", ""),
        ("%unknown thing", ""),
        ("/f x", "f(x)"),
        (">>> y = 1", "y = 1"),
        ("    y = 1", "y = 1"),
        ("y = '''\n!no\n%no\n'''", "y = '''\n!no\n%no\n'''"),
        ("y = 4 %x", "y = 4 %x"),
        ("get_ipython().magic('matplotlib inline')", ""),
        ("f(get_ipython().getoutput('ls'))", 'f(subprocess.getoutput("ls").splitlines())'),
        ("y = 'é'; z = !ls é", "y = 'é'; z = !ls é"),
        ("if x:\n  y = 'é'\n  !ls é", "if x:\n  y = 'é'\n  subprocess.run(\"ls é\", shell=True)"),
    ],
)
def test_a_line_reads_as_a_person_would_write_it(raw, python):
    assert source(raw, known={"x"}) == python


def test_imports_that_the_lines_need_are_told():
    assert translate("!ls\n%env A=B\n%prun !ls").imports == ("import subprocess", "import os")
    assert translate("x = 1").imports == ()


def test_a_script_imports_what_its_lines_need():
    raw = {1: "def show(x):\n    !echo {x}", 2: "%cd data\nshow(1)"}
    cells = []
    for number, text in raw.items():
        found = translate(text)
        cells.append(Cell(number=number, source=found.source, raw=text, imports=found.imports))
    script = build(cells[1], cells[:1], {"show": print}).script
    assert "# %% Imports\nimport os\nimport subprocess\n\n\n# %% In [1]\n" in script
    assert '    os.chdir("data")\n' in script


CELL = """

%matplotlib inline
import os
for step in steps:
    !echo {step} \\
        more
    %time train(step)
    %load_ext x
def f():
    %pip install x
    ?help
x = !ls
"""


def test_lines_keep_their_numbers():
    translation = translate(CELL, known={"steps"})
    assert translation.source.split("\n") == [
        *("", "", "", "import os", "for step in steps:"),
        '    subprocess.run(f"echo {step}          more", shell=True)',
        *("", "    IPythonClock.start().stop(train(step))", "", "def f():"),
        *('    subprocess.run(f"\\"{sys.executable}\\" -m pip install x", shell=True)', ""),
        *('x = subprocess.getoutput("ls").splitlines()', ""),
    ]
    assert [(line.line, line.text) for line in translation.dropped] == [
        *((3, "%matplotlib inline"), (9, "%load_ext x")),
        (12, "%pinfo help"),
    ]
    assert "shows help" in translation.dropped[2].reason


def test_lines_as_ipython_compiles_them_are_found_in_the_cell():
    compiled = TransformerManager().transform_cell(CELL).split("\n")
    numbers = translate(CELL).numbers
    assert numbers[compiled.index("import os")] == 4
    assert numbers[compiled.index("def f():")] == 10


PIECES = (
    *(
        "",
        "x = 1",
        "!ls",
        "%prun x",
        "%time x",
        "y = !ls",
        "?x",
        "z = (1,\n  2)",
        "!a \\\n b",
        "# c",
    ),
    *("if x:\n  %pip a\n  !b", "%env A=B", "'''\n!x\n'''", "%%x", "def f(:"),
)


@given(st.lists(st.sampled_from(PIECES)))
def test_the_mark_of_every_line_stays_on_its_line(pieces):
    lines = [f"{piece}\nmark_{index}" for index, piece in enumerate(pieces)]
    raw = "\n".join(lines)
    translated = source(raw).split("\n")
    for number, line in enumerate(raw.split("\n")):
        if line.startswith("mark_"):
            assert translated[number] == line or raw.lstrip().startswith("%%")


# Cell magics


def test_magics_around_code_keep_the_code():
    assert source("%%prun\n\nx = 1\n!ls") == '\n\nx = 1\nsubprocess.run("ls", shell=True)'
    assert source("\n%%capture out\n%%prun\nf()") == "\n\n\nf()"
    assert source("%%time\nf()", executed=True) == "\nf()"
    assert dropped("%%prun\nx") == [(1, "%%prun")]


@pytest.mark.parametrize(
    ("body", "timed"),
    [
        (
            "from __future__ import annotations\nf()",
            "from __future__ import annotations\nIPythonClock.start()\nIPythonClock.stop(f())",
        ),
        (
            '"d"\nfrom __future__ import (\n a)\nx',
            '"d"\nfrom __future__ import (\n a)\nIPythonClock.start()\nIPythonClock.stop(); x',
        ),
        (
            "%%capture\nfrom __future__ import annotations\nf()",
            "\nfrom __future__ import annotations\nIPythonClock.start()\nIPythonClock.stop(f())",
        ),
    ],
)
def test_imports_from_the_future_stand_above_the_clock_and_all_else_where_it_stood(body, timed):
    assert source(f"%%time\n{body}") == timed


@pytest.mark.parametrize(
    ("body", "timed"),
    [
        ("x = f()\nx", "x = f()\nIPythonClock.stop(); x"),
        ("a\nb, c", "a\nIPythonClock.stop(); b, c"),
        ("x = a, b;", "x = IPythonClock.stop((a, b));"),
        ("x: int = 'é', (y := 2)", "x: int = IPythonClock.stop(('é', (y := 2)))"),
        ("x = (\n  a + b\n)", "x = (\n  IPythonClock.stop(a + b)\n)"),
        ("for x in y:\n    f()", "for x in y:\n    f()\nIPythonClock.stop()"),
        ("import a", "import a\nIPythonClock.stop()"),
        ("def f(:", "def f(:"),
    ],
)
def test_a_timed_cell_says_how_long_it_took_and_keeps_its_value(body, timed):
    assert source(f"%%time\n{body}") == f"IPythonClock.start()\n{timed}"


def test_a_clock_prints_what_ipythons_prints(capsys):
    translation = translate("%time x = 1 + 1")
    namespace = {}
    exec("\n".join([*translation.imports, translation.source]), namespace)  # noqa: S102 - the point
    printed = capsys.readouterr().out
    assert namespace["x"] == 2
    took = r"[\d.]+ (|m|μ|n)s"
    assert re.fullmatch(
        rf"CPU times: user {took}, sys: {took}, total: {took}\nWall time: {took}\n", printed
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ns"),
        (0.0000241, "24.1 μs"),
        (0.00508, "5.08 ms"),
        (0.99996, "1 s"),
        (12.3456, "12.3 s"),
        (83, "1min 23s"),
        (3599.7, "1h 0min 0s"),
        (100_000, "27h 46min 40s"),
    ],
)
def test_a_clock_says_how_long_in_units_that_people_read(seconds, text):
    namespace = {}
    exec(translate("%time 1").imports[0], namespace)  # noqa: S102 - the point
    assert namespace["IPythonClock"].text(seconds) == text


def test_a_file_that_is_run_gives_its_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tools.py").write_text(
        "import sys\n_private = 1\ndef double(x):\n    return 2 * x\n"
        "if __name__ == '__main__':\n    given = sys.argv\n"
    )
    translation = translate("%run tools a b")
    monkeypatch.setattr(sys, "argv", [])
    namespace = {}
    exec("\n".join([*translation.imports, translation.source]), namespace)  # noqa: S102 - the point
    assert namespace["double"](2) == 4
    assert namespace["given"] == ["tools.py", "a", "b"]
    assert "_private" not in namespace
    assert source("%run tools", executed=True) == ""
    assert 'run_path("tools.py"' in source(f"%run {tmp_path}/tools.py")
    Path("tools.py").write_text("lr = 0.3\n")
    assert '; lr = runpy.run_path("tools.py", run_name="__main__").get("lr")' in source(
        "%run tools"
    )


def test_code_that_left_nothing_in_the_notebook_is_left_out_of_what_ran():
    assert source("%%timeit\nx = 1", executed=True).strip() == ""
    assert source("%timeit x = 1", executed=True).strip() == ""
    assert source("%time x = 1", executed=True) == "x = 1"
    assert source("%%submarine.python a.py\nx = 1", executed=True).strip() == ""


def test_of_a_cell_that_ran_as_a_job_only_its_results_stay():
    raw = "%%submarine --gpus 2 -o model\nimport os\nmodel = Net()\nlr = 1\nloss, n = train(lr)"
    lines = source(raw, executed=True).split("\n")
    assert lines[:2] == ["", ""]
    assert lines[2].startswith("model = get_ipython()")
    assert lines[3] == ""
    assert lines[4].startswith("n = get_ipython()") or lines[4].startswith("loss = ")
    assert source(raw).split("\n")[1:] == raw.split("\n")[1:]


@pytest.mark.parametrize("magic", ["bash", "sh", "python3", "script bash"])
def test_scripts_run_as_they_did(magic, tmp_path):
    body = {"python3": 'import os\nprint(\'a\\n\', """b""", os.getcwd())\n'}.get(
        magic, 'for x in a "b\\\\c"; do\n  echo "$x" \'"""\' >> out\ndone\n'
    )
    raw = f"%%{magic}\n{body}"
    assert source(raw).split("\n")[1] == body.split("\n")[0].replace("\\", "\\\\").replace(
        '"""', r"\"\"\""
    )
    expected = subprocess.run(
        magic.replace("script ", ""), input=body.encode(), stdout=-1, cwd=tmp_path, check=True
    )
    first = (tmp_path / "out").read_text() if (tmp_path / "out").exists() else None
    (tmp_path / "out").unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", f"import subprocess\n{source(raw)}"],
        stdout=-1,
        cwd=tmp_path,
        check=True,
    )
    assert done.stdout == expected.stdout
    assert first is None or (tmp_path / "out").read_text() == first


def test_the_output_of_a_script_can_be_kept():
    code = source("%%bash --out lines\necho a\necho b\n")
    namespace = {"subprocess": subprocess}
    exec(code, namespace)  # noqa: S102 - the point
    assert namespace["lines"] == "a\nb\n"


TEXT = "a = '''x'''\n  b = \"\"\"é\"\"\" \\\\ \\n\n\n"


def test_files_are_written_as_they_were(tmp_path):
    path = tmp_path / "new.py"
    assert source("%%writefile a.py\nx = 1\n") == 'Path("a.py").write_text("""\\\nx = 1\n""")'
    for raw in (f"%%writefile {path}\n{TEXT}", f"%%writefile -a {path}\n{TEXT}"):
        translation = translate(raw)
        assert translation.imports == ("from pathlib import Path",)
        exec("\n".join([*translation.imports, translation.source]))  # noqa: S102 - the point
    assert path.read_text(encoding="utf-8") == TEXT * 2
    named = translate("%%file {name}.py\nx\n", known={"name"})
    assert named.source.startswith('Path(f"{name}.py").write_text')


@pytest.mark.parametrize("raw", ["%%html\n<b>", "%%markdown\n# a", "%%javascript\nx()"])
def test_what_is_only_shown_is_dropped(raw):
    assert source(raw).strip() == ""
    assert problems(raw) == []
    assert len(dropped(raw)) == 1


@pytest.mark.parametrize(
    "raw",
    [
        "%%cython\ncdef int x",
        "%%R -o df\nx",
        "%%bash --bg\nls",
        "%%script\nls",
        "%run other.py",
        "%run other.ipynb",
        "%run -i other.py",
        "%run {name}",
        "y = %run other.py",
        "%debug",
        "%%debug\nf()",
        "%timeit f()",
        "%%timeit -n 3 x = 1\nf(x)",
        "%cd -",
        "x = %who_ls",
        "x = %timeit -o f()",
        "x = %time y = f()",
        "%%bash don't\nls",
        "%%script \\\nls",
        "%run ~no_such_user/other",
        "%run .",
    ],
)
def test_what_no_script_can_hold_is_a_problem(raw):
    assert problems(raw) == [(1, re.sub("^[xy] = ", "", raw.split("\n")[0]))]
    assert all(problem.fix for problem in translate(raw).problems)


def test_code_that_does_not_parse_is_handed_on():
    for raw in ("def f(:\n  !ls", "%time f(\n", "x = (\n!ls"):
        with pytest.raises(SyntaxError):
            compile(source(raw), "cell", "exec")


def test_a_line_ends_where_python_ends_it():
    assert source("x = 1\r\r!ls\r\n") == 'x = 1\n\nsubprocess.run("ls", shell=True)\n'
    assert source("%%time\rx = 1\r\nx") == "IPythonClock.start()\nx = 1\nIPythonClock.stop(); x"


ODD = (
    *("don't", '"', "\\", "''", "~no_such_user/x", "~", ".", "/", "{", "{x!", "{x:{x}}", "$", "$x"),
    *(f"{{x{'.a' * 900}}}", f"{{{'-' * 6000}1}}", "\0", "\ud800", "\r", "\x0c", "\u2028", "="),
    *("-", "--", "-n", "--out", "--out a", "--bg", "-a", "-m json", "--gpus x", "-o a,b", "a=b"),
    *("#", ";", "x = 1", "f()  # x", "import os", "%time", "!ls", "%run ~no_such_user/x", "?"),
    "\n",
)
MAGICS = (
    *(*WRAPPERS, "env", "cd", "pip", "run", "sx", "ls", "bash", "script", "writefile", "file"),
    *("html", "system", "submarine"),
)
FORMS = ("%%{0} {1}\n{2}", "%{0} {1}", "x = %{0} {1}", "x = !{1}", "def f():\n  %{0} {1}", "{1}")


@st.composite
def odd_cells(draw):
    """Draw a cell with magics of all kinds, and odd text where their options and bodies stand."""
    odd = st.lists(st.sampled_from(ODD), max_size=4).map(" ".join)
    lines = [
        draw(st.sampled_from(FORMS)).format(draw(st.sampled_from(MAGICS)), draw(odd), draw(odd))
        for _ in range(draw(st.integers(1, 3)))
    ]
    return "\n".join(lines)


@given(odd_cells(), st.booleans())
def test_no_cell_is_too_odd_to_be_translated(raw, executed):
    translate(raw, known={"x"}, executed=executed)
    list(ran_files(raw, str))


def test_a_magic_without_its_sign_counts_where_ipython_took_it_for_one():
    compiled = "get_ipython().run_line_magic('conda', 'install x')\n"
    assert source("\nconda install x", compiled=compiled) == "\n"
    assert dropped("\nconda install x", compiled=compiled) == [(2, "%conda install x")]
    assert source("x = 1", compiled="x = 1\n") == "x = 1"


# Expansion is IPython's own


FRAGMENTS = (
    *("{x}", "$x", "$$x", "{d['k']}", '{d["k"]}', "{x!r}", "{x + 1}", "{d['k'][1:2]}", "é", "{}"),
    *(
        "{{",
        "}}",
        "{",
        "}",
        "{y}",
        "$y",
        "$1",
        "'",
        '"',
        "\\",
        "#",
        " ",
        "{'a' + \"b\"}",
        "$x.real ",
    ),
    *("{x:>3}", "{[z for z in range(x)]}", "{{1: 2}}"),
)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join))
def test_text_expands_as_ipython_expands_it(text):
    namespace = {"x": 3, "d": {"k": "value"}}
    shell = InteractiveShell.instance()
    shell.user_ns.clear()
    shell.user_ns.update(namespace)
    expected = shell.var_expand(text, depth=100)
    assert eval(expanded(text, namespace), dict(namespace)) == expected  # noqa: S307 - the point
