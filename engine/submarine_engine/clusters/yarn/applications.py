"""The applications of a cluster that are not over (``/ws/v1/cluster/apps``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from submarine_engine.clusters.yarn.foreign import at, listed, number, told, usage

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.rest import ResourceManager

JOB_TAG = "submarine-job:"

_ALIVE = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One application: `used` it holds, `pending` it waits for, `diagnostics` the RM's words."""

    id: str
    name: str = ""
    user: str = ""
    queue: str = ""
    state: str = ""
    kind: str = ""
    diagnostics: str = ""
    tags: tuple[str, ...] = ()
    priority: int = 0
    started: int = 0
    used: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether it waits for containers, or will as soon as its application master is up."""
        return self.state != "RUNNING" or any(value > 0 for value in self.pending.values())

    @property
    def job_id(self) -> str | None:
        """The Submarine job that it is for, by its tags."""
        found = (tag[len(JOB_TAG) :] for tag in self.tags if tag.startswith(JOB_TAG))
        return next(found, None)

    def before(self, other: Application) -> bool:
        """Whether the scheduler serves it before `other` of the same queue."""
        return (-self.priority, self.started, self.id) < (-other.priority, other.started, other.id)


def read_application(one: Mapping[str, Any]) -> Application:
    """Read one application of the ResourceManager's answer."""
    resources = one.get("resourceInfo")
    return Application(
        id=told(one.get("id"), 80),
        name=told(one.get("name"), 80),
        user=told(one.get("user"), 80),
        queue=told(one.get("queue"), 400),
        state=told(one.get("state"), 40),
        kind=told(one.get("applicationType"), 40),
        diagnostics=told(one.get("diagnostics"), 1000),
        tags=tuple(tag.strip() for tag in str(one.get("applicationTags") or "").split(",")),
        priority=number(one.get("priority")),
        started=number(one.get("startedTime")),
        used=usage(resources, "used"),
        pending=usage(resources, "pending"),
    )


def alive(rm: ResourceManager, queue: str = "") -> list[Application]:
    """Return the applications that are not over, those of one queue (its path) where it is given.

    Raises
    ------
    ClusterError
        The ResourceManager does not answer.
    """
    query = {
        "states": _ALIVE,
        "deSelects": "resourceRequests",
        **({"queue": queue} if queue else {}),
    }
    found = [
        read_application(one)
        for one in listed(rm.get("/ws/v1/cluster/apps", **query), "apps", "app")
    ]
    return [one for one in found if not queue or in_queue(one, queue)]


def one(rm: ResourceManager, app_id: str) -> Application:
    """Return an application, whatever became of it; raises as `alive` does."""
    found = at(rm.get(f"/ws/v1/cluster/apps/{quote(app_id, safe='')}"), "app")
    return read_application(found if isinstance(found, Mapping) else {"id": app_id})


def in_queue(application: Application, queue: str) -> bool:
    """Whether an application is in the queue of that path; old releases tell its name alone."""
    return application.queue in (queue, queue.rsplit(".", 1)[-1])
