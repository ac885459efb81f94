"""What a job asks of Kubernetes: the manifest of each of its pods.

Plain pods, and no Job of the cluster's own: the driver owns retries, which go on from a checkpoint
and may have another number of workers; tasks of different roles ask for different things, where the
pods of an Indexed Job are all alike; and a job of several is given back whole, to wait again, where
not all of its pods find room.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from submarine_runtime.pod import HEARD, ROOT

from submarine_engine.config import load_config
from submarine_engine.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from submarine_engine.job import JobSpec, Role

OWNER = "submarine/owner"
JOB = "submarine/job"
ATTEMPT = "submarine/attempt"
TASK = "submarine/task"
"""Labels of pods: the home that its job is kept in, and what of it the pod is."""

TASK_CONTAINER = "task"
FILES_CONTAINER = "files"
"""A pod's containers: one runs the task, one stays until its files are home."""

_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
_KUEUE_COUNT = "kueue.x-k8s.io/pod-group-total-count"
_KUEUE_AGAIN = "kueue.x-k8s.io/retriable-in-group"

NOBODY_CAME = "nobody has brought this pod its job"
"""The last word of a pod that has waited for its files in vain."""

_BOOT = f"""\
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
patience = float(sys.argv[1])
until = time.monotonic() + patience
while not os.path.exists("{ROOT}/ready"):
    if time.monotonic() > until:
        try:
            silent = time.time() - os.stat("{ROOT}/{HEARD}").st_mtime
        except OSError:
            silent = patience
        if silent >= patience:
            sys.exit("{NOBODY_CAME}")
        until += patience - silent
    time.sleep(0.02)
os.execv(sys.executable, [sys.executable, "-I", *sys.argv[2:]])
"""
"""What both containers begin with: the job's files come by the second one, and may be large."""

_FOR_FILES = {"cpu": "0", "memory": "64Mi"}  # a task of all of a node's processors fits
_MOST_FOR_FILES = {"cpu": "1", "memory": "256Mi"}
_GRACE_MORE = 15.0  # seconds after a task's grace to bring home what it has left
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def pod_name(job_id: str, attempt: int, turn: int, task: str) -> str:
    """Return what the pod of a task is called, by which it is found again.

    Parameters
    ----------
    job_id, attempt, task
        Which.
    turn
        How often the attempt was given back before, since not all of it found room.
    """
    return f"submarine-{job_id}-{attempt}-{turn}-{task}".lower()


def chosen(spec: JobSpec | None, name: str) -> str | None:
    """Return the value of an option of `options.NAMED`, the setting's where the job has none.

    Parameters
    ----------
    spec
        The job; None for what the setting has for all jobs.
    name
        The option's.
    """
    asked = spec.options.get(name) if spec is not None else None
    value = asked or load_config().value(f"kubernetes_{name}")
    return str(value) if value else None


def gpu_resource(spec: JobSpec | None = None) -> str:
    """Return what the cluster calls the GPUs that the job `spec`, else any, asks for."""
    return chosen(spec, "gpu_resource") or "nvidia.com/gpu"


def image_of(spec: JobSpec, clusters: str | None = None) -> str:
    """Return a job's image.

    Parameters
    ----------
    spec
        The job.
    clusters
        The one that the cluster itself has, where there is such a one.
    """
    plain = f"docker.io/library/python:{sys.version_info[0]}.{sys.version_info[1]}-slim"
    return str(spec.docker_image or load_config().value("kubernetes_image") or clusters or plain)


def node_labels(spec: JobSpec | None = None) -> dict[str, str]:
    """Return the labels that the nodes of a job must have.

    Parameters
    ----------
    spec
        The job; None for the labels that the setting has for all jobs.

    Raises
    ------
    CommandError
        They are none.
    """
    return read_pairs(chosen(spec, "node_selector"), "node_selector")


def read_pairs(text: str | None, option: str) -> dict[str, str]:
    """Read ``KEY=VALUE,KEY=VALUE``.

    Parameters
    ----------
    text
        What somebody wrote; None or empty for no pair.
    option
        The name of the option that it is the value of, for the error.

    Raises
    ------
    CommandError
        It is something else.
    """
    found = {}
    for part in _parts(text):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise CommandError(
                f"{part!r} is no label",
                where=f"--{option}",
                fix="write KEY=VALUE, more of them after commas",
            )
        found[key.strip()] = value.strip()
    return found


def read_tolerations(text: str | None) -> list[dict[str, str]]:
    """Read ``KEY[=VALUE][:EFFECT],…``; raises as `read_pairs`.

    Parameters
    ----------
    text
        What somebody wrote; None or empty for none.
    """
    found = []
    for part in _parts(text):
        label, _, effect = part.partition(":")
        key, equals, value = label.partition("=")
        if not key or (effect and effect not in _EFFECTS):
            raise CommandError(
                f"{part!r} is no toleration",
                where="--tolerations",
                fix=f"write KEY[=VALUE][:EFFECT]; effects are {', '.join(_EFFECTS)}",
            )
        one = {"key": key, "operator": "Equal" if equals else "Exists"}
        found.append({
            **one, **({"value": value} if equals else {}), **({"effect": effect} if effect else {}),
        })  # fmt: skip
    return found


def tolerations_of(spec: JobSpec | None = None) -> list[dict[str, str]]:
    """Return the taints that a job's pods are likely to meet, before there are any to tell.

    Clouds have pods tolerate the taint of the GPUs that they ask for (ExtendedResourceToleration).

    Parameters
    ----------
    spec
        The job; None for one with GPUs, as the settings have it.
    """
    own = {"key": gpu_resource(spec), "operator": "Exists", "effect": "NoSchedule"}
    asks = spec is None or spec.gpus
    return [*read_tolerations(chosen(spec, "tolerations")), *([own] if asks else [])]


def read_volumes(text: str | None) -> dict[str, str]:
    """Read ``CLAIM:/PATH,…``: the claims of volumes by where pods see them; as `read_pairs`.

    Parameters
    ----------
    text
        What somebody wrote; None or empty for none.
    """
    found = {}
    for part in _parts(text):
        claim, colon, path = part.partition(":")
        if not colon or not _NAME.fullmatch(claim) or not path.startswith("/") or path == "/":
            raise CommandError(
                f"{part!r} is no volume",
                where="--volumes",
                fix="write CLAIM:/PATH, the name of a PersistentVolumeClaim and where pods see it",
            )
        if path == ROOT or path.startswith(f"{ROOT}/"):
            raise CommandError(
                f"{ROOT} is where the job's own files are",
                where="--volumes",
                fix="choose another path",
            )
        found[path] = claim
    return found


def _parts(text: str | None) -> Iterator[str]:
    return filter(None, (part.strip() for part in (text or "").split(",")))


def manifests(  # noqa: PLR0913 - each by its name
    spec: JobSpec,
    *,
    job_id: str,
    attempt: int,
    turn: int,
    owner: str,
    launch: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Return the manifests of a job's pods by task.

    Nothing of them is secret: what a task is given comes later, and by another way.

    Parameters
    ----------
    spec
        With as many workers as are asked for.
    job_id, attempt, turn
        As `pod_name` has them.
    owner
        Of what home the job is.
    launch
        What `KubernetesBackend.prepare` returned.

    Raises
    ------
    CommandError
        An option is none.
    """
    return {
        task: _manifest(
            spec,
            role,
            name=pod_name(job_id, attempt, turn, task),
            labels={OWNER: owner, JOB: job_id, ATTEMPT: str(attempt), TASK: task},
            task=task,
            launch=launch,
        )
        for role in spec.roles
        for task in role.tasks
    }


def _manifest(  # noqa: PLR0913 - each by its name
    spec: JobSpec,
    role: Role,
    *,
    name: str,
    labels: dict[str, str],
    task: str,
    launch: Mapping[str, Any],
) -> dict[str, Any]:
    annotations = {"submarine/name": spec.name or ""}
    if spec.queue:
        labels = {**labels, _KUEUE_QUEUE: spec.queue}
        if len(spec.tasks) > 1:
            labels[_KUEUE_GROUP] = name.removesuffix(f"-{task}")
            annotations[_KUEUE_COUNT] = str(len(spec.tasks))
            # The driver begins jobs again, as another group: Kueue waits for no pod in a lost one's
            # place, and lets go of the others.
            annotations[_KUEUE_AGAIN] = "false"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": _pod_spec(spec, role, task, launch),
    }


def _pod_spec(spec: JobSpec, role: Role, task: str, launch: Mapping[str, Any]) -> dict[str, Any]:
    python, image = launch["python"], launch["image"]
    volumes = read_volumes(chosen(spec, "volumes"))
    claims = {claim: f"claim-{n}" for n, claim in enumerate(sorted(set(volumes.values())))}
    own = {"name": "submarine", "mountPath": ROOT}
    mounts = [{"name": claims[claim], "mountPath": path} for path, claim in volumes.items()]
    begins = [python, "-I", "-c", _BOOT, str(launch["begins_within"])]
    runtime = f"{ROOT}/lib/submarine_runtime"
    times = [str(launch[name]) for name in ("keep", "lease", "grace")]
    common = {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "workingDir": ROOT,
        # What ends one before it is ours is said there alone, such as by a Python for another
        # processor; whoever has our role reads no logs.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    fields = {"SUBMARINE_HOST": "status.podIP", "SUBMARINE_NODE": "spec.nodeName"}
    containers = [
        {
            **common,
            "name": TASK_CONTAINER,
            "command": [*begins, f"{runtime}/launcher.py", f"{ROOT}/job", task],
            "resources": _resources(spec, role),
            "env": [
                {"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for key, path in fields.items()
            ],
            "volumeMounts": [own, *mounts],
        },
        {
            **common,
            "name": FILES_CONTAINER,
            "command": [*begins, f"{runtime}/pod.py", "keep", ROOT, task, *times],
            "resources": {"requests": _FOR_FILES, "limits": _MOST_FOR_FILES},
            "volumeMounts": [own, *mounts],  # the interpreter may lie there
        },
    ]
    pod: dict[str, Any] = {
        "restartPolicy": "Never",  # the driver begins jobs again
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": int(float(launch["grace"]) + _GRACE_MORE),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": launch["user"],
            "runAsGroup": launch["user"],
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": containers,
        "volumes": [
            {"name": "submarine", "emptyDir": {}},
            *(
                {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
                for claim, volume in claims.items()
            ),
        ],
    }
    if selector := node_labels(spec):
        pod["nodeSelector"] = selector
    if tolerations := read_tolerations(chosen(spec, "tolerations")):
        pod["tolerations"] = tolerations
    if account := chosen(spec, "service_account"):
        pod["serviceAccountName"] = account
    if priority := chosen(spec, "priority_class"):
        pod["priorityClassName"] = priority
    if secrets := list(_parts(chosen(spec, "pull_secret"))):
        pod["imagePullSecrets"] = [{"name": name} for name in secrets]
    return pod


def _resources(spec: JobSpec, role: Role) -> dict[str, dict[str, str]]:
    """Return what a task asks for; nothing is limited that was not asked for."""
    asked = role.resources
    requests, limits = {}, {}
    if asked.vcores:
        requests["cpu"] = str(asked.vcores)
    if asked.memory:
        requests["memory"] = limits["memory"] = f"{asked.memory}Mi"
    if asked.gpus:  # the cluster wants both alike
        name = gpu_resource(spec)
        requests[name] = limits[name] = str(asked.gpus)
    return {"requests": requests, "limits": limits}
