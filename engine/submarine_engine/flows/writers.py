"""Who can write a flow for a scheduler: one table, filled by a line for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from submarine_engine.flows import airflow, azkaban
from submarine_engine.flows.model import Flow

WRITERS: dict[str, Callable[[Flow, Path], Path]] = {
    "airflow": airflow.write,
    "azkaban": azkaban.write,
    "azkaban-1.0": azkaban.write_1,
}
"""By the name that ``submarine flow build --to`` knows: writes into a folder, returns the file.

The folder is the flow's own unless ``--output`` names another one.
"""
