"""Kills a process with -9 just before its n-th effect on the world.

What has an effect (a file opened for writing, made, renamed or removed, a lock, a fork, a program,
a signal, a request to a cluster that is no question) is told by Python's own audit hooks, so
nothing of this stands in the product. ``WALK=ROLE:N:FOLDER`` says who is killed where;
``FOLDER/killed`` says that it was, and at what. With 0 for N nobody is killed, and
``FOLDER/effects`` has all there are.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

EFFECTS = {
    "fcntl.flock", "fcntl.lockf", "journal.append", "os.exec", "os.fork", "os.forkpty", "os.kill",
    "os.killpg", "os.link", "os.mkdir", "os.posix_spawn", "os.remove", "os.rename", "os.rmdir",
    "os.symlink", "os.truncate", "pod.ask", "shutil.rmtree", "skein.answered", "skein.ask",
    "socket.sendmsg", "subprocess.Popen",
}  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
ENDLESS = 10**9
ASKED = re.compile(rb"(PUT|POST|DELETE) [^ ?]*?([^/ ?]+)[? ]")
GENERATIONS = ("guard", "supervisor", "task")


def effect(event, arguments):
    """Return an effect in words: ``EVENT WORD``; empty for what has none."""
    if event == "open":
        path, _, flags = arguments
        if not flags & WRITES or str(path).endswith(".pyc") or str(path).startswith("/dev"):
            return ""
    elif event == "http.client.send":
        asked = ASKED.match(bytes(arguments[1])[:400])
        return f"http.{asked[1].decode()} {asked[2].decode()}" if asked else ""
    elif event not in EFFECTS:
        return ""
    what = str(arguments[0]).rpartition("/")[2][:40] if arguments else ""
    return f"{event} {what}"


class Walk:
    """Counts effects, of those that match `where`; kills once, at the one that is wanted.

    What is matched is ``EVENT WORD``, such as ``os.rename status.json``.
    """

    def __init__(self, told, roles, where=""):
        self.where = re.compile(where)
        self.wanted, number, self.folder = told.split(":", 2)
        self.left = int(number) or ENDLESS
        self.notes = None
        if self.left == ENDLESS:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self.notes = os.open(f"{self.folder}/effects", flags, 0o600)
        self.roles = list(roles)
        os.register_at_fork(after_in_child=self.next_generation)
        sys.addaudithook(self.hear)

    def next_generation(self):
        del self.roles[:1]

    def hear(self, event, arguments):
        if self.left <= 0 or not self.roles or self.roles[0] != self.wanted.partition("+")[0]:
            return
        what = effect(event, arguments)
        if what and self.where.search(what):
            self.come_to(what)

    def come_to(self, what):
        self.left -= 1
        if self.notes is not None:
            os.write(self.notes, f"{what}\n".encode())
        if self.left:
            return
        note = f"{self.folder}/killed"
        try:
            descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:  # another one who took over from it: it lives
            return
        os.write(descriptor, what.encode())
        if self.wanted == "supervisor+guard":
            os.kill(os.getppid(), signal.SIGKILL)
        if self.wanted == "supervisor+granter":
            self.kill_granter()
        self.kill()

    def kill_granter(self):
        """End who has submitted the job, and has granted it its GPUs."""
        pid = int(os.environ["WALK_GRANTER"])
        with suppress(OSError):  # it has ended since
            if b"LocalCluster" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)

    def kill(self):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":  # in place of supervisor.py
    real = os.environ["WALKED_SUPERVISOR"]
    first = ("supervisor",) if "--forked" in sys.argv else GENERATIONS
    Walk(os.environ["WALK"], first)
    source = Path(real).read_text()
    sys.argv[0] = real
    exec(compile(source, real, "exec"), {"__name__": "__main__", "__file__": real})  # noqa: S102 - our own program
