"""Logs of real containers: live, over a killed NodeManager, and after the application's end."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from submarine_engine.clusters.log_mirror import LogMirror, LogsGoneError
from submarine_engine.clusters.yarn.hadoop import links, load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.log_transport import (
    Aggregation,
    Channel,
    HdfsSource,
    aggregation,
    choose_channel,
    fetch_aggregated,
)
from submarine_engine.clusters.yarn.node_pages import NodeLogs, NodeSource
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.errors import ClusterError
from submarine_engine.history import TaskPaths
from submarine_runtime import ship

from tests.hadoop import use
from tests.yarn.logs.containers import Application, command, written

pytestmark = pytest.mark.filterwarnings("ignore:distutils Version:DeprecationWarning")  # skein's

LIMIT = 180


def wait(condition, *, every=0.05):
    until = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < until, "it did not come within two minutes"
        time.sleep(every)
    return found


@contextmanager
def client_of(yarn):
    import skein

    with pytest.MonkeyPatch.context() as patch:
        use(yarn, patch)
        with closing(skein.Client()) as client:
            yield client


@pytest.fixture(scope="module")
def client(yarn):
    with client_of(yarn) as client:
        yield client


@pytest.fixture
def start(client, on_yarn):
    begun = []

    def start(*commands):
        begun.append(Application(client, list(commands)))
        return begun[-1]

    yield start
    for application in begun:
        application.end()


@pytest.fixture
def conf(on_yarn):
    return load_hadoop()


@pytest.fixture
def manager(conf):
    return ResourceManager(conf)


def task_in(folder):
    folder.mkdir()
    return TaskPaths(folder)


def copy_of(task):
    return task.stdout.read_bytes()


def complete(source):
    return source.sizes().get("stderr") == len(b"complete\n")


def mirrored(tasks, sources):
    """Copy a little of each by a new mirror: what a killed keeper leaves is all that there is."""
    for task, source in zip(tasks, sources, strict=True):
        LogMirror(task, source).step(300_000)  # a slow reader
    return all(map(complete, sources))


def aggregated(container, conf, scratch):
    return closing(fetch_aggregated(container, hadoop=conf.folder, scratch=scratch))


@pytest.mark.long
def test_an_application_from_its_first_byte_to_long_after(start, conf, manager, tmp_path):
    count = 3
    app = start(*(command(seed, 60, 0.02) for seed in range(count)))
    containers = app.containers(count)
    tasks = [task_in(tmp_path / str(seed)) for seed in range(count)]
    unread = task_in(tmp_path / "unread")
    begun = task_in(tmp_path / "begun")
    with closing(NodeLogs(containers[0][1], timeout=LIMIT)) as logs:
        sources = [NodeSource(logs, container) for container, _ in containers]
        wait(lambda: mirrored(tasks, sources))
        for seed, (task, source) in enumerate(zip(tasks, sources, strict=True)):
            assert LogMirror(task, source).drain()
            assert copy_of(task) == written(seed, 60)
            assert task.stderr.read_bytes() == b"complete\n"
        assert LogMirror(begun, sources[2]).step(123_457) == 123_457
        look_at_links(conf, manager, app, containers[0][0])
        assert aggregation(manager.application(app.id)) is Aggregation.LIVE

        app.end()
        wait(lambda: not any(source.sizes() for source in sources))
        assert not LogMirror(begun, sources[2]).drain()
        with pytest.raises(LogsGoneError):
            logs.read(containers[2][0], "stdout", 123_457)

    # Whoever has read all, a part or nothing gets the rest, and nothing twice.
    wait(lambda: aggregation(manager.application(app.id)) is Aggregation.KEPT)
    for task, seed in ((tasks[0], 0), (unread, 1), (begun, 2)):
        with aggregated(containers[seed][0], conf, tmp_path) as kept:
            assert LogMirror(task, kept).drain()
        assert copy_of(task) == written(seed, 60)
        assert task.stderr.read_bytes() == b"complete\n"
    assert not list(tmp_path.glob(".aggregated-*"))
    with pytest.raises(LogsGoneError, match="does not have the logs"):
        fetch_aggregated(f"{containers[0][0][:-1]}9", hadoop=conf.folder, scratch=tmp_path)
    found = links(conf, manager.application(app.id), {"containerId": containers[0][0]})
    assert found["log"] == found["application"]
    assert app.id.encode() in page(found["log"])


def page(address):
    with build_opener(ProxyHandler({})).open(address) as answer:
        content: bytes = answer.read()
        return content


def look_at_links(conf, manager, app, container):
    of_container = next(
        one for one in manager.containers(app.id) if one["containerId"] == container
    )
    found = links(conf, manager.application(app.id), of_container)
    assert f"/node/containerlogs/{container}/" in found["log"]
    assert b"stdout" in page(found["log"])
    assert app.id.encode() in page(found["application"])
    assert page(found["cluster"])
    assert page(found["tracking"])


@pytest.mark.long
def test_a_node_manager_killed_while_it_is_read(yarn_of_its_own, tmp_path):
    node = yarn_of_its_own.daemon("nodemanager-0")
    with client_of(yarn_of_its_own) as client, ExitStack() as stack:
        app = Application(client, [command(5, 150, 0.05)])
        stack.callback(app.end)
        ((container, address),) = app.containers(1)
        task = task_in(tmp_path / "task")
        with closing(NodeLogs(address)) as logs:
            source = NodeSource(logs, container)
            mirror = LogMirror(task, source)
            wait(lambda: mirror.step(100_000) and task.stdout.stat().st_size > 500_000)
            node.kill()
            with pytest.raises(ClusterError, match="does not answer"):
                mirror.step()
            node.start()

            def step():
                try:
                    mirror.step(500_000)
                    return complete(source)
                except ClusterError:
                    return False

            wait(step)
            assert mirror.drain()
        assert copy_of(task) == written(5, 150)


SHIPPED = """\
import os, sys
sys.path[:0] = {engine!r}, {tests!r}
from submarine_runtime import ship
folder = os.environ["LOG_DIRS"].split(",")[0]
ship.start(folder, {urls!r}, os.environ["CONTAINER_ID"], os.getpid())
from containers import write
write(folder, 3, 80, 0.03)
open(folder + "/outcome.json", "w").write("{{}}")
"""


@pytest.mark.long
def test_by_way_of_hdfs_where_nodes_cannot_be_reached(start, conf, manager, tmp_path):
    nodes = [node["nodeHTTPAddress"] for node in manager.nodes()]
    choice = choose_channel(nodes, lambda: False)
    assert choice == (Channel.NODES, f"{nodes[0]} answers")
    away = "127.0.0.1:9"
    hdfs = open_hdfs(conf)
    choice = choose_channel([away], lambda: hdfs is not None)
    assert choice.channel is Channel.HDFS
    assert choice.why.startswith(f"node {away}: the node does not answer")
    assert choose_channel([], lambda: False).channel is Channel.AFTER

    folder = f"{hdfs.home}/.submarine/test-logs"
    hdfs.make_folder(folder)
    script = tmp_path / "script.py"
    engine, tests = Path(ship.__file__).parents[1], Path(__file__).parent
    urls = hdfs.url_for_container(folder)
    script.write_text(SHIPPED.format(engine=str(engine), tests=str(tests), urls=urls))
    app = start(f"{sys.executable} {script}")
    ((container, _),) = app.containers(1)
    task = task_in(tmp_path / "task")
    source = HdfsSource(hdfs, f"{folder}/{container}", container)

    def step():
        LogMirror(task, source).step(1_000_000)
        return "outcome.json" in source.sizes()

    wait(step)
    assert LogMirror(task, source).drain()
    assert copy_of(task) == written(3, 80)
    assert task.stderr.read_bytes() == b"complete\n"
    assert source.read("outcome.json", 0, 10) == b"{}"
    hdfs.remove(folder)
    hdfs.close()
