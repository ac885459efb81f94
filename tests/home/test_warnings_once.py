"""What the notebook's earlier cells warned of is no text of the job's cell."""

from __future__ import annotations

import sys
import warnings

import pytest
from submarine_engine import list_jobs, open_job

WARNS = """
import warnings

def old(stacklevel=1):
    warnings.warn("of an old way", FutureWarning, stacklevel=stacklevel)

warnings.warn("at its import", FutureWarning)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    old()
old()
assert len(caught) == 1
"""


@pytest.fixture
def warned(notebook, monkeypatch, tmp_path):
    """A notebook with usual filters, which has imported a module that warns."""
    (tmp_path / "notes" / "warns.py").write_text(WARNS)
    monkeypatch.delitem(sys.modules, "warns", raising=False)
    monkeypatch.syspath_prepend(tmp_path / "notes")
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("default")
        with pytest.warns(FutureWarning) as told:
            notebook.run("import warns")
        assert "at its import" in [str(one.message) for one in told]
        yield notebook


def stderr():
    [last] = [job.id for job in list_jobs()][:1]
    job = open_job(last)
    return (job.cluster.results(job.id) / "stderr").read_text()


@pytest.mark.parametrize("first", ["", "import warnings"])
def test_the_import_that_is_run_again_warns_of_nothing_and_the_cell_of_its_own(warned, first):
    if first:
        warned.run(first)
        first = "warnings"
    warned.job(f"{first}\nwarns.old()\nwarns.old(2)\nprint('done')")
    text = stderr()
    assert "at its import" not in text
    # The same line has warned before, in the notebook too; this cell's own has not.
    assert text.count("FutureWarning: of an old way") == 1
    assert "script.py" not in text


def test_a_module_that_the_cell_imports_first_warns_there(notebook, tmp_path, monkeypatch):
    (tmp_path / "notes" / "warns_too.py").write_text(WARNS)
    monkeypatch.syspath_prepend(tmp_path / "notes")
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("default")
        notebook.job("import warns_too\nwarns_too.old()")
    assert "FutureWarning: at its import" in stderr()
