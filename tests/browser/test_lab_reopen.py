"""Run, close, reopen: the recording of the docs is made by the steps that are tested here."""

from __future__ import annotations

import pytest
from PIL import Image
from reopen_recording import record


@pytest.mark.long
def test_a_reopened_cell_refills_and_goes_on(browser, lab, tmp_path):
    target = tmp_path / "reopen.gif"
    first = record(browser, lab, target, epochs=60, pause=0.5)
    assert first.startswith("Epoch  1/60")
    with Image.open(target) as recording:
        # The cell, two pages between, its first lines, its last: more where the job took longer.
        assert recording.n_frames >= 5
        assert recording.size == (820, 1040)
    assert target.stat().st_size < 1_500_000
    lab.tidy()
