"""Hadoop's own configuration: the files of ``$HADOOP_CONF_DIR``, as Hadoop's clients read them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from submarine_engine.clusters.staging import user_name
from submarine_engine.errors import ConfigError

_FILES = ("core-site.xml", "hdfs-site.xml", "resource-types.xml", "yarn-site.xml")
_VARIABLE = re.compile(r"\$\{([^${}]+)\}")
_ANYWHERE = "0.0.0.0"  # noqa: S104 - what Hadoop's default says: on this machine
_DEPTH = 20  # as Hadoop's own `Configuration` substitutes


class HadoopConf:
    """A folder of Hadoop's configuration.

    Parameters
    ----------
    folder
        What ``HADOOP_CONF_DIR`` names.
    values
        The properties of its files, later files winning.
    fingerprint
        Hex digits that are new whenever one of the files is.
    """

    def __init__(self, folder: Path, values: Mapping[str, str], fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint
        self._values = values

    def get(self, key: str, default: str = "") -> str:
        """Return a property, its ``${variables}`` filled in; `default` where it is not set."""
        value = self._values.get(key, default)
        for _ in range(_DEPTH):
            filled = _VARIABLE.sub(lambda found: self._values.get(found[1], found[0]), value)
            if filled == value:
                break
            value = filled
        return value

    def is_true(self, key: str, *, default: bool = False) -> bool:
        """Return whether a property says ``true``."""
        return self.get(key, str(default)).strip().lower() == "true"

    @property
    def default_fs(self) -> str:
        """The file system that paths without one are of, such as ``hdfs://host:8020``."""
        named = self.get("fs.defaultFS").rstrip("/")
        return "file:///" if named in ("", "file:") else named

    @property
    def has_hdfs(self) -> bool:
        """Whether that is HDFS, or has HDFS mounted."""
        scheme = self.default_fs.partition(":")[0]
        mounts = (name for name in self._values if name.startswith("fs.viewfs.mounttable."))
        mounted = scheme == "viewfs" and any("hdfs:" in self._values[name] for name in mounts)
        return mounted or scheme in ("hdfs", "webhdfs", "swebhdfs")

    @property
    def kerberos(self) -> bool:
        """Whether the cluster asks for Kerberos."""
        return self.get("hadoop.security.authentication", "simple").lower() == "kerberos"

    @property
    def user(self) -> str:
        """Whom the cluster knows this process as: ``HADOOP_USER_NAME``, else the system's user."""
        return os.environ.get("HADOOP_USER_NAME") or user_name()

    @property
    def rm_urls(self) -> tuple[str, ...]:
        """The ResourceManagers' web addresses, in the order in which Hadoop's clients try them."""
        secure = self.get("yarn.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
        scheme, key, port = ("https", "webapp.https.address", 8090) if secure else (
            "http", "webapp.address", 8088,
        )  # fmt: skip
        ids = [""]
        if self.is_true("yarn.resourcemanager.ha.enabled"):
            ids = [f".{name.strip()}" for name in self._list("yarn.resourcemanager.ha.rm-ids")]
        hosts = []
        for suffix in ids:
            host = self.get(f"yarn.resourcemanager.hostname{suffix}") or self.get(
                "yarn.resourcemanager.hostname", _ANYWHERE
            )
            address = self.get(f"yarn.resourcemanager.{key}{suffix}") or f"{host}:{port}"
            hosts.append(f"{scheme}://{address.replace(_ANYWHERE, '127.0.0.1')}")
        return tuple(hosts)

    def _list(self, key: str) -> list[str]:
        return [part for part in self.get(key).split(",") if part.strip()]


def is_named(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment names a configuration, whatever it is worth."""
    return bool(_named(environ))


def _named(environ: Mapping[str, str]) -> str | None:
    return environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR")


def load_hadoop(environ: Mapping[str, str] = os.environ) -> HadoopConf:
    """Read the configuration that ``HADOOP_CONF_DIR`` (or ``YARN_CONF_DIR``) names.

    Raises
    ------
    ConfigError
        Neither variable is set, or what it names is no configuration of YARN.
    """
    named = _named(environ)
    if not named:
        raise ConfigError(
            "no Hadoop configuration is named",
            where="HADOOP_CONF_DIR",
            fix="set HADOOP_CONF_DIR to the cluster's configuration folder, or start a cluster on "
            "this machine: submarine cluster up",
        )
    folder = Path(named).expanduser().absolute()
    values: dict[str, str] = {}
    digest = hashlib.sha256(str(folder).encode())
    for name in _FILES:
        try:
            data = (folder / name).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(
                f"it cannot be read: {error.strerror}",
                where=str(folder / name),
                fix="see whether HADOOP_CONF_DIR names the right folder",
            ) from error
        digest.update(data)
        values.update(_properties(data, folder / name))
    if not (folder / "yarn-site.xml").is_file():
        raise ConfigError(
            "there is no yarn-site.xml",
            where=str(folder),
            fix="let HADOOP_CONF_DIR name the folder that holds it",
        )
    return HadoopConf(folder, values, digest.hexdigest()[:16])


def _properties(data: bytes, path: Path) -> dict[str, str]:
    try:
        tree = ET.fromstring(data)  # noqa: S314 - the administrator's own file
    except ET.ParseError as error:
        raise ConfigError(
            f"it is no XML: {error}", where=str(path), fix="ask the cluster's owner for a whole one"
        ) from error
    found = {}
    for element in tree.iter("property"):
        name = element.findtext("name")
        value = element.findtext("value")
        if name and value is not None:
            found[name.strip()] = value.strip()
    return found
