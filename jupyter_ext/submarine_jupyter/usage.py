"""What the user's jobs have cost, for the panel: GPU time by notebook, week or user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from submarine_engine.command.values import USAGE_BY, read_by
from submarine_engine.config import load_config
from submarine_engine.usage import WORDS, others, usage

from submarine_jupyter.handlers import Call
from submarine_jupyter.routes import Number, Plugin, Route, Server
from submarine_jupyter.work import Work

_LIMIT = 60.0
"""Seconds: the files of some thousand jobs are read, and clusters are asked."""
_DAY = 86400.0
_MOST_ROWS = 500
_NUMBER, _STRING = {"type": "number"}, {"type": "string"}
_OR_NULL = {"type": ["number", "null"]}
_ROUTE = Route(
    "get",
    "/usage",
    "GPU-seconds queued, held, busy, idle and wasted, of jobs of the last days (0: of all)",
    numbers={"days": Number(30, 0, 36_500)},
    texts={"by": {"enum": list(USAGE_BY)}},
    reply={
        "type": "object",
        "required": ["by", "price", "rows", "left_out", "words", "others"],
        "properties": {
            "by": {"enum": list(USAGE_BY)},
            "price": _OR_NULL,
            "rows": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["of", "jobs", "queued", "held", "busy", "idle", "wasted"],
                    "properties": {
                        "of": _STRING,
                        "jobs": {"type": "integer"},
                        **dict.fromkeys(("queued", "held", "busy", "wasted", "cost"), _NUMBER),
                        "idle": _OR_NULL,
                    },
                },
            },
            "left_out": {"type": "integer", "minimum": 0},
            "words": _STRING,
            "others": {"type": "array", "items": _STRING},
        },
    },
)


class UsageTold(Call):
    """``GET /submarine/api/usage``."""

    async def respond(self, **_names: str) -> None:
        """Count it, in a pool of its own."""
        by, days = read_by(self.get_query_argument("by", "notebook")), self.numbers()["days"]
        self.tell(await self.work.call("usage", usage_answer, by, days))


def usage_answer(by: str, days: int) -> dict[str, Any]:
    """Return what jobs have cost, as `submarine usage` tells it.

    Parameters
    ----------
    by
        One of `USAGE_BY`.
    days
        How old the jobs are at most; 0 for any age.
    """
    price = load_config().value("gpu_hour_price")
    found = usage(by, days * _DAY if days else None)
    # Of weeks and days the last ones count, of all else the greatest.
    shown = found[-_MOST_ROWS:] if by in ("day", "week") else found[:_MOST_ROWS]
    return {
        "by": by,
        "price": price,
        "rows": [one.to_json(price) for one in shown],
        "left_out": len(found) - len(shown),
        "words": WORDS,
        "others": others(),
    }


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    _WORK[app] = Work(_LIMIT)
    return [(_ROUTE.pattern, UsageTold, {"work": _WORK[app], "routes": {"get": _ROUTE}})]


def _stop(app: Server) -> None:
    _WORK.pop(app).stop()


_WORK: dict[Server, Work] = {}
PLUGIN = Plugin(routes=(_ROUTE,), handlers=_handlers, stop=_stop)
