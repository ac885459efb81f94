"""Cells to one training script: what was executed becomes what a person would have written."""

from submarine_engine.bundle.build import build
from submarine_engine.bundle.model import (
    Bundle,
    CapturedValue,
    Cell,
    Dropped,
    LineSpan,
    Manifest,
)

__all__ = ["Bundle", "CapturedValue", "Cell", "Dropped", "LineSpan", "Manifest", "build"]
