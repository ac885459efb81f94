"""Options of Hadoop Submarine that this release refuses, each with the reason and the way out.

A pasted command line is never half obeyed: an option that has no meaning yet is an error that says
so. The names are those of Submarine's ``job run`` (its command line guide, release 0.5).
"""

from __future__ import annotations

from submarine_engine.command.model import Option

_LEAVE = "leave it out"
_KERBEROS = ("no cluster of this release uses Kerberos", _LEAVE)
_IMAGE = ("all containers of a job start from one image", "give it by --docker_image")
_MXNET = ("there is no scheduler role for MXNet in this release", _LEAVE)

REASONS = {
    "framework": (
        "the code runs as it is: TF_CONFIG and its kin are not set in this release",
        "leave it out",
    ),
    "keytab": _KERBEROS,
    "principal": _KERBEROS,
    "distribute_keytab": _KERBEROS,
    "insecure": _KERBEROS,
    "localization": (
        "files are not copied into containers in this release",
        "Python files that the code imports travel by themselves; data: --input_path",
    ),
    "worker_docker_image": _IMAGE,
    "ps_docker_image": _IMAGE,
    "tensorboard_docker_image": _IMAGE,
    "tensorboard_resources": ("TensorBoard takes no resources of its own", _LEAVE),
    "conf": (
        "no cluster of this release takes Hadoop's properties",
        "leave it out; Submarine's own settings: `submarine config show`",
    ),
    "f": ("a job is not read from a YAML file", "write its options on the command line"),
    "saved_model_path": (
        "models are not served by this release",
        "write the model below --checkpoint_path",
    ),
    "num_schedulers": _MXNET,
    "scheduler_resources": _MXNET,
    "scheduler_launch_cmd": _MXNET,
    "scheduler_docker_image": _MXNET,
}

REFUSED = tuple(
    Option(name=name, help=f"Refused: {why}. Instead: {way_out}.", refused=(why, way_out))
    for name, (why, way_out) in REASONS.items()
)
