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


def test_what_a_look_at_a_value_imports_is_noted_meanwhile(module, tmp_path):
    states = ModuleStates((), lambda *_: None, lambda _: None, str(tmp_path))

    class Importing:
        def __init__(self):
            self.looks = 0

        def __reduce__(self):
            self.looks += 1
            states.note(module(f"other_{self.looks}", seen=[]))
            return list, ()

    states.note(module("first", value=[Importing()]))
    states.note(module("second", seen=[1]))
    sys.modules["second"].seen.append(2)
    assert [(name, key) for name, _, key, _ in states.set_since()] == [("second", "seen")]
    assert {name for name, *_ in states.all_held()} >= {"first", "second"}
    assert list(states.rebound()) == []
