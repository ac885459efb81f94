"""The card of a sweep: what it has found, bounded, and hostile text in it stays text."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.sweeps.rows import TrialRow
from submarine_engine.sweeps.summary import FILE, Summary, read_summary
from submarine_magics.card import view
from submarine_magics.card.display import static_bundle
from submarine_magics.card.nodes import ATTRIBUTES, TAGS
from submarine_magics.card.served import Extras, served_tree
from submarine_magics.card.sweeps import blocks
from submarine_magics.card.tree import card_tree, to_html, to_text

HOSTILE = '</svg></table><script>alert(1)</script><img src=x onerror="alert(1)">\u202e\x1b[0m'
SPEC = JobSpec(name="train", roles=(Role(resources=Resources(gpus=0)),))


def row(number, state="complete", value="0.5", **given):
    return TrialRow(
        number=number, state=state, values=(value,), params=("0.01", "32"), seconds=2.0, **given
    )


def summary(**changes):
    """Return what a sweep of 40 trials has found on the way; it began with its job."""
    began = 1_741_964_966.0
    told = Summary(
        objectives=(("loss", "minimize"),),
        params=("rate", "units"),
        total=40,
        states=(("running", 2), ("complete", 12), ("pruned", 2), ("failed", 1)),
        bests=1,
        best=tuple(row(number, value=f"0.{number}") for number in range(1, 11)),
        newest=(
            row(16, "running", ""),
            row(15, "failed", "", error="raised ValueError: no"),
            *(row(number) for number in range(14, 6, -1)),
        ),
        history=tuple((number, 1 / (number + 1)) for number in range(12)),
        improved=tuple((number, 1 / (number + 1)) for number in range(12)),
        held=2,
        most=4,
        holding=((0, 0), (4, 1), (6, 4), (10, 2)),
        began=began,
        until=began + 14 + 185,
    )
    return dataclasses.replace(told, **changes)


@pytest.fixture
def card(stage):
    def card(name="running", found=None):
        record = stage.record(spec=SPEC, sweep=found or summary())
        return view(record, stage.statuses[name], stage.at(14))

    return card


def test_it_names_the_cluster_of_its_trials_and_not_that_of_its_controller(stage, card):
    assert f"on {stage.record().cluster}" in card().facts
    spec = dataclasses.replace(SPEC, workers_on="slurm")
    record = stage.record(spec=spec, sweep=summary())
    assert "on slurm" in view(record, stage.statuses["running"], stage.at(14)).facts


def svgs(html):
    return re.findall(r"<svg.*?</svg>", html)


def test_a_card_says_what_is_best_how_far_it_is_and_what_it_holds(card):
    text = to_text(card())
    assert "best: loss 0.1 by trial 1: rate=0.01 units=32" in text
    assert "trials: 2 running, 12 complete, 2 pruned, 1 failed of 40" in text
    assert "held: 2 GPUs of at most 4 ▁" in text
    assert "72 % about 3 min 05 s left" in text
    assert "all of them: submarine sweep show 20250314-150926-abcde" in text
    assert "GPU ledger" not in text  # the controller's own: it has none, and its trials do
    assert "worker-0" not in text
    assert len(text.splitlines()) < 25
    html = to_html(card())
    for words in ("loss 0.1 by trial 1", "2 GPUs of at most 4", "raised ValueError: no"):
        assert words in html
    assert len(svgs(html)) == 2
    assert "GPU ledger" not in html


def test_the_curves_of_its_trials_do_not_stand_above_what_it_found(card):
    extras = Extras(scalars={"trial-0/loss": [(0, 1.0), (1, 0.5)]})
    assert "trial-0/loss" not in json.dumps(served_tree(card(), extras).to_json())


def test_a_sweep_that_is_over_says_what_it_was(card):
    shown = card("cancelled")
    text = to_text(shown)
    assert "2 not ended, 12 complete" in text
    assert "running" not in text
    assert "left" not in text
    assert "held: at most 4 GPUs at once" in text
    assert shown.sweep.holding[-1][1] == 0


def test_few_trials_stand_in_one_table_each_once(card):
    few = summary(
        states=(("complete", 1), ("running", 1)), best=(row(0),), newest=(row(1, "running"), row(0))
    )
    shown = card(found=few)
    assert [one.cells[0] for one in shown.sweep.best_rows] == ["0", "1"]
    assert (shown.sweep.newest_rows, shown.sweep.command) == ((), "")
    assert to_html(shown).count("<table") == 1


def test_a_sweep_that_has_only_begun_has_no_picture(card):
    none = Summary(objectives=(("loss", "minimize"),), params=("rate",), total=5)
    html = to_html(card("starting", none))
    assert "no trial has come to a value yet" in html
    assert "none yet of 5" in html
    assert (svgs(html), "<table" in html) == ([], False)


def test_of_several_objectives_those_count_that_none_beats(card):
    found = summary(
        objectives=(("loss", "minimize"), ("size", "minimize")), bests=3, improved=(),
        best=(dataclasses.replace(row(1), values=("0.5", "3")),), newest=(),
    )  # fmt: skip
    assert "best: 3 trials that none beats in loss and size" in to_text(card(found=found))


def test_many_parameters_share_a_column(card):
    names = tuple(f"p{number}" for number in range(9))
    rows = (dataclasses.replace(row(0), params=names),)
    shown = card(found=summary(params=names, best=rows, newest=(), states=(("complete", 1),)))
    assert shown.sweep.columns == ("Trial", "State", "loss", "Parameters", "Took", "Error")
    assert "p0=p0 p1=p1" in shown.sweep.best_rows[0].cells[3]


class _Parsed(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.found, self.open = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_hostile_text_stays_text(card):
    bad = TrialRow(
        number=1, state=HOSTILE, values=(HOSTILE,), params=(HOSTILE, HOSTILE), error=HOSTILE
    )
    found = summary(
        objectives=((HOSTILE, "minimize"),), params=(HOSTILE, "b"), best=(bad,), newest=(bad,),
        states=((HOSTILE, 30),),
    )  # fmt: skip
    shown = card(found=found)
    parsed = _Parsed(to_html(shown))
    assert parsed.open == []
    assert {tag for tag, _ in parsed.found} <= TAGS | {"style"}
    names = {name for _, given in parsed.found for name in given}
    allowed = {name.lower() for name in ATTRIBUTES} | {"style"}
    assert all(name in allowed or name[:5] in ("aria-", "data-") for name in names)
    for text in (to_html(shown), to_text(shown), json.dumps(card_tree(shown).to_json())):
        assert not {"\u202e", "\x1b"} & set(text)


def test_the_page_s_script_knows_each_element_and_attribute(card):
    script = files("submarine_magics.card").joinpath("tree.js").read_text()
    sets = dict(re.findall(r"const (\w+) = new Set\((.*?)\);", script, re.DOTALL))
    tags, attributes = (set(re.findall(r"[\w-]+", sets[name])) for name in ("TAGS", "ATTRIBUTES"))

    def check(part):
        if isinstance(part, str):
            return
        tag, given, children = part
        assert tag in tags
        plain = {key for key in given if not key.startswith(("aria-", "data-"))}
        assert plain <= attributes | {"class", "grow", "width"}
        for child in children:
            check(child)

    check(served_tree(card()).to_json())


@pytest.mark.parametrize("values", [[5.0], [5.0] * 30, [1e308, -1e308], [0.0, 5e-324]])
def test_any_values_can_be_drawn(card, values):
    points = tuple((float(number), value) for number, value in enumerate(values))
    html = to_html(card(found=summary(history=points, improved=points[:1])))
    numbers = re.findall(r"-?[\d.]+", " ".join(re.findall(r'(?:points|cx|cy)="(.*?)"', html)))
    assert all(math.isfinite(float(number)) and -1 < float(number) < 241 for number in numbers)
    assert "nan" not in html.partition("<svg")[2].lower().partition("</svg>")[0]


def test_what_was_held_is_drawn_with_characters():
    assert blocks(((0, 0), (5, 4), (10, 4)), 4) == "▁▁██"
    assert blocks(((0, 0), (0, 0)), 3) == "▁▁▁"


def test_a_thousand_trials_make_no_large_card(card):
    dots = tuple((10.0 * number, math.sin(number)) for number in range(100))
    large = summary(
        total=1000, states=(("complete", 900), ("running", 8)), history=dots, improved=dots[:50],
        holding=tuple((float(number), float(number % 9)) for number in range(200)),
    )  # fmt: skip
    bundle = json.dumps(static_bundle(card(found=large)))
    assert len(bundle) < 80_000


def test_what_is_on_disk_comes_back(tmp_path):
    summary().write(tmp_path)
    assert read_summary(tmp_path) == summary()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"version": 1}', "[" * 100_000, '{"version": 2, "objectives": 3}'],
)
def test_what_cannot_be_read_is_no_sweep(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert read_summary(tmp_path) is None


@pytest.mark.parametrize(
    "wrong",
    [{"total": "x"}, {"params": [3]}, {"history": [[1, "NaN"]]}, {"history": [1]},
     {"best": [{}]}, {"held": None}, {"began": 1e999}, {"states": [["a"]]},
     {"objectives": []}, {"params": ["rate"]}, {"open": [3]}, {"importance": [["a", "b"]]},
     {"pool": 3}, {"total": 1e999}, {"began": 10**400}, {"holding": [[0, -1e308]]}],
)  # fmt: skip
def test_a_field_that_is_none_makes_it_no_sweep(tmp_path, wrong):
    summary().write(tmp_path)
    data = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**data, **wrong}))
    assert read_summary(tmp_path) is None


def test_a_link_or_a_pipe_is_no_sweep(tmp_path):
    summary().write(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / FILE).symlink_to(tmp_path / FILE)
    assert read_summary(other) is None
