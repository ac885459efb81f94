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


def with_links(record: Record, job: Job) -> Record:
    """Return `record` with the cluster's own pages of the job: the logs', and all the others."""
    try:
        found = dict(job.cluster.links(job.id))
    except (OSError, SubmarineError):
        found = {}
    log_url = found.pop("log", None)
    tasks = {task: found.pop(task) for task in record.spec.tasks if task in found}
    return replace(record, log_url=log_url, links=tuple(found.items()), task_links=tasks)


def with_pages(record: Record, job: Job) -> Record:
    """Return the same with those that are served on this machine, for who sits at it."""
    record = with_links(record, job)
    links = dict(record.links)
    home = getattr(job.cluster, "home", None) or default_home()
    if address := address_beside(home, job.id):
        links["TensorBoard"] = address
    return replace(record, log_url=log_page(job), links=tuple(links.items()))
