"""How far a training is, from what it logs."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.clusters.tasks import Progress
from submarine_engine.history import TaskPaths
from submarine_runtime.bars import NESTED
from submarine_runtime.recognise import last_epoch, recognise

KERAS_3 = (
    "\x1b[1m12/100\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━━━━━━━━━━━━━━━━━\x1b[0m \x1b[1m5s\x1b[0m "
    "12ms/step - accuracy: 0.5 - loss: 0.7"
)
KERAS_2 = " 12/100 [==>...........................] - ETA: 5s - loss: 0.7"
LOGS = {
    "tqdm": ("\r 45%|####5     | 45/100 [00:01<00:01, 33.2it/s]", 0.45, "45/100"),
    "tqdm with a name": ("train:  50%|█████     | 5/10 [00:01<00:01]", 0.5, "train:  5/10"),
    "tqdm finer than percent": ("  0%|   | 4/1000 [00:01<00:01, 33.2it/s]", 0.004, "4/1000"),
    "tqdm in thousands": ("  50%|## | 1.50k/3.00k [00:01<00:01]", 0.5, "1.50k/3.00k"),
    "tqdm of one epoch": ("Epoch 3/10:  50%|## | 5/10 [00:01<00:01]", 0.25, "Epoch 3/10:  5/10"),
    "tqdm, the last state": ("\r 10%|#  | 1/10 [x]\r 20%|## | 2/10 [x]", 0.2, "2/10"),
    "tqdm, nested": ("\r 50%|## | 1/2 [x]\n\r 10%|#  | 1/10 [x]\x1b[A", 0.5, "1/2"),
    "tqdm, after other text": ("\r 30%|## | 3/10 [x]\nsaving\n", 0.3, "3/10"),
    "tqdm without a total": ("45it [00:01, 33.2it/s]", None, None),
    "keras 3": (f"Epoch 3/10\n\r{KERAS_3}", 0.212, "epoch 3/10, step 12/100"),
    "keras 2": (f"Epoch 1/2\n{KERAS_2}", 0.06, "epoch 1/2, step 12/100"),
    "keras, backspaces": (f"Epoch 1/2\n{KERAS_2}\b\b\b\b{KERAS_2}", 0.06, "epoch 1/2, step 12/100"),
    "keras, an evaluation": (KERAS_2, None, None),
    "an epoch begins": ("Epoch 3/10\n", 0.2, "Epoch 3/10"),
    "an epoch is over": ("Epoch 3/10 - loss: 0.5\n", 0.3, "Epoch 3/10 - loss: 0.5"),
    "epoch and step": ("epoch [2/4], step [50/100]", 0.375, "epoch [2/4], step [50/100]"),
    "a step": ("Step 30/40: loss 0.1", 0.75, "Step 30/40: loss 0.1"),
    "an iteration": ("iteration 1/4", 0.25, "iteration 1/4"),
    "percent": ("Progress: 45.5 %", 0.455, "Progress: 45.5 %"),
    "percent done": ("12% done", 0.12, "12% done"),
    "an accuracy": ("accuracy: 45%", None, None),
    "a date": ("2025/11/21 epochal", None, None),
    "a path": ("/data/step/3/4", None, None),
    "more than all": ("step 5/4", None, None),
    "of nothing": ("step 0/0", None, None),
    "a nonsense percentage": ("900%|## | 9/1 [x]", None, None),
    "nothing": ("", None, None),
    "words": ("loading data\n", None, None),
}  # fmt: skip


@pytest.mark.parametrize(("log", "fraction", "message"), LOGS.values(), ids=LOGS)
def test_a_log_shows_its_progress(log, fraction, message):
    found = recognise(log)
    if fraction is None:
        assert found is None
    else:
        assert found == (pytest.approx(fraction), message)


def test_an_epoch_that_began_long_ago_is_remembered():
    epoch = last_epoch("Epoch 3/10\nx")
    assert epoch == (3, 10)
    assert recognise(KERAS_2, epoch) == (pytest.approx(0.212), "epoch 3/10, step 12/100")
    assert last_epoch("nothing") is None


def test_what_tqdm_really_writes():
    code = "from tqdm import tqdm\nfor i in tqdm(range(7)):\n    if i == 5: break"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert recognise(run.stderr) in ((5 / 7, "5/7"), (6 / 7, "6/7"))


def test_what_nested_tqdms_really_write():
    code = """
from tqdm import tqdm
for i in tqdm(range(4), desc="epochs"):
    for j in tqdm(range(100), desc="steps", leave=False):
        pass
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert recognise(run.stderr) == (1.0, "epochs: 4/4")


PIECES = st.sampled_from(
    ["Epoch 3/10", "45%|", "#| 45/100 [", "\r", "\n", "\b", "\x1b[A", "\x1b[1m", " 12/100 [==>",
     "]", "━", "step ", "9" * 20, "/", "|", "%", "done", " "]
)  # fmt: skip


@given(st.lists(st.one_of(PIECES, st.text(max_size=5))).map("".join))
def test_any_text_gives_a_fraction_or_nothing(text):
    found = recognise(text)
    if found:
        fraction, message = found
        assert 0 <= fraction <= 1
        assert len(message) <= 200


HOSTILE = [
    "9", "9%|", "%|#", "1/", "Epoch ", "Epoch 1/", " 12/100 [=", "\x1b[", f"{KERAS_2}\n", "step:",
    "[", "━", "\n", "1/2", "done ", "99.99", "\x1b[A\n", "9%|#| ",
]  # fmt: skip


@pytest.mark.timeout(300)  # far more than it takes; a quadratic pattern takes longer
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_no_long_time(piece):
    for _ in range(3):
        recognise(piece * (1_000_000 // len(piece)))


def test_bars_in_displays_tell_how_far_a_task_is(tmp_path):
    task = TaskPaths(tmp_path)
    progress = Progress(task)
    assert progress.poll(last=True) is None
    frames = [
        {"data": {"text/plain": " 50%|## | 1/2 [x]"}, "metadata": {}},
        {"data": {"text/plain": " 10%|#  | 1/10 [x]"}, "metadata": {NESTED: True}},
        {"data": {"text/html": "<b>x</b>"}, "metadata": None},
        ["no frame"],
    ]
    lines = "".join(json.dumps(frame) + "\n" for frame in frames)
    task.displays.write_text('half of a frame"}\n' + lines)
    told = progress.poll(last=True)
    assert (told.fraction, told.message) == (0.5, "1/2")
