"""A cell that ends early, or has nothing to do, is what a plain one is."""

import pytest
from submarine_engine import list_jobs


@pytest.mark.filterwarnings("ignore:To exit")  # IPython's word to SystemExit
@pytest.mark.parametrize("leave", ["import sys\nsys.exit()", "raise SystemExit", "exit()"])
def test_a_cell_that_exits_stops_what_is_below_it(notebook, capsys, leave):
    with pytest.raises(SystemExit):
        notebook.job(f"x = 1\n{leave}\nx = 2")
    assert notebook["x"] == 1
    assert [job.state.value for job in list_jobs()] == ["succeeded"]
    said = capsys.readouterr().err
    assert ("`exit()` has ended the cell and its job; the kernel goes on" in said) is (
        leave == "exit()"
    )


def test_a_cell_of_comments_alone_asks_for_no_job(notebook):
    assert notebook.job("# later\n\n# and more") is None
    assert list_jobs() == []
