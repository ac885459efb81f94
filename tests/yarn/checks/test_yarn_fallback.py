"""Whether a job of a notebook goes through a warm master, by what its queue has room for."""

from types import SimpleNamespace

import pytest
from submarine_engine.clusters.yarn.allocator import (
    DedicatedApplication,
    SharedApplication,
    open_allocator,
)
from submarine_engine.clusters.yarn.log_transport import Channel, Choice
from submarine_engine.history import JobPaths, make_private
from submarine_engine.job import JobSpec, Resources, Role

LAUNCH = {"environment": "key", "probed": False, "python": "/usr/bin/python3"}


@pytest.fixture
def way(recorded, tmp_path):
    """Give the way that a job takes where the keeper has, or has not, a master for it."""

    def choose(recording, *, kept, channel=Channel.NODES, mode="auto", **spec):
        services = SimpleNamespace(
            rm=recorded(recording).rm,
            session=lambda _: ("kernel", "1"),
            masters=SimpleNamespace(keeps=lambda _: kept),
            logs=SimpleNamespace(choice=lambda: Choice(channel, "nodes are silent")),
        )
        paths = JobPaths(tmp_path, "20260101-000000-abcde")
        return open_allocator(services, paths, JobSpec(options={"mode": mode}, **spec), LAUNCH)

    return choose


def test_room_for_a_master(way):
    chosen = way("busy", kept=False, notebook="a.ipynb")
    assert (type(chosen), chosen.note) == (SharedApplication, "")


def test_no_room_for_a_master_is_said(way):
    chosen = way("held-back", kept=False, notebook="a.ipynb")
    assert type(chosen) is DedicatedApplication
    assert "no room for a warm one" in chosen.note


def test_a_master_that_is_there_needs_no_more_room(way):
    assert type(way("held-back", kept=True, notebook="a.ipynb")) is SharedApplication


@pytest.mark.parametrize("mode", ["auto", "warm", "cold"])
def test_where_logs_come_after_the_end_only_it_is_said(way, mode):
    chosen = way("busy", kept=True, notebook="a.ipynb", mode=mode, channel=Channel.AFTER)
    assert type(chosen) is DedicatedApplication
    assert chosen.note == "its log comes after its end: nodes are silent"


def test_jobs_of_programs_and_the_users_own_choice(way):
    assert type(way("busy", kept=False)) is DedicatedApplication
    assert type(way("held-back", kept=False, mode="warm")) is SharedApplication
    assert type(way("busy", kept=True, notebook="a.ipynb", mode="cold")) is DedicatedApplication


class Master:
    """Of a job's application: it has these containers."""

    def __init__(self, *containers):
        self.containers = containers

    def get_containers(self, states):  # noqa: ARG002 - as skein has it
        return self.containers

    def close(self):
        pass


def test_of_a_gang_that_was_given_back_no_container_is_one_of_the_next_application(
    way, tmp_path, monkeypatch
):
    make_private(tmp_path / "jobs" / "20260101-000000-abcde")
    roles = (Role(count=2, resources=Resources(gpus=1)),)
    gang = way("busy", kept=False, mode="cold", roles=roles)
    monkeypatch.setattr(gang._services.rm, "kill", lambda _: None)
    came = SimpleNamespace(
        id="worker_0", yarn_container_id="container_1", yarn_node_http_address="n1:8042",
        start_time=None, state="RUNNING",
    )  # fmt: skip
    instances = {"worker-0": "worker_0", "worker-1": "worker_1"}
    gang.app_id, gang._app, gang._instances = "application_1", Master(came), instances
    assert list(gang._poll()) == ["worker-0"]
    gang.give_back()
    gang._app, gang._instances = Master(), instances  # it has yet to hear what it is asked for
    assert gang._poll() == {}
