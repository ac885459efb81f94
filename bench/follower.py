"""Follow the job of that id; print the memory in MB after 100 MB of its log, and at its end."""

from __future__ import annotations

import sys
from pathlib import Path

from submarine_engine import open_job
from submarine_engine.logs import Renderer, follow


def memory() -> float:
    """Return the resident memory of this process in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("no VmRSS in /proc/self/status")


class Meter(Renderer):
    """Counts what it is shown, and looks at the memory once."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.early: float | None = None

    def text(self, task: str, stream: str, text: str) -> None:  # noqa: ARG002 - as in the base
        """Count, and measure after 100 MB."""
        self.seen += len(text)
        if self.early is None and self.seen >= 100_000_000:
            self.early = memory()


def main() -> None:
    """Follow to the end."""
    meter = Meter()
    follow(open_job(sys.argv[1]), meter)
    print(meter.early, memory())


if __name__ == "__main__":
    main()
