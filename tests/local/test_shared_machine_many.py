"""Many users with many jobs in one machine's queue: no GPU twice, everybody in turn."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from itertools import pairwise
from statistics import median

import pytest
from submarine_engine.clusters.store import read_events
from submarine_engine.events import Granted, Returned
from submarine_engine.history import is_job_id

from tests.jobs import until

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(3600)]

USERS = int(os.environ.get("SUBMARINE_SHARED_USERS", "50"))
JOBS = int(os.environ.get("SUBMARINE_SHARED_JOBS", "20"))
FIRST_UID = 61_000
SCRIPT = """
import fcntl, os, time
folder = {folder!r}
gpu = os.open(folder + "/" + os.environ["CUDA_VISIBLE_DEVICES"], os.O_RDWR)
try:
    fcntl.flock(gpu, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(folder + "/twice", "a").write("x")
log = os.open(folder + "/log", os.O_WRONLY | os.O_APPEND)
os.write(log, f"{{os.getuid()}} {{time.time()}}\\n".encode())
"""


def test_many_users_in_one_queue(place, alice, gate, capsys):
    from .users import waiting

    detector = place.folder / "detector"
    detector.mkdir()
    for name in ("0", "1", "2", "3", "log"):
        (detector / name).touch()
        (detector / name).chmod(0o666)
    detector.chmod(0o777)
    held = alice.submit(waiting(gate), 4)
    alice.until(held, "running")
    users = [place.number(FIRST_UID + number) for number in range(USERS)]
    script = SCRIPT.format(folder=str(detector))
    took = []
    for user in users:
        took += user.do(
            "times = []\n"
            f"for _ in range({JOBS}):\n"
            "    began = time.monotonic()\n"
            f"    submit({script!r}, 1)\n"
            "    times.append(time.monotonic() - began)\n"
            "result = times"
        )
    waiting_files = place.machine / "waiting"
    until(lambda: len(list(waiting_files.iterdir())) >= USERS)
    gate.touch()
    until(lambda: len((detector / "log").read_text().splitlines()) == USERS * JOBS, limit=3000)
    lines = [line.split() for line in (detector / "log").read_text().splitlines()]
    order = [uid for uid, _ in sorted(lines, key=lambda line: float(line[1]))]
    # While all wait, nobody is more than a turn (and what is on its way meanwhile) before another.
    apart = [
        max(seen.values()) - min(seen.get(str(user.uid), 0) for user in users)
        for end in range(1, USERS * (JOBS - 1))
        if (seen := Counter(order[:end]))
    ]
    with capsys.disabled():
        sys.stdout.write(
            f"\n{USERS} users, {JOBS} jobs each: submission {median(took) * 1000:.1f} ms median, "
            f"{max(took) * 1000:.0f} ms at most; turns apart at most {max(apart)}, "
            f"{float(max(lines, key=lambda one: float(one[1]))[1]) - float(lines[0][1]):.0f} s\n"
        )
    assert not (detector / "twice").exists()
    assert Counter(order) == {str(user.uid): JOBS for user in users}
    assert max(apart) <= 2
    # As long as all wait: whoever is first through leaves nobody behind by more than a whole job.
    first = next(
        n for n in range(len(order)) if max(Counter(order[:n]).values(), default=0) == JOBS
    )
    had = Counter(order[:first])
    due = first / USERS
    assert all(abs(had[str(user.uid)] - due) <= 0.05 * due + 1 for user in users), had
    for gpu, spans in ledgers([alice, *users]).items():
        assert all(one[1] <= two[0] for one, two in pairwise(sorted(spans))), (gpu, spans)


def ledgers(users):
    """Return from when to when each GPU was somebody's, as the jobs' own ledgers have it."""
    found = {}
    for user in users:
        for job in (user.home / ".local/share/submarine/jobs").iterdir():
            if not is_job_id(job.name):
                continue
            events = [event for event, _ in read_events(job / "events.jsonl")[0]]
            (begun,) = (event for event in events if isinstance(event, Granted))
            # Noted before the GPU falls free, which comes before what is noted of its end.
            ended = next((event for event in events if isinstance(event, Returned)), None)
            for gpu in begun.gpus:
                end = ended.at.mono if ended else math.inf
                found.setdefault(gpu, []).append((begun.at.mono, end, user.name, job.name))
    assert sorted(found) == ["0", "1", "2", "3"]
    return found
