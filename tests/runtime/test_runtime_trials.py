"""What a worker does for each trial of a sweep."""

import gc
import os
import sys
import types
import weakref

import pytest
from submarine_runtime import reports, trials
from submarine_runtime.trials import Trial


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    names = "CHECKPOINT_PATH", "LOGDIR", "OUTPUT_PATH", "TRIAL"
    for name in names:
        monkeypatch.setenv(f"SUBMARINE_{name}", "")
    yield
    reports.Last.forget()


class Model:
    def __init__(self):
        self.me = self


@pytest.mark.parametrize("forks", [True, False])
def test_what_a_trial_held_is_let_go_before_the_next_one_in_its_process(monkeypatch, forks):
    emptied = []
    cuda = types.SimpleNamespace(empty_cache=lambda: emptied.append(True))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    models = []

    def train():
        held = [model() is not None for model in models]
        models.append(weakref.ref(Model()))
        return sum(held)

    trial = Trial(train, ["loss"], {}, forks=forks)
    gc.disable()
    try:
        found = [trial(number, {}, None)["values"]["loss"] for number in range(3)]
    finally:
        gc.enable()
    # A fork's memory goes with it.
    assert found == ([0, 1, 2] if forks else [0, 0, 0])
    assert len(emptied) == (0 if forks else 3)


def test_each_trial_leaves_its_files_in_a_folder_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(trials, "_outputs", str(tmp_path))
    for number in 3, 4, 3:  # one that was paused goes on
        trials._prepare(number, None)
        (tmp_path / f"trial-{number}" / "model").touch()
        assert os.environ["SUBMARINE_OUTPUT_PATH"] == f"{tmp_path}/trial-{number}"
