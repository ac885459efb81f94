"""Cells as jobs in a real kernel, on the real local cluster, as a user types them."""

import json
import re

import pytest

pytestmark = pytest.mark.usefixtures("trained")


def test_the_value_is_shown_as_if_the_cell_had_run_right_here(kernel):
    ran = kernel.run("%%submarine --gpus 1\ntrain(2)")
    assert ran.stream("stdout") == "epoch 0\nepoch 1\n"
    assert ran.value == "{'epochs': 2}"
    [result] = ran.of_type("execute_result")
    assert result["execution_count"] == ran.reply["execution_count"]
    assert kernel.value("_") == "{'epochs': 2}"
    assert kernel.value(f"Out[{ran.reply['execution_count']}]") == "{'epochs': 2}"


def test_the_card_stands_above_the_log_and_ends_final(kernel):
    ran = kernel.run("%%submarine --name above\ntrain(1)")
    kinds = [message["msg_type"] for message in ran.messages]
    assert kinds.index("display_data") < kinds.index("stream")
    cards = ran.of_type("display_data", "update_display_data")
    assert "above: succeeded" in cards[-1]["data"]["text/plain"]


def test_an_assignment_binds_here_and_shows_nothing(kernel):
    ran = kernel.run("%%submarine\nhistory = train(3)")
    assert ran.value is None
    assert kernel.value("history") == "{'epochs': 3}"


def test_a_semicolon_keeps_the_value_to_itself(kernel):
    assert kernel.run("%%submarine\ntrain(1);").value is None


def test_more_variables_come_back_when_named(kernel):
    kernel.run("%%submarine -o best --output worst\nbest = 1\nworst = 9\nprint('done')")
    assert kernel.value("best, worst") == "(1, 9)"


def test_stderr_is_stderr(kernel):
    ran = kernel.run("%%submarine\nimport sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert ran.stream("stdout") == "out\n"
    assert ran.stream("stderr") == "err\n"


def test_detached_the_cell_gives_the_job_at_once(kernel):
    ran = kernel.run("%%submarine --detach --name aside\ntrain(4)")
    assert ran.reply["status"] == "ok"
    assert not ran.stream("stdout")
    assert "aside: " in ran.text
    assert kernel.value("_.result(180)") == "{'epochs': 4}"


def test_a_dry_run_shows_the_script_and_asks_for_nothing(kernel):
    before = kernel.value("len(get_ipython().run_line_magic('submarine', 'job list --all'))")
    ran = kernel.run("%%submarine --dry-run\ntrain(2)")
    assert "def train(epochs):" in ran.value
    after = kernel.value("len(get_ipython().run_line_magic('submarine', 'job list --all'))")
    assert before == after


def test_an_error_is_raised_at_the_line_of_the_cell_without_frames_of_ours(kernel):
    ran = kernel.run("%%submarine\n\ndef fails():\n    return 1 / 0\n\nfails()")
    assert ran.reply["status"] == "error"
    text = ran.error
    assert "ZeroDivisionError: division by zero" in text
    assert re.search(r"In\[\d+\], line 4, in fails\(\)", text)
    assert re.search(r"In\[\d+\], line 6", text)
    assert "submarine_" not in text


def test_a_result_that_cannot_travel_comes_back_as_text_with_a_warning(kernel):
    ran = kernel.run("%%submarine\n(i for i in range(3))")
    assert ran.reply["status"] == "ok"
    assert "generator object" in ran.value
    assert ran.stream("stderr")


def test_a_flood_stays_small_in_the_cell_and_its_end_arrives(kernel):
    ran = kernel.run(
        "%%submarine --name flood\n"
        "for i in range(200_000):\n"
        "    print('line', i, 'x' * 80)\n"
        "'the end'"
    )
    assert ran.value == "'the end'"
    cards = ran.of_type("display_data", "update_display_data")
    assert any("flood: succeeded" in c["data"].get("text/plain", "") for c in cards)
    shown = {c["transient"]["display_id"]: c["data"].get("text/plain", "") for c in cards}
    [tail] = [text for text in shown.values() if "elided" in text]
    assert tail.endswith("line 199999 " + "x" * 80 + "\n")
    assert "so far" not in tail
    elided = int(re.match(r"… ([\d,]+) lines elided", tail)[1].replace(",", ""))
    head = ran.stream("stdout")
    assert head.count("\n") + elided + tail.split("\n\n", 1)[1].count("\n") == 200_000
    assert len(json.dumps(head + tail)) < 1_000_000


def test_a_progress_bar_is_one_line(kernel):
    ran = kernel.run(
        "%%submarine\n"
        "import time\n"
        "for i in range(0, 101, 10):\n"  # ten at once, so that they are shown once, however slowly
        "    print(''.join(f'\\r{j:3} %' for j in range(i, min(i + 10, 101))), end='')\n"
        "    time.sleep(0.05)\n"
        "print()"
    )
    text = ran.stream("stdout")
    assert text.rsplit("\r", 1)[1] == "100 %\n"
    assert 1 <= text.count("\r") <= 20


def test_classes_of_the_notebook_keep_their_class_both_ways(kernel):
    kernel.run(
        "class Model:\n"
        "    def __init__(self, units): self.units = units\n"
        "def grow(model):\n"
        "    assert isinstance(model, Model)\n"
        "    return Model(model.units + 1)\n"
        "model = Model(1)"
    )
    kernel.run("%%submarine --gpus 0\nmodel = grow(model)")
    assert kernel.value("isinstance(model, Model), model.units") == "(True, 2)"


def test_the_cell_stays_quiet_while_the_job_does(kernel):
    ran = kernel.run("%%submarine --gpus 0\nimport time\ntime.sleep(1.5)")
    assert ran.reply["status"] == "ok"
    assert not ran.stream("stdout")
    assert not ran.stream("stderr")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os\nos._exit(3)", "exited with code 3"),
        ("import sys\nsys.exit(3)", "exited with code 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd", "Odd"),
    ],
)
def test_ends_of_any_kind_fail_the_cell(kernel, code, said):
    ran = kernel.run(f"%%submarine --gpus 0\n{code}")
    assert ran.reply["status"] == "error"
    assert said in ran.error
    assert "submarine_" not in ran.error


def test_a_module_that_was_edited_since_its_import_is_told(kernel):
    kernel.run(
        "from pathlib import Path\n"
        "Path('edited_beside.py').write_text('x = 1\\n')\n"
        "import edited_beside"
    )
    kernel.run("Path('edited_beside.py').write_text('x = 22222\\n')")
    ran = kernel.run("%%submarine --name edited\nedited_beside.x")
    assert (ran.value, kernel.value("edited_beside.x")) == ("22222", "1")
    assert "edited since the notebook imported it: edited_beside.py" in ran.stream("stderr")
