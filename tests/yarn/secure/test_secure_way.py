"""One secure way through, short: a KDC and a NameNode that asks for Kerberos, by https alone.

The other tests here have all of a cluster, and take minutes.
"""

from __future__ import annotations

import pytest
from submarine_engine import kerberos
from submarine_engine.clusters.yarn.delegation import Delegation, read_life
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import name_nodes, open_hdfs
from submarine_engine.errors import ClusterError, KerberosError
from submarine_engine.installer import HadoopCluster, Wanted, realm
from submarine_engine.installer.daemons import Starter
from submarine_engine.installer.java import fetch_jars, find_java
from submarine_engine.installer.plan import ClusterPlan, hold_block
from submarine_engine.installer.sites import write_files
from submarine_engine.trust import certificates
from submarine_runtime import webhdfs
from submarine_runtime.checkpoint_hdfs import HdfsFolder
from submarine_runtime.delegation import accept
from submarine_runtime.saving import PLACE

from tests.certificates import certificate
from tests.hadoop import Yarn, looked_after, use
from tests.jobs import until

from .users import be

pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]

WEEK = 7 * 86400


@pytest.fixture
def name_node(tmp_path_factory, monkeypatch):
    """Give a realm and its NameNode, without a node that would run or keep anything."""
    with looked_after(tmp_path_factory.mktemp("yarn-name-node")) as home:
        cluster = HadoopCluster(home, "small")
        java = find_java()
        jars, more = fetch_jars(java), fetch_jars(java, pom=realm.POM)
        with hold_block(cluster.layout.root) as port:
            wanted = Wanted(gpus=0, secure=True)
            plan = ClusterPlan.make(wanted, port=port, java=java, jars=jars, secure_jars=more)
            write_files(plan, cluster.layout)
            Starter(plan, cluster.layout, 300).start(["kdc", "namenode"])
            environment = cluster.environment()
            conf = cluster.layout.conf
            # The block is held all the time: it looks free until the NameNode listens.
            yield use(Yarn(cluster, conf, environment, plan.rm_web, plan.namenode_web), monkeypatch)


def test_a_ticket_opens_hdfs_and_a_token_that_is_replaced_keeps_it_open(
    name_node, tmp_path, monkeypatch
):
    nobody = f"FILE:{tmp_path / 'nothing'}"
    monkeypatch.setenv("KRB5CCNAME", nobody)
    with pytest.raises(KerberosError, match="no Kerberos ticket") as none:
        open_hdfs(load_hadoop())
    assert "kinit" in none.value.fix

    be("alice", name_node, tmp_path, monkeypatch)
    until(lambda: open_hdfs(load_hadoop()) is not None)
    assert all(node.secure for node in name_nodes(load_hadoop()))
    with monkeypatch.context() as patch:
        patch.setenv("SUBMARINE_YARN_CA", str(certificate(tmp_path)))
        with pytest.raises(ClusterError, match="certificate does not hold here") as stranger:
            open_hdfs(load_hadoop())
        assert "yarn_ca" in stranger.value.fix
    hdfs = open_hdfs(load_hadoop())
    assert hdfs.home == "/user/alice"
    first = hdfs.delegation_token()
    issued, last = read_life(first)
    assert last - issued == WEEK
    second = Delegation(hdfs._token_call).current()
    hdfs._web.cancel_delegation_token(first)
    for name, value in hdfs.runtime_environment().items():
        monkeypatch.setenv(name, value)
    message = hdfs.token_message(second)

    # What is in files is asked for by a token: by another one where somebody has ended it.
    assert hdfs.delegation_token() == first
    with pytest.raises(ClusterError, match="nothing"):
        hdfs.get("/user/alice/nothing")
    assert hdfs.delegation_token() != first
    # Whose program gives it to nobody, gives it back.
    other = open_hdfs(load_hadoop())
    with pytest.raises(ClusterError, match="nothing"):
        other.get("/user/alice/nothing")
    ended = other._delegation.current()
    other.close()
    with pytest.raises((PermissionError, RuntimeError), match=r"(?i:found|unknown|invalid)"):
        hdfs._web.renew_delegation_token(ended)
    hdfs.close()
    with monkeypatch.context() as patch:
        patch.delenv("KRB5CCNAME")
        assert kerberos.cache_name() == f"FILE:{name_node.cluster.layout.kerberos / 'tickets'}"

    # As a container: it has the token and the CA, and no ticket.
    monkeypatch.setenv("KRB5CCNAME", nobody)
    monkeypatch.setenv(PLACE, str(tmp_path))
    folder = HdfsFolder("hdfs:///")
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        folder.names()
    webhdfs._trusted.clear()
    (tmp_path / webhdfs.CA_FILE).write_bytes(certificates(load_hadoop().ca))
    with pytest.raises(OSError, match="can't be found in cache"):
        folder.names()
    accept(message, str(tmp_path), "")
    assert folder.names() == {}
