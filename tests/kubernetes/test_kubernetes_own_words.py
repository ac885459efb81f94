"""What a Kubernetes of one's own says where it cannot be: before anything of it is there."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from submarine_engine.cli import main
from submarine_engine.clusters.kubernetes.manifest import image_of
from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.installer.__main__ import main as installer
from submarine_engine.installer.kubernetes import (
    KubernetesCluster,
    KubernetesPlan,
    files,
    image,
    programs,
)
from submarine_engine.installer.kubernetes.cluster import (
    check_machine,
    nobodys_number,
    own_image,
    own_user,
    running_kubeconfig,
)
from submarine_engine.installer.kubernetes.image import PYTHON_IMAGE
from submarine_engine.installer.kubernetes.programs import (
    DEFAULT_VERSION,
    MODULES,
    PROGRAMS,
    build_programs,
    device_plugin,
    programs_folder,
    versions,
)
from submarine_engine.installer.plan import BLOCK, MOST_NODES
from submarine_engine.job import JobSpec


@pytest.mark.parametrize(
    ("wanted", "word", "where"),
    [
        ({"nodes": 0}, "0 nodes is not possible", "--nodes"),
        ({"nodes": MOST_NODES + 1}, "nodes is not possible", "--nodes"),
        ({"gpus": -1}, "-1 GPUs is not possible", "--gpus"),
        ({"version": "1.2.3"}, "1.2.3 is not pinned", "--kubernetes_version"),
        ({"version": "../../x"}, "is not pinned", "--kubernetes_version"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(tmp_path, wanted, word, where):
    cluster = KubernetesCluster(tmp_path)
    with pytest.raises(CommandError, match=word) as refused:
        cluster.up(**wanted)
    assert refused.value.where == where
    assert refused.value.fix
    assert not list(tmp_path.iterdir())


def test_options_of_another_kind_are_refused(capsys):
    assert main(["cluster", "up", "kubernetes", "--secure"]) != 0
    assert "kind kubernetes has neither HDFS nor Kerberos" in capsys.readouterr().err
    assert main(["cluster", "up", "slurm", "--kubernetes_version", "1.36.3"]) != 0
    assert "kind slurm has no version of Kubernetes" in capsys.readouterr().err
    assert main(["cluster", "up", "--kubernetes_version", "1.36.3"]) != 0
    assert "kind yarn has no version of Kubernetes" in capsys.readouterr().err
    assert main(["cluster", "up", "kubernetes", "--kubernetes_version", "1.0.0"]) != 0
    assert DEFAULT_VERSION in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "daemon"), [("slurm", "slurmctld"), ("kubernetes", "etcd")])
def test_a_daemon_that_has_no_log_is_started_with_its_own_cluster(
    kind, daemon, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path))
    # Of the sockets in this long path none is made.
    monkeypatch.setattr("submarine_engine.installer.slurm._LONGEST_SOCKET", 1000)
    plan = {"nodes": 1, "gpus": 1, "port": 20_480}
    if kind == "kubernetes":
        plan["version"] = DEFAULT_VERSION
    folder = tmp_path / "clusters" / "mine"
    folder.mkdir(parents=True)
    (folder / f"{kind}.json").write_text(json.dumps(plan))
    assert main(["cluster", "logs", daemon, "--name", "mine"]) != 0
    told = " ".join(capsys.readouterr().err.split())
    assert f"`submarine cluster up {kind} --name mine`" in told


def test_a_missing_program_is_named_with_its_package(tmp_path, monkeypatch):
    monkeypatch.setattr("submarine_engine.installer.marked._SBIN", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="the program etcd is missing") as missing:
        KubernetesCluster(tmp_path / "home").up()
    assert "apt-get install etcd-server" in missing.value.fix


def test_who_is_not_root_is_told(monkeypatch, tmp_path):
    module = "submarine_engine.installer.kubernetes.cluster"
    monkeypatch.setattr(f"{module}._program", lambda name: name)
    monkeypatch.setattr(f"{module}._NETWORK_PLUGINS", tmp_path)
    with pytest.raises(ClusterError, match="network plugin bridge is missing") as missing:
        check_machine()
    assert "containernetworking-plugins" in missing.value.fix
    for plugin in ("bridge", "host-local", "loopback"):
        (tmp_path / plugin).touch()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="only root can") as refused:
        check_machine()
    assert refused.value.fix


def test_without_go_nothing_is_built(tmp_path):
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with pytest.raises(ClusterError, match="Go is missing") as missing:
        build_programs(environment=environment)
    assert "install Go" in missing.value.fix
    assert not (tmp_path / "cache").exists()


@pytest.mark.skipif(not shutil.which("go"), reason="there is no Go")
def test_what_go_cannot_fetch_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    told = []
    with pytest.raises(ClusterError, match="GOPROXY=off") as failed:
        build_programs(report=told.append)
    assert "module proxy" in failed.value.fix
    assert "minutes" in told[0]
    assert not list((tmp_path / "cache").glob("*/*/*"))


def test_programs_are_kept_by_the_sums_of_their_modules(tmp_path):
    found = {programs_folder(one, {"XDG_CACHE_HOME": str(tmp_path)}) for one in versions()}
    assert len(found) == len(versions())
    assert DEFAULT_VERSION in versions()
    assert all(folder.parent == tmp_path / "submarine/kubernetes" for folder in found)


def test_the_device_plugin_is_kept_by_what_it_is_made_of(tmp_path, monkeypatch):
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    found = {device_plugin(one, environment) for one in versions()}
    assert len(found) == len(versions())
    changed = tmp_path / "gpus.go"
    changed.write_text("package main // of the next release\n")
    monkeypatch.setattr(programs, "_PLUGIN_SOURCE", changed)
    assert not found & {device_plugin(one, environment) for one in versions()}


def test_no_two_declared_gpus_of_a_machine_have_the_same_name():
    plans = [KubernetesPlan(3, 2, port, DEFAULT_VERSION) for port in (20_480, 20_480 + BLOCK)]
    named = [files.gpu_names(plan, node).split() for plan in plans for node in plan.names]
    assert [len(one) for one in named] == [2] * 6
    assert len({name for one in named for name in one}) == 12
    assert files.gpu_names(KubernetesPlan(1, 0, 20_480, DEFAULT_VERSION), "n1") == ""


def test_its_image_has_the_libraries_that_wheels_take_for_granted():
    """As PEP 599 names them; numpy asks for libpthread, and the interpreter does not."""
    names = {Path(one).name for one in image._libraries([sys.executable])}
    wanted = {
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
        "libutil.so.1",
        "libm.so.6",
        "libc.so.6",
    }
    assert wanted | {"libstdc++.so.6", "libgcc_s.so.1"} <= names


def test_its_pods_have_a_number_that_nobody_of_the_machine_has(monkeypatch, tmp_path):
    module = "submarine_engine.installer.kubernetes.cluster"
    first, *_, last = range(70_000, 100_000)
    persons = {first, first + 1}

    def account(number):
        if number not in persons:
            raise KeyError(number)

    def group(number):
        if number != first + 2:
            raise KeyError(number)

    monkeypatch.setattr(f"{module}.pwd.getpwuid", account)
    monkeypatch.setattr(f"{module}.grp.getgrgid", group)
    ranges = tmp_path / "subuid"
    ranges.write_text(f"# nonsense\nana:{first + 3}:2\nbob:x:y\n")
    monkeypatch.setattr(f"{module}._SUBORDINATE", (ranges, tmp_path / "none"))
    assert nobodys_number() == first + 5
    persons |= set(range(first, last + 1))
    with pytest.raises(ClusterError, match="is a user's of this machine") as refused:
        nobodys_number()
    assert refused.value.fix


@pytest.mark.parametrize("version", versions())
def test_a_version_is_pinned_with_each_of_its_programs(version):
    pinned = (MODULES / version / "go.mod").read_text().splitlines()
    sums = (MODULES / version / "go.sum").read_text()
    assert f"\tk8s.io/kubernetes v{version} // indirect" in pinned
    assert {f"\tk8s.io/kubernetes/cmd/{program}" for program in PROGRAMS} <= {*pinned}
    assert f"k8s.io/kubernetes v{version} h1:" in sums


def test_long_tests_are_of_all_versions_the_default_one_first():
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    named = re.search(r"^KUBERNETES := (.*)", makefile, re.MULTILINE)
    assert named
    first, *others = named[1].split()
    assert first == DEFAULT_VERSION
    assert sorted([first, *others]) == sorted(versions())


def test_a_version_that_is_not_pinned_keeps_the_others_from_being_built(capsys, monkeypatch):
    monkeypatch.setattr("submarine_engine.installer.__main__.build_programs", pytest.fail)
    assert installer(["kubernetes", DEFAULT_VERSION, "1.2.3"]) == 1
    told = capsys.readouterr().err
    assert "1.2.3 is not pinned" in told
    assert all(version in told for version in versions())


def test_jobs_have_the_image_that_it_has_wherever_its_kubeconfig_is_named(tmp_path, monkeypatch):
    kubeconfig = tmp_path / "clusters/kubernetes/kubeconfig"
    assert own_image(kubeconfig) is None
    assert image_of(JobSpec()).startswith("docker.io/library/python:3.")
    kubeconfig.parent.mkdir(parents=True)
    plan = {"nodes": 1, "gpus": 4, "port": 20_480, "version": DEFAULT_VERSION}
    kubeconfig.with_name("kubernetes.json").write_text(json.dumps(plan))
    assert own_image(kubeconfig) == PYTHON_IMAGE
    assert own_user(kubeconfig) == 1000, "one that was begun before a number was chosen"
    kubeconfig.with_name("kubernetes.json").write_text(json.dumps({**plan, "user": 70_001}))
    assert own_user(kubeconfig) == 70_001
    assert own_user(kubeconfig.with_name("other")) is None
    assert image_of(JobSpec(), own_image(kubeconfig)) == PYTHON_IMAGE
    monkeypatch.setenv("SUBMARINE_KUBERNETES_IMAGE", "site/python")
    assert image_of(JobSpec(), PYTHON_IMAGE) == "site/python"
    assert image_of(JobSpec(docker_image="mine"), PYTHON_IMAGE) == "mine"


def test_ports_of_all_nodes_are_in_the_block_of_the_cluster():
    plan = KubernetesPlan(MOST_NODES, 4, 20_480 + BLOCK, DEFAULT_VERSION)
    ports = [plan.kubelet_port(node) + more for node in plan.names for more in (0, 1)]
    taken = [plan.port, plan.port + 1, plan.port + 2, *ports]
    assert len(set(taken)) == len(taken)
    assert max(taken) < plan.port + BLOCK
    assert len(plan.bridge) <= 15, "the kernel knows no longer name of an interface"
    assert plan.subnet == "198.18.1"


def test_daemons_listen_on_loopback_and_know_who_comes(tmp_path):
    plan = KubernetesPlan(1, 4, 20_480, DEFAULT_VERSION)
    kubelet = json.loads(files.kubelet_config(plan, "n1"))
    assert kubelet["address"] == "127.0.0.1"
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert "--anonymous-auth=false" in files.apiserver_options(tmp_path, plan)
    assert "--client-cert-auth" in files.etcd_options(tmp_path, plan)
    for options in (files.apiserver_options(tmp_path, plan), files.etcd_options(tmp_path, plan)):
        assert not [one for one in options if "http://" in one]
        assert any("127.0.0.1" in one for one in options)


def test_a_cluster_that_is_not_there_is_down_already(tmp_path):
    cluster = KubernetesCluster(tmp_path)
    assert not cluster.down()
    assert cluster.plan is None
    assert not cluster.runs
    assert cluster.daemons() == []
    assert running_kubeconfig(tmp_path) is None
    with pytest.raises(CommandError, match="no daemon"):
        cluster.daemon("kubelet-n1")
