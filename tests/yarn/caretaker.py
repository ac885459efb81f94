"""Takes clusters down when the test process that started them is done or gone, however it went.

``python caretaker.py USERS HOME``: holds a share of the lock USERS until its stdin ends, which is
when the test process closes it or dies. The last one to leave takes every cluster in HOME down.
"""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

from submarine_engine.installer import HadoopCluster


def main() -> None:
    users, home = map(Path, sys.argv[1:])
    with users.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        sys.stdout.write("here\n")
        sys.stdout.flush()
        sys.stdin.read()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another test process goes on with it
        for folder in (home / "clusters").glob("*/"):
            HadoopCluster(home, folder.name).down()


main()
