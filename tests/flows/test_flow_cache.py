"""Nodes whose results are known: skipped whole, in the next run, and only these."""

from __future__ import annotations

import pytest
from submarine_engine.cache import Cache
from submarine_engine.errors import FlowError
from submarine_engine.flows.runner import status_of

JOB = "%%submarine --gpus 0 --name "


def test_what_is_known_of_an_earlier_run_does_not_run_again(flow_of, call, tmp_path):
    flow_of(
        ("rate = 2", ["parameters"]),
        "data = [len('abc')]",
        f"{JOB}fit\nmodel = data[0] * rate",
        f"{JOB}score\nprint('score', model)",
        cache=True,
    )
    folder = tmp_path / "train.flow"

    def jobs(run):
        return [one.job for one in status_of(folder, run).records.values()]

    assert call("flow", "run", folder, "--run", "one")[0] == 0
    code, out, err = call("flow", "run", folder, "--run", "two")
    assert code == 0, out + err
    assert jobs("two") == jobs("one")
    assert all(one.remembered for one in status_of(folder, "two").records.values())
    assert "not run: the result is from" in err
    assert "succeeded, remembered" in out
    # What a changed parameter reaches runs; what it does not reach is known.
    code, out, err = call("flow", "run", folder, "--run", "three", "--param", "rate=3")
    assert code == 0, out + err
    assert [one == other for one, other in zip(jobs("three"), jobs("one"), strict=True)] == [
        True,
        False,
        False,
    ]
    assert "score 9" in out


def test_a_cells_own_cache_holds_from_run_to_run(flow_of, call, tmp_path):
    flow_of(f"{JOB}a --cache\nx = 1 + len('a')", f"{JOB}b\nprint(x)")
    folder = tmp_path / "train.flow"
    for run in ("one", "two"):
        assert call("flow", "run", folder, "--run", run)[0] == 0
    records = status_of(folder, "two").records
    assert {name: bool(one.remembered) for name, one in records.items()} == {"a": True, "b": False}


def test_a_cell_that_says_no_runs_in_each_run(flow_of, call, tmp_path):
    flow_of(f"{JOB}a --no-cache\nprint('a')", f"{JOB}b\nprint('b')", cache=True)
    folder = tmp_path / "train.flow"
    for run in ("one", "two"):
        assert call("flow", "run", folder, "--run", run)[0] == 0
    records = status_of(folder, "two").records
    assert {name: bool(one.remembered) for name, one in records.items()} == {"a": False, "b": True}
    assert len(Cache().entries()) == 1


def test_a_cell_that_cannot_be_remembered_runs_in_each_run(flow_of, call, tmp_path):
    flow_of(f"{JOB}a --checkpoint_path kept\nprint('a')", cache=True)
    folder = tmp_path / "train.flow"
    for run in ("one", "two"):
        code, out, err = call("flow", "run", folder, "--run", run)
        assert code == 0, out + err
        assert "the result will not be remembered: --cache and --checkpoint_path" in out
        assert not status_of(folder, run).records["a"].remembered


@pytest.mark.parametrize("words", ["--checkpoint_path kept", "--input_path hdfs:///user/ana/in"])
def test_a_cell_that_contradicts_itself_is_no_flow(flow_of, words):
    with pytest.raises(FlowError, match=words.split()[0]) as caught:
        flow_of("x = 1", f"{JOB}a --cache {words}\nprint('a')")
    assert caught.value.where == "train.ipynb, In [2], line 1"
    flow_of("x = 1", f"{JOB}a {words}\nprint('a')", cache=True)
