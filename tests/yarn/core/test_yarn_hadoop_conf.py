"""Hadoop's configuration as its own clients read it."""

import pytest
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.errors import ConfigError


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
