"""The web pages of a job as they are now: a container's come and go with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from submarine_engine.errors import SubmarineError
from submarine_engine.history import default_home
from submarine_engine.tensorboard.beside import address_beside

from submarine_magics.card.pages import log_page

if TYPE_CHECKING:
    from submarine_engine.future import Job

    from submarine_magics.card.record import Record


def with_pages(record: Record, job: Job) -> Record:
    """Return `record` with the pages of the job as they are now: they come and go with it."""
    try:
        found = job.cluster.links(job.id)
    except (OSError, SubmarineError):
        found = {}
    home = getattr(job.cluster, "home", None) or default_home()
    if address := address_beside(home, job.id):
        found["TensorBoard"] = address
    tasks = set(record.spec.tasks)
    return replace(
        record,
        log_url=log_page(job),
        links=tuple((k, v) for k, v in found.items() if k != "log" and k not in tasks),
        task_links={task: url for task, url in found.items() if task in tasks},
    )
