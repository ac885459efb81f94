"""``%submarine`` in a real kernel: its verbs, its errors in words, its completion."""

import pytest

pytestmark = pytest.mark.usefixtures("trained")


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
        ("%%submarine\n%whos", "`%whos`: it asks about or changes the notebook's state"),
        ("%%submarine\n%whos", "run the cell without %%submarine"),
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
    text = ran.error
    assert said in text
    assert "Traceback" not in text
    after = kernel.value("len(get_ipython().run_line_magic('submarine', 'job list --all'))")
    assert before == after


def test_help_is_shown(kernel):
    assert "--gpus" in kernel.run("%%submarine --help\n").text
    assert "job attach" in kernel.run("%submarine help").text
    assert "--timeout" in kernel.run("%submarine job wait --help").text
    assert "job list" in kernel.run("%submarine").text


def test_jobs_are_looked_after(kernel):
    kernel.run("%%submarine --detach --name cared\ntrain(2)")
    assert kernel.run("%submarine job wait cared --timeout 60").reply["status"] == "ok"
    assert "cared" in kernel.run("%submarine job list").value
    assert "cared: succeeded" in kernel.run("%submarine job show cared").text
    assert kernel.run("%submarine job logs cared").stream("stdout") == "epoch 0\nepoch 1\n"
    assert kernel.run("%submarine job logs cared --offset 8").stream("stdout") == "epoch 1\n"
    assert kernel.run("%submarine job logs cared --stderr").stream("stdout") == ""
    assert kernel.run("%submarine gpus").value.count("free") == 2
    assert "have their defaults" in kernel.run("%submarine doctor").value
    assert "was over already" in kernel.run("%submarine job kill cared").stream("stdout")
    used = kernel.run("%submarine use any").stream("stdout")
    assert "each job of this notebook goes to the first of local" in used
    ran = kernel.run("%%submarine --name anywhere --gpus 1\n1 + 1")
    assert ran.value == "2"
    assert "chosen: local: 2 GPUs free, 1 asked for" in ran.stream("stderr")
    assert "chosen: local: 2 GPUs free" in kernel.run("%submarine job show anywhere").text
    assert kernel.run("%submarine gpus").value.count("free") >= 2
    assert kernel.run("%submarine use local").reply["status"] == "ok"


def test_a_running_jobs_model_is_saved_beside_the_notebook(kernel):
    """The same cell runs in the notebook itself, where `on_save` does nothing."""
    lines = (
        "import submarine_runtime, pathlib, time",
        "steps = 0",
        "@submarine_runtime.on_save",
        "def save(folder): (folder / 'weights').write_text(str(steps))",
        "for steps in range(6000 if submarine_runtime.job.id() else 2): time.sleep(0.1)",
        "steps",
    )
    cell = "\n".join(lines)
    assert kernel.run(cell).value == "1"
    kernel.run(f"%%submarine --detach --name going --gpus 0\n{cell}")
    missing = kernel.run("%submarine job save no-such-job model").error
    assert "no-such-job" in missing
    look = "import time; from submarine_engine import open_job\n"
    look += "while not list(open_job('going').cluster.results(open_job('going').id)"
    look += ".glob('save.json')) or not open_job('going').running(): time.sleep(0.05)"
    assert kernel.run(look).reply["status"] == "ok"
    ran = kernel.run("%submarine job save going models/now")
    assert "by the code of worker-0: 1 file" in ran.stream("stdout"), ran.error
    assert int(kernel.value("pathlib.Path('models/now/weights').read_text()").strip("'")) >= 0
    assert "models/now exists" in kernel.run("%submarine job save going models/now").error
    kernel.run("%submarine job kill going")
    kernel.run("%submarine job wait going --timeout 60")
    assert "is over (cancelled)" in kernel.run("%submarine job save going models/then").error


def test_where_a_running_job_stands_is_told_at_cell_and_line(kernel):
    kernel.run("import time\ndef stay():\n    time.sleep(3600)")
    kernel.run("%%submarine --detach --name stays --gpus 0\nstay()")
    look = "from submarine_engine import open_job\n"
    look += "while 'in stay(): time.sleep(3600)' not in "
    look += "str(list(open_job('stays').stacks().lines())): pass"
    wait = "while not open_job('stays').running(): time.sleep(0.05)\n"
    assert kernel.run(look.replace("\n", f"\n{wait}", 1)).reply["status"] == "ok"
    ran = kernel.run("%submarine job stacks stays")
    assert "line 3, in stay(): time.sleep(3600)" in ran.stream("stdout")
    kernel.run("%submarine job kill stays")


def test_attaching_shows_the_log_from_its_first_byte_and_brings_the_result(kernel):
    kernel.run("%%submarine --detach --name again\nlater = train(2)")
    ran = kernel.run("%submarine job attach again")
    assert ran.stream("stdout") == "epoch 0\nepoch 1\n"
    assert ran.value == "{'epochs': 2}"
    assert kernel.value("later") == "{'epochs': 2}"


def test_the_card_of_a_job_that_is_over_shows_its_end_from_the_first_picture_on(kernel):
    kernel.run("%%submarine --detach --name past\ntrain(2)")
    kernel.run("%submarine job wait past --timeout 60")
    kernel.run("from submarine_magics.card import display; display._STATIC_EVERY = 0.0")
    ran = kernel.run("%submarine job attach past")
    shown = ran.of_type("display_data", "update_display_data")
    cards = [one["data"]["text/plain"] for one in shown]
    assert cards
    assert all("past: succeeded" in card for card in cards)


def test_waiting_gives_up_and_a_job_is_killed(kernel):
    kernel.run("%%submarine --detach --name sleeper --gpus 0\nimport time\ntime.sleep(600)")
    ran = kernel.run("%submarine job wait sleeper --timeout 0.1")
    assert "still running" in ran.error
    kernel.run("%submarine job kill sleeper")
    kernel.run("%submarine job wait sleeper --timeout 60")
    error = kernel.run("%submarine job attach sleeper").error
    assert "JobCancelledError" in error
    assert "killed; it was ended before its variables could come back" in error


def test_the_magics_can_be_unloaded_and_loaded_again(kernel):
    assert kernel.run("%unload_ext submarine_magics").reply["status"] == "ok"
    ran = kernel.run("%submarine help")
    assert "UsageError" in ran.stream("stderr") + ran.text
    assert kernel.run("%load_ext submarine_magics").reply["status"] == "ok"
    assert kernel.run("%%submarine\ntrain(1)").value == "{'epochs': 1}"


def complete(kernel, line):
    reply = kernel.client.complete(line, len(line), reply=True, timeout=180)
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


def test_the_script_is_that_of_the_last_job(kernel):
    kernel.run("%%submarine\ntrain(5)")
    assert "train(5)" in kernel.run("%submarine script").value


def test_a_cell_s_job_is_run_again_and_comes_home(kernel):
    """What its cell would have bound is bound by whoever follows the new job."""
    kernel.run("import os\nfrom pathlib import Path")
    cell = "%%submarine --name again --gpus 0\nassert os.path.exists('mended')\nretried = 6 * 7"
    assert "AssertionError" in kernel.run(cell).error
    kernel.run("Path('mended').touch()")
    ran = kernel.run("%submarine job retry again")
    assert ran.reply["status"] == "ok", ran.error
    assert "runs again what job" in ran.text
    assert kernel.value("retried") == "42"
    assert "it has succeeded" in kernel.run("%submarine job retry again").error


def test_a_cell_s_job_is_run_once_more_as_it_was(kernel):
    """Its script, its values and its random state are those of then, not of the notebook now."""
    kernel.run("import random\nrate = 3\nrandom.seed(11)")
    kernel.run("%%submarine --name exact --gpus 0\nexact = [rate, random.random()]")
    first = kernel.value("exact")
    kernel.run("rate = 4\nexact = random.seed(12)")
    ran = kernel.run("%submarine job rerun exact --time_limit 1h")
    assert ran.reply["status"] == "ok", ran.error
    assert "runs once more what job" in ran.text
    assert kernel.value("exact") == first
    assert "again: job" in kernel.run("%submarine job show exact").text
    kernel.run("%%submarine --name other --gpus 0\nexact = [rate, random.random()]")
    compared = kernel.run("%submarine job diff exact other")
    assert "exact: [" in compared.value
    assert "no option --cache" in kernel.run("%submarine job rerun exact --cache").error
