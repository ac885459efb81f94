"""Charts by REST: thinned with their extremes, small curves of many jobs, jobs compared."""

from __future__ import annotations

import json
import math
import time

import pytest
import requests
from submarine_engine.difference import MOST_LINES
from submarine_engine.history import JobPaths
from submarine_engine.job import Role
from submarine_engine.metrics import Row
from submarine_jupyter import charts

from tests.jobs import LIMIT, until

NOWHERE = "20260101-000000-aaaaa"
HOSTILE = "</td><script>alert(1)</script>"


def rows(*values, name="loss", begin=1000.0):
    return [Row(begin + at, 1, {name: (value,) * 3}) for at, value in enumerate(values)]


def drawn(reported=None, used=None, *, points=1000):
    return charts.charts(reported or {}, used or {}, points, -math.inf, math.inf)


def test_a_line_keeps_its_extremes_however_few_its_points():
    values = [0.0] * 5000
    values[1234], values[4321] = 7.0, -7.0
    (chart,) = drawn({"worker-0": rows(*values)}, points=100)
    (line,) = chart["lines"]
    assert len(line["at"]) == len(line["mean"]) == 100
    assert (max(line["high"]), min(line["low"])) == (7.0, -7.0)
    assert max(line["mean"]) < 1
    assert line["at"] == sorted(line["at"])


def test_few_rows_are_as_they_are_and_no_number_is_a_gap():
    told = {"worker-0": [*rows(1.0, math.nan, 2.0), Row(1009.0, 4, {"loss": (1.0, 2.0, 3.0)})]}
    (line,) = drawn(told)[0]["lines"]
    assert line["at"] == [1000.0, 1001.0, 1002.0, 1009.0]
    assert line["mean"] == [1.0, None, 2.0, 2.0]
    assert line["low"] == [1.0, None, 2.0, 1.0]
    (line,) = drawn({"worker-0": rows(*[math.nan] * 50)}, points=10)[0]["lines"]
    assert line["mean"] == [None] * 10
    json.dumps(line, allow_nan=False)


def test_there_is_a_line_for_each_task_and_part():
    names = ("gpu0", "gpu1", "gpu0_memory", "cpu", "read", "write", "sent", "processes")
    row = Row(1000.0, 1, dict.fromkeys(names, (1.0,) * 3))
    used = {"worker-0": [row], "worker-1": [row]}
    step = Row(1000.0, 1, {"step": (1.0,) * 3, "loss": (0.5,) * 3})
    found = {one["name"]: one for one in drawn({"worker-0": [step]}, used)}
    assert list(found) == ["loss", "GPU use", "GPU memory", "CPU", "Disk", "Network"]
    labels = {name: [line["label"] for line in one["lines"]] for name, one in found.items()}
    assert labels["GPU use"] == ["worker-0 GPU 0", "worker-0 GPU 1",
                                 "worker-1 GPU 0", "worker-1 GPU 1"]  # fmt: skip
    assert labels["CPU"] == labels["GPU memory"] == ["worker-0", "worker-1"]
    assert labels["loss"] == ["worker-0"]
    used.pop("worker-1")
    found = {one["name"]: one for one in drawn(used=used)}
    assert [line["label"] for line in found["Disk"]["lines"]] == ["read", "written"]


def test_many_lines_have_fewer_points_each():
    told = {f"worker-{rank}": rows(*[float(rank)] * 2000) for rank in range(32)}
    lines = drawn(told)[0]["lines"]
    assert len(lines) == 32
    assert sum(len(line["at"]) for line in lines) <= 12_000
    assert lines[0]["at"] == lines[-1]["at"]


@pytest.fixture
def over(submit, module_home):
    """Return a function that runs a job to its end, and has it have reported so."""

    def run(script="print('first', flush=True)", series=(), **options):
        job_id = submit(script, **options)
        until(lambda: submit.cluster.status(job_id).state.final)
        task = JobPaths(module_home, job_id).task("worker-0")
        began = time.time() - len(series)
        lines = [
            json.dumps({"at": began + at, "loss": value, "step": at})
            for at, value in enumerate(series)
        ]
        if lines:
            task.reported.write_text("\n".join(lines) + "\n{cut off")
        return job_id

    return run


def asked(server, path):
    answer = server.get(f"/api{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_jobs_charts_come_with_what_it_is(server, over, module_home):
    job_id = over(series=[3.0, 2.0, 1.0], name="drawn")
    found = asked(server, f"/jobs/{job_id}/metrics")
    assert (found["name"], found["state"], found["final"]) == ("drawn", "succeeded", True)
    (line,) = found["charts"][0]["lines"]
    assert (found["charts"][0]["name"], line["mean"]) == ("loss", [3.0, 2.0, 1.0])
    middle = int(line["at"][1] * 1000)
    part = asked(server, f"/jobs/{job_id}/metrics?from={middle - 500}&to={middle + 500}")
    assert part["charts"][0]["lines"][0]["mean"] == [2.0]
    task = JobPaths(module_home, job_id).task("worker-0")
    content = json.dumps({"at": line["at"][0], HOSTILE: 1.0, "far": 1, "x" * 500: 2})
    task.reported.write_text(f'{content}\n{{"at": 1e18, "loss": 1}}\n\0\xff[[[')
    found = asked(server, f"/jobs/{job_id}/metrics")
    assert [one["name"] for one in found["charts"] if one["reported"]] == [HOSTILE, "far"]
    task.reported.unlink()
    task.reported.symlink_to("/etc/passwd")
    found = asked(server, f"/jobs/{job_id}/metrics")
    assert [one for one in found["charts"] if one["reported"]] == []


def test_nobody_without_a_token_and_no_job_that_is_none(server, over):
    job_id = over()
    for path in (
        f"jobs/{job_id}/metrics", f"sparklines?jobs={job_id}", f"compare?jobs={job_id}",
        f"jobs/{job_id}/output/worker-0/at?time=0",
    ):  # fmt: skip
        assert requests.get(f"{server.url}/api/{path}", timeout=LIMIT).status_code == 403
    assert server.get(f"/api/jobs/{NOWHERE}/metrics").status_code == 404
    assert server.get(f"/api/compare?jobs={job_id},{NOWHERE}").status_code == 404
    for ids in ("", "x", "../..", f"{job_id},", ",".join([f"{NOWHERE}{n}" for n in range(51)])):
        assert server.get("/api/sparklines", params={"jobs": ids}).status_code == 400
        assert server.get("/api/compare", params={"jobs": ids}).status_code == 400


def test_small_curves_prefer_gpus_then_what_is_reported(server, over, module_home):
    told, silent = over(series=[3.0, 1.0, 2.0]), over()
    for file in ("metrics", "reported"):
        (JobPaths(module_home, silent).task("worker-0").root / file).unlink(missing_ok=True)
    found = asked(server, f"/sparklines?jobs={told},{silent},{NOWHERE}")["jobs"]
    assert (found[told]["name"], found[told]["last"], found[silent]) == ("loss", "2", None)
    assert [y for _, y in found[told]["points"]] == [3.0, 1.0, 2.0]
    assert found[NOWHERE] is None
    task = JobPaths(module_home, told).task("worker-0")
    task.metrics.unlink(missing_ok=True)  # whoever still writes there writes into the old one
    task.metrics.write_text('{"at": 1, "gpu0": 50, "cpu": 1}\n{"at": 2, "gpu0": 90, "cpu": 1}\n')
    found = asked(server, f"/sparklines?jobs={told}")["jobs"]
    assert (found[told]["name"], found[told]["last"], found[told]["most"]) == ("GPU", "90 %", 100)


def test_jobs_are_compared(server, over):
    first, second = (
        over(f"x = {n}\nprint('a')", series=series, name=name, roles=(Role(args=("--rate", n)),))
        for n, series, name in (("1", [1.0, 0.5], "slow"), ("2", [1.0, 0.25], "fast"))
    )
    found = asked(server, f"/compare?jobs={first},{second}")
    assert [one["name"] for one in found["jobs"]] == ["slow", "fast"]
    sections = {
        one["title"]: {row["name"]: row for row in one["rows"]} for one in found["sections"]
    }
    assert sections["options"]["--name"] == {
        "name": "--name", "values": ["slow", "fast"], "same": False,
    }  # fmt: skip
    assert sections["options"]["arguments"]["values"] == ["--rate 1", "--rate 2"]
    assert sections["reported last"]["loss"]["values"] == ["0.5", "0.25"]
    assert sections["reported last"]["step"]["same"] is True
    assert set(sections["GPU time"]) == {"GPUs", "queued", "held", "busy"}
    (code,) = found["code"]
    assert code["id"] == second
    for line in (["-", "x = 1"], ["+", "x = 2"], [" ", "print('a')"]):
        assert line in code["lines"]
    again = server.get(f"/api/compare?jobs={first},{first}")
    assert (again.status_code, f"both are the job {first}" in again.text) == (400, True)


def test_secrets_of_compared_jobs_read_as_their_names(server, over, monkeypatch):
    """As `job diff` has it: in a script, an option, a variable of the environment."""
    marked = "a-token-of-a-service"
    monkeypatch.setenv("SERVICE", marked)
    jobs = (
        over(f"x = '{marked}{name}'", name=name, secrets=("SERVICE",),
             env={"PLAIN": f"{marked}/{name}"}, roles=(Role(args=("--with", marked, name)),))
        for name in ("one", "two")
    )  # fmt: skip
    answer = server.get(f"/api/compare?jobs={','.join(jobs)}")
    assert marked not in answer.text
    assert answer.text.count("<secret SERVICE>") >= 6


def test_code_that_is_long_is_compared_as_far_as_people_read(server, over, module_home):
    jobs = [over(), over()]
    for number, job_id in enumerate(jobs):
        bundle = JobPaths(module_home, job_id).bundle
        (script,) = bundle.glob("*.py")
        script.write_text("".join(f"x = {number}, {line}\n" for line in range(9000)))
    (code,) = asked(server, f"/compare?jobs={','.join(jobs)}")["code"]
    assert len(code["lines"]) == MOST_LINES
    assert code["left_out"] > 1000


def test_the_log_is_found_by_its_moment(server, over, module_home):
    job_id = over("print('first', flush=True)\nprint('second')\nprint('third')")
    task = JobPaths(module_home, job_id).task("worker-0")
    task.moments.write_text("[100.0, 0, 0]\n[200.0, 6, 0]\n[300.0, 13, 0]\n")

    def at(seconds, around=1):
        path = f"/jobs/{job_id}/output/worker-0/at?time={int(seconds * 1000)}&around={around}"
        return asked(server, path)

    assert (at(99)["line"], at(99)["lines"]) == (None, [])
    assert (at(100)["line"], at(199.9)["lines"]) == (0, ["first", "second"])
    assert (at(250)["line"], at(250)["start"]) == (1, 0)
    assert at(250)["lines"] == ["first", "second", "third"]
    assert (at(10_000)["line"], at(10_000, around=0)["lines"]) == (2, ["third"])
    assert server.get(f"/api/jobs/{job_id}/output/worker-9/at?time=1").status_code == 404
