"""Hadoop's own configuration, as Hadoop's clients read it, and the web pages that it names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

from submarine_engine import kerberos
from submarine_engine.clusters.store import user_name
from submarine_engine.config import DEFAULT, load_config
from submarine_engine.errors import ConfigError, SubmarineError
from submarine_engine.history import default_home
from submarine_engine.trust import CA_PROPERTY, tls_context

if TYPE_CHECKING:
    import ssl

    from submarine_engine.installer import HadoopCluster
    from submarine_engine.lifecycle import JobStatus


# Hadoop's own configuration: which folder it is, and its files as Hadoop's clients read them.
#
# The folder is, in this order:
#
# 1. what ``SUBMARINE_HADOOP_CONF_DIR``, ``HADOOP_CONF_DIR`` or ``YARN_CONF_DIR`` names; 2.
# ``hadoop_conf_dir`` of the configuration; 3. that of the cluster which ``submarine cluster up``
# has started in the same home, and which runs.


_FILES = ("core-site.xml", "hdfs-site.xml", "resource-types.xml", "yarn-site.xml")
_VARIABLE = re.compile(r"\$\{([^${}]+)\}")
_ANYWHERE = "0.0.0.0"  # noqa: S104 - what Hadoop's default says: on this machine
_DEPTH = 20  # as Hadoop's own `Configuration` substitutes


_SETTING = "hadoop_conf_dir"
_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


@dataclass(frozen=True, slots=True)
class ConfFolder:
    """Where the configuration is.

    Parameters
    ----------
    origin
        Who says so, in words.
    environment
        What programs of Hadoop need beside it: ``PATH`` and ``JAVA_HOME`` of a cluster that
        ``submarine cluster up`` has started. Empty where whoever named the folder has set them.
    """

    path: Path
    origin: str
    environment: Mapping[str, str] = field(default_factory=dict)


class HadoopConf:
    """A folder of Hadoop's configuration.

    Parameters
    ----------
    folder
        Where it is.
    values
        The properties of its files, later files winning.
    fingerprint
        Hex digits that are new whenever one of the files is, and with Kerberos for each user.
    origin, environment
        As `ConfFolder` has them.
    """

    def __init__(
        self,
        folder: Path,
        values: Mapping[str, str],
        fingerprint: str,
        *,
        origin: str = _VARIABLES[0],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.origin = origin
        self.environment = environment or {}
        self.fingerprint = fingerprint
        self.ca = ""
        """Whose certificates its ``https`` pages may have, as `tls_context` has it."""
        self._values = values
        self._tls: ssl.SSLContext | None = None

    def get(self, key: str, default: str = "") -> str:
        """Return the property `key`, its ``${variables}`` filled in; `default` if it is unset."""
        value = self._values.get(key, default)
        for _ in range(_DEPTH):
            filled = _VARIABLE.sub(lambda found: self._values.get(found[1], found[0]), value)
            if filled == value:
                break
            value = filled
        return value

    def is_true(self, key: str, *, default: bool = False) -> bool:
        """Return whether the property `key` says ``true``; `default` where it is not set."""
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
        """Whom the cluster knows this process as.

        With Kerberos who the ticket is of, also where that has expired; else ``HADOOP_USER_NAME``,
        else the system's user.
        """
        if self.kerberos:
            kerberos.use(self.environment)
            if principal := kerberos.known_principal():
                return kerberos.short_name(principal)
            return user_name()
        return os.environ.get("HADOOP_USER_NAME") or user_name()

    @property
    def web_user(self) -> str | None:
        """Who asks the cluster's pages; None where the ticket says so."""
        if self.kerberos:
            kerberos.use(self.environment)
            return None
        return self.user

    @property
    def node_tls(self) -> ssl.SSLContext | None:
        """What NodeManagers' pages are checked with; None where they speak plain ``http``.

        The ResourceManager gives their addresses without a scheme.

        Raises
        ------
        ConfigError
            `ca` has no certificates.
        """
        if self._tls is None and self.get("yarn.http.policy") == "HTTPS_ONLY":
            self._tls = tls_context(self.ca)
        return self._tls

    @property
    def nodes_show_logs(self) -> bool:
        """Whether a node's pages may show a user the logs of their own containers.

        With Kerberos a NodeManager reads a log as its owner's alone, and what containers write is
        theirs under LinuxContainerExecutor alone. Else it is of whom the NodeManager runs as: on a
        cluster of one's own, the user of this machine.
        """
        executor = self.get("yarn.nodemanager.container-executor.class")
        apart = executor.endswith(".LinuxContainerExecutor")
        return not self.kerberos or apart or self.user == user_name()

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
    """Return whether there is a configuration to use by `environ`, whatever it is worth."""
    try:
        return find_conf(environ) is not None
    except SubmarineError:  # it is told where the cluster is used
        return False


def find_conf(environ: Mapping[str, str] = os.environ) -> ConfFolder | None:
    """Return the folder to use and why; None where there is none.

    Parameters
    ----------
    environ
        The variables of whoever asks; ``SUBMARINE_HADOOP_CONF_DIR`` counts as this process has it.

    Raises
    ------
    ConfigError
        The configuration's file cannot be used, or it is open which cluster is meant.
    ClusterError
        The cluster that runs is of another release.
    """
    config = load_config()
    value, origin = config.value(_SETTING), config.origin(_SETTING)
    if value and origin != str(config.path):
        return ConfFolder(value, origin)
    for name in _VARIABLES:
        if named := environ.get(name):
            return ConfFolder(Path(named).expanduser().absolute(), name)
    if origin != DEFAULT:
        return ConfFolder(value, f"{_SETTING} of {origin}")
    from submarine_engine.installer import running_clusters  # noqa: PLC0415 - most name a folder

    cluster = _one_of(running_clusters(config.value("home")))
    if cluster is None:
        return None
    return ConfFolder(
        cluster.layout.conf,
        f"`submarine cluster up`: the cluster {cluster.name!r} runs",
        cluster.environment(environ),
    )


def _one_of(running: list[HadoopCluster]) -> HadoopCluster | None:
    """Return the one that jobs go to unless another is named."""
    from submarine_engine.installer.plan import DEFAULT_NAME  # noqa: PLC0415 - likewise

    usual = [cluster for cluster in running if cluster.name == DEFAULT_NAME]
    if usual or len(running) < 2:  # noqa: PLR2004 - more than one
        return next(iter(usual or running), None)
    names = [cluster.name for cluster in running]
    raise ConfigError(
        f"several clusters run, and none of them is named {DEFAULT_NAME!r}: {', '.join(names)}",
        where="HADOOP_CONF_DIR",
        fix=f'choose one in this shell: eval "$(submarine cluster env --name {names[0]})"',
    )


def load_hadoop(environ: Mapping[str, str] = os.environ) -> HadoopConf:
    """Read the configuration that `find_conf` finds by `environ`.

    Raises
    ------
    ConfigError
        There is none, or what is named is no configuration of YARN.
    """
    found = find_conf(environ)
    if found is None:
        raise ConfigError(
            "no Hadoop configuration is named, and no cluster of `submarine cluster up` runs",
            where="HADOOP_CONF_DIR",
            fix="start a cluster on this machine: submarine cluster up; or let HADOOP_CONF_DIR, or "
            f"{_SETTING} in config.toml, name the configuration folder of the one that you have",
        )
    return read_conf(found)


def read_conf(found: ConfFolder) -> HadoopConf:
    """Read the configuration in the folder `found`.

    Raises
    ------
    ConfigError
        It is no configuration of YARN.
    """
    folder = found.path
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
                fix=f"see whether this is the right folder ({found.origin})",
            ) from error
        digest.update(data)
        values.update(_properties(data, folder / name))
    if not (folder / "yarn-site.xml").is_file():
        raise ConfigError(
            "there is no yarn-site.xml",
            where=str(folder),
            fix=f"name the folder that holds it ({found.origin})",
        )
    conf = HadoopConf(
        folder,
        values,
        digest.hexdigest()[:16],
        origin=found.origin,
        environment=found.environment,
    )
    named = load_config().value("yarn_ca") or conf.get(CA_PROPERTY)
    conf.ca = str(named or os.environ.get("REQUESTS_CA_BUNDLE") or "")
    if conf.ca:
        tls_context(conf.ca)
    if conf.kerberos:
        login = _login(digest.hexdigest())
        kerberos.use(conf.environment)
        kerberos.log_in(login)
        if login is not None:
            conf.environment = {**conf.environment, **login.environment}
        # Who has skein's certificates has the masters: each principal has a keeper of its own.
        digest.update(conf.user.encode())
        conf.fingerprint = digest.hexdigest()[:16]
    return conf


def _login(cluster: str) -> kerberos.Login | None:
    """Return by which keytab to log in, as the settings say; None where they name none.

    Raises
    ------
    ConfigError
        They name a keytab without its principal, or a principal without its keytab.
    """
    settings = load_config()
    keytab, principal = settings.value("yarn_keytab"), settings.value("yarn_principal")
    if keytab is None and principal is None:
        return None
    if keytab is None or principal is None:
        has, lacks = ("principal", "keytab") if keytab is None else ("keytab", "principal")
        raise ConfigError(
            f"yarn_{has} is set, and yarn_{lacks} is not",
            where=settings.origin(f"yarn_{has}"),
            fix=f"set yarn_{lacks}, too, or neither: then your own ticket counts (kinit)",
        )
    # A cache for each: tickets of one realm or principal are none of another's.
    named = hashlib.sha256(f"{cluster} {principal} {keytab}".encode()).hexdigest()[:16]
    return kerberos.Login(principal, keytab, default_home() / "kerberos" / f"{named}.tickets")


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


# Web pages of a job on YARN, for people.


_FINAL = ("FINISHED", "FAILED", "KILLED")
_LONGEST = 2000


def links(
    conf: HadoopConf, report: Mapping[str, Any], container: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the addresses of a job's pages, by what they show.

    Parameters
    ----------
    conf
        Hadoop's configuration: where the ResourceManager's pages are.
    report
        ``/ws/v1/cluster/apps/<id>``, its ``app``.
    container
        The first task's container, one of ``…/appattempts/<attempt>/containers``: its log page is
        what `log` is while it runs.

    Returns
    -------
    dict of str to str
        ``log`` (the container's log page while the application runs, the application's page after),
        ``application``, ``cluster`` and ``tracking``; those that there are, each ``http`` or
        ``https``.
    """
    # What an application says of itself is as hostile as any text: only web addresses pass.
    found: dict[str, str | None] = {"log": None, "application": None, "cluster": None}
    application = quote(str(report.get("id", "")), safe="")
    if conf.rm_urls and application:
        manager = conf.rm_urls[0].rstrip("/")
        found["cluster"] = web_address(f"{manager}/cluster")
        found["application"] = web_address(f"{manager}/cluster/app/{application}")
    if report.get("state") not in _FINAL and container is not None:
        found["log"] = container_page(conf, container, str(report.get("user", "")))
    found["log"] = found["log"] or found["application"]
    found["tracking"] = web_address(report.get("trackingUrl"))
    return {what: address for what, address in found.items() if address}


def job_links(conf: HadoopConf, noted: Mapping[str, Any], status: JobStatus) -> dict[str, str]:
    """Return the pages of a job by what people call them, as `Cluster.links` does.

    Parameters
    ----------
    conf
        Hadoop's configuration: where the ResourceManager's pages are.
    noted
        What the keeper wrote of the job: ``{"app_id", "containers": {task: [id, node, began]}}``.
    status
        The job as it stands: a container's page is there until it is released.

    Returns
    -------
    dict of str to str
        ``log``, the ids of running tasks, the application's id, ``ResourceManager``, ``tracking``,
        ``TensorBoard``.
    """
    app_id = str(noted.get("app_id") or "")
    if not app_id:
        return {}
    pages = {}
    for task, (container, node, *_) in dict(noted.get("containers") or {}).items():
        seen = status.task(task)
        if seen is not None and seen.held and not seen.released:
            address = {"id": container, "nodeHttpAddress": node}
            pages[task] = container_page(conf, address, conf.user)
    report = {"id": app_id, "trackingUrl": _tracking(conf, app_id, over=status.state.final)}
    found = links(conf, report)
    log = next(filter(None, pages.values()), None) or found.get("log")
    named = {
        "log": log,
        **(pages if len(status.tasks) > 1 else {}),
        app_id: found.get("application"),
        "ResourceManager": found.get("cluster"),
        "tracking": found.get("tracking"),
        "TensorBoard": None if status.state.final else web_address(noted.get("board")),
    }
    return {name: address for name, address in named.items() if address}


def _tracking(conf: HadoopConf, app_id: str, *, over: bool) -> str | None:
    """Return where the web proxy shows what the application's master tells, while it lives."""
    if over:
        return None
    proxy = conf.get("yarn.web-proxy.address")
    scheme = "https" if conf.get("yarn.http.policy") == "HTTPS_ONLY" else "http"
    base = f"{scheme}://{proxy}" if proxy else next(iter(conf.rm_urls), None)
    return f"{base.rstrip('/')}/proxy/{quote(app_id, safe='')}/" if base else None


def container_page(conf: HadoopConf, container: Mapping[str, Any], user: str) -> str | None:
    """Return the address of a container's log page on its node; None where there is none.

    Parameters
    ----------
    conf
        Hadoop's configuration.
    container
        What YARN says of it.
    user
        Whose container it is.
    """
    node = container.get("nodeHttpAddress")
    name = str(container.get("containerId") or container.get("id") or "")
    if not isinstance(node, str) or not node or not name or not user:
        return None
    if "://" not in node:
        secure = conf.get("yarn.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
        node = f"{'https' if secure else 'http'}://{node}"
    page = f"/node/containerlogs/{quote(name, safe='')}/{quote(user, safe='')}"
    return web_address(node.rstrip("/") + page)


def web_address(address: object) -> str | None:
    """Return `address` where it is a plain ``http`` or ``https`` address, None otherwise."""
    if not isinstance(address, str) or len(address) > _LONGEST:
        return None
    if any(char <= " " or char in "\"'<>\\^`{|}" or char == "\x7f" for char in address):
        return None
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    return address
