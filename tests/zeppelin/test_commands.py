"""What a paragraph of Python asks for, in the words of its kernel."""

from __future__ import annotations

import re

import pytest
from submarine_engine.errors import CommandError, ConfigError
from submarine_zeppelin.commands import metadata, part_title, translate

from tests.zeppelin.asked import Asked, commands, job, options

# Python paragraphs


def test_python_is_executed_and_is_a_part():
    action = translate(Asked("x = 1\n", title="model.py"), {})
    assert (action.code, action.part, action.title) == ("x = 1\n", True, "model.py")
    assert action.prefixes
    assert not action.is_job


def test_python_that_is_not_executed_is_only_a_part():
    asked = Asked("x = 1", title="model.py", properties={"execute": "false"})
    action = translate(asked, {})
    assert action.code == "%%submarine.python model.py\nx = 1"
    assert not action.part


def test_python_that_is_no_part_is_only_executed():
    action = translate(Asked("plot()", title="model.py", properties={"part": "false"}), {})
    assert (action.code, action.part, action.prefixes) == ("plot()", False, True)


def test_python_as_a_job_by_local_properties():
    asked = Asked("train()", properties={"run": "true", "gpu": "2", "memory": "8G"})
    action = translate(asked, {})
    assert action.is_job
    assert not action.part
    assert not action.prefixes
    assert action.code.endswith("\ntrain()")
    assert options(action) == {"gpus": 2, "memory": 8192}


def test_any_option_of_the_grammar_can_be_a_local_property():
    setting = {"run": "true", "num-workers": "3", "env": "A=b c", "detach": "true", "o": "model"}
    found = options(translate(Asked("train()", properties=setting), {}))
    assert found["num_workers"] == 3
    assert found["env"] == (("A", "b c"),)
    assert found["detach"] is True
    assert found["output"] == ("model",)
    assert "detach" not in options(job("x", detach="false"))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"gpu": "2"}, "add run=true"),
        ({"run": "perhaps"}, "neither true nor false"),
        ({"run": "true", "gpsu": "2", "memroy": "1G"}, "gpsu (did you mean gpu"),
        ({"run": "true", "gpsu": "2", "memroy": "1G"}, "memroy (did you mean memory?)"),
        ({"run": "true", "gpu": "many"}, "--gpus"),
        ({"run": "true", "gpus": "-1"}, "--gpus"),
        ({"run": "true", "detach": "maybe"}, "neither true nor false"),
        ({"run": "true", "name": "a\nb"}, "name"),
        ({"run": "true", "worker_launch_cmd": "a\nb"}, "more than one line"),
    ],
)
def test_bad_local_properties_are_refused_in_words(properties, words):
    with pytest.raises(CommandError, match=re.escape(words)):
        translate(Asked("train()", properties=properties), {})


def test_properties_of_zeppelin_itself_are_no_options():
    asked = Asked("x = 1", properties={"isRecover": "true", "saveAs": "t", "interpolate": "true"})
    assert translate(asked, {}).code == "x = 1"


def test_a_cell_magic_of_ours_is_what_it_is():
    action = translate(Asked("\n%%submarine --gpus 1\ntrain()", title="x.py"), {})
    assert (action.code, action.is_job) == ("%%submarine --gpus 1\ntrain()", True)
    assert not action.part
    part = translate(Asked("%%submarine.python model.py\nx = 1"), {})
    assert not part.is_job


@pytest.mark.parametrize(
    ("text", "is_job"),
    [("%submarine job run --gpus 1", True), ("x = 1\n%submarine job  run", True),
     ("%submarine job runs", False), ("%submarine job list", False), ("x %submarine", False)],
)  # fmt: skip
def test_a_magic_in_python_that_submits_is_a_job(text, is_job):
    assert translate(Asked(text), {}).is_job == is_job
    assert translate(Asked(text, properties={"part": "false"}), {}).is_job == is_job


def test_nothing_asks_for_nothing():
    for kind in ("python", "sh"):
        assert translate(Asked("  \n", kind), {}).code == ""


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("", None),
        ("model.py", "model.py"),
        ("nets/model.py", "nets/model.py"),
        ("model", "model.py"),
        ("Train the model", None),
        ("1. Load", None),
        ("string", None),
        ("../../etc/passwd.py", None),
        ("a b.py", None),
        ("Übung", "Übung.py"),
    ],
)
def test_titles_and_the_files_that_they_name(heading, title):
    found, say = part_title(heading)
    assert found == title
    assert bool(say) == (heading in ("string", "model", "../../etc/passwd.py", "a b.py", "Übung"))


# Jobs


def test_a_job_has_its_options_in_its_first_line():
    action = job("--gpus 2 --name mnist\nhistory = train()\n")
    assert action.code == "%%submarine --gpus 2 --name mnist\nhistory = train()\n"
    assert action.is_job


def test_options_go_on_in_the_next_line_after_a_backslash():
    action = job("--gpus 2 \\\n  --memory 4G\ntrain()")
    assert options(action) == {"gpus": 2, "memory": 4096}
    assert action.code.endswith("\ntrain()")


def test_a_job_without_options_begins_with_its_code():
    assert job("train()\n").code == "%%submarine\ntrain()\n"
    assert job("\n-1 + 2").code == "%%submarine\n-1 + 2"


def test_options_alone_run_the_parts():
    action = job("--gpus 2")
    assert action.code == "%%submarine.lines\njob run --gpus 2"
    assert action.is_job


def test_the_line_comes_before_local_properties_and_those_before_the_setting():
    setting = {"submarine.job.gpus": "7", "submarine.job.memory": "1G", "submarine.job.cpus": "5"}
    found = options(job("--gpus 1\ntrain()", setting=setting, gpus="2", memory="2G"))
    assert found == {"gpus": 1, "memory": 2048, "cpus": 5}
    found = options(job("--worker_resources memory=3G\ntrain()", setting=setting, queue="q"))
    assert set(found) == {"worker_resources", "queue"}


def test_bad_properties_of_the_setting_stop_jobs_only():
    setting = {"submarine.job.gpus": "many", "tf.workers": "1"}
    assert translate(Asked("x = 1"), setting).code == "x = 1"
    assert commands("gpus", setting=setting)
    for bad in (lambda: job("train()", setting=setting), lambda: commands("job run", "", setting)):
        with pytest.raises(ConfigError) as caught:
            bad()
        assert "2 properties" in str(caught.value)
        assert "submarine.job.gpus=many" in str(caught.value)
        assert "tf.workers" in str(caught.value)


# Words of the documentation of Hadoop Submarine, as they are pasted

LAUNCH = "--worker_launch_cmd 'python a.py'"


@pytest.mark.parametrize(
    ("pasted", "meant"),
    [
        ("JOB RUN --name x", "job run --name x"),
        ("JOB_SHOW x", "job show x"),
        ("JOB_SHOW", "note dashboard"),
        ("JOB SHOW", "note dashboard"),
        ("JOB STOP", "note stop"),
        ("JOB STOP x", "job cancel x"),
        ("TENSORBOARD START", "tensorboard"),
        ("TENSORBOARD STOP", "tensorboard --stop"),
        ("job run \u2013name x \u2014gpus 2", "job run --name x --gpus 2"),
        ("job run --worker_launch_cmd \u201cpython a.py\u201d", f"job run {LAUNCH}"),
        ("job run --worker_launch_cmd \u2018python a.py\u2019", f"job run {LAUNCH}"),
        ("job run --worker_launch_cmd \u201epython a.py\u201c", f"job run {LAUNCH}"),
        ("yarn jar submarine.jar job run --name x", "job run --name x"),
        (
            "/opt/yarn jar a.jar org.apache.submarine.Cli job run \u2013name x \\\n\u2013gpus 2",
            "job run --name x --gpus 2",
        ),
    ],
)
def test_what_is_pasted_from_old_pages_is_understood_and_said(pasted, meant):
    action = translate(Asked(pasted, "submarine"), {})
    assert action.code == f"%%submarine.lines\n{meant}"
    assert action.say


def test_options_of_code_may_be_pasted_too():
    action = job("\u2013gpus 2 \u2013name x\ntrain('\u2013a')")
    assert action.code == "%%submarine --gpus 2 --name x\ntrain('\u2013a')"
    assert action.say


@pytest.mark.parametrize(
    "meant",
    ["--worker_launch_cmd 'echo \u201cx\u201d \u2013y'", "--name 5 -- 'a\u2013b' '\u20135'"],
)
def test_what_is_quoted_or_no_option_stays_as_it_is(meant):
    action = translate(Asked(f"job run {meant}", "submarine"), {})
    assert action.code == f"%%submarine.lines\njob run {meant}"
    assert not action.say


# The shell, and what goes with the request


def test_shell_runs_beside_the_kernel():
    assert translate(Asked("ls\n", "submarine_zeppelin.Shell"), {}).code == "%%submarine.sh\nls\n"


def test_metadata_says_whose_paragraph_it_is():
    asked = Asked("x = 1", title="model.py")
    found = metadata(translate(asked, {}), asked, ["paragraph_0", "paragraph_1"])
    assert found["cellId"] == "paragraph_1"
    assert found["submarine"] == {
        "note": "Digits",
        "id": "2ABC",
        "user": "ada",
        "heading": "model.py",
        "part": True,
        "title": "model.py",
        "order": ["paragraph_0", "paragraph_1"],
        "leaves": False,
    }
    command = Asked("gpus", "submarine")
    for cluster in ("yarn", None):
        beside = metadata(translate(command, {}), command, cluster=cluster)
        assert beside["submarine"]["cluster"] == cluster


@pytest.mark.parametrize(
    ("asked", "leaves"),
    [
        (Asked("1", "run"), True),
        (Asked("%%capture\n1", "run"), False),
        (Asked("%%submarine --gpus 1\n1"), True),
        (Asked("%%submarine.python\n1"), False),
        (Asked("%submarine job run\nx = 1"), False),
        (Asked("gpus\njob run", "submarine"), True),
        (Asked("job run\nscript", "submarine"), False),
        (Asked("job run\njob run", "submarine"), False),
    ],
)
def test_a_paragraph_that_ends_with_its_job_follows_it_without_the_kernel(asked, leaves):
    assert translate(asked, {}).leaves == leaves


@pytest.mark.parametrize(
    ("text", "beside"),
    [("job list\ngpus", True), ("JOB_STOP", True), ("job cancel x", True), ("use local", False),
     ("job list\nnote clean", False), ("job fetch x y", False), ("job diff x y", True),
     ("job rerun x", False), ("", True)],
)  # fmt: skip
def test_commands_that_touch_nothing_of_the_notes_run_beside_them(text, beside):
    assert translate(Asked(text, "submarine"), {}).beside == beside


def test_whether_a_paragraph_waits_is_said_by_its_properties():
    assert translate(Asked("1"), {}).waits
    assert not translate(Asked("1", "run", properties={"wait": "false"}), {}).waits
    with pytest.raises(CommandError, match="neither true nor false"):
        translate(Asked("1", properties={"wait": "perhaps"}), {})


def test_what_a_job_has_from_the_setting_is_known_by_the_propertys_name():
    setting = {"submarine.yarn.queue": "root.a", "submarine.job.gpus": "2"}
    assert job("--gpus 1\n1", setting=setting).defaults == ("submarine.yarn.queue=root.a",)
    assert commands("job run", setting=setting).defaults == (
        "submarine.job.gpus=2", "submarine.yarn.queue=root.a",
    )  # fmt: skip
    assert job("--gpus 1\n1").defaults == ()
