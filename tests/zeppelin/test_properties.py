"""The properties of the interpreter's setting: ours, the former interpreter's, and bad ones."""

from __future__ import annotations

import pytest
from submarine_engine.errors import ConfigError
from submarine_zeppelin.properties import read_properties

FORMER = {
    "zeppelin.submarine.auth.type": "simple",
    "yarn.webapp.http.address": "http://rm:8088",
    "INTERPRETER_LAUNCH_MODE": "local",
    "HADOOP_YARN_SUBMARINE_JAR": "/opt/submarine.jar",
    "DOCKER_JAVA_HOME": "",
    "zeppelin.interpreter.rpc.portRange": "29914",
    "submarine.yarn.queue": "root.default",
    "submarine.hadoop.home": "/opt/hadoop",
    "SUBMARINE_HADOOP_CONF_DIR": "/etc/hadoop",
    "docker.container.network": "",
    "submarine.algorithm.hdfs.path": "hdfs://...",
    "tf.parameter.services.num": "1",
    "tf.worker.services.num": "2",
    "tf.parameter.services.docker.image": "tf:1",
    "tf.parameter.services.gpu": "0",
    "tf.parameter.services.cpu": "2",
    "tf.parameter.services.memory": "2G",
    "tf.worker.services.docker.image": "tf:1",
    "tf.worker.services.gpu": "1",
    "tf.worker.services.cpu": "4",
    "tf.worker.services.memory": "4G",
    "tf.tensorboard.enable": "true",
    "tf.checkpoint.path": "hdfs:///checkpoints",
    "zeppelin.python": "python",
    "machinelearning.distributed.enable": "true",
    "shell.command.timeout.millisecs": "60000",
}


def told(found):
    """Return the environment without what is always there."""
    return {k: v for k, v in found.environment.items() if k != "SUBMARINE_CELL_OUTPUT_LIMIT"}


def test_a_setting_of_the_former_interpreter_is_understood():
    found = read_properties(FORMER)
    assert found.problems == []
    assert found.options == {
        "queue": "root.default",
        "checkpoint_path": "hdfs:///checkpoints",
        "docker_image": "tf:1",
        "num_workers": "2",
        "gpus": "1",
        "cpus": "4",
        "memory": "4G",
        "num_ps": "1",
        "ps_resources": "memory=2G,vcores=2,gpu=0",
    }
    assert told(found) == {
        "SUBMARINE_CLUSTER": "yarn",
        "HADOOP_CONF_DIR": "/etc/hadoop",
        "HADOOP_HOME": "/opt/hadoop",
    }


def test_its_jobs_stay_on_yarn_with_their_python_until_the_setting_says_otherwise():
    former = {**FORMER, "zeppelin.python": "/opt/conda/bin/python"}
    found = read_properties(former)
    assert found.environment["SUBMARINE_CLUSTER"] == "yarn"
    assert found.environment["SUBMARINE_YARN_PYTHON"] == "/opt/conda/bin/python"
    found = read_properties({**former, "submarine.yarn.python": "/usr/bin/python3"})
    assert found.environment["SUBMARINE_YARN_PYTHON"] == "/usr/bin/python3"
    found = read_properties({**former, "submarine.cluster": "local"})
    assert found.environment["SUBMARINE_CLUSTER"] == "local"
    assert "queue" not in found.options
    assert "SUBMARINE_CLUSTER" not in read_properties({"zeppelin.python": "/a"}).environment


def test_one_that_is_not_distributed_has_one_worker():
    found = read_properties({**FORMER, "machinelearning.distributed.enable": "false"})
    assert "num_workers" not in found.options
    assert "num_ps" not in found.options


def test_our_own_properties():
    found = read_properties(
        {
            "submarine.home": "/data/jobs",
            "SUBMARINE_CLUSTER": "yarn",
            "submarine.yarn.python": "/usr/bin/python3",
            "submarine.grace": "10",
            "submarine.job.gpus": "1",
            "submarine.job.detach": "true",
            "HADOOP_CONF_DIR": "/etc/hadoop",
        }
    )
    assert found.problems == []
    assert told(found) == {
        "SUBMARINE_HOME": "/data/jobs",
        "SUBMARINE_CLUSTER": "yarn",
        "SUBMARINE_YARN_PYTHON": "/usr/bin/python3",
        "SUBMARINE_GRACE": "10",
        "HADOOP_CONF_DIR": "/etc/hadoop",
    }
    assert found.options == {"gpus": "1", "detach": "true"}


def test_a_kernel_cuts_logs_where_the_paragraph_would():
    assert read_properties({}).output_limit == 102_400
    assert read_properties({}).environment == {"SUBMARINE_CELL_OUTPUT_LIMIT": "102400"}
    found = read_properties({"zeppelin.interpreter.output.limit": "5000"})
    assert found.output_limit == 5000
    assert found.environment == {"SUBMARINE_CELL_OUTPUT_LIMIT": "5000"}
    found = read_properties({"submarine.cell_output_limit": "7000"})
    assert found.environment == {"SUBMARINE_CELL_OUTPUT_LIMIT": "7000"}
    for bad in ("-1", "0", "100k", "1e5"):
        found = read_properties({"zeppelin.interpreter.output.limit": bad})
        assert found.output_limit == 102_400
        assert "no number of bytes" in found.problems[0]


def test_how_many_jobs_of_a_note_run_at_a_time():
    assert read_properties({}).at_once == 1
    assert read_properties({"submarine.concurrent.max": "4"}).at_once == 4
    for bad in ("0", "-1", "all"):
        found = read_properties({"submarine.concurrent.max": bad})
        assert found.at_once == 1
        assert "no number of jobs" in found.problems[0]


def test_others_reach_nobody():
    found = read_properties({"zeppelin.server.port": "1", "LD_PRELOAD": "x", "PATH": "."})
    assert (found.options, told(found), found.problems) == ({}, {}, [])


def test_every_problem_is_named_in_one_message():
    found = read_properties(
        {
            "submarine.grace": "soon",
            "submarine.clustre": "yarn",
            "submarine.job.gpu_count": "1",
            "submarine.job.detach": "perhaps",
            "tf.worker.services.gpu": "many",
            "tf.worker.service.cpu": "2",
            "machinelearning.distributed.enable": "yes",
            "SUBMARINE_HADOOP_KEYTAB": "/etc/key",
        }
    )
    with pytest.raises(ConfigError) as caught:
        found.check()
    text = str(caught.value)
    assert "8 properties" in text
    for words in (
        "submarine.grace=soon",
        "did you mean submarine.cluster?",
        "submarine.job.gpu_count: there is no option",
        "submarine.job.detach=perhaps",
        "tf.worker.services.gpu=many",
        "did you mean tf.worker.services.cpu?",
        "machinelearning.distributed.enable=yes",
        "kinit",
    ):
        assert words in text
    assert found.options == {}
    assert told(found) == {}


def test_what_a_distributed_job_lacks_is_named():
    found = read_properties({"machinelearning.distributed.enable": "true"})
    assert "tf.worker.services.num: it is missing" in found.problems[0]


def test_images_of_roles_that_differ_are_named():
    found = read_properties({**FORMER, "tf.parameter.services.docker.image": "other:2"})
    assert "start from one image" in found.problems[0]
