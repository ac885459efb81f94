"""Until when a warm master may live without its keeper."""

from __future__ import annotations

from submarine_engine.clusters.yarn.masters import Life, timeout_due

NOW = 1_000_000.0
DAY = 24 * 3600.0


def test_one_that_jobs_use_lives_long_and_is_told_of_rarely():
    busy = Life("app", None)
    until = timeout_due(busy, None, 900, NOW)
    assert until > NOW + DAY
    assert timeout_due(busy, until, 900, NOW + DAY) is None
    assert timeout_due(busy, until, 900, NOW + 5 * DAY) > until
    assert timeout_due(busy, NOW + 900, 900, NOW) > NOW + DAY


def test_one_that_is_idle_ends_soon_after_its_keeper_would_end_it():
    idle = Life("app", NOW)
    assert timeout_due(idle, NOW + DAY, 900, NOW + 1) is None  # the next job may come at once
    until = timeout_due(idle, NOW + DAY, 900, NOW + 20)
    assert NOW + 900 < until < NOW + 960
    assert timeout_due(idle, until, 900, NOW + 30) is None


def test_one_that_was_idle_for_too_long_already_is_given_a_moment():
    assert timeout_due(Life("app", NOW - DAY), None, 900, NOW) > NOW
