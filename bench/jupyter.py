"""JupyterLab with our extension: first paint, a line's way to the screen, a log of 100 MB, size.

All of it in a real JupyterLab and a real Chromium without a screen; times are the page's own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from bench.streams import p95
from bench.table import Figure, in_turn

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))  # what drives JupyterLab for pictures drives it here

from lab_driver import LIMIT, Lab, Notebook, chromium  # noqa: E402 - found by the line above

ROUNDS = 5
LOAD = "%load_ext submarine_magics"
CARD = ".submarine-Card .submarine-card"
PANE = ".submarine-Log .smc-pane"
JOB = "%%submarine --detach --gpus 0\n"
HTML = "from IPython.display import HTML\nHTML('<b class=\"plain-html\">x</b>')"
TICK = """
import sys, time
for number in range(100):
    time.sleep(0.05)
    print(f"at {time.time() * 1000:.1f}", flush=True)
"""
LONG = """
import sys
for block in range(BLOCKS):
    numbers = range(block * 1000, block * 1000 + 1000)
    sys.stdout.write("".join(f"line {number:07d} {'.' * 86}\\n" for number in numbers))
"""
# Runs a cell, and returns how many ms later an element that was not there is painted.
PAINT = """([index, wanted]) => new Promise((resolve) => {
    const {content, sessionContext} = window.jupyterapp.shell.currentWidget;
    const before = new Set(document.querySelectorAll(wanted));
    content.activeCellIndex = index;
    const start = performance.now();
    const seen = new MutationObserver(() => {
        if ([...document.querySelectorAll(wanted)].some((node) => !before.has(node))) {
            seen.disconnect();
            requestAnimationFrame(() => resolve(performance.now() - start));
        }
    });
    seen.observe(document.body, {childList: true, subtree: true});
    window.jupyterapp.commands.execute("notebook:run-cell");
})"""
# Notes for each `at TIME` how many ms after TIME it came to be where `place` is.
WATCH = """(place) => {
    const late = (window.late = {});
    const begun = Date.now();  // what an earlier round has left is no line of this one
    const look = () => {
        const now = Date.now();
        for (const found of document.querySelectorAll(place))
            for (const [, at] of found.textContent.matchAll(/at (\\d+\\.\\d)/g))
                if (Number(at) > begun) late[at] ??= now - Number(at);
        if (window.late === late) requestAnimationFrame(look);
    };
    look();
}"""
# Leaves the log and comes back; returns how many seconds later its last line is painted.
OPEN = """([index, place]) => new Promise((resolve) => {
    const log = document.querySelectorAll(place)[index].closest(".submarine-Log");
    const lanes = log.querySelectorAll(".smc-lane");
    lanes[1].click();
    setTimeout(() => {
        const start = performance.now();
        lanes[0].click();
        const look = () => {
            const shown = log.querySelector(".smc-row:not(:empty)");
            if (shown) resolve((performance.now() - start) / 1000);
            else requestAnimationFrame(look);
        };
        look();
    }, 500);
})"""
# Scrolls by a wheel's steps, and returns the longest time between two frames in ms.
SCROLL = """([index, place]) => new Promise((resolve) => {
    const pane = document.querySelectorAll(place)[index];
    let [last, longest, number] = [performance.now(), 0, 0];
    const step = (now) => {
        longest = Math.max(longest, number > 5 ? now - last : 0);
        last = now;
        const event = new WheelEvent("wheel", {deltaY: -240, bubbles: true, cancelable: true});
        if (pane.dispatchEvent(event)) pane.scrollTop -= 240;
        if (++number < 120) requestAnimationFrame(step);
        else resolve(longest);
    };
    requestAnimationFrame(step);
})"""


@contextmanager
def in_lab(folder: Path, sources: Sequence[str]) -> Iterator[Page]:
    """Open a notebook of these cells; the first one has run."""
    with chromium() as browser:
        (folder / "lab").mkdir()
        lab = Lab(folder / "lab")
        try:
            page = browser.new_context(viewport={"width": 1000, "height": 900}).new_page()
            page.set_default_timeout(LIMIT)
            notebook = Notebook(lab, page, "bench", [LOAD, *sources])
            notebook.command("notebook:run-cell")
            page.wait_for_selector(".jp-InputPrompt:has-text('[1]:')")
            yield page
        finally:
            lab.stop()


def paint(folder: Path) -> Figure:
    """Measure from the run of a cell until its card is painted."""
    quick = JOB + "1"
    with in_lab(folder, [quick, HTML]) as page:
        mine, plain = in_turn(
            ROUNDS,
            lambda: float(page.evaluate(PAINT, [1, CARD])) / 1000,
            lambda: float(page.evaluate(PAINT, [2, ".plain-html"])) / 1000,
        )
    return Figure(
        what="cell started → card painted",
        target="≤ 0.3 s",
        unit="s",
        ours=mine,
        peers={"a cell that shows HTML": plain},
    )


def lag(folder: Path) -> Figure:
    """Measure how long a line of a job takes to the screen, beside a cell's own print."""

    def late(page: Page, index: int, place: str) -> float:
        page.evaluate(WATCH, place)
        page.evaluate(PAINT, [index, place])
        page.wait_for_function("() => Object.keys(window.late).length >= 100")
        return p95([float(value) / 1000 for value in page.evaluate("Object.values(late)")])

    with in_lab(folder, [JOB + TICK, TICK]) as page:
        mine, prints = in_turn(
            2,
            lambda: late(page, 1, ".submarine-Log .smc-lines"),
            lambda: late(page, 2, ".jp-OutputArea-output[data-mime-type*=stdout]"),
        )
    return Figure(
        what="line in the job → on screen, p95",
        target="≤ 0.5 s",
        unit="s",
        ours=mine,
        peers={"a cell's own print": prints},
    )


def _logs(folder: Path, script: str, *, end: bool = False) -> list[list[float]]:
    """Run a page's script on the log views of 100 MB and of 100 kB, in turn."""
    sources = [JOB + LONG.replace("BLOCKS", blocks) for blocks in ("1000", "1")]
    with in_lab(folder, sources) as page:
        for index in (1, 2):
            page.evaluate(PAINT, [index, CARD])
            cell = page.locator(".jp-CodeCell").nth(index)
            cell.locator(f"{CARD}[data-state=succeeded]").wait_for()
            cell.locator(".smc-row:not(:empty)").first.wait_for()

        def measure(index: int) -> float:
            if end:
                page.locator(PANE).nth(index).press("End")
            return float(page.evaluate(script, [index, PANE]))

        return in_turn(3, lambda: measure(0), lambda: measure(1))


def opening(folder: Path) -> Figure:
    """Measure from the choice of a log of 100 MB until its last lines are painted."""
    mine, short = _logs(folder, OPEN)
    return Figure(
        what="100 MB log opens",
        target="≤ 1 s",
        unit="s",
        ours=mine,
        peers={"a log of 100 kB": short},
    )


def scrolling(folder: Path) -> Figure:
    """Measure the longest frame while a log of 100 MB is scrolled."""
    mine, short = _logs(folder, SCROLL, end=True)
    return Figure(
        what="100 MB log: longest frame while scrolling",
        target="≤ 50 ms",
        unit="ms",
        ours=mine,
        peers={"a log of 100 kB": short},
    )


def bundle(_folder: Path) -> Figure:
    """Measure the front end's size, beside that of ipywidgets."""

    def size(folder: Path) -> list[float]:
        found = sum(file.stat().st_size for file in folder.rglob("static/*.js"))
        return [found / 1000]

    widgets = Path(sys.prefix) / "share/jupyter/labextensions/@jupyter-widgets/jupyterlab-manager"
    return Figure(
        what="front end's scripts",
        target="≤ 300 kB",
        unit="kB",
        ours=size(ROOT / "jupyter_ext/labextension/dist"),
        peers={"ipywidgets": size(widgets)},
    )
