"""Links to logs for browsers that are elsewhere: signed for one job, for a time, and lasting."""

from __future__ import annotations

import os
import signal
import socket
import stat
import urllib.error
import urllib.request
from contextlib import suppress

import pytest
from submarine_engine import submit
from submarine_engine.history import default_home
from submarine_engine.tensorboard import select, stop_board, wait_for_board
from submarine_engine.tensorboard.board import Files, NoTensorBoardError
from submarine_magics import frontend
from submarine_magics.verbs import board_bundle
from submarine_zeppelin import links
from submarine_zeppelin.properties import ELSEWHERE, LINKS_LISTEN, LINKS_URL, read_properties

from tests.jobs import until
from tests.zeppelin.server import free_port


@pytest.fixture
def listens(monkeypatch):
    port = free_port()
    monkeypatch.setenv(LINKS_LISTEN, f"127.0.0.1:{port}")
    return "127.0.0.1", port


@pytest.fixture
def pages(listens):
    pages = links.LinkPages(listens)
    yield pages
    pages.shutdown()
    pages.server_close()


@pytest.fixture
def job():
    job = submit(print, "hello", gpus=0)
    job.wait()
    return job


def status(url, method="GET", host=""):
    request = urllib.request.Request(url, method=method, headers={"Host": host} if host else {})  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=180) as answer:  # noqa: S310
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_a_link_shows_its_job_and_no_other(pages, job):
    link = links.log_link(job)
    assert status(link) == 200
    with urllib.request.urlopen(f"{link}logs/worker-0/stdout?offset=0") as answer:  # noqa: S310
        assert answer.read() == b"hello\n"
    assert status(link.replace(job.id, "another-job")) == 404
    token = link.split("/")[3]
    end, _, signed = token.partition("-")
    for forged in (f"{int(end, 16) + 1:x}-{signed}", f"{end}-{'0' * 32}", "x", end):
        assert status(link.replace(token, forged)) == 404
    assert status(f"{link}cancel", "POST") == 409, "a link only shows"
    assert status(link, host="elsewhere.example") == 421


@pytest.mark.parametrize(
    ("url", "host", "right"),
    [
        ("http://GPU-Box:80/jobs", "gpu-box", True),  # as a browser asks for it
        ("https://zeppelin.example:8443", "zeppelin.example", True),  # as nginx passes its $host on
        ("https://zeppelin.example:8443", "zeppelin.example:8443", True),
        ("https://zeppelin.example", "zeppelin.example.attacker.example", False),
        ("https://zeppelin.example", "attacker.example:443@zeppelin.example", False),
        ("https://zeppelin.example", "[", False),
        ("http:///jobs", ":1", False),
    ],
)
def test_whom_a_request_may_call(pages, monkeypatch, url, host, right):
    monkeypatch.setenv(LINKS_URL, url)
    assert pages.is_called(host) is right


def test_a_link_ends(pages, job, monkeypatch):
    link = links.log_link(job)
    now = links.time.time()
    monkeypatch.setattr(links.time, "time", lambda: now + 6 * 86_400)
    assert status(link) == 200
    assert links.log_link(job) != link
    monkeypatch.setattr(links.time, "time", lambda: now + 9 * 86_400)
    assert status(link) == 404


def test_links_work_again_after_a_restart_by_a_key_of_their_owner(pages, listens, job):
    link = links.log_link(job)
    pages.shutdown()
    pages.server_close()
    assert links.log_link(job) == link
    again = links.LinkPages(listens)
    try:
        assert status(link) == 200
    finally:
        again.shutdown()
        again.server_close()
    key = default_home() / "zeppelin/links.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [path.name for path in key.parent.glob("links.key*")] == ["links.key"]


def test_a_second_interpreter_serves_them_once_the_first_is_gone(listens, job, monkeypatch):
    monkeypatch.setattr(links, "_AGAIN", 0.02)
    monkeypatch.setattr(links, "_served", set())
    with socket.create_server(listens) as first:
        links.serve()
        links.serve()  # of another session: one thread tries
    assert first.fileno() == -1

    def served():
        try:
            return status(links.log_link(job)) == 200
        except OSError:
            return False

    until(served)


def test_where_a_link_leads(job, monkeypatch):
    monkeypatch.setattr(frontend.current, "log_page", None)
    assert links.log_link(job).startswith("http://127.0.0.1:")  # for who sits at the machine
    monkeypatch.setenv(ELSEWHERE, "1")
    assert links.log_link(job) is None
    monkeypatch.setenv(LINKS_LISTEN, "0.0.0.0:8900")
    assert links.log_link(job).startswith(f"http://{socket.getfqdn()}:8900/")
    monkeypatch.setenv(LINKS_URL, "https://zeppelin.example/jobs/")
    link = links.log_link(job)
    assert link.startswith("https://zeppelin.example/jobs/")
    assert link.endswith(f"/jobs/{job.id}/")
    assert link == links.log_link(job)


@pytest.fixture
def board():
    """Return a TensorBoard over an empty folder, that listens."""
    home = default_home()
    folder = home / "events"
    folder.mkdir(parents=True, exist_ok=True)
    board = wait_for_board(home, select(home, folders=[str(folder)]))
    yield board
    with suppress(NoTensorBoardError):  # the test has ended it
        stop_board(home, board.id)


def test_a_link_leads_to_one_tensorboard(pages, board):
    link = links.board_link(board.address)
    assert board.key not in link
    with urllib.request.urlopen(link) as answer:  # noqa: S310 - loopback
        assert b"TensorBoard" in answer.read()
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    with urllib.request.urlopen(f"{link}data/environment") as answer:  # noqa: S310
        assert b"data_location" in answer.read()
    token = link.split("/")[3]
    end, _, signed = token.partition("-")
    for forged in (f"{int(end, 16) + 1:x}-{signed}", f"{end}-{'0' * 32}"):
        assert status(link.replace(token, forged)) == 404
    assert status(link.replace(board.id, "0" * 16)) == 404
    assert status(link, host="elsewhere.example") == 421
    assert status(link, "POST") == 403, "another site's page may ask a browser so"
    for path in ("../", "..%2f", "%2e%2e/jobs", "data/../../x", "%0d%0aX:%20y", "data/%00"):
        assert status(f"{link}{path}") == 404, path


def test_a_tensorboard_that_has_ended_is_started_again_by_its_link(pages, board):
    link = links.board_link(board.address)
    os.kill(board.pid, signal.SIGKILL)
    until(lambda: Files(default_home(), board.id).live() is None)
    assert status(link) == 200
    stop_board(default_home(), board.id)
    assert status(link) == 503


def test_where_the_link_of_a_tensorboard_leads(board, monkeypatch):
    assert links.board_link(board.address) == board.address  # for who sits at the machine
    monkeypatch.setattr(frontend.current, "board_page", links.board_link)
    assert board_bundle(board)["text/plain"].endswith(board.address)
    monkeypatch.setenv(ELSEWHERE, "1")
    assert links.board_link(board.address) is None
    assert "submarine.links.listen" in board_bundle(board)["text/plain"]
    monkeypatch.setenv(LINKS_LISTEN, "0.0.0.0:8900")
    monkeypatch.setenv(LINKS_URL, "https://zeppelin.example/jobs/")
    link = links.board_link(board.address)
    assert link.startswith("https://zeppelin.example/jobs/")
    assert link.endswith(board.path)
    assert link in board_bundle(board)["text/html"]


def test_properties_of_links():
    found = read_properties(
        {"submarine.links.listen": "0.0.0.0:8900", "submarine.links.url": "http://box:8900"}
    )
    assert not found.problems
    assert found.environment[LINKS_LISTEN] == "0.0.0.0:8900"
    assert found.environment[LINKS_URL] == "http://box:8900"
    bad = {"submarine.links.listen": "8900x", "submarine.links.url": "box", "submarine.links": "1"}
    first, second, third = read_properties(bad).problems
    assert "submarine.links" in first
    assert "for example 0.0.0.0:8900" in second
    assert "for example https://" in third
