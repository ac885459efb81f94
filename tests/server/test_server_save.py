"""The model of a running job, saved by REST."""

from __future__ import annotations

import pytest

from tests.jobs import until

TRAIN = """
import pathlib, time
import submarine_runtime

@submarine_runtime.on_save
def save(folder):
    if pathlib.Path("broken").exists():
        raise ValueError("no <b>weights</b> yet")
    (folder / "weights").write_text("1.5")

print("training")
while not pathlib.Path("over").exists(): time.sleep(0.01)
"""


@pytest.fixture
def job(server, submit, tmp_path):
    """Give a training that goes on, whose card says that it can be saved."""
    job_id = submit(TRAIN, name="mnist")
    until(lambda: server.get(f"/api/jobs/{job_id}/card").json().get("can_save"))
    yield job_id
    (tmp_path / "over").touch()


def test_a_click_saves_the_model_beside_the_notebook(server, job, tmp_path):
    answer = server.post(f"/api/jobs/{job}/save", json={"path": "models/first"})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["path"] == str(tmp_path / "models" / "first")
    assert (told["by"], told["source"], told["files"], told["size"]) == ("hook", "worker-0", 1, 3)
    assert (tmp_path / "models" / "first" / "weights").read_text() == "1.5"
    assert server.get(f"/api/jobs/{job}/card").json()["running"]


def test_without_a_path_the_folder_is_named_after_the_job(server, job, tmp_path):
    told = server.post(f"/api/jobs/{job}/save").json()
    (folder,) = tmp_path.glob("mnist-*")
    assert told["path"] == str(folder)
    assert (folder / "weights").exists()


def test_what_went_wrong_comes_back_to_the_button(server, job, tmp_path):
    (tmp_path / "broken").touch()
    answer = server.post(f"/api/jobs/{job}/save", json={"path": "model"})
    assert answer.status_code == 409
    told = answer.json()
    assert told["what"].endswith("ValueError: no <b>weights</b> yet")
    assert "line 8, in save()" in told["where"]
    assert told["fix"]
    (tmp_path / "broken").unlink()
    assert server.post(f"/api/jobs/{job}/save", json={"path": "model"}).ok
    again = server.post(f"/api/jobs/{job}/save", json={"path": "model"})
    assert (again.status_code, "exists" in again.json()["what"]) == (409, True)


@pytest.mark.parametrize(
    "body",
    [
        {"path": 5},
        {"path": "a\nb"},
        {"path": "x" * 3000},
        {"timeout": 0},
        {"timeout": True},
        {"timeout": "1"},
        {"timeout": 1e300},
        {"folder": "model"},
        [],
    ],
)
def test_a_request_that_cannot_be_read_is_refused(server, submit, body):
    job_id = submit("1")
    answer = server.post(f"/api/jobs/{job_id}/save", json=body)
    assert answer.status_code == 400
    assert answer.json()["fix"]


def test_nobody_saves_a_job_of_nobody(server):
    assert server.post("/api/jobs/20260101-000000-aaaaa/save", json={}).status_code == 404


def test_a_job_that_is_over_has_no_model_and_its_card_says_so(server, submit):
    job_id = submit("1")
    until(lambda: submit.cluster.status(job_id).state.final)
    assert server.get(f"/api/jobs/{job_id}/card").json()["can_save"] is False
    answer = server.post(f"/api/jobs/{job_id}/save", json={"path": "model"})
    assert (answer.status_code, "is over" in answer.json()["what"]) == (409, True)
