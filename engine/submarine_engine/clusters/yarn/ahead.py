"""What a keeper does besides its jobs: what notebooks wish to have ready, and the cleaning up."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.machine import lives
from submarine_engine.clusters.yarn import uploads
from submarine_engine.clusters.yarn.allocator import has_master, take_master
from submarine_engine.clusters.yarn.application import MASTER_MEMORY
from submarine_engine.clusters.yarn.log_transport import Channel
from submarine_engine.clusters.yarn.scheduler import master_fits
from submarine_engine.errors import SubmarineError
from submarine_engine.history import read_json
from submarine_engine.job import JobSpec

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.services import Services

_KEPT = 30 * 24 * 3600.0  # seconds, of what no job has used


def heed_wishes(services: Services) -> None:
    """Begin with what notebooks wish for, by the keeper's folder in `services`; returns at once."""
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


def clean_up(services: Services) -> None:
    """Remove from the HDFS of `services` what no job of the user has used for a long time."""
    with suppress(SubmarineError):
        if services.hdfs is not None:
            uploads.clean(services.hdfs, _KEPT, services.folder.open_jobs())
