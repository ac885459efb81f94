"""Notebook servers on the cluster by REST: what may be asked for, begun, and how far one is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.api import waiting_words
from submarine_engine.clusters import cluster_choices
from submarine_engine.command import NOTEBOOK, parse
from submarine_engine.command.options import NOTEBOOK_SERVER, Option
from submarine_engine.config import load_config
from submarine_engine.errors import CommandError, JobError, SubmarineError
from submarine_engine.job import JobState
from submarine_engine.notebooks import (
    is_notebook,
    keep,
    open_notebook,
    raise_ended,
    server_of,
    submit,
)

from submarine_jupyter import jobs
from submarine_jupyter.access import may
from submarine_jupyter.handlers import Call
from submarine_jupyter.routes import CardPart, Plugin, Route, Server
from submarine_jupyter.work import Work

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus

_LIMIT = 600.0
"""Seconds: where a job brings an environment along, that is packed before it is submitted."""
_LONGEST = 4000

ASKED = ("cluster", "gpus", "queue", "idle", "dir")
"""The options that the dialog shows at once, in its order."""
MORE = ("name", "memory", "cpus", "time_limit", "within")
"""Those that it has folded in. What may be given several times is left to the command line."""


def form() -> dict[str, Any]:
    """Return the fields of the dialog, made of the options' declarations."""
    known = {option.key: option for option in NOTEBOOK_SERVER}
    return {
        "fields": [
            {**_field(known[key]), "more": key in MORE} for key in (*ASKED, *MORE) if key in known
        ]
    }


def _field(option: Option) -> dict[str, Any]:
    # Queues are those of the cluster that is chosen: the page knows them with its GPUs.
    choices = cluster_choices() if option.key == "cluster" else []
    value = getattr(option.type, "name", "") or ""
    return {
        "key": option.key,
        "value": value,
        "help": option.help or "",
        "standard": _configured_cluster() if option.key == "cluster" else "",
        "choices": list(choices),
    }


def _configured_cluster() -> str:
    try:
        return str(load_config({}).value("cluster"))
    except SubmarineError:  # a start says what is wrong with the configuration
        return ""


_TEXT = {"type": "string"}
_FIELD = {
    "type": "object",
    "required": ["key", "value", "help", "standard", "choices", "more"],
    "properties": {
        **dict.fromkeys(("key", "value", "help", "standard"), _TEXT),
        "choices": {"type": "array", "items": _TEXT},
        "more": {"type": "boolean"},
    },
}
_FORM = Route(
    "get",
    "/notebooks/form",
    "What may be asked of a notebook on the cluster: options of `submarine notebook start`",
    form,
    reply={
        "type": "object",
        "required": ["fields"],
        "properties": {"fields": {"type": "array", "items": _FIELD}},
    },
)
_START = Route(
    "post",
    "/notebooks",
    "Start a Jupyter server on a cluster, as a job; `folder` is where relative paths begin",
    body={
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "folder": _TEXT,
            "options": {"type": "object", "additionalProperties": _TEXT},
        },
    },
    reply={"type": "object", "required": ["job"], "properties": {"job": _TEXT}},
)
_STAND = Route(
    "get",
    "/jobs/{job_id}/notebook",
    "How far a notebook on the cluster is: `url` is its page, below the server's base URL, once"
    " it can be used",
    reply={
        "type": "object",
        "required": ["state", "waits", "url"],
        "properties": dict.fromkeys(("state", "waits", "url"), _TEXT),
    },
)
_KEEP = Route(
    "post",
    "/jobs/{job_id}/notebook/keep",
    "Use a notebook on the cluster, or a kernel: the time after which it ends unused begins anew",
    body={"type": "object", "additionalProperties": False},
    reply={"type": "object", "required": ["job"], "properties": {"job": _TEXT}},
)


class Start(Call):
    """``POST /submarine/api/notebooks``: answers with the job's id."""

    @may("execute")
    async def post(self, **names: str) -> None:
        """Start it; jupyter_server has checked the XSRF token."""
        await self._answered("post", names)

    async def respond(self, **_names: str) -> None:
        """Submit the job, in a pool of its own."""
        asked = self._body()
        options, folder = asked.get("options", {}), asked.get("folder", "")
        texts = isinstance(options, dict) and all(isinstance(one, str) for one in options.values())
        if asked.keys() - {"options", "folder"} or not texts or not isinstance(folder, str):
            raise CommandError(
                "the request cannot be understood",
                where="body",
                fix='send {"options": {"gpus": "1"}}, and "folder" if need be',
            )
        root = str(self.settings.get("server_root_dir", "."))
        where = Path(root, folder)
        self.tell(await self.work.call("notebook starts", started, options, where))


def started(options: dict[str, str], folder: Path) -> dict[str, Any]:
    """Start a notebook server as the options say; return its job's id.

    Parameters
    ----------
    options
        Texts by the options' keys, as `form` names them; empty ones are left out.
    folder
        Where relative paths begin, and where its notebooks are unless ``dir`` says.

    Raises
    ------
    CommandError
        There is no such option, a value is not possible, or the folder is not there.
    SubmissionError, ClusterError
        The cluster refuses the job.
    """
    unknown = sorted(options.keys() - {*ASKED, *MORE})
    if unknown:
        raise CommandError(
            f"there is no field {unknown[0]!r:.80}", where="body", fix="leave it out"
        )
    folder = folder.expanduser()
    if not folder.is_dir():
        raise CommandError(
            f"there is no folder {str(folder)!r:.400}", where="folder", fix="name one that is there"
        )
    given = {key: text.strip() for key, text in options.items() if text.strip()}
    if any(len(text) > _LONGEST or not text.isprintable() for text in given.values()):
        raise CommandError("a value cannot be used", where="body", fix="write one short line")
    words = [f"--{key}={text}" for key, text in given.items()]
    values = parse(["notebook", "start", *words], surface=NOTEBOOK).values
    return {"job": submit(values, lambda _: None, workdir=folder).id}


class Stand(Call):
    """``GET /submarine/api/jobs/<id>/notebook``."""

    async def respond(self, **names: str) -> None:
        """Ask, in a pool of its own: the answer comes from inside the job."""
        job_id = names["job_id"]
        cluster = await self.work.call("records", jobs.cluster_of, job_id)
        self.tell(await self.work.call(f"{cluster} notebooks", stand, job_id))


def stand(job_id: str) -> dict[str, Any]:
    """Return how far the notebook server `job_id` is: what it waits for, or where its page is.

    Raises
    ------
    JobNotFoundError, CommandError
        There is no such job, or it serves no notebooks.
    JobError
        It has ended; the job's own error where its code has failed.
    """
    job = open_notebook(jobs.paths_of(job_id).job_id)
    status = job.status()
    if status.state.final:
        raise_ended(job)
    url = ""
    if status.state is JobState.RUNNING and not status.cancelling:
        try:
            url = server_of(job, wait=False).proxy_path
        except JobError:
            if job.done():
                raise_ended(job)
    waits = "" if status.state is JobState.RUNNING else waiting_words(status)
    return {"state": status.state.value, "waits": waits, "url": url.lstrip("/")}


class Keep(Call):
    """``POST /submarine/api/jobs/<id>/notebook/keep``."""

    async def respond(self, **names: str) -> None:
        """Ask the job, in the pool of `Stand`."""
        job_id = names["job_id"]
        cluster = await self.work.call("records", jobs.cluster_of, job_id)
        self.tell(await self.work.call(f"{cluster} notebooks", keep_job, job_id))


def keep_job(job_id: str) -> dict[str, Any]:
    """Use the notebook server or kernel `job_id`; raises as `keep` does."""
    (job,) = keep([jobs.paths_of(job_id).job_id])
    return {"job": job}


def _card(job: Job) -> CardPart:
    serves = is_notebook(job)

    def part(status: JobStatus) -> dict[str, Any]:
        running = status.state is JobState.RUNNING and not status.cancelling
        notice = status.warning if running and status.unused else ""
        return {"notebook": serves and running, "notice": notice}

    return part


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    work = _WORK[app] = Work(_LIMIT)
    return [
        (_START.pattern, Start, {"work": work, "routes": {"post": _START}}),
        (_STAND.pattern, Stand, {"work": work, "routes": {"get": _STAND}}),
        (_KEEP.pattern, Keep, {"work": work, "routes": {"post": _KEEP}}),
    ]


def _stop(app: Server) -> None:
    _WORK.pop(app).stop()


_WORK: dict[Server, Work] = {}
PLUGIN = Plugin(routes=(_FORM, _START, _STAND, _KEEP), handlers=_handlers, card=_card, stop=_stop)
