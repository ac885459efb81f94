"""What only this cluster knows: options of a job, and settings."""

from __future__ import annotations

from submarine_engine.declared import Declared
from submarine_engine.job import HOW_GROUP, JOB_GROUP, OptionInfo
from submarine_engine.settings import Key, as_text, read_name, read_path, read_period

NAMED = (
    "service_account",
    "node_selector",
    "tolerations",
    "priority_class",
    "pull_secret",
    "volumes",
    "gpu_resource",
    "environment",
)
"""Options of a name whose default is the setting ``kubernetes_…``."""

_HELP = {
    "service_account": "The service account of its pods",
    "node_selector": "Labels that nodes must have: KEY=VALUE, more after commas",
    "tolerations": "Taints that its pods may meet: KEY[=VALUE][:EFFECT], more after commas",
    "priority_class": "The priority class of its pods",
    "pull_secret": "The secret by which its image is pulled, more after commas",
    "volumes": "Volume claims that its pods see: CLAIM:/PATH, more after commas",
    "gpu_resource": "What the cluster calls its GPUs",
    "environment": "Where its Python comes from: same, pack, or an archive's path",
}

_EXAMPLES = {
    "service_account": '"training"',
    "node_selector": '"gpu=a100"',
    "tolerations": '"nvidia.com/gpu:NoSchedule"',
    "priority_class": '"low"',
    "pull_secret": '"registry"',
    "volumes": '"data:/data"',
    "gpu_resource": '"nvidia.com/gpu"',
    "environment": '"pack"',
}


def _read_user(value: object) -> int:
    """Return the number of a user that is not root."""
    user = int(as_text(value))
    if not 0 < user < 1 << 31:
        raise ValueError("it must be the number of a user that is not root")
    return user


DECLARED = Declared(
    options=tuple(
        OptionInfo(
            name=name,
            kind="path" if name == "environment" else "name",
            help=f"{_HELP[name]}.",
            group=HOW_GROUP if name == "environment" else JOB_GROUP,
        )
        for name in NAMED
    ),
    settings=(
        Key(
            name="kubernetes_config",
            help="The kubeconfig file, unless KUBECONFIG names one.",
            default=lambda: None,
            read=read_path,
            example='"~/.kube/config"',
        ),
        Key(
            name="kubernetes_context",
            help="The context of the kubeconfig; its current one unless given.",
            default=lambda: None,
            read=read_name,
            example='"training"',
        ),
        Key(
            name="kubernetes_namespace",
            help="The namespace of jobs; the context's unless given.",
            default=lambda: None,
            read=read_name,
            example='"research"',
        ),
        Key(
            name="kubernetes_image",
            help="The image of jobs without --docker_image; unset: Python's own of this release.",
            default=lambda: None,
            read=read_name,
            example='"python:3.11-slim"',
        ),
        Key(
            name="kubernetes_python",
            help="The Python interpreter in images.",
            default=lambda: "python3",
            read=read_name,
            example='"/opt/conda/bin/python"',
        ),
        Key(
            name="kubernetes_user",
            help="The number of the user that pods run as; unset: yours, 1000 for root, one that"
            " nobody has on a Kubernetes of your own.",
            default=lambda: None,
            read=_read_user,
            example="1000",
        ),
        Key(
            name="kubernetes_keep",
            help="How long a pod whose task is over keeps its results for a keeper that is away.",
            default=lambda: 3600.0,
            read=read_period,
            example='"1h"',
        ),
        Key(
            name="kubernetes_lease",
            help="How long a task runs on of which no keeper of yours is heard.",
            default=lambda: 7 * 86400.0,
            read=read_period,
            example='"30d"',
        ),
        *(
            Key(
                name=f"kubernetes_{name}",
                help=f"{_HELP[name]} unless a job says another one.",
                default=(lambda: "nvidia.com/gpu") if name == "gpu_resource" else (lambda: None),
                read=read_name,
                example=_EXAMPLES[name],
            )
            for name in NAMED
        ),
    ),
)
