"""Submarine's jobs over Jupyter's own server: they are there when the kernel is gone."""

from __future__ import annotations


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    from submarine_jupyter.extension import SubmarineApp  # noqa: PLC0415 - Jupyter's hook, asked once

    return [{"module": "submarine_jupyter", "app": SubmarineApp}]
