"""Cells to one training script: what was executed becomes what a person would have written."""

from submarine_engine.bundle.build import BuildOptions, build, build_call
from submarine_engine.bundle.model import (
    Bundle,
    CapturedValue,
    Cell,
    Dropped,
    LineSpan,
    Manifest,
)
from submarine_engine.bundle.parts import Part, PartBook, build_parts

__all__ = [
    "BuildOptions",
    "Bundle",
    "CapturedValue",
    "Cell",
    "Dropped",
    "LineSpan",
    "Manifest",
    "Part",
    "PartBook",
    "build",
    "build_call",
    "build_parts",
]
