"""The log page that a kernel serves, in a real browser: hostile text, and a server that is away."""

from __future__ import annotations

import pytest
from submarine_engine.bundle import Bundle, Manifest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.future import Job
from submarine_engine.job import JobSpec, Resources, Role
from submarine_magics.card.pages import log_page
from submarine_magics.card.words import visible_lines

HOSTILE = "a\u202eb\u200bc\ufeffd\U000e0041e\u2028f\x85g\x7fh\x01i\ue000j\u200ck\tl <b>bold</b>"
SCRIPT = f"""
import pathlib, time
print({HOSTILE!r}, flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.02)
print("after", flush=True)
"""


@pytest.fixture
def job(tmp_path):
    cluster = LocalCluster(tmp_path / "home")
    bundle = Bundle(
        files={"script.py": SCRIPT.encode()}, manifest=Manifest(entry="script.py", python="3")
    )
    spec = JobSpec(name="talks", roles=(Role(resources=Resources(gpus=0)),))
    job = Job(cluster, cluster.submit(spec, bundle, workdir=tmp_path))
    yield job
    job.kill()
    job.wait(180)


def test_what_would_hide_or_reorder_text_is_visible_as_on_the_card(page, job):
    page.goto(log_page(job))
    page.wait_for_selector("#lines:has-text('bold')")
    assert page.locator("#lines div").first.text_content() == visible_lines(HOSTILE, 1000)
    assert page.locator("#lines b").count() == 0


@pytest.mark.long
def test_it_is_not_said_to_be_dead_once_it_is_live_again(page, job, tmp_path):
    page.goto(log_page(job))
    page.wait_for_selector("#lines:has-text('bold')")
    page.route("**/state", lambda route: route.abort())
    page.wait_for_selector("#note:has-text('not live any more')")
    page.unroute("**/state")
    (tmp_path / "go").touch()
    page.wait_for_selector("#lines:has-text('after')")
    page.wait_for_selector("#note", state="hidden")


def test_of_several_tasks_one_is_chosen_whose_log_is_shown(page, tmp_path):
    cluster = LocalCluster(tmp_path / "home")
    script = b"from submarine_runtime import job\nprint('rank', job.rank)\n"
    bundle = Bundle(files={"script.py": script}, manifest=Manifest(entry="script.py", python="3"))
    spec = JobSpec(name="team", roles=(Role(count=3, resources=Resources(gpus=0)),))
    job = Job(cluster, cluster.submit(spec, bundle, workdir=tmp_path))
    job.wait(180)
    page.goto(log_page(job))
    page.wait_for_selector("#lines:has-text('rank 0')")
    assert page.locator("#logs button").all_text_contents() == [
        "stdout · 7 bytes",
        "stderr · 0 bytes",
    ]
    page.select_option("#tasks", "worker-2")
    page.wait_for_selector("#lines:has-text('rank 2')")
    page.click("#logs button:has-text('stderr')")
    page.wait_for_selector("#note:has-text('Nothing written')")
    assert page.input_value("#tasks") == "worker-2"
