"""The programs of a cluster's ``bin``: ``yarn``, ``hdfs``, ``hadoop``, and the one that lists GPUs.

They stand in for Hadoop's own shell scripts, which are not among the jars.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from submarine_engine.installer.layout import Layout
from submarine_engine.installer.plan import Plan

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
        echo {conf}:$(echo {jars}/*.jar | tr ' ' :)
    else
        echo {conf}:{jars}/'*'
    fi
    exit ;;
{cases}
*)
    echo "{name}: there is no '$verb' here; there are: classpath {verbs}" >&2
    exit 64 ;;
esac
exec {java} -cp {conf}:{jars}/'*' "$@"
"""


def programs(plan: Plan, layout: Layout) -> dict[Path, str]:
    """Return the text of each program by path."""
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


def _script(name: str, plan: Plan, layout: Layout) -> str:
    verbs = COMMANDS[name]
    java = [str(plan.java.program), *quick_flags(256), *plan.java.flags()]
    return _SCRIPT.format(
        name=name,
        verbs=" ".join(verbs),
        cases="\n".join(
            f'{verb}) set -- {kind}{" " + verb if verb in _SELF_NAMED else ""} "$@" ;;'
            for verb, kind in verbs.items()
        ),
        conf=shlex.quote(str(layout.conf)),
        jars=shlex.quote(str(plan.jars)),
        home=shlex.quote(str(plan.java.home)),
        java=shlex.join(java),
    )
