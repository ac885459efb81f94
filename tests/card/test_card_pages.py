"""The log pages' server: what it serves, and whom it refuses; real sockets, real job folders."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from submarine_engine.bundle import Bundle, Manifest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.future import Job
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.masking import write_marks
from submarine_magics.card.pages import LogPages, log_page

from tests.jobs import until

SPEC = JobSpec(name="noisy", roles=(Role(resources=Resources(gpus=0)),))


def submit(home, work, script):
    files = {"script.py": script.encode()}
    bundle = Bundle(files=files, manifest=Manifest(entry="script.py", python="3"))
    cluster = LocalCluster(home)
    return Job(cluster, cluster.submit(SPEC, bundle, workdir=work))


def log(job):
    return JobPaths(job.cluster.home, job.id).task("worker-0").stdout


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    root = tmp_path_factory.mktemp("finished")
    job = submit(root / "home", root, "print('one'); print('<script>two</script>')")
    assert job.wait(180).state is JobState.SUCCEEDED
    status = JobPaths(job.cluster.home, job.id).status
    until(lambda: '"succeeded"' in status.read_text())  # the last that is written there
    return job


@pytest.fixture
def own_job(job):
    """Give the test a copy of the job's record to do with as it likes."""
    new, old = (JobPaths(job.cluster.home, each) for each in (new_job_id(), job.id))

    def pipes(folder, names):
        return [name for name in names if Path(folder, name).is_fifo()]

    shutil.copytree(old.root, new.root, ignore=pipes)
    return Job(job.cluster, new.job_id)


@pytest.fixture(scope="module")
def pages(job):
    pages = LogPages(job.cluster, job.cluster.home)
    yield pages
    pages.shutdown()
    pages.server_close()


@pytest.fixture
def ask(pages, job):
    def ask(path="", *, method="GET", url=None, about=job, **headers):
        parts = urlsplit(url or pages.url(about.id) + path)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=180)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, target, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), body

    return ask


def test_the_page_is_strict_and_holds_nothing_of_the_job(ask, job):
    status, headers, body = ask()
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", headers["Content-Security-Policy"])[1]
    assert body.decode().count(f'nonce="{nonce}"') == 2
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert b"noisy" not in body
    assert job.id.encode() not in body
    assert ask()[1]["Content-Security-Policy"] != headers["Content-Security-Policy"]


def test_the_state_names_the_logs_with_their_sizes(ask, job):
    state = json.loads(ask("state")[2])
    assert (state["job_id"], state["name"], state["state"]) == (job.id, "noisy", "succeeded")
    assert state["final"] is True
    sizes = {log["stream"]: log["size"] for log in state["logs"]}
    assert sizes == {"stdout": len("one\n<script>two</script>\n"), "stderr": 0}


def test_a_log_is_its_bytes_as_plain_text(ask, job):
    status, headers, body = ask("logs/worker-0/stdout")
    assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert body == b"one\n<script>two</script>\n"
    assert ask("logs/worker-0/stdout?offset=4&limit=8")[2] == b"<script>"
    assert ask("logs/worker-0/stdout?offset=999")[2] == b""
    assert ask("logs/worker-0/stdout?offset=-5&limit=3")[2] == b"one"


def test_a_big_log_is_sent_whole(ask, own_job):
    data = os.urandom(1 << 20) * 24
    log(own_job).write_bytes(data)
    assert ask("logs/worker-0/stdout", about=own_job)[2] == data
    assert ask(f"logs/worker-0/stdout?offset={len(data) - 10}", about=own_job)[2] == data[-10:]


def test_a_secret_in_a_log_reads_as_its_name(ask, own_job):
    write_marks(JobPaths(own_job.cluster.home, own_job.id).root, [("TOKEN", "0123456789" * 3)])
    log(own_job).write_text("it is " + "0123456789" * 3 + "\n")
    masked = b"it is <secret TOKEN>****************\n"
    assert ask("logs/worker-0/stdout", about=own_job)[2] == masked
    assert ask("logs/worker-0/stdout?offset=10&limit=9", about=own_job)[2] == masked[10:19]


def test_a_big_log_with_a_secret_is_never_in_memory_as_a_whole(ask, own_job, monkeypatch):
    token = "0123456789" * 3
    write_marks(JobPaths(own_job.cluster.home, own_job.id).root, [("TOKEN", token)])
    log(own_job).write_bytes(b"x" * ((1 << 20) - 7) + token.encode() + b"y" * (5 << 20))
    real, most = os.pread, []

    def noted(descriptor, size, offset):
        most.append(size)
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", noted)
    body = ask("logs/worker-0/stdout", about=own_job)[2]
    mask = b"<secret TOKEN>".ljust(len(token), b"*")
    assert body == b"x" * ((1 << 20) - 7) + mask + b"y" * (5 << 20)
    assert max(most) < 2 << 20


def test_the_first_half_of_a_secret_waits_for_the_other(
    ask, own_job, monkeypatch, write_steady_marks
):
    token = "0123456789" * 3
    write_steady_marks(JobPaths(own_job.cluster.home, own_job.id).root, [("TOKEN", token)])
    state = LogPages.state
    over = False
    monkeypatch.setattr(
        LogPages, "state", lambda pages, job_id: {**state(pages, job_id), "final": over}
    )
    log(own_job).write_text(f"it is {token[:15]}")
    assert ask("logs/worker-0/stdout", about=own_job)[2] == b"it is "
    assert ask("logs/worker-0/stdout?offset=6&limit=100", about=own_job)[2] == b""
    assert ask("logs/worker-0/stdout?offset=2", about=own_job)[2] == b" is "
    log(own_job).write_text(f"it is {token}")
    masked = b"<secret TOKEN>".ljust(len(token), b"*")
    assert ask("logs/worker-0/stdout?offset=6", about=own_job)[2] == masked
    log(own_job).write_text(f"it is {token[:15]}")
    over = True
    assert ask("logs/worker-0/stdout", about=own_job)[2] == f"it is {token[:15]}".encode()


@pytest.mark.parametrize(
    "path",
    [
        "nothing", "logs/worker-0/other", "logs/worker-9/stdout", "logs/../stdout", "logs/worker-0",
        "logs/..%2f..%2frecord.json/stdout", "logs/worker-0/stdout?offset=x", "cancel",
    ],
)  # fmt: skip
def test_what_is_no_log_is_not_found(ask, path):
    assert ask(path)[0] == 404


def test_a_log_that_is_a_link_leads_nowhere(ask, own_job, tmp_path):
    (tmp_path / "secret").write_text("secret")
    log(own_job).unlink()
    log(own_job).symlink_to(tmp_path / "secret")
    status, _, body = ask("logs/worker-0/stdout", about=own_job)
    assert status == 500
    assert b"secret" not in body


def test_a_log_that_is_a_pipe_does_not_hang(ask, own_job):
    log(own_job).unlink()
    os.mkfifo(log(own_job))
    assert ask("logs/worker-0/stdout", about=own_job)[0] == 404


def test_other_tokens_and_other_jobs_are_not_found(ask, pages, job):
    good = pages.url(job.id)
    assert ask(url=good)[0] == 200
    for bad in (
        good.replace(pages.token, "x" * len(pages.token)),
        good.replace(pages.token, pages.token[:-1]),
        good.replace(f"/{pages.token}", ""),
        good.replace(job.id, "20200101-000000-aaaaa"),
        good.replace(job.id, "not-a-job"),
        good.replace(job.id, ".."),
    ):
        assert ask(url=bad)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", ""])
def test_a_rebound_name_is_refused(ask, pages, host):
    assert ask(Host=host.format(port=pages.server_port))[0] == 421


def test_it_listens_on_the_loopback_interface_only(pages):
    assert pages.server_address[0] == "127.0.0.1"
    assert pages.socket.family is socket.AF_INET


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS"])
def test_other_methods_are_refused(ask, method):
    assert ask(method=method)[0] == 501


def test_only_a_cancel_is_posted(ask):
    assert ask("state", method="POST")[0] == 404
    assert ask("cancel", method="POST")[0] == 200  # the job is over: nothing to do


def test_a_deleted_job_is_not_found(ask, own_job):
    assert ask("state", about=own_job)[0] == 200
    shutil.rmtree(JobPaths(own_job.cluster.home, own_job.id).root)
    assert ask("state", about=own_job)[0] == 404


def test_a_job_whose_record_is_broken_is_an_error_in_words(ask, own_job):
    JobPaths(own_job.cluster.home, own_job.id).events.unlink()
    status, _, body = ask("state", about=own_job)
    assert status == 409
    assert b"cannot be used" in body


def test_a_running_job_is_cancelled(tmp_path):
    job = submit(tmp_path / "home", tmp_path, "import time; time.sleep(600)")
    parts = urlsplit(log_page(job))
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=180)
    connection.request("POST", parts.path + "cancel")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, "*")
    assert job.wait(180).state is JobState.CANCELLED
    connection.close()


def test_one_server_serves_all_jobs_of_a_home(job):
    assert log_page(job) == log_page(job)


class Elsewhere(LocalCluster):
    """Another cluster that keeps its jobs in the same home."""

    def __init__(self, home):
        super().__init__(home)
        self.name = "elsewhere"
        self.asked = []

    def status(self, job_id):
        self.asked.append("status")
        return super().status(job_id)

    def cancel(self, *_):
        self.asked.append("cancel")


def test_a_page_asks_the_cluster_of_its_job_whichever_came_first(ask, job):
    first, second = Elsewhere(job.cluster.home), Elsewhere(job.cluster.home)
    second.name = "nowhere"
    pages = [log_page(Job(cluster, job.id)) for cluster in (job.cluster, first, second)]
    assert len(set(pages)) == 3
    assert ask(url=pages[1] + "state")[0] == ask(url=pages[1] + "cancel", method="POST")[0] == 200
    assert (first.asked, second.asked) == (["status", "cancel"], [])


def test_a_cluster_with_a_page_of_its_own_needs_no_server(job):
    own = LocalCluster(job.cluster.home, log_page=lambda job_id: f"https://yarn.example/{job_id}")
    assert log_page(Job(own, job.id)) == f"https://yarn.example/{job.id}"
