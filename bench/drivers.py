"""What driving a job costs, from one task to hundreds: processor time and memory of its driver."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from submarine_engine import Cell, Job, JobSpec, Role
from submarine_engine.bundle import build
from submarine_engine.job import JobState

from bench import simulation
from bench.peers import own_home
from bench.table import Figure

SIZES = (1, 8, 64, 128, 256, 384, 512)
WINDOW = 12.0
SETTLE = 3.0
PLOT = Path(__file__).parents[1] / "docs" / "images" / "driver-cost.svg"
_TICK = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What a driver costs while its job runs.

    Parameters
    ----------
    tasks
        Of the job.
    core
        Share of a core.
    memory
        Megabytes that are resident.
    """

    tasks: int
    core: float
    memory: float

    @property
    def per_task(self) -> float:
        """CPU-seconds for a task and a minute."""
        return self.core * 60 / self.tasks


def costs(folder: Path) -> list[Figure]:
    """Measure a driver of 1 to `BENCH_TASKS` (512) simulated tasks; draw that for the docs.

    Each task prints a line a second and says how far it is.
    """
    most = int(os.environ.get("BENCH_TASKS", SIZES[-1]))
    found = [_cost(folder / str(tasks), tasks) for tasks in SIZES if tasks <= most]
    if most == SIZES[-1]:
        PLOT.write_text(plot(found))
    alone = found[0]
    return [
        figure
        for one in found[1:]
        for figure in (
            Figure(
                what=f"driver of {one.tasks} simulated tasks, of a core",
                target="≤ 10 %" if one.tasks == SIZES[-1] else "linear",
                unit="%",
                ours=[one.core * 100],
                peers={"a driver for each task": [alone.core * 100 * one.tasks]},
            ),
            Figure(
                what="its memory",
                target="linear",
                unit="MB",
                ours=[one.memory],
                peers={"a driver of one task": [alone.memory]},
            ),
        )
    ]


def _cost(home: Path, tasks: int) -> Cost:
    with own_home(home), simulation.keeper(home) as (cluster, keeper):
        bundle = build(Cell(number=1, source="1"), [], {})
        spec = JobSpec(name="bench", roles=(Role(count=tasks),))
        job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
        steps = int(WINDOW + 2 * SETTLE)
        with simulation.player(home, job.id, str(steps), "1"):
            while not all(task.busy for task in job.status().tasks):
                time.sleep(0.5)
            time.sleep(SETTLE)
            used, begun = _processor(keeper), time.monotonic()
            time.sleep(WINDOW)
            used, took = _processor(keeper) - used, time.monotonic() - begun
            memory = _memory(keeper)
        status = job.wait()
        assert status.state is JobState.SUCCEEDED, status.reason
    return Cost(tasks, used / took, memory)


def _processor(pid: int) -> float:
    """Return the processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS:"))


# The plot, as SVG: two panels over the number of tasks. No drawing library is asked for that.


_WIDTH, _HEIGHT, _LEFT, _TOP = 340, 220, 60, 40
_STYLE = (
    "text{font:12px sans-serif;fill:#444}.t{font-weight:bold}.a{stroke:#bbb;fill:none}"
    ".l{stroke:#1f6feb;fill:none;stroke-width:2}.p{fill:#1f6feb}"
    ".g{stroke:#c33;stroke-dasharray:5 4}"
)


def plot(found: Sequence[Cost]) -> str:
    """Return a drawing of costs by number of tasks: share of a core, and memory."""
    core = [(one.tasks, one.core * 100) for one in found]
    memory = [(one.tasks, one.memory) for one in found]
    panels = _panel(0, "driver: % of a core", core, limit=10.0)
    panels += _panel(_WIDTH + _LEFT, "driver: memory, MB", memory)
    width, height = 2 * (_WIDTH + _LEFT) + 20, _TOP + _HEIGHT + 50
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    return f"{head}\n<style>{_STYLE}</style>\n{panels}</svg>\n"


def _panel(
    left: int, title: str, points: Sequence[tuple[int, float]], limit: float | None = None
) -> str:
    most = max(tasks for tasks, _ in points)
    top = 1.1 * max([value for _, value in points] + ([limit] if limit else []))
    bottom = _TOP + _HEIGHT

    def place(tasks: float, value: float) -> tuple[float, float]:
        return left + _LEFT + _WIDTH * tasks / most, bottom - _HEIGHT * value / top

    def text(x: float, y: float, words: str, more: str = "") -> str:
        return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{words}</text>\n'

    drawn = text(left + _LEFT, _TOP - 16, title, 'class="t"')
    x, y = left + _LEFT, bottom
    drawn += f'<path class="a" d="M{x} {_TOP}V{y}H{x + _WIDTH}"/>\n'
    for tasks in (0, most // 4, most // 2, 3 * most // 4, most):
        at, _ = place(tasks, 0)
        drawn += text(at, bottom + 18, str(tasks), 'text-anchor="middle"')
    drawn += text(left + _LEFT + _WIDTH / 2, bottom + 38, "tasks", 'text-anchor="middle"')
    for part in range(5):
        value = top * part / 4
        _, at = place(0, value)
        drawn += text(left + _LEFT - 6, at + 4, f"{value:.3g}", 'text-anchor="end"')
    if limit is not None:
        _, at = place(0, limit)
        drawn += f'<path class="g" d="M{x} {at:.1f}h{_WIDTH}"/>\n'
    places = [place(*point) for point in points]
    line = " ".join(f"{at:.1f},{up:.1f}" for at, up in places)
    drawn += f'<polyline class="l" points="{line}"/>\n'
    dots = (f'<circle class="p" cx="{at:.1f}" cy="{up:.1f}" r="3"/>\n' for at, up in places)
    return drawn + "".join(dots)
