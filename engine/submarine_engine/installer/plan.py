"""What a cluster is made of, decided once and kept in its ``cluster.json``."""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.installer.gpus import Card, choose_gpus, find_gpus
from submarine_engine.installer.java import Java
from submarine_engine.installer.layout import Layout

PLAN_VERSION = 1
MOST_NODES = 16
MOST_GPUS = 64

_NODES_BEGIN = 16
_PORTS_A_NODE = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for; None where nothing was.

    Parameters
    ----------
    gpus
        GPUs of each node.
    nodes
        NodeManagers; 1 unless asked for.
    hdfs
        Whether there is an HDFS; there is unless asked for otherwise.

    Raises
    ------
    CommandError
        A number is out of range.
    """

    gpus: int | None = None
    nodes: int | None = None
    hdfs: bool | None = None

    def __post_init__(self) -> None:
        if self.nodes is not None and not 1 <= self.nodes <= MOST_NODES:
            raise CommandError(
                f"--nodes {self.nodes} is not possible", fix=f"give a number from 1 to {MOST_NODES}"
            )
        if self.gpus is not None and not 0 <= self.gpus <= MOST_GPUS:
            raise CommandError(
                f"--gpus {self.gpus} is not possible", fix=f"give a number from 0 to {MOST_GPUS}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that was decided.

    Parameters
    ----------
    gpus
        GPUs of each node.
    real
        Whether they are the machine's own.
    cards
        See `submarine_engine.installer.gpus.Choice`.
    port
        The first of the cluster's block of ports.
    java, jars
        What the daemons run on and from.
    user
        Who runs it, and the owner of all of its HDFS.
    """

    nodes: int
    gpus: int
    real: bool
    cards: tuple[Card, ...]
    hdfs: bool
    port: int
    java: Java
    jars: Path
    user: str

    @classmethod
    def make(cls, wanted: Wanted, *, port: int, java: Java, jars: Path) -> Plan:
        """Decide what was left open in `wanted`."""
        nodes = wanted.nodes or 1
        chosen = choose_gpus(wanted.gpus, nodes, find_gpus(), port)
        return cls(
            nodes=nodes,
            gpus=chosen.each,
            real=chosen.real,
            cards=chosen.cards,
            hdfs=wanted.hdfs is not False,
            port=port,
            java=java,
            jars=jars,
            user=getpass.getuser(),
        )

    def cards_of(self, node: int) -> tuple[Card, ...]:
        """Return the GPUs of one node."""
        return self.cards[node * self.gpus : (node + 1) * self.gpus]

    @property
    def wanted(self) -> Wanted:
        """What makes a cluster of the same shape."""
        return Wanted(self.gpus, self.nodes, self.hdfs)

    def differs(self, wanted: Wanted) -> str:
        """Return what was asked for and is otherwise here; empty where nothing is."""
        pairs = (
            (wanted.nodes, self.nodes, f"--nodes {self.nodes}"),
            (wanted.gpus, self.gpus, f"--gpus {self.gpus}"),
            (wanted.hdfs, self.hdfs, "--hdfs" if self.hdfs else "--no-hdfs"),
        )
        return " ".join(told for asked, here, told in pairs if asked not in (None, here))

    def node_port(self, number: int, place: int) -> int:
        """Return a port of a NodeManager: 0 its address, 1 its pages, 2 localizer, 3 collector."""
        return self.port + _NODES_BEGIN + number * _PORTS_A_NODE + place

    @property
    def rm_web(self) -> str:
        """Address of the ResourceManager's pages and REST interface."""
        return f"http://127.0.0.1:{self.port + 4}"

    @property
    def namenode_web(self) -> str:
        """Address of the NameNode's pages and of WebHDFS."""
        return f"http://127.0.0.1:{self.port + 6}"

    @property
    def datanode_web(self) -> str:
        """Address of the DataNode's pages."""
        return f"http://127.0.0.1:{self.port + 8}"

    def node_web(self, number: int) -> str:
        """Address of a NodeManager's pages and REST interface."""
        return f"http://127.0.0.1:{self.node_port(number, 1)}"

    @property
    def default_fs(self) -> str:
        """The file system of the cluster: HDFS, or a folder of this machine by another name.

        skein cannot submit where it is ``file:///``: it compares hosts, and there is none.
        """
        return f"hdfs://127.0.0.1:{self.port + 5}" if self.hdfs else "viewfs://local"

    def to_json(self) -> str:
        """Return the text of ``cluster.json``."""
        plain = {**asdict(self), "version": PLAN_VERSION, "jars": str(self.jars)}
        plain["java"] = {"home": str(self.java.home), "version": self.java.version}
        plain["cards"] = [card._asdict() for card in self.cards]
        return json.dumps(plain, indent=1) + "\n"


def read_plan(layout: Layout) -> Plan | None:
    """Return the plan of a cluster; None where there is none that can be used.

    The file is written before a daemon starts: where it is not whole, nothing worth keeping is.

    Raises
    ------
    ClusterError
        Another release has made the cluster.
    """
    try:
        plain = json.loads(layout.plan.read_text())
        version = plain.pop("version")
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if version != PLAN_VERSION:
        raise ClusterError(
            f"another release of Submarine has made the cluster {layout.name!r}",
            where=str(layout.root),
            fix="end it (`submarine cluster down`), then make it anew",
        )
    try:
        java = Java(Path(plain["java"]["home"]), plain["java"]["version"])
        cards = tuple(Card(**card) for card in plain["cards"])
        return Plan(**{**plain, "java": java, "cards": cards, "jars": Path(plain["jars"])})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
