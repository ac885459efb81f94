"""Jobs on Kubernetes, by the official client: a pod for each task of an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submarine_engine.clusters.kubernetes.backend import KubernetesBackend

__all__ = ["KubernetesBackend"]


def __getattr__(name: str) -> object:
    if name == "KubernetesBackend":  # late: help reads the options beside it at each key
        from submarine_engine.clusters.kubernetes.backend import KubernetesBackend  # noqa: PLC0415

        return KubernetesBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
