"""Logs by line: numbers, search, bars, hostile bytes, growth, and the whole file."""

from __future__ import annotations

from tests.jobs import until


def over(submit, job_id):
    until(lambda: submit.cluster.status(job_id).state.final)
    return f"/api/jobs/{job_id}/logs/worker-0/stdout"


def test_lines_by_number_and_the_last_ones(server, submit):
    log = over(submit, submit("for i in range(5000): print('line', i)"))
    some = server.get(f"{log}/lines", params={"start": 4997, "count": 2}).json()
    assert some["lines"] == ["line 4997", "line 4998"]
    assert (some["total"], some["start"], some["size"]) == (5000, 4997, 48890)
    last = server.get(f"{log}/lines", params={"count": 3}).json()
    assert (last["start"], last["lines"][-1]) == (4997, "line 4999")
    assert server.get(f"{log}/lines", params={"start": 9999}).json()["lines"] == []


def test_search_goes_on_where_it_stopped(server, submit):
    log = over(submit, submit("for i in range(300): print('Loss' if i % 3 else 'epoch', i)"))
    first = server.get(f"{log}/search", params={"text": "EPOCH", "count": 60}).json()
    assert first == {"lines": list(range(0, 180, 3)), "next": 180}
    rest = server.get(f"{log}/search", params={"text": "epoch", "start": first["next"]}).json()
    assert rest == {"lines": list(range(180, 300, 3)), "next": None}


def test_the_whole_log_comes_as_a_file(server, submit):
    log = over(submit, submit("import os\nos.write(1, bytes(range(256)) * 5000)"))
    answer = server.get(f"{log}/file")
    assert answer.content == bytes(range(256)) * 5000
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_no_log_yet_has_no_lines_and_no_task_has_no_log(server, submit):
    log = over(submit, submit("pass"))
    assert server.get(f"{log}/lines").json()["lines"] == []
    other = log.replace("worker-0", "worker-7")
    assert server.get(f"{other}/lines").status_code == 404
    assert server.get(f"{log}/search").status_code == 400
    assert server.get(f"{log}/lines?count=2001").status_code == 400
