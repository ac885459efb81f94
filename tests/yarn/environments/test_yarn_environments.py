"""Which Python a job gets, and what is refused before anything is asked of YARN."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.bundle.model import CapturedValue
from submarine_engine.clusters.yarn import environments
from submarine_engine.clusters.yarn.environments import (
    check_versions,
    docker_environment,
    read_probe,
)
from submarine_engine.clusters.yarn.hadoop import HadoopConf
from submarine_engine.errors import SubmissionError, UnsupportedError

HERE = platform.python_version()


@pytest.fixture
def conf(tmp_path):
    return HadoopConf(tmp_path, {"fs.defaultFS": "file:///"}, "f")


def test_the_same_interpreter_is_the_default(conf):
    for wanted in (None, "same", " same "):
        made = environments.prepare_environment(
            wanted, conf, None, python="/opt/my envs/bin/python"
        )
        assert (made.kind, made.python, dict(made.archives)) == (
            "same",
            "/opt/my envs/bin/python",
            {},
        )
        assert made.probed


def test_an_interpreter_of_the_nodes_can_be_named(conf):
    made = environments.prepare_environment("/opt/conda/bin/python3.12", conf, None)
    assert (made.kind, made.python) == ("python", "/opt/conda/bin/python3.12")
    assert made.key != environments.prepare_environment("same", conf, None).key


def test_an_image_brings_its_own(conf):
    made = environments.prepare_environment(None, conf, None, image="user/image:1")
    assert (made.kind, made.python) == ("image", "python3")


@pytest.mark.parametrize("wanted", ["pack", "env.tar.gz", "hdfs://h/env.zip"])
def test_what_has_to_be_sent_needs_hdfs(conf, wanted):
    with pytest.raises(SubmissionError, match="needs HDFS") as caught:
        environments.prepare_environment(wanted, conf, None)
    assert caught.value.where == "--environment"
    assert "same" in caught.value.fix


@pytest.mark.parametrize("wanted", ["", "Pack", "conda", "bin/python", "/x/ruby", "~/envs", "x\0"])
def test_other_environments_are_refused(conf, wanted):
    if not wanted:
        return_to_default = environments.prepare_environment(wanted, conf, None)
        assert return_to_default.kind == "same"
        return
    with pytest.raises(SubmissionError, match="is no environment") as caught:
        environments.prepare_environment(wanted, conf, None)
    assert "pack" in caught.value.fix


def test_a_folder_is_answered_with_the_two_ways(conf, tmp_path):
    with pytest.raises(SubmissionError) as caught:
        environments.prepare_environment(str(tmp_path), conf, None)
    assert f"{tmp_path}/bin/python" in caught.value.fix
    assert "venv-pack" in caught.value.fix


def test_a_probe_tells_what_is_there():
    command = environments.probe_command(sys.executable)
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    found = read_probe(f"noise of a site\n{done.stdout}more")
    assert found["python"] == HERE
    assert found["executable"] == sys.executable
    assert {
        name: found[name] for name in environments.local_versions()
    } == environments.local_versions()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bash: /opt/x/python: No such file or directory\n", "No such file"),
        ("", "nothing"),
        ("SUBMARINE-PROBE {broken", "SUBMARINE-PROBE"),
        ("SUBMARINE-PROBE []", "SUBMARINE-PROBE"),
        ("\x1b[31mevil\n", "evil"),
    ],
)
def test_an_interpreter_that_does_not_run_is_refused(text, words):
    with pytest.raises(SubmissionError, match="/opt/x/python does not run") as caught:
        read_probe(text, "/opt/x/python")
    assert words in caught.value.what
    assert "\x1b" not in str(caught.value)
    assert "pack" in caught.value.fix


def test_another_minor_release_is_refused_with_a_table():
    with pytest.raises(SubmissionError) as caught:
        check_versions(
            "3.11.7", "3.9.2", needed={"numpy": "2.1", "torch": "2.3"}, found={"numpy": "1.26"}
        )
    assert caught.value.what.splitlines()[1:] == [
        "          this notebook  the job",
        "  Python  3.11.7         3.9.2",
        "  numpy   2.1            1.26",
        "  torch   2.3            not there",
    ]
    assert caught.value.where == "--environment"
    assert "pack" in caught.value.fix


@pytest.mark.parametrize(
    ("here", "there", "fits"),
    [
        ("3.11.7", "3.11.0", True),
        ("3.11.7", "3.12.0", False),
        ("3.1.1", "3.11.1", False),
        ("3.13.0rc1", "3.13.0", True),
    ],
)
def test_pythons_of_one_minor_release_fit(here, there, fits):
    if fits:
        check_versions(here, there)
    else:
        with pytest.raises(SubmissionError):
            check_versions(here, there)


@given(
    st.dictionaries(
        st.sampled_from(["numpy", "torch"]), st.from_regex(r"[1-9]\.[0-9]{1,2}", fullmatch=True)
    )
)
def test_what_is_there_as_it_is_here_always_fits(needed):
    check_versions(HERE, HERE, needed=needed, found=needed)
    check_versions(HERE, HERE, needed=needed, found={k: f"{v}.99" for k, v in needed.items()})
    for name, version in needed.items():
        other = {**needed, name: f"1{version}"}
        with pytest.raises(SubmissionError, match=name):
            check_versions(HERE, HERE, needed=needed, found=other)


def test_only_packages_whose_objects_travel_are_needed():
    values = [
        CapturedValue(name="a", cell="", type="numpy.ndarray", size=1, how="pickle"),
        CapturedValue(name="b", cell="", type="sklearn.svm.SVC", size=1, how="pickle"),
        CapturedValue(name="c", cell="", type="builtins.dict", size=1, how="pickle"),
        CapturedValue(name="d", cell="", type="pandas.DataFrame", size=1, how="literal"),
        CapturedValue(name="e", cell="", type="__main__.Net", size=1, how="pickle"),
    ]
    assert set(environments.needed_versions(values)) == {"numpy", "scikit-learn"}


IMAGES = ["python", "python:3.11", "host:5000/a/b_c:1.0-x", "a.b.c/x/y", f"a/b@sha256:{'0' * 64}"]


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_asked_for_as_yarn_reads_it(image):
    asked = docker_environment(image, ["/data:/data", "/scratch:/scratch:rw"])
    assert asked["YARN_CONTAINER_RUNTIME_TYPE"] == "docker"
    assert asked["YARN_CONTAINER_RUNTIME_DOCKER_IMAGE"] == image
    assert asked["YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS"].split(",") == [
        "/etc/passwd:/etc/passwd:ro",
        "/etc/group:/etc/group:ro",
        "/data:/data:ro",
        "/scratch:/scratch:rw",
    ]


@pytest.mark.parametrize("image", ["", "Upper", "a b", "a;rm", "a:", "-x $(y)", "a\n", "a" * 300])
def test_what_names_no_image_is_refused(image):
    with pytest.raises(UnsupportedError, match="cannot name an image"):
        docker_environment(image)


@pytest.mark.parametrize("mount", ["", "/a", "a:b", "/a:b", "/a:/b:x", "/a:/b,/c:/d", "/a:/b:ro:z"])
def test_what_is_no_mount_is_refused(mount):
    with pytest.raises(UnsupportedError, match="is no mount"):
        docker_environment("image", [mount])
