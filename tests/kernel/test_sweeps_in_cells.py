"""Sweeps in a notebook: of a function, and of a cell, with a line a trial in the cell's output."""

import pytest
from submarine_engine.bundle.model import Cell
from submarine_engine.errors import CommandError
from submarine_magics.card.display import JOB_TYPE
from submarine_magics.sweeping import as_function, function_of, names_read


def made(source, params=("a",), objectives=("loss",)):
    cell = Cell(number=3, source="\n" + source)
    return as_function(cell, params, objectives)


def ran(source, **given):
    source = made(source, tuple(given))
    return function_of(Cell(number=3, source=source), {"base": 10})(**given)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("a + base", 11),
        ("a += base\na", 11),
        ("x = 2\na * x; a", 1),
        ("loss = a + 1", {"loss": 2}),
        ("loss = a + 1\nloss", {"loss": 2}),
        ("if a > 3:\n    loss = 1", {"loss": None}),
        ("'ü'; a", 1),
        ("text = '''one\n  two'''\ntext", "one\n  two"),
        ("text = f'''{a}\n  {a +\n 1}'''\ntext", "1\n  2"),
        ("def g(x):\n    return x * 2\n# over\ng(a)", 2),
    ],
)
def test_a_cell_is_a_function_of_what_is_searched(source, value):
    assert ran(source, a=1) == value


@pytest.mark.parametrize("source", ["x", "x += 1", "y[x] = 1", "def f():\n    x.y -= 1"])
def test_a_cell_reads_what_its_statements_use(source):
    assert "x" in names_read(source)
    assert "x" not in names_read(f"x = 1\nx: int = 2\ndel x\n{source.replace('x', 'z')}")


def test_lines_stay_where_they_are():
    cell = made("x = 1\n\nx / 0")
    assert cell.splitlines()[3] == "    return x / 0"
    assert cell.startswith("def trial(a):\n    x = 1")


def test_a_cell_that_awaits_is_a_coroutine():
    assert made("import asyncio\nawait asyncio.sleep(0)").startswith("async def trial(a):")


@pytest.mark.parametrize("source", ["from os import *", "global a", "nonlocal x"])
def test_what_no_function_can_hold_is_refused_by_its_line(source):
    with pytest.raises((CommandError, SyntaxError)):
        made("b = 1\n" + source)


def test_a_cell_searches_and_its_value_is_what_was_found(kernel):
    kernel.run("%load_ext submarine_magics")
    kernel.run("base = 3\ndef train(rate):\n    return (rate - base) ** 2\nrate = 0")
    ran = kernel.run(
        '%%submarine --sweep "rate=int(1, 5)" --sampler grid --minimize loss --gpus 0\n'
        "loss = train(rate)"
    )
    assert not ran.of_type("error"), ran.error
    assert ran.text.count("trial ") >= 5
    assert "best 0 by trial" in ran.text
    found = kernel.run("found = _\nprint(found.best.params, rate, 'loss' in dir())")
    assert "{'rate': 3} 0 False" in found.stream("stdout")
    shown = kernel.run("%submarine sweep show " + "{found.id}")
    assert shown.text.count("complete") == 5, shown.text
    ran = kernel.run(
        '%%submarine --sweep "rate=[1]" --sampler grid --minimize loss --gpus 0 --detach\n'
        "loss = rate"
    )
    cards = [one for one in ran.of_type("display_data") if JOB_TYPE in one["data"]]
    assert len(cards) == 1, ran.text
    kernel.run("_.wait()")


def test_a_trial_may_have_several_workers(kernel):
    kernel.run("%load_ext submarine_magics\nfrom submarine_runtime import job")
    magic = '%%submarine --sweep "x=[1, 2]" --sampler grid --minimize loss --gpus 0 '
    ran = kernel.run(f"{magic}--num_workers 2\nloss = x + 10 * job.world_size + job.rank")
    assert not ran.of_type("error"), ran.error
    assert "best 21 by trial" in ran.text, ran.text
    ran = kernel.run(f"{magic}--num_ps 1\nloss = x")
    assert "--num-ps is for one job" in ran.error, ran.text


def test_errors_are_told_by_cell_and_line(kernel):
    kernel.run("%load_ext submarine_magics")
    ran = kernel.run(
        '%%submarine --sweep "x=[1, 2]" --sampler grid --minimize loss --gpus 0\n'
        "y = x\n"
        "loss = 1 / (y - 1)"
    )
    assert "line 3, in trial()" in ran.text, ran.text
    assert "ZeroDivisionError" in ran.text
    for magic, words in [
        ('--sweep "z=[1]" --trials 1 --minimize loss', "z"),
        ('--sweep "x=[1" --trials 1 --minimize loss', "no space to search"),
        ('--sweep "x=[1]" --trials 1', "nobody said what the best trial is"),
        ('--sweep "x=[1]" --trials 1 --minimize loss --dry-run', "is for one job"),
    ]:
        ran = kernel.run(f"%%submarine {magic}\nloss = x")
        assert words in ran.error, magic
