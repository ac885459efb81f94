"""What a namespace's quota never gives, told from what it gives later."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.kubernetes.state import read_amounts
from submarine_engine.errors import SubmissionError

if TYPE_CHECKING:
    from decimal import Decimal

    from submarine_engine.clusters.kubernetes.client import QuotaError

_NUMBERS = re.compile(r"exceeded quota: .*requested: (\S*), used: \S*, limited: (\S*)")


def refuse_beyond_quota(error: QuotaError, pod_specs: Iterable[Mapping[str, Any]]) -> None:
    """Refuse a job that asks for more than the quota has in all; nothing where it may have it.

    Parameters
    ----------
    error
        What the server has said of one of its pods.
    pod_specs
        The ``spec`` of each that it needs at once.

    Raises
    ------
    SubmissionError
        It will never have them.
    """
    found = _NUMBERS.search(error.told)
    requested, limited = map(_read, found.groups()) if found else ({}, {})
    asked = _asks(pod_specs)
    # Of what admission adds to a pod the server alone knows.
    if any(max(asked[name], requested.get(name, 0)) > most for name, most in limited.items()):
        raise SubmissionError(error.what, where=error.where, fix=error.fix)


def _read(text: str) -> dict[str, Decimal]:
    """Read amounts as the server writes them: ``pods=1,requests.cpu=500m``."""
    pairs = (part.partition("=") for part in text.split(","))
    return read_amounts({name: amount for name, _, amount in pairs})


def _asks(pod_specs: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return how much pods ask for, by the names that quotas have for that."""
    found: Counter[str] = Counter()
    for spec in pod_specs:
        found.update(["pods", "count/pods"])
        for container in spec.get("containers") or []:
            resources = container.get("resources") or {}
            limits = read_amounts(resources.get("limits") or {})
            requests = {**limits, **read_amounts(resources.get("requests") or {})}
            for name, amount in limits.items():
                found[f"limits.{name}"] += amount  # type: ignore[assignment] # numbers all the same
            for name, amount in requests.items():
                found[name] += amount  # type: ignore[assignment] # as above
                found[f"requests.{name}"] += amount  # type: ignore[assignment] # as above
    return found


__all__ = ["refuse_beyond_quota"]
