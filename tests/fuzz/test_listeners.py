"""Strangers at every listener of ours: it lives, serves the next honest one, and tells nothing."""

from __future__ import annotations

import pytest

from .strangers import besiege

LISTENERS = [
    "log_pages",
    "links",
    "tracker",
    "inside_here",
    pytest.param("inside_far", marks=pytest.mark.long),  # half a minute
    "zygote_here",
    "front",
    "forward",
    pytest.param("zeppelin", marks=pytest.mark.service),
]


@pytest.mark.parametrize("name", LISTENERS)
def test_strangers_come_and_honest_ones_are_served(name, request):
    besiege(request.getfixturevalue(name))


@pytest.mark.long
@pytest.mark.timeout(1800)  # a hundred strangers at least, and some listeners take seconds for each
@pytest.mark.parametrize("name", LISTENERS)
def test_strangers_come_for_a_minute(name, request):
    besiege(request.getfixturevalue(name), seconds=60)
