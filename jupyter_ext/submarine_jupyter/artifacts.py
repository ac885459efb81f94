"""The files that a job has left, by REST: a list, and each as a download."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from submarine_engine.artifacts import address, open_artifact, shown
from submarine_engine.errors import CommandError
from tornado import web
from tornado.iostream import StreamClosedError

from submarine_jupyter import jobs
from submarine_jupyter.handlers import Api
from submarine_jupyter.routes import END, Number, Plugin, Route, Server
from submarine_jupyter.work import Work

_POOL = "artifacts"
_LIMIT = 60.0
"""Seconds: a hundred thousand files are listed."""

_BLOCK = 1 << 18
_LONGEST = 20_000
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{0,18})")
_FILE = {
    "type": "object",
    "required": ["name", "size", "task", "path"],
    "properties": {
        **{key: {"type": "string"} for key in ("name", "task", "path")},
        "size": {"type": "integer", "minimum": 0},
    },
}


def listed(job_id: str, limit: int) -> dict[str, Any]:
    """Return what a job has left: the first files, how many more there are, what was left out.

    Parameters
    ----------
    job_id
        The job.
    limit
        How many files are listed at most.
    """
    job = jobs.opened(job_id)
    found = job.cluster.artifacts(job.id)
    paths = jobs.paths_of(job_id)
    return {
        "artifacts": [
            {
                "name": shown(one.name),
                "size": one.size,
                "task": one.task,
                "path": address(paths, one),
            }
            for one in found.files[:limit]
        ],
        "more": max(0, len(found.files) - limit),
        "left_out": dict(found.left),
    }


_LIST = Route(
    "get",
    "/jobs/{job_id}/artifacts",
    "The files that the job has left; `path` is for the route of one",
    listed,
    numbers={"limit": Number(1000, 1, 10_000)},
    reply={
        "type": "object",
        "required": ["artifacts", "more", "left_out"],
        "properties": {
            "artifacts": {"type": "array", "items": _FILE},
            "more": {"type": "integer", "minimum": 0},
            "left_out": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    },
)
_ONE = Route(
    "get",
    "/jobs/{job_id}/artifacts/{task}/file",
    "One of them as a file; a range of bytes where one is asked for",
    kind="application/octet-stream",
    texts={
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": _LONGEST,
            "pattern": rf"^[A-Za-z0-9%/._~-]+{END}",
        }
    },
)


class ArtifactFile(Api):
    """``…/artifacts/<task>/file?path=``: as it is now, as fast as its reader reads."""

    async def respond(self, **names: str) -> None:
        """Send it: never as a page of this server's, whatever it holds."""
        path = self.get_query_argument("path", "", strip=False)
        if not re.fullmatch(r"[A-Za-z0-9%/._~-]{1,20000}", path):
            raise CommandError(
                "the path is not one of the list's",
                where="?path=",
                fix="send `path` of the list, encoded for an address once more",
            )
        file = await self.work.call(_POOL, _opened, names["job_id"], names["task"], path)
        try:
            await self._send(file, path)
        except StreamClosedError:
            return
        finally:
            os.close(file)

    async def _send(self, file: int, path: str) -> None:
        size = os.fstat(file).st_size
        self.set_header("Accept-Ranges", "bytes")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        begin, end = 0, size
        if asked := _RANGE.fullmatch(self.request.headers.get("Range", "")):
            begin = int(asked[1])
            end = min(size, int(asked[2]) + 1) if asked[2] else size
            if begin >= end:
                self.set_header("Content-Range", f"bytes */{size}")
                self.set_status(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
                answer = {"what": "the file has no such bytes", "where": "Range", "fix": ""}
                await self.finish(answer)
                return
            self.set_status(HTTPStatus.PARTIAL_CONTENT)
            self.set_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Disposition", disposition(path))
        self.set_header("Content-Length", str(end - begin))
        while begin < end:
            data = await self.work.call(_POOL, os.pread, file, min(_BLOCK, end - begin), begin)
            if not data:  # it was cut meanwhile: the length that was told cannot be kept
                raise web.HTTPError(500, "the file was cut while it was sent")
            self.write(data)
            await self.flush()
            begin += len(data)
        await self.finish(set_content_type="application/octet-stream")


def _opened(job_id: str, task: str, path: str) -> int:
    paths = jobs.paths_of(job_id)
    try:
        return open_artifact(paths, task, os.fsdecode(unquote_to_bytes(path)))
    except OSError as error:  # a link, a folder, or nothing: there is no such artifact
        raise FileNotFoundError(path) from error


def disposition(path: str) -> str:
    """Return the header that has a browser keep a file under the last part of its name.

    Parameters
    ----------
    path
        As `address` has it.
    """
    name = shown(os.fsdecode(unquote_to_bytes(path.rpartition("/")[2])))
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", name)[:200] or "artifact"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    _WORK[app] = Work(_LIMIT)
    return [(_ONE.pattern, ArtifactFile, {"work": _WORK[app], "routes": {"get": _ONE}})]


def _stop(app: Server) -> None:
    _WORK.pop(app).stop()


_WORK: dict[Server, Work] = {}
PLUGIN = Plugin(routes=(_LIST, _ONE), handlers=_handlers, stop=_stop)
