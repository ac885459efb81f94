"""Charts in JupyterLab: how long those of a week's job take, and 200 small curves in the list.

The numbers are made up, in files as long as the runtime lets them get; the page is a real
JupyterLab in a real Chromium, and its times are its own.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page
from submarine_engine.bundle import Bundle, Manifest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.future import Job
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec, Resources, Role
from submarine_runtime.series import MOST, thinned

from bench.jupyter import ROOT, ROUNDS
from bench.table import Figure, in_turn

sys.path.append(str(ROOT / "scripts"))  # what drives JupyterLab for pictures drives it here

from lab_driver import LIMIT, Lab, chromium, execute

WEEK = 7 * 86_400
JOBS = 200
# Opens the metrics of a job, and returns how many ms later all its charts are painted.
_PAINT = """([job, wanted]) => new Promise((resolve) => {
    const start = performance.now();
    window.jupyterapp.commands.execute("submarine:show-metrics", {job});
    const look = () => {
        const tab = document.getElementById(`submarine-metrics-${job}`);
        const there = tab ? tab.querySelectorAll(".submarine-Chart canvas").length : 0;
        if (there === wanted) requestAnimationFrame(() => resolve(performance.now() - start));
        else requestAnimationFrame(look);
    };
    look();
})"""
# Scrolls the list to its end, and returns the longest time between two frames in ms.
_SCROLL = """() => new Promise((resolve) => {
    const list = document.querySelector(".submarine-JobList");
    list.scrollTop = 0;
    let [last, longest, number] = [performance.now(), 0, 0];
    const step = (now) => {
        longest = Math.max(longest, number > 5 ? now - last : 0);
        last = now;
        list.scrollTop += 40;
        number += 1;
        if (list.scrollTop + list.clientHeight < list.scrollHeight - 1) requestAnimationFrame(step);
        else resolve(longest);
    };
    requestAnimationFrame(step);
})"""


@contextmanager
def _panel(folder: Path) -> Iterator[tuple[Page, Lab]]:
    with chromium() as browser:
        (folder / "lab").mkdir()
        lab = Lab(folder / "lab")
        try:
            page = browser.new_context(viewport={"width": 1300, "height": 900}).new_page()
            page.set_default_timeout(LIMIT)
            yield page, lab
        finally:
            lab.stop()


def _open(page: Page, lab: Lab) -> None:
    lab.show(page)
    execute(page, "submarine:show-panel")
    page.wait_for_selector(".submarine-Job")


def _job(lab: Lab, folder: Path) -> JobPaths:
    """Run a job to its end."""
    cluster = LocalCluster(lab.home)
    manifest = Manifest(entry="script.py", python="3.10")
    bundle = Bundle(files={"script.py": b"print('a line')"}, manifest=manifest)
    spec = JobSpec(name="train", roles=(Role(resources=Resources(gpus=0)),))
    job_id = cluster.submit(spec, bundle, workdir=folder)
    Job(cluster, job_id).result()
    return JobPaths(lab.home, job_id)


def _used(at: float, rows: int, chance: random.Random) -> dict[str, Any]:
    busy, memory = 80 + 15 * math.sin(at / 5000), 4e9 + chance.random() * 1e8
    told: dict[str, Any] = {"at": round(at, 2), "rows": rows}
    means = {"gpu0": busy, "gpu0_memory": 2e10, "cpu": 2.5, "memory": memory, "processes": 9,
             "read": 5e6, "write": 1e6, "received": 3e7, "sent": 2e7}  # fmt: skip
    for name, mean in means.items():
        value = mean * (0.9 + 0.2 * chance.random())
        three = [round(value * part, 3) for part in (0.8, 1.0, 1.2)]
        told[name] = three if rows > 1 else three[1]
    return told


def _write(task: Path, seconds: float) -> None:
    """Write what a job of so many seconds leaves: the last half hour in full."""
    chance = random.Random(1)  # noqa: S311 - no secret
    end = time.time()
    late = min(seconds, 1800)
    every = max(1.0, (seconds - late) / 3000)
    early = int((seconds - late) / every)
    rows = [_used(end - seconds + at * every, round(every), chance) for at in range(early)]
    rows += [_used(end - late + at, 1, chance) for at in range(int(late))]
    (task / "metrics").write_bytes(b"".join(thinned(rows, MOST)))
    told = [
        {"at": row["at"], "step": number, "loss": [0.9 / (number + 1), 1 / (number + 1), 1.1]}
        for number, row in enumerate(rows)
    ]
    (task / "reported").write_text("".join(f"{json.dumps(row)}\n" for row in told))


def week(folder: Path) -> Figure:
    """Measure from the command to the charts of a job of a week, each time with new files."""
    with _panel(folder) as (page, lab):
        paths = _job(lab, folder)
        task = paths.task("worker-0").root
        _write(task, WEEK)
        _open(page, lab)

        def painted(at: int) -> float:
            if at:
                os.utime(task / "metrics", (at, at))  # what the server knew is old
            found = float(page.evaluate(_PAINT, [paths.job_id, 7]))
            page.evaluate("() => { window.jupyterapp.shell.currentWidget.close() }")
            page.wait_for_selector(f"#submarine-metrics-{paths.job_id}", state="detached")
            return found

        numbers = itertools.count(1)
        ours, again = in_turn(ROUNDS, lambda: painted(next(numbers)), lambda: painted(0))
    return Figure(
        what="charts of a week's job, from the command to the paint",
        target="<= 300 ms", unit="ms", ours=ours, peers={"once more": again},
    )  # fmt: skip


def sparklines(folder: Path) -> Figure:
    """Measure the longest frame while the list of 200 jobs is scrolled and their curves come."""
    with _panel(folder) as (page, lab):
        first = _job(lab, folder)
        _write(first.task("worker-0").root, 3600)
        for number in range(JOBS - 1):
            _copy(first, f"20250101-{number // 60:02}{number % 60:02}00-bench")
        ours, again = [], []
        for number in range(ROUNDS + 1):
            _open(page, lab)
            page.wait_for_function(
                "n => document.querySelectorAll('.submarine-Job').length === n", arg=JOBS
            )
            found = float(page.evaluate(_SCROLL))
            page.wait_for_selector(".submarine-Job:last-child .submarine-Job-spark")
            once = float(page.evaluate(_SCROLL))
            if number:
                ours.append(found)
                again.append(once)
    return Figure(
        what=f"longest frame while {JOBS} jobs are scrolled and their curves come",
        target="<= 50 ms", unit="ms", ours=ours, peers={"once more": again},
    )  # fmt: skip


def _copy(paths: JobPaths, job_id: str) -> None:
    """Make another job of one that is over: the same in all but its id."""
    target = paths.root.with_name(job_id)
    shutil.copytree(paths.root, target, ignore=lambda folder, names: [
        name for name in names if not (Path(folder) / name).is_file()
        and not (Path(folder) / name).is_dir()
    ])  # fmt: skip
    for name in ("record.json", "status.json", "events.jsonl"):
        file = target / name
        file.write_text(file.read_text().replace(paths.job_id, job_id))
