"""Flows by REST: the card of one, built, run, cancelled and tried again by the server."""

from __future__ import annotations

import pytest

from tests.card.test_card_served import words
from tests.flows.conftest import TRAIN, notebook
from tests.jobs import LIMIT, until

JOB = "%%submarine --gpus 0 --name "


@pytest.fixture
def of(server):
    """Return a function that asks for flows: (status, answer)."""

    def ask(action="", **fields):
        if action:
            answer = server.session.post(f"{server.url}/api/flows/{action}", json=fields)
        else:
            answer = server.session.get(f"{server.url}/api/flows", params=fields)
        return answer.status_code, answer.json()

    return ask


def test_a_flow_is_built_run_cancelled_and_retried(of, server, tmp_path):
    gate = tmp_path / "gate"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)"
    notebook(server.folder / "train.ipynb", f"{JOB}one\n{wait}", f"{JOB}two --after one\nprint(1)")
    code, card = of(path="train.ipynb")
    assert (code, card["state"], card["run"]) == (200, "ready", "")
    code, card = of("run", path="train.ipynb")
    assert code == 200, card
    assert card["going"]
    run = card["run"]
    until(lambda: "1 running" in words(of(path="train.flow")[1]["tree"]), LIMIT)
    assert of("run", path="train.flow", run=run)[1]["what"] == f"another process runs {run}"
    assert of("retry", path="train.flow", run=run)[0] == 409
    assert of("cancel", path="train.ipynb")[0] == 200
    until(lambda: of(path=card["folder"])[1]["state"] == "cancelled", LIMIT)
    gate.touch()
    code, again = of("retry", path="train.ipynb")
    assert (code, again["run"]) == (200, run), again
    until(lambda: of(path="train.ipynb")[1]["state"] == "succeeded", LIMIT)
    assert of(path="train.ipynb", run="another")[1]["what"] == "there is no run 'another'"


@pytest.mark.parametrize(
    ("fields", "code", "what"),
    [
        ({"path": ""}, 400, "the path cannot be used"),
        ({"path": "a\nb"}, 400, "the path cannot be used"),
        ({"path": "nowhere.ipynb"}, 400, "no such notebook"),
        ({"path": "empty"}, 400, "no flow in this folder"),
    ],
)
def test_what_cannot_be_shown_is_said(of, server, fields, code, what):
    (server.folder / "empty").mkdir(exist_ok=True)
    status, told = of(**fields)
    assert what in told["what"]
    assert status >= code
    assert told["fix"]


def test_a_request_that_is_not_understood_is_refused(of):
    for fields in ({"path": 3}, {"path": "x", "run": []}, {"path": "x", "other": "y"}):
        status, told = of("run", **fields)
        assert status == 400
        assert "cannot be understood" in told["what"]


def test_who_is_not_logged_in_sees_nothing(server):
    import requests

    assert requests.get(f"{server.url}/api/flows?path=x", timeout=60).status_code == 403
    assert requests.post(f"{server.url}/api/flows/run", timeout=60).status_code == 403


def test_a_notebook_that_cannot_be_a_flow_says_which_cell(of, server):
    notebook(server.folder / "bad.ipynb", TRAIN[0], f"{JOB}one\nprint(nobody_binds_it)")
    status, told = of(path="bad.ipynb")
    assert status == 409
    assert "nobody_binds_it" in told["what"]
    assert "In [2]" in told["where"]
