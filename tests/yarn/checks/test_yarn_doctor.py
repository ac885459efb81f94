import json
import os
import socket
import subprocess
import sys
import time

import pytest
from submarine_engine.clusters import locks
from submarine_engine.clusters.yarn import doctor
from submarine_engine.clusters.yarn.doctor import run_checks, yarn_checks
from submarine_engine.clusters.yarn.driver import KeeperFolder
from submarine_engine.clusters.yarn.preflight import storage_problem
from submarine_engine.findings import BAD, NOTE, OK, Check

from tests.jobs import LIMIT, until

ROOT = "/ws/v1/cluster"


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Let what answers and what is run take its time: here it counts what is said, not when."""
    monkeypatch.setattr(doctor, "_TIMEOUT", (LIMIT, LIMIT))
    monkeypatch.setattr(doctor, "_PROGRAM_TIMEOUT", LIMIT)
    monkeypatch.setattr(doctor, "_SKEW", 100.0)


@pytest.fixture
def machine(tmp_path):
    """Give the environment of a machine on which all programs are there and well."""
    home = tmp_path / "java"
    home.mkdir()
    program(home / "bin", "java", "echo 'openjdk version \"17.0.9\"' >&2")
    program(tmp_path / "bin", "yarn", "echo /conf:/jars/a.jar:/jars/b.jar")
    return {"PATH": f"{tmp_path / 'bin'}", "JAVA_HOME": str(home)}


def look(manager, machine, **options):
    environ = {**machine, "HADOOP_CONF_DIR": str(manager.folder)}
    options = {"patience": LIMIT, **options}
    found = yarn_checks(environ, home=manager.folder / "home", **options)
    assert all(isinstance(check, Check) for check in found)
    return found


def of(found, title):
    return next(check for check in found if check.title == title)


def test_all_is_well(recorded, machine):
    manager = recorded("busy")
    manager.nodes()[0]["nodeHTTPAddress"] = manager.address
    manager.documents["/ws/v1/node/info"] = {"nodeInfo": {}}
    manager.configure(yarn__log_aggregation_enable="true")
    found = look(manager, machine)
    assert {check.title: check.verdict for check in found} == {
        "Hadoop configuration": OK,
        "ResourceManager": OK,
        "HDFS": NOTE,  # there is none
        "nodes": OK,
        "NodeManager pages": OK,
        "queue": OK,
        "GPUs": OK,
        "application masters": OK,
        "log aggregation": OK,
        "yarn command": OK,
        "Java": OK,
        "skein": OK,
        "proxy variables": OK,
        "keeper": OK,
        "skein's driver": OK,
        "user": OK,
    }
    assert "active; Hadoop 3.4.1" in of(found, "ResourceManager").what
    assert "node localhost 0 of 4 free, queue default 0 of 4 free" in of(found, "GPUs").what
    assert of(found, "yarn command").what.endswith("2 jars on its class path")


def test_no_configuration_is_named(machine):
    found = yarn_checks(machine)
    assert found[0].verdict == BAD
    assert "HADOOP_CONF_DIR" in found[0].fix
    assert of(found, "Java").verdict == OK


def test_a_manager_that_does_not_answer(recorded, machine):
    manager = recorded("busy")
    manager.configure(yarn__resourcemanager__webapp__address="127.0.0.1:1")
    found = look(manager, machine)
    check = of(found, "ResourceManager")
    assert check.verdict == BAD
    assert "connection refused" in check.what
    assert check.fix
    assert "queue" not in {check.title for check in found}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"<html>hello</html>", "not as a ResourceManager"),
        (b"", "not as a ResourceManager"),
        (b"[1, 2]", "refuses (200): no word why"),
        ((401, {"RemoteException": {"message": "who are you\x07?"}}), "(401): who are you\\x07?"),
    ],
)
def test_a_manager_that_answers_something_else(recorded, machine, answer, words):
    manager = recorded("busy")
    manager.documents[f"{ROOT}/info"] = answer
    check = of(look(manager, machine), "ResourceManager")
    assert check.verdict == BAD
    assert words in check.what


def ha(manager, *others):
    names = [f"rm{number}" for number in range(1, len(others) + 2)]
    settings = {
        f"yarn__resourcemanager__webapp__address__{name}": address
        for name, address in zip(names, [*others, manager.address], strict=True)
    }
    manager.configure(
        yarn__resourcemanager__ha__enabled="true",
        yarn__resourcemanager__ha__rm_ids=",".join(names),
        **settings,
    )


def test_which_of_a_pair_is_active(recorded, machine):
    active, standby = recorded("busy"), recorded("busy")
    standby.documents[f"{ROOT}/info"]["clusterInfo"]["haState"] = "STANDBY"
    ha(active, standby.address)
    check = of(look(active, machine), "ResourceManager")
    assert check.verdict == OK
    assert f"{standby.address} standby; http://{active.address} active" in check.what
    ha(active, "127.0.0.1:1")
    check = of(look(active, machine), "ResourceManager")
    assert check.verdict == OK
    assert "does not answer (connection refused)" in check.what


def test_a_pair_without_an_active_one(recorded, machine):
    manager = recorded("busy")
    manager.documents[f"{ROOT}/info"]["clusterInfo"]["haState"] = "STANDBY"
    check = of(look(manager, machine), "ResourceManager")
    assert check.verdict == BAD
    assert "standby" in check.what


def test_a_manager_that_never_answers_is_not_waited_for(recorded, machine):
    manager = recorded("busy")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        manager.configure(yarn__resourcemanager__webapp__address=address)
        check = of(look(manager, machine, patience=0.3), "ResourceManager")
    assert check.verdict == BAD
    assert check.what == "no answer in 0.3 s"


def test_checks_that_hang_do_not_hold_up_the_others():
    def well():
        yield Check("well", OK, "yes")

    def broken():
        raise RuntimeError("what is this?")
        yield

    def hangs():
        time.sleep(60)
        yield Check("hangs", OK, "never")

    checks = [("hangs", hangs), ("well", well), ("broken", broken)]
    wrong = "cannot be checked: RuntimeError: what is this?"
    told = [(BAD, "no answer in 1 s"), (OK, "yes"), (BAD, wrong)]
    # On a busy machine the others may be late, too.
    until(lambda: [(one.verdict, one.what) for one in run_checks(checks, patience=1)] == told)


def test_a_clock_that_goes_wrong(recorded, machine):
    manager = recorded("busy")
    manager.late = 400
    check = of(look(manager, machine), "clocks")
    assert check.verdict == NOTE
    assert "behind this machine's" in check.what
    manager.late = -400
    manager.configure(hadoop__security__authentication="simple")
    assert "ahead of" in of(look(manager, machine), "clocks").what


def test_the_queue(recorded, machine):
    manager = recorded("held-back")
    assert (
        "root.private, at most 4 GPUs" in of(look(manager, machine, queue="private"), "queue").what
    )
    check = of(look(manager, machine, queue="closed"), "queue")
    assert (check.verdict, "STOPPED" in check.what) == (BAD, True)
    check = of(look(manager, machine, queue="nope"), "queue")
    assert (check.verdict, "gpu.small" in check.fix) == (BAD, True)
    words = {"allowed": "false", "diagnostics": "User=me doesn't have access"}
    manager.documents[f"{ROOT}/queues/root.private/access"] = words
    check = of(look(manager, machine, queue="private"), "queue")
    assert (check.verdict, "User=me doesn't have access" in check.what) == (BAD, True)


def test_gpus_that_the_scheduler_does_not_know(recorded, machine):
    check = of(look(recorded("without-gpus"), machine), "GPUs")
    assert check.verdict == NOTE
    assert "memory-mb, vcores" in check.what
    assert "DominantResourceCalculator" in check.fix


def test_no_room_for_warm_masters(recorded, machine):
    check = of(look(recorded("held-back"), machine), "application masters")
    assert check.verdict == NOTE
    assert "512 MiB, 1 vcore" in check.what
    assert "maximum-am-resource-percent" in check.fix


@pytest.mark.parametrize("name", ["fair", "fifo"])
def test_other_schedulers(recorded, machine, name):
    found = look(recorded(name), machine)
    assert of(found, "queue").verdict == OK
    assert of(found, "GPUs").verdict == OK


def test_nodes_that_are_down(recorded, machine):
    manager = recorded("busy")
    lost = {**manager.nodes()[0], "state": "LOST", "nodeHostName": "far"}
    manager.nodes().append(lost)
    check = of(look(manager, machine), "nodes")
    assert (check.verdict, check.what) == (NOTE, "1 takes containers; 1 not (far lost)")
    manager.nodes()[0]["state"] = "UNHEALTHY"
    assert of(look(manager, machine), "nodes").verdict == BAD


def test_node_pages_that_cannot_be_reached_are_named(recorded, machine):
    manager = recorded("busy")
    manager.nodes()[0]["nodeHTTPAddress"] = "127.0.0.1:1"
    check = of(look(manager, machine), "NodeManager pages")
    assert check.verdict == NOTE
    assert "127.0.0.1:1" in check.what
    assert "by way of HDFS" in check.what


def test_log_aggregation_as_the_manager_has_it(recorded, machine):
    manager = recorded("busy")
    assert of(look(manager, machine), "log aggregation").verdict == NOTE
    key = "yarn.log-aggregation-enable"
    manager.documents["/conf"] = {"property": {"key": key, "value": "true"}}
    check = of(look(manager, machine), "log aggregation")
    assert (check.verdict, check.what) == (OK, "on (at the ResourceManager)")
    manager.documents["/conf"] = {"property": "x"}
    assert of(look(manager, machine), "log aggregation").verdict == NOTE


def test_hdfs_that_does_not_answer(recorded, machine):
    manager = recorded("busy")
    manager.configure(fs__defaultFS="hdfs://127.0.0.1:1", dfs__namenode__http_address="127.0.0.1:1")
    check = of(look(manager, machine), "HDFS")
    assert check.verdict == BAD
    assert check.fix


def test_a_file_system_without_a_host(recorded, machine):
    manager = recorded("busy")
    manager.configure(fs__defaultFS="file:///")
    check = of(look(manager, machine), "HDFS")
    assert (check.verdict, check.fix) == (BAD, storage_problem(manager.conf).fix)


@pytest.mark.parametrize(
    ("script", "verdict", "words"),
    [
        ("exit 3", BAD, "fails"),
        ("echo 'no such command' >&2; exit 1", BAD, "no such command"),
        ("printf '\\033[31mhello'", BAD, "names no jars, but \\x1b[31mhello"),
        ("head -c 200000 /dev/zero | tr '\\0' x; echo :a.jar", BAD, "longer than Linux lets"),
    ],
)
def test_a_yarn_command_that_is_not_well(tmp_path, script, verdict, words):
    program(tmp_path / "own", "yarn", script)
    path = f"{tmp_path / 'own'}:{os.environ['PATH']}"
    (check,) = doctor.yarn_command_check({"PATH": path})
    assert check.verdict == verdict
    assert words in check.what
    assert check.fix


def test_no_yarn_command(tmp_path):
    (check,) = doctor.yarn_command_check({"PATH": str(tmp_path)})
    assert (check.verdict, check.what) == (BAD, "there is no program `yarn` on the PATH")


def test_programs_that_hang(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_PROGRAM_TIMEOUT", 0.2)
    program(tmp_path / "own", "yarn", "exec sleep 60")
    path = f"{tmp_path / 'own'}:{os.environ['PATH']}"
    (check,) = doctor.yarn_command_check({"PATH": path})
    assert (check.verdict, "does not end in 0.2 s" in check.what) == (BAD, True)


@pytest.mark.parametrize(
    ("says", "verdict", "words"),
    [
        ('openjdk version "1.8.0_412"', OK, "8 at"),
        ('openjdk version "21" 2023-09-19', OK, "21 at"),
        ('openjdk version "25.0.1"', BAD, "25 at"),
        ('java version "1.7.0_80"', BAD, "7 at"),
        ("hello", BAD, "does not tell its version, but hello"),
    ],
)
def test_java(tmp_path, says, verdict, words):
    home = tmp_path / "jdk"
    home.mkdir()
    program(home / "bin", "java", f"echo '{says}' >&2")
    (check,) = doctor.java_check({"JAVA_HOME": str(home), "PATH": ""})
    assert check.verdict == verdict
    assert words in check.what
    assert bool(check.fix) == (verdict == BAD)


def test_no_java(tmp_path):
    (check,) = doctor.java_check({"PATH": str(tmp_path)})
    assert check.verdict == BAD
    (check,) = doctor.java_check({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""})
    assert (check.verdict, "cannot be started" in check.what) == (BAD, True)


@pytest.mark.parametrize(
    ("environ", "verdict"),
    [
        ({}, OK),
        ({"http_proxy": "http://proxy:1"}, NOTE),
        ({"HTTPS_PROXY": "http://proxy:1"}, NOTE),
        ({"http_proxy": "http://proxy:1", "no_proxy": "example.org"}, NOTE),
        ({"http_proxy": "http://proxy:1", "no_proxy": "a.b, localhost"}, OK),
        ({"http_proxy": "http://proxy:1", "NO_PROXY": "127.0.0.1"}, OK),
        ({"http_proxy": ""}, OK),
    ],
)
def test_proxies(environ, verdict):
    (check,) = doctor.proxy_checks(environ)
    assert check.verdict == verdict


def test_kerberos_is_looked_for_step_by_step(recorded, tmp_path, monkeypatch):
    conf = recorded("busy").configure(hadoop__security__authentication="kerberos")
    config = tmp_path / "krb5.conf"
    (check,) = doctor.identity_check(conf, {"KRB5_CONFIG": str(config)})
    assert (check.title, check.verdict) == ("krb5.conf", BAD)
    config.write_text("[libdefaults]\n default_realm = NOWHERE.TEST\n")
    monkeypatch.setenv("KRB5_CONFIG", str(config))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    config_check, ticket = doctor.identity_check(conf, os.environ)
    assert (config_check.verdict, ticket.title, ticket.verdict) == (OK, "ticket", BAD)
    # Where the extra is not installed, that is what is said.
    assert "kinit" in ticket.fix


def test_the_keeper_and_its_driver(recorded, tmp_path):
    conf = recorded("busy").conf
    folder = KeeperFolder(tmp_path / "home", conf)

    def told():
        return [check.what for check in doctor.keeper_check(folder.home, conf)]

    assert told()[0].startswith("none runs")
    assert told()[1].startswith("none runs")
    folder.make()
    (folder.open / "20260101-000000-aaaaa").touch()
    record = {"address": "127.0.0.1:5", "pid": os.getpid()}
    folder.skein.mkdir(exist_ok=True)
    (folder.skein / "driver").write_text(json.dumps(record))
    with locks.held(folder.lock):
        assert told()[0].endswith("for 1 job")
    assert told()[1] == f"runs at 127.0.0.1:5 (process {os.getpid()})"
    (folder.skein / "driver").write_text('{"pid": "nonsense"}')
    assert told()[1].startswith("none runs")


def test_a_real_cluster_is_well(on_yarn, tmp_path, monkeypatch, until):
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
    command = [
        sys.executable,
        "-m",
        "submarine_engine.cli",
        "doctor",
        "--json",
        "--cluster",
        "yarn",
    ]

    titles = (
        "Hadoop configuration", "ResourceManager", "nodes", "NodeManager pages", "queue", "GPUs",
        "application masters", "log aggregation", "yarn command", "Java", "skein",
        "proxy variables", "user",
    )  # fmt: skip

    def is_well():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = {one["title"]: one for one in map(json.loads, done.stdout.splitlines())}
        well = all(found.get(one, {}).get("verdict") == OK for one in titles)
        return well and done.returncode == 0 and found

    # Warm masters of other tests go, after two minutes, and a busy node or HDFS answers late.
    found = until(is_well, 400)
    assert found["HDFS"]["verdict"] in (OK, NOTE)  # nobody may have made the user's folder yet
