"""What a page shows: cards and the overview, at once and whenever they change, over one stream."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.history import JobPaths, default_home
from submarine_engine.sweeps.summary import Summary
from submarine_jupyter.cards import CardPoller, Overview, overview_order
from submarine_jupyter.jobs import opened
from submarine_jupyter.stream import card_poller
from submarine_jupyter.work import Watchers, Work
from submarine_magics.card import pages

from tests.contract.conftest import use_backend
from tests.jobs import bundle_of, end_processes_of, spec_of, until

HOLD = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\n"
NOWHERE = "20260101-000000-aaaaa"
TALK = """
import pathlib, time
print("before", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.01)
print("after")
"""


def over(submit, job_id):
    until(lambda: submit.cluster.status(job_id).state.final)
    return job_id


def test_a_card_says_how_a_job_went(server, submit):
    job_id = over(submit, submit("print('hello')", gpus=1, name="a-card"))
    card = server.get(f"/api/jobs/{job_id}/card").json()
    assert (card["job_id"], card["title"], card["state"]) == (job_id, "a-card", "succeeded")
    assert card["running"] is False
    assert card["logs"][0] == {"task": "worker-0", "stream": "stdout", "size": 6}
    assert [stage["name"] for stage in card["ledger"]["stages"]] == [
        "queued",
        "starting",
        "running",
    ]
    assert card["failure"] is None


def test_a_card_has_the_error_of_a_failed_job(server, submit):
    job_id = over(submit, submit("def f():\n    raise ValueError('n\x1b[31mo')\nf()"))
    failure = server.get(f"/api/jobs/{job_id}/card").json()["failure"]
    assert failure["type"] == "ValueError"
    assert "\x1b" not in failure["message"]
    assert [(frame["line"], frame["function"]) for frame in failure["frames"]] == [
        (3, "<module>"), (2, "f"),
    ]  # fmt: skip


def test_a_page_gets_cards_as_they_change_until_the_last_job_is_over(server, submit, tmp_path):
    talks, done = submit(TALK), over(submit, submit("print(1)"))
    cards = []
    with closing(server.stream(f"/api/stream?jobs={talks},{done},{NOWHERE}")) as events:
        has_talked = False
        for kind, data, _ in events:
            if kind == "gone":
                assert data["id"] == NOWHERE
                cards.append(NOWHERE)
            else:
                assert kind == "card"
                cards.append((data["job_id"], data["running"]))
                has_talked |= data["job_id"] == talks and data["logs"][0]["size"] == 7
            if has_talked and {NOWHERE, (done, False)} <= {*cards}:  # each comes when it comes
                (tmp_path / "go").touch()
    assert (done, False) in cards
    assert NOWHERE in cards
    assert cards[-1] == (talks, False)
    assert cards.count((done, False)) == 1


def test_a_sweep_s_card_changes_with_what_the_sweep_finds(
    submit, module_home, tmp_path, monkeypatch
):
    # They come when they come.
    monkeypatch.setattr(pages, "read_curves", lambda *_, **_options: ())
    monkeypatch.setattr(pages, "read_started", lambda *_, **_options: None)
    job_id = submit(TALK)
    task = JobPaths(module_home, job_id).task("worker-0")
    until(lambda: submit.cluster.status(job_id).state.value == "running")
    until(lambda: task.stdout.exists() and task.stdout.read_text() == "before\n")
    poller = CardPoller(opened(job_id))
    until(lambda: poller.poll()[0] is None)  # all that the job itself says has been said
    found = Summary(objectives=(("loss", "minimize"),), params=(), total=9)
    for number in (1, 2):
        replace(found, states=(("complete", number),)).write(task.root)
        text, is_over = poller.poll()
        assert f"{number} complete of 9" in text
        assert not is_over
        assert poller.poll() == (None, False)
    (tmp_path / "go").touch()
    over(submit, job_id)


def test_the_overview_is_streamed_when_it_changes(server, submit, tmp_path):
    job_id = submit(TALK, gpus=1)
    states = []
    with closing(server.stream("/api/stream?overview=1")) as events:
        for kind, data, _ in events:
            assert kind == "overview"
            (local,) = [one for one in data["clusters"] if one["name"] == "local"]
            (job,) = [one for one in data["jobs"] if one["id"] == job_id]
            # A cluster that is asked for the first time may be told of later.
            states.append((job["state"], local["free"], local["total"], local["error"]))
            if states[-1] == ("running", 1, 2, ""):
                (tmp_path / "go").touch()
            if states[-1] == ("succeeded", 2, 2, ""):
                break
    assert ("running", 1, 2, "") in states
    assert server.get("/api/overview").json()["jobs"][0]["created"] > 0


@pytest.fixture
def two_clusters(tmp_path, monkeypatch):
    """Give this machine with two GPUs, and hosts of four; return the file that ends `HOLD`."""
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    gate = tmp_path / "gate"
    yield gate
    gate.touch()
    left = end_processes_of(default_home(), patience=60)
    assert not left, f"left running: {left}"


def test_jobs_of_two_clusters_are_beside_each_other(two_clusters, tmp_path):
    jobs = {}
    for name, gpus in (("local", 1), ("hosts", 3)):
        spec = spec_of(name=f"on-{name}", gpus=gpus)
        text = HOLD.format(str(two_clusters))
        jobs[name] = open_cluster(name).submit(spec, bundle_of(text), workdir=tmp_path)

    def told_of(data):
        """Return how each cluster's job is, and that cluster's GPUs: free, and of how many."""
        figures = {one["name"]: (one["free"], one["total"]) for one in data.get("clusters", ())}
        return {
            one["name"]: (one["state"], *figures[one["cluster"]])
            for one in data.get("jobs", ())
            if one["id"] == jobs[one["cluster"]]
        }

    run = {"on-local": ("running", 1, 2), "on-hosts": ("running", 1, 4)}
    are_over = {"on-local": ("succeeded", 2, 2), "on-hosts": ("succeeded", 4, 4)}

    async def watch():
        """Look as a page does."""
        work, data = Work(), {}
        overview = Overview(work)
        try:
            for wanted in (run, are_over):
                while told_of(data) != wanted:
                    text, _ = await overview.poll()
                    data = json.loads(text) if text else data
                    await asyncio.sleep(0.01)
                two_clusters.touch()
        finally:
            work.stop()

    asyncio.run(asyncio.wait_for(watch(), 180))


def test_the_cluster_of_jobs_that_name_none_comes_first(monkeypatch):
    found = ["kubernetes", "local", "slurm"]
    monkeypatch.setattr("submarine_jupyter.cards.configured_names", lambda: found)
    monkeypatch.setattr("submarine_engine.clusters.choice.configured_names", lambda: found)
    assert overview_order() == ["local", "kubernetes", "slurm"]
    monkeypatch.setenv("SUBMARINE_CLUSTER", "slurm")
    assert overview_order() == ["slurm", "local", "kubernetes"]
    monkeypatch.setenv("SUBMARINE_CLUSTER", "any")
    monkeypatch.setenv("SUBMARINE_ANY_OF", "kubernetes,yarn,slurm")
    assert overview_order() == ["kubernetes", "slurm", "local"]


@pytest.mark.parametrize("query", ["overview=2", "jobs=" + ",".join(map(str, range(201)))])
def test_a_page_that_asks_for_too_much_is_refused(server, query):
    answer = server.get(f"/api/stream?{query}")
    assert answer.status_code == 400
    assert answer.json()["fix"]


def test_a_job_is_looked_at_once_for_all_pages_and_not_where_nobody_looks(submit):
    job_id = submit(TALK)

    async def pages():
        work, watchers, changed = Work(), Watchers(), asyncio.Event()
        with ExitStack() as stack:
            make = partial(card_poller, work, job_id, ())
            looks = [stack.enter_context(watchers.of(job_id, make)) for _ in range(100)]
            looks[0].listeners.add(changed)
            await asyncio.wait_for(changed.wait(), 180)
            assert len(set(map(id, looks))) == 1
            assert looks[0].text
        await asyncio.wait([looks[0].task], timeout=180)
        work.stop()
        return looks[0].task.cancelled(), watchers.counts()

    assert asyncio.run(pages()) == (True, {})
