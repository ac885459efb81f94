"""A paragraph that follows a job of several tasks by itself: whose log it shows, and how."""

from __future__ import annotations

import pytest
from submarine_engine.bundle import Bundle, Manifest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.future import Job
from submarine_engine.job import JobSpec, Resources, Role
from submarine_zeppelin import following
from submarine_zeppelin.following import Follower

SCRIPT = b"from submarine_runtime import job\nprint('here is rank', job.rank)\n"


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(following, "be_zeppelins", lambda: None)  # this process stays as it is
    cluster = LocalCluster(tmp_path / "home")
    bundle = Bundle(files={"script.py": SCRIPT}, manifest=Manifest(entry="script.py", python="3"))
    spec = JobSpec(name="team", roles=(Role(count=2, resources=Resources(gpus=0)),))
    job = Job(cluster, cluster.submit(spec, bundle, workdir=tmp_path))
    yield job
    job.kill()
    job.wait(180)


def shown(job, **options):
    """Return the text of a paragraph that follows the job, and the last card."""
    messages = []
    Follower(job, lambda *told: messages.append(told), lambda: None, **options).run()
    text = "".join(content["text"] for kind, content in messages if kind == "stream")
    cards = [
        content["data"]["text/plain"]
        for kind, content in messages
        if kind in ("display_data", "update_display_data") and "text/plain" in content["data"]
    ]
    return text, cards[-1]


def test_it_shows_the_log_of_rank_0_and_all_tasks_on_its_card(job):
    text, card = shown(job)
    assert text == "here is rank 0\n"
    assert "worker-1 on " in card


def test_the_card_of_a_job_that_is_over_shows_its_end_from_the_first_picture_on(job, monkeypatch):
    job.wait(180)
    monkeypatch.setattr(following, "_CARD_EVERY", 0.0)
    messages = []
    Follower(job, lambda *told: messages.append(told), lambda: None).run()
    cards = [text for _, told in messages if (text := told.get("data", {}).get("text/plain"))]
    assert cards
    assert all("team: succeeded" in card for card in cards)


def test_the_logs_of_all_are_plain_text_each_line_with_its_task(job):
    text, _ = shown(job, which="all")
    assert sorted(text.splitlines()) == [
        "worker-0 | here is rank 0", "worker-1 | here is rank 1",
    ]  # fmt: skip
