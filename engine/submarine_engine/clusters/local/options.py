"""What only this cluster knows: options of a job, and settings."""

from __future__ import annotations

from submarine_engine.command.values import read_count
from submarine_engine.declared import Declared
from submarine_engine.job import HOW_GROUP, OptionInfo
from submarine_engine.settings import Key, as_text, read_period, read_switch

_MOST_GPUS = 1024

ISOLATIONS = ("fresh", "shared")
"""Fresh: a process started for the job. Shared: one forked after its libraries were imported."""


def _read_gpus(value: object) -> int:
    count = read_count(as_text(value).strip())
    if count > _MOST_GPUS:
        raise ValueError(f"it must be a whole number from 0 to {_MOST_GPUS}")
    return count


DECLARED = Declared(
    options=(
        OptionInfo(
            name="isolation",
            kind="name",
            help="Fresh (a process of its own) or shared (forked where imports are done).",
            group=HOW_GROUP,
            choices=ISOLATIONS,
            passed_over=True,
        ),
    ),
    settings=(
        Key(
            name="imports_ahead",
            help="Whether a process without a GPU imports ahead what a notebook's jobs import.",
            default=lambda: True,
            read=read_switch,
            example="false",
        ),
        Key(
            name="imports_idle",
            help="Seconds after the last job for which such a process goes on.",
            default=lambda: 600.0,
            read=read_period,
            example='"10m"',
        ),
        Key(
            name="local_gpus",
            help="GPUs of the local cluster, where they cannot be found; unset: NVML says.",
            default=lambda: None,
            read=_read_gpus,
            example="4",
        ),
    ),
    verbs="submarine_engine.clusters.local.verbs:GROUP",
)
