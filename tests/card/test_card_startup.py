"""Where the time of a start went, on the card: a bar with a legend, and words in a terminal."""

from __future__ import annotations

import re

import pytest
from submarine_engine.errors import ClusterError
from submarine_engine.job import JobSpec
from submarine_engine.map_summary import Calls
from submarine_engine.waterfall import MEANING, Phase, Startup
from submarine_magics.card import view
from submarine_magics.card.startup import read_started
from submarine_magics.card.tree import card_tree, style, to_html, to_text

WHOLE = Startup(tuple(Phase(name, 0.4 * n) for n, name in enumerate(MEANING, 1)))


@pytest.fixture
def card(stage):
    def card(name="running", **changes):
        record = stage.record(**{"startup": WHOLE, **changes})
        return view(record, stage.statuses[name], stage.at(14))

    return card


@pytest.mark.parametrize("name", ["running", "succeeded", "cpu", "failed"])
def test_a_card_draws_each_phase_with_its_time(card, name):
    html = to_html(card(name))
    grows = re.findall(r'<span class="smc-segment smc-([\w-]+)" style="flex-grow:(\d+)">', html)
    styles = [one.replace(" ", "-") for one in MEANING]
    bar = dict(one for one in grows if one[0] in styles)
    assert bar == {one: str(400 * n) for n, one in enumerate(styles, 1)}
    assert '>Start</strong> <span class="smc-quiet">8.4 s</span>' in html
    assert '<li class="smc-first-step" title="until the code first reports' in html
    assert 'first step <span class="smc-time">2.4 s</span>' in html
    assert 'aria-label="start 8.4 s: queue 400 ms, master 800 ms, container 1.2 s, ' in html
    assert all(f"span.smc-{one}," in style() for one in styles)


def test_in_a_terminal_it_is_in_the_line_of_the_ledger(card):
    lines = to_text(card()).splitlines()
    (line,) = [line for line in lines if "start " in line]
    assert line.startswith("  GPU ledger: ")
    assert line.endswith("; start 8.4 s: queue 400 ms, master 800 ms, container 1.2 s,"
                         " environment 1.6 s, import 2.0 s, first step 2.4 s")  # fmt: skip


def test_an_attempt_is_told(card):
    shown = card(startup=Startup(WHOLE.phases[:1], attempt=3))
    assert "of attempt 3" in to_html(shown)
    assert "; start 400 ms (attempt 3): queue 400 ms" in to_text(shown)


@pytest.mark.parametrize(
    "changes", [{"startup": None}, {"remembered": "from 14:02"}, {"calls": Calls(pool="p")}]
)
def test_where_nothing_starts_here_nothing_is_said(card, changes):
    shown = card(**changes)
    assert shown.startup is None
    assert "smc-startup" not in str(card_tree(shown))
    assert "; start" not in to_text(shown)


class Asked:
    """A job that counts how often it is asked how it started."""

    def __init__(self, name):
        self.id, self.times, self.error = name, 0, None

    def startup(self):
        self.times += 1
        if self.error:
            raise self.error
        return WHOLE


def test_a_job_is_asked_once_a_second_and_at_its_end(monkeypatch):
    job, now = Asked("a"), 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    assert [read_started(job, JobSpec()) for _ in range(3)] == [WHOLE] * 3
    assert job.times == 1
    assert read_started(job, JobSpec(), final=True) == WHOLE
    assert job.times == 2
    now += 1.5
    assert read_started(job, JobSpec()) == WHOLE
    assert job.times == 3


def test_a_card_never_fails_for_it_and_asks_no_worker_of_another_job():
    job = Asked("b")
    assert read_started(job, JobSpec(parent="20250101-000000-abcde")) is None
    assert job.times == 0
    for job.error in (ClusterError("gone"), OSError("gone")):
        assert read_started(job, JobSpec()) is None
