"""A request to try a served model by, on the card of what serves it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from submarine_engine.errors import SubmarineError
from submarine_engine.future import Job
from submarine_engine.history import default_home
from submarine_engine.job import JobSpec

from submarine_magics.card.nodes import Node, node
from submarine_magics.card.words import visible_lines

_LONGEST = 8000
"""Characters of an example on a card, which is sent whole at each change."""
_ROWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Trying:
    """Where a request to a served model goes, and what one may look like.

    Parameters
    ----------
    port
        Where the front listens.
    path
        Relative to the front's address.
    body
        An example, in JSON; empty where it is too long for a card.
    """

    port: int
    path: str
    body: str


def read_trying(job: Job, spec: JobSpec) -> Trying | None:
    """Return how to try the model that a job serves; None where it is no front, or not ready.

    Parameters
    ----------
    job, spec
        The job, and what it was asked to run.
    """
    # Late: what serves loads more than most cards need.
    from submarine_engine.serving.record import ServingRecord, servings_of  # noqa: PLC0415
    from submarine_engine.serving.try_page import example  # noqa: PLC0415

    home = getattr(job.cluster, "home", None) or default_home()
    try:
        folder = servings_of(home) / (spec.name or "")
        if not spec.name or not folder.is_dir():
            return None
        record = ServingRecord.read(folder)
    except (SubmarineError, OSError, ValueError):
        return None
    told = record.told()
    if record.job != job.id or told.job != job.id or not told.serves:
        return None
    path, body = example(told.server or "mlflow", record.name, record.takes)
    text = json.dumps(body)
    return Trying(port=record.port, path=path, body=text if len(text) <= _LONGEST else "")


def try_node(trying: Trying) -> Node:
    """Return the form of `trying`: what to send, and a place for the answer, only ever text."""
    body = node(
        "textarea", "body", visible_lines(trying.body, _LONGEST), rows=str(_ROWS), name="body",
        spellcheck="false", aria_label="A request to the model, in JSON",
    )  # fmt: skip
    summary = node(
        "summary", "",
        node("strong", "label", "Try it"), " ", node("span", "quiet", f"POST {trying.path}"),
    )  # fmt: skip
    send = node("button", "button", "Send", type_="submit", data_slot="sends")
    page = node(
        "button", "button", "Open page", type_="button", data_action="page-of-port",
        data_to=f"{trying.port}/", title="The same on a page of its own",
    )  # fmt: skip
    told = node("span", "quiet", "", data_slot="tried", role="status", hidden="")
    failed = node("div", "error", "", data_slot="untried", role="alert", hidden="")
    answer = node(
        "pre", "code", "", data_slot="answer", tabindex="0", aria_label="The answer", hidden=""
    )
    form = node(
        "form", "trying", body, node("div", "", send, " ", page, " ", told), failed, answer,
        data_slot="try", data_to=f"{trying.port}/{trying.path}", aria_label="Try the model",
    )  # fmt: skip
    return node("details", "try", summary, form, open="")
