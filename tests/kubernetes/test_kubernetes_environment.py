"""A packed environment on its way into pods, whose programs run here in their place."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from submarine_engine.clusters import layers
from submarine_engine.clusters.kubernetes import files as pod_files
from submarine_engine.clusters.kubernetes.environment import (
    EnvironmentSender,
    check_environment,
    prepare_environment,
    refuse_other_python,
)
from submarine_engine.clusters.kubernetes.manifest import _BOOT
from submarine_engine.clusters.layers import digest_of, write_archive
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.testing.jobs import until
from submarine_runtime.pod import HEARD, READY, ROOT, note_use

from tests.kubernetes.conftest import TASK, PodsOfThisMachine
from tests.yarn.environments.conftest import install

HERE = platform.python_version()


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setattr("submarine_engine.clusters.kubernetes.files.AGAIN_AFTER", 0.0)
    monkeypatch.setattr("submarine_engine.clusters.kubernetes.environment._AGAIN_FIRST", 0.01)


def layer_of(folder, name, **content):
    """Return a layer whose archive holds these files, as the keeper knows it."""
    made = write_archive((), {path.replace("__", "/"): data for path, data in content.items()}, {})
    file = folder / f"{name}.tar.gz"
    made.rename(file)
    sha256 = digest_of(file)
    told = {"folder": name, "title": name, "key": f"key-of-{name}", "sha256": sha256}
    return {**told, "file": str(file), "size": file.stat().st_size}


@pytest.fixture
def launch(tmp_path, pods):
    """Give what a keeper knows of an environment of two layers, one of which is larger."""
    program = f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode()
    both = [
        layer_of(tmp_path, "base", bin__python=program),
        layer_of(tmp_path, "small", site__data=os.urandom(300_000)),
    ]
    python = f"{pods.root}/environment/base/bin/python"
    return {"python": "python", "task_python": python, "layers": both, "here": HERE, "image": "i"}


class SeveralPods:
    """Pods as `PodsOfThisMachine`, each with a folder of its own."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, name, container, command):
        root = self.folder / name
        root.mkdir(exist_ok=True)
        return PodsOfThisMachine(root).open(name, container, command)


def bring(pods, launch, volumes=(), task=TASK):
    """Bring a pod its environment; return who did."""
    sender = EnvironmentSender(pods, launch, [str(volume) for volume in volumes])
    sender.begin(task, "pod-1")
    try:
        until(lambda: sender.has(task))
    finally:
        sender.close()
    return sender


@pytest.fixture
def sent(monkeypatch):
    """Give from which byte on each archive was sent, in their order."""
    found = []
    send = pod_files.PodFiles.send

    def noted(self, file, sha256, at, went):
        found.append((Path(file.name).name, at))
        send(self, file, sha256, at, went)

    monkeypatch.setattr(pod_files.PodFiles, "send", noted)
    return found


def test_layers_come_into_the_pod_and_their_python_runs(pods, launch):
    bring(pods, launch)
    environment = pods.root / "environment"
    assert sorted(one.name for one in environment.iterdir()) == ["base", "small"]
    assert (environment / "small/site/data").stat().st_size == 300_000
    assert environment.stat().st_mode & 0o077 == 0
    assert not [one for one in pods.root.iterdir() if one.name.startswith(".")]


def test_a_volume_keeps_layers_so_that_the_next_pod_is_sent_nothing(pods, launch, tmp_path, sent):
    volume = tmp_path / "volume-of-all"
    volume.mkdir()
    assert bring(pods, launch, [volume]).note == ""
    assert [name for name, _ in sent] == ["base.tar.gz", "small.tar.gz"]
    (tmp_path / "another").mkdir()
    another = PodsOfThisMachine(tmp_path / "another")
    python = f"{another.root}/environment/base/bin/python"
    bring(another, {**launch, "task_python": python}, [volume])
    assert len(sent) == 2
    kept = volume / f".submarine-{os.getuid()}/layers"
    assert sorted(one.name for one in kept.iterdir()) == ["key-of-base", "key-of-small"]
    for root in (pods.root, another.root):
        assert (root / "environment/small").resolve() == kept / "key-of-small"
    for wire in another.wires:
        wire.shutdown()


@pytest.mark.long
def test_of_several_pods_the_first_fills_the_volume_for_all(launch, tmp_path, sent):
    volume, cluster = tmp_path / "volume-of-all", SeveralPods(tmp_path)
    volume.mkdir()
    kept = volume / f".submarine-{os.getuid()}/layers/key-of-base/bin/python"
    sender = EnvironmentSender(cluster, {**launch, "task_python": str(kept)}, [str(volume)])
    tasks = [f"worker-{number}" for number in range(6)]
    for task in tasks:
        sender.begin(task, f"pod-of-{task}")
    until(lambda: all(sender.has(task) for task in tasks))
    assert len(sent) == 2
    assert len(list(tmp_path.glob("pod-of-*/environment/small/site/data"))) == 6


def test_a_connection_that_breaks_goes_on_where_it_stood(pods, launch, sent, monkeypatch):
    monkeypatch.setattr(pod_files, "_PIECE", 10_000)
    monkeypatch.setattr(pod_files, "_ON_THEIR_WAY", 2)
    say, broken = EnvironmentSender._say, []

    def break_once(self, task, words):
        say(self, task, words)
        if "goes to" in words and not broken and len(sent) == 2:
            broken.append(words)
        if len(broken) == 1 and (pods.root / f".layer-{launch['layers'][1]['sha256']}").exists():
            broken.append("done")
            pods.wires[-1].process.kill()

    monkeypatch.setattr(EnvironmentSender, "_say", break_once)
    bring(pods, launch)
    assert "done" in broken
    assert [name for name, _ in sent] == ["base.tar.gz", "small.tar.gz", "small.tar.gz"]
    assert sent[2][1] >= 10_000
    assert (pods.root / "environment/small/site/data").stat().st_size == 300_000


def test_what_came_and_is_not_what_was_sent_is_sent_anew(pods, launch, sent):
    small = launch["layers"][1]
    (pods.root / f".layer-{small['sha256']}").write_bytes(b"x" * small["size"])
    bring(pods, launch)
    assert ("small.tar.gz", 0) in sent
    assert (pods.root / "environment/small/site/data").stat().st_size == 300_000


def test_a_disk_without_room_is_told(pods, launch):
    begin = pods.open

    def open_with_little_room(*words):
        wire = begin(*words)
        resource.prlimit(wire.process.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
        return wire

    pods.open = open_with_little_room
    with pytest.raises(SubmissionError, match="cannot be written in the pod: File too large") as no:
        bring(pods, launch)
    assert "--volumes" in no.value.fix


def test_an_environment_that_does_not_run_in_the_image_is_told(pods, launch, tmp_path):
    program = b"#!/bin/sh\necho 'version GLIBC_2.99 not found' >&2\nexit 1\n"
    launch["layers"][0] = layer_of(tmp_path, "base", bin__python=program)
    with pytest.raises(SubmissionError, match=r"does not run there: version GLIBC_2\.99 not found"):
        bring(pods, launch)


def test_an_archive_that_is_gone_meanwhile_is_told(pods, launch):
    Path(launch["layers"][1]["file"]).unlink()
    with pytest.raises(SubmissionError, match="cannot be read: No such file") as gone:
        bring(pods, launch)
    assert "packed anew" in gone.value.fix


@pytest.mark.parametrize(
    "spoilt", ["open", *(pytest.param(one, marks=pytest.mark.long) for one in ("link", "file"))]
)
def test_a_volume_that_others_could_write_keeps_nothing(pods, launch, tmp_path, spoilt):
    volume = tmp_path / "shared"
    volume.mkdir()
    own = volume / f".submarine-{os.getuid()}"
    if spoilt == "link":
        own.symlink_to(tmp_path)
    elif spoilt == "open":
        own.mkdir()
        own.chmod(0o777)
    else:
        own.write_text("")
    sender = bring(pods, launch, [volume])
    assert sender.note
    assert not (pods.root / "environment/small").is_symlink()


def test_what_nobody_uses_for_a_month_leaves_the_volume(pods, launch, tmp_path):
    kept = tmp_path / f".submarine-{os.getuid()}/layers"
    for name, days in (("long-unused", 40), (".half", 2), ("in-use", 10), (".just-begun", 0)):
        (kept / name).mkdir(parents=True)
        at = time.time() - days * 86400
        os.utime(kept / name, (at, at))
    for folder in (kept, kept.parent):
        folder.chmod(0o700)
    bring(pods, launch, [tmp_path])
    left = {"in-use", ".just-begun", "key-of-base", "key-of-small"}
    until(lambda: {one.name for one in kept.iterdir()} == left)
    long_ago = time.time() - 20 * 86400
    os.utime(kept / "key-of-base", (long_ago, long_ago))
    note_use(str(pods.root))
    assert (kept / "key-of-base").stat().st_mtime > long_ago


def test_an_environment_is_packed_once(tmp_path, monkeypatch):
    site = tmp_path / "venv/lib/python3/site-packages"
    site.mkdir(parents=True)
    monkeypatch.setattr(layers, "sites", lambda: [site])
    small = layers.Layer(folder="base", title="Python itself", key="b", files=())
    monkeypatch.setattr(layers, "_base", lambda: small)
    install(site, "packed", files={"packed.py": "value = 1"})
    said, cache = [], tmp_path / "cache"
    told = prepare_environment("pack", cache, said.append)
    assert told["task_python"].startswith(f"{ROOT}/environment/base/bin/python3.")
    assert [one["folder"] for one in told["layers"]] == ["base", "small"]
    assert [one.split(" (")[0] for one in said] == ["packing Python itself", "packing packed"]
    for layer in told["layers"]:
        assert digest_of(Path(layer["file"])) == layer["sha256"]
    assert cache.stat().st_mode & 0o077 == 0
    again = prepare_environment("pack", cache, said.append)
    assert (again, len(said)) == (told, 2)
    install(site, "packed", "2", files={"packed.py": "value = 2"})
    newer = prepare_environment("pack", cache, said.append)["layers"]
    assert (newer[0], len(said)) == (told["layers"][0], 3)
    assert newer[1]["key"] != told["layers"][1]["key"]
    old = time.time() - 40 * 86400
    os.utime(told["layers"][1]["file"], (old, old))
    prepare_environment("pack", cache, said.append)
    assert not Path(told["layers"][1]["file"]).exists()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("packed", "is no environment"),
        ("bin/python3", "is no environment"),
        ("env.zip", "cannot be brought to pods"),
        ("s3://bucket/env.tar.gz", "cannot be brought to pods"),
        ("/none/env.tar.gz", "there is no such archive"),
    ],
)
def test_what_is_no_environment_is_refused_with_a_way_out(wanted, words):
    with pytest.raises(SubmissionError, match=words) as refused:
        check_environment(wanted)
    assert refused.value.fix


def test_a_users_archive_and_an_interpreter_of_the_image_are_taken(tmp_path):
    archive = tmp_path / "env.tar.gz"
    archive.write_bytes(b"archive")
    for wanted in (None, "same", "/opt/conda/bin/python3", str(archive)):
        check_environment(wanted)
    told = prepare_environment(str(archive), tmp_path, print)
    assert told["layers"][0]["key"] == digest_of(archive)
    assert told["task_python"] == f"{ROOT}/environment/environment/bin/python"
    assert prepare_environment("/opt/bin/python3", tmp_path, print) == {
        "python": "/opt/bin/python3"
    }
    assert prepare_environment("same", tmp_path, print) == {}


@pytest.mark.parametrize(
    ("layers_", "machine", "told", "words"),
    [
        ([], None, {"python": "2.7.18"}, "values could not be read there"),
        (["one"], "x86_64", {"python": "3.8.2", "machine": "x86_64"}, "needs 3.10 or newer"),
        (["one"], "x86_64", {"python": "", "machine": "x86_64"}, "needs 3.10 or newer"),
        (["one"], "x86_64", {"python": "3.13.1", "machine": "aarch64"}, "for x86_64, and"),
    ],
)
def test_an_image_with_another_python_is_told_what_to_do(layers_, machine, told, words):
    launch = {"here": HERE, "image": "theirs:1", "layers": layers_, "machine": machine}
    with pytest.raises(SubmissionError, match=words) as refused:
        refuse_other_python(launch, told)
    assert refused.value.where == "theirs:1"
    assert refused.value.fix


def test_with_a_packed_environment_the_images_python_may_be_another():
    launch = {"here": HERE, "image": "theirs:1", "layers": ["one"], "machine": "x86_64"}
    refuse_other_python(launch, {"python": "3.99.1", "machine": "x86_64"})


def test_a_pod_waits_as_long_as_its_files_come_and_no_longer(tmp_path):
    boot = _BOOT.replace(ROOT, str(tmp_path))
    end = tmp_path / "end.py"
    end.write_text("print('begun')")
    command = [sys.executable, "-I", "-c", boot, "0.2", str(end)]
    nobody = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (nobody.returncode, "nobody has brought" in nobody.stderr) == (1, True)
    heard = tmp_path / HEARD
    heard.touch()
    later = time.time() + 3600  # as if something came all the time
    os.utime(heard, (later, later))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waits:
        with pytest.raises(subprocess.TimeoutExpired):
            waits.wait(1.0)
        (tmp_path / READY).touch()
        assert waits.communicate(timeout=60)[0] == "begun\n"


def test_who_is_wanted_no_more_stops_trying(pods, launch):
    def gone(*_):
        raise ClusterError("the pod is gone")

    pods.open = gone
    sender = EnvironmentSender(pods, launch, [])
    sender.begin(TASK, "pod-that-is-gone")
    until(lambda: "goes on to worker-0 soon: the pod is gone" in sender.words)
    sender.close()
    until(lambda: "pod-that-is-gone" not in str(threading.enumerate()))
    assert not sender.has(TASK)
