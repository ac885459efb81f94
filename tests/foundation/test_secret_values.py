"""What a driver in another process is told of a job's secrets, and for how long."""

from __future__ import annotations

import stat

from submarine_engine.clusters.store import Journal
from submarine_engine.events import Finished, Submitted
from submarine_engine.history import JobPaths, make_private
from submarine_engine.job import JobSpec, JobState
from submarine_engine.secret_values import NOTE, note_values, noted_values, secret_variables

RECORD = {
    "id": "20260101-000000-aaaaa",
    "cluster": "other",
    "created": [0, 0],
    "spec": {"name": "job", "roles": [{"count": 1, "resources": {"gpus": 0}}]},
}


def test_values_are_noted_for_the_owner_alone_until_the_job_is_over(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_value")
    paths = JobPaths(tmp_path, RECORD["id"])
    make_private(paths.root)
    note_values(paths.root, secret_variables(JobSpec(secrets=("HF_TOKEN",))))
    monkeypatch.delenv("HF_TOKEN")
    assert stat.S_IMODE((paths.root / NOTE).stat().st_mode) == 0o600
    assert noted_values(paths.root) == {"HF_TOKEN": "hf_value"}
    journal = Journal(paths, RECORD)
    journal.append(Submitted(gpus=0, tasks=("worker-0",)))
    assert noted_values(paths.root)
    journal.append_last(Finished(state=JobState.SUCCEEDED))
    journal.close()
    assert noted_values(paths.root) == {}
    assert not (paths.root / NOTE).exists()


def test_a_job_without_secrets_notes_nothing(tmp_path):
    note_values(tmp_path, secret_variables(JobSpec(env={"A": "b"})))
    assert list(tmp_path.iterdir()) == []
    assert secret_variables(JobSpec()) == {}
