"""What a worker does for each trial of a sweep."""

import gc
import sys
import types
import weakref

import pytest
from submarine_runtime import reports
from submarine_runtime.trials import Trial


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("SUBMARINE_TRIAL", "SUBMARINE_CHECKPOINT_PATH", "SUBMARINE_LOGDIR"):
        monkeypatch.setenv(name, "")
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
