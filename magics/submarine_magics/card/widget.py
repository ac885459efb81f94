"""The live card: an anywidget view that Python feeds by traits and that asks to cancel.

Only imported where anywidget is installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anywidget
import traitlets
from ipykernel.connect import get_connection_file

from submarine_magics.card.model import CardView
from submarine_magics.card.tree import card_tree, footer_tree, module, script_tree, style

# What a Jupyter server calls the kernel's connection file; its kernel id is in the name.
_CONNECTION_FILE = re.compile(r"kernel-([0-9a-f-]{36})\.json$")

_KEPT = 2000
"""Characters of a script that the card of a job that is over goes on holding."""


class CardWidget(anywidget.AnyWidget):
    """The live view of one job.

    Parameters
    ----------
    card
        What to show first.
    at
        When that was so, in seconds since the epoch: running times go on from there.
    blocking
        Whether the cell that runs now waits for this job: then the kernel's interrupt cancels it.
    cancel_url
        Where a POST cancels the job, on the kernel's machine; empty where nowhere.
    on_cancel
        Called when the reader asks to cancel and the kernel hears the message.
    """

    _esm = module("widget.js")
    _css = style()

    tree: traitlets.List[Any] = traitlets.List().tag(sync=True)
    rest: traitlets.List[Any] = traitlets.List().tag(sync=True)
    at = traitlets.Float().tag(sync=True)
    kernel = traitlets.Unicode().tag(sync=True)
    cancel = traitlets.Unicode().tag(sync=True)
    blocking = traitlets.Bool().tag(sync=True)
    heard = traitlets.Bool().tag(sync=True)

    def __init__(
        self,
        card: CardView,
        at: float,
        *,
        blocking: bool,
        cancel_url: str,
        on_cancel: Callable[[], object],
    ) -> None:
        super().__init__(
            tree=card_tree(card, live=True).to_json(),
            rest=_rest(card),
            at=at,
            kernel=kernel_id(),
            cancel=cancel_url,
            blocking=blocking,
        )
        self._on_cancel = on_cancel
        self.on_msg(self._take)

    def show(self, card: CardView, at: float, *, blocking: bool) -> None:
        """Show `card` as it was at the time `at` (seconds since the epoch), in one message.

        Once the job is over this holds little of it, but is never closed: that would take the card
        out of pages that were reloaded while the job ran, which know the widget alone. Views that
        are there keep their script; one that is made later shows its beginning.
        """
        with self.hold_sync():
            self.tree = card_tree(card, live=True).to_json()
            self.blocking = blocking
            self.at = at
            if card.final:
                self.rest = _rest(_shortened(card))
                self.cancel = ""  # its address holds a key
                self._on_cancel = _nothing

    def _take(self, _: object, content: Any, __: object) -> None:  # noqa: ANN401 - from outside
        if isinstance(content, dict) and content.get("cancel") is True:
            self.heard = True
            self._on_cancel()


def _rest(card: CardView) -> list[Any]:
    """Return what never changes of the card: its script, and where its log is."""
    where = card.log_path or "the job's folder"
    script = [script_tree(card.script, where)] if card.script else []
    return [part.to_json() for part in (*script, footer_tree(card))]


def _shortened(card: CardView) -> CardView:
    script = card.script
    if script is None or len(script.text) <= _KEPT:
        return card
    return replace(card, script=replace(script, text=script.text[:_KEPT], left_out="… and more"))


def _nothing() -> None:
    pass


def kernel_id() -> str:
    """Return the id by which a Jupyter server knows this kernel; empty where there is none."""
    try:
        found = _CONNECTION_FILE.search(get_connection_file())
    except RuntimeError:  # this process is no kernel
        return ""
    return found[1] if found else ""
