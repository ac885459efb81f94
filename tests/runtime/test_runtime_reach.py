"""A host that does not answer ends a job before its code begins, in words."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path

import pytest
from submarine_engine.clusters.exchange import answer, read_hello
from submarine_engine.job import JobSpec, Role
from submarine_runtime import reach
from submarine_runtime.exchange import ANSWER, HELLO
from submarine_runtime.reach import UnreachableError

from tests.jobs import mute_port
from tests.runtime.conftest import wait_for

JOB = "20250101-000000-abcde"


def tasks_of(*hosts, port=1):
    """Return workers on these hosts, by rank, as an answer has them."""
    return {
        f"worker-{n}": {"role": "worker", "index": n, "rank": n, "host": host, "ports": [port] * 4}
        for n, host in enumerate(hosts)
    }


@pytest.fixture
def mute():
    with mute_port() as port:
        yield port


@pytest.fixture
def free_port():
    with closing(socket.socket()) as held:
        held.bind(("", 0))
        yield held.getsockname()[1]


def test_who_refuses_is_there(free_port):
    reach.check(tasks_of("127.0.0.1", "127.0.0.2", "127.0.0.3", port=free_port), "worker-0")


def test_who_listens_is_there():
    with socket.create_server(("127.0.0.2", 0)) as server:
        reach.check(tasks_of("127.0.0.1", "127.0.0.2", port=server.getsockname()[1]), "worker-0")
        server.accept()[0].close()


def test_a_host_that_drops_what_comes_is_named_with_address_and_port(mute, monkeypatch):
    monkeypatch.setattr(reach, "WITHIN", 0.5)
    tasks = tasks_of("127.0.0.2", "127.0.0.1", port=mute)
    with pytest.raises(UnreachableError) as caught:
        reach.check(tasks, "worker-1")
    words = str(caught.value)
    assert words.startswith(
        f"worker-1 on 127.0.0.1 cannot reach worker-0 at 127.0.0.2:{mute} (no answer within 0.5 s);"
    )
    ports = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert f"({'-'.join(ports)}), which have to be open" in words
    assert words.endswith(": docs/distributed.md")


def test_a_host_without_a_way_to_it(monkeypatch):
    monkeypatch.setattr(reach, "WITHIN", 0.5)
    # Of a group: nobody is connected to by it.
    with pytest.raises(UnreachableError, match=r"cannot reach worker-1 at 224\.0\.0\.9:1 \("):
        reach.check(tasks_of("127.0.0.1", "224.0.0.9"), "worker-0")


def test_many_are_not_all_named(monkeypatch):
    monkeypatch.setattr(reach, "WITHIN", 0.5)
    hosts = [f"224.0.0.{n}" for n in range(200, 206)]
    with pytest.raises(UnreachableError, match=r"worker-4 at \S+ \([^)]*\) and 2 more; is there"):
        reach.check(tasks_of("127.0.0.1", *hosts), "worker-0")


def test_rank_0_needs_a_name_that_means_something():
    with pytest.raises(UnreachableError, match=r"worker-0 at nowhere\.invalid:1 \(nobody knows"):
        reach.check(tasks_of("nowhere.invalid", "127.0.0.1"), "worker-1")


def test_others_are_found_by_their_addresses(free_port):
    reach.check(tasks_of("127.0.0.1", "nowhere.invalid", port=free_port), "worker-0")


def test_one_task_stands_for_its_host(monkeypatch):
    monkeypatch.setattr(reach, "_MOST_NAMED", 9)
    hosts = ["224.0.0.1", "224.0.0.2"]
    tasks = tasks_of(*hosts, *hosts, "127.0.0.1")
    tasks = {name: tasks[name] for name in reversed(tasks)}
    with pytest.raises(UnreachableError) as caught:
        reach.check(tasks, "worker-4")
    assert "worker-0 at 224.0.0.1:1" in str(caught.value)
    assert str(caught.value).count(":1 (") == len(hosts)


@pytest.mark.parametrize("framework", ["auto", "none"])
def test_the_code_does_not_begin_where_it_cannot_meet_the_others(task, mute, framework):
    task.start("print('it runs')", peers=2, framework=framework)
    hello = wait_for(lambda: (task.folder / HELLO).exists() and (task.folder / HELLO).read_bytes())
    mine = read_hello(hello, JOB, "worker-0")
    other = mine._replace(network="elsewhere", host="127.0.0.2", ports=(mute,) * 4)
    spec = JobSpec(roles=(Role(count=2),))
    (task.folder / ".answer").write_bytes(answer(spec, {"worker-0": mine, "worker-1": other}))
    (task.folder / ".answer").rename(task.folder / ANSWER)
    if framework == "none":  # its tasks need not talk to each other
        assert task.wait() == 0
        assert (task.folder / "stdout").read_text() == "it runs\n"
        return
    assert task.wait() == 1
    assert (task.folder / "stdout").read_text() == ""
    outcome = json.loads((task.folder / "outcome.json").read_bytes())
    assert (outcome["kind"], outcome["error"]["builtin"]) == ("raised", "OSError")
    assert f"cannot reach worker-1 at 127.0.0.2:{mute} (no answer" in outcome["error"]["message"]
    assert outcome["error"]["message"] in (task.folder / "stderr").read_text()
