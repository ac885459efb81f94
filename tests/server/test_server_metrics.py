"""``/submarine/metrics``: what Prometheus scrapes, for who is logged in alone."""

from __future__ import annotations

import requests
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from submarine_engine.future import Job

from tests.jobs import LIMIT, until

SCRIPT = "import time\nfrom submarine_runtime import report\nreport(3, loss=0.5)\ntime.sleep(3600)"


def test_running_jobs_are_there_for_who_may_read_them(server, submit):
    job = Job(submit.cluster, submit(SCRIPT))
    # What it uses is measured beside it, and may be written before its code reports.
    until(lambda: len(job.metrics()) and len(job.reported()))
    answer = server.get("/metrics")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    samples = [
        (one.name, one.value)
        for family in text_string_to_metric_families(answer.text)
        for one in family.samples
        if one.labels["job"] == job.id
    ]
    assert ("submarine_reported", 0.5) in samples
    assert "submarine_task_memory_bytes" in dict(samples)
    assert requests.get(server.url + "/metrics", timeout=LIMIT).status_code == 403
