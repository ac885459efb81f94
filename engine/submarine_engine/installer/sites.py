"""What a cluster's daemons and users read: Hadoop's configuration, programs in ``bin``."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import escape

from submarine_runtime.container import SMI

from submarine_engine.history import write_aside
from submarine_engine.installer import realm, tls
from submarine_engine.installer.plan import ClusterPlan, Layout, gpus_xml

# Hadoop's configuration: small, quick to notice things, loopback alone.
#
# Names and defaults are of Hadoop 3.4.1's ``*-default.xml``. Where a value differs from the
# default, the reason stands beside it or is one of three: less memory, sooner, or fixed ports,
# which recovery after a kill needs.


HOST = "127.0.0.1"  # what they listen on, by whatever name they are called
NODE_MEMORY = 8192
NODE_VCORES = 16
HEARTBEAT = 100
SMALL_QUEUE = "small"

_SCHEDULER = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
_STORE = "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore"
_CALCULATOR = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"

LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
"""


def shared_sites(plan: ClusterPlan, layout: Layout) -> dict[str, dict[str, str]]:
    """Return the files of the folder that ``HADOOP_CONF_DIR`` names: properties by file.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.
    """
    sites = {
        "core-site.xml": _core(plan, layout),
        "hdfs-site.xml": _hdfs(plan, layout),
        "yarn-site.xml": _yarn(plan, layout),
        "capacity-scheduler.xml": _queues(),
        "resource-types.xml": {"yarn.resource-types": "yarn.io/gpu"},
    }
    if plan.secure:
        for name, properties in realm.secure_sites(plan, layout).items():
            sites[name] |= properties
        for name, properties in tls.sites(layout).items():
            sites.setdefault(name, {}).update(properties)
    return sites


def node_site(plan: ClusterPlan, layout: Layout, number: int) -> dict[str, str]:
    """Return the ``yarn-site.xml`` of one NodeManager.

    Parameters
    ----------
    plan
        The cluster.
    layout
        Its files.
    number
        The node's, from 0.
    """
    data = layout.node_data(number)
    own: dict[str, object] = {
        "local-dirs": data / "local",
        "log-dirs": data / "logs",
        "recovery.dir": data / "recovery",
        "address": f"{plan.host}:{plan.node_port(number, 0)}",
        f"webapp.{_pages(plan)}": f"{plan.host}:{plan.node_port(number, 1)}",
        "localizer.address": f"{plan.host}:{plan.node_port(number, 2)}",
        "collector-service.address": f"{plan.host}:{plan.node_port(number, 3)}",
    }
    shared = shared_sites(plan, layout)["yarn-site.xml"]
    if plan.gpus:
        program = layout.gpu_program(number)
        own["resource-plugins.gpu.path-to-discovery-executables"] = program
        if plan.secure:  # its pages tell containers, which have no ticket, nothing
            own["admin-env"] = f"{shared['yarn.nodemanager.admin-env']},{SMI}={program}"
    return {
        **shared,
        **{f"yarn.nodemanager.{key}": str(value) for key, value in own.items()},
    }


def _pages(plan: ClusterPlan) -> str:
    """Return what YARN calls the address of pages."""
    return "https.address" if plan.scheme == "https" else "address"


def site_xml(properties: Mapping[str, str]) -> str:
    """Return Hadoop's file of properties."""
    rows = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n'


def _core(plan: ClusterPlan, layout: Layout) -> dict[str, str]:
    folder = f"file://{layout.files}"
    return {
        "fs.defaultFS": plan.default_fs,
        **({} if plan.hdfs else {"fs.viewfs.mounttable.local.linkMergeSlash": folder}),
        "hadoop.tmp.dir": str(layout.tmp),
        "hadoop.http.staticuser.user": plan.user,
        "ipc.client.connect.retry.interval": "200",
        "ipc.server.listen.queue.size": "256",
    }


def _hdfs(plan: ClusterPlan, layout: Layout) -> dict[str, str]:
    return {
        "dfs.replication": "1",
        "dfs.namenode.name.dir": f"file://{layout.namenode}",
        "dfs.datanode.data.dir": f"file://{layout.datanode}",
        f"dfs.namenode.{plan.scheme}-address": f"{plan.host}:{plan.port + 6}",
        "dfs.namenode.rpc-bind-host": HOST,
        "dfs.datanode.address": f"{plan.host}:{plan.port + 7}",
        f"dfs.datanode.{plan.scheme}.address": f"{plan.host}:{plan.port + 8}",
        "dfs.datanode.ipc.address": f"{plan.host}:{plan.port + 9}",
        "dfs.permissions.superusergroup": plan.user,
        "dfs.namenode.safemode.extension": "0",
        "dfs.heartbeat.interval": "1",
        "dfs.namenode.heartbeat.recheck-interval": "5000",
        "dfs.namenode.stale.datanode.interval": "10000",
        "dfs.namenode.handler.count": "8",
    }


def _yarn(plan: ClusterPlan, layout: Layout) -> dict[str, str]:
    return {
        **_resourcemanager(plan, layout),
        **_nodemanagers(plan),
        "yarn.scheduler.minimum-allocation-mb": "128",  # small masters
        "yarn.scheduler.maximum-allocation-mb": str(NODE_MEMORY),
        "yarn.scheduler.maximum-allocation-vcores": str(NODE_VCORES),
        # Several NodeManagers on one host are told apart by their ports.
        "yarn.scheduler.include-port-in-node-name": str(plan.nodes > 1).lower(),
        # There is no HADOOP_HOME with the layout that the default counts on.
        "yarn.application.classpath": f"{layout.conf},{plan.class_path}".replace(":", ","),
        # A copy of each container's start script, with its variables, in its log folder.
        "yarn.nodemanager.log-container-debug-info.enabled": "false",
        "yarn.log-aggregation-enable": "true",
        "yarn.log-aggregation.retain-seconds": "604800",
        "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",  # noqa: S108 - of that file system
        "yarn.client.nodemanager-connect.retry-interval-ms": "500",
        "yarn.timeline-service.enabled": "false",
    }


def _resourcemanager(plan: ClusterPlan, layout: Layout) -> dict[str, str]:
    names = ("address", "scheduler.address", "resource-tracker.address", "admin.address",
             f"webapp.{_pages(plan)}")  # fmt: skip
    addresses = {name: f"{plan.host}:{plan.port + place}" for place, name in enumerate(names)}
    settings = {
        "hostname": plan.host,
        **addresses,
        "bind-host": HOST,
        "scheduler.class": _SCHEDULER,
        "scheduler.monitor.enable": "false",  # no preemption
        "recovery.enabled": "true",
        "store.class": _STORE,
        "fs.state-store.uri": f"file://{layout.states}",
        "work-preserving-recovery.enabled": "true",
        "work-preserving-recovery.scheduling-wait-ms": "1000",
        "nodemanagers.heartbeat-interval-ms": str(HEARTBEAT),
        "connect.retry-interval.ms": "500",
        "scheduler.client.thread-count": "10",
        "resource-tracker.client.thread-count": "10",
        "client.thread-count": "10",
        "amlauncher.thread-count": "10",
    }
    return {
        **{f"yarn.resourcemanager.{name}": value for name, value in settings.items()},
        "yarn.nm.liveness-monitor.expiry-interval-ms": "15000",  # a lost node is lost soon
    }


def _nodemanagers(plan: ClusterPlan) -> dict[str, str]:
    settings = {
        "hostname": plan.host,
        "bind-host": HOST,
        "resource.memory-mb": str(NODE_MEMORY),
        "resource.cpu-vcores": str(NODE_VCORES),
        "vmem-check-enabled": "false",  # Python with CUDA maps far more than it uses
        "disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        "recovery.enabled": "true",
        "recovery.supervised": "true",  # containers go on while it is away
        "delete.debug-delay-sec": "0",
    }
    if plan.gpus:
        settings |= {
            "resource-plugins": "yarn.io/gpu",
            "resource-plugins.gpu.allowed-gpu-devices": "auto",
        }
    return {f"yarn.nodemanager.{name}": value for name, value in settings.items()}


def _queues() -> dict[str, str]:
    """Two queues: one that may take everything, one whose limits can be run into."""
    settings = {
        # The default calculator counts memory alone: GPUs would be given twice.
        "resource-calculator": _CALCULATOR,
        "maximum-am-resource-percent": "0.5",
        "root.queues": f"default,{SMALL_QUEUE}",
        "root.default.capacity": "75",
        "root.default.maximum-capacity": "100",
        "root.default.user-limit-factor": "10",
        f"root.{SMALL_QUEUE}.capacity": "25",
        f"root.{SMALL_QUEUE}.maximum-capacity": "25",
    }
    return {f"yarn.scheduler.capacity.{name}": value for name, value in settings.items()}


# The programs of a cluster's ``bin``: ``yarn``, ``hdfs``, ``hadoop``, and the one that lists GPUs.
#
# They stand in for Hadoop's own shell scripts, which are not among the jars.


_CLI = "org.apache.hadoop.yarn.client.cli"
_TOOLS = "org.apache.hadoop.hdfs.tools"
_SHARED = {"version": "org.apache.hadoop.util.VersionInfo", "jar": "org.apache.hadoop.util.RunJar"}
# Verbs that hand themselves on to their class, as Hadoop's own scripts do.
_SELF_NAMED = ("application", "app", "applicationattempt", "container")

COMMANDS = {
    "yarn": {
        **dict.fromkeys(_SELF_NAMED, f"{_CLI}.ApplicationCLI"),
        "cluster": f"{_CLI}.ClusterCLI",
        "logs": f"{_CLI}.LogsCLI",
        "node": f"{_CLI}.NodeCLI",
        "nodeattributes": f"{_CLI}.NodeAttributesCLI",
        "queue": f"{_CLI}.QueueCLI",
        "rmadmin": f"{_CLI}.RMAdminCLI",
        "top": f"{_CLI}.TopCLI",
        **_SHARED,
    },
    "hdfs": {
        "dfs": "org.apache.hadoop.fs.FsShell",
        "dfsadmin": f"{_TOOLS}.DFSAdmin",
        "fsck": f"{_TOOLS}.DFSck",
        "getconf": f"{_TOOLS}.GetConf",
        "version": _SHARED["version"],
    },
    "hadoop": {"fs": "org.apache.hadoop.fs.FsShell", **_SHARED},
}

_SCRIPT = """\
#!/bin/sh
# Hadoop's `{name}`, as far as the jars of this cluster have it.
export HADOOP_CONF_DIR={conf} JAVA_HOME={home}
verb=$1
[ $# -gt 0 ] && shift
case $verb in
classpath)
    if [ "$1" = --glob ]; then
        echo {conf}:$(echo {jars} | tr ' ' :)
    else
        echo {classes}
    fi
    exit ;;
{cases}
*)
    echo "{name}: there is no '$verb' here; there are: classpath {verbs}" >&2
    exit 64 ;;
esac
exec {java} -cp {classes} "$@"
"""


def programs(plan: ClusterPlan, layout: Layout) -> dict[Path, str]:
    """Return the text of each program by path.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.
    """
    found = {layout.bin / name: _script(name, plan, layout) for name in COMMANDS}
    for number in range(plan.nodes):
        told = shlex.quote(str(layout.node_gpus(number)))
        found[layout.gpu_program(number)] = f"#!/bin/sh\nexec cat {told}\n"
    return found


def quick_flags(heap: int) -> list[str]:
    """Return the options of a JVM that starts soon and stays small; `heap` in mebibytes."""
    return [
        f"-Xmx{heap}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
        # Maven has checked the jars by their sums; a sixth of the start is saved.
        "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote",
        "-Djava.net.preferIPv4Stack=true",
    ]  # fmt: skip


def _script(name: str, plan: ClusterPlan, layout: Layout) -> str:
    verbs = COMMANDS[name]
    more = [shlex.quote(path) for path in plan.class_path.split(":")[1:]]
    java = [str(plan.java.program), *quick_flags(256), *plan.java.flags()]
    if plan.secure:
        java += realm.java_flags(layout)
    return _SCRIPT.format(
        name=name,
        verbs=" ".join(verbs),
        cases="\n".join(
            f'{verb}) set -- {kind}{" " + verb if verb in _SELF_NAMED else ""} "$@" ;;'
            for verb, kind in verbs.items()
        ),
        conf=shlex.quote(str(layout.conf)),
        jars=" ".join([f"{shlex.quote(str(plan.jars))}/*.jar", *more]),
        classes=shlex.quote(f"{layout.conf}:{plan.class_path}"),
        home=shlex.quote(str(plan.java.home)),
        java=shlex.join(java),
    )


# Writing what a cluster's daemons and its users read; removing all of it.


def write_files(plan: ClusterPlan, layout: Layout) -> None:
    """Write the plan first, then configuration and programs; what was half written is whole then.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    _make(layout.root)
    write_aside(layout.plan, plan.to_json().encode())
    for folder in layout.folders():
        _make(folder)
    for name, properties in shared_sites(plan, layout).items():
        _write(layout.conf / name, site_xml(properties))
    _write(layout.conf / "log4j.properties", LOG4J)
    for number in range(plan.nodes):
        folder = layout.node_conf(number)
        _make(folder)
        _make(layout.node_data(number))
        _make(layout.gpu_program(number).parent)
        _write(layout.node_gpus(number), gpus_xml(plan.cards_of(number)))
        _write(folder / "yarn-site.xml", site_xml(node_site(plan, layout, number)))
    if plan.secure:
        _make(layout.kerberos)
        realm.write_config(plan, layout)
        _make(layout.tls)
        tls.make(layout)
        _write(layout.tls / "ssl-server.xml", site_xml(tls.server_site(layout)))
    for path, text in programs(plan, layout).items():
        _write(path, text)
        path.chmod(0o700)


def remove_files(layout: Layout) -> None:
    """Remove everything of a cluster but its lock, whatever a job has made of its folders' modes.

    Parameters
    ----------
    layout
        The cluster's files.

    Raises
    ------
    OSError
        Something cannot be removed.
    """
    with suppress(FileNotFoundError):
        for folder, names, _ in os.walk(layout.root):
            for name in names:
                path = Path(folder, name)
                if not path.is_symlink() and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
                    path.chmod(0o700)
        shutil.rmtree(layout.root)


def _make(folder: Path) -> None:
    """Make a folder and those above it for the owner alone."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def _write(path: Path, text: str) -> None:
    write_aside(path, text.encode())
