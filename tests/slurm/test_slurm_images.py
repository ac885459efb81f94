"""Container images on Slurm, by doubles of what sites have: apptainer, and srun with pyxis."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from submarine_engine.clusters.slurm.backend import SlurmBackend
from submarine_engine.clusters.slurm.client import Slurm
from submarine_engine.clusters.slurm.images import Image, image_of
from submarine_engine.errors import ConfigError, SubmissionError, UnsupportedError
from submarine_engine.job import JobSpec
from submarine_engine.testing.jobs import end_processes_of

from .conftest import PATIENCE, SlurmPlace
from .image_doubles import PYTHON, apptainer_double, may_mount, pyxis_double

NAME = "nvcr.io/nvidia/pytorch:24.01-py3"

LOOK = """
import os, sys
shown = [name for name in {looked!r} if os.path.exists(name)]
seen = (os.environ["DOUBLE_OF_IMAGE"], shown, os.environ["CUDA_VISIBLE_DEVICES"], sys.prefix)
print(seen)
seen
"""


OTHER = """\
#!/bin/sh
shift 2  # -I -S
exec {python} -c 'import runpy, sys
sys.version_info, sys.argv = (2, 7, 1), sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Give a folder for programs, which is first in PATH once there are some."""
    monkeypatch.setenv("PATH", os.environ["PATH"])  # what doubles add to it is taken back
    folder = tmp_path / "programs"
    folder.mkdir()
    return folder


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """Give the configuration of a Slurm that nobody asks anything."""
    path = tmp_path / "slurm.conf"
    path.write_text("ClusterName=x\n")
    monkeypatch.setenv("SLURM_CONF", str(path))
    return path


@pytest.fixture
def plain_slurm(conf, programs, monkeypatch):
    """Give a Slurm without pyxis, where nothing else is in PATH."""
    for name in ("sbatch", "srun"):
        (programs / name).write_text("#!/bin/sh\necho '  --container=bundle'\n")
        (programs / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(programs))
    return Slurm(conf)


@pytest.fixture
def own_place(slurm, tmp_path, monkeypatch):
    """Give a place of a test's own on the shared Slurm: its keeper has the doubles in its PATH."""
    if not may_mount():
        pytest.skip("no process can have a root of its own here")
    home, folder = tmp_path / "home", tmp_path / "notebooks"
    folder.mkdir()
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv("SUBMARINE_SLURM_IMAGE_PYTHON", str(PYTHON))
    for name, value in slurm.environment().items():
        monkeypatch.setenv(name, value)
    place = SlurmPlace("slurm", home, folder, largest=2)
    yield place
    place.clean_up()
    shutil.rmtree(home / "slurm", ignore_errors=True)  # its keeper would wait for more jobs
    left = end_processes_of(home, PATIENCE)
    assert not left, f"left running: {left}"


def test_what_the_site_has_runs_the_image(plain_slurm, programs, monkeypatch):
    spec = JobSpec(docker_image=NAME)
    assert image_of(JobSpec(), plain_slurm) is None
    with pytest.raises(UnsupportedError, match="this Slurm has no --container-image") as refused:
        image_of(spec, plain_slurm)
    assert "slurm_containers" in refused.value.fix
    monkeypatch.setenv("SUBMARINE_SLURM_CONTAINERS", "apptainer")  # on the nodes alone
    assert image_of(spec, plain_slurm).runner == "apptainer"
    monkeypatch.delenv("SUBMARINE_SLURM_CONTAINERS")
    for name in ("singularity", "apptainer"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o700)
        assert image_of(spec, plain_slurm) == Image(NAME, str(programs / name), "python3")
    (programs / "srun").write_text("#!/bin/sh\necho '  --container-image=IMAGE'\n")
    assert image_of(spec, plain_slurm).runner == "pyxis"
    monkeypatch.setenv("SUBMARINE_SLURM_CONTAINERS", "docker")
    with pytest.raises(ConfigError, match="pyxis, apptainer or singularity"):
        image_of(spec, plain_slurm)


def test_images_are_named_as_their_runner_has_them(tmp_path):
    seen = [tmp_path / "a", tmp_path / "b"]
    for name, of_pyxis, of_apptainer in (
        ("python:3.11", "python:3.11", "docker://python:3.11"),
        ("nvidia/cuda:12", "nvidia/cuda:12", "docker://nvidia/cuda:12"),
        (NAME, "nvcr.io#nvidia/pytorch:24.01-py3", f"docker://{NAME}"),
        ("localhost:5000/a/b", "localhost:5000#a/b", "docker://localhost:5000/a/b"),
        ("docker://a.b/c", "docker://a.b/c", "docker://a.b/c"),
        ("/images/x.sqsh", "/images/x.sqsh", "/images/x.sqsh"),
        ("./x.sif", "./x.sif", "./x.sif"),
    ):
        image, mounts = Image(name, "pyxis", "python3", ("/data",)), f"{seen[0]}:{seen[0]}"
        option, shown = image.of_srun(seen)
        assert option == f"--container-image={of_pyxis}"
        assert shown == f"--container-mounts={mounts},{seen[1]}:{seen[1]},/data:/data"
        assert image.command(seen, gpus=True) == []
        image = image._replace(runner="apptainer")
        assert image.of_srun(seen) == []
        bind = ["--bind", f"{seen[0]},{seen[1]},/data"]
        assert image.command(seen, gpus=True) == ["apptainer", "exec", "--nv", *bind, of_apptainer]
        assert "--nv" not in image.command(seen, gpus=False)


@pytest.mark.parametrize("mounts", ["data", "/a,b", "/a:/b", "/a\n", "/a,,/b", "-x"])
def test_folders_that_no_list_of_mounts_can_hold_are_refused(plain_slurm, monkeypatch, mounts):
    monkeypatch.setenv("SUBMARINE_SLURM_CONTAINERS", "apptainer")
    with pytest.raises(SubmissionError, match="cannot be shown the folder") as refused:
        image_of(JobSpec(docker_image=NAME, options={"mounts": mounts}), plain_slurm)
    assert refused.value.where == "--mounts"


@pytest.mark.usefixtures("plain_slurm")
def test_a_job_with_an_image_is_refused_before_the_cluster_is_asked(tmp_path):
    with pytest.raises(UnsupportedError, match="--container-image"):
        SlurmBackend(tmp_path).check(JobSpec(docker_image=NAME))


@pytest.mark.long
@pytest.mark.parametrize("double", [apptainer_double, pyxis_double])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_runs_in_its_image(own_place, programs, double, workers):
    shown, hidden = programs.with_name("shown"), programs.with_name("hidden")
    for folder in (shown, hidden):
        folder.mkdir()
    double(programs)
    script = LOOK.format(looked=[str(shown), str(hidden)])
    options = {"docker_image": NAME, "mounts": str(shown)}
    job = own_place.submit(script, **own_place.with_gpus(workers), **options)
    status = job.wait(180)
    assert status.state.value == "succeeded", status.reason
    image, seen, gpus, prefix = job.result()
    assert image.replace("#", "/").removeprefix("docker://") == NAME
    assert seen == [str(shown)]
    assert gpus
    assert Path(prefix).samefile(PYTHON.parents[1])


@pytest.mark.long
def test_an_image_with_another_python_or_none_is_refused_in_words(own_place, programs, monkeypatch):
    apptainer_double(programs)
    other = own_place.folder / "python-of-another-release"
    other.write_text(OTHER.format(python=PYTHON))
    other.chmod(0o755)
    for python, said in ((str(other), "Python 2.7 is there"), ("/no/python", "no/python")):
        monkeypatch.setenv("SUBMARINE_SLURM_IMAGE_PYTHON", python)
        job = own_place.submit("1", gpus=1, docker_image=NAME)
        status = job.wait(180)
        assert status.state.value == "failed"
        assert said in status.reason
