"""A list of jobs in a notebook: one table, which follows them."""

from __future__ import annotations

SUBMIT = """
import threading
from pathlib import Path
from IPython.display import display
from submarine_engine import submit

def wait(gate):
    import time
    while not Path(gate).exists():
        time.sleep(0.02)

def followed(jobs, gate):
    display(jobs)
    Path(gate).touch()
    for thread in threading.enumerate():
        if thread.name.startswith("submarine-jobs-"):
            thread.join()
"""


def tables(ran):
    """Return the tables that a cell has shown, one after the other."""
    kinds = ("display_data", "update_display_data")
    found = [msg["content"]["data"] for msg in ran.messages if msg["msg_type"] in kinds]
    return [data for data in found if 'aria-label="Jobs"' in data.get("text/html", "")]


def test_a_list_of_jobs_is_a_table_that_follows_them(kernel, tmp_path):
    kernel.run(SUBMIT)
    gate = str(tmp_path / "gate")
    one, two = (f"submit(wait, {gate!r}, gpus=0, name={name!r})" for name in ("one", "two"))
    ran = kernel.run(f"followed([{one}, {two}], {gate!r})")
    first, *_, last = (data["text/plain"].splitlines() for data in tables(ran))
    assert first[0].endswith(" · 2 jobs")
    assert first[0] != "0 running · 2 jobs"
    assert last[0] == "0 running · 2 jobs"
    assert [line.split("  ")[:2] for line in last[1:]] == [
        ["one", "✓ succeeded"],
        ["two", "✓ succeeded"],
    ]


def test_a_dict_of_jobs_is_called_by_its_keys_and_other_lists_are_as_ever(kernel, tmp_path):
    kernel.run(SUBMIT)
    gate = tmp_path / "gate"
    gate.touch()
    job = f"submit(wait, {str(gate)!r}, gpus=0)"
    ran = kernel.run(f"jobs = {{0.1: {job}, '<b>': {job}}}\nfollowed(jobs, {str(gate)!r})")
    last = tables(ran)[-1]
    assert [line.split("  ")[0] for line in last["text/plain"].splitlines()[1:]] == ["0.1", "<b>"]
    assert "<b>" not in last["text/html"]
    assert kernel.value("[1, 2], (), {'a': 1}, []") == "([1, 2], (), {'a': 1}, [])"
    assert kernel.value("[jobs[0.1], 1][1:]") == "[1]"
    assert "Job" in kernel.run("[jobs[0.1], 1]").value
