"""The verbs of sweeps, in a terminal."""

import json

import pytest

from tests.sweeps.programs import run_program

SEARCH = """
    def train(x):
        if x == 2:
            raise ValueError("no twos")
        print("training", x)
        return x

    found = search(train, {"x": range(1, 5)}, sampler="grid", trials=3)
    print(json.dumps([found.id, found.job_id, found.name]))
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [((), "--trials is missing"), (("--trials", "0"), "--trials 0 is not possible")],
)
def test_how_many_more_trials_has_to_be_said(submarine, words, told):
    done = submarine("sweep", "extend", "train", *words)
    assert done.returncode == 64
    assert told in done.stderr.decode()
    assert "--trials 20" in done.stderr.decode()


@pytest.mark.long
def test_a_sweep_is_shown_and_goes_on_by_its_name(submarine, folder):
    assert b"no sweep is on record" in submarine("sweep", "list").stderr
    missing = submarine("sweep", "show", "train")
    assert missing.returncode
    assert "there is no sweep 'train'" in missing.stderr.decode()

    (sweep, job, name), _ = run_program(folder, SEARCH)
    listed = submarine("sweep", "list").stdout.decode()
    assert sweep in listed
    assert job in listed
    for word in (name, sweep, job):
        rows = submarine("sweep", "show", word, "--json").stdout.decode().splitlines()
        assert [json.loads(row)["number"] for row in rows] == [0, 1, 2]
    assert "best 1" in submarine("sweep", "show", name).stderr.decode()
    by_value = submarine("sweep", "show", name, "--sort", "loss").stdout.decode()
    order = [line.split()[2] for line in by_value.splitlines()[1:]]
    assert [one for one in order if one != "2"] == sorted(set(order) - {"2"})  # that one failed
    assert b"no column 'x2'" in submarine("sweep", "show", name, "--sort", "x2").stderr
    first, second = (by_value.splitlines()[at].split()[0] for at in (1, 2))
    one = submarine("sweep", "show", name, "--trial", first).stdout.decode()
    assert f"training {order[0]}" in one
    both = submarine("sweep", "show", name, "--trial", first, "--trial", second).stdout.decode()
    assert [line.split()[1:] for line in both.splitlines() if line.startswith("x ")] == [order[:2]]
    assert b"no trial '77'" in submarine("sweep", "show", name, "--trial", "77").stderr
    told = submarine("sweep", "attach", name)
    assert "trial 2: " in told.stdout.decode()

    more = submarine("sweep", "extend", name, "--trials", "1", "--json")
    assert more.returncode == 0, more.stderr
    assert submarine("job", "wait", json.loads(more.stdout)["job"]).returncode == 0
    shown = submarine("sweep", "show", name).stdout.decode()
    assert "raised ValueError: no twos" in shown
    assert shown.count("complete") == 3
    assert (
        b"no more than its 4 points" in submarine("sweep", "extend", name, "--trials", "1").stderr
    )
    again = submarine("sweep", "retry", name, "--json")
    assert submarine("job", "wait", json.loads(again.stdout)["job"]).returncode == 0
    assert submarine("sweep", "show", name).stdout.decode().count("failed") == 2
    assert b"the sweep is over" in submarine("sweep", "pause", name).stderr
    assert b"was over already" in submarine("sweep", "cancel", name).stdout
    assert submarine("sweep", "resume", name).returncode == 0
