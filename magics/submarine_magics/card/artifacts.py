"""The files that a job has left, as they stand on its card: the first by name, others by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submarine_engine.artifacts import Listing, listing
from submarine_engine.errors import SubmarineError

from submarine_magics.card.nodes import Node, node
from submarine_magics.card.record import job_paths
from submarine_magics.card.throttled_reads import ThrottledReads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from submarine_engine.artifacts import ListedFile
    from submarine_engine.future import Job

_SHOWN = 10
_FEW = 3
"""That many are seen without a click."""

_IN_WORDS = 3
_listings: ThrottledReads[Listing | None] = ThrottledReads(2.0, 256)


def read_listing(job: Job, *, final: bool = False) -> Listing | None:
    """Return what a job has left, as it was some seconds ago at most.

    Parameters
    ----------
    final
        Whether the job is over: then nothing comes any more, and the last of it is wanted.
    """
    paths = job_paths(job)
    if paths is None:
        return None

    def read(_: object) -> Listing | None:
        try:
            return listing(paths, job.cluster.artifacts(job.id), _SHOWN)
        except (OSError, SubmarineError):
            return None

    return _listings.find(f"{paths.root} {final}", read)


def artifacts_node(found: Listing | None, *, served: bool) -> Node | None:
    """Return a list to open; None where there is nothing.

    Parameters
    ----------
    found
        What the job has left; None where nothing is known of it.
    served
        Whether a server sends a file that is clicked at.
    """
    if found is None:
        return None
    summary = node(
        "summary", "",
        node("strong", "label", "Artifacts"), " ", node("span", "quiet", found.words),
    )  # fmt: skip
    rows = [_row(one, served=served) for one in found.files]
    more = node("li", "quiet", f"and {found.more:,} more") if found.more else None
    is_open = {"open": ""} if 0 < len(found.files) <= _FEW else {}
    return node("details", "artifacts", summary, node("ul", "files", *rows, more), **is_open)


def _row(one: ListedFile, *, served: bool) -> Node:
    name: Node = node("span", "name", one.name)
    if served:
        name = node(
            "button", "file", one.name, type_="button", data_action="artifact",
            data_task=one.task, data_path=one.path, title="Download it",
        )  # fmt: skip
    return node("li", "", name, " ", node("span", "quiet", one.size))


def artifacts_lines(found: Listing | None) -> Iterator[str]:
    """Yield what a job has left, `found`, as text; nothing for None."""
    if found is not None:
        named = [f"{one.name} ({one.size})" for one in found.files[:_IN_WORDS]]
        left = found.more + len(found.files) - len(named)
        more = [f"and {left:,} more"] if left else []
        yield f"artifacts: {', '.join((*named, *more)) or found.words}"
