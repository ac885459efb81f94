"""The card of a map: how far its calls are, those that failed, and hostile text stays text."""

from __future__ import annotations

import dataclasses
import json

import pytest
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.map_summary import FAILED, FILE, CallRow, Calls, CallsWriter, read_calls
from submarine_engine.pool.calls import Call, End
from submarine_magics.card import view
from submarine_magics.card.served import served_tree
from submarine_magics.card.tree import to_html, to_text

HOSTILE = "</td><script>alert(1)</script>\u202e\x1b[0m"
SPEC = JobSpec(name="score", roles=(Role(resources=Resources(gpus=0)),))
BEGAN = 1_741_964_966.0


@pytest.fixture
def card(stage):
    def card(name="running", **changes):
        calls = Calls(
            pool="20260101-000000-aaaaa", total=40, done=12, failed=1, running=2,
            failures=(CallRow(index=3, state="failed", label="b.csv", host="node1", seconds=1.5,
                              error="raised ValueError: no"),),
            newest=(CallRow(index=14, state="running", label="c.csv"),
                    CallRow(index=13, state="done", seconds=0.2)),
            held=2, most=4, holding=((0, 0), (4, 4), (10, 2)), began=BEGAN,
        )  # fmt: skip
        record = stage.record(spec=SPEC, calls=dataclasses.replace(calls, **changes))
        return view(record, stage.statuses[name], stage.at(14))

    return card


def test_a_card_says_how_far_the_calls_are_and_which_failed(card):
    text = to_text(card())
    assert "calls: 2 running, 12 done, 1 failed, 25 waiting of 40" in text
    assert "held: 2 GPUs ▁" in text
    assert "call 3 (b.csv): raised ValueError: no" in text
    assert "GPU ledger" not in text
    html = to_html(card())
    assert html.count("<table") == 2
    assert html.count("<svg") == 1
    buttons = json.dumps(served_tree(card()).to_json()).count('"data-action": "trial"')
    assert buttons == 3


def test_a_map_that_is_over_has_nothing_that_runs(card):
    text = to_text(card("cancelled"))
    assert "12 done, 1 failed, 27 not ended of 40" in text
    assert "running" not in text
    assert "held: at most 4 GPUs at once" in text


def test_hostile_text_stays_text(card):
    row = CallRow(index=1, state=HOSTILE, label=HOSTILE, host=HOSTILE, error=HOSTILE)
    shown = card(failures=(row,), newest=(row,))
    for text in (to_html(shown), to_text(shown)):
        assert not {"\u202e", "\x1b"} & set(text)
    assert "<script" not in to_html(shown)


def test_what_the_controller_writes_is_bounded_and_comes_back(tmp_path):
    writer = CallsWriter(tmp_path, "20260101-000000-aaaaa", gpus=1)
    for index in range(1000):
        call = Call(index, b"", f"input {index}")
        writer.began(call)
        failed = index % 10 == 3
        end = End(outcome="error" if failed else "value", seconds=1.0, host="here")
        writer.ended(call, end, "raised ValueError: no\nat all" if failed else "")
        writer.update(2000, index % 5)
    writer.began(Call(1000, b""))
    writer.update(2000, 2, now=True)
    found = read_calls(tmp_path)
    assert (found.done, found.failed, found.running, found.total) == (900, 100, 1, 2000)
    assert (len(found.failures), found.failures[0].error) == (FAILED, "raised ValueError: no")
    assert [row.index for row in found.newest[:3]] == [1000, 999, 998]
    assert (found.held, found.most) == (2, 4)
    assert (tmp_path / FILE).stat().st_size < 30_000
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "wrong", [{"version": 2}, {"total": "x"}, {"failures": [3]}, {"pool": 3}, {"began": 1e999},
              {"newest": [{"index": 1}]}, {"holding": [[1]]}, {"holding": [[0, -1]]},
              {"began": 10**400}, {"total": 1e999}],
)  # fmt: skip
def test_a_field_that_is_none_makes_it_no_map(tmp_path, wrong):
    CallsWriter(tmp_path, "20260101-000000-aaaaa", 1).update(3, 1, now=True)
    data = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**data, **wrong}))
    assert read_calls(tmp_path) is None
