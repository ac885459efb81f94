"""What the verbs ``cluster …`` do: a cluster of one's own, started, shown and ended.

That is a Hadoop unless another kind is meant, see `submarine_engine.installer.other_verbs`.
"""

from __future__ import annotations

import time
from pathlib import Path

from submarine_engine.cli.output import FAILED, OK, Output
from submarine_engine.clusters.yarn.hadoop import find_conf
from submarine_engine.command.parser import Command
from submarine_engine.errors import ClusterError, SubmarineError
from submarine_engine.installer import ClusterPlan, DaemonStatus, HadoopCluster, Wanted, other_verbs
from submarine_engine.installer.plan import DEFAULT_NAME
from submarine_engine.installer.realm import REALM, users
from submarine_engine.installer.tls import ca

_PIECE = 1 << 20
_TRUST = (
    "it believes every name, as Hadoop does without Kerberos: who else has an account on this "
    "machine can run code as {user} by it. Use it where you trust them all, and end it when you "
    "are done"
)
_NAP = 0.2  # seconds between looks at a log that is followed: lines of daemons, read by people


def up(command: Command, output: Output) -> int:
    """Start the cluster that `command` names; tell of it on `output` once a job could run."""
    if (found := other_verbs.meant(command)) is not None:
        return other_verbs.up(found, command, output)
    given = command.values
    cluster = _cluster(command)
    plan = cluster.up(
        Wanted(given.get("gpus"), given.get("nodes"), given.get("hdfs"), given.get("secure")),
        report=output.note,
    )
    if output.json:
        output.data(_shape(cluster, plan))
        return OK
    output.line(f"The cluster {cluster.name!r} is up: {_plan_words(plan)}.")
    output.line(f"  ResourceManager  {plan.rm_web}")
    if plan.hdfs:
        output.line(f"  HDFS             {plan.default_fs}  {plan.namenode_web}")
    if plan.secure:
        output.line(f"  Kerberos         {REALM}, users {', '.join(users(plan))}")
        output.line(f"  keytabs          {cluster.layout.kerberos / 'keytabs'}")
        output.line(f"  pages' CA        {ca(cluster.layout)}")
    else:
        output.note(_TRUST.format(user=plan.user))
    output.line(
        "\nJobs go there by --cluster yarn, %submarine use yarn, or SUBMARINE_CLUSTER=yarn."
    )
    programs = f'eval "$(submarine cluster env{_name_option(cluster)})"'
    if other := _other(cluster):
        output.note(
            f"jobs go elsewhere ({other}); in a terminal where they shall go here: {programs}"
        )
    else:
        output.line(f"For the commands yarn and hdfs: {programs}")
    return OK


def _other(cluster: HadoopCluster) -> str:
    """Return why jobs do not go to a cluster that runs; empty where they do."""
    try:
        used = find_conf()
    except SubmarineError as error:
        return error.what
    if used is None or used.path == cluster.layout.conf:
        return ""
    return f"{used.path}, from {used.origin}"


def env(command: Command, output: Output) -> int:
    """Write to `output` what to set for the cluster that `command` names, for ``eval``."""
    if (found := other_verbs.meant(command)) is not None:
        return other_verbs.env(found, output)
    cluster = _cluster(command)
    if output.json:
        output.data(cluster.environment())
    else:
        output.line(other_verbs.exports(cluster.environment(), cluster.layout.bin))
    return OK


def status(command: Command, output: Output) -> int:
    """Show on `output` the daemons of the cluster `command` names, and whether a job could run."""
    if (found := other_verbs.meant(command)) is not None:
        return other_verbs.status(found, output)
    cluster = _cluster(command)
    daemons = cluster.daemons()
    missing = f"there is no cluster {cluster.name!r}{other_verbs.others(cluster.name)}"
    problems = cluster.problems() if daemons else [missing]
    if output.json:
        rows = [{"name": d.name, "pid": d.pid, "web": d.web, "log": str(d.log)} for d in daemons]
        shape = _shape(cluster, cluster.plan) if daemons else {"name": cluster.name}
        output.data({**shape, "ready": not problems, "problems": problems, "daemons": rows})
    else:
        if daemons:
            output.table(
                ("daemon", "pid", "pages"),
                [(d.name, str(d.pid or "ended"), d.web) for d in daemons],
            )
        for problem in problems:
            output.note(f"{problem}; `submarine cluster up{_name_option(cluster)}` mends it")
        if not problems:
            output.line(f"\na job could run: {_plan_words(cluster.plan)}")
    return FAILED if problems else OK


def logs(command: Command, output: Output) -> int:
    """Write to `output` the log of the daemon that `command` names, or list the logs."""
    cluster = other_verbs.meant(command) or _cluster(command)
    wanted = command.values.get("daemon")
    if wanted is not None:
        log = cluster.daemon(wanted).log
        if not log.exists():
            raise ClusterError(
                "the daemon has not been started",
                where=str(log),
                fix=f"start it: `{_up(cluster)}`",
            )
        return _write_log(log, output, follow="follow" in command.values)
    sizes = {
        d.name: (d.log, d.log.stat().st_size if d.log.exists() else 0) for d in _known(cluster)
    }
    if output.json:
        for name, (path, size) in sizes.items():
            output.data({"name": name, "log": str(path), "size": size})
    else:
        rows = [(name, str(size), str(path)) for name, (path, size) in sizes.items()]
        output.table(("daemon", "bytes", "log"), rows)
    return OK


def down(command: Command, output: Output) -> int:
    """End the cluster that `command` names and remove all of it; tell of that on `output`."""
    cluster = other_verbs.meant(command) or _cluster(command)
    there = cluster.down()
    if output.json:
        output.data({"name": cluster.name, "was_there": there})
    else:
        none = f"was not there{other_verbs.others(cluster.name)}"
        gone = "is gone, with all of its files" if there else none
        output.line(f"The cluster {cluster.name!r} {gone}.")
    return OK


def _cluster(command: Command) -> HadoopCluster:
    name = command.values.get("name")
    return HadoopCluster(name=name) if name else HadoopCluster()


def _known(cluster: HadoopCluster | other_verbs.OtherCluster) -> list[DaemonStatus]:
    """Return the daemons of a cluster that is there; `ClusterError` where it is not."""
    return cluster.daemons() if cluster.plan else []


def _name_option(cluster: HadoopCluster) -> str:
    return "" if cluster.name == DEFAULT_NAME else f" --name {cluster.name}"


def _up(cluster: HadoopCluster | other_verbs.OtherCluster) -> str:
    """Return the command that starts a cluster."""
    up = "submarine cluster up"
    if isinstance(cluster, HadoopCluster):
        return f"{up}{_name_option(cluster)}"
    return f"{up} {cluster.kind} --name {cluster.name}"


def _plan_words(plan: ClusterPlan) -> str:
    nodes = f"{plan.nodes} node" + ("s" if plan.nodes > 1 else "")
    kind = "the machine's own" if plan.real else "declared"
    gpus = f"{plan.gpus} GPUs each, {kind}" if plan.gpus else "no GPUs"
    hdfs = "HDFS" if plan.hdfs else "no HDFS"
    return f"{nodes}, {gpus}, {hdfs}{', Kerberos' if plan.secure else ''}"


def _shape(cluster: HadoopCluster, plan: ClusterPlan) -> dict[str, object]:
    return {
        "name": cluster.name,
        "nodes": plan.nodes,
        "gpus": plan.gpus,
        "real_gpus": plan.real,
        "secure": plan.secure,
        "default_fs": plan.default_fs,
        "resourcemanager": plan.rm_web,
        "environment": cluster.environment(),
    }


def _write_log(path: Path, output: Output, *, follow: bool) -> int:
    with path.open("rb") as log:
        while True:
            while piece := log.read(_PIECE):
                if output.json:
                    output.data({"text": piece.decode(errors="replace")})
                else:
                    output.raw("stdout", piece)
            if not follow:
                return OK
            time.sleep(_NAP)
