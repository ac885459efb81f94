"""A job's page for front ends without our extension: card, logs' ends and pictures, no script."""

from __future__ import annotations

import re
from html import escape

from jupyter_server.base.handlers import JupyterHandler
from submarine_engine.errors import SubmarineError
from submarine_engine.events import Display, Moment
from submarine_engine.logs import last_state
from tornado import web

from submarine_jupyter import jobs
from submarine_jupyter.refusals import status_of
from submarine_jupyter.work import Work

_SHOWN = 1 << 16
"""Bytes of each log on the page."""
_LINES = 500
_LONGEST = 2000
_TASKS = 16
_STREAMS = ("stdout", "stderr")
_DISPLAYS = 4 << 20
"""Bytes of a task's displays on the page."""
_MOST_DISPLAYS = 20
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_COLOURS = re.compile(r"\x1b\[[0-9;:]{0,40}[A-Za-z]")
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
_STYLE = """
:root { color-scheme: light dark; --fg: #1f2328; --quiet: #59636e; --line: #d1d9e0;
  --ground: #fff; --soft: #f6f8fa; --link: #0969da; }
@media (prefers-color-scheme: dark) {
  :root { --fg: #e6edf3; --quiet: #9198a1; --line: #3d444d; --ground: #0d1117; --soft: #151b23;
    --link: #58a6ff; }
}
body { margin: 0 auto; max-width: 1100px; padding: 16px; background: var(--ground);
  color: var(--fg); font: 14px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
.submarine-card { max-width: none !important; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 12px; margin-top: 20px; }
h2 { margin: 0; font-size: 15px; }
header span { color: var(--quiet); font-size: 12px; }
a { color: var(--link); }
/* Reversed, a box shows its end first. */
.log { display: flex; flex-direction: column-reverse; max-height: 60vh; overflow: auto;
  margin-top: 6px; background: var(--soft); border: 1px solid var(--line); border-radius: 8px; }
.log pre { margin: 0; padding: 10px 14px;
  font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  unicode-bidi: plaintext; }
.shown { margin-top: 6px; padding: 10px 14px; border: 1px solid var(--line); border-radius: 8px; }
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

    @web.authenticated
    async def get(self, job_id: str) -> None:
        """Send the page as the job stands; it loads itself again while the job runs."""
        try:
            cluster = await self.work.call("jobs", jobs.cluster_of, job_id)
            text = await self.work.call(f"{cluster} jobs", page, job_id)
        except (SubmarineError, OSError) as error:
            self.set_status(status_of(error))
            text = _document("no page", f"<p>{escape(str(error))}</p>", running=False)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        await self.finish(text)


def page(job_id: str) -> str:
    """Return a job's page; may block.

    Raises
    ------
    SubmarineError
        There is no such job, or it cannot be read.
    """
    # Late: the card brings IPython, which a server without such pages need not load.
    from submarine_magics.card.html import to_html  # noqa: PLC0415
    from submarine_magics.card.links import with_links  # noqa: PLC0415
    from submarine_magics.card.model import view  # noqa: PLC0415
    from submarine_magics.card.record import read_record  # noqa: PLC0415

    job = jobs.opened(job_id)
    status = job.status()
    record = with_links(read_record(job, machine=False), job)
    card = view(record, status, Moment.now())
    tasks = status.tasks[:_TASKS]
    logs = [_log(job_id, task.task, name) for task in tasks for name in _STREAMS]
    logs += [_displays(job_id, task.task) for task in tasks]
    left = len(status.tasks) - len(tasks)
    more = f"<p>and the logs of {left} tasks more</p>" if left else ""
    return _document(card.title, to_html(card) + "".join(logs) + more, running=not card.final)


def _log(job_id: str, task: str, stream: str) -> str:
    """Return the end of a log, as it is left on screen."""
    try:
        _, size = jobs.log(job_id, task, stream, 0, 0)
        start = max(0, size - _SHOWN)
        data, _ = jobs.log(job_id, task, stream, start, _SHOWN)
    except OSError:
        return ""
    if not data:
        return ""
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n")
    shown = lines[1 if start and len(lines) > 1 else 0 :][-_LINES:]
    text = "\n".join(_line(line) for line in shown)
    part = "its last lines · " if start or len(shown) < len(lines) else ""
    whole = f"../api/jobs/{job_id}/logs/{task}/{stream}/file"
    return (
        f"<header><h2>{escape(task)} · {stream}</h2><span>{part}{size:,} bytes</span>"
        f'<a href="{escape(whole)}">the whole log</a></header>'
        f'<div class="log" tabindex="0" role="region" aria-label="{escape(task)} {stream}">'
        f"<pre>{text}</pre></div>"
    )


def _displays(job_id: str, task: str) -> str:
    """Return the last things that a task showed: pictures, and all else as its text.

    HTML of a job's is nobody's whom this page could trust.
    """
    try:
        found = jobs.displays(job_id, task, _DISPLAYS)
    except OSError:
        return ""
    shown = [_display(item) for item in found[-_MOST_DISPLAYS:]]
    if not any(shown):
        return ""
    part = "the last · " if len(found) > len(shown) else ""
    return (
        f"<header><h2>{escape(task)} · displays</h2>"
        f"<span>{part}HTML and widgets are shown in the notebook</span></header>"
        f'<div class="shown">{"".join(shown)}</div>'
    )


def _display(item: Display) -> str:
    text = "\n".join(map(_line, item.text.split("\n")[:_LINES]))
    for kind in _PICTURES:
        data = item.data.get(kind)
        data = re.sub(r"\s", "", data) if isinstance(data, str) else ""
        if _BASE64.fullmatch(data):
            return f'<img alt="{text}" src="data:{kind};base64,{data}">'
    return f"<pre>{text}</pre>" if text else ""


def _line(line: str) -> str:
    from submarine_magics.card.words import visible_lines  # noqa: PLC0415 - brings IPython

    return escape(visible_lines(_COLOURS.sub("", last_state(line)), _LONGEST))


def _document(title: str, body: str, *, running: bool) -> str:
    again = '<meta http-equiv="refresh" content="5">' if running else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{again}'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>"
    )
