"""Warnings and errors are placed at the cells that the lines are in, also inside values."""

from __future__ import annotations

import warnings

import pytest
from submarine_engine import JobFailedError, list_jobs, open_job

COUNTED = """
import functools, warnings

def counted(function):
    @functools.wraps(function)
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args)
    wrapper.calls = 0
    return wrapper
"""
INVERSE = """

@counted
def inverse(x):
    if x > 2:
        warnings.warn("large")
    return 1 / x
inverse(1)
"""


@pytest.fixture
def heard():
    """Have warnings shown, in the notebook and so in its jobs."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("default")
        yield


@pytest.fixture
def stateful(notebook):
    """A notebook whose function travels by value: its decorator remembers something."""
    notebook.run(COUNTED)
    notebook.shell.run_cell(INVERSE, store_history=True)
    return notebook


def stderr():
    job = open_job(list_jobs()[0].id)
    return (job.cluster.results(job.id) / "stderr").read_text()


@pytest.mark.usefixtures("heard")
def test_a_warning_names_the_cell_its_line_and_the_code(notebook):
    notebook.run("import warnings\ndef above():\n    warnings.warn('from above')")
    notebook.job(
        """
        warnings.warn("of the cell")
        def below():
            warnings.warn("of the caller", FutureWarning, stacklevel=2)
        below()
        above()
        """
    )
    assert stderr().splitlines() == [
        "Cell In[2], line 2: UserWarning: of the cell",
        '  warnings.warn("of the cell")',
        "Cell In[2], line 5: FutureWarning: of the caller",
        "  below()",
        "Cell In[1], line 3: UserWarning: from above",
        "  warnings.warn('from above')",
    ]


@pytest.mark.usefixtures("heard")
def test_a_warning_that_logging_takes_and_one_in_a_module_name_their_places(
    notebook, tmp_path, monkeypatch
):
    (tmp_path / "notes" / "helping.py").write_text("import warnings\nwarnings.warn('of a module')")
    monkeypatch.syspath_prepend(tmp_path / "notes")
    notebook.run("import logging, warnings, sys")
    notebook.job(
        """
        logging.basicConfig(format="%(message)s")
        logging.captureWarnings(True)
        warnings.warn("logged")
        import helping
        """,
        "-o none",  # what logging is set to stays there
    )
    text = stderr()
    assert "Cell In[2], line 4: UserWarning: logged" in text
    assert "\nhelping.py:2: UserWarning: of a module" in text


@pytest.mark.usefixtures("heard")
def test_a_warning_keeps_its_own_format_and_its_own_file(notebook):
    notebook.job(
        """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.warn("kept")
        file = caught[0].filename
        warnings.formatwarning = lambda *about: f"mine: {about[0]}\\n"
        warnings.warn("shown")
        """
    )
    assert notebook["file"].endswith("script.py")
    assert stderr() == "mine: shown\n"


@pytest.mark.usefixtures("heard")
def test_what_happens_in_a_function_within_a_value_is_at_the_line_of_its_own_cell(stateful):
    stateful.job("inverse(3)")
    # The shell compiles a cell without the empty lines above it; the front end shows them.
    assert stderr().splitlines() == [
        "Cell In[2], line 6: UserWarning: large",
        '  warnings.warn("large")',
    ]
    with pytest.raises(JobFailedError) as caught:
        stateful.job("inverse(0)")
    frames = [(frame.cell, frame.line, frame.text) for frame in caught.value.frames]
    assert frames == [
        ("In [4]", 2, "inverse(0)"),
        ("In [1]", 7, "return function(*args)"),
        ("In [2]", 7, "return 1 / x"),
    ]
    assert caught.value.frames[-1].context[-1][1].strip() == "return 1 / x"


def test_a_file_that_no_cell_is_of_is_no_frame_of_the_user(notebook):
    notebook.run("code = compile('def f(): return 1 / 0', '/etc/hostname', 'exec')\nexec(code)")
    notebook.run("import functools\ng = functools.partial(f)\ng.seen = 1")
    with pytest.raises(JobFailedError) as caught:
        notebook.job("g()")
    assert [frame.cell for frame in caught.value.frames] == ["In [3]"]
