"""Who can write a flow for a scheduler: one table, filled by a line for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from submarine_engine.flows import airflow, azkaban
from submarine_engine.flows.folder import Place
from submarine_engine.flows.model import Flow

WRITERS: dict[str, Callable[[Flow, Place, Path], Path]] = {
    "airflow": airflow.write,
    "azkaban": azkaban.write,
    "azkaban-1.0": azkaban.write_1,
}
"""By the name that ``submarine flow build --to`` knows: gets the flow's folder and the one that the
file goes into, returns the file.
"""
