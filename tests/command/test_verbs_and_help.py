"""Verbs, help and completion all come from the one grammar."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from submarine_engine.command import NOTEBOOK, TERMINAL, complete, help_text, parse, parse_cell
from submarine_engine.command.options import COMMON, REASONS
from submarine_engine.command.verbs import GROUPS, VERBS
from submarine_engine.errors import CommandError

DOCS = Path(__file__).parents[2] / "docs"
ALL_OPTIONS = {option.name: option for verb in VERBS for option in (*verb.options, *COMMON)}

each_verb = pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.text)
each_option = pytest.mark.parametrize("option", ALL_OPTIONS.values(), ids=ALL_OPTIONS)


@each_verb
def test_every_verb_says_what_it_does(verb):
    assert re.fullmatch(r"[A-Z].*\.", verb.summary)
    assert verb.examples
    for surface in verb.surfaces:
        text = help_text(verb.path, surface=surface)
        assert verb.summary in text
        assert verb.text in help_text((), surface=surface)
        for option in (*verb.options, *COMMON):
            if surface in option.surfaces:
                assert option.flag in text
        assert max(map(len, text.splitlines())) <= 100


@each_option
def test_every_option_has_help(option):
    assert re.fullmatch(r"[A-Z0].*\.", option.help)


@each_verb
def test_examples_parse(verb):
    for example in verb.examples:
        assert parse(example, surface=max(verb.surfaces)).path == verb.path


@each_verb
def test_every_verb_is_documented(verb):
    assert f"`{verb.text}" in (DOCS / "command-line.md").read_text()


@each_option
def test_every_option_is_documented(option):
    assert f"`{option.flag}" in (DOCS / "command-line.md").read_text()


@each_verb
def test_keys_are_unique_within_a_verb(verb):
    options = (*verb.options, *COMMON)
    keys = [option.key for option in options] + [argument.name for argument in verb.arguments]
    shorts = [option.short for option in options if option.short]
    assert len(set(keys)) == len(keys)
    assert len(set(shorts)) == len(shorts)


@pytest.mark.parametrize("name", REASONS)
def test_hadoop_options_without_a_meaning_say_why(name):
    with pytest.raises(CommandError, match=f"-{name} is refused: .") as caught:
        parse(["job", "run", f"--{name}", "x"])
    assert caught.value.fix


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("", ()),
        ("--help", ()),
        ("-h", ()),
        ("help", ()),
        ("job --help", ("job",)),
        ("job run --help", ("job", "run")),
        ("job run --gpus lots -h", ("job", "run")),
        ("--json job show --help", ("job", "show")),
        ("help job run", ("job", "run")),
        ("config -h", ("config",)),
    ],
)
def test_help_is_everywhere(text, about):
    command = parse(text)
    assert (command.path, command.values.get("about", ())) == (("help",), about)
    assert help_text(about)


def test_help_of_a_cell_is_that_of_job_run():
    assert parse_cell("--gpus lots --help").values["about"] == ("job", "run")


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_its_verbs(group):
    text = help_text((group,))
    shown = [verb for verb in VERBS if verb.path[0] == group and TERMINAL in verb.surfaces]
    assert shown
    assert all(verb.text in text for verb in shown)


def test_each_surface_sees_its_own():
    assert "config show" not in help_text((), surface=NOTEBOOK)
    assert "%%submarine" in help_text((), surface=NOTEBOOK)
    assert "  use " not in help_text((), surface=TERMINAL)
    assert "--json" not in help_text(("job", "run"), surface=NOTEBOOK)


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("jbo list", "there is no verb 'jbo'", "did you mean job?"),
        ("job lst", "no verb `job …` called 'lst'", "did you mean list?"),
        ("job", "`job` needs a verb", "job run"),
        ("job --json", "`job` needs a verb", "job run"),
        ("--json", "a verb is missing", "job"),
        ("--gpus 2", "--gpus comes before a verb", "begin with a verb"),
        ("job show", "JOB is missing", "id"),
        ("job kill", "JOBS is missing", "id"),
        ("job show a b", "'b' has no meaning here", "quote"),
        ("job list --limit x", "'x' is not possible", "whole number"),
        ("job wait a --timeout soon", "'soon' is not a length of time", "10m"),
        ("job logs a --flow", "no option --flow", "did you mean --follow?"),
        ("job logs a --logs all", "no option --logs", "did you mean --task?"),
        ("job stacks a --rank 1", "no option --rank", "did you mean --task?"),
        ("job attach a --task worker-1", "no option --task", "did you mean --logs?"),
        ("job run a.py --task worker-1", "no option --task", "did you mean --logs?"),
        ("gpus --detach", "no option --detach", "--help"),
        ("job list --all --limit 3", "--all and --limit contradict each other", "leave one out"),
        ("job list --limit 3 --all", "--limit and --all contradict each other", "leave one out"),
    ],
)
def test_wrong_verbs_are_answered_with_the_nearest(text, what, fix):
    with pytest.raises(CommandError) as caught:
        parse(text)
    assert what in caught.value.what
    assert fix in caught.value.fix


def test_unknown_verbs_have_no_help():
    with pytest.raises(CommandError, match="no verb 'job rn'") as caught:
        help_text(("job", "rn"))
    assert "did you mean job run?" in caught.value.fix


def test_version_is_an_option_and_a_verb():
    assert parse("--version").path == parse("version").path == ("version",)
    assert parse("--version --json").values == {"json": True}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("jo", ["job"]),
        ("job l", ["list", "logs"]),
        ("job run --worker", ["--worker_resources", "--worker_launch_cmd"]),
        ("job run --worker-r", ["--worker_resources"]),
        ("job run --name x --na", []),
        ("job run --env A=1 --en", ["--env", "--environment"]),
        ("job run --cluster ", ["kubernetes", "local", "slurm", "yarn", "any"]),
        ("job run --cluster=l", ["--cluster=local"]),
        ("job run --worker_resources memory=1G,g", ["memory=1G,gpu="]),
        ("job run --name ", []),
        ("job run train.py -- --ep", []),
        ("use ", ["kubernetes", "local", "slurm", "yarn", "any"]),
        ("job show 2", ["20251120-101010-abcde"]),
        ("job kill mnist ", ["20251120-101010-abcde", "mnist"]),
        ("help jo", ["job"]),
        ("nothing ", []),
        ("job run --keyt", []),
        ("job run --name 'a b' --qui", ["--quicklink"]),
    ],
)
def test_completion(line, found):
    assert complete(line, jobs=lambda: ["20251120-101010-abcde", "mnist"]) == found


def test_completion_looks_left_of_the_cursor_only():
    assert complete("job run --gp --name x", len("job run --gp")) == [
        "--gpus",
        "--gpu_resource",
        "--gpu_type",
    ]


def test_completion_in_a_cell_knows_options_alone():
    assert complete("--gp", cell=True, surface=NOTEBOOK) == [
        "--gpus",
        "--gpu_resource",
        "--gpu_type",
    ]
    assert complete("jo", cell=True, surface=NOTEBOOK) == []
    assert "--json" not in complete("--", cell=True, surface=NOTEBOOK)


def test_completion_asks_for_jobs_only_where_one_may_stand():
    def refuse():
        raise AssertionError

    assert complete("job ", jobs=refuse)
    assert complete("job run --", jobs=refuse)


def test_completion_knows_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "tools").mkdir()
    (tmp_path / ".hidden").touch()
    assert complete("job run t") == ["tools/", "train.py"]
    assert complete("job run ") == ["tools/", "train.py"]
    assert complete("job run tools/") == []
    assert complete("job run nowhere/x") == []


def test_completion_does_not_mind_what_is_wrong_before():
    assert complete("job run --gpus lots --nonsense 3 --framework x --na") == ["--name"]
    assert complete("job run --mode ") == ["auto", "warm", "cold"]
    assert complete("job run --worker-resources memory=1G,v") == ["memory=1G,vcores="]
    assert complete("job run -- x --na") == []


def test_completion_leaves_out_what_the_cluster_does_not_know():
    assert complete("job run --is") == complete("job run --cluster local --is") == ["--isolation"]
    assert complete("job run --cluster yarn --is") == []


@pytest.mark.parametrize("text", ["-1", "-", "", "--", "-- x", "job -1", "job ''", "job run -1"])
def test_words_that_are_no_options_are_words(text):
    with pytest.raises(CommandError, match=r"no verb|verb is missing|no meaning") as caught:
        parse(text, surface=NOTEBOOK) if text else parse("''")
    assert caught.value.fix


def test_a_switch_says_yes_or_no_once():
    assert parse("cluster up --hdfs false").values == {"hdfs": False}
    assert parse("cluster up --no-hdfs").values == {"hdfs": False}
    assert parse("cluster up --no_hdfs=true --gpus 1").values == {"hdfs": False, "gpus": 1}
    assert parse("cluster up --hdfs=TRUE").values == {"hdfs": True}
    for text, what in (
        ("--hdfs --no-hdfs", "contradict"),
        ("--hdfs --hdfs", "twice"),
    ):
        with pytest.raises(CommandError, match=what):
            parse(f"cluster up {text}")
