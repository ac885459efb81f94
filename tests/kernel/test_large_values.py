"""Values above the limit: asked about where somebody can answer, refused where nobody can."""

from __future__ import annotations

import pytest

LIMIT = "import os\nos.environ['SUBMARINE_CAPTURE_LIMIT'] = '1M'\nbig = bytes(3 << 20)"
CELL = "%%submarine --gpus 0\nprint(len(big))"


@pytest.fixture
def asked(kernel):
    """Return a function that runs a cell, answers what it asks, and returns the question too."""

    def run(code, answer):
        message = kernel.client.execute(code, allow_stdin=True)
        question = kernel.client.get_stdin_msg(timeout=180)["content"]["prompt"]
        kernel.client.input(answer)
        return kernel.collect(message), question

    kernel.run(LIMIT)
    yield run
    kernel.run("del os.environ['SUBMARINE_CAPTURE_LIMIT']")


def test_who_can_answer_is_asked_and_once(kernel, asked):
    ran, question = asked(CELL, "no")
    assert "CaptureTooLargeError" in ran.text
    assert "need 3 MiB, and 1 MiB may travel" in question
    assert "  big: 3 MiB, bytes, In [" in question
    assert question.endswith("Send them all the same? [y/N] ")
    ran, _ = asked(CELL, "y")
    assert ran.stream("stdout") == f"{3 << 20}\n", ran.text
    ran = kernel.run(CELL)  # nobody could answer
    assert ran.stream("stdout") == f"{3 << 20}\n", ran.text
    kernel.run("huge = bytes(30 << 20)")
    ran = kernel.run("%%submarine --gpus 0\nprint(len(huge))")
    assert "raise the limit: capture_limit in config.toml" in ran.text


def test_where_nobody_can_answer_it_is_refused_with_the_way_out(kernel, asked):
    kernel.run("from submarine_magics import submit\ndef size():\n    return len(enormous)")
    kernel.run("enormous = bytes(200 << 20)")
    ran = kernel.run("submit(size, gpus=0)")
    assert "SUBMARINE_CAPTURE_LIMIT" in ran.text
    ran, question = asked("submit(size, gpus=0).result()", "yes")
    assert "enormous: 200 MiB" in question
    assert ran.value == str(200 << 20)
