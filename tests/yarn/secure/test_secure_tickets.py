"""Jobs that outlive their user's ticket: renewed by a keytab, or waiting for the next one."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from submarine_engine import Job, kerberos
from submarine_engine.clusters.store import read_warnings
from submarine_engine.history import JobPaths
from submarine_engine.installer import realm
from submarine_engine.job import JobState

from tests.hadoop import yarn_cluster
from tests.jobs import bundle_of, end_processes_of, follow, spec_of, until

from .users import kinit

pytestmark = pytest.mark.long

LIFE, LONGER = 120, 240
"""Seconds of a ticket, and of one by which a job begins: on a busy machine that takes minutes."""


@pytest.fixture
def home(on_secure_yarn, tmp_path, monkeypatch):
    """Give a home for jobs where tickets are short, and cannot be renewed."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    text = Path(realm.config(on_secure_yarn.cluster.layout)).read_text()
    text = re.sub(r"ticket_lifetime = .*", f"ticket_lifetime = {LIFE}s", text)
    text = re.sub(r" renew_lifetime = .*\n", "", text)
    (tmp_path / "krb5.conf").write_text(text)
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    yield home
    end_processes_of(home, patience=3)
    kerberos.log_in(None)


def waiting(gate: Path) -> str:
    """Return a job that prints, waits for a file, prints, and returns."""
    return (
        "import os, time\nprint('epoch 1')\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
        "print('epoch 2')\n{'loss': 0.5}"
    )


def begin(cluster, gate):
    job_id = cluster.submit(spec_of(), bundle_of(waiting(gate)), workdir=gate.parent)
    log = JobPaths(cluster.home, job_id).task("worker-0").stdout
    until(lambda: log.exists() and log.read_text() == "epoch 1\n")
    return job_id


def ends_well(cluster, job_id):
    seen = follow(cluster, job_id, patience=400)
    assert seen.status.state is JobState.SUCCEEDED, seen.status.reason
    assert seen.out == "epoch 1\nepoch 2\n"
    assert Job(cluster, job_id).results().value == {"loss": 0.5}


def test_by_a_keytab_jobs_outlive_tickets(home, on_secure_yarn, tmp_path, monkeypatch):
    keytab = realm.keytab(on_secure_yarn.cluster.layout, "alice")
    monkeypatch.setenv("SUBMARINE_YARN_KEYTAB", str(keytab))
    monkeypatch.setenv("SUBMARINE_YARN_PRINCIPAL", f"alice@{realm.REALM}")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'nothing'}")
    cluster = yarn_cluster()
    first = kerberos.read_ticket()
    assert first.until < time.time() + LIFE + 1
    job_id = begin(cluster, tmp_path / "gate")
    until(lambda: time.time() > first.until)
    (tmp_path / "gate").touch()
    ends_well(cluster, job_id)
    again = cluster.submit(spec_of(), bundle_of(waiting(tmp_path / "gate")), workdir=tmp_path)
    ends_well(cluster, again)
    assert not (tmp_path / "nothing").exists()


def test_without_a_ticket_a_job_that_runs_is_not_gone(home, on_secure_yarn, tmp_path, monkeypatch):
    cache = tmp_path / "tickets"
    name = kinit(on_secure_yarn, cache, "alice", "-l", f"{LONGER}s")
    monkeypatch.setenv("KRB5CCNAME", name)
    cluster = yarn_cluster()
    job_id = begin(cluster, tmp_path / "gate")
    until(lambda: kerberos.ticket_problem() is not None, 2 * LONGER)
    (tmp_path / "gate").touch()
    until(
        lambda: any("wait for a ticket" in said for said in read_warnings(JobPaths(home, job_id)))
    )
    assert not cluster.status(job_id).state.final
    # Skein's Java looks for it once a minute: it is not to be over by then.
    kinit(on_secure_yarn, cache, "alice", "-l", "1d")
    ends_well(cluster, job_id)
