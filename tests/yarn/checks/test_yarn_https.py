"""Pages by https: whose certificates hold, and the words where one does not."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from submarine_engine.clusters.yarn import gpus, log_transport, node_pages, webfs
from submarine_engine.clusters.yarn.application import describe_application
from submarine_engine.clusters.yarn.driver import KeeperFolder
from submarine_engine.clusters.yarn.gpus import node_devices
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.log_transport import Channel, choose_channel
from submarine_engine.clusters.yarn.node_pages import NodeConnection
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.clusters.yarn.scheduler import Node
from submarine_engine.errors import ClusterError, ConfigError
from submarine_engine.trust import CA_PROPERTY, certificates
from submarine_runtime import container
from submarine_runtime.webhdfs import CA_FILE

from tests.certificates import certificate
from tests.jobs import spec_of

HOME = {"Path": "/user/ana"}
GPUS = {"gpuDeviceInformation": {"gpus": [{"minorNumber": 0, "uuid": "GPU-1"}]}}


@pytest.fixture
def by_https(recorded, tmp_path, monkeypatch):
    """Give a ResourceManager that speaks https alone; it plays its node and NameNode, too."""

    def begin(address="127.0.0.1"):
        ca = certificate(tmp_path, address)
        manager = recorded("held-back")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "both.pem")
        manager.server.socket = context.wrap_socket(manager.server.socket, server_side=True)
        manager.documents["/webhdfs/v1/"] = HOME
        manager.documents["/ws/v1/node/info"] = {"nodeInfo": {}}
        manager.documents["/ws/v1/node/resources/yarn.io/gpu"] = GPUS
        manager.properties = {
            "yarn__http__policy": "HTTPS_ONLY",
            "yarn__resourcemanager__webapp__https__address": manager.address,
            "dfs__http__policy": "HTTPS_ONLY",
            "dfs__namenode__https_address": manager.address,
            "fs__defaultFS": "hdfs://127.0.0.1:1",
        }
        manager.configure(**manager.properties)
        return manager, ca

    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    # Both ends of a handshake are this process: on a busy machine it may be late.
    monkeypatch.setattr(gpus, "_NODE_TIMEOUT", 30.0)
    monkeypatch.setattr(log_transport, "_ANSWER", 30.0)
    monkeypatch.setattr(node_pages, "_CONNECT", 30.0)
    monkeypatch.setattr(webfs, "_CONNECT", 30.0)
    patient = {"timeout": (30.0, 30.0)}
    monkeypatch.setattr(ResourceManager.__init__, "__kwdefaults__", patient)
    return begin


def load(manager):
    return load_hadoop({"HADOOP_CONF_DIR": str(manager.folder)})


@pytest.mark.parametrize("named_by", ["SUBMARINE_YARN_CA", CA_PROPERTY, "REQUESTS_CA_BUNDLE"])
def test_whom_a_ca_certifies_is_asked(by_https, monkeypatch, named_by):
    manager, ca = by_https()
    if named_by == CA_PROPERTY:
        manager.configure(**manager.properties, submarine__yarn__ca=str(ca))
        # Made for the outside: who certifies a cluster is nearer.
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/bundle.pem")
    else:
        monkeypatch.setenv(named_by, str(ca))
    conf = load(manager)
    assert conf.rm_urls == (f"https://{manager.address}",)
    assert manager.rm.get("/ws/v1/cluster/nodes")
    node = Node(id="here", host="here", web=manager.address)
    assert [one.uuid for one in node_devices(node, "", conf.node_tls).found] == ["GPU-1"]
    chosen = choose_channel([manager.address], lambda: False, tls=conf.node_tls)
    assert chosen.channel is Channel.NODES
    hdfs = open_hdfs(conf, "ana")
    assert hdfs.home == "/user/ana"
    hdfs.close()


@pytest.mark.parametrize(
    ("address", "trusted", "why"),
    [("127.0.0.1", False, "self"), ("10.1.2.3", True, "IP address mismatch")],
)
def test_whom_nobody_certifies_is_told_nothing(by_https, monkeypatch, address, trusted, why):
    manager, ca = by_https(address)
    if trusted:
        monkeypatch.setenv("SUBMARINE_YARN_CA", str(ca))
    conf = load(manager)
    connection = NodeConnection(manager.address, user="ana", timeout=30, tls=conf.node_tls)
    for ask in (
        lambda: manager.rm.get("/ws/v1/cluster/nodes"),
        lambda: connection.get("/ws/v1/node/info"),
        lambda: open_hdfs(conf, "ana"),
    ):
        with pytest.raises(ClusterError, match="certificate does not hold here") as refused:
            ask()
        assert why in refused.value.what
        assert "yarn_ca" in refused.value.fix


@pytest.mark.parametrize("content", [b"", b"no certificate", None])
def test_a_ca_without_certificates_is_refused(by_https, tmp_path, monkeypatch, content):
    manager, _ = by_https()
    wrong = tmp_path / "wrong.pem"
    if content is not None:
        wrong.write_bytes(content)
    monkeypatch.setenv("SUBMARINE_YARN_CA", str(wrong))
    with pytest.raises(ConfigError, match="no certificates that can be used") as refused:
        load(manager)
    assert refused.value.where == str(wrong)
    assert "yarn_ca" in refused.value.fix


def test_a_container_lists_the_gpus_itself_where_the_node_speaks_https(
    by_https, tmp_path, monkeypatch
):
    """A container has no CA of the cluster's, and need not trust anybody for that."""
    manager, _ = by_https()
    host, _, port = manager.address.partition(":")
    monkeypatch.setenv("NM_HOST", host)
    monkeypatch.setenv("NM_HTTP_PORT", port)
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '<gpu><uuid>GPU-7</uuid></gpu>'\n")
    smi.chmod(0o700)
    assert container.granted(1, container.ask_node(), str(smi)) == ["GPU-7"]


def test_containers_are_sent_the_certificates_and_nothing_else(by_https, tmp_path, monkeypatch):
    manager, ca = by_https()
    launch = {"python": "python3", "archives": {}, "probed": False}

    def sent():
        folder = KeeperFolder(tmp_path / "home", load(manager))
        folder.make()
        made = describe_application(
            spec_of(), folder, launch, job_id="job", environments={"worker": {}}
        )
        return made.services["worker"].files.get(CA_FILE)

    assert sent() is None  # nodes know by themselves whom to trust
    both = tmp_path / "both.pem"  # a careless one: the key is in it, too
    monkeypatch.setenv("SUBMARINE_YARN_CA", str(both))
    assert "PRIVATE KEY" in both.read_text()
    path = Path(urlsplit(sent().source).path)
    assert path.read_text() == ca.read_text()
    manager.configure(**{**manager.properties, "dfs__http__policy": "HTTP_ONLY"})
    assert sent() is None


def test_a_folder_of_certificates_is_one_file(tmp_path):
    folder = tmp_path / "certs"
    folder.mkdir()
    (folder / "README").write_text("no certificate")
    for number in range(2):
        (tmp_path / f"made-{number}").mkdir()
        made = certificate(tmp_path / f"made-{number}").read_text()
        (folder / f"{number}.pem").write_text(made)
        (folder / f"{number}.0").symlink_to(f"{number}.pem")
    found = certificates(str(folder))
    assert found.count(b"BEGIN CERTIFICATE") == 2
    for wrong in (tmp_path / "made-0" / "absent.pem", folder / "README"):
        with pytest.raises(ConfigError, match="no certificates that can be used"):
            certificates(str(wrong))
