"""The job card: one view model, shown as a live widget, as static HTML and as plain text."""

from submarine_magics.card.display import JobCard, mimebundle, preload, show_job
from submarine_magics.card.model import CardView, view
from submarine_magics.card.record import Record, read_record

__all__ = [
    "CardView",
    "JobCard",
    "Record",
    "mimebundle",
    "preload",
    "read_record",
    "show_job",
    "view",
]
