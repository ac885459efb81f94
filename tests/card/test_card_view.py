"""The view model: what the card says in each state, and what it makes of hostile text."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine import amounts
from submarine_engine.amounts import ordinal
from submarine_engine.events import Exited, Finished, Granted, Progressed, Returned, Warned
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.lifecycle import JobStatus, fold
from submarine_magics.card import view
from submarine_magics.card.model import SCRIPT_SHOWN, web_address
from submarine_magics.card.tree import to_html, to_text
from submarine_magics.card.words import visible, visible_lines


@pytest.fixture
def show(stage):
    def show(name, second=14, **changes):
        return view(stage.record(**changes), stage.statuses[name], stage.at(second))

    return show


def test_a_queued_job_tells_its_place_and_what_it_waits_for(show):
    card = show("queued")
    assert (card.state, card.sentence) == (
        "queued",
        "2nd in the queue, waits for 2 GPUs, 1 is free",
    )
    assert [(stage.name, stage.text) for stage in card.ledger.stages] == [("queued", "14 s")]
    assert card.progress is None


def test_a_rerun_names_the_job_that_it_runs_once_more(show):
    assert (
        "again: job 20250101-000000-abcde"
        in show("running", rerun_of="20250101-000000-abcde").facts
    )
    assert not any("again" in fact for fact in show("running").facts)
    hostile = to_html(show("running", rerun_of="<script>\x1b[2J"))
    assert "<script>" not in hostile
    assert "\x1b" not in hostile


@pytest.mark.parametrize(
    ("ahead", "reason", "sentence"),
    [
        (0, "", "1st in the queue"),
        (0, "queue default: 1/4 GPUs in use", "Queue default: 1/4 GPUs in use"),
        (2, "queue a: 4/4 GPUs in use, 2 jobs ahead", "Queue a: 4/4 GPUs in use, 2 jobs ahead"),
        (1, "waiting behind bob (4 GPUs, 2 free)", "Waiting behind bob (4 GPUs, 2 free)"),
        (2, "stopped\x1b[0m", "3rd in the queue, stopped␛[0m"),
        (None, "", ""),
    ],
)  # fmt: skip
def test_what_a_job_waits_for_is_said_once_in_the_clusters_words(stage, ahead, reason, sentence):
    status = dataclasses.replace(stage.statuses["queued"], ahead=ahead, waiting_reason=reason)
    assert view(stage.record(), status, stage.at(1)).sentence == sentence


def test_gpus_whose_ids_are_not_known_yet_are_counted(stage):
    started = fold(stage.until(stage.story(), Granted))
    [task] = started.tasks
    waiting = dataclasses.replace(task, gpus=("worker-0/0", "worker-0/1"))
    card = view(stage.record(), dataclasses.replace(started, tasks=(waiting,)), stage.at(3.5))
    assert (card.state, card.ledger.gpus, card.tasks[0].gpus) == ("starting", "2 GPUs", "2")
    assert view(stage.record(), started, stage.at(3.5)).tasks[0].gpus == "0, 1"


def test_pages_of_the_cluster_are_shown_where_they_are_web_addresses(show):
    links = (("application_1_0001", "http://rm:8088/cluster/app/x"), ("bad", "javascript:alert(1)"))
    tasks = {"worker-1": "http://node:8042/log", "worker-2": "file:///etc/passwd"}
    card = show("team", links=links, task_links=tasks)
    assert card.links == links[:1]
    assert [task.log_url for task in card.tasks] == [None, "http://node:8042/log", None]


def test_a_running_job_ticks(show):
    card = show("running", second=70)
    assert (card.elapsed_text, card.ticking) == ("1 min 10 s", True)
    assert (card.progress, card.message) == (0.72, "epoch 72/100")
    assert [stage.ticking for stage in card.ledger.stages] == [False, False, True]
    assert card.ledger.gpus == "GPUs 0, 1"
    assert [stage.name for stage in card.ledger.stages] == ["queued", "starting", "running"]


def test_a_job_that_succeeded_stands_still(show):
    card, later = show("succeeded"), show("succeeded", second=4000)
    assert card == later
    assert (card.state, card.final, card.ticking, card.progress) == ("succeeded", True, False, 1.0)
    assert card.ledger.released == "released 38 ms after return"
    assert [stage.seconds for stage in card.ledger.stages] == [3, 1, 12]
    assert card.tasks[0].progress == 1.0


@pytest.mark.parametrize(
    ("wrote", "words"),
    [
        ({"size": 4000, "seconds": 8.0}, "; results: 4.0 kB in 8.0 s"),
        ({"size": 12_000_000, "seconds": 0.3}, "; results: 12 MB in 300 ms"),
        ({"size": 4000, "seconds": 0.3}, ""),
    ],
)
def test_what_writing_the_results_took_of_the_gpus_time_is_said(stage, wrote, words):
    events = stage.story()
    told = [dataclasses.replace(e, **wrote) if isinstance(e, Returned) else e for e in events]
    card = view(stage.record(), fold(told), stage.at(20))
    assert card.ledger.released == f"released 38 ms after return{words}"


def test_a_failed_job_says_why(show):
    card = show("failed")
    assert (card.error, card.sentence) == (True, "ValueError: shapes (64,) and (10,)")
    assert (card.tasks[0].state, card.tasks[0].detail) == ("failed", "exit code 1")


def test_a_cancelled_job_counts_from_its_exit(show):
    assert show("cancelling").state == "cancelling"
    card = show("cancelled")
    assert (card.state, card.error) == ("cancelled", False)
    assert card.ledger.released == "released 200 ms after exit"
    assert (card.word, card.tasks[0].state) == ("cancelled", "cancelled")
    assert card.tasks[0].detail == "signal 15"


def test_a_killed_job_is_not_called_cancelled(stage):
    now = stage.at(14)

    def ended(name, **changes):
        status = dataclasses.replace(stage.statuses[name], reason="killed")
        [task] = status.tasks
        card = view(
            stage.record(),
            dataclasses.replace(status, tasks=(dataclasses.replace(task, **changes),)),
            now,
        )
        return card.state, card.word, card.tasks[0].state, card.sentence

    assert ended("cancelled", exit_code=-9) == ("cancelled", "killed", "killed", "")
    assert ended("cancelling") == ("cancelling", "killing", "running", "")
    # Its grace was over: the job was cancelled, and its task killed.
    late = stage.statuses["cancelled"]
    tasks = (dataclasses.replace(late.tasks[0], exit_code=-9),)
    card = view(stage.record(), dataclasses.replace(late, tasks=tasks), now)
    assert (card.word, card.tasks[0].state) == ("cancelled", "killed")


def test_a_card_says_the_day(show):
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(1_741_964_966))
    assert show("succeeded").facts[-1] == day
    assert show("running", second=60).as_of.startswith(f"as of {day[:10]}")


def test_no_number_has_more_digits_than_can_be_read(stage):
    status = stage.statuses["running"]
    [task] = status.tasks
    odd = dataclasses.replace(status, tasks=(dataclasses.replace(task, progress=2 / 3),))
    card = view(stage.record(), odd, stage.at(14.000_000_000_873))
    floats = re.findall(r"\d+\.\d+", json.dumps(dataclasses.asdict(card)))
    assert max(len(number.partition(".")[2]) for number in floats) <= 4


def test_a_lost_job_says_what_it_still_holds(show):
    assert show("lost").ledger.released == "2 GPUs still held"


def test_no_gpu_is_said_with_its_reason(show):
    spec = JobSpec(roles=(Role(resources=Resources(gpus=0)),))
    without = show("cpu", spec=spec, machine_gpus=0).ledger
    assert without.gpus == "no GPU on this machine"
    assert (without.stages, without.released) == ((), "")
    assert show("cpu", spec=spec, machine_gpus=4).ledger.gpus == "no GPU"


def test_of_jobs_that_are_not_known_a_card_says_so_until_its_own_is_over(show):
    told = "other users' jobs are not known"
    assert show("queued", second=1, not_known=told).ledger.gpus == f"2 GPUs; {told}"
    assert show("running", second=9, not_known=told).ledger.gpus == f"GPUs 0, 1; {told}"
    assert show("succeeded", not_known=told).ledger.gpus == "GPUs 0, 1"
    assert show("running", second=9).ledger.gpus == "GPUs 0, 1"


def test_every_task_has_a_row(show):
    rows = show("team").tasks
    assert [row.task for row in rows] == ["worker-0", "worker-1", "worker-2"]
    assert {row.role for row in rows} == {"worker"}


def test_of_many_tasks_the_first_are_shown(stage):
    status = stage.statuses["team"]
    many = dataclasses.replace(status, tasks=status.tasks * 100)
    card = view(stage.record(), many, stage.at(14))
    assert len(card.tasks) + card.tasks_left_out == 300
    assert len(card.tasks) == 64


def failing(stage, number, *, why="ValueError: rank 2 says <b>why</b>"):
    """Return tasks of which worker-2 fails by itself; worker-0 loses it, the rest are killed."""
    events = stage.until(stage.story(tasks=number), Progressed)
    ends = {"worker-2": (1, why), "worker-0": (1, "ConnectionResetError: gone")}
    order = ["worker-2", "worker-0", *(f"worker-{n}" for n in range(number) if n not in (0, 2))]
    killed = (-signal.SIGKILL, f"worker-2 on gpu-host-1 failed: {why}")
    for task in order:
        code, reason = ends.get(task, killed)
        events.append(Exited(at=stage.at(16), task=task, exit_code=code, reason=reason))
    end = Finished(at=stage.at(17), state=JobState.FAILED, reason=why, failed_task="worker-2")
    return view(stage.record(), fold([*events, end]), stage.at(20))


def test_of_several_tasks_the_card_says_who_failed_and_how_each_ended(stage):
    card = failing(stage, 4)
    assert card.sentence == "worker-2 on gpu-host-1: ValueError: rank 2 says <b>why</b>"
    assert [(task.task, task.state, task.detail) for task in card.tasks] == [
        ("worker-0", "failed", "ConnectionResetError"),
        ("worker-1", "killed", "as the job failed"),
        ("worker-2", "failed", "exit code 1"),
        ("worker-3", "killed", "as the job failed"),
    ]
    html = to_html(card)
    assert "<b>" not in html
    assert "--task worker-0" in html
    assert "worker-0 on gpu-host-1: failed (ConnectionResetError)" in to_text(card)
    assert [line for line in html.split("<th") if ">GPUs<" in line]


def test_of_tasks_without_gpus_there_is_no_column_of_them(stage):
    tasks = fold(stage.until(stage.story(gpus=0, tasks=3), Progressed))
    assert ">GPUs<" not in to_html(view(stage.record(), tasks, stage.at(14)))


def test_of_many_tasks_the_card_counts_the_states_and_names_those_that_failed(stage):
    card = failing(stage, 32)
    words = "2 failed (worker-2 on gpu-host-1, worker-0 on gpu-host-1), 30 killed"
    assert [task.task for task in card.tasks[:3]] == ["worker-2", "worker-0", "worker-1"]
    html, text = to_html(card), to_text(card)
    assert words in html
    assert '<details class="smc-tasks">' in html  # folded in
    assert f"  32 tasks: {words}\n" in text
    assert sum("worker-" in line for line in text.splitlines()) <= 5


def test_what_serves_comes_after_the_ranks(stage):
    status = stage.statuses["team"]
    tasks = tuple(
        dataclasses.replace(task, task=name)
        for task, name in zip(status.tasks, ("ps-0", "worker-0", "chief-0"), strict=True)
    )
    card = view(stage.record(), dataclasses.replace(status, tasks=tasks), stage.at(14))
    assert [task.task for task in card.tasks] == ["chief-0", "worker-0", "ps-0"]


def test_a_job_of_which_nothing_is_known_can_be_shown(stage):
    card = view(stage.record(script_name="", log_url=None), JobStatus(), stage.at(0))
    assert (card.state, card.elapsed_text, card.ticking) == ("queued", "0 ms", False)
    assert (card.tasks, card.script, card.log_url) == ((), None, None)


def test_a_time_that_is_none_is_a_dash(stage):
    status = stage.statuses["succeeded"]
    broken = dataclasses.replace(
        status.tasks[0], busy=dataclasses.replace(stage.at(0), wall=math.inf)
    )
    card = view(stage.record(), dataclasses.replace(status, tasks=(broken,)), stage.at(20))
    assert card.tasks[0].started == "—"


def test_a_long_script_is_cut_and_says_so(show):
    card = show("running", script="x = 1\n" * 10_000, script_size=60_000)
    assert len(card.script.text) == SCRIPT_SHOWN
    assert card.script.left_out == "… 44,000 bytes more"
    assert card.script.lines.endswith("lines+")


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "JavaScript:alert(1)", " http://x", "data:text/html,x", "", None, 3,
        "http://x/\u202e", "http://x/\n", "http://x y", "//x", "http://" + "x" * 3000,
    ],
)  # fmt: skip
def test_what_is_no_web_address_is_no_link(url):
    assert web_address(url) is None


def test_web_addresses_are_links():
    assert web_address("https://example.org/a?b=c&d") == "https://example.org/a?b=c&d"


def test_hostile_quicklinks_are_left_out(stage):
    spec = JobSpec(quicklinks=(("good", "https://example.org"),))
    # A record can be written by anything: the spec's own check is not what the card relies on.
    object.__setattr__(spec, "quicklinks", (*spec.quicklinks, ("bad", "javascript:alert(1)")))
    card = view(stage.record(spec=spec), stage.statuses["running"], stage.at(14))
    assert card.quicklinks == (("good", "https://example.org"),)


def test_unseen_characters_become_visible():
    assert visible("a\u202eb\x1b[31m\x00\x7f\u200b") == "a[U+202E]b␛[31m␀␡[U+200B]"
    assert visible("two\nlines") == "two␊lines"
    assert visible("\ud800") == "[U+D800]"
    assert visible("Zoë 你好 می‌خواهم 👩‍🔬") == "Zoë 你好 می‌خواهم 👩‍🔬"
    assert visible_lines("a\r\n\tb\r\x1b", 100) == "a\n\tb␍␛"


@given(st.text(), st.integers(5, 50))
def test_visible_text_is_one_short_line_that_utf8_can_hold(text, limit):
    shown = visible(text, limit)
    assert shown.encode() is not None
    assert len(shown.splitlines()) <= 1
    assert visible(shown, len(shown)) == shown
    assert len(shown) <= 10 * (limit + 3)


AMOUNTS = json.loads(Path(__file__).with_name("amounts.json").read_text())
"""What the tests of the page's scripts hold these to as well."""


@pytest.mark.parametrize("name", AMOUNTS)
def test_amounts(name):
    for amount, words in AMOUNTS[name]:
        assert getattr(amounts, name)(amount) == words


def test_no_time_is_told_that_never_ends():
    assert {amounts.clock(math.inf), amounts.duration(math.nan)} == {"—"}


def test_ordinals():
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)
    assert " ".join(map(ordinal, numbers)) == "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th"


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_has_a_sign_of_its_own(stage, state):
    cards = {s: view(stage.record(), JobStatus(state=s), stage.at(0)).glyph for s in JobState}
    assert list(cards.values()).count(cards[state]) == 1


def test_a_later_attempt_says_so_and_why_there_is_one(stage):
    status = dataclasses.replace(stage.statuses["running"], attempt=3, retried="OSError: \x1b no")
    card = view(stage.record(), status, stage.at(20))
    assert "attempt 3" in card.facts
    assert card.sentence == "The attempt before this one ended: OSError: ␛ no"
    hangs = dataclasses.replace(status, warning="it seems to hang")
    assert view(stage.record(), hangs, stage.at(20)).sentence == "It seems to hang"
    done = dataclasses.replace(stage.statuses["succeeded"], attempt=3, retried="OSError")
    done_card = view(stage.record(), done, stage.at(20))
    assert ("attempt 3" in done_card.facts, done_card.sentence) == (True, "")
    assert "attempt 1" not in view(stage.record(), stage.statuses["running"], stage.at(20)).facts


def test_what_is_wrong_with_a_job_that_goes_on_is_said_while_it_runs(stage):
    text = "the job seems to hang: rank 2: In [5], line 9, in load()\x1b[2J"
    running = dataclasses.replace(stage.statuses["running"], warning=text)
    card = view(stage.record(), running, stage.at(20))
    assert card.sentence == "The job seems to hang: rank 2: In [5], line 9, in load()␛[2J"
    assert (card.warning, card.error) == (True, False)
    assert f"\n  ⚠ {card.sentence}\n" in to_text(card)
    html = to_html(card, styled=False)
    assert re.search(r'<div class="smc-warning" role="status">.*The job seems to hang', html)
    done = dataclasses.replace(stage.statuses["succeeded"], warning=text)
    assert view(stage.record(), done, stage.at(20)).sentence == ""
    events = [*stage.until(stage.story(tasks=2), Progressed), Warned(at=stage.at(9), text=text)]
    assert view(stage.record(), fold(events), stage.at(20)).warning
    alive = view(stage.record(), fold([*events, Warned(at=stage.at(10), text="")]), stage.at(20))
    assert (alive.warning, alive.sentence) == (False, "")
    assert "⚠" not in to_text(alive) + to_html(alive)


def test_a_job_that_is_to_go_on_with_more_workers_says_so_until_it_does(stage):
    reason = "there is room for 4 workers, and it has 2"
    running = dataclasses.replace(stage.statuses["running"], growing=reason)
    card = view(stage.record(), running, stage.at(20))
    assert card.sentence == f"Goes on with more workers: {reason}"
    assert not card.error


def test_who_is_told_at_the_end_is_shown_by_its_host_alone(stage, show):
    told = dataclasses.replace(stage.record().spec, notify="https://hooks.slack.com/services/x")
    card = show("queued", spec=told)
    assert "tells hooks.slack.com" in card.facts
    assert "services" not in to_html(card)
    assert not [fact for fact in show("queued").facts if "tells" in fact]
