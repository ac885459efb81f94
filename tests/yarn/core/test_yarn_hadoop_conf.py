"""Hadoop's configuration as its own clients read it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.clusters.yarn.doctor import yarn_checks
from submarine_engine.clusters.yarn.driver import KeeperFolder, keeper_environment
from submarine_engine.clusters.yarn.hadoop import is_named, load_hadoop
from submarine_engine.errors import ConfigError
from submarine_engine.findings import NOTE
from submarine_engine.history import default_home
from submarine_engine.installer import ClusterPlan, HadoopCluster, Wanted
from submarine_engine.installer.daemons import marks
from submarine_engine.installer.java import Java
from submarine_engine.installer.plan import FIRST
from submarine_engine.installer.sites import write_files


def write(folder, name, properties):
    body = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in properties.items()
    )
    (folder / name).write_text(f"<configuration>{body}</configuration>")


@pytest.fixture
def conf(tmp_path):
    write(
        tmp_path, "core-site.xml", {"fs.defaultFS": "hdfs://${name.node}:8020/", "name.node": "nn"}
    )
    write(tmp_path, "yarn-site.xml", {"yarn.resourcemanager.hostname": "rm.example"})
    return lambda: load_hadoop({"HADOOP_CONF_DIR": str(tmp_path)})


def test_variables_are_filled_in(conf):
    assert conf().default_fs == "hdfs://nn:8020"


def test_the_manager_is_at_its_host_and_hadoops_own_port(conf):
    assert conf().rm_urls == ("http://rm.example:8088",)


def test_every_manager_of_a_pair_is_known_in_order(conf, tmp_path):
    rm = "yarn.resourcemanager"
    pair = {f"{rm}.ha.enabled": "true", f"{rm}.ha.rm-ids": "a,b"}
    where = {f"{rm}.webapp.address.a": "one:1", f"{rm}.hostname.b": "two"}
    write(tmp_path, "yarn-site.xml", pair | where)
    assert conf().rm_urls == ("http://one:1", "http://two:8088")


def test_https_has_its_own_addresses(conf, tmp_path):
    secure = {"yarn.http.policy": "HTTPS_ONLY", "yarn.resourcemanager.hostname": "rm"}
    write(tmp_path, "yarn-site.xml", secure)
    assert conf().rm_urls == ("https://rm:8090",)


def test_a_changed_file_is_another_cluster(conf, tmp_path):
    before = conf().fingerprint
    assert conf().fingerprint == before
    write(tmp_path, "yarn-site.xml", {"yarn.resourcemanager.hostname": "other"})
    assert conf().fingerprint != before


@pytest.mark.parametrize("value", ["${a}", "${b}", "x${missing}y"])
def test_variables_that_lead_nowhere_do_not_hang(conf, tmp_path, value):
    write(tmp_path, "core-site.xml", {"fs.defaultFS": value, "a": "${b}", "b": "${a}"})
    assert conf().default_fs


def test_no_variable_is_an_error_with_a_way_out():
    with pytest.raises(ConfigError, match="submarine cluster up"):
        load_hadoop({})


@pytest.mark.parametrize("text", ["", "<configuration>", "no xml at all"])
def test_a_broken_file_is_named(conf, tmp_path, text):
    (tmp_path / "yarn-site.xml").write_text(text)
    with pytest.raises(ConfigError, match=r"yarn-site\.xml"):
        conf()


def test_a_folder_without_yarn_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no yarn-site\.xml"):
        load_hadoop({"HADOOP_CONF_DIR": str(tmp_path)})


@pytest.fixture
def up():
    """Return a function that makes a cluster of the home, with a sleeper for its manager."""
    running = []

    def up(name="yarn"):
        cluster = HadoopCluster(name=name)
        java, jars = Java(Path("/java"), 17), Path("/jars")
        write_files(
            ClusterPlan.make(Wanted(gpus=1), port=FIRST, java=java, jars=jars), cluster.layout
        )
        marked = marks(cluster.layout, "resourcemanager")
        code = "import time; print(flush=True); time.sleep(600)"
        manager = subprocess.Popen([sys.executable, "-c", code, *marked], stdout=subprocess.PIPE)
        running.append(manager)
        manager.stdout.readline()
        return cluster, manager

    yield up
    for manager in running:
        manager.kill()
        manager.communicate()


def end(manager):
    manager.kill()
    manager.wait()


def test_a_cluster_of_ones_own_needs_no_variable_while_it_runs(up):
    assert not is_named({})
    cluster, manager = up()
    assert is_named({})
    conf = load_hadoop({"PATH": "/bin"})
    assert conf.folder == cluster.layout.conf
    assert "submarine cluster up" in conf.origin
    keeper = keeper_environment({"PATH": "/bin"}, KeeperFolder(default_home(), conf))
    assert keeper["PATH"] == f"{cluster.layout.bin}:/bin"
    assert keeper["JAVA_HOME"] == "/java"
    end(manager)
    assert not is_named({})
    with pytest.raises(ConfigError, match=r"no cluster of `submarine cluster up` runs"):
        load_hadoop({})


def test_it_is_forgotten_when_it_goes_down(up):
    cluster, manager = up()
    cluster.down()
    assert manager.wait(180)
    assert not is_named({})


def test_a_cluster_of_another_user_is_none_of_ours(up, monkeypatch):
    up()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not is_named({})


def test_who_names_a_folder_comes_before_who_names_it_less(up, tmp_path, monkeypatch):
    cluster, _ = up()

    def folder(name):
        (tmp_path / name).mkdir()
        write(tmp_path / name, "yarn-site.xml", {})
        return str(tmp_path / name)

    def found(environ):
        conf = load_hadoop(environ)
        return conf.folder.name, conf.origin

    assert found({})[0] == cluster.layout.conf.name
    config = tmp_path / "config.toml"
    config.write_text(f"hadoop_conf_dir = {folder('file')!r}")
    monkeypatch.setenv("SUBMARINE_CONFIG", str(config))
    assert found({}) == ("file", f"hadoop_conf_dir of {config}")
    environ = {"YARN_CONF_DIR": folder("less")}
    assert found(environ) == ("less", "YARN_CONF_DIR")
    environ["HADOOP_CONF_DIR"] = folder("named")
    assert found(environ) == ("named", "HADOOP_CONF_DIR")
    monkeypatch.setenv("SUBMARINE_HADOOP_CONF_DIR", folder("ours"))
    assert found(environ) == ("ours", "SUBMARINE_HADOOP_CONF_DIR")


def test_of_several_clusters_one_is_named_or_chosen(up):
    up("b")
    assert load_hadoop({}).folder == HadoopCluster(name="b").layout.conf
    up("a")
    with pytest.raises(ConfigError, match=r"several clusters run, .*: a, b") as raised:
        load_hadoop({})
    assert "--name a" in raised.value.fix
    assert is_named({}) is False
    up("yarn")
    assert load_hadoop({}).folder == HadoopCluster().layout.conf


def test_a_folder_of_the_home_that_is_no_cluster_is_passed_over(up):
    (default_home() / "clusters/not one").mkdir(parents=True)
    (default_home() / "clusters/not one/cluster.json").write_text("{}")
    (default_home() / "clusters/broken").mkdir()
    (default_home() / "clusters/broken/cluster.json").write_text("{")
    assert not is_named({})
    up()
    assert is_named({})


def test_the_doctor_says_which_it_is_and_what_comes_after_it(up, tmp_path):
    cluster, _ = up()
    home = default_home()
    first, *_ = yarn_checks({}, home=home, patience=120)
    assert f"{cluster.layout.conf}, from `submarine cluster up`" in first.what
    write(tmp_path, "yarn-site.xml", {"yarn.resourcemanager.webapp.address": "127.0.0.1:1"})
    first, second, *_ = yarn_checks({"HADOOP_CONF_DIR": str(tmp_path)}, home=home, patience=120)
    assert f"{tmp_path}, from HADOOP_CONF_DIR" in first.what
    assert second.verdict == NOTE
    assert second.what == "'yarn' runs, and jobs do not go there: HADOOP_CONF_DIR comes before it"
