"""A cursor travels as text, through cards and URLs, and comes back the same or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.clusters.base import Cursor

CURSORS = st.builds(
    Cursor,
    st.integers(0, 1 << 62),
    st.dictionaries(st.sampled_from(["worker-0/stdout", "ps-1/stderr"]), st.integers(0, 1 << 62)),
)


@given(CURSORS)
def test_a_cursor_survives_text(cursor):
    assert Cursor.from_json(cursor.to_json()) == cursor


def test_the_default_is_the_very_beginning():
    assert Cursor() == Cursor(0, {})


@given(st.text())
def test_any_other_text_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 - json's message or ours
        Cursor.from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "{}",
        '{"events": 1}',
        '{"events": -1, "logs": {}}',
        '{"events": 0, "logs": {"worker-0/stdout": -5}}',
        '{"events": 0, "logs": []}',
        '{"events": "x", "logs": {}}',
        '{"events": null, "logs": {}}',
        '{"events": Infinity, "logs": {}}',
    ],
)
def test_a_broken_cursor_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 - json's message or ours
        Cursor.from_json(text)
