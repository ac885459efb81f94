"""Small pictures on the card of what a job uses and reports; hostile names stay text."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from submarine_engine.history import TaskPaths
from submarine_engine.metrics import JobMetrics, Row, curves, read_reported, read_used
from submarine_magics.card import view
from submarine_magics.card.record import read_curves
from submarine_magics.card.tree import card_tree, to_html, to_text

HOSTILE = '</svg><script>alert(1)</script>"\u202e'


def row(at, **numbers):
    return Row(at, 1, {name: (value,) * 3 for name, value in numbers.items()})


@pytest.fixture
def found():
    used = [row(at, gpu0=50.0 * (at % 3), gpu0_memory=4e10, memory=2e9) for at in range(500)]
    reported = [
        row(at, step=at, loss=1 / (at + 1), **{HOSTILE: 1.0}) for at in range(9)
    ]  # fmt: skip
    return JobMetrics({"worker-0": used}, {"worker-0": reported})


@pytest.fixture
def card(stage):
    def card(found, name="running"):
        record = stage.record(curves=curves(found))
        return view(record, stage.statuses[name], stage.at(14))

    return card


def test_a_card_draws_gpus_memory_and_what_is_reported(card, found):
    html = to_html(card(found))
    words = re.findall(r'<svg class="smc-spark"[^>]*aria-label="([^"]*)"', html)
    assert words[:4] == [
        "GPU over time, now 50 %",
        "GPU memory over time, now 40 GB",
        "memory over time, now 2.0 GB",
        "loss over time, now 0.111111",
    ]
    assert len(re.findall(r"<polyline", html)) == 5
    assert "<script" not in html
    assert "\u202e" not in html
    assert html.count("</svg>") == 5
    line = next(line for line in to_text(card(found)).splitlines() if "GPU memory" in line)
    assert re.search(r"^  GPU [▁-█]{1,12} 50 % · GPU memory █{10,12} 40 GB · memory", line)
    assert re.search(r" · loss █[▁-█]+▁ 0.111111 · ", line)


def test_each_curve_has_few_points_and_none_leaves_its_picture(card, found):
    for picture in re.findall(r'points="([^"]*)"', to_html(card(found))):
        points = [tuple(map(float, point.split(","))) for point in picture.split()]
        assert 2 <= len(points) <= 60
        assert all(0 <= x <= 120 and 0 <= y <= 20 for x, y in points)


@pytest.mark.parametrize(
    "rows",
    [[], [row(1)], [row(1, memory=5.0)], [row(1, memory=float("nan")), row(2, loss=float("inf"))]],
)
def test_where_there_is_too_little_to_draw_there_is_nothing(card, rows):
    shown = card(JobMetrics({"worker-0": rows}, {}))
    assert shown.curves == ()
    assert "smc-curves" not in str(card_tree(shown))


def test_numbers_as_large_as_they_come_are_drawn(card):
    rows = [row(at, step=at, loss=value) for at, value in enumerate((1.7e308, -1.7e308, 1e-300))]
    html = to_html(card(JobMetrics({}, {"worker-0": rows})))
    (points,) = re.findall(r'points="([^"]*)"', html)
    assert re.fullmatch(r"(\d+\.\d,\d+\.\d ?)+", points)


def test_a_job_without_gpus_shows_its_processors(card):
    rows = [row(at, cpu=1.5, memory=1e6) for at in range(5)]
    assert [one.name for one in card(JobMetrics({"worker-0": rows}, {})).curves] == [
        "CPU",
        "memory",
    ]


def test_files_are_read_again_only_as_they_change_and_always_at_the_end(
    tmp_path, stage, monkeypatch
):
    home = tmp_path / "home"
    task = TaskPaths(home / "jobs" / stage.job_id / "tasks" / "worker-0")
    task.root.mkdir(parents=True)

    class Cluster:
        pass

    class Job:
        id, cluster = stage.job_id, Cluster()

    Job.cluster.home = home
    spec = stage.record().spec
    task.reported.write_text('{"at": 1, "step": 0, "loss": 2}\n{"at": 2, "step": 1, "loss": 1}\n')
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr("submarine_magics.card.throttled_reads.time", clock)
    (first,) = read_curves(Job(), spec)
    assert first.last == "1"
    with task.reported.open("a") as file:
        file.write('{"at": 3, "step": 2, "loss": 0.5}\n')
    assert read_curves(Job(), spec) == (first,)  # it was looked at a moment ago
    (last,) = read_curves(Job(), spec, final=True)
    assert last.last == "0.5"
    assert read_used(task) == []
    assert len(read_reported(task)) == 3
