"""The example note, imported into a real Zeppelin and run from start to end on a real YARN."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.jobs import end_processes_of
from tests.zeppelin import rest
from tests.zeppelin.rest import Client, outputs, text

NOTE = Path(__file__).parents[2] / "examples/zeppelin/digits.json"
PATIENCE = 200
"""Seconds: a busy machine starts an application slowly."""
WAITS = """
import os, time
while not os.path.exists({!r}):
    time.sleep(0.02)
"""
"""Holds a job: one that ends at once may never be seen as it runs."""


@pytest.fixture
def imported(yarn, zeppelin_of_its_own, monkeypatch, tmp_path):
    """Import the note into a server whose jobs go to YARN; each job waits for a file."""
    monkeypatch.setattr(rest, "LIMIT", PATIENCE)
    environment = {**yarn.environment, "SUBMARINE_CLUSTER": "yarn", "SUBMARINE_YARN_IDLE": "20"}
    server = zeppelin_of_its_own(environment=environment)
    note = json.loads(NOTE.read_text())
    main, job = note["paragraphs"][3], note["paragraphs"][5]
    main["text"] += WAITS.format(str(tmp_path / "first"))
    job["text"] = job["text"].replace("\n", WAITS.format(str(tmp_path / "second")), 1)
    yield Client(server.url).import_note(json.dumps(note))
    server.close()
    end_processes_of(server.jobs_home)


def finished(paragraph):
    assert paragraph["status"] == "FINISHED", outputs(paragraph)
    return paragraph


def kinds(paragraph):
    return [kind for kind, _ in outputs(paragraph)]


@pytest.mark.long
@pytest.mark.timeout(900)  # a YARN and a Zeppelin may have to be started first
def test_the_note_runs_from_start_to_end_on_yarn(imported, tmp_path):
    note = imported
    gpus, data, model, main, parts, job, table, picture, jobs = range(9)

    (kind, listing), (_, shares) = outputs(finished(note.run(gpus)))
    assert kind == "TABLE"
    assert listing.startswith("GPU\tNAME\tHOST")
    assert "PART" in shares

    for part in (data, model, main):
        assert outputs(finished(note.run(part))) == []

    with note.client.socket() as browser:
        browser.watch(note)
        note.start(parts)
        mine = note.ids[parts]
        try:
            # Updates come only while a paragraph runs: its log is live.
            browser.until(
                "PARAGRAPH_UPDATE_OUTPUT",
                lambda told: told["paragraphId"] == mine and "epoch 1: loss" in told["data"],
            )
            page = log_page(note.wait(parts, log_page))
        finally:
            (tmp_path / "first").touch()
    found = finished(note.wait(parts))
    assert kinds(found)[0] == "HTML"
    [card] = [shown for kind, shown in outputs(found) if kind == "HTML"]
    assert "digits" in card
    assert "<script" not in card
    assert re.findall(r"epoch (\d+): loss", text(found)) == [str(n) for n in range(1, 21)]
    assert len(pages(found)) == 1
    assert "epoch 20: loss" in log_at(page)

    note.start(job)
    try:
        page = log_page(note.wait(job, log_page))
    finally:
        (tmp_path / "second").touch()
    found = finished(note.wait(job))
    assert kinds(found)[0] == "HTML"
    assert re.findall(r"rate ([\d.]+): accuracy", text(found)) == ["0.1", "0.5", "2.0"]
    assert len(pages(found)) == 1
    assert "rate 2.0" in log_at(page)
    forms = found["settings"]["forms"]
    assert forms["gpus"]["defaultValue"] == "1"

    [(kind, rows)] = outputs(finished(note.run(table)))
    assert kind == "TABLE"
    assert [row.split("\t")[0] for row in rows.splitlines()] == ["rate", "0.1", "0.5", "2.0"]
    assert float(rows.splitlines()[-1].split("\t")[2]) > 0.85

    [*_, (kind, drawn)] = outputs(finished(note.run(picture)))
    assert kind == "IMG"
    assert base64.b64decode(drawn).startswith(b"\x89PNG")

    [(kind, listing)] = outputs(finished(note.run(jobs)))
    assert kind == "TABLE"
    states = [row.split("\t")[1:3] for row in listing.splitlines()[1:]]
    assert states == [["rates", "succeeded"], ["digits", "succeeded"]]


def pages(paragraph):
    """Return the pages that the paragraph's YARN LOG links have led to.

    It is the first one that the job has: its application's, where its container waits for long.
    """
    links = [
        value["jobUrl"]
        for info in (paragraph.get("runtimeInfos") or {}).values()
        for value in info["values"]
        if info["label"] == "YARN LOG"
    ]
    for link in links:
        assert link.startswith("http://")
        assert "/node/containerlogs/" in link or "/cluster/app/application_" in link
    return {*links}


def log_page(paragraph):
    """Return the page of the one container's log, to which the card of a running job leads."""
    cards = [shown for kind, shown in outputs(paragraph) if kind == "HTML"]
    found = re.search(r'class="smc-log" href="([^"]*/node/containerlogs/[^"]*)"', "".join(cards))
    return html.unescape(found[1]) if found else None


def log_at(page):
    """Return the log of the one container whose page this is."""
    [stdout] = re.findall(r'href="([^"]*/stdout/[^"]*)"', fetch(page))
    return fetch(urllib.parse.urljoin(page, stdout))


def fetch(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - http
        return answer.read().decode()


def test_the_note_is_as_zeppelin_exports_it():
    note = json.loads(NOTE.read_text())
    assert note["defaultInterpreterGroup"] == "submarine"
    for paragraph in note["paragraphs"]:
        assert re.match(r"%submarine(\.python|\.run)?[\s(]", paragraph["text"])
        assert paragraph["status"] == "READY"
        assert "results" not in paragraph
    ids = [paragraph["id"] for paragraph in note["paragraphs"]]
    assert len(set(ids)) == len(ids)
