"""A notebook on the cluster by REST: its form, its start, how far it is, why it failed."""

from __future__ import annotations

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.command.options import NOTEBOOK_SERVER

from tests.jobs import LIMIT, until


@pytest.fixture
def start(server):
    """Return a function that starts one, and end all of them afterwards."""
    begun = []

    def post(folder="", **options):
        answer = server.session.post(
            f"{server.url}/api/notebooks", json={"folder": folder, "options": options}
        )
        told = answer.json()
        begun.extend([told["job"]] if "job" in told else [])
        return answer.status_code, told

    yield post
    cluster = LocalCluster(server.home)
    for job in begun:
        cluster.kill(job)
        until(lambda job=job: cluster.status(job).state.final, LIMIT)


def get(server, path):
    answer = server.session.get(f"{server.url}/api/{path}")
    return answer.status_code, answer.json()


def test_the_form_has_the_options_as_they_are_declared(server):
    code, told = get(server, "notebooks/form")
    assert code == 200
    fields = {one["key"]: one for one in told["fields"]}
    assert list(fields)[:5] == ["cluster", "gpus", "queue", "idle", "dir"]
    declared = {option.key: option.help for option in NOTEBOOK_SERVER}
    assert all(one["help"] == declared[key] for key, one in fields.items())
    assert "local" in fields["cluster"]["choices"]
    assert fields["cluster"]["standard"] == "local"
    assert fields["gpus"]["value"] == "N"


def test_one_is_started_in_its_folder_and_its_page_is_told(server, start):
    (server.folder / "work").mkdir(exist_ok=True)
    code, told = start("work", gpus="1", name="explore", idle=" 30m ", memory="")
    assert code == 200, told
    job = told["job"]

    def stands():
        code, found = get(server, f"jobs/{job}/notebook")
        assert code == 200, found
        return found["url"]

    url = until(stands, LIMIT)
    assert url.startswith(f"submarine/proxy/{job}/")
    answer = server.session.get(f"{server.url.removesuffix('submarine')}{url}")
    assert answer.status_code == 200
    assert "work" in (server.home / "jobs" / job / "record.json").read_text()
    jobs = {one["id"]: one for one in get(server, "overview")[1]["jobs"]}
    assert jobs[job]["serves"] == "notebook"
    assert get(server, f"jobs/{job}/card")[1]["notebook"] is True


def test_one_that_cannot_start_says_why(server, start):
    code, told = start(dir=str(server.folder / "nowhere"))
    assert code == 200, told
    failed = until(
        lambda: (found := get(server, f"jobs/{told['job']}/notebook"))[0] != 200 and found, LIMIT
    )
    assert failed[0] == 409
    assert "there is no folder" in failed[1]["what"]


@pytest.mark.long
def test_a_card_says_that_nobody_uses_it_until_it_is_kept(server, start):
    # Ten seconds without use are told: as long nothing is said again, once it was kept.
    code, told = start(gpus="0", idle="610s")
    assert code == 200, told
    job = told["job"]
    card = until(lambda: (now := get(server, f"jobs/{job}/card")[1])["notice"] and now, LIMIT)
    assert "it ends in 10 min" in card["notice"]
    assert card["warning"] is True
    assert card["sentence"].startswith("Nobody has used it for")
    assert card["progress"] is None
    answer = server.session.post(f"{server.url}/api/jobs/{job}/notebook/keep")
    assert (answer.status_code, answer.json()) == (200, {"job": job})
    until(lambda: not get(server, f"jobs/{job}/card")[1]["notice"], LIMIT)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"gpus": "many"}, "--gpus"),
        ({"idle": "soon"}, "--idle"),
        ({"port": "1"}, "there is no field 'port'"),
        ({"cluster": "nowhere"}, "nowhere"),
        ({"dir": "hdfs://x/y"}, "is no folder of a machine"),
        ({"name": "a\nb"}, "a value cannot be used"),
        ({"gpus": "-1"}, "--gpus"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_at_once(start, options, what):
    code, told = start(**options)
    assert code >= 400
    assert what in told["what"]


def test_a_folder_and_a_job_that_are_not_there(server, start):
    assert "there is no folder" in start("nowhere", gpus="0")[1]["what"]
    assert get(server, "jobs/20250101-000000-aaaaa/notebook")[0] == 404
    kept = server.session.post(f"{server.url}/api/jobs/20250101-000000-aaaaa/notebook/keep")
    assert kept.status_code == 404
    answer = server.session.post(f"{server.url}/api/notebooks", json={"options": {"gpus": 1}})
    assert answer.status_code == 400
