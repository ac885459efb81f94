"""One machine's queue, shared by fifty users."""

from __future__ import annotations

import grp
import os
import signal
import time
from pathlib import Path

from submarine_engine import Job
from submarine_engine.clusters.local.leases import VARIABLE, Holder, SharedLeases
from submarine_engine.clusters.local.policy import Policy
from submarine_engine.clusters.local.shared import setup
from submarine_engine.clusters.local.turns import Turns
from submarine_engine.history import new_job_id

from bench.peers import own_home, submit
from bench.table import Figure, in_turn

USERS = 50
FIRST_UID = 62_000
GPUS = 4


def submission(folder: Path) -> Figure:
    """Measure a submission where 49 other users wait, beside one on a machine of one's own.

    Only root can become all these users.
    """
    for path in (folder, *folder.parents):  # of a folder that is root's alone others see nothing
        if path.stat().st_mode & 0o005 != 0o005:
            path.chmod(0o755)
    machine = setup(grp.getgrgid(0).gr_name, folder / "machine")
    homes = {True: folder / "shared", False: folder / "alone"}
    others = [_other(machine.folder, FIRST_UID + number) for number in range(USERS - 1)]
    waiting: list[Job] = []

    def one(*, shared: bool) -> float:
        os.environ[VARIABLE] = str(machine.folder if shared else folder / "none")
        os.environ["SUBMARINE_HOME"] = str(homes[shared])
        start = time.perf_counter()
        waiting.append(submit("1", gpus=GPUS))
        return (time.perf_counter() - start) * 1000

    try:
        with own_home(homes[False], gpus=GPUS):
            os.environ[VARIABLE] = str(folder / "none")
            waiting.append(submit("import time\ntime.sleep(3600)", gpus=GPUS))
            while len(machine.waiting()) < USERS - 1:
                if any(os.waitpid(pid, os.WNOHANG)[0] for pid in others):
                    raise RuntimeError("a user of the machine could not begin to wait")
                time.sleep(0.01)
            mine, alone = in_turn(20, lambda: one(shared=True), lambda: one(shared=False))
    finally:
        for job in reversed(waiting):
            job.kill()
        for pid in others:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return Figure(
        what=f"submission into one queue of {USERS} users",
        target="≤ 20 ms",
        unit="ms",
        ours=mine,
        peers={"a machine of one's own": alone},
    )


def _other(machine: Path, uid: int) -> int:
    """Begin a process of another user, who waits for all GPUs; the first holds them."""
    (own := machine.parent / str(uid)).mkdir()
    os.chown(own, uid, 0)
    pool = [str(gpu) for gpu in range(GPUS)]
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(uid, uid, uid)
        if uid == FIRST_UID:
            leases = SharedLeases(machine / "leases", own, own)
            held = leases.take(pool, GPUS, Holder(new_job_id(), "bench"))
            assert held is not None
        turns = Turns(machine / "waiting", own / "served", Policy(), own)
        turns.tell(GPUS, pool, 20, time.time())
        signal.pause()
    finally:
        os._exit(1)
