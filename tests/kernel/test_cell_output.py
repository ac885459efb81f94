"""A job's text as a cell's output, in a real kernel: streams, order, size."""

import json
import re

import pytest

from tests.jobs import until

LIMIT = 100_000
SETUP = f"""
from submarine_magics.stream import CellOutput
from IPython.display import display
out = CellOutput('file:///log', {LIMIT})
"""


@pytest.fixture
def run(kernel):
    return lambda code: kernel.run(SETUP + code)


def stored(ran):
    """Bytes that a notebook keeps of the output: of an updated display only the last state."""
    kept = {}
    for number, message in enumerate(ran.messages):
        content = message["content"]
        if message["msg_type"] == "stream":
            kept[number] = content["text"]
        elif "data" in content:
            kept[content["transient"].get("display_id", number)] = content["data"]
    return sum(len(json.dumps(part).encode()) for part in kept.values())


def test_stdout_and_stderr_stay_apart_and_in_order(run):
    ran = run(
        "for i in range(5):\n"
        "    out.text('worker-0', 'stdout', f'out {i}\\n')\n"
        "    out.text('worker-0', 'stderr', f'err {i}\\n')\n"
        "    display(i)\n"
    )
    assert ran.stream("stdout") == "".join(f"out {i}\n" for i in range(5))
    assert ran.stream("stderr") == "".join(f"err {i}\n" for i in range(5))
    assert ran.text == "".join(f"out {i}\nerr {i}\n{i}\n" for i in range(5))


def test_a_short_log_is_all_stream(run):
    ran = run("out.text('worker-0', 'stdout', 'a\\n'); out.tick(); out.flush()")
    assert ran.stream("stdout") == "a\n"
    assert not ran.of_type("display_data")


def test_a_long_log_keeps_its_head_and_its_end(run):
    ran = run(
        "for i in range(3000):\n"
        "    out.text('worker-0', 'stdout', ''.join(f'line {i} {j}\\n' for j in range(100)))\n"
        "    out.tick()\n"
        "out.flush()"
    )
    head = ran.stream("stdout")
    [display] = ran.of_type("display_data")
    updates = ran.of_type("update_display_data")
    last = (updates or [display])[-1]["data"]["text/plain"]
    elided = int(
        re.match(r"… ([\d,]+) lines elided, full log: file:///log\n\n", last)[1].replace(",", "")
    )
    tail = last.split("\n\n", 1)[1]
    assert head.startswith("line 0 0\nline 0 1\n")
    assert head.endswith("\n")
    assert tail.startswith("line ")
    assert tail.endswith("line 2999 99\n")
    assert head.count("\n") + elided + tail.count("\n") == 300_000
    assert LIMIT / 2 < stored(ran) <= LIMIT
    assert all(u["transient"]["display_id"] == display["transient"]["display_id"] for u in updates)


def test_one_line_without_an_end_is_cut_all_the_same(run):
    ran = run("for i in range(50): out.text('worker-0', 'stdout', 'x' * 10_000)\nout.flush()")
    assert stored(ran) <= LIMIT


def test_characters_that_take_more_room_in_a_notebook_count_as_such(run):
    ran = run("out.text('worker-0', 'stdout', '\\x1b' * 400_000); out.flush()")
    assert stored(ran) <= 3 * LIMIT
    assert len(json.dumps(ran.stream("stdout"))) <= LIMIT


def test_markup_is_text(run):
    ran = run("out.text('worker-0', 'stdout', '<script>x</script>\\n' * 20_000); out.flush()")
    [display] = ran.of_type("display_data")
    assert set(display["data"]) == {"text/plain"}


def test_all_that_is_sent_is_within_the_budget_of_the_server(run):
    ran = run(
        "from submarine_magics import frontend as pace\n"
        "class Counted(pace.Pace):\n"
        "    taken = 0\n"
        "    def take(self, size):\n"
        "        self.taken += size\n"
        "        super().take(size)\n"
        "pace.shared = Counted()\n"
        "for i in range(30):\n"
        "    out.text('worker-0', 'stdout', 'x' * 10_000)\n"
        "    out.tick()\n"
        "out.flush()\n"
        "print(pace.shared.taken)"
    )
    sent = sum(len(json.dumps(m["content"]).encode()) for m in ran.messages[:-1])
    taken = int(ran.stream("stdout").rsplit("x", 1)[1])
    assert taken >= 0.9 * sent


def test_no_line_of_a_chatty_cell_is_lost_however_late_it_is_read(kernel, tmp_path):
    done, count = tmp_path / "done", 6000
    sent = kernel.send(
        f"for n in range({count}): print(n, 'x' * 4000, flush=True)\n"
        f"open({str(done)!r}, 'w').close()"
    )
    until(done.exists)
    numbers = [int(line.split()[0]) for line in kernel.collect(sent).stream("stdout").splitlines()]
    assert numbers == list(range(count))
