"""How the notebook wants its figures drawn, for a job that draws some."""

from __future__ import annotations

import json
import sys

from submarine_engine.clusters.environment import FIGURES


def figure_settings() -> dict[str, str]:
    """Return the variable that tells a job of ``%config InlineBackend``; none where nothing is set.

    Looks only: nothing is imported.
    """
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
