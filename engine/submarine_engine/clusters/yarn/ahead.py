"""What the first job of a notebook would wait for, made ready before it comes.

A kernel leaves a wish in the keeper's folder; the keeper starts skein's driver and the notebook's
warm master, which holds no GPU. Nobody waits for it, and nothing of it fails aloud: the job itself
finds out what is wrong, and says so.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.processes import stat
from submarine_engine.clusters.yarn.application import MASTER_MEMORY
from submarine_engine.clusters.yarn.hdfslogs import Channel
from submarine_engine.clusters.yarn.launch import environment_launch
from submarine_engine.clusters.yarn.master import lives
from submarine_engine.clusters.yarn.queues import master_fits
from submarine_engine.clusters.yarn.warm import has_master, take_master
from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths, read_json, write_json
from submarine_engine.job import JobSpec
from submarine_engine.records import iter_jobs

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.cluster import YarnCluster
    from submarine_engine.clusters.yarn.folder import KeeperFolder
    from submarine_engine.clusters.yarn.keeper import Services

_LOOKED_AT = 50
_SENT = ("pack", ".zip", ".gz", ".tgz", ".tar")


def wish(cluster: YarnCluster, folder: KeeperFolder, notebook: str) -> None:
    """Ask the keeper for what the first job of this process will need.

    Containers of an application have one shape, so it is that of the notebook's last job, else of
    the last job of any notebook, else of a job without options.

    Raises
    ------
    SubmarineError
        The cluster does not answer, or takes no such job.
    OSError
        No keeper can be started.
    """
    last = last_job(folder.home, notebook)
    shape = JobSpec.from_json(last[0]) if last else JobSpec()
    spec = cluster.check(
        JobSpec(
            roles=shape.roles,
            queue=shape.queue,
            docker_image=shape.docker_image,
            environment=shape.environment,
            node_label=shape.node_label,
            notebook=notebook,
        )
    )
    launch = _launch(cluster, spec, last[1] if last else None)
    me = stat(os.getpid())
    if launch is None or me is None:
        return
    folder.make()
    content = {"version": 1, "spec": spec.to_json(), "launch": launch}
    write_json(folder.wishes / f"{os.getpid()}-{me.start}.json", content)
    folder.ensure_keeper()


def _launch(
    cluster: YarnCluster, spec: JobSpec, last: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return what an application has to know; None where that would take packing and sending.

    An archive of the last job is there already.
    """
    if not (spec.environment or "").lower().endswith(_SENT):
        return environment_launch(cluster.conf, spec)
    if last is None:
        return None
    fresh = environment_launch(cluster.conf, replace(spec, environment=None))
    return {**fresh, **{key: last[key] for key in ("python", "archives", "environment", "probed")}}


def last_job(home: Path, notebook: str) -> tuple[Any, dict[str, Any]] | None:
    """Return the spec and ``launch.json`` of the job that the next one will most likely be like."""
    found = list(_warm_jobs(home))
    mine = (one for one in found if one[0].get("notebook") == notebook)
    return next(mine, next(iter(found), None))


def _warm_jobs(home: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the last jobs that notebooks have had on YARN by warm masters, the newest first."""
    for summary in islice(iter_jobs(home), _LOOKED_AT):
        if summary.cluster != "yarn":
            continue
        root = JobPaths(home, summary.id).root
        noted, record = read_json(root / "yarn.json"), read_json(root / "record.json")
        launch = read_json(root / "launch.json")
        if noted and record and launch and noted.get("mode") == "warm":
            yield record["spec"], launch


def heed_wishes(services: Services) -> None:
    """Begin with what notebooks wish for; returns at once."""
    for path in services.folder.wishes.glob("*.json"):
        content = read_json(path)
        with suppress(OSError):
            path.unlink()
        if content is not None:
            arguments = (services, content)
            threading.Thread(target=_fulfil, args=arguments, daemon=True).start()


def _fulfil(services: Services, content: dict[str, Any]) -> None:
    """Start the master of a notebook where it has none and the queue has room; else the driver."""
    launch = content["launch"]
    try:
        spec = JobSpec.from_json(content["spec"])
        warm = services.logs.choice().channel is not Channel.AFTER
        gone = not lives(services.session(launch))
        if not warm or gone or not master_fits(services.rm, spec.queue, MASTER_MEMORY):
            services.driver.start()  # the job will be an application of its own
        elif not has_master(services, spec, launch):
            services.masters.give(take_master(services, spec, launch))
        _ = services.hdfs  # the job asks for it: found out once
    except SubmarineError as error:
        sys.stderr.write(f"nothing is made ready ahead: {error}\n")
