"""Who may read what a task leaves behind."""

from __future__ import annotations

import os


def mode_in(folder: str) -> int:
    """Return the mode of a new file: its owner's alone, or its group's too where the folder is.

    The local cluster's folders are the owner's alone. YARN's log folder belongs to the group that
    its NodeManager reads it by, which may be another user (LinuxContainerExecutor).
    """
    return 0o600 | os.stat(folder).st_mode & 0o040  # noqa: PTH116 - pathlib takes long to import
