"""The verbs ``cluster …``: a YARN, a Slurm, a Kubernetes of one's own on this machine.

One group has one declaration, and YARN is the kind that they mean unless told; what they do for the
other kinds is `installer.other_verbs`. They are not declared in `installer`, which loads Hadoop's
plans: help and completion read this module at each key.
"""

from __future__ import annotations

from submarine_engine.command.grammar import Group, Verb
from submarine_engine.command.options import COUNT, IN_TERMINAL, NAME, SWITCH, Argument, Option

_HANDLERS = "submarine_engine.clusters.yarn.own_cluster"
_NAME = Option("name", NAME, "What the cluster is called; its kind's name unless given.")

GROUP = Group("cluster", "Have a YARN, a Slurm or a Kubernetes of your own on this machine.",
    Verb("cluster up",
        "Start a cluster of your own on this machine; return when a job could run.",
        Argument("kind", NAME, "yarn, unless given, slurm or kubernetes.", required=False),
        Option("gpus", COUNT,
            "GPUs of each node; this machine's own, or four declared ones, unless given."),
        Option("nodes", COUNT, "Nodes; one unless given."),
        Option("hdfs", SWITCH,
            "Whether there is an HDFS; there is unless false. Also --no-hdfs: the cluster's files "
            "are this machine's."),
        Option("secure", SWITCH,
            "Whether it asks for Kerberos, of a realm of its own, with users alice and bob beside "
            "you; not unless given."),
        Option("kubernetes_version", NAME,
            "Of a Kubernetes: one that is pinned; the error names them."),
        _NAME,
        details="Real Hadoop daemons on loopback, from jars that Maven fetches once, an installed "
            "Slurm's, or Kubernetes' own, which Go builds once. What is up stays as it is, and "
            "what was interrupted is finished. "
            "The daemons stay until `cluster down`.",
        examples=("cluster up", "cluster up --gpus 2 --nodes 3 --name three",
            "cluster up --secure", "cluster up slurm --nodes 2",
            "cluster up kubernetes --nodes 2"),
        surfaces=IN_TERMINAL, run=f"{_HANDLERS}:up"),
    Verb("cluster env", "Write what to set so that programs find the cluster, for `eval`.",
        _NAME, examples=("cluster env",), surfaces=IN_TERMINAL, run=f"{_HANDLERS}:env"),
    Verb("cluster status", "Show the cluster's daemons, and whether a job could run.",
        _NAME, examples=("cluster status",), surfaces=IN_TERMINAL, run=f"{_HANDLERS}:status"),
    Verb("cluster logs", "Write the log of a daemon, or list the logs.",
        Argument("daemon", NAME, "resourcemanager, namenode, datanode or nodemanager-N.",
            required=False),
        _NAME,
        Option("follow", None, "Go on until Ctrl-C.", short="f"),
        examples=("cluster logs", "cluster logs nodemanager-0 --follow"),
        surfaces=IN_TERMINAL, run=f"{_HANDLERS}:logs"),
    Verb("cluster down", "End the cluster's daemons and jobs, and remove all of it.",
        _NAME, examples=("cluster down",), surfaces=IN_TERMINAL, run=f"{_HANDLERS}:down"),
)  # fmt: skip
