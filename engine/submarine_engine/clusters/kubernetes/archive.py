"""What a pod is brought before its task begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_runtime.launcher import ASKED
from submarine_runtime.pod import ROOT
from submarine_runtime.saving import PLACE

from submarine_engine.clusters.kubernetes.files import pack
from submarine_engine.clusters.kubernetes.manifest import chosen, read_volumes
from submarine_engine.clusters.noted_request import beginning

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
    root = Path(ROOT, "job", task)
    plan, launch = beginning(
        job,
        spec,
        root,
        bundle=f"{ROOT}/job/bundle",
        workdir=str(folder) if seen else f"{ROOT}/work",
        runtime=Path(ROOT, "lib/submarine_runtime"),
        outer={"HOME": f"{ROOT}/user", **job.launch["outer"]},
        wanted={PLACE: str(root)},
        python=job.launch.get("task_python"),
    )
    launch |= {"passes_on": True, "tells": ""}
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
            f"{below}/task.json": json.dumps(plan).encode(),
            f"{below}/launch.json": json.dumps(launch).encode(),
            **beside,
        },
    )
