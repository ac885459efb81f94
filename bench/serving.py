"""A model that is served: requests under load over updates, and what our front adds to each."""

from __future__ import annotations

import http.client
import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from submarine_engine.records import open_job
from submarine_engine.serving.launching import Serving, start, stop, update, wait
from submarine_engine.serving.model import saved

from bench.peers import own_home
from bench.table import Figure, in_turn

_UPDATES = 20
_CLIENTS = 4
_BETWEEN = 25
"""Requests that are answered between two updates."""
_ROUNDS = 7
_ASKED = 100
"""Requests of a round."""
_BODY = json.dumps({"inputs": [[1.0, 2.0]]})
_LIMIT = 120.0


@contextmanager
def _served(folder: Path, replicas: int) -> Iterator[Serving]:
    """Serve a function that answers at once."""
    with own_home(folder / "home"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns of its own as it saves
        with saved(lambda rows: [float(sum(row)) for row in rows]) as kept:
            (folder / "model").mkdir()
            kept.rename(folder / "model" / "kept")
            kept.mkdir()  # whoever made it removes it
        options = {"name": "bench", "replicas": replicas, "server": "mlflow"}
        record = start(str(folder / "model" / "kept"), options)
        try:
            yield wait(record)
        finally:
            stop("bench")


def _asker(address: str) -> Callable[[], bool]:
    """Return what asks once, over a connection that stays; whether it was answered."""
    found = urlsplit(address)
    connection = http.client.HTTPConnection(str(found.hostname), found.port, timeout=_LIMIT)

    def ask() -> bool:
        try:
            connection.request("POST", "/invocations", _BODY, {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                return answer.status == http.client.OK and bool(answer.read())
        except (OSError, http.client.HTTPException):
            connection.close()  # it is opened anew
            return False

    return ask


def updates(folder: Path) -> Figure:
    """Count what is not answered while the model is replaced again and again."""
    over, answered, failed = threading.Event(), [0] * _CLIENTS, [0] * _CLIENTS

    def load(number: int, address: str) -> None:
        ask = _asker(address)
        while not over.is_set():
            if ask():
                answered[number] += 1
            else:
                failed[number] += 1

    with _served(folder, 2) as now:
        threads = [
            threading.Thread(target=load, args=(number, now.record.address))
            for number in range(_CLIENTS)
        ]
        for one in threads:
            one.start()
        try:
            for _ in range(_UPDATES):
                before, until = sum(answered), time.monotonic() + _LIMIT
                while sum(answered) < before + _BETWEEN and time.monotonic() < until:
                    time.sleep(0.01)
                wait(update("bench", str(folder / "model" / "kept"), {}))
        finally:
            over.set()
            for one in threads:
                one.join()
    return Figure(
        what=f"failed requests over {_UPDATES} updates, {_CLIENTS} clients",
        target="0",
        unit="",
        ours=[sum(failed)],
        peers={"answered": [sum(answered)]},
    )


def added(folder: Path) -> Figure:
    """Measure a request through the front beside one to the scoring server behind it."""
    with _served(folder, 1) as now:
        (replica,) = now.told.replicas
        port = open_job(replica.job).status().tasks[0].message.rpartition(" ")[2]
        through, straight = _asker(now.record.address), _asker(f"http://127.0.0.1:{port}")

        def one(ask: Callable[[], bool]) -> float:
            took = []
            assert ask() or ask()  # who has not asked for a while is not connected any more
            for _ in range(_ASKED):
                began = time.perf_counter()
                assert ask()
                took.append(1000 * (time.perf_counter() - began))
            return median(took)

        ours, theirs = in_turn(_ROUNDS, lambda: one(through), lambda: one(straight))
    return Figure(
        what="a request through the front",
        target="≤ 5 ms more",
        unit="ms",
        ours=ours,
        peers={"the scoring server alone": theirs},
    )
