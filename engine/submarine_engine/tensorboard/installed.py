"""Whether TensorBoard is installed: an extra, and loaded late."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from submarine_engine.errors import UnsupportedError


def check_installed() -> None:
    """Refuse where TensorBoard is not installed.

    Raises
    ------
    UnsupportedError
        It is not.
    """
    try:
        there = find_spec("tensorboard") is not None and find_spec("tensorboard.program")
    except (ImportError, ValueError):
        there = None
    if not there:
        raise UnsupportedError(
            "TensorBoard is not installed in this Python",
            where=sys.executable,
            fix="pip install 'submarine-notebook[tensorboard]'",
        )
