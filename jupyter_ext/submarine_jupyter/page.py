"""A job's page for front ends without our extension: card, logs' ends and pictures, no script.

At the server's own origin a script could do whatever the user can, so this shows the ends of logs
alone. Logs are followed by the kernel's page (`submarine_magics.card.pages`), or in JupyterLab.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from html import escape
from http import HTTPStatus
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from submarine_engine.amounts import size
from submarine_engine.errors import SubmarineError
from submarine_engine.events import Display, Moment
from submarine_engine.history import JobPaths

from submarine_jupyter import jobs
from submarine_jupyter.access import may
from submarine_jupyter.output import STREAMS, Output
from submarine_jupyter.routes import status_of
from submarine_jupyter.work import Work

_STEP = 64 << 20
_LINES = 500
_LONGEST = 2000
_TASKS = 16
_MOST_LINKS = 500
_DISPLAYS = 4 << 20
"""Characters of a task's displays on the page, but for a single one."""
_MOST_DISPLAYS = 20
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_COLOURS = re.compile(r"\x1b\[[0-9;:]{0,40}[A-Za-z]")
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
_STYLE = """
body { margin: 0 auto; max-width: 1100px; padding: 16px; font-size: 14px; }
.submarine-card { max-width: none !important; }
header { align-items: baseline; gap: 0 12px; margin-top: 20px; }
h2 { margin: 0; font-size: 15px; }
header span { color: var(--quiet); font-size: 12px; }
/* Reversed, a box shows its end first. */
.log { display: flex; flex-direction: column-reverse; max-height: 60vh; overflow: auto;
  margin-top: 6px; background: var(--soft); border: 1px solid var(--line); border-radius: 8px; }
.log pre { margin: 0; padding: 10px 14px;
  font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  unicode-bidi: plaintext; }
.wide .log pre { white-space: pre; }
.err { border-left: 3px solid var(--warn); margin-left: -7px; padding-left: 4px; }
.time { color: var(--quiet); user-select: none; }
nav { margin-top: 20px; font-size: 12px; color: var(--quiet); }
.shown { padding: 4px 14px; }
.shown img { display: block; max-width: 100%; background: #fff; margin: 6px 0; }
.shown pre { margin: 6px 0; font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; unicode-bidi: plaintext; }
"""


class JobPage(JupyterHandler):
    """``/submarine/jobs/<id>``."""

    def initialize(self, work: Work) -> None:
        """Take the threads."""
        self.work = work

    @property
    def content_security_policy(self) -> str:
        """No script at all, whatever a job writes."""
        return _POLICY

    @may("read")
    async def get(self, job_id: str) -> None:
        """Send the page as the job stands; it loads itself again while the job runs."""
        try:
            cluster = await self.work.call("jobs", jobs.cluster_of, job_id)
            times, wrap = (self.get_query_argument(name, "") for name in ("times", "wrap"))
            text = await self.work.call(f"{cluster} jobs", page, job_id, times, wrap)
        except (SubmarineError, OSError) as error:
            status = status_of(error)
            self.set_status(status)
            passes = status >= HTTPStatus.INTERNAL_SERVER_ERROR  # one that is silent answers again
            text = _document("no page", f"<p>{escape(str(error))}</p>", running=passes)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        await self.finish(text)


def page(job_id: str, times: str = "", wrap: str = "1") -> str:
    """Return a job's page; may block.

    Parameters
    ----------
    job_id
        The job.
    times
        Whether lines have their times: ``since`` the code began, by the ``clock``; none otherwise.
    wrap
        ``0`` for long lines that reach beyond the edge.

    Raises
    ------
    SubmarineError
        There is no such job, or it cannot be read.
    """
    # Late: the card brings IPython, which a server without such pages need not load.
    from submarine_magics.card.model import view  # noqa: PLC0415
    from submarine_magics.card.pages import with_links  # noqa: PLC0415
    from submarine_magics.card.record import read_record  # noqa: PLC0415
    from submarine_magics.card.tree import to_html  # noqa: PLC0415

    job = jobs.opened(job_id)
    status = job.status()
    paths = jobs.paths_of(job_id)
    origin = jobs.origin_of(paths).cell
    record = with_links(read_record(job, origin=origin, machine=False), job)
    card = view(record, status, Moment.now())
    tasks = status.ranked[:_TASKS]
    outputs = [
        _output(paths, task.task, times, task.busy.wall if task.busy else None) for task in tasks
    ]
    left = [task.task for task in status.ranked[_TASKS:]]
    more = f"<p>Logs of the other tasks: {_files(job_id, left)}</p>" if left else ""
    choices = _choices(times, wrap) if any(outputs) else ""
    # The page loads itself again while the job runs: what its reader opens would be closed.
    body = to_html(card, opened=True) + choices + "".join(outputs) + more
    return _document(card.title, body, running=not card.final, wraps=wrap != "0")


def _files(job_id: str, tasks: Sequence[str]) -> str:
    """Return links to the logs of tasks; of very many, to the first."""
    links = [
        f'<a href="{escape(f"../api/jobs/{job_id}/output/{task}/file")}">{escape(task)}</a>'
        for task in tasks[:_MOST_LINKS]
    ]
    left = len(tasks) - len(links)
    return " · ".join([*links, *([f"and {left} more"] if left > 0 else [])])


def _choices(times: str, wrap: str) -> str:
    """Return the links by which the reader says how lines are to be shown."""

    def link(text: str, wanted: tuple[str, str]) -> str:
        if wanted == (times, wrap):
            return f"<b>{text}</b>"
        return f'<a href="?times={wanted[0]}&amp;wrap={wanted[1]}">{text}</a>'

    known = {"": "no times", "since": "since start", "clock": "clock time"}
    times, wrap = times if times in known else "", "0" if wrap == "0" else "1"
    by_time = " · ".join(link(text, (key, wrap)) for key, text in known.items())
    by_wrap = " · ".join(
        link(text, (times, key)) for key, text in (("1", "wrap"), ("0", "no wrap"))
    )
    return f"<nav>Lines: {by_time} | {by_wrap}</nav>"


def _output(paths: JobPaths, task: str, times: str, began: float | None) -> str:
    """Return the end of what a task wrote and shows, as it is left on screen."""
    output = Output(paths, task)
    try:
        while not output.grow(_STEP):
            pass
        told: Any = output.read(None, _LINES)
        shown = _shown(output)
    except (OSError, SubmarineError):
        return ""
    if not told["lines"] and not shown:
        return ""
    parts = [f'<div class="shown">{text}</div>' for at, text in shown if at <= told["start"]]
    lines: list[str] = []
    for at, (line, err, wall) in enumerate(
        zip(told["lines"], told["streams"], told["times"], strict=True), told["start"] + 1
    ):
        text = _log_line(line)
        text = f'<span class="err" title="stderr">{text}</span>' if err else text
        lines.append(_time(wall, times, began) + text)
        if here := [html for place, html in shown if place == at]:
            parts += [_pre(lines), *(f'<div class="shown">{html}</div>' for html in here)]
            lines = []
    parts += [_pre(lines)] if lines else []
    part = "its last lines · " if told["start"] else ""
    files = f"../api/jobs/{paths.job_id}"
    links = " · ".join(
        f'<a href="{escape(f"{files}/{path}/file")}">{name}</a>'
        for name, path in (
            ("the whole log", f"output/{task}"),
            *((stream, f"logs/{task}/{stream}") for stream in STREAMS),
        )
    )
    note = "HTML and widgets are shown in the notebook · " if shown else ""
    return (
        f"<header><h2>{escape(task)}</h2><span>{part}{note}{size(told['size'])}</span>"
        f"<span>{links}</span></header>"
        f'<div class="log" tabindex="0" role="region" aria-label="output of {escape(task)}">'
        f"<div>{''.join(parts)}</div></div>"
    )


def _pre(lines: list[str]) -> str:
    return f"<pre>{chr(10).join(lines)}</pre>"


def _time(wall: float | None, times: str, began: float | None) -> str:
    if wall is None or times not in ("since", "clock") or (times == "since" and began is None):
        return ""
    if times == "clock":
        try:
            text = time.strftime("%H:%M:%S", time.localtime(wall))
        except (OverflowError, ValueError, OSError):
            return ""
    else:
        tenths = max(0, round((wall - (began or 0.0)) * 10))
        minutes, seconds = divmod(tenths // 10, 60)
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}:{minutes:02}:" if hours else f"{minutes}:"
        text += f"{seconds:02}.{tenths % 10}"
    return f'<span class="time">{text}</span> '


def _shown(output: Output) -> list[tuple[int, str]]:
    """Return the last things that a task shows, each with the lines before it.

    Pictures, and all else as its text: HTML of a job's is nobody's whom this page could trust.
    """
    found: list[tuple[int, str]] = []
    left = _DISPLAYS
    told: Any = output.shown()
    for item in reversed(told["displays"][-_MOST_DISPLAYS:]):
        bundle: Any = output.display(item["offset"])
        text = _display(bundle["data"])
        left -= len(text)
        if left < 0 and found:
            break
        if text:
            found.insert(0, (item["line"], text))
    return found


def _display(bundle: Mapping[str, Any]) -> str:
    item = Display(task="", offset=0, data=bundle)
    text = "\n".join(map(_log_line, item.text.split("\n")[:_LINES]))
    for kind in _PICTURES:
        data = bundle.get(kind)
        data = re.sub(r"\s", "", data) if isinstance(data, str) else ""
        if _BASE64.fullmatch(data):
            return f'<img alt="{text}" src="data:{kind};base64,{data}">'
    return f"<pre>{text}</pre>" if text else ""


def _log_line(line: str) -> str:
    from submarine_magics.card.words import visible_lines  # noqa: PLC0415 - brings IPython

    return escape(visible_lines(_COLOURS.sub("", line), _LONGEST))


def _document(title: str, body: str, *, running: bool, wraps: bool = True) -> str:
    from submarine_magics.card.tree import page_style  # noqa: PLC0415 - brings IPython

    again = '<meta http-equiv="refresh" content="5">' if running else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{again}'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{page_style()}{_STYLE}</style></head>"
        f'<body class="{"" if wraps else "wide"}"><main>{body}</main></body></html>'
    )
