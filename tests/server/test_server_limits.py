"""What a server does where something is too much, too slow, broken, or somebody else's."""

from __future__ import annotations

import asyncio
import json
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import ClusterError, JobNotFoundError
from submarine_engine.history import JobPaths, make_private, write_json
from submarine_jupyter import handlers, jobs, stream
from submarine_jupyter.jobs import Origin, origin_of
from submarine_jupyter.work import Poller, Work

from tests.jobs import LIMIT, bundle_of, end_processes_of, spec_of, until
from tests.server.conftest import TOKEN, log_bytes

UNKNOWN = "20200101-000000-aaaaa"
SLEEP = "import time\ntime.sleep(600)"
HANGS = """
import pathlib, time
from submarine_engine.clusters.local import LocalCluster

class Hanging(LocalCluster):
    name = "hanging"

    def gpus(self):
        while not pathlib.Path({!r}).exists():
            time.sleep(0.05)
        return super().gpus()
"""


def over(submit, job_id):
    until(lambda: submit.cluster.status(job_id).state.final)
    return job_id


@pytest.fixture
def hanging(start_server, tmp_path):
    """Start a server with one cluster more, which answers no question until there is a file."""
    (tmp_path / "hangs.py").write_text(HANGS.format(str(tmp_path / "answers")))
    told = tmp_path / "hangs-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: hangs\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[submarine.clusters]\nhanging = hangs:Hanging\n")
    environment = {"PYTHONPATH": str(tmp_path), "HADOOP_CONF_DIR": str(told)}  # no yarn-site.xml
    return partial(start_server, **environment)


def test_a_cluster_that_hangs_holds_up_nothing(hanging, submit, tmp_path):
    server = hanging("--SubmarineApp.call_limit=600")

    def ask():
        return server.session.get(f"{server.url}/api/clusters/hanging/gpus", timeout=600)

    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(ask) for _ in range(20)]
        try:
            job_id = submit("print(1)", gpus=1)
            assert server.get("/api/clusters/local/gpus").json()["total"] == 2
            assert [kind for kind, _, _ in server.events(job_id)][-1] == "end"
            with closing(server.stream("/api/stream?overview=1")) as events:
                assert any(tells_who_hangs(data) for _, data, _ in events)
            assert not any(one.done() for one in asked)
        finally:
            (tmp_path / "answers").touch()
        assert {one.result().status_code for one in asked} == {200}


def tells_who_hangs(overview):
    """Return whether an overview tells that one cluster hangs, and how the others are."""
    told = {one["name"]: one for one in overview["clusters"]}
    known = (told["local"]["total"], told["local"]["error"]) == (2, "")
    without_yarn = "there is no yarn-site.xml" in told["yarn"]["error"]
    return known and without_yarn and told["hanging"]["error"] == "it does not answer"


@pytest.mark.long
def test_a_cluster_that_hangs_is_given_up(hanging):
    answer = hanging("--SubmarineApp.call_limit=1").get("/api/clusters/hanging/gpus")
    assert answer.status_code == 503
    assert "no answer for 1 s" in answer.json()["what"]


@pytest.mark.long
def test_streams_are_refused_where_there_are_too_many(start_server, submit):
    server = start_server("--SubmarineApp.max_streams=2")
    path = f"/api/stream?jobs={submit(SLEEP)}"
    with closing(server.stream(path)) as first, closing(server.stream(path)) as second:
        assert next(first)[0] == next(second)[0] == "card"
        refused = server.get(path)
        assert refused.status_code == 429
        assert refused.json()["what"] == "2 streams are open already"
    until(lambda: server.get(path, stream=True).status_code == 200)


def test_a_broken_configuration_is_told(start_server, submit, tmp_path):
    job_id = over(submit, submit("print(1)"))
    folder = tmp_path / "submarine"
    folder.mkdir()
    (folder / "config.toml").write_text("user = [")
    server = start_server(XDG_CONFIG_HOME=str(tmp_path))
    for path in ("jobs", f"jobs/{job_id}", f"jobs/{job_id}/card", "overview"):
        answer = server.get(f"/api/{path}")
        assert answer.status_code == 409, answer.text
        assert "config.toml" in answer.text
    page = server.get(f"/jobs/{job_id}")
    assert page.status_code == 409
    assert "config.toml" in page.text


@pytest.mark.long
def test_a_watch_outlives_its_troubles(start_server, submit, tmp_path):
    job_id, unseen = submit(SLEEP), submit(SLEEP)  # nobody has looked at the second before
    config = tmp_path / "submarine/config.toml"
    config.parent.mkdir()
    config.touch()
    server = start_server(XDG_CONFIG_HOME=str(tmp_path))
    with closing(server.stream(f"/api/stream?jobs={job_id},{UNKNOWN}&overview=1")) as events:

        def told(*kinds):
            """Read on until each of `kinds` was told of the job, and of the overview."""
            found, left = {}, set(kinds)
            while left:
                kind, data, _ = next(events)
                found[kind, data.get("id", "")] = data
                left.discard((kind, data.get("id", "")))
            return found

        found = told(("card", ""), ("overview", ""), ("gone", UNKNOWN))
        assert found["gone", UNKNOWN]["what"] == "there is no such job on record"
        config.write_text("user = [")
        found = told(("problem", ""))
        assert "config.toml" in str(found["problem", ""])
        config.write_text("")
        told(("overview", ""))  # the same one: it holds again
        assert server.get("/api/overview").status_code == 200
    config.write_text("user = [")
    with closing(server.stream(f"/api/stream?jobs={unseen}")) as events:
        kind, data, _ = next(events)
        assert (kind, data["id"]) == ("problem", unseen)
        config.write_text("")
        while kind == "problem":
            kind, data, _ = next(events)
        assert (kind, data["job_id"]) == ("card", unseen)


def test_looks_that_fail_are_made_ever_more_seldom(monkeypatch):
    pauses, sleep = [], asyncio.sleep
    answers = [ClusterError("no")] * 10 + [("a", False), OSError(5, "no"), (None, True)]

    async def look():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def paused(seconds):
        pauses.append(seconds)
        await sleep(0)

    async def watch():
        monkeypatch.setattr(asyncio, "sleep", paused)
        watched = Poller(look, 0.1, 0.2, ended_by=(JobNotFoundError,))
        await watched.task
        return watched

    watched = asyncio.run(watch())
    assert pauses[:3] == [0.2, 0.4, 0.8]
    assert max(pauses) == pauses[9] == 15
    assert pauses[10:] == [0.1, 0.2]
    assert (watched.text, watched.version, watched.trouble) == ("a", 2, None)


def test_jobs_of_another_user_are_not_there(start_server, submit, module_home):
    theirs, mine = (over(submit, submit("print(1)")) for _ in range(2))
    record = JobPaths(module_home, theirs).record
    record.write_text(json.dumps(json.loads(record.read_text()) | {"user": "somebody"}))
    own = json.loads(JobPaths(module_home, mine).record.read_text())["user"]
    server = start_server(SUBMARINE_USER=own)
    names = ("", "/card", "/script", "/manifest", "/events", "/logs/worker-0/stdout/lines")
    for name in names:
        assert server.get(f"/api/jobs/{mine}{name}").status_code == 200
        assert server.get(f"/api/jobs/{theirs}{name}").status_code == 404
    for verb in ("cancel", "kill"):
        assert server.post(f"/api/jobs/{theirs}/{verb}").status_code == 404
    assert server.get(f"/jobs/{theirs}").status_code == 404
    listed = [server.get("/api/jobs").json(), server.get("/api/overview").json()]
    for found in listed:
        ids = {job["id"] for job in found["jobs"]}
        assert mine in ids
        assert theirs not in ids
    assert next(server.stream(f"/api/stream?jobs={theirs}"))[0] == "gone"


@pytest.mark.long
def test_servers_of_two_homes_see_their_own_jobs(server, start_server, submit, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    other = LocalCluster(home, grace=120)
    theirs = other.submit(spec_of(), bundle_of("print(2)"), workdir=tmp_path)
    mine = over(submit, submit("print(1)"))
    until(lambda: other.status(theirs).state.final)
    second = start_server(home=home)
    for one, seen, unseen in ((server, mine, theirs), (second, theirs, mine)):
        assert one.get(f"/api/jobs/{seen}/card").status_code == 200
        assert one.get(f"/api/jobs/{unseen}/card").status_code == 404
        ids = {job["id"] for job in one.get("/api/overview").json()["jobs"]}
        assert seen in ids
        assert unseen not in ids
    second.stop()
    assert end_processes_of(home, patience=LIMIT) == {}


LOUD = "import os\nfor _ in range(600): os.write(1, (b'x' * 99 + b'\\n') * 1000)"


@contextmanager
def stalled(server, path):
    """Ask for something, and read none of it."""
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", server.port))
        request = f"GET /submarine/api{path} HTTP/1.1\r\nHost: localhost:{server.port}\r\n"
        reader.sendall(f"{request}Authorization: token {TOKEN}\r\n\r\n".encode())
        yield


def resident(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) >> 10


@pytest.mark.long
def test_readers_that_stall_keep_nobody_and_fill_no_memory(server, submit):
    job_id = over(submit, submit(LOUD))
    log = f"/jobs/{job_id}/logs/worker-0/stdout"
    list(server.events(job_id))
    server.get(f"/api{log}/lines")
    before = resident(server)
    readers = [stalled(server, f"/jobs/{job_id}/events") for _ in range(10)]
    readers += [stalled(server, f"{log}/file") for _ in range(10)]
    for reader in readers:
        reader.__enter__()
    try:
        assert len(log_bytes(server.events(job_id))) == 60_000_000
        assert len(server.get(f"/api{log}/file").content) == 60_000_000
        assert server.get(f"/api{log}/lines").json()["total"] == 600_000
        grown = resident(server) - before
    finally:
        for reader in readers:
            reader.__exit__(None, None, None)
    assert grown < 100, f"{grown} MiB more than before"  # of 20 logs of 57 MiB


def test_a_record_that_could_not_be_read_is_read_again(tmp_path):
    paths = JobPaths(tmp_path, "20260101-000000-aaaaa")
    assert origin_of(paths) == Origin()  # it is being written
    make_private(paths.root)
    write_json(paths.root / "record.json", {"spec": {"notebook": "train.ipynb"}})
    assert origin_of(paths) == Origin(notebook="train.ipynb")


def test_threads_that_ask_for_many_jobs_hinder_one_another_in_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "_MOST", 1)
    every = [JobPaths(tmp_path, f"20260101-000000-aaaa{letter}") for letter in "abcdefgh"]
    for paths in every:
        make_private(paths.root)
        write_json(paths.root / "record.json", {"spec": {"notebook": paths.job_id}})
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(origin_of, every * 50))
    assert [origin.notebook for origin in found] == [paths.job_id for paths in every] * 50


class Late:
    """Pools whose answers to some questions come too late."""

    def __init__(self, late):
        self.late, self.asked = late, []

    async def call(self, _pool, function, *arguments):
        self.asked.append(function)
        if self.late(function):
            raise ClusterError("no answer for 20 s")
        return function(*arguments)


def test_what_a_late_look_finds_is_no_card_that_was_shown(monkeypatch):
    made, looks = [], iter([True, False])

    class Card:
        def __init__(self, *_):
            made.append(self)

        def poll(self):
            return "card", True

    monkeypatch.setattr(stream, "CardPoller", Card)
    monkeypatch.setattr(
        stream.jobs, "opened", lambda _: SimpleNamespace(cluster=SimpleNamespace(name="c"))
    )

    async def two_looks():
        work = Late(lambda function: getattr(function, "__name__", "") == "poll" and next(looks))
        look = stream.card_poller(work, "job", ())._look
        with pytest.raises(ClusterError, match="no answer"):
            await look()
        return await look()

    monkeypatch.setattr(stream, "Poller", lambda look, *_, **__: SimpleNamespace(_look=look))
    assert asyncio.run(two_looks()) == ("card", True)
    assert len(made) == 2  # the first one's thread may have seen what nobody was told


def test_an_index_whose_thread_is_late_is_read_by_nobody_else(tmp_path):
    async def ask():
        indexes = handlers.Indexes(Late(lambda function: function is handlers._grow))
        with pytest.raises(ClusterError, match="no answer"):
            await indexes.ask(tmp_path / "stdout", None)
        return dict(indexes._found)

    assert asyncio.run(ask()) == {}


def test_a_cancel_that_comes_with_an_answer_is_heard():
    async def cancelled():
        work, answer = Work(), Future()
        work._pools["reads"] = SimpleNamespace(submit=lambda _: answer)
        asking = asyncio.create_task(work.call("reads", len, ""))
        while not answer._done_callbacks:  # noqa: ASYNC110 - it tells nobody that it is waited for
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        answer.set_result(0)
        await asyncio.sleep(0)  # the answer is there, and who waits has yet to be woken
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(cancelled())
