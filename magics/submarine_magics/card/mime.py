"""The card as a mimebundle: each front end takes the form that it knows best."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from IPython import get_ipython
from submarine_engine.events import Moment
from submarine_engine.lifecycle import JobStatus

from submarine_magics import frontend
from submarine_magics.card.html import to_html
from submarine_magics.card.links import with_pages
from submarine_magics.card.model import CardView, view
from submarine_magics.card.record import read_record
from submarine_magics.card.text import to_text

if TYPE_CHECKING:
    from submarine_engine.future import Job

JOB_TYPE = "application/vnd.submarine.job+json"
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"


_styled: list[str | None] = []
"""The cell whose card has the style: the only element, once there is one."""


def static_bundle(
    card: CardView, note: str = "", *, text: bool = False, styled: bool = True
) -> dict[str, Any]:
    """Return the card for front ends without widgets: JSON for ours, HTML, plain text.

    Parameters
    ----------
    note
        For the reader of the HTML.
    text
        Whether the cell writes the job's text below the card: then a front end that follows the job
        by itself need not show it as well.
    styled
        As for `to_html`.
    """
    if frontend.current.widgets:  # Jupyter's: it is saved with the notebook
        card = without_own_pages(card)
    return {
        JOB_TYPE: {
            "version": 2,
            "job_id": card.job_id,
            "cluster": card.cluster,
            "name": card.title,
            "state": card.state,
            "progress": card.progress,
            "log_url": card.log_url,
            "log_label": card.log_label,
            "text": text,
            # All that is drawn at once, as one line of a notebook's file; the script is in the
            # HTML, and the server has it.
            "card": json.dumps(asdict(replace(card, script=None)), ensure_ascii=False),
        },
        "text/html": to_html(card, note, styled=styled),
        "text/plain": to_text(card),
    }


def without_own_pages(card: CardView) -> CardView:
    """Return `card` without addresses of this machine: they hold keys, and end with the kernel."""
    tasks = tuple(
        replace(task, log_url=None) if _is_own(task.log_url) else task for task in card.tasks
    )
    links = tuple((label, url) for label, url in card.links if not _is_own(url))
    log_url = None if _is_own(card.log_url) else card.log_url
    return replace(card, tasks=tasks, links=links, log_url=log_url)


def _is_own(url: str | None) -> bool:
    host = urlsplit(url).hostname if url else None
    try:
        return host == "localhost" or (host is not None and ip_address(host).is_loopback)
    except ValueError:  # a name
        return False


def wants_style() -> bool:
    """Return whether a card that is displayed now has to bring the style.

    The first one of a kernel does, and does again where its cell is run again. Where each output
    is a page of its own (Colab), all do.
    """
    shell = get_ipython()
    kernel = getattr(shell, "kernel", None)
    if kernel is None or "google.colab" in sys.modules or not frontend.current.widgets:
        return True
    parent: dict[str, Any] = kernel.get_parent("shell") or {}
    cell = (parent.get("metadata") or {}).get("cellId")
    if not _styled:
        _styled.append(cell)
        return True
    return cell is not None and _styled == [cell]


def mimebundle(job: Job, status: JobStatus | None = None) -> dict[str, Any]:
    """Return the static card of `job`, as ``Job``'s own display in a notebook."""
    record = with_pages(read_record(job), job)
    card = view(record, status or job.status(), Moment.now())
    return static_bundle(card, styled=wants_style())
