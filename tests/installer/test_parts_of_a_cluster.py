"""What a cluster is made of: ports, GPUs, a plan that is kept, a folder with a name."""

from __future__ import annotations

import socket
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.history import make_private
from submarine_engine.installer import HadoopCluster, plan, sites, slurm
from submarine_engine.installer.java import Java
from submarine_engine.installer.kubernetes import KubernetesCluster
from submarine_engine.installer.kubernetes import cluster as kubernetes
from submarine_engine.installer.plan import (
    BLOCK,
    FIRST,
    LAST,
    MOST_NODES,
    Card,
    ClusterPlan,
    Layout,
    Wanted,
    choose_gpus,
    declared_gpus,
    gpus_xml,
    hold_block,
    listening_ports,
    read_plan,
)
from submarine_engine.installer.slurm import SlurmCluster

# Blocks of ports are the machine's: what one of these tests holds, no other one may find free.
pytestmark = pytest.mark.xdist_group("blocks of ports")

HOME = Path("/somewhere/home")


def make_plan(port=FIRST, **wanted):
    java = Java(Path("/opt/java"), 17)
    return ClusterPlan.make(Wanted(**wanted), port=port, java=java, jars=Path("/cache/jars"))


def real_gpus(count):
    return [Card(f"H<{n}>", f"GPU-{n}", minor=n + 3, memory=80_000) for n in range(count)]


@pytest.fixture
def _blocks(monkeypatch):
    """Let blocks lie where no cluster comes or goes meanwhile."""
    monkeypatch.setattr(plan, "FIRST", FIRST - (LAST - FIRST) // 2)
    monkeypatch.setattr(plan, "LAST", FIRST)


@pytest.mark.usefixtures("_blocks")
def test_two_at_once_have_different_ports(tmp_path):
    with hold_block(tmp_path) as first, hold_block(tmp_path) as second:
        assert abs(first - second) >= BLOCK
        assert plan.FIRST <= first < plan.LAST
    with hold_block(tmp_path) as again:
        assert again == first


@pytest.mark.usefixtures("_blocks")
def test_a_cluster_keeps_its_ports_unless_somebody_took_one(tmp_path):
    with hold_block(tmp_path) as first, hold_block(tmp_path) as known:
        pass
    with hold_block(tmp_path, known) as again:
        assert again == known
    with socket.create_server(("127.0.0.1", known + 5)):
        assert known + 5 in listening_ports()
        with hold_block(tmp_path, known) as other:
            assert other == first


class Begun:
    """A cluster whose daemons are said to run, and are none; it notes with which ports."""

    def __init__(self, home):
        super().__init__(home)
        self.running, self.began = {}, []

    def _running(self):
        return self.running

    def _write(self, plan, *_):
        make_private(self.root)
        self._write_plan(plan)

    def _start(self, plan, *_):
        self.began.append((plan.port, _is_held(plan.port)))

    def _wait(self, *_):
        pass


class BegunSlurm(Begun, SlurmCluster):
    pass


class BegunKubernetes(Begun, KubernetesCluster):
    pass


def _is_held(port):
    """Return whether somebody holds the block of ports."""
    with socket.socket(socket.AF_UNIX) as name:
        try:
            name.bind(f"\0submarine-ports-{port}")
        except OSError:
            return True
    return False


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("kind", [BegunSlurm, BegunKubernetes])
def test_a_cluster_comes_again_on_other_ports_where_somebody_took_one(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(slurm, "_LONGEST_SOCKET", 1000)  # of pytest's folder: none is made
    monkeypatch.setattr(slurm, "_check_machine", lambda: None)
    monkeypatch.setattr(kubernetes, "check_machine", lambda: None)
    monkeypatch.setattr(kubernetes, "build_programs", lambda *_, **__: tmp_path)
    cluster = kind(tmp_path)
    first = cluster.up(nodes=2, gpus=3)
    assert cluster.up() == first
    assert cluster.began == [(first.port, True)] * 2
    with socket.create_server(("127.0.0.1", first.port + 1)):
        cluster.running = {cluster._names(first)[-1]: 1}  # the port is that daemon's
        assert cluster.up() == first
        assert cluster.began.pop() == (first.port, False)
        cluster.running = {}
        again = cluster.up()
    assert abs(again.port - first.port) >= BLOCK
    assert cluster.began[-1] == (again.port, True)
    assert again == replace(first, port=again.port) == cluster.plan


@given(st.integers(1, MOST_NODES), st.booleans())
def test_no_port_is_given_twice(nodes, secure):
    plan = make_plan(nodes=nodes, secure=secure)
    layout = Layout(HOME)
    files = list(sites.shared_sites(plan, layout).values())
    pages = [sites.node_site(plan, layout, number) for number in range(nodes)]
    nodes_own = [
        value
        for site in pages
        for name, value in site.items()
        if name.startswith("yarn.nodemanager.") and value.startswith(f"{plan.host}:")
    ]
    values = [value for site in files for value in site.values()] + nodes_own
    ports = [int(value.rpartition(":")[2]) for value in values if f"{plan.host}:" in value]
    assert len(set(ports)) == len(ports) == 10 + 4 * nodes
    assert all(plan.port <= port < plan.port + BLOCK for port in ports)


@pytest.mark.parametrize("secure", [False, True])
def test_everything_is_bound_to_loopback(secure):
    plan, layout = make_plan(secure=secure), Layout(HOME)
    for site in (*sites.shared_sites(plan, layout).values(), sites.node_site(plan, layout, 0)):
        for name, value in site.items():
            if name.endswith(("address", "hostname", "bind-host")):
                assert value.partition(":")[0] in ("127.0.0.1", plan.host), name


@pytest.mark.parametrize(
    ("asked", "nodes", "there", "each", "real"),
    [
        (None, 1, 0, 4, False),
        (None, 1, 2, 2, True),
        (None, 2, 5, 2, True),
        (None, 3, 2, 4, False),
        (2, 1, 4, 2, True),
        (8, 1, 4, 8, False),
        (0, 1, 4, 0, False),
    ],
)
def test_gpus_are_real_where_there_are_enough(asked, nodes, there, each, real):
    chosen = choose_gpus(asked, nodes, real_gpus(there), 1)
    assert (chosen.each, chosen.real) == (each, real)
    assert len(chosen.cards) == (there if real else each * nodes)


def test_nodes_share_the_machines_gpus_out(monkeypatch):
    monkeypatch.setattr("submarine_engine.installer.plan.find_gpus", lambda: tuple(real_gpus(5)))
    plan = make_plan(nodes=2)
    assert [[card.minor for card in plan.cards_of(number)] for number in range(2)] == [
        [3, 4],
        [5, 6],
    ]


def test_no_two_nodes_or_clusters_declare_the_same_gpu():
    told = [card.uuid for port in (1, 2) for card in choose_gpus(2, 3, (), port).cards]
    assert len(set(told)) == 12


def test_node_managers_read_what_the_program_says():
    root = ET.fromstring(gpus_xml([*real_gpus(1), *declared_gpus(2, 1)]))  # noqa: S314 - our own
    assert root.findtext("attached_gpus") == "3"
    assert [gpu.findtext("minor_number") for gpu in root.iter("gpu")] == ["3", "0", "1"]
    assert root.findtext("gpu/product_name") == "H<0>"


def test_properties_are_escaped():
    root = ET.fromstring(sites.site_xml({"a<b": "c&d"}))  # noqa: S314 - our own
    assert root.findtext("property/name") == "a<b"
    assert root.findtext("property/value") == "c&d"


def test_a_plan_is_kept(tmp_path):
    layout, plan = Layout(tmp_path), make_plan(nodes=3, gpus=2, hdfs=False)
    assert read_plan(layout) is None
    layout.root.mkdir(parents=True)
    layout.plan.write_text(plan.to_json())
    assert read_plan(layout) == plan
    assert plan.wanted == Wanted(2, 3, hdfs=False)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1}', "\0"])
def test_a_plan_that_is_not_whole_is_none(tmp_path, text):
    layout = Layout(tmp_path)
    layout.root.mkdir(parents=True)
    layout.plan.write_text(text)
    assert read_plan(layout) is None


def test_a_cluster_of_another_release_is_not_thrown_away(tmp_path):
    cluster = HadoopCluster(tmp_path)
    cluster.layout.root.mkdir(parents=True)
    cluster.layout.plan.write_text('{"version": 99, "nodes": 1}')
    with pytest.raises(ClusterError, match="another release") as caught:
        cluster.up()
    assert "down" in caught.value.fix
    assert cluster.layout.plan.exists()
    assert cluster.down()


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Wanted(), ""),
        (Wanted(4, 1, hdfs=True), ""),
        (Wanted(gpus=2), "--gpus 4"),
        (Wanted(nodes=3, hdfs=False), "--nodes 1 --hdfs"),
    ],
)
def test_what_differs_is_named(wanted, told):
    assert make_plan(gpus=4).differs(wanted) == told


@pytest.mark.parametrize("wanted", [{"nodes": 0}, {"nodes": 17}, {"gpus": 65}, {"gpus": -1}])
def test_numbers_out_of_range_are_refused(wanted):
    with pytest.raises(CommandError, match="is not possible"):
        Wanted(**wanted)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "a b", "a" * 41, "ä", "a,b", "a\n"])
def test_names_that_are_no_folder_are_refused(name):
    with pytest.raises(CommandError, match="cannot name a cluster"):
        Layout(HOME, name)


@pytest.mark.parametrize("home", ["/a b", "/a,b", "/a:b", "/a'b", "/$HOME", "/a&b"])
def test_homes_that_hadoop_cannot_read_are_refused(home):
    with pytest.raises(CommandError, match="Hadoop cannot live") as caught:
        Layout(Path(home))
    assert "SUBMARINE_HOME" in caught.value.fix
