"""Pages by https: whose certificates hold, and the words where one does not."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import datetime, timedelta, timezone

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from submarine_engine.clusters.yarn.gpus import node_devices
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.log_transport import Channel, choose_channel
from submarine_engine.clusters.yarn.node_pages import NodeConnection
from submarine_engine.clusters.yarn.scheduler import Node
from submarine_engine.errors import ClusterError, ConfigError
from submarine_runtime import container

HOME = {"Path": "/user/ana"}
GPUS = {"gpuDeviceInformation": {"gpus": [{"minorNumber": 0, "uuid": "GPU-1"}]}}


def certificate(folder, address="127.0.0.1"):
    """Write a certificate that is its own CA's, and its key; return the file of both."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a cluster's own")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    both = key.private_bytes(*plain, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(both + made.public_bytes(serialization.Encoding.PEM))
    (folder / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return folder / "ca.pem"


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
        manager.configure(
            yarn__http__policy="HTTPS_ONLY",
            yarn__resourcemanager__webapp__https__address=manager.address,
            dfs__http__policy="HTTPS_ONLY",
            dfs__namenode__https_address=manager.address,
            fs__defaultFS="hdfs://127.0.0.1:1",
        )
        return manager, ca

    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    return begin


def load(manager):
    return load_hadoop({"HADOOP_CONF_DIR": str(manager.folder)})


@pytest.mark.parametrize("variable", ["SUBMARINE_YARN_CA", "REQUESTS_CA_BUNDLE"])
def test_whom_a_ca_certifies_is_asked(by_https, monkeypatch, variable):
    manager, ca = by_https()
    monkeypatch.setenv(variable, str(ca))
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
