"""A cell with ``--cache`` in a real kernel: after a restart all of it is there, and no job ran."""

import re
from pathlib import Path

import pytest
from submarine_engine.records import list_jobs
from submarine_magics.card.display import JOB_TYPE

BEFORE = """
import numpy as np
weights = np.zeros(3)
alias = weights
names = {"one", "two", "three", "four"}  # in another order in another process
def helper(x):
    return x + len(names)
"""
CELL = """%%submarine --cache --name first
import matplotlib.pyplot as plt
from IPython.display import HTML
class Net:
    depth = 2
print("training")
display(HTML("<b>bold</b>"))
plt.plot([1, 2])
plt.show()
weights += helper(1)
net = Net()
luck = np.random.default_rng().integers(10**12)
(net.depth, weights.sum())
"""
CHECK = "(int(luck), alias is weights, weights.tolist(), type(net) is Net, net.depth)"


def shown(ran):
    """Return what a cell has shown besides its card."""
    found = [one["data"] for one in ran.of_type("display_data") if JOB_TYPE not in one["data"]]
    return [*found, ran.stream("stdout"), ran.value]


def test_after_a_restart_all_of_the_cell_is_there(driven, tmp_path):
    kernels = [driven(), driven()]
    ran = []
    for kernel in kernels:
        kernel.run(BEFORE)
        ran.append(kernel.run(CELL, {"cellId": "c"}))
        assert ran[-1].reply["status"] == "ok", ran[-1].text
    assert len(list_jobs(tmp_path)) == 1
    assert shown(ran[0]) == shown(ran[1])
    assert "image/png" in str(shown(ran[1]))
    assert kernels[0].value(CHECK) == kernels[1].value(CHECK)
    card = next(one["data"] for one in ran[1].of_type("display_data") if JOB_TYPE in one["data"])
    words = r"Result from \d\d:\d\d, job first; with --refresh the cell runs again"
    assert re.search(words, card["text/plain"])
    assert re.search(words, card["text/html"])
    assert re.fullmatch(r"from \d\d:\d\d, job first", card[JOB_TYPE]["remembered"])
    assert "with --refresh" not in card[JOB_TYPE]["tree"]  # there a button says it
    ending = [one["data"] for one in ran[1].of_type("update_display_data")]
    assert all("remembered" in one[JOB_TYPE] for one in ending if JOB_TYPE in one)
    first = next(one["data"] for one in ran[0].of_type("display_data") if JOB_TYPE in one["data"])
    assert "remembered" not in first[JOB_TYPE]


@pytest.mark.long
def test_a_result_that_was_forgotten_runs_again(driven, tmp_path):
    kernel = driven()
    kernel.run(BEFORE)
    source = CELL.replace("--name first", "")
    kernel.run(source)
    [job] = list_jobs(Path(tmp_path))
    kernel.run("weights[:] = 0")
    kernel.run(f"%submarine cache clear {job.id}")
    assert kernel.run(source).reply["status"] == "ok"
    assert len(list_jobs(tmp_path)) == 2
