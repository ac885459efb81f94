"""How the notebook wants things shown, for a job that shows some."""

from __future__ import annotations

import json
import sys

from submarine_engine.clusters.environment import FIGURES, TABLES

from submarine_magics import frontend


def display_settings() -> dict[str, str]:
    """Return the variables that tell a job how its notebook shows figures and tables.

    None where all is as usual.
    """
    tables = {TABLES: "1"} if frontend.current.tables else {}
    return {**_figure_settings(), **tables}


def _figure_settings() -> dict[str, str]:
    """Return what ``%config InlineBackend`` was told; looks only, nothing is imported."""
    config = getattr(sys.modules.get("matplotlib_inline.config"), "InlineBackend", None)
    if config is None or not config.initialized():
        return {}
    now = config.instance()
    told = {
        "figure_formats": sorted(now.figure_formats),
        "print_figure_kwargs": dict(now.print_figure_kwargs),
        "close_figures": bool(now.close_figures),
    }
    usual = {name: config.class_traits()[name].default() for name in told}
    usual["figure_formats"] = sorted(usual["figure_formats"])
    try:
        return {FIGURES: json.dumps(told)} if told != usual else {}
    except (TypeError, ValueError):  # an option that no text can tell
        return {}
