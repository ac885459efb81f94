"""A job's stream: whole, resumable, shared by its readers, and there after a server's end."""

from __future__ import annotations

import asyncio
from contextlib import closing

from submarine_engine.clusters.base import Cursor
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.future import Job
from submarine_jupyter.stream import Follower
from submarine_jupyter.work import Watchers, Work

from tests.jobs import until
from tests.server.conftest import log_bytes

TALK = """
import pathlib, time
print("before", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.01)
print("after")
"""
LONG = "for i in range(30_000): print('line', i)"
LONG_LOG = b"".join(b"line %d\n" % i for i in range(30_000))


def test_a_stream_gives_every_byte_and_the_end(server, submit):
    found = list(server.events(submit(LONG)))
    assert log_bytes(found) == LONG_LOG
    assert found[-1][0] == "end"
    names = [data["event"] for kind, data, _ in found if kind == "job"]
    assert (names[0], names[-1]) == ("Submitted", "Finished")


def test_a_stream_goes_on_at_any_cursor_with_exactly_the_rest(server, submit):
    job_id = submit(LONG)
    whole = list(server.events(job_id))
    cursors = [(number, event[2]) for number, event in enumerate(whole) if event[2]]
    assert len(cursors) > 3
    for number, cursor in cursors:
        rest = list(server.events(job_id, cursor))
        assert log_bytes(whole[: number + 1]) + log_bytes(rest) == LONG_LOG


def test_a_stream_goes_on_after_the_server_was_started_anew(server, submit, tmp_path):
    job_id = submit(TALK)
    seen = []
    with closing(server.events(job_id)) as events:
        for event in events:
            seen.append(event)
            if log_bytes(seen) == b"before\n" and event[2]:
                break
    server.stop()
    (tmp_path / "go").touch()
    server.start()
    assert log_bytes(server.events(job_id, seen[-1][2])) == b"after\n"


def test_a_cursor_of_another_place_is_refused(server, submit):
    job_id = submit("print(1)")
    until(lambda: submit.cluster.status(job_id).state.final)
    cursor = '{"events": 999999, "logs": {}}'
    answer = server.get(f"/api/jobs/{job_id}/events", params={"cursor": cursor})
    assert answer.status_code == 409
    assert "no place in the job's stream" in answer.json()["what"]


async def everything_of(job, watchers, work, read=None, hold=None):
    """Read a job's logs to its end; with `hold`, set `read` and wait for it after each batch."""
    cursor, data = Cursor(), b""
    with watchers.of(job.id, lambda: Follower(job, work)) as follower:
        while True:
            batch = await follower.next(cursor)
            data += b"".join(getattr(item, "data", b"") for item in batch.items)
            cursor = batch.cursor
            if batch.ended:
                return data
            if hold:
                read.set()
                await hold.wait()


def test_many_readers_have_one_follower_and_a_slow_one_keeps_nobody(submit, tmp_path):
    job = Job(submit.cluster, submit(TALK))

    async def everything():
        work, read, hold = Work(), asyncio.Event(), asyncio.Event()
        watchers = Watchers()
        slow = asyncio.create_task(everything_of(job, watchers, work, read, hold))
        readers = [asyncio.create_task(everything_of(job, watchers, work)) for _ in range(50)]
        while watchers.counts() != {job.id: 51}:  # noqa: ASYNC110 - counts are all it tells
            await asyncio.sleep(0.01)
        await asyncio.wait_for(read.wait(), 180)
        (tmp_path / "go").touch()
        found = await asyncio.wait_for(asyncio.gather(*readers), 180)
        assert watchers.counts() == {job.id: 1}
        hold.set()
        found.append(await asyncio.wait_for(slow, 180))
        assert watchers.counts() == {}
        work.stop()
        return found

    assert asyncio.run(everything()) == [b"before\nafter\n"] * 51


class Counting(LocalCluster):
    reads = 0

    def read(self, *args, **options):
        self.reads += 1
        return super().read(*args, **options)


def test_fifty_readers_cost_the_cluster_no_more_than_one(submit, module_home):
    cluster = Counting(module_home)
    job = Job(cluster, submit(LONG))
    job.wait()

    async def everybody(number):
        work, watchers, before = Work(), Watchers(), cluster.reads
        found = await asyncio.gather(*[everything_of(job, watchers, work) for _ in range(number)])
        work.stop()
        assert found == [LONG_LOG] * number
        return cluster.reads - before

    assert asyncio.run(everybody(50)) == asyncio.run(everybody(1))
