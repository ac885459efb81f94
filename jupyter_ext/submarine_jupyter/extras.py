"""The modules that add to the server, each by one line."""

from __future__ import annotations

from submarine_jupyter import save, tensorboard
from submarine_jupyter.parts import Extra

EXTRAS: tuple[Extra, ...] = (save.EXTRA, tensorboard.EXTRA)
