"""What only this cluster knows: options of a job, and settings."""

from __future__ import annotations

import re

from submarine_engine.declared import Declared
from submarine_engine.job import HOW_GROUP, JOB_GROUP, OptionInfo
from submarine_engine.settings import Key, read_name, read_path, read_period, read_switch

MODES = ("auto", "warm", "cold")
"""Warm: through an application that is kept for the notebook. Cold: one application per job."""


def _read_way(value: object) -> str:
    if value not in ("auto", "nodes", "hdfs", "after"):
        raise ValueError("it must be auto, nodes, hdfs or after")
    return str(value)


def _read_principal(value: object) -> str:
    name = read_name(value)
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?(@\w[\w.-]*)?", name, re.ASCII):
        raise ValueError("it must be a principal, as in ana@EXAMPLE.COM")
    return name


_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def read_viewers(text: str) -> list[str]:
    """Return the users whom `text`, the value of the option ``view_users``, names.

    Raises
    ------
    ValueError
        One is no user's name, as YARN's access lists take them.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not _USER.fullmatch(name):
            raise ValueError(f"{name!r} is no user's name")
    return names


HADOOP_CONF_DIR = Key(
    name="hadoop_conf_dir",
    help="The folder of YARN's configuration, unless HADOOP_CONF_DIR names one.",
    default=lambda: None,
    read=read_path,
    example='"/etc/hadoop/conf"',
)

DECLARED = Declared(
    verbs="submarine_engine.clusters.yarn.verbs:GROUP",
    options=(
        OptionInfo(
            name="node_label",
            kind="name",
            help="Nodes to run on, by the cluster's label.",
            group=JOB_GROUP,
        ),
        OptionInfo(
            name="priority",
            kind="count",
            help="Its priority in the queue; higher comes first.",
            group=JOB_GROUP,
        ),
        OptionInfo(
            name="view_users",
            kind="name",
            help="Who else may see its log and pages, as in bob,carol; not end or change it.",
            group=JOB_GROUP,
        ),
        OptionInfo(
            name="mode",
            kind="name",
            help="Warm (an application kept for the notebook), cold (one of its own) or auto.",
            group=HOW_GROUP,
            choices=MODES,
            passed_over=True,
        ),
        OptionInfo(
            name="environment",
            kind="path",
            help="Where its Python comes from: same, pack, or an archive's path.",
            group=HOW_GROUP,
        ),
    ),
    settings=(
        HADOOP_CONF_DIR,
        Key(
            name="yarn_ahead",
            help="Whether a notebook's application on YARN starts ahead of its first job.",
            default=lambda: True,
            read=read_switch,
            example="false",
        ),
        Key(
            name="yarn_ca",
            help="Certificates (PEM) of who certifies the https pages of YARN and HDFS; unset: "
            "as Hadoop's configuration says (submarine.yarn.ca), else REQUESTS_CA_BUNDLE, else "
            "whom this machine trusts.",
            default=lambda: None,
            read=read_path,
            example='"/etc/hadoop/ca.pem"',
        ),
        Key(
            name="yarn_idle",
            help="Seconds after which a notebook's warm application on YARN ends, once idle.",
            default=lambda: 900.0,
            read=read_period,
            example='"15m"',
        ),
        Key(
            name="yarn_keytab",
            help="A keytab by which tickets are taken, for jobs of days; with yarn_principal.",
            default=lambda: None,
            read=read_path,
            example='"~/ana.keytab"',
        ),
        Key(
            name="yarn_lease",
            help="Seconds that a job waits on for GPUs of YARN after its notebook has died.",
            default=lambda: 30.0,
            read=read_period,
            example='"1m"',
        ),
        Key(
            name="yarn_logs",
            help="The way of logs on YARN: nodes, hdfs, after (the end), or auto: what works here.",
            default=lambda: "auto",
            read=_read_way,
            example='"hdfs"',
        ),
        Key(
            name="yarn_principal",
            help="Whose that keytab is, as Kerberos names them.",
            default=lambda: None,
            read=_read_principal,
            example='"ana@EXAMPLE.COM"',
        ),
        Key(
            name="yarn_python",
            help="The Python interpreter on YARN's nodes; unset: this one's path.",
            default=lambda: None,
            read=read_name,
            example='"/usr/bin/python3"',
        ),
    ),
)
