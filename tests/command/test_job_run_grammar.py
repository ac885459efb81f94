"""`job run` as people and Hadoop Submarine's users write it."""

from __future__ import annotations

import pytest
from submarine_engine.command import NOTEBOOK, TERMINAL, parse, parse_cell, to_command
from submarine_engine.errors import CommandError
from submarine_engine.job import NO_OUTPUTS, JobSpec, Resources, Role

HADOOP = r"""
job run \
  --name tf-job-001 --docker_image tf-docker:1.1.0 --queue research \
  --input_path hdfs://default/dataset --checkpoint_path hdfs://default/tmp/cifar \
  --num_workers 2 --worker_resources memory=8G,vcores=2,gpu=2 \
  --worker_launch_cmd "python cifar10_main.py --data-dir=%input_path%" \
  --num_ps 1 --ps_resources memory=4G,vcores=1 --ps_launch_cmd 'python ps.py' \
  --tensorboard --env A=1 --env "B=x y" --quicklink UI=https://worker-0:7070 --wait_job_finish
"""


def test_a_pasted_hadoop_command_is_understood():
    command = parse(HADOOP)
    assert command.path == ("job", "run")
    assert command.spec == JobSpec(
        name="tf-job-001",
        docker_image="tf-docker:1.1.0",
        queue="research",
        input_path="hdfs://default/dataset",
        checkpoint_path="hdfs://default/tmp/cifar",
        roles=(
            Role(
                name="worker",
                count=2,
                resources=Resources(memory=8192, vcores=2, gpus=2),
                command="python cifar10_main.py --data-dir=${SUBMARINE_INPUT_PATH}",
            ),
            Role(name="ps", resources=Resources(memory=4096, vcores=1), command="python ps.py"),
        ),
        tensorboard=True,
        env={"A": "1", "B": "x y"},
        quicklinks=(("UI", "https://worker-0:7070"),),
    )


@pytest.mark.parametrize(
    "text",
    [
        "job run --worker_resources gpu=2,memory=1G --num_workers 3",
        "job run --worker-resources gpu=2,memory=1G --num-workers 3",
        "job run --worker_resources=gpu=2,memory=1G --num_workers=3",
        "job run -worker_resources gpu=2,memory=1G -num_workers 3",
        "job run --worker_resources '[memory=1024M, yarn.io/gpu=2]' --num_workers 3",
        "job run --worker_resources memory-mb=1024,gpus=2 --num_workers 3",
        "job run --gpus 2 --memory 1G --num_workers 3",
        "job run --worker_resources gpu=2 --memory 1GiB --gpus 2 --num_workers 3",
    ],
)
def test_one_thing_has_many_spellings(text):
    resources = Resources(gpus=2, memory=1024)
    assert parse(text).spec.roles == (Role(count=3, resources=resources),)


def test_words_and_text_mean_the_same():
    words = ["job", "run", "--name", "a", "--worker_launch_cmd", "echo 'x y'"]
    assert parse(words) == parse("job run --name a --worker_launch_cmd \"echo 'x y'\"")


def test_nothing_said_is_nothing_set():
    command = parse("job run")
    assert command.values == {}
    assert command.spec == JobSpec()
    assert command.spec.roles[0].resources.gpus is None


def test_ours_are_values_beside_the_spec():
    command = parse("job run --cluster local --detach --dry-run --capture-limit 1.5G -o a -o b")
    assert command.values == {
        "cluster": "local", "detach": True, "dry_run": True, "capture_limit": 3 << 29,
        "output": ("a", "b"),
    }  # fmt: skip
    assert command.spec.outputs == ("a", "b")


def test_a_script_takes_what_follows_two_dashes():
    command = parse("job run --gpus 1 train.py -- --epochs 3 --help -- x")
    assert command.values["script"] == "train.py"
    assert command.spec.roles[0].args == ("--epochs", "3", "--help", "--", "x")


@pytest.mark.parametrize(
    ("text", "on"),
    [("", False), ("--tensorboard", True), ("--tensorboard true", True),
     ("--tensorboard=false", False), ("--tensorboard FALSE --gpus 1", False)],
)  # fmt: skip
def test_tensorboard_may_say_true_or_false(text, on):
    assert parse(f"job run {text}").spec.tensorboard is on


def test_a_name_comes_from_the_command_line_first():
    assert parse("job run --name mine").named("train").name == "mine"
    assert parse("job run").named("train").name == "train"
    with pytest.raises(ValueError, match="gpus"):
        parse("gpus").named("train")


def test_a_cell_has_the_same_options():
    cell = parse_cell("--gpus=2 --detach -o history")
    assert cell == parse("job run --gpus=2 --detach -o history")


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ("-o a,b", ("a", "b")),
        ("-o=a,b,", ("a", "b")),
        ("-o a, b", ("a", "b")),
        ("-o a b --gpus 1", ("a", "b")),
        ("-o a -o b c", ("a", "b", "c")),
        ("-o none", NO_OUTPUTS),
    ],
)
def test_names_to_bring_back_are_what_they_look_like(text, outputs):
    assert parse_cell(text).spec.outputs == outputs


def test_a_word_after_a_name_to_bring_back_is_the_script_in_a_terminal():
    command = parse("job run -o a,b train.py")
    assert command.spec.outputs == ("a", "b")
    assert command.values["script"] == "train.py"


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("--gpu 2", "there is no option --gpu", "did you mean --gpus?"),
        ("--nmae x", "no option --nmae", "did you mean --name?"),
        ("--worker-resuorces x", "no option --worker-resuorces", "mean --worker_resources?"),
        ("-z", "no option -z", "--help"),
        ("--gpus=-1", "--gpus: '-1' is not possible", "whole number"),
        ("--gpus -1", "--gpus: '-1' is not possible", "whole number"),
        ("--gpus 1.5", "--gpus: '1.5' is not possible", "whole number"),
        ("--gpus \u0663", "is not possible", "whole number"),
        ("--gpus 99999999999999999999", "is not possible", "whole number"),
        ("--memory lots", "memory=lots is not an amount of memory", "8G"),
        ("--memory 0", "memory=0 is not a whole number of mebibytes", "8G"),
        ("--memory 100K", "not a whole number of mebibytes", "8G"),
        ("--cpus 0", "vcores=0 is not possible", "leave vcores out"),
        ("--worker_resources gpu=-1", "gpu=-1 is not possible", "whole number"),
        ("--worker_resources memory=lots", "memory=lots", "8G"),
        ("--worker_resources vcores=0", "vcores=0 is not possible", "1 or more"),
        ("--worker_resources gpu=1,gpu=2", "gpu is given twice", "once"),
        ("--worker_resources gpu=1,gpus=1", "gpus is given twice", "once"),
        ("--worker_resources fpga=1", "'fpga=1' is not a resource", "memory=8G,vcores=2,gpu=2"),
        ("--worker_resources ''", "'' is not a resource", "memory="),
        ("--worker_resources gpu", "'gpu' is not a resource", "memory="),
        ("--name", "--name needs a value", "write --name NAME"),
        ("--name --gpus 1", "--name needs a value", "--name=--gpus"),
        ("--name ''", "the value is empty", "leave the option out"),
        ("--name 'a b'", "'a b' cannot name a job", "letters"),
        ("--name a --name b", "--name is given twice", "once"),
        ("--name a --name a", "--name is given twice", "once"),
        ("--name 'a", "does not parse", "close the quotation"),
        ("--detach=yes", "--detach=yes is not possible", "write --detach"),
        ("--tensorboard=maybe", "--tensorboard=maybe is not possible", "--tensorboard"),
        ("--env A", "'A' is not of the form NAME=VALUE", "NAME=VALUE"),
        ("--env =1", "is not of the form", "NAME=VALUE"),
        ("--env 1A=1", "'1A' cannot name an environment variable", "KEY=VALUE"),
        ("--env A=1 --env A=2", "--env A is given twice", "once"),
        ("-o x -o x", "-o x is given twice", "once"),
        ("-o x,x", "-o x is given twice", "once"),
        ("-o ,", "',' cannot name a variable", "-o NAME"),
        ("-o none,x", "-o none (nothing comes back)", "leave one out"),
        ("--name a/b", "'a/b' cannot name a job", "letters"),
        ("-o x-y", "'x-y' cannot name a variable", "-o NAME"),
        ("--quicklink UI=ftp://x", "is not a web address", "https"),
        ("--quicklink A=http://x --quicklink A=http://y", "A is given twice", "once"),
        ("--gpus 2 --worker_resources gpu=1", "contradict each other: gpus is 2 and 1", "one out"),
        ("--cpus 2 --worker_resources vcores=1", "vcores is 2 and 1", "one out"),
        ("--num_workers 0", "role worker cannot have 0 tasks", "1 or more"),
        (
            "--num_workers 4:2",
            "--num_workers: '4:2' is not possible: the first is the fewest",
            "2:4",
        ),
        (
            "--num_workers 0:2",
            "--num_workers: '0:2' is not possible: the first is the fewest",
            "2:4",
        ),
        ("--num_workers 2:", "--num_workers: '2:' is not possible", "for example 2:4"),
        ("--num_workers :4", "--num_workers: ':4' is not possible", "for example 2:4"),
        ("--num_workers 1:2:3", "--num_workers: '1:2:3' is not possible", "for example 2:4"),
        ("--num_workers 2:4 --gang all", "2:4 contradict each other", "leave one out"),
        ("--gang some", "--gang: 'some' is not possible", "all or none"),
        ("--num_ps 1:2", "--num_ps: '1:2' is not possible", "a whole number"),
        ("--num_ps 0 --ps_launch_cmd x", "there are no parameter servers", "--num_ps 1"),
        ("--ps_resources memory=1G", "there are no parameter servers", "--num_ps 1"),
        ("--detach --wait_job_finish", "contradict each other", "leave one out"),
        ("--worker_launch_cmd 'python x.py' -- --a", "in place of the script", "into the command"),
        ("--worker_launch_cmd 'x %input_path%'", "--input_path is not given", "give it"),
        (
            "--worker_launch_cmd 'x %saved_model_path%'",
            "--saved_model_path is not given",
            "no such option",
        ),
        ("train.py other.py", "'other.py' has no meaning here", "after --"),
        ("train.py --epochs 3", "no option --epochs", "arguments of the script go after --"),
        ("--num_chief 2", "a job has one chief, not 2", "--num_chief 1"),
        ("--evaluator_launch_cmd x", "there are no evaluators", "--num_evaluator 1"),
        ("--framework mxnet", "there is no framework 'mxnet'", "--framework auto, pytorch, "),
        ("--ranks_per_task 2", "there is no ranks per task '2'", "--ranks_per_task 1 or gpu"),
        ("--ranks_per_task gpu", "no worker is said to have any", "(--gpus 4)"),
        ("-keytab x", "--keytab is refused", "leave it out"),
        ("--saved_model_path m", "--saved_model_path is refused", "submarine serve start PATH"),
    ],
)
def test_what_is_wrong_is_said_with_the_way_out(text, what, fix):
    with pytest.raises(CommandError) as caught:
        parse(f"job run {text}")
    assert what in caught.value.what
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("text", "surface"),
    [
        ("job run train.py", NOTEBOOK),
        ("job run --json", NOTEBOOK),
        ("config show", NOTEBOOK),
        ("use local", TERMINAL),
        ("script", TERMINAL),
        ("job run --capture-limit 1G", TERMINAL),
    ],
)
def test_what_has_a_meaning_elsewhere_is_refused_here(text, surface):
    parse(text)
    with pytest.raises(CommandError, match=r"has (a|no) meaning"):
        parse(text, surface=surface)


def test_a_cell_runs_itself_not_a_script():
    with pytest.raises(CommandError, match=r"'train\.py' has no meaning here"):
        parse_cell("train.py")


def test_a_number_of_workers_may_be_two():
    spec = parse("job run --num_workers 2:4 --num_chief 1 --num_ps 2").spec
    workers = spec.roles[0]
    assert (workers.least, workers.count) == (2, 4)
    assert spec.elastic is workers
    assert "--num_workers 2:4" in to_command(spec)
    assert parse("job run --num_workers 3:3").spec.roles[0] == Role(count=3)


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ("--num_workers 4", Role(count=4)),
        ("--num_workers 4 --gang all", Role(count=4)),
        ("--num_workers 4 --gang none", Role(count=4, least=1)),
        ("--num_workers 2:4 --gang none", Role(count=4, least=2)),
        ("--gang none", Role()),
    ],
)
def test_workers_begin_all_or_with_what_there_is(text, workers):
    assert parse(f"job run --num_ps 1 {text}").spec.roles[0] == workers
