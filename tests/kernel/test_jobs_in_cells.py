"""Cells as jobs in a real kernel, on the real local cluster, as a user types them."""

import json
import re

import pytest

SETUP = """
def train(epochs):
    for epoch in range(epochs):
        print("epoch", epoch)
    return {"epochs": epochs}
"""


@pytest.fixture(scope="module", autouse=True)
def trained(kernel):
    kernel.run(SETUP)


def errors(ran):
    [error] = ran.of_type("error")
    return re.sub(r"\x1b\[\d+m", "", "\n".join(error["traceback"]))


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
    assert kernel.value("_.result(60)") == "{'epochs': 4}"


def test_a_dry_run_shows_the_script_and_asks_for_nothing(kernel):
    before = kernel.value("len(get_ipython().run_line_magic('submarine', 'job list --all'))")
    ran = kernel.run("%%submarine --dry-run\ntrain(2)")
    assert "def train(epochs):" in ran.value
    after = kernel.value("len(get_ipython().run_line_magic('submarine', 'job list --all'))")
    assert before == after


def test_the_script_is_that_of_the_last_job(kernel):
    kernel.run("%%submarine\ntrain(5)")
    assert "train(5)" in kernel.run("%submarine script").value


def test_an_error_is_raised_at_the_line_of_the_cell_without_frames_of_ours(kernel):
    ran = kernel.run("%%submarine\n\ndef fails():\n    return 1 / 0\n\nfails()")
    assert ran.reply["status"] == "error"
    text = errors(ran)
    assert "ZeroDivisionError: division by zero" in text
    assert re.search(r"In\[\d+\], line 4, in fails\(\)", text)
    assert re.search(r"In\[\d+\], line 6", text)
    assert "submarine_" not in text


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%submarine --gups 2\n1", "--gpus"),
        ("%%submarine --gpus -1\n1", "--gpus"),
        ("%%submarine --memory lots\n1", "lots"),
        ("%%submarine --gpus 64\n1", "2"),
        ("%%submarine --cluster nowhere\n1", "nowhere"),
        ("%%submarine --docker_image x\n1", "docker_image"),
        ("%%submarine\nnot_defined_anywhere()", "not_defined_anywhere"),
        ("%%submarine\ndef (:", "line 2"),
        ("%%submarine\n", "nothing to run"),
        ("%%submarine\n# a comment", "nothing to run"),
        ("lock = __import__('threading').Lock()\n%submarine use nowhere", "nowhere"),
        ("%submarine job lits", "mean list"),
        ("%submarine job show no-such-job", "no-such-job"),
        ("%submarine job logs ../../etc/passwd", "passwd"),
        ("%submarine config show", "terminal"),
        ("%%submarine.python a b\n1", "TITLE.py"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(kernel, cell, said):
    before = kernel.value("len(get_ipython().run_line_magic('submarine', 'job list --all'))")
    ran = kernel.run(cell)
    assert ran.reply["status"] == "error"
    text = errors(ran)
    assert said in text
    assert "Traceback" not in text
    after = kernel.value("len(get_ipython().run_line_magic('submarine', 'job list --all'))")
    assert before == after


def test_help_is_shown(kernel):
    assert "--gpus" in kernel.run("%%submarine --help\n").text
    assert "job attach" in kernel.run("%submarine help").text
    assert "--timeout" in kernel.run("%submarine job wait --help").text
    assert "job list" in kernel.run("%submarine").text


def test_a_result_that_cannot_travel_comes_back_as_text_with_a_warning(kernel):
    ran = kernel.run("%%submarine\n(i for i in range(3))")
    assert ran.reply["status"] == "ok"
    assert "generator object" in ran.value
    assert ran.stream("stderr")


def test_jobs_are_looked_after(kernel):
    kernel.run("%%submarine --detach --name cared\ntrain(2)")
    assert kernel.run("%submarine job wait cared --timeout 60").reply["status"] == "ok"
    assert "cared" in kernel.run("%submarine job list").value
    assert "cared: succeeded" in kernel.run("%submarine job show cared").text
    assert kernel.run("%submarine job logs cared").stream("stdout") == "epoch 0\nepoch 1\n"
    assert kernel.run("%submarine job logs cared --offset 8").stream("stdout") == "epoch 1\n"
    assert kernel.run("%submarine job logs cared --stderr").stream("stdout") == ""
    assert kernel.run("%submarine gpus").value.count("free") == 2
    assert "setting grace" in kernel.run("%submarine doctor").value
    assert "was over already" in kernel.run("%submarine job kill cared").stream("stderr")
    assert kernel.run("%submarine use local").reply["status"] == "ok"


def test_attaching_shows_the_log_from_its_first_byte_and_brings_the_result(kernel):
    kernel.run("%%submarine --detach --name again\nlater = train(2)")
    ran = kernel.run("%submarine job attach again")
    assert ran.stream("stdout") == "epoch 0\nepoch 1\n"
    assert ran.value == "{'epochs': 2}"
    assert kernel.value("later") == "{'epochs': 2}"


def test_waiting_gives_up_and_a_job_is_killed(kernel):
    kernel.run("%%submarine --detach --name sleeper --gpus 0\nimport time\ntime.sleep(600)")
    ran = kernel.run("%submarine job wait sleeper --timeout 0.1")
    assert "not over" in errors(ran)
    kernel.run("%submarine job kill sleeper")
    kernel.run("%submarine job wait sleeper --timeout 60")
    assert "JobCancelledError" in errors(kernel.run("%submarine job attach sleeper"))


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
        "for i in range(101):\n"
        "    print(f'\\r{i:3} %', end='')\n"
        "    time.sleep(0.005)\n"
        "print()"
    )
    text = ran.stream("stdout")
    assert text.rsplit("\r", 1)[1] == "100 %\n"
    assert 1 <= text.count("\r") <= 20


def test_the_magics_can_be_unloaded_and_loaded_again(kernel):
    assert kernel.run("%unload_ext submarine_magics").reply["status"] == "ok"
    ran = kernel.run("%submarine help")
    assert "UsageError" in ran.stream("stderr") + ran.text
    assert kernel.run("%load_ext submarine_magics").reply["status"] == "ok"
    assert kernel.run("%%submarine\ntrain(1)").value == "{'epochs': 1}"


def complete(kernel, line):
    reply = kernel.client.complete(line, len(line), reply=True, timeout=60)
    content = reply["content"]
    return [line[: content["cursor_start"]] + match for match in content["matches"]]


def test_tab_completes_verbs_options_and_jobs(kernel):
    kernel.run("%%submarine --name completed\n1")
    assert "%submarine job attach" in complete(kernel, "%submarine job at")
    assert "%%submarine --gpus" in complete(kernel, "%%submarine --gp")
    assert "%%submarine --gpus 1 --name" in complete(kernel, "%%submarine --gpus 1 --na")
    assert "%submarine job show completed" in complete(kernel, "%submarine job show compl")
    job_id = kernel.value("get_ipython().run_line_magic('submarine', 'job list')[0].id")[1:-1]
    assert f"%submarine job kill {job_id}" in complete(kernel, f"%submarine job kill {job_id[:8]}")
    assert "%submarine use local" in complete(kernel, "%submarine use lo")


def test_a_function_is_launched_from_the_cell_that_defines_it(kernel):
    ran = kernel.run(
        "from submarine_magics import launch\n"
        "rate = 2\n"
        "def doubled(n):\n"
        "    print('in the job')\n"
        "    return n * rate\n"
        "result = launch(doubled, 21, gpus=0)\n"
        "rate = 3\n"
        "result"
    )
    assert ran.stream("stdout") == "in the job\n"
    assert ran.value == "42"
    assert "doubled: succeeded" in ran.text


def test_a_submitted_function_is_a_future(kernel):
    kernel.run("from submarine_magics import submit\njob = submit(train, 3, gpus=0, name='future')")
    assert kernel.value("job.result(60), job.done()") == "({'epochs': 3}, True)"


def test_what_a_launched_function_raises_is_raised_at_its_line(kernel):
    kernel.run("from submarine_magics import launch\ndef fails():\n    raise KeyError('gone')")
    ran = kernel.run("launch(fails, gpus=0)")
    assert ran.reply["ename"] == "KeyError"
    assert re.search(r"In\[\d+\], line 3, in fails\(\)", errors(ran))


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


def test_parts_are_merged_and_run(kernel):
    kernel.run("%%submarine.python parts_model.py\ndef build(units):\n    return {'units': units}")
    kernel.run("%%submarine.python\nfrom parts_model import build\nprint(build(1))")
    ran = kernel.run("%submarine job run --name parts --gpus 0")
    assert ran.stream("stdout") == "{'units': 1}\n"
    command = '--worker_launch_cmd "python main.py && echo shell"'
    assert kernel.run(f"%submarine job run {command} --gpus 0").stream("stdout").endswith("shell\n")


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
    assert said in errors(ran)
    assert "submarine_" not in errors(ran)


def sent_by_lab(*tags):
    return {"tags": list(tags), "cellId": "abc", "deletedCells": [], "recordTiming": False}


def test_a_tagged_cell_is_a_job(kernel):
    tags = sent_by_lab("submarine:--gpus=0", "submarine:--name=tagged")
    ran = kernel.run("import os\ntagged = os.environ['SUBMARINE_TASK']\ntagged", tags)
    assert "tagged: succeeded" in ran.text
    assert ran.value == "'worker-0'"


def test_lines_of_a_tagged_cell_are_those_that_the_user_sees(kernel):
    ran = kernel.run("first = 1\n1 / 0", sent_by_lab("submarine:--gpus=0"))
    assert re.search(r"In\[\d+\], line 2", errors(ran))
    ran = kernel.run("first = 1\nnot_there()", sent_by_lab("submarine"))
    assert re.search(r"In \[\d+\], line 2", errors(ran))


def test_other_tags_and_magics_are_left_alone(kernel):
    assert (
        kernel.run("import os; 'SUBMARINE_TASK' in os.environ", sent_by_lab("x")).value == "False"
    )
    ran = kernel.run("%%capture caught\nprint('here')", sent_by_lab("submarine"))
    assert ran.reply["status"] == "ok"
    assert kernel.value("caught.stdout") == "'here\\n'"


def test_a_subshell_runs_a_job_while_the_main_shell_waits_for_another(kernel):
    session, client = kernel.client.session, kernel.client
    client.control_channel.send(session.msg("create_subshell_request", {}))
    subshell = client.get_control_msg(timeout=60)["content"]["subshell_id"]
    main = kernel.send(
        "%%submarine --gpus 0\n"
        "import pathlib, time\n"
        "while not pathlib.Path('told').exists(): time.sleep(0.02)\n"
        "print('main')"
    )
    other = kernel.send(
        "%%submarine --gpus 0\nimport pathlib\nprint('other')\npathlib.Path('told').touch()",
        subshell=subshell,
    )
    texts = {main: "", other: ""}
    idle = []
    while len(idle) < len(texts):
        message = client.get_iopub_msg(timeout=60)
        parent, content = message["parent_header"].get("msg_id"), message["content"]
        if message["msg_type"] == "stream" and parent in texts:
            texts[parent] += content["text"]
        elif content.get("execution_state") == "idle" and parent in texts:
            idle.append(parent)
    for _ in texts:
        assert client.get_shell_msg(timeout=60)["content"]["status"] == "ok"
    assert texts == {main: "main\n", other: "other\n"}
    client.control_channel.send(session.msg("delete_subshell_request", {"subshell_id": subshell}))
    client.get_control_msg(timeout=60)
