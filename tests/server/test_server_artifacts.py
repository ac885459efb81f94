"""The files that a job has left, listed and downloaded by REST."""

from __future__ import annotations

import os

import pytest
import requests
from submarine_jupyter.artifacts import disposition

from tests.jobs import until

LEAVES = """
import os
os.chdir(os.environ["SUBMARINE_OUTPUT_PATH"])
os.mkdir("plots")
with open("plots/a.html", "w") as file: file.write("<script>alert(1)</script>")
with open(b'100% "x"\\n\\xff', "wb") as file: file.write(b"odd")
with open("model", "wb") as file: file.write(bytes(range(256)) * 4000)
os.symlink("/etc/passwd", "link")
os.symlink("/etc", "folder")
os.mkfifo("pipe")
"""


@pytest.fixture
def job(submit):
    job_id = submit(LEAVES, name="leaves")
    until(lambda: submit.cluster.status(job_id).state.final)
    return job_id


def test_what_a_job_has_left_is_listed_and_downloaded(server, job):
    told = server.get(f"/api/jobs/{job}/artifacts").json()
    assert [(one["name"], one["size"], one["path"]) for one in told["artifacts"]] == [
        ('100% "x"\n�', 3, "100%25%20%22x%22%0A%FF"),
        ("model", 1_024_000, "model"),
        ("plots/a.html", 25, "plots/a.html"),
    ]
    assert (told["more"], told["left_out"]["a link"]) == (0, 2)
    assert server.get(f"/api/jobs/{job}/artifacts?limit=2").json()["more"] == 1
    content = [b"odd", bytes(range(256)) * 4000, b"<script>alert(1)</script>"]
    for one, data in zip(told["artifacts"], content, strict=True):
        answer = server.get(
            f"/api/jobs/{job}/artifacts/worker-0/file", params={"path": one["path"]}
        )
        assert (answer.status_code, answer.content) == (200, data)
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Disposition"].startswith("attachment; filename=")


def test_a_range_is_a_part_and_nothing_else(server, job):
    def asked(wanted):
        return server.get(
            f"/api/jobs/{job}/artifacts/worker-0/file",
            params={"path": "model"}, headers={"Range": wanted},
        )  # fmt: skip

    answer = asked("bytes=10-19")
    assert (answer.status_code, answer.content) == (206, bytes(range(10, 20)))
    assert answer.headers["Content-Range"] == "bytes 10-19/1024000"
    assert asked("bytes=1023999-").content == b"\xff"
    assert asked("bytes=1024000-").status_code == 416
    assert asked("bytes=-5").status_code == 200  # what is not known is not obeyed


@pytest.mark.sampled
@pytest.mark.parametrize(
    "path",
    ["link", "folder/passwd", "pipe", "plots", "no", "../stdout", "plots/../../stdout",
     "%2Fetc%2Fpasswd", "..%2Fstdout", "%2e%2e/stdout", "a%00b", "a//b"],
)  # fmt: skip
def test_nothing_but_a_plain_file_of_the_folder_is_sent(server, job, path):
    answer = server.get(f"/api/jobs/{job}/artifacts/worker-0/file", params={"path": path})
    assert answer.status_code == 404, answer.text


def test_who_may_not_read_jobs_gets_none(server, job):
    where = f"/api/jobs/{job}/artifacts/worker-0/file"
    assert server.get(where).status_code == 400
    assert server.get(where, params={"path": 'a"b'}).status_code == 400
    assert server.get("/api/jobs/20260101-000000-aaaaa/artifacts").status_code == 404
    assert server.get(f"/api/jobs/{job}/artifacts/worker-7/file?path=model").status_code == 404
    answer = requests.get(f"{server.url}{where}?path=model", timeout=180)
    assert answer.status_code == 403


def test_a_name_is_no_header_of_its_own():
    assert disposition("a/b%22%0D%0Ax%3A%20y") == (
        "attachment; filename=\"b___x_ y\"; filename*=UTF-8''b%22%0D%0Ax%3A%20y"
    )
    assert disposition("%FF") == "attachment; filename=\"_\"; filename*=UTF-8''%EF%BF%BD"
    assert os.sep not in disposition("plots/a.html")
