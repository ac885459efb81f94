"""The files that a job has left, on its card: few by name, no name is markup, no walk too often."""

from __future__ import annotations

import os

import pytest
from submarine_engine.artifacts import listing, read_artifacts
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.future import Job
from submarine_engine.history import JobPaths, make_private
from submarine_magics.card import throttled_reads, view
from submarine_magics.card.artifacts import read_listing
from submarine_magics.card.served import served_tree
from submarine_magics.card.tree import to_html, to_text

HOSTILE = "<script>alert(1)<\u2215script>\u202e\n\x1b[31m"
ID = "20260101-000000-aaaaa"


@pytest.fixture
def paths(tmp_path):
    paths = JobPaths(tmp_path, ID)
    make_private(paths.task("worker-0").artifacts)
    return paths


@pytest.fixture
def card(stage, paths):
    def card():
        found = listing(paths, read_artifacts(paths, ["worker-0"]), 10)
        return view(stage.record(artifacts=found), stage.statuses["succeeded"], stage.at(14))

    return card


def write(paths, *names):
    for name in names:
        (paths.task("worker-0").artifacts / name).write_text("x" * 1200)


def elements(part):
    if not isinstance(part, str):
        yield part
        for child in part[2]:
            yield from elements(child)


def test_a_card_names_the_first_files_and_counts_the_others(card, paths):
    assert "Artifacts" not in to_html(card())
    write(paths, *(f"{number:02}.txt" for number in range(50)))
    html = to_html(card())
    assert html.count('<span class="smc-name">') == 10
    assert "50 files, 60 kB" in html
    assert "and 40 more" in html
    assert "artifacts: 00.txt (1.2 kB), 01.txt (1.2 kB), 02.txt (1.2 kB), and 47 more" in to_text(
        card()
    )


def test_a_served_card_has_a_button_for_each_that_knows_any_bytes_of_a_name(card, paths):
    write(paths, os.fsdecode(b"100% \xff"))
    tree = served_tree(card()).to_json()
    (button,) = [part for part in elements(tree) if part[1].get("data-action") == "artifact"]
    assert (button[0], button[2]) == ("button", ["100% \ufffd"])
    assert button[1].items() >= {"data-task": "worker-0", "data-path": "100%25%20%FF"}.items()


def test_a_name_is_text_and_nothing_unseen(card, paths):
    write(paths, HOSTILE)
    html = to_html(card())
    assert "<script>" not in html
    assert "\u202e" not in html
    assert "\x1b" not in to_text(card())
    assert sum("alert" in line for line in to_text(card()).splitlines()) == 1


def test_a_folder_that_takes_long_is_seldom_looked_at(paths, monkeypatch):
    now, looks = [100.0], []

    class Slow(LocalCluster):
        def artifacts(self, job_id):
            looks.append(job_id)
            now[0] += 1.0  # a hundred thousand files
            return read_artifacts(paths, ["worker-0"])

    write(paths, "model")
    monkeypatch.setattr(throttled_reads.time, "monotonic", lambda: now[0])
    job = Job(Slow(paths.root.parent.parent), ID)
    for _ in range(10):
        assert read_listing(job).words == "1 file, 1.2 kB"
        now[0] += 2
    assert len(looks) == 1
    now[0] += 50
    read_listing(job)
    read_listing(job, final=True)  # the last of it is wanted at once
    assert len(looks) == 3
