"""Secrets by name: the job has their values, and what is kept or shown of it has not."""

from __future__ import annotations

from hashlib import sha256

import pytest

from submarine_engine import secret_values
from submarine_engine.errors import JobFailedError, SubmissionError
from submarine_engine.history import JobPaths
from submarine_engine.testing.jobs import until

NAME = "CONTRACT_SECRET"
VALUE = "hf_" + "C0ntractS3cr3t" * 2
MASK = f"<secret {NAME}>".ljust(len(VALUE), "*")
TELL = f"""
import os
from hashlib import sha256
value = os.environ[{NAME!r}]
print(sha256(value.encode()).hexdigest(), value, flush=True)
raise ValueError("not with " + value)
"""


def test_a_secret_reaches_the_job_and_nothing_that_is_kept_or_shown(cluster, monkeypatch):
    monkeypatch.setenv(NAME, VALUE)
    job = cluster.submit(TELL, secrets=(NAME,))
    story = cluster.follow(job)
    assert story.out == f"{sha256(VALUE.encode()).hexdigest()} {MASK}\n"
    assert story.status.reason == f"ValueError: not with {MASK}"
    assert VALUE not in story.logs["stderr"].decode()
    with pytest.raises(JobFailedError, match="not with <secret") as caught:
        job.result()
    assert VALUE not in str(caught.value)

    root = JobPaths(cluster.home, job.id).root

    def holding():
        files = [path for path in root.rglob("*") if path.is_file()]
        return {path.name for path in files if VALUE.encode() in path.read_bytes()}

    # The last file that is written, aside and renamed.
    until(lambda: '"failed"' in cluster.paths(job).status.read_text())
    # What the code itself wrote or raised is as it was, for the owner alone.
    until(lambda: holding() <= {"stdout", "stderr", "outcome.json", "raised.pkl"})


def test_a_secret_is_looked_up_once_for_a_job(cluster, monkeypatch):
    asked = []

    def value(name):  # a keyring may ask a person each time
        asked.append(name)
        return VALUE

    monkeypatch.setattr(secret_values, "secret_value", value)
    job = cluster.submit("import os; print(len(os.environ['CONTRACT_SECRET']))", secrets=(NAME,))
    assert cluster.follow(job).out == f"{len(VALUE)}\n"
    assert asked == [NAME]


def test_a_secret_without_a_value_is_refused(cluster):
    with pytest.raises(SubmissionError, match="no value is known for CONTRACT_ABSENT"):
        cluster.submit("pass", secrets=("CONTRACT_ABSENT",))
