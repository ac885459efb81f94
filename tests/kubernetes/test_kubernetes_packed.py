"""Jobs on a real Kubernetes in environments that come with them: no image is built."""

from __future__ import annotations

import os
import secrets
import shutil

import pytest
from submarine_engine.clusters import layers
from submarine_engine.clusters.store import read_events
from submarine_engine.errors import SubmissionError
from submarine_engine.events import Waiting
from submarine_engine.installer.kubernetes.files import SHARED
from submarine_engine.job import JobState, Resources, Role
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import until

from tests.yarn.environments.conftest import install

pytestmark = pytest.mark.long

PATIENCE = 300.0
PREFIX = "/submarine/environment/base"
SCRIPT = "import os, sys, packed\nprint(packed.value, sys.prefix, os.environ['SUBMARINE_TASK'])"


@pytest.fixture
def place(kubernetes_home, kubernetes_folder, monkeypatch):
    """Give a cluster whose image has no packages, and whose pods see no volume."""
    for name in ("PYTHON", "VOLUMES"):
        monkeypatch.delenv(f"SUBMARINE_KUBERNETES_{name}")
    place = Place("kubernetes", kubernetes_home, kubernetes_folder)
    yield place
    place.clean_up()
    shutil.rmtree(kubernetes_home / "cache/layers", ignore_errors=True)


@pytest.fixture
def value(tmp_path, monkeypatch):
    """Have an environment of Python itself and one small package; give what that holds."""
    site = tmp_path / "venv/lib/python3/site-packages"
    site.mkdir(parents=True)
    monkeypatch.setattr(layers, "sites", lambda: [site])
    value = secrets.token_hex(4)
    install(site, "packed", files={"packed.py": f"value = {value!r}"})
    return value


def waited_for(place, job):
    """Return all that a job has waited for, in words."""
    events = [event for event, _ in read_events(place.paths(job).events)[0]]
    return "\n".join(event.reason for event in events if isinstance(event, Waiting))


def test_this_environment_comes_into_a_pod_whose_image_has_none_of_it(place, value):
    story = place.follow(place.submit(SCRIPT, environment="pack"))
    assert story.state is JobState.SUCCEEDED, story.status.reason
    assert story.out == f"{value} {PREFIX} worker-0\n"


def test_what_is_run_inside_it_and_by_it_has_its_python(place, value):
    gate = "/submarine/gate"
    code = (
        "import os, subprocess, time\n"
        "print(subprocess.run(['python3', '-c', 'import packed; print(packed.value)'],"
        " capture_output=True, text=True).stdout.strip(), flush=True)\n"
        f"while not os.path.exists({gate!r}): time.sleep(0.05)\n"
    )
    job = place.submit(code, environment="pack")
    until(place.paths(job).task("worker-0").stdout.exists, PATIENCE)
    for python in ("python3", "python"):
        done = job.exec([python, "-c", "import packed, sys; print(packed.value, sys.prefix)"])
        assert done.stdout.decode().split() == [value, PREFIX], done.stderr
    assert job.exec(["touch", gate]).returncode == 0
    story = place.follow(job)
    assert story.state is JobState.SUCCEEDED, story.status.reason
    assert story.out == f"{value}\n"


def test_a_volume_keeps_it_for_all_pods_of_the_next_job(place, value, kubernetes):
    (site,) = layers.sites()
    # So it is on its way for seconds, though Python itself may be kept since another test.
    install(site, "large", files={"large": os.urandom(100_000_000)})
    options = {"environment": "pack", "volumes": f"{SHARED}:{kubernetes.shared}"}
    roles = (Role(count=2, resources=Resources(gpus=1)),)

    def kept():
        return {one.name for one in kubernetes.shared.glob(".submarine-*/layers/[!.]*")}

    before = kept()
    first = place.submit(SCRIPT, **options)
    assert place.follow(first).out.startswith(f"{value} ")
    assert kept() - before
    assert len(kept()) >= 2
    second = place.submit(SCRIPT, roles=roles, options=options)
    assert second.wait(PATIENCE).state is JobState.SUCCEEDED
    for task in ("worker-0", "worker-1"):
        assert place.paths(second).task(task).stdout.read_text().split() == [value, PREFIX, task]
    assert "goes to" not in waited_for(place, second)
    assert "unpacked" not in waited_for(place, second)


def test_an_environment_that_cannot_be_is_refused_before_there_is_a_job(place, tmp_path):
    for wanted in ("none", str(tmp_path / "none.tar.gz"), "s3://bucket/env.tar.gz"):
        with pytest.raises(SubmissionError) as refused:
            place.submit("1", environment=wanted)
        assert refused.value.fix
