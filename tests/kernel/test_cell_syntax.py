"""What may stand in and around a `%%submarine` cell means what it means in a plain one."""

import re

import pytest

from tests.kernels import Ran, start


def ok(kernel, code):
    ran = kernel.run(code)
    assert ran.reply["status"] == "ok", ran.text
    return ran


def test_comments_and_empty_lines_may_stand_above_the_magic(kernel):
    ok(kernel, "\n# Train.\n\n%%submarine --gpus 0\nabove = 6 * 7")
    assert kernel.value("above") == "42"
    ran = kernel.run("# Train.\n%%submarine --gpus 0\nx = 1\nraise ValueError(x)")
    assert "line 4" in ran.error


def test_a_job_below_time_is_timed_by_the_notebook(kernel):
    ran = ok(kernel, "%%time\n%%submarine --gpus 0\n'val' + 'ue'")
    assert "Wall time: " in ran.stream("stdout")
    assert ran.value == "'value'"


def test_time_in_a_job_is_that_of_its_code(kernel):
    ran = ok(kernel, "%%submarine --gpus 0\n%%time\nseconds = 1\n%time seconds + 1\nseconds")
    assert len(re.findall("^Wall time: ", ran.stream("stdout"), re.MULTILINE)) == 2
    assert ran.value == "1"
    assert kernel.value("seconds") == "1"


def test_capture_keeps_what_the_cell_would_show(kernel):
    for number, head in enumerate(("%%capture out\n%%submarine", "%%submarine\n%%capture out")):
        ran = ok(kernel, f"{head}\nprint('to be kept')\nkept = {number}")
        assert "to be kept" not in ran.text
        assert "to be kept" in kernel.value("out.stdout")
        assert kernel.value("kept") == str(number)


def test_a_cell_in_capture_raises_at_its_own_line(kernel):
    ran = kernel.run("%%submarine --gpus 0\n\n%%capture\nraise KeyError('k')")
    assert re.search(r"line 4.*\n.*KeyError", ran.text, re.DOTALL)


def test_many_jobs_for_a_time_are_refused(kernel):
    ran = kernel.run("%%timeit\n%%submarine --gpus 0\npass")
    assert "a job for each run" in ran.error
    ran = kernel.run("%%submarine --gpus 0\n%%timeit\npass")
    assert "`%%timeit` cannot run in a job" in ran.error
    assert "%%time" in ran.error


def test_commands_of_the_shell_run_in_the_job_and_show_no_value(kernel):
    ran = ok(kernel, "%%submarine --gpus 0\n%env KIND=shell\n!echo $KIND in $SUBMARINE_TASK")
    assert "shell in worker-0" in ran.stream("stdout")
    assert ran.value is None
    ran = ok(kernel, "%%submarine --gpus 0\n%pip --version")
    assert "pip " in ran.stream("stdout")


def test_a_cell_may_await(kernel):
    ran = ok(
        kernel,
        "%%submarine --gpus 0\nimport asyncio\n"
        "task = asyncio.create_task(asyncio.sleep(0, 'soon'))\nsaid = await task\nsaid",
    )
    assert ran.value == "'soon'"
    assert kernel.value("said") == "'soon'"
    ran = kernel.run("%%submarine --gpus 0\nimport asyncio\nawait asyncio.sleep(0)\n1 / 0")
    assert "line 4" in ran.error
    assert "__main__" not in ran.error


def test_an_interrupt_reaches_a_cell_that_awaits(kernel):
    cell = (
        "%%submarine --gpus 0\nimport asyncio\n"
        "try:\n    print('waits')\n    await asyncio.sleep(600)\n"
        "finally:\n    print('was told')"
    )
    sent, come = start(kernel, cell)
    kernel.manager.interrupt_kernel()
    text = Ran([*come, *kernel.messages(sent)]).text
    assert "was told" in text


def test_a_cell_that_is_too_deep_harms_no_other(kernel):
    for deep in ("-" * 6000 + "1", " + ".join(["1"] * 5000)):
        ran = kernel.run(f"%%submarine --gpus 0\ny = {deep}")
        assert "nested too deeply" in ran.error
    ok(kernel, "%%submarine --gpus 0\nafter_all = 1")
    assert kernel.value("after_all") == "1"


def test_a_magic_that_failed_harms_no_later_cell(kernel):
    assert kernel.run("%%bash don't\nls").reply["status"] == "error"
    ok(kernel, "%%submarine --gpus 0\nlater = 1")
    assert kernel.value("later") == "1"
    ran = kernel.run("%%submarine --gpus 0\n%%bash don't\nls")
    assert "line 2" in ran.error
    assert "does not parse" in ran.error


def test_a_question_is_refused_before_there_is_a_job(kernel):
    ran = kernel.run("%%submarine --gpus 0\nname = input('who? ')")
    assert "line 2: `input()` asks a person" in ran.error
    assert ran.of_type("display_data") == []


def test_a_failure_is_one_traceback_at_the_users_lines(kernel):
    kernel.run("from submarine_magics import stream; stream._KEPT_BACK = 180.0")  # a late end
    kernel.run("import traceback\ndef fail(x):\n    raise ValueError(x)")
    ran = kernel.run(
        "%%submarine --gpus 0\nimport sys\nprint('own words', file=sys.stderr)\nfail('so')"
    )
    assert "own words" in ran.stream("stderr")
    assert "Traceback" not in ran.stream("stderr")
    assert re.sub(r"\s+", " ", ran.error).count("Traceback (most recent call last)") == 1
    assert "line 4" in ran.error
    assert "script.py" not in ran.error
    [job] = re.findall(r"%submarine job logs (\S+)", ran.error)
    assert "ValueError: so" in kernel.run(f"%submarine job logs {job}").stream("stderr")


def test_a_cancel_shows_no_interrupt_of_ours(kernel):
    sent, come = start(kernel, "%%submarine --gpus 0\nimport time\nprint(1)\ntime.sleep(600)")
    kernel.manager.interrupt_kernel()
    ran = Ran([*come, *kernel.messages(sent)])
    text = ran.text
    assert "the cell was interrupted" not in ran.error  # the card says so
    assert "KeyboardInterrupt" not in text
    assert "Traceback" not in text


def test_names_to_bring_home_are_what_they_look_like(kernel):
    ok(
        kernel,
        "%%submarine --gpus 0 --name lr=0.3 -o first second\nfirst = 1\nsecond = 2\nthird = 3",
    )
    assert kernel.value("first, second") == "(1, 2)"
    ok(kernel, "%%submarine --gpus 0 -o none\nnobody = 4\nprint('ran')")
    assert kernel.run("nobody").reply["ename"] == "NameError"
    assert kernel.run("%submarine job show lr=0.3").reply["status"] == "ok"


@pytest.mark.parametrize("above", ["", "%%time\n"])
@pytest.mark.parametrize("cell", ["%%bash\necho from bash", "%%writefile written.txt\ntext"])
def test_a_program_or_a_file_shows_no_value(kernel, above, cell):
    assert ok(kernel, f"%%submarine --gpus 0\n{above}{cell}").value is None
