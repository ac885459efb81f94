"""What a pod is brought before its task begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_runtime.launcher import ASKED
from submarine_runtime.pod import ROOT
from submarine_runtime.saving import PLACE

from submarine_engine.clusters.environment import file_address, job_environment
from submarine_engine.clusters.kubernetes.files import pack
from submarine_engine.clusters.kubernetes.manifest import chosen, read_volumes
from submarine_engine.clusters.store import task_plan
from submarine_engine.history import TaskPaths
from submarine_engine.secret_values import noted_values

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import KeptJob
    from submarine_engine.job import JobSpec


def task_archive(job: KeptJob, spec: JobSpec, task: str) -> bytes:
    """Return what a task's pod is brought, as an archive: runtime, bundle and plan.

    Parameters
    ----------
    job
        The job's attempt.
    spec
        With as many workers as it has.
    task
        Whose pod.
    """
    volumes = read_volumes(chosen(spec, "volumes"))
    folder = Path(str(job.record["workdir"]))
    seen = any(folder.is_relative_to(path) for path in volumes)
    workdir, task_root = str(folder) if seen else f"{ROOT}/work", Path(ROOT, "job", task)
    plan = task_plan(
        spec,
        task,
        job_id=job.paths.job_id,
        bundle=f"{ROOT}/job/bundle",
        entry=job.launch["entry"],
        workdir=workdir,
        home=job.launch["home"],
        attempt=job.attempt,
    )
    role = next(role for role in spec.roles if task in role.tasks)
    environment = job_environment(
        {"HOME": f"{ROOT}/user", **job.launch["outer"]},
        {PLACE: str(task_root), **spec.env, **noted_values(job.paths.root)},
        job_id=job.paths.job_id,
        task=TaskPaths(task_root),
        vcores=role.resources.vcores,
        input_path=file_address(spec.input_path or "", ""),
        checkpoint_path=file_address(spec.checkpoint_path or "", ""),
    )
    lib = f"{ROOT}/lib/submarine_runtime"
    python = job.launch.get("task_python") or job.launch["python"]
    launch = {
        "gpus": role.resources.gpus or 0,
        "command": [python, "-u", f"{lib}/__main__.py", str(task_root)],
        "environment": environment,
        "workdir": workdir,
        "inside": f"{lib}/inside.py",
        "artifacts": f"{lib}/artifacts.py",
        "passes_on": True,
        "tells": "",
    }
    below = f"job/{task}"
    beside = {
        f"work/{name}": (job.paths.bundle / name).read_bytes() for name in job.launch["beside"]
    }
    return pack(
        {"job/bundle": job.paths.bundle},
        {
            f"{below}/": b"",
            f"{below}/logdir/": b"",
            f"{below}/artifacts/": b"",
            f"{below}/{ASKED}": b"",
            f"{below}/task.json": json.dumps({**plan, "results": "."}).encode(),
            f"{below}/launch.json": json.dumps(launch).encode(),
            **beside,
        },
    )
