"""Kills a process of the local cluster with -9 just before its n-th effect on the world.

What has an effect (a file opened for writing, made, renamed or removed, a lock, a fork, a program,
a signal) is told by Python's own audit hooks, so nothing of this stands in the product.
``WALK=ROLE:N:FOLDER`` says who is killed where; ``FOLDER/killed`` says that it was, and at what.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

EFFECTS = {
    "fcntl.flock", "fcntl.lockf", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg",
    "os.link", "os.mkdir", "os.posix_spawn", "os.remove", "os.rename", "os.rmdir", "os.symlink",
    "os.truncate", "shutil.rmtree", "subprocess.Popen",
}  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
GENERATIONS = ("guard", "supervisor", "task")


class Walk:
    """Counts effects, of those that match `where`; kills once, at the one that is wanted.

    What is matched is ``EVENT WORD``, such as ``os.rename status.json``.
    """

    def __init__(self, told, roles, where=""):
        self.where = re.compile(where)
        self.wanted, number, self.folder = told.split(":", 2)
        self.left = int(number)
        self.roles = list(roles)
        os.register_at_fork(after_in_child=self.next_generation)
        sys.addaudithook(self.hear)

    def next_generation(self):
        del self.roles[:1]

    def hear(self, event, arguments):
        if self.left <= 0 or not self.roles or self.roles[0] != self.wanted.partition("+")[0]:
            return
        if event == "open":
            path, _, flags = arguments
            if not flags & WRITES or str(path).endswith(".pyc") or str(path).startswith("/dev"):
                return
        elif event not in EFFECTS:
            return
        what = str(arguments[0]).rpartition("/")[2][:40] if arguments else ""
        if not self.where.search(f"{event} {what}"):
            return
        self.left -= 1
        if self.left:
            return
        note = f"{self.folder}/killed"
        try:
            descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:  # another one who took over from it: it lives
            return
        os.write(descriptor, f"{event} {what}".encode())
        if self.wanted == "supervisor+guard":
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":  # in place of supervisor.py
    real = os.environ["WALKED_SUPERVISOR"]
    first = ("supervisor",) if "--forked" in sys.argv else GENERATIONS
    Walk(os.environ["WALK"], first)
    source = Path(real).read_text()
    sys.argv[0] = real
    exec(compile(source, real, "exec"), {"__name__": "__main__", "__file__": real})  # noqa: S102 - our own program
