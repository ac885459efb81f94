"""What a sweep searches, as values and as text, and what is refused by its place."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.errors import CommandError
from submarine_engine.sweeps.space import Space, choice, integer, loguniform, uniform


def test_text_and_values_mean_the_same():
    text = "rate=loguniform(1e-4, 1e-1); units=[32, 64]; depth=int(1, 3)\nkind=choice(['a', 'b'])"
    values = {
        "rate": loguniform(1e-4, 1e-1),
        "units": [32, 64],
        "depth": integer(1, 3),
        "kind": choice("ab"),
    }
    assert Space.of(text) == Space.of(values)
    assert Space.of(text).names == ("rate", "units", "depth", "kind")
    assert Space.of({"depth": range(1, 4)}).domains["depth"] == integer(1, 3)


def test_a_space_is_written_as_it_is_read():
    space = Space.of(
        "a=loguniform(0.1, 1); b=[1, 'x', None]; c=int(1, 9, log=True); d=uniform(-1, 1)"
    )
    assert Space.of(str(space)) == space


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "", "empty"),
        ("rate", "character 1", "gives no name"),
        ("a=[1]; b", "character 8", "gives no name"),
        ("a=[1]; a=[2]", "character 8", "given twice"),
        ("a=[1]; b=[", "character", "no space"),
        ("a=[]", "a=[]", "nothing to choose"),
        ("a=3", "a=3", "no range"),
        ("a='xyz'", "a='xyz'", "no range"),
        ("a=loguniform(0, 1)", "a=loguniform(0, 1)", "no logarithm"),
        ("a=uniform(2, 1)", "a=uniform(2, 1)", "holds nothing"),
        ("a=uniform(1, 1)", "a=uniform(1, 1)", "holds one value"),
        ("a=uniform(1e999, 1)", "a=", "no number"),
        ("a=uniform(1)", "a=uniform(1)", "not how uniform is written"),
        ("a=int(1.5, 3)", "a=int(1.5, 3)", "no whole number"),
        ("a=loguniforn(1, 2)", "a=loguniforn(1, 2)", "no kind of range"),
        ("a=open('x')", "a=open('x')", "no kind of range"),
        ("a=os.system('x')", "a=os.system('x')", "no kind of range"),
        ("a=[x for x in y]", "a=", "no plain value"),
        ("a=[__import__('os')]", "a=", "no plain value"),
        ("a=[1, 1.0]", "a=[1, 1.0]", "twice"),
        ("a, b = [1], [2]", "character 1", "gives no name"),
        ("a=b=[1]", "character 1", "gives no name"),
        ("a=uniform(**{'low': 1})", "a=", "says nothing"),
    ],
)
def test_text_that_is_no_space_is_refused_by_its_place(text, where, what):
    with pytest.raises(CommandError) as refused:
        Space.of(text)
    assert what in refused.value.what
    assert refused.value.where.startswith(where)
    assert refused.value.fix


@given(st.text(max_size=60))
def test_any_text_is_a_space_or_refused(text):
    try:
        space = Space.of(text)
    except CommandError:
        return
    assert space.names


def test_nothing_of_the_text_is_run(tmp_path):
    mark = tmp_path / "mark"
    with pytest.raises(CommandError):
        Space.of(f"a=[open({str(mark)!r}, 'w')]")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (3, "no space"),
        ({}, "empty"),
        ({"a b": [1]}, "no name"),
        ({"class": [1]}, "no name"),
        ({1: [1]}, "no name"),
        ({"a": 3}, "no range"),
        ({"a": list(range(1001))}, "too many"),
        ({"a": [float("nan")]}, "cannot be chosen"),
    ],
)
def test_values_that_are_no_space_are_refused(given, what):
    with pytest.raises(CommandError, match=what):
        Space.of(given)


def test_names_that_no_argument_has_are_named_all():
    space = Space.of({"rat": [1], "rate": [1], "unit": [1]})
    with pytest.raises(CommandError, match="no argument rat, unit") as refused:
        space.check_names(["rate", "units"], "train()")
    assert "did you mean rate?" in refused.value.fix


def test_a_grid_has_an_end():
    assert Space.of("a=[1, 2]; b=int(1, 3)").grid() == {"a": [1, 2], "b": [1, 2, 3]}
    with pytest.raises(CommandError, match=r"over b=uniform\(0, 1\) has no end"):
        Space.of("a=[1, 2]; b=uniform(0, 1)").grid()
    with pytest.raises(CommandError, match="1,000,000,000,000 points"):
        Space.of("a=int(1, 1000000); b=int(1, 1000000)").grid_size()


def test_what_optuna_samples_comes_back_as_it_was_given():
    layers = [(64,), (64, 32)]
    space = Space.of({"layers": layers, "rate": uniform(0, 1), "kind": ["a", None, True]})
    kept = space.distributions()
    assert kept["layers"].choices == ("0: (64,)", "1: (64, 32)")
    values = space.values({"layers": "1: (64, 32)", "rate": 0.5, "kind": None})
    assert values == {"layers": (64, 32), "rate": 0.5, "kind": None}
    assert values["layers"] is layers[1]


def test_a_space_is_made_without_optuna():
    import subprocess

    code = "import sys, submarine_engine.sweeps.space; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
