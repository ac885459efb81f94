"""The card as a mimebundle: each front end takes the form that it knows best."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from submarine_engine.events import Moment
from submarine_engine.lifecycle import JobStatus

from submarine_magics.card.html import to_html
from submarine_magics.card.links import with_pages
from submarine_magics.card.model import CardView, view
from submarine_magics.card.record import read_record
from submarine_magics.card.text import to_text

if TYPE_CHECKING:
    from submarine_engine.future import Job

JOB_TYPE = "application/vnd.submarine.job+json"
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"


def static_bundle(card: CardView, note: str = "", *, text: bool = False) -> dict[str, Any]:
    """Return the card for front ends without widgets: JSON for ours, HTML, plain text.

    Parameters
    ----------
    note
        For the reader of the HTML.
    text
        Whether the cell writes the job's text below the card: then a front end that follows the job
        by itself need not show it as well.
    """
    return {
        JOB_TYPE: {
            "version": 1,
            "job_id": card.job_id,
            "cluster": card.cluster,
            "name": card.title,
            "state": card.state,
            "progress": card.progress,
            "log_url": card.log_url,
            "text": text,
            # All that is drawn at once; the script is in the HTML, and the server has it.
            "card": asdict(replace(card, script=None)),
        },
        "text/html": to_html(card, note),
        "text/plain": to_text(card),
    }


def mimebundle(job: Job, status: JobStatus | None = None) -> dict[str, Any]:
    """Return the static card of `job`, as ``Job``'s own display in a notebook."""
    record = with_pages(read_record(job), job)
    return static_bundle(view(record, status or job.status(), Moment.now()))
