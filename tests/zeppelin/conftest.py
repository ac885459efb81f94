"""A real Zeppelin: one for all tests of a process, others to be stopped and killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.zeppelin.rest import Client, Note
from tests.zeppelin.server import Server
from tests.zeppelin.talking import Talk


@pytest.fixture(scope="session")
def zeppelin(tmp_path_factory) -> Iterator[Server]:
    """Return the server that all tests share; leave it and its setting as they are."""
    server = Server(tmp_path_factory.mktemp("zeppelin"), environment={"SUBMARINE_LOCAL_GPUS": "4"})
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def talk(tmp_path) -> Iterator[Talk]:
    """Return an interpreter process alone, spoken to as Zeppelin does."""
    talk = Talk(tmp_path).begin()
    yield talk
    talk.close()


@pytest.fixture
def zeppelin_of_its_own(tmp_path) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server (arguments as `Server` has them); all end after."""
    yield from _servers(tmp_path)


@pytest.fixture(scope="module")
def zeppelin_of_the_module(tmp_path_factory) -> Iterator[Callable[..., Server]]:
    """Return the same for servers that a module's tests share: their setting may be changed."""
    yield from _servers(tmp_path_factory.mktemp("zeppelins"))


def _servers(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(**wanted) -> Server:
        environment = {"SUBMARINE_LOCAL_GPUS": "4", **wanted.pop("environment", {})}
        home = tmp_path / f"zeppelin-{len(servers)}"
        servers.append(Server(home, environment=environment, **wanted))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def client(zeppelin) -> Client:
    return Client(zeppelin.url)


@pytest.fixture
def note(client, request) -> Iterator[Note]:
    """Return an empty note of the shared server, named as the test."""
    note = client.note(request.node.name)
    yield note
    note.delete()
