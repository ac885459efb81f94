"""A cell whose job has failed, opened where it failed: `%submarine debug`, and a bare `%debug`."""

from __future__ import annotations

import re

import pytest

from tests.jobs import until
from tests.kernels import PATIENCE, Driven

DEFINES = """
class Net:
    def __init__(self, size):
        self.size = size

    def step(self, batch):
        scale = 10
        return batch[scale]

def train(net, *batches, **more):
    for number, batch in enumerate(batches):
        net.step(batch)
"""
# Else there is no time for all values on a busy machine.
UNHURRIED = """
import submarine_runtime.post_mortem as kept
kept._LONGEST = kept._LONGEST_OF_HEAVY = 500
"""
FAILS = f"""%%submarine --gpus 0 --name broken
{UNHURRIED}
rate = 0.5
train(Net(7), [1, 2, 3], word="hello")
"""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def debugged(kernel, cell, *commands):
    """Run a cell that opens a debugger, and give it commands; return what it wrote."""
    sent = kernel.send(cell, allow_stdin=True)
    for command in (*commands, "q"):
        asked = kernel.client.get_stdin_msg(timeout=PATIENCE)
        assert "db>" in asked["content"]["prompt"]
        kernel.client.input(command)
    ran = kernel.collect(sent)
    return _COLOUR.sub("", ran.text)


@pytest.fixture(scope="module")
def failed(kernel):
    kernel.run(DEFINES)
    ran = kernel.run(FAILS)
    assert ran.reply["ename"].endswith("IndexError"), ran.text


def test_the_frames_are_opened_at_cell_and_line(kernel, failed):
    text = debugged(
        kernel, "%submarine debug",
        "p scale * 2, batch", "a", "u", "p [b for b in batches if number == 0]", "p net.size",
        "number = 5", "p number", "p np.sum(batch)", "u", "p rate", "ll", "n", "w",
    )  # fmt: skip
    assert "worker-0 of job" in text
    assert "IndexError" in text
    assert re.search(r"<In \[1\] of job \w{5}>\(8\)step\(\)", text), text
    assert "(20, [1, 2, 3])" in text
    assert "batch = [1, 2, 3]" in text
    assert "self = <" in text
    assert "[[1, 2, 3]]" in text
    assert re.search(r"^7$", text, re.MULTILINE)
    assert re.search(r"^5$", text, re.MULTILINE)
    assert "int64(6)" in text, "numpy is at hand"
    assert re.search(r"^0\.5$", text, re.MULTILINE)
    assert "u and d move between its frames" in text


def test_a_bare_debug_after_the_cell_opens_the_job_too(kernel, failed):
    kernel.run(FAILS)
    text = debugged(kernel, "%debug", "p scale", "u", "p number, more", "u", "p rate")
    assert re.search(r"^10$", text, re.MULTILINE), text
    assert "(0, {'word': 'hello'})" in text
    assert "0.5" in text


ODD = """
class Loud:
    def __repr__(self):
        print("as it prints")
        return "<loud>"
class Mute:
    def __repr__(self):
        raise ValueError("no repr")
def parse(text):
    digits = [int(one) for one in text]
def load(list, len, print, type, loud, mute):
    try:
        parse(list)
    except ValueError as error:
        raise KeyError("cannot load") from error
"""
FAILS_ODDLY = f"""%%submarine --gpus 0 --name oddly
{UNHURRIED}
load("1x", 5, None, int, Loud(), Mute())
"""


def test_habits_of_the_debugger_hold(kernel):
    kernel.run(ODD)
    ran = kernel.run(FAILS_ODDLY)
    assert ran.reply["ename"].endswith("KeyError"), ran.text
    text = debugged(
        kernel, "%submarine debug",
        "p list, len, type", "p [len for _ in list]", "a", "pp loud", "p mute", "display len",
        "whatis len", "!len + 1", "p locals()['len'] + 2", "exceptions", "exceptions 0", "p one",
        "u", "p text", "exceptions 1", "p list",
    )  # fmt: skip
    assert "caused by ValueError: invalid literal for int()" in text
    assert "('1x', 5, <class 'int'>)" in text
    assert "[5, 5]" in text
    assert "list = '1x'\nlen = 5\nprint = None" in text
    assert "as it prints\n<loud>" in text
    assert "*** ValueError: no repr" in text
    assert re.search(r"^mute = <Mute", text, re.MULTILINE), text
    assert "display len: 5" in text
    assert "<class 'int'>\n6\n7\n" in text
    assert re.search(r"  0 caused by ValueError.*\n> 1 KeyError: 'cannot load'", text), text
    below = text.partition("1 KeyError")[2]
    assert re.search(
        r"^> <In \[\d+\] of job \w{5}>\(\d+\)(<listcomp>|parse)\(\)", below, re.MULTILINE
    )
    assert "'x'" in below
    assert "'1x'" in below


HANGS = """
import pathlib, time
class Stuck:
    def __init__(self, here): self.here = pathlib.Path(here)
    def __repr__(self):
        (self.here / f"asked-{time.time()}").touch()
        time.sleep(600)
def wait(stuck, rate):
    return stuck.here / rate
"""
FAILS_STUCK = f"""%%submarine --gpus 0 --name stuck
{UNHURRIED}
wait(Stuck({{!r}}), 0.25)
"""


@pytest.mark.long
def test_a_value_that_hangs_is_left_by_an_interrupt_or_given_up(kernel, tmp_path):
    kernel.run(HANGS)
    ran = kernel.run(FAILS_STUCK.format(str(tmp_path)))
    assert ran.reply["ename"].endswith("TypeError"), ran.text
    sent = kernel.send("%submarine debug", allow_stdin=True)
    for number, command in enumerate(("p stuck", "p stuck", "p rate", "q")):
        asked = kernel.client.get_stdin_msg(timeout=PATIENCE)
        assert "db>" in asked["content"]["prompt"]
        kernel.client.input(command)
        if number == 0:
            until(lambda: [*tmp_path.glob("asked-*")])
            kernel.manager.interrupt_kernel()
    text = _COLOUR.sub("", kernel.collect(sent).text)
    assert "*** KeyboardInterrupt" in text
    assert "Stuck: what it looks like is not told within 5 s>" in text
    assert re.search(r"^0\.25$", text, re.MULTILINE), text


def test_a_new_kernel_opens_it_without_its_classes(kernel, failed):
    other = Driven(kernel.home)
    try:
        # Where nobody can be asked the frames are shown. That first: a kernel's question is lost as
        # long as the channel for it is not connected, and nothing tells of that.
        ran = other.run("%submarine debug broken --task worker-0")
        assert "scale = 10" in ran.text
        assert "in step" in ran.text
        ran = other.run("%submarine debug broken --task worker-7")
        assert "no task 'worker-7'" in ran.text
        text = debugged(other, "%submarine job debug broken", "p self", "p self.size, scale")
        assert "<Net: size=7>" in text
        assert "(7, 10)" in text
    finally:
        other.stop()
