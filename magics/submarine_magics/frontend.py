"""The front end of a kernel: its notebook, how it wants things shown, how fast it takes them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from submarine_engine.clusters.environment import FIGURES, TABLES

if TYPE_CHECKING:
    from submarine_engine.future import Job

# What a front end other than Jupyter's does its own way, told by whoever loads the magics there.
#
# A kernel serves one front end, so there is one of these in a process.


class Leave(Protocol):
    """Follows a job in place of its cell."""

    def __call__(self, job: Job, *, shown: bool, origin: str, which: str) -> None:
        """Follow `job`; `shown` says whether its value is shown, `origin` where it is from.

        `which` says whose log is shown, as `submarine_engine.logs.follow` has it.
        """


@dataclass(slots=True)
class FrontEnd:
    """How the front end of this kernel shows things and calls them.

    Parameters
    ----------
    widgets
        Whether it shows Jupyter's widgets: without them a card is HTML that is replaced.
    log_type
        MIME type of a message without a view that comes before a job's text; empty for none.
    tables
        Whether it has tables of its own for data frames, made of `submarine_engine.tables.TYPE`.
    white
        Whether its page is white, whatever the system's colours are.
    colours
        Whether it shows the colours of terminals in text.
    notebook
        Which notebook it is, where no file tells: no other one has this name.
    title
        What people call it.
    order
        Ids of the notebook's cells from top to bottom, where no file tells.
    names
        How cells are called, by id; the others by their numbers: ``In [3]``.
    leave
        Takes the job of the cell that runs now, where the front end follows it and has it brought
        home when it is over; the cell then ends with the submission. None where the cell does that.
    log_page
        Returns the address of a job's log page, where this front end has its own; None where this
        machine's is meant.
    board_page
        Returns the address of a TensorBoard for this front end's browsers, given that on its own
        machine, or None where they cannot reach it; None itself where they are on that machine.
    """

    widgets: bool = True
    log_type: str = ""
    tables: bool = False
    white: bool = False
    colours: bool = True
    notebook: str = ""
    title: str = ""
    order: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    leave: Leave | None = None
    log_page: Callable[[Job], str | None] | None = None
    board_page: Callable[[str], str | None] | None = None

    def name_of(self, cell_id: str | None) -> str:
        """Return how the cell `cell_id` is called; empty for one that is called by its number."""
        return self.names.get(cell_id or "", "")


_SESSION = "JPY_SESSION_NAME"
"""Set for the kernel by Jupyter's server."""

current = FrontEnd()
"""That of this process."""


def shows_widgets(request: Mapping[str, object]) -> bool:
    """Return whether somebody may see a widget that the cell which runs now displays.

    Who runs a notebook as a program (papermill, nbconvert, nbclient) says of no cell which one it
    is, and is no server. Its file would keep the widget's state, another one with each run.

    Parameters
    ----------
    request
        The metadata that came with the cell.
    """
    if not current.widgets:
        return False
    return "cellId" in request or _SESSION in os.environ or "google.colab" in sys.modules


# Which notebook this kernel belongs to: best effort, by what the front ends tell.


def notebook_path(namespace: Mapping[str, object]) -> Path | None:
    """Return the notebook's file, None where nobody tells.

    Told by, in this order: ``SUBMARINE_NOTEBOOK``; VS Code, which sets ``__vsc_ipynb_file__`` in
    the kernel's namespace; Jupyter's server, which sets ``JPY_SESSION_NAME`` for the kernel; the
    command line of the process that started the kernel (``papermill in.ipynb out.ipynb``,
    ``jupyter execute``, ``pytest --nbval``), where it names exactly one notebook that exists first.

    Parameters
    ----------
    namespace
        The kernel's user namespace.
    """
    told = (
        os.environ.get("SUBMARINE_NOTEBOOK"),
        namespace.get("__vsc_ipynb_file__"),
        os.environ.get(_SESSION),
    )
    for path in told:
        if isinstance(path, str) and path.endswith(".ipynb"):
            return Path(path).absolute()
    return _from_parent()


def cell_order(namespace: Mapping[str, object]) -> list[str]:
    """Return the ids of the notebook's cells from top to bottom, as it was saved last.

    What the front end says itself comes first. Empty where the file is not known, is half written,
    or has no ids (before nbformat 4.5).

    Parameters
    ----------
    namespace
        The kernel's, in which some front ends say which file it is.
    """
    if current.order:
        return list(current.order)
    path = notebook_path(namespace)
    try:
        cells = json.loads(path.read_bytes())["cells"] if path else []
        return [cell["id"] for cell in cells if isinstance(cell["id"], str)]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _from_parent() -> Path | None:
    """Look at the parent's arguments, by Linux's ``/proc``."""
    if not sys.platform.startswith("linux"):
        return None
    parent = Path("/proc", str(os.getppid()))
    try:
        words = parent.joinpath("cmdline").read_bytes().split(b"\0")
        folder = parent.joinpath("cwd").readlink()
    except OSError:
        return None
    for word in words:
        name = os.fsdecode(word).partition("::")[0]  # pytest's FILE::CELL
        if name.endswith(".ipynb") and (folder / name).is_file():
            return folder / name
    return None


# How the notebook wants things shown, for a job that shows some.


def display_settings() -> dict[str, str]:
    """Return the variables that tell a job how its notebook shows figures and tables.

    None where all is as usual.
    """
    tables = {TABLES: "1"} if current.tables else {}
    return {**_figure_settings(), **tables}


def _figure_settings() -> dict[str, str]:
    """Return what ``%config InlineBackend`` was told; looks only, nothing is imported."""
    config = getattr(sys.modules.get("matplotlib_inline.config"), "InlineBackend", None)
    if config is None or not config.initialized():
        return {}
    now = config.instance()
    told = {
        "figure_formats": sorted(now.figure_formats),
        "print_figure_kwargs": dict(now.print_figure_kwargs),
        "close_figures": bool(now.close_figures),
    }
    usual = {name: config.class_traits()[name].default() for name in told}
    usual["figure_formats"] = sorted(usual["figure_formats"])
    try:
        return {FIGURES: json.dumps(told)} if told != usual else {}
    except (TypeError, ValueError):  # an option that no text can tell
        return {}


# Keeps what the kernel sends below the rates at which a Jupyter server drops messages.
#
# A server that sees more than 1 MB/s of output over 3 s (``iopub_data_rate_limit``) drops *every*
# message for a while, the final state too. 600 kB/s with a burst of 1 MB stays below it.


RATE = 600_000
BURST = 1_000_000


class Pace:
    """A budget of bytes that refills at `rate` up to `burst`.

    Parameters
    ----------
    rate
        Bytes per second.
    burst
        Bytes that may go at once after a pause.
    clock, sleep
        Of `time`; a test brings its own.
    """

    def __init__(
        self,
        rate: float = RATE,
        burst: float = BURST,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._left = burst
        self._at = clock()

    def take(self, size: int) -> None:
        """Wait until `size` bytes may go; more than a burst at once leaves a debt."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - size
        self._at = now
        if self._left < 0:
            self._sleep(-self._left / self._rate)

    def tight(self) -> bool:
        """Return whether so much went lately that a server might have dropped messages."""
        return self._left + (self._clock() - self._at) * self._rate < self._burst / 2


shared = Pace()
"""One budget for the whole kernel: the server counts all of its cells together."""
