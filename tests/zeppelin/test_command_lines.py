"""`%submarine`: commands new and old, and forms in their lines."""

from __future__ import annotations

import json

import pytest
from submarine_engine.command import NOTEBOOK, parse
from submarine_engine.errors import CommandError
from submarine_zeppelin.commands import LEGACY_NAMES

from tests.zeppelin.asked import commands, job, options


def test_commands_one_a_line():
    action = commands("# what there is\ngpus\n\njob list --all\n")
    assert action.code == "%%submarine.lines\ngpus\njob list --all"
    assert not action.is_job


def test_job_run_takes_options_from_local_properties_and_setting():
    action = commands("job run --name x", setting={"submarine.yarn.queue": "root.a"}, gpu="2")
    assert action.is_job
    command = parse(action.code.splitlines()[1], surface=NOTEBOOK)
    assert command.values == {"name": "x", "gpus": 2, "queue": "root.a"}


def test_a_command_may_be_written_with_the_magic():
    assert commands("%submarine gpus").code == "%%submarine.lines\ngpus"


def test_nothing_at_all_shows_the_dashboard():
    assert commands("").code == "%%submarine.lines\nnote dashboard"


@pytest.mark.parametrize(
    ("line", "nearest"),
    [("job runn", "run"), ("jbo run", "job"), ("gpsu", "gpus"), ("JOB_RUNN", "JOB_RUN"),
     ("TENSORBORD_RUN", "TENSORBOARD_RUN"), ("job run --gpsu 1", "--gpus"), ("rm -rf /", "help")],
)  # fmt: skip
def test_an_unknown_command_names_the_nearest_known_one(line, nearest):
    with pytest.raises(CommandError) as caught:
        commands(line)
    assert nearest in caught.value.fix


def test_commands_of_the_terminal_only_are_refused():
    with pytest.raises(CommandError, match="only in a terminal"):
        commands("cluster up")


@pytest.mark.parametrize("name", LEGACY_NAMES)
def test_every_old_command_is_known(name):
    line = f"{name} mnist-1" if name == "JOB_SHOW" else name
    action = commands(line)
    assert name in action.say[0]
    assert action.is_job == (name == "JOB_RUN")
    for shown in action.code.splitlines()[1:]:
        assert shown.startswith("note ") or parse(shown, surface=NOTEBOOK)


def test_old_commands_with_arguments():
    assert commands("JOB_STOP mnist").code.endswith("\njob cancel mnist")
    assert commands("job_run --gpus 2").code.endswith("\njob run --gpus 2")
    assert commands("TENSORBOARD_RUN mnist").code.endswith("\ntensorboard mnist")
    assert commands("TENSORBOARD_STOP").code.endswith("\ntensorboard --stop")
    assert commands("dashboard").code.endswith("\nnote dashboard")


# Forms


def test_places_of_the_option_line_are_forms():
    text = "--gpus ${gpus=1} --queue ${queue=root.a,root.a|root.b(the big one)}\nprint('${x=1}')"
    action = job(text, json.dumps({"params": {"gpus": "2"}, "forms": {"old": {}}}))
    assert options(action) == {"gpus": 2, "queue": "root.a"}
    assert action.code.endswith("print('${x=1}')")
    gui = json.loads(action.gui)
    assert gui["params"] == {"gpus": "2", "queue": "root.a"}
    assert gui["forms"]["gpus"]["type"] == "TextBox"
    assert gui["forms"]["queue"]["type"] == "Select"
    assert gui["forms"]["queue"]["options"][1] == {"value": "root.b", "displayName": "the big one"}


def test_what_is_typed_into_a_form_is_one_word():
    gui = json.dumps({"params": {"name": "a --detach; rm -rf $HOME"}})
    with pytest.raises(CommandError, match="name"):
        job("--name ${name=x}\ntrain()", gui)
    gui = json.dumps({"params": {"path": "my data"}})
    assert options(job("--input_path ${path=x}\ntrain()", gui))["input_path"] == "my data"


@pytest.mark.parametrize("gui", ["", "null", "[]", "{", '{"params": 3, "forms": null}'])
def test_a_gui_that_makes_no_sense_counts_as_empty(gui):
    assert options(job("--gpus ${g=3}\ntrain()", gui)) == {"gpus": 3}


def test_without_places_the_gui_is_echoed_as_it_came():
    assert job("--gpus 1\ntrain()", "anything").gui == "anything"
