"""What modules of the notebook's hold, as the job sees it."""

import sys
import types

import pytest
from submarine_runtime.module_state import ModuleStates


@pytest.fixture
def module(monkeypatch):
    """Return a function that makes a module of that name, which is imported."""

    def make(name, **content):
        made = types.ModuleType(name)
        vars(made).update(content)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    return make


@pytest.mark.parametrize("walk", ["set_since", "all_held", "rebound"])
def test_what_is_imported_while_changes_are_written_is_noted_meanwhile(module, tmp_path, walk):
    states = ModuleStates((), lambda *_: None, lambda _: None, str(tmp_path))
    for name in ("first", "second"):
        states.note(module(name, seen=[1], epochs=1))
        sys.modules[name].seen.append(2)
        sys.modules[name].epochs = 2
    found = set()
    for name, *_ in getattr(states, walk)():
        found.add(name)
        states.note(module(f"imported_for_{name}_{len(found)}", seen=[]))
    assert found >= {"first", "second"}
