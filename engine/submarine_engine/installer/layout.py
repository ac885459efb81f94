"""A cluster's folder: every file of it named once."""

from __future__ import annotations

import re
from pathlib import Path

from submarine_engine.errors import CommandError

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

    def log(self, daemon: str) -> Path:
        """Return the log of a daemon."""
        return self.logs / f"{daemon}.log"

    def node_conf(self, number: int) -> Path:
        """Return the folder with the configuration that only one NodeManager reads."""
        return self.root / "nodes" / str(number)

    def node_gpus(self, number: int) -> Path:
        """Return the file that tells one NodeManager of its GPUs."""
        return self.node_conf(number) / "gpus.xml"

    def gpu_program(self, number: int) -> Path:
        """Return the program by which it asks; NodeManagers insist on the name."""
        return self.node_conf(number) / "bin" / "nvidia-smi"

    def node_data(self, number: int) -> Path:
        """Return the folder of one NodeManager's containers, logs and recovery."""
        return self.data / f"nodemanager-{number}"

    def folders(self) -> tuple[Path, ...]:
        """Return the folders that are there before a daemon starts."""
        # The web pages of HDFS are not in its jar, and it looks for their folders.
        pages = (self.web / f"webapps/{name}/WEB-INF" for name in ("hdfs", "datanode"))
        return (
            self.conf, self.bin, self.logs, self.data, self.tmp, self.states, self.files,
            *pages,
        )  # fmt: skip
