"""What a sweep may be asked to do."""

import json

import pytest
from submarine_engine.errors import CommandError
from submarine_engine.sweeps.plan import SweepPlan, objectives_of
from submarine_engine.sweeps.space import Space

LOSS = (("loss", "minimize"),)


def test_a_plan_survives_json():
    plan = SweepPlan(objectives=(*LOSS, ("accuracy", "maximize")), trials=40, seed=3, max_gpus=8)
    assert SweepPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert plan.searches_by == "nsgaii"
    assert plan.prunes_by == "none"
    assert SweepPlan(objectives=LOSS, trials=1).searches_by == "tpe"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"objectives": ()}, "nobody said what the best trial is\n"),
        ({"objectives": (), "trials": None}, "the best trial is, nor how many trials there are"),
        ({"objectives": (("a b", "minimize"),)}, "no objective"),
        ({"objectives": (*LOSS, *LOSS)}, "twice"),
        ({"trials": None}, "how many trials"),
        ({"trials": 0}, "trials=0"),
        ({"trials": 2.5}, "trials=2.5"),
        ({"sampler": "bayes"}, "sampler='bayes'"),
        ({"pruner": "mediann"}, "pruner='mediann'"),
        ({"seed": -1}, "seed=-1"),
        ({"max_gpus": 1, "gpus": 2}, "less than one trial's 2 GPUs"),
        ({"max_gpus": 3, "gpus": 2, "tasks": 2}, "less than one trial's 4 GPUs"),
        ({"max_gpus": 2, "min_gpus": 3}, "min_gpus=3 is more"),
        ({"objectives": (*LOSS, ("a", "maximize")), "sampler": "cmaes"}, "one objective"),
    ],
)
def test_what_is_not_possible_is_refused(given, what):
    with pytest.raises(CommandError, match=what) as refused:
        SweepPlan(**{"objectives": LOSS, "trials": 3, **given})
    assert refused.value.fix


def test_a_grid_has_no_more_trials_than_points():
    space = Space.of("a=[1, 2]; b=int(1, 3)")
    assert SweepPlan(objectives=LOSS, sampler="grid").total(space) == 6
    assert SweepPlan(objectives=LOSS, sampler="grid", trials=40).total(space) == 6
    assert SweepPlan(objectives=LOSS, sampler="grid", trials=4).total(space) == 4
    with pytest.raises(CommandError, match="has no end"):
        SweepPlan(objectives=LOSS, sampler="grid").total(Space.of("a=uniform(0, 1)"))


def test_objectives_are_names_for_a_direction():
    assert objectives_of("loss, size", ["accuracy"]) == (
        ("loss", "minimize"),
        ("size", "minimize"),
        ("accuracy", "maximize"),
    )
    assert objectives_of(None, "") == ()
    for wrong in (3, [3], True):
        with pytest.raises(CommandError, match="is no name"):
            objectives_of(wrong, None)


def test_another_release_s_plan_is_refused():
    with pytest.raises(CommandError, match="version 9"):
        SweepPlan.from_json({**SweepPlan(objectives=LOSS, trials=1).to_json(), "version": 9})
