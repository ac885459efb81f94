"""Many people on one real Zeppelin for long: nothing hangs, no line is lost, nothing is left.

``SOAK_MINUTES`` says for how long, an hour unless it does; ``SOAK_PAUSE`` how many seconds people
wait between what they do, on a machine that has other work.
"""

from __future__ import annotations

import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from submarine_engine.records import list_jobs

from tests.jobs import until
from tests.zeppelin.rest import Client, Note, text

MINUTES = float(os.environ.get("SOAK_MINUTES", "60"))
PAUSE = float(os.environ.get("SOAK_PAUSE", "0"))
USERS = {f"user{number}": f"secret{number}" for number in range(8)}
NOTES = 4
GPUS = 4
LINES = 10_000
PATIENCE = 600.0
"""Seconds within which every paragraph is over, restarts and waiting for others included."""

HANGS = "it hangs"
SOON = ("FINISHED", "ERROR", "ABORT")
PRINT = "for number in range({count}): print(f'{{number}} of {mark}', flush=True)"
SLOW = "import time\nprint('begun {mark}', flush=True)\ntime.sleep(600)"

pytestmark = [pytest.mark.long, pytest.mark.timeout(MINUTES * 60 + 1800)]


class Person:
    """Somebody who runs paragraphs of a note, one after another, and looks at what they show."""

    def __init__(self, number: int, note: Note, soak: Soak) -> None:
        self.number = number
        self.note = note
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._soak = soak
        self._random = random.Random(number)  # noqa: S311 - the same each time
        added = note.add("%submarine.python\n1")
        self._id = note.ids[added]
        self._mark = ""
        self._thread = threading.Thread(target=self._work, name=f"user {number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(PATIENCE + 60)
        if self._thread.is_alive():
            self.wrong.append("hangs")

    def _work(self) -> None:
        doings: list[Callable[[], str]] = [
            self.prints, self.prints_in_a_job, self.trains, self.cancels, self.commands, self.shell,
        ]  # fmt: skip
        restarts = self._soak.restarts
        while not self._soak.over.is_set():
            doing = self._random.choice(doings)
            self._mark = f"{self.number}-{self.done.total()}"
            # The first run of what a restart has aborted while it did not run is aborted as well,
            # by Zeppelin, which keeps that in mind: what was begun meanwhile does not count, nor
            # what is the first since.
            before, restarts = (restarts, self._soak.restarting), self._soak.restarts
            try:
                told = doing()
            except Exception as error:  # noqa: BLE001 - it is what is looked for
                told = f"{type(error).__name__}: {error}"
            excused = before != (self._soak.restarts, False) or self._soak.restarting
            if excused and HANGS not in told:
                told, name = "", "restarted under it"
            else:
                name = doing.__name__
            self.done[name] += 1
            if told:
                when = f"{time.monotonic() - self._soak.restarted_at:.1f} s after a restart"
                self.wrong.append(f"{doing.__name__} {self._mark}, {when}: {told[-1500:]}")
            self._soak.over.wait(PAUSE)

    def prints(self) -> str:
        found = self._run(f"%submarine.python\n{self._lines()}")
        return self._lost(found)

    def prints_in_a_job(self) -> str:
        return self._lost(self._run(f"%submarine.run --gpus 0 --name prints\n{self._lines()}"))

    def trains(self) -> str:
        name = f"found_{self.number}"
        job = f"%submarine.run --gpus 1 --name trains\n{name} = {self._mark!r}"
        found = self._run(job)
        if found["status"] != "FINISHED":
            return f"{found['status']}: {text(found)}"
        found = self._run(f"%submarine.python\n{name}")
        return "" if text(found) == f"{self._mark!r}\n" else f"what came home: {text(found)}"

    def cancels(self) -> str:
        self._begin("%submarine.run --gpus 1 --name cancelled\n" + SLOW.format(mark=self._mark))
        # What the paragraph showed before may be there still: to cancel it then would hit nothing,
        # and Zeppelin would call the next run aborted.
        before = self._soak.restarts
        self._wait(
            lambda found: f"begun {self._mark}\n" in text(found) or self._soak.restarts != before
        )
        self.note.client.call("DELETE", f"/notebook/job/{self.note.id}/{self._id}")
        found = self._wait()
        # Failed where its end comes before Zeppelin has noted that it was cancelled.
        over = found["status"] == "ABORT" or (
            found["status"] == "ERROR" and "cancelled" in text(found)
        )
        return "" if over else f"{found['status']}: {text(found)}"

    def commands(self) -> str:
        found = self._run("%submarine\njob list\ngpus")
        return "" if found["status"] == "FINISHED" else text(found)

    def shell(self) -> str:
        found = self._run(f"%submarine.sh\nseq {LINES}")
        right = "".join(f"{number}\n" for number in range(1, LINES + 1))
        return "" if text(found) == right else f"{found['status']}: {text(found)}"

    def _lines(self) -> str:
        return PRINT.format(count=LINES, mark=self._mark)

    def _lost(self, found: dict) -> str:
        right = [f"{number} of {self._mark}" for number in range(LINES)]
        lines = [line for line in text(found).splitlines() if line.endswith(self._mark)]
        return "" if lines == right else f"{len(lines)} lines, {found['status']}: {text(found)}"

    def _run(self, words: str) -> dict:
        self._begin(words)
        return self._wait()

    def _begin(self, words: str) -> None:
        with self._soak.gate:
            self._send(words)

    def _send(self, words: str) -> None:
        place = f"{self.note.id}/{self._id}"
        self.note.client.call("PUT", f"/notebook/{self.note.id}/paragraph/{self._id}",
                              {"text": words})  # fmt: skip
        self.note.client.call("POST", f"/notebook/job/{place}", {})

    def _wait(self, condition: Callable[[dict], object] | None = None) -> dict:
        end = time.monotonic() + PATIENCE
        while True:
            found = self.note.client.call("GET", f"/notebook/{self.note.id}/paragraph/{self._id}")
            if condition(found) if condition else found["status"] in SOON:
                return found
            assert time.monotonic() < end, f"{HANGS}: {found['status']} {text(found)[-500:]}"
            time.sleep(0.5)


class Soak:
    """What all of them share: whether it is over, and how often the interpreter was restarted.

    Attributes
    ----------
    gate
        Held while the interpreter is restarted: what is sent to Zeppelin 0.10 just then may have it
        start two processes for one group, of which it waits for the wrong one.
    """

    def __init__(self) -> None:
        self.over = threading.Event()
        self.gate = threading.Lock()
        self.restarts = 0
        self.restarting = False
        self.restarted_at = time.monotonic()


def memory(pid: int) -> int:
    """Return the resident memory of a process in MiB; 0 where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmRSS:\s*(\d+)", status)
    return int(found[1]) // 1024 if found else 0


def watched(server, soak: Soak, admin: Client, note: Note) -> list[list[int]]:
    """Let time pass, restarting the interpreter a few times; return its memory, life by life."""
    lives: list[list[int]] = [[]]
    end = time.monotonic() + MINUTES * 60
    life = MINUTES * 60 / 3
    restart = time.monotonic() + life
    while time.monotonic() < end:
        time.sleep(1)
        lives[-1] += [memory(pid) for pid in server.interpreters()[:1]]
        if time.monotonic() > restart:
            with soak.gate:
                soak.restarting = True
                soak.restarts += 1
                admin.restart()
                until(lambda: not server.interpreters())
                note.write("%submarine.python\n1")
                soak.restarting = False
                soak.restarted_at = time.monotonic()
            lives.append([])
            restart = time.monotonic() + life
    return lives


def test_eight_users_of_four_notes(zeppelin_of_its_own):
    server = zeppelin_of_its_own(users=USERS, environment={"SUBMARINE_LOCAL_GPUS": str(GPUS)})
    clients = [Client(server.url, name, secret) for name, secret in USERS.items()]
    clients[0].configure(zeppelin__interpreter__output__limit="4000000")
    notes = [clients[number].note(f"note {number}") for number in range(NOTES)]
    soak = Soak()
    people = [
        Person(number, clients[number].open(notes[number % NOTES].id), soak)
        for number in range(len(USERS))
    ]
    for person in people:
        person.start()
    lives = watched(server, soak, clients[0], clients[0].note("restarts"))
    soak.over.set()
    for person in people:
        person.join()
    done = sum((person.done for person in people), Counter())
    sys.stdout.write(f"{dict(done)}, {soak.restarts} restarts, memory in MiB {_spans(lives)}\n")
    wrong = [one for person in people for one in person.wrong]
    assert wrong == [], "\n".join(wrong)
    until(lambda: all(job.state.final for job in list_jobs(server.jobs_home)))
    # All GPUs at once: none is held any more.
    found = clients[0].note("after").write(f"%submarine.run --gpus {GPUS} --name last\n'free'")
    assert text(found) == "'free'\n", text(found)
    for life in filter(None, lives):
        early, late = _span(life)
        assert late < 1.3 * early + 40, f"the interpreter's memory grows: {_spans(lives)}"


def _span(life: list[int]) -> tuple[float, float]:
    """Return the memory after a warm-up, and at the end of a life."""
    third = max(1, len(life) // 3)
    return median(life[third : 2 * third] or life), median(life[-third:])


def _spans(lives: list[list[int]]) -> list[tuple[float, float]]:
    return [_span(life) for life in lives if life]
