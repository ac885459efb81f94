"""Jobs of one master ask in the order in which they came."""

from submarine_engine.clusters.backend import SubmitQueue


def line(*jobs):
    found = SubmitQueue()
    for job, key in jobs:
        found.join(job)
        if key:
            found.name(job, key)
    return found


def test_who_came_first_asks_first():
    found = line(("a", "m"), ("b", "m"))
    assert found.is_turn("a")
    assert not found.is_turn("b")
    found.leave("a")
    assert found.is_turn("b")


def test_other_masters_hold_nobody_up():
    assert line(("a", "m"), ("b", "n")).is_turn("b")


def test_a_job_whose_master_is_not_known_yet_holds_up_those_after_it():
    found = line(("a", None), ("b", "m"))
    assert not found.is_turn("b")
    found.name("a", "n")
    assert found.is_turn("b")


def test_joining_again_keeps_the_place():
    found = line(("a", "m"), ("b", "m"))
    found.join("a")
    assert found.is_turn("a")


def test_one_that_has_left_is_free():
    found = line(("a", "m"))
    found.leave("a")
    found.leave("a")
    found.name("a", "m")
    assert found.is_turn("a")


def test_who_comes_first_by_what_another_does_is_told_once():
    found, told = line(("a", "m"), ("x", "n"), ("b", "m"), ("c", None), ("d", "m")), []
    found.on_turn = told.append
    found.leave("a")
    assert told == ["b"]
    found.leave("b")
    assert told == ["b"]  # nobody knows yet whom the next one asks
    found.name("c", "n")
    assert told == ["b", "d"]
    found.leave("d")
    found.leave("d")
    assert told == ["b", "d"]
    found.leave("x")
    assert told == ["b", "d", "c"]
