"""A job's page for front ends without our extension: the card and its logs' ends, no script."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from http import HTTPStatus

from jupyter_server.base.handlers import JupyterHandler
from submarine_engine.errors import SubmarineError
from submarine_engine.events import Moment
from tornado import web

from submarine_jupyter import jobs
from submarine_jupyter.work import Work

_SHOWN = 1 << 16
"""Bytes of each log on the page."""
_TASKS = 16
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)


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
        except SubmarineError as error:
            self.set_status(HTTPStatus.NOT_FOUND)
            text = _document("no such job", f"<p>{escape(str(error))}</p>", running=False)
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
    from submarine_magics.card.model import view  # noqa: PLC0415
    from submarine_magics.card.record import read_record  # noqa: PLC0415

    job = jobs.opened(job_id)
    status = job.status()
    links = tuple(job.cluster.links(job_id).items())
    card = view(replace(read_record(job), links=links), status, Moment.now())
    logs = [_log(job_id, task.task, name) for task in status.tasks[:_TASKS] for name in _STREAMS]
    return _document(card.title, to_html(card) + "".join(logs), running=not card.final)


_STREAMS = ("stdout", "stderr")


def _log(job_id: str, task: str, stream: str) -> str:
    try:
        _, size = jobs.log(job_id, task, stream, 0, 0)
        start = max(0, size - _SHOWN)
        data, _ = jobs.log(job_id, task, stream, start, _SHOWN)
    except OSError:
        return ""
    if not data:
        return ""
    before = f", from byte {start:,}" if start else ""
    text = escape(data.decode("utf-8", "replace"))
    return f"<h2>{escape(task)} {stream}{before}</h2><pre>{text}</pre>"


def _document(title: str, body: str, *, running: bool) -> str:
    again = '<meta http-equiv="refresh" content="5">' if running else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{again}'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title></head><body>{body}</body></html>"
    )
