"""Numbers in what a trial prints: which lines say something, and that it ends where it is told."""

import os
import signal
import subprocess
import sys
import time

import pytest
from submarine_runtime import log_metrics, peer_failed, stacks
from submarine_runtime.log_metrics import Lines, LogWatcher


def read(text, *names):
    lines = Lines(names or ("loss",))
    return [*lines.add(text.encode()), lines.rest()]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("loss: 0.12", 0.12),
        ("Loss=1e-3,", 0.001),
        ("epoch 3 - loss: 0.5 - val_loss: 0.7 - 12ms/step", 0.5),
        ("{'loss': '0.25', 'epoch': 1.0}", 0.25),
        ('{"loss": 2, "step": 7}', 2),
        ("loss: \x1b[32m0.12\x1b[0m", 0.12),
        ("\x1b[1m5/5\x1b[0m \x1b[32m━━━━\x1b[0m 0s 3ms/step - loss: 0.6931", 0.6931),
        ("loss: tensor(0.6, grad_fn=<NllLossBackward0>)", 0.6),
        ("loss: np.float64(-3.5)", -3.5),
        ("loss: 0.9 loss: 0.8", 0.8),
        ("loss: 0.12.", 0.12),
        ("loss: +inf", float("inf")),
        ("loss:.5;", 0.5),
    ],
)
def test_what_a_line_says(text, value):
    assert read(text) == [{"loss": value}]
    assert read(f"{text}\n") == [{"loss": value}, {}]


def test_what_is_no_number_says_so():
    (found,) = read("loss: NaN")
    assert found["loss"] != found["loss"]


@pytest.mark.parametrize(
    "text",
    [
        "val_loss: 0.1",
        "my-loss: 0.1",
        "a/loss: 0.1",
        "loss: high",
        "loss: info",
        "loss: 0.12.3",
        "loss: 1,234.5",
        "loss: 0,12",
        "loss: 0x10",
        "loss 0.1",
        "loss: \x1b[0m",
        "\x00\xff" * 9,
    ],
)
def test_what_is_like_it_and_says_nothing(text):
    assert read(text) == [{}]


def test_a_line_ends_where_a_terminal_writes_over_it_and_comes_in_any_pieces():
    text = "\r 10%|█ | loss=0.9\r 20%|██ | loss=0.8\b\b\b\bloss: 0.7\nval_loss: 3, loss: 0.6"
    whole = read(text, "loss", "val_loss")
    said = [{"loss": 0.9}, {"loss": 0.8}, {"loss": 0.7}]
    assert whole == [*said, {"val_loss": 3.0, "loss": 0.6}]
    lines = Lines(("loss", "val_loss"))
    found = [one for byte in text.encode() for one in lines.add(bytes([byte]))]
    assert [*found, lines.rest()] == whole


def test_a_line_without_an_end_is_kept_in_bounds():
    lines = Lines(("loss",))
    for _ in range(20):
        assert lines.add(b"loss: 0.1 " * 100_000) == []
    assert lines.rest() == {"loss": 0.1}
    assert len(lines._begun) < 100_000


NUMBER = signal.SIGRTMAX - log_metrics._BELOW_LAST


def test_its_signal_is_nobody_elses():
    # The main thread of a job of several tasks keeps back those of the others.
    others = {stacks._BELOW_LAST, stacks._MAIN_BELOW_LAST, peer_failed._BELOW_LAST}
    assert len(others) == 3
    assert log_metrics._BELOW_LAST not in others


class Ended(BaseException):
    pass


@pytest.fixture
def log(tmp_path):
    """Return a file and the descriptor that a trial would write it by."""
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield descriptor
    os.close(descriptor)


def watching(descriptor, told, *, stop_at=None):
    def tell(step, values):
        told.append((step, values))
        return True

    def end(word):
        raise Ended(word)

    def word():
        return "stop" if stop_at is not None and len(told) > stop_at else ""

    return LogWatcher(("loss",), {descriptor: 0}, tell=tell, told=word, end=end)


def test_a_wait_for_another_program_ends_by_what_that_prints(log):
    told = []
    # No more than it takes to be ended once.
    code = "import time\nfor i in range(4): print(f'loss: {i}', flush=True)\ntime.sleep(600)"
    before = signal.getsignal(NUMBER)
    with pytest.raises(Ended, match="stop"), watching(log, told, stop_at=3):
        subprocess.run([sys.executable, "-c", code], stdout=log, check=False)
    assert [step for step, _ in told[:4]] == [0, 1, 2, 3]
    assert told[3][1] == {"loss": 3.0}
    assert signal.getsignal(NUMBER) == before


def test_code_that_catches_all_is_told_again_and_nothing_comes_when_it_is_through(log):
    told, caught = [], []

    def prints_one_line():  # no signal comes outside of this
        os.write(log, b"loss: 1\n")
        time.sleep(60)

    with watching(log, told, stop_at=0):
        for _ in range(2):
            with pytest.raises(Ended) as ended:
                prints_one_line()
            caught.append(str(ended.value))
    os.write(log, b"loss: 1\n" * 100)
    assert caught == ["stop", "stop"]


def test_what_came_last_is_known_in_the_end_and_many_lines_are_told_in_part(log):
    told = []
    with watching(log, told) as watch:
        os.write(log, b"".join(b"loss: %d\n" % number for number in range(5000)))
        deadline = time.monotonic() + 60
        while not told or told[-1][0] < 4990:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    os.write(log, b"loss: 0.5")
    assert watch.last() == {}  # of a descriptor that is neither stream's
    assert [step for step, _ in told] == [*range(1000), *range(1000, 5001, 10)]
    assert told[-1] == (5000, {"loss": 0.5})
