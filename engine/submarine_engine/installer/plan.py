"""What a cluster is made of, kept in its ``cluster.json``: nodes, GPUs, ports, files."""

from __future__ import annotations

import getpass
import hashlib
import json
import random
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.installer.java import Java

# The GPUs that NodeManagers count: this machine's own, or declared ones.
#
# A NodeManager asks a program for its GPUs and reads what ``nvidia-smi -q -x`` writes. The answer
# is prepared here, from NVML or out of thin air; YARN schedules and accounts either alike.


DEFAULT_COUNT = 4

_MIB = 1 << 20
_CARD = """<gpu id="{number}">
<product_name>{name}</product_name><uuid>{uuid}</uuid><minor_number>{minor}</minor_number>
<fb_memory_usage><total>{memory} MiB</total><used>0 MiB</used>\
<free>{memory} MiB</free></fb_memory_usage>
<utilization><gpu_util>0 %</gpu_util></utilization>
<temperature><gpu_temp>30 C</gpu_temp><gpu_temp_max_threshold>90 C</gpu_temp_max_threshold>\
<gpu_temp_slow_threshold>85 C</gpu_temp_slow_threshold></temperature>
</gpu>
"""


class Card(NamedTuple):
    """One GPU: `minor` is the number of its device file, `memory` in mebibytes."""

    name: str
    uuid: str
    minor: int
    memory: int


class Choice(NamedTuple):
    """The GPUs of a cluster.

    Node N has ``cards[N * each:(N + 1) * each]``.
    """

    cards: tuple[Card, ...]
    each: int
    real: bool


def choose_gpus(count: int | None, nodes: int, found: Sequence[Card], port: int) -> Choice:
    """Give each node its GPUs: real ones where there are enough, declared ones otherwise.

    Parameters
    ----------
    count
        GPUs of each node; None shares out what is there, and declares four where nothing is.
    nodes
        How many there are.
    found
        The machine's own, see `find_gpus`.
    port
        The cluster's first: declared GPUs are told apart by it.
    """
    share = len(found) // nodes
    if share and (count is None or 0 < count <= share):
        return Choice(tuple(found), count or share, real=True)
    wanted = DEFAULT_COUNT if count is None else count
    return Choice(declared_gpus(wanted * nodes, port), wanted, real=False)


def declared_gpus(count: int, port: int) -> tuple[Card, ...]:
    """Return GPUs that are only said to be there; no two clusters of a machine have the same.

    Parameters
    ----------
    count
        How many, on all nodes together.
    port
        The cluster's first, by which they are told from other clusters'.
    """
    return tuple(Card("Declared GPU", f"GPU-{port:08x}-{n:04x}", n, 16_384) for n in range(count))


def find_gpus() -> tuple[Card, ...]:
    """Return the machine's GPUs as NVML counts them; none where NVML is not there."""
    try:
        import pynvml  # noqa: PLC0415 - an optional extra
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(_card(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _card(nvml: Any, index: int) -> Card:  # noqa: ANN401 - a module without types
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = 0
    with suppress(nvml.NVMLError):  # GPUs that share the machine's memory have none to tell
        memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // _MIB
    return Card(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        minor=int(nvml.nvmlDeviceGetMinorNumber(handle)),
        memory=memory,
    )


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def gpus_xml(cards: Sequence[Card]) -> str:
    """Return `cards` as a NodeManager reads them (``GpuDeviceInformationParser`` of Hadoop 3)."""
    rows = [
        _CARD.format(
            number=number, name=escape(card.name), uuid=escape(card.uuid), minor=card.minor,
            memory=card.memory,
        )
        for number, card in enumerate(cards)
    ]  # fmt: skip
    return (
        '<?xml version="1.0"?>\n<nvidia_smi_log>\n<driver_version>0</driver_version>\n'
        f"<attached_gpus>{len(cards)}</attached_gpus>\n{''.join(rows)}</nvidia_smi_log>\n"
    )


# A cluster's folder: every file of it named once.


DEFAULT_NAME = "yarn"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


class Layout:
    """The files of one cluster, ``<home>/clusters/<name>/``; folders are the owner's alone.

    Parameters
    ----------
    home
        The folder of Submarine's records, see `submarine_engine.history.default_home`.
    name
        What people call the cluster.

    Raises
    ------
    CommandError
        `name` cannot name a folder, or the folder's path one that Hadoop can read.
    """

    def __init__(self, home: Path, name: str = DEFAULT_NAME) -> None:
        if not _NAME.fullmatch(name):
            raise CommandError(
                f"{name!r} cannot name a cluster",
                fix="use up to 40 letters, digits, '-', '_' and '.', a letter or digit first",
            )
        self.name = name
        # By whatever way it is reached, it is one cluster: daemons are known by this path.
        home = home.resolve()
        self.root = home / "clusters" / name
        # A comma or a colon ends a path in Hadoop's lists; XML and shells have their own troubles.
        if re.search(r"[^\w/.+@~-]", str(self.root)):
            raise CommandError(
                "Hadoop cannot live in a folder of this name",
                where=str(self.root),
                fix="let SUBMARINE_HOME name a folder of letters, digits, '-', '_' and '.' alone",
            )
        self.lock = home / "clusters" / f"{name}.lock"
        self.plan = self.root / "cluster.json"
        self.conf = self.root / "conf"
        self.bin = self.root / "bin"
        self.logs = self.root / "logs"
        self.data = self.root / "data"
        self.tmp = self.root / "tmp"
        self.web = self.root / "web"
        self.files = self.data / "files"
        self.namenode = self.data / "namenode"
        self.datanode = self.data / "datanode"
        self.formatted = self.data / "namenode-is-formatted"
        self.states = self.data / "resourcemanager"
        self.kerberos = self.root / "kerberos"
        self.tls = self.root / "tls"

    def log(self, daemon: str) -> Path:
        """Return the log of a daemon."""
        return self.logs / f"{daemon}.log"

    def node_conf(self, number: int) -> Path:
        """Return the folder of the configuration that only NodeManager `number`, from 0, reads."""
        return self.root / "nodes" / str(number)

    def node_gpus(self, number: int) -> Path:
        """Return the file that tells NodeManager `number`, from 0, of its GPUs."""
        return self.node_conf(number) / "gpus.xml"

    def gpu_program(self, number: int) -> Path:
        """Return the program by which it asks; NodeManagers insist on the name.

        Parameters
        ----------
        number
            The node's, from 0.
        """
        return self.node_conf(number) / "bin" / "nvidia-smi"

    def node_data(self, number: int) -> Path:
        """Return the folder of containers, logs and recovery of NodeManager `number`, from 0."""
        return self.data / f"nodemanager-{number}"

    def folders(self) -> tuple[Path, ...]:
        """Return the folders that are there before a daemon starts."""
        # The web pages of HDFS are not in its jar, and it looks for their folders.
        pages = (self.web / f"webapps/{name}/WEB-INF" for name in ("hdfs", "datanode"))
        return (
            self.conf, self.bin, self.logs, self.data, self.tmp, self.states, self.files,
            *pages,
        )  # fmt: skip


# Ports that stay a cluster's own.
#
# A cluster takes a block of consecutive ports below those that the kernel gives to outgoing
# connections, so that a daemon finds its port again after it was killed. While a cluster starts it
# holds the name of its block (an abstract Unix socket: one owner in the ports' own network
# namespace, gone with its process), so no two clusters of any user take the same one. Later its
# listening daemons show that the block is taken.


BLOCK = 128
FIRST, LAST = 20_480, 32_768

_LISTENING = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


@contextmanager
def hold_block(folder: Path, known: int | None = None) -> Iterator[int]:
    """Hold a block of free ports for the time of a ``with``; gives its first port.

    Parameters
    ----------
    folder
        The cluster's; it decides where the search begins, so that a cluster mostly keeps its ports.
    known
        The block that the cluster has had; taken where it is free still.

    Raises
    ------
    ClusterError
        Every block is taken.
    """
    blocks = list(range(FIRST, LAST, BLOCK))
    seed = hashlib.sha256(bytes(folder)).digest()
    random.Random(seed).shuffle(blocks)  # noqa: S311 - nothing secret
    for first in [known, *blocks] if known is not None else blocks:
        with socket.socket(socket.AF_UNIX) as name:
            try:
                name.bind(f"\0submarine-ports-{first}")
            except OSError:
                continue
            if listening_ports().isdisjoint(range(first, first + BLOCK)):
                yield first
                return
    raise ClusterError(
        f"no {BLOCK} ports in a row are free between {FIRST} and {LAST}",
        fix="end clusters that nobody needs any more: `submarine cluster down`",
    )


def listening_ports() -> set[int]:
    """Return the ports that somebody listens on (``/proc/net/tcp``, see proc(5)).

    What is left of closed connections keeps no daemon from its port.
    """
    found: set[int] = set()
    for table in _TABLES:
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            _, local, _, state = line.split()[:4]
            if state == _LISTENING:
                found.add(int(local.rpartition(":")[2], 16))
    return found


# What a cluster is made of, decided once and kept in its ``cluster.json``.


PLAN_VERSION = 1
CLIENT_JAR = "hadoop-mapreduce-client-core-3.4.1.jar"
"""The jar with a class that a secure submission needs; of `secure_jars` the one on class paths."""
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
    secure
        Whether it asks for Kerberos, of a realm of its own; not unless asked for.

    Raises
    ------
    CommandError
        A number is out of range, or a secure cluster is to have no HDFS.
    """

    gpus: int | None = None
    nodes: int | None = None
    hdfs: bool | None = None
    secure: bool | None = None

    def __post_init__(self) -> None:
        if self.nodes is not None and not 1 <= self.nodes <= MOST_NODES:
            raise CommandError(
                f"--nodes {self.nodes} is not possible", fix=f"give a number from 1 to {MOST_NODES}"
            )
        if self.gpus is not None and not 0 <= self.gpus <= MOST_GPUS:
            raise CommandError(
                f"--gpus {self.gpus} is not possible", fix=f"give a number from 0 to {MOST_GPUS}"
            )
        if self.secure and self.hdfs is False:
            raise CommandError(
                "a secure cluster has an HDFS: its users' files are apart there alone",
                fix="leave out --no-hdfs, or --secure",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """Everything that was decided.

    Parameters
    ----------
    gpus
        GPUs of each node.
    real
        Whether they are the machine's own.
    cards
        See `submarine_engine.installer.plan.Choice`.
    port
        The first of the cluster's block of ports.
    java, jars
        What the daemons run on and from.
    user
        Who runs it, and the owner of all of its HDFS where that is not secure.
    secure
        Whether it asks for Kerberos, see `submarine_engine.installer.realm`.
    secure_jars
        What a secure cluster has beside `jars`.
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
    secure: bool = False
    secure_jars: Path | None = None

    @classmethod
    def make(
        cls, wanted: Wanted, *, port: int, java: Java, jars: Path, secure_jars: Path | None = None
    ) -> ClusterPlan:
        """Decide what was left open in `wanted`.

        Parameters
        ----------
        wanted
            What the user asked for.
        port
            The first of a block of ports that is held.
        java
            The Java that was found.
        jars
            Hadoop's jars.
        secure_jars
            Those that a secure cluster needs besides; None for any other.
        """
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
            secure=bool(wanted.secure),
            secure_jars=secure_jars,
        )

    def cards_of(self, node: int) -> tuple[Card, ...]:
        """Return the GPUs of one node."""
        return self.cards[node * self.gpus : (node + 1) * self.gpus]

    @property
    def wanted(self) -> Wanted:
        """What makes a cluster of the same shape."""
        return Wanted(self.gpus, self.nodes, self.hdfs, self.secure or None)

    def differs(self, wanted: Wanted) -> str:
        """Return what of `wanted` is otherwise here, as it is here; empty where nothing is."""
        pairs = (
            (wanted.nodes, self.nodes, f"--nodes {self.nodes}"),
            (wanted.gpus, self.gpus, f"--gpus {self.gpus}"),
            (wanted.hdfs, self.hdfs, "--hdfs" if self.hdfs else "--no-hdfs"),
            (wanted.secure, self.secure, "--secure" if self.secure else "--no-secure"),
        )
        return " ".join(told for asked, here, told in pairs if asked not in (None, here))

    def node_port(self, number: int, place: int) -> int:
        """Return a port of a NodeManager: 0 its address, 1 its pages, 2 localizer, 3 collector.

        Parameters
        ----------
        number
            The node's, from 0.
        place
            Which of its ports.
        """
        return self.port + _NODES_BEGIN + number * _PORTS_A_NODE + place

    @property
    def host(self) -> str:
        """What the daemons are called: Kerberos knows services by their host's name."""
        return "localhost" if self.secure else "127.0.0.1"

    @property
    def scheme(self) -> str:
        """How the daemons' pages are asked; those of a secure cluster by ``https`` alone."""
        return "https" if self.secure else "http"

    @property
    def class_path(self) -> str:
        """The jars of daemons and commands, as Java takes them."""
        more = [] if self.secure_jars is None else [f"{self.secure_jars}/{CLIENT_JAR}"]
        return ":".join([f"{self.jars}/*", *more])

    @property
    def rm_web(self) -> str:
        """Address of the ResourceManager's pages and REST interface."""
        return f"{self.scheme}://{self.host}:{self.port + 4}"

    @property
    def namenode_web(self) -> str:
        """Address of the NameNode's pages and of WebHDFS."""
        return f"{self.scheme}://{self.host}:{self.port + 6}"

    @property
    def datanode_web(self) -> str:
        """Address of the DataNode's pages."""
        return f"{self.scheme}://{self.host}:{self.port + 8}"

    def node_web(self, number: int) -> str:
        """Return the address of the pages and REST interface of NodeManager `number`, from 0."""
        return f"{self.scheme}://{self.host}:{self.node_port(number, 1)}"

    @property
    def default_fs(self) -> str:
        """The file system of the cluster: HDFS, or a folder of this machine by another name.

        skein cannot submit where it is ``file:///``: it compares hosts, and there is none.
        """
        return f"hdfs://{self.host}:{self.port + 5}" if self.hdfs else "viewfs://local"

    def to_json(self) -> str:
        """Return the text of ``cluster.json``."""
        plain = {**asdict(self), "version": PLAN_VERSION, "jars": str(self.jars)}
        plain["secure_jars"] = str(self.secure_jars or "")
        plain["java"] = {"home": str(self.java.home), "version": self.java.version}
        plain["cards"] = [card._asdict() for card in self.cards]
        return json.dumps(plain, indent=1) + "\n"


def read_plan(layout: Layout) -> ClusterPlan | None:
    """Return the plan of a cluster; None where there is none that can be used.

    The file is written before a daemon starts: where it is not whole, nothing worth keeping is.

    Parameters
    ----------
    layout
        The cluster's files.

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
        more = Path(plain["secure_jars"]) if plain.get("secure_jars") else None
        paths = {"jars": Path(plain["jars"]), "secure_jars": more}
        return ClusterPlan(**{**plain, "java": java, "cards": cards, **paths})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
