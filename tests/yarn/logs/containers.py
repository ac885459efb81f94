"""Containers on a real cluster that write logs whose every byte is known."""

from __future__ import annotations

import random
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ALIVE = ("WAITING", "REQUESTED", "RUNNING", "SUCCEEDED", "FAILED", "KILLED")
HERE = Path(__file__).resolve()
FRAGMENTS = (
    b"LogContents:\n",
    b"End of LogType:stdout.\n",
    b"\nEnd of LogType:stdout\n******\n\n",
    b"LogLength:5\n",
    b"Container: container_1_1_1_1 on localhost:1\n",
    b"\xff\xfe\x00\r\n0\r\n\r\n",
)


def pieces(seed: int) -> Iterator[bytes]:
    """Yield what a container writes, piece by piece, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - any bytes do
    while True:
        size = chance.choice((0, 1, 10, 100, 1000, 30_000, 500_000))
        yield chance.choice(FRAGMENTS) + chance.randbytes(size)


def written(seed: int, count: int) -> bytes:
    """Return the first pieces as one."""
    source = pieces(seed)
    return b"".join(next(source) for _ in range(count))


def write(folder: str, seed: int, count: int, pause: float) -> None:
    """Write a log of `count` pieces, and to the other when it is complete."""
    source = pieces(seed)
    with Path(folder, "stdout").open("ab", buffering=0) as log:
        for _ in range(count):
            log.write(next(source))
            time.sleep(pause)
    Path(folder, "stderr").write_bytes(b"complete\n")


def command(seed: int, count: int, pause: float) -> str:
    """Return the shell command of a container that does so in its log folder."""
    words = shlex.join([sys.executable, str(HERE)])
    return f'exec {words} "${{LOG_DIRS%%,*}}" {seed} {count} {pause}'


class Application:
    """An application of containers that are there until it ends."""

    def __init__(self, client, commands: list[str]) -> None:
        import skein  # not in a container

        small = skein.Resources(memory="256 MiB", vcores=1)
        self._client = client
        self._app = client.submit_and_connect(
            skein.ApplicationSpec(
                name="logs",
                master=skein.Master(resources=small),
                services={
                    f"writer{number}": skein.Service(resources=small, script=text)
                    for number, text in enumerate(commands)
                },
            )
        )
        self.id = self._app.id

    def containers(self, count: int) -> list[tuple[str, str]]:
        """Return container and its node's web address, once all are placed."""
        until = time.monotonic() + 180
        while time.monotonic() < until:
            found = self._app.get_containers(states=ALIVE)
            placed = [one for one in found if one.yarn_container_id]
            if len(placed) == count:
                placed.sort(key=lambda one: one.service_name)
                return [(one.yarn_container_id, one.yarn_node_http_address) for one in placed]
            time.sleep(0.05)
        raise AssertionError("the containers were not placed within two minutes")

    def end(self) -> None:
        """End it, whatever runs; no-op where it is over."""
        self._client.kill_application(self.id)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    time.sleep(600)
