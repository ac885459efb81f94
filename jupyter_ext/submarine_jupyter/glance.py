"""A card and the overview as they are now, for who does not stream."""

from __future__ import annotations

import asyncio
import json

from submarine_jupyter import jobs
from submarine_jupyter.cards import card
from submarine_jupyter.handlers import Api
from submarine_jupyter.streams import overview_look


class CardNow(Api):
    """``/jobs/{job_id}/card``."""

    async def respond(self, job_id: str) -> None:  # type: ignore[override]  # this path's names
        """Send the card."""
        cluster = await self.work.call("jobs", jobs.cluster_of, job_id)
        self.tell(await self.work.call(f"{cluster} cards", card, job_id, self.extras))


class OverviewNow(Api):
    """``/overview``."""

    async def respond(self, **_names: str) -> None:
        """Send what the pages' one look has found, or look."""
        changed = asyncio.Event()
        with self.watchers.of("overview", lambda: overview_look(self.work)) as look:
            look.listeners.add(changed)
            try:
                while look.trouble or not look.version:
                    if error := look.error or look.trouble:
                        raise error
                    changed.clear()
                    await asyncio.wait_for(changed.wait(), self.work.limit)
            finally:
                look.listeners.discard(changed)
            self.tell(json.loads(look.text))
