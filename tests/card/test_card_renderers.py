"""The three renderers: hostile text stays text, and what is shown can be read everywhere."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser

import nbformat
import pytest
from submarine_magics.card import view
from submarine_magics.card.display import JOB_TYPE, static_bundle
from submarine_magics.card.nodes import ATTRIBUTES, TAGS, Node, serialise
from submarine_magics.card.tree import (
    bar,
    card_tree,
    percent,
    script_tree,
    style,
    to_html,
    to_text,
)

HOSTILE = '</code></script><script>alert(1)</script><img src=x onerror="alert(1)">\u202e\x1b[0m"\'&'
EVERY_STATE = [
    "queued", "starting", "running", "cancelling", "succeeded", "failed", "cancelled", "lost",
    "cpu", "team",
]  # fmt: skip


class Elements(HTMLParser):
    """Parses a card and keeps its elements and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style":
            self.text.append(data)

    def words(self) -> str:
        return " ".join("".join(self.text).split())


@pytest.fixture
def card(stage):
    def card(name="running", **changes):
        return view(stage.record(**changes), stage.statuses[name], stage.at(14))

    return card


@pytest.fixture
def hostile(stage):
    status = stage.statuses["failed"]
    task = dataclasses.replace(status.tasks[0], host=HOSTILE, reason=HOSTILE, gpus=(HOSTILE,))
    record = stage.record(
        origin=HOSTILE, cluster=HOSTILE, bundle_hash=HOSTILE, script=HOSTILE,
        script_name=HOSTILE, log_url=f"javascript:{HOSTILE}",
    )  # fmt: skip
    return view(record, dataclasses.replace(status, reason=HOSTILE, tasks=(task,)), stage.at(14))


@pytest.mark.parametrize("name", EVERY_STATE)
def test_html_is_whole_and_its_text_reads_well_without_style(card, name):
    elements = Elements(to_html(card(name)))
    assert elements.open == []
    assert elements.elements[0][0] == "style"
    assert elements.words().startswith(f"{card(name).glyph} {card(name).state}")
    assert f"mnist {card(name).elapsed_text} Log" in elements.words()
    assert "GPU ledger" in elements.words()
    assert f"log in a terminal: submarine job logs {card(name).job_id}" in elements.words()


@pytest.mark.parametrize("name", EVERY_STATE)
def test_html_has_no_script_and_no_button(card, name):
    tags = {tag for tag, _ in Elements(to_html(card(name))).elements}
    assert tags <= TAGS | {"style"}
    assert "button" not in tags


def test_hostile_text_is_text_in_html(hostile):
    elements = Elements(to_html(hostile))
    assert {tag for tag, _ in elements.elements} <= TAGS | {"style"}
    names = {name for _, attributes in elements.elements for name in attributes}
    assert all(name in ATTRIBUTES | {"style"} or name[:5] in ("aria-", "data-") for name in names)
    assert "<script>alert(1)</script>" in elements.words()
    assert not any("javascript" in attrs.get("href", "") for _, attrs in elements.elements)


@pytest.mark.parametrize(
    "render", [to_html, to_text, lambda card: json.dumps(card_tree(card).to_json())]
)
def test_nothing_unseen_is_left_in_any_form(hostile, render):
    shown = render(hostile)
    assert not {"\u202e", "\x1b"} & set(shown)
    shown.encode()


def test_the_tree_refuses_what_a_card_has_no_place_for():
    bad = Node("script", {"onclick": "x()", "href": "javascript:x()", "style": "x"}, ("1 < 2",))
    assert serialise(bad) == "<span>1 &lt; 2</span>"


def test_a_script_that_ends_its_element_stays_inside(card):
    shown = card(script="</code></pre><script>x</script>")
    text = serialise(script_tree(shown.script, ""))
    assert "&lt;/code&gt;&lt;/pre&gt;&lt;script&gt;" in text
    assert "<script" not in text


def test_states_are_told_by_words_and_to_screen_readers(card):
    elements = Elements(to_html(card("running"))).elements
    roles = {attributes["role"]: attributes for _, attributes in elements if "role" in attributes}
    assert roles["group"]["aria-label"] == "Submarine job mnist"
    assert roles["progressbar"]["aria-valuenow"] == "72"
    assert roles["img"]["aria-label"] == "GPUs 0, 1, queued 3.0 s, starting 1.0 s, running 10 s"
    assert "status" in roles
    assert sum(attributes.get("scope") == "col" for _, attributes in elements) == 7


def test_the_style_knows_light_dark_and_stillness():
    for words in (
        "prefers-color-scheme: dark",
        "prefers-reduced-motion",
        "var(--jp-",
        "vscode-dark",
    ):
        assert words in style()
    assert "url(" not in style()
    assert "@import" not in style()


def test_text_tells_the_same(card):
    text = to_text(card("succeeded"))
    assert text.splitlines()[0].startswith("✓ mnist: succeeded, 16 s")
    assert "running 12 s, released 38 ms after return" in text
    assert "█" not in text
    assert "██████████████░░░░░░ 72 % epoch 72/100" in to_text(card("running"))
    assert "ValueError: shapes" in to_text(card("failed"))
    assert "GPU ledger: no GPU" in to_text(card("cpu"))


def test_percent_is_full_only_at_the_end():
    assert [percent(part) for part in (0.29, 0.999, 1.0)] == ["29 %", "99 %", "100 %"]
    assert bar(0.999, 3) == "██░"


def test_the_bundle_is_plain_data_and_says_whose_it_is(card, stage):
    bundle = json.loads(json.dumps(static_bundle(card("running"), note="a note")))
    assert set(bundle) == {JOB_TYPE, "text/html", "text/plain"}
    drawn = json.loads(bundle[JOB_TYPE].pop("tree"))
    assert drawn[1]["data-state"] == "running"
    assert "smc-script" not in json.dumps(drawn)  # it is in the HTML, and the server has it
    assert bundle[JOB_TYPE].pop("as_of").startswith("as of ")
    assert bundle[JOB_TYPE] == {
        "version": 3, "text": False, "job_id": stage.job_id, "cluster": "local", "name": "mnist",
        "state": "running", "progress": 0.72, "log_url": None, "log_label": "Log",
    }  # fmt: skip
    assert "a note" in bundle["text/html"]


def test_what_is_saved_has_no_address_of_this_machine(card):
    pages = (("TensorBoard", "http://localhost:6006/?key=x"), ("rm", "http://rm.example:8088/"))
    logs = {"worker-0": "http://127.0.0.1:8042/", "worker-1": "http://node:8042/logs/1"}
    saved = json.dumps(static_bundle(card("team", links=pages, task_links=logs)))
    assert "127.0.0.1" not in saved
    assert "localhost" not in saved
    assert "t0ken" not in saved
    assert "rm.example" in saved
    assert "node:8042/logs/1" in saved


def test_a_job_that_ran_again_changes_few_lines_of_the_notebook(stage):
    def saved(job_id, late):
        status = stage.statuses["succeeded"]
        [task] = status.tasks
        status = dataclasses.replace(
            status,
            tasks=(dataclasses.replace(task, returned=stage.at(16 + late), busy=stage.at(5)),),
            submitted=stage.at(late),
            finished=stage.at(17.3 + late),
        )
        shown = view(stage.record(job_id=job_id), status, stage.at(20))
        data = static_bundle(shown, styled=False)
        output = nbformat.v4.new_output("display_data", data=data)
        cell = nbformat.v4.new_code_cell("train()", outputs=[output], id="cell")
        return nbformat.writes(nbformat.v4.new_notebook(cells=[cell])).splitlines()

    before, after = saved("20250314-150926-abcde", 0.1), saved("20250315-091123-fghij", 1.7)
    assert len(before) == len(after)
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert 0 < len(changed) <= 5


def test_the_live_tree_can_be_cancelled_until_the_end(card):
    def button(name):
        return [
            element for element in Elements(serialise(card_tree(card(name), live=True))).elements
            if element[0] == "button"
        ]  # fmt: skip

    assert button("running")[0][1]["aria-label"] == "Cancel job mnist"
    assert "disabled" in button("cancelling")[0][1]
    assert button("succeeded") == []


def test_places_in_the_live_tree_never_move(card):
    shapes = {len(card_tree(card(name), live=True).children) for name in EVERY_STATE}
    assert len(shapes) == 1


def test_pages_of_the_cluster_and_of_tasks_are_links(card):
    pages = {"app_1": "http://rm:8088/app?a=1&b=2", "ResourceManager": "http://rm:8088/cluster"}
    logs = {"worker-0": "http://node:8042/logs/0"}
    team = card("team", links=tuple(pages.items()), task_links=logs)
    elements = Elements(to_html(team))
    hrefs = [attrs["href"] for tag, attrs in elements.elements if tag == "a"]
    assert set(hrefs) >= {*pages.values(), *logs.values()}
    assert re.search(r"on local · [\d-]+ [\d:]+ · app_1 · ResourceManager", elements.words())
    assert "GPUs" in elements.words()
    assert all(url in to_text(team) for url in pages.values())


def test_one_task_has_no_column_of_gpus(card):
    heads = [tag for tag, _ in Elements(to_html(card("running"))).elements if tag == "th"]
    assert len(heads) == 7
