"""What only this cluster knows: options of a job, and settings."""

from __future__ import annotations

from submarine_engine.command.values import did_you_mean
from submarine_engine.declared import Declared
from submarine_engine.job import JOB_GROUP, OptionInfo
from submarine_engine.settings import Key, read_name, read_path, read_tables

SLURM_CONF = Key(
    name="slurm_conf",
    help="Slurm's configuration file, unless SLURM_CONF names one.",
    default=lambda: None,
    read=read_path,
    example='"/etc/slurm/slurm.conf"',
)

NAMED = ("account", "qos", "constraint", "reservation", "gpu_type")
"""Options of a name whose default is that of the partition, else the setting ``slurm_…``."""

_HELP = {
    "account": "The account that Slurm charges",
    "qos": "The quality of service",
    "constraint": "Features that nodes must have, as sbatch takes them",
    "reservation": "The reservation to run in",
    "gpu_type": "The type of GPU, as the cluster names its gres",
}

PYXIS = "pyxis"
APPTAINERS = ("apptainer", "singularity")
"""Programs that run an image by the same command line."""


def _read_runner(value: object) -> str:
    """Return what runs images on a site's nodes."""
    name = read_name(value)
    if name not in (PYXIS, *APPTAINERS):
        raise ValueError(f"it must be {PYXIS}, {' or '.join(APPTAINERS)}")
    return name


def _read_partitions(value: object) -> dict[str, dict[str, str]]:
    """Return what holds for jobs of a partition unless they say otherwise, by the partition."""
    tables = read_tables(value)
    for partition, table in tables.items():
        for name, one in table.items():
            where = f"of the partition {partition!r}"
            if name not in NAMED:
                hint = did_you_mean(name, NAMED)
                raise ValueError(
                    f"there is no {name!r} {where}; {hint}these are {', '.join(NAMED)}"
                )
            try:
                read_name(one)
            except ValueError as error:
                raise ValueError(f"{name} {where} is {one!r}, and {error}") from None
    return {name: {key: str(one) for key, one in table.items()} for name, table in tables.items()}


DECLARED = Declared(
    options=(
        *(
            OptionInfo(name=name, kind="name", help=f"{_HELP[name]}.", group=JOB_GROUP)
            for name in NAMED
        ),
        OptionInfo(
            name="mounts",
            kind="name",
            help="Folders of the nodes that its image is shown besides: /DATA, more after commas.",
            group=JOB_GROUP,
        ),
        OptionInfo(
            name="nice",
            kind="count",
            help="How much its priority in Slurm is lowered.",
            group=JOB_GROUP,
        ),
        OptionInfo(
            name="exclusive",
            kind="switch",
            help="Whether its nodes run no other job.",
            group=JOB_GROUP,
        ),
    ),
    settings=(
        SLURM_CONF,
        Key(
            name="slurm_partition",
            help="The partition of jobs without --queue; Slurm's default one unless given.",
            default=lambda: None,
            read=read_name,
            example='"gpu"',
        ),
        *(
            Key(
                name=f"slurm_{name}",
                help=f"{_HELP[name]} unless a job says another one.",
                default=lambda: None,
                read=read_name,
                example='"a100"' if name == "gpu_type" else f'"{name}"',
            )
            for name in NAMED
        ),
        Key(
            name="slurm_partitions",
            help="What holds for jobs of a partition, by its name, before the setting for all.",
            default=dict,
            read=_read_partitions,
            example='{gpu = {account = "lab", gpu_type = "a100"}}',
        ),
        Key(
            name="slurm_python",
            help="The Python interpreter on Slurm's nodes; unset: this one's path.",
            default=lambda: None,
            read=read_name,
            example='"/usr/bin/python3"',
        ),
        Key(
            name="slurm_containers",
            help="What runs --docker_image on Slurm's nodes: pyxis, apptainer or singularity; "
            "unset: what is found here.",
            default=lambda: None,
            read=_read_runner,
            example='"apptainer"',
        ),
        Key(
            name="slurm_image_python",
            help="The Python interpreter in images of jobs on Slurm.",
            default=lambda: "python3",
            read=read_name,
            example='"/opt/conda/bin/python"',
        ),
        Key(
            name="slurm_mounts",
            help="Folders of Slurm's nodes that images are shown unless a job says others.",
            default=lambda: None,
            read=read_name,
            example='"/data,/scratch"',
        ),
    ),
)
