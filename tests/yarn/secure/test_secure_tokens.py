"""Jobs that outlive everything that they were let in by: the user's tickets, and HDFS's tokens."""

from __future__ import annotations

import getpass
import os
import re
import time
from contextlib import contextmanager, suppress

import pytest
import requests
from submarine_engine import Job, kerberos
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.rest import ResourceManager, new_session
from submarine_engine.errors import KerberosError
from submarine_engine.history import JobPaths, read_json
from submarine_engine.installer import realm
from submarine_engine.job import JobState

from tests.hadoop import start, use, yarn_cluster
from tests.jobs import bundle_of, end_processes_of, follow, spec_of, until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("clusters of their own")]

TICKET, RENEWABLE = 120, 240
"""Seconds of a ticket, and in which it can be renewed."""

INTERVAL, MOST = 30, 90
"""Seconds of HDFS's tokens: unless they are renewed, and in all."""

LONGER = 300
"""Seconds of those by which nodes bring files on a busy machine, which takes minutes to begin a
job."""

TRAINING = """
import os, subprocess, time
import fsspec
from submarine_runtime import job

began, state, outlived = time.time(), {{"seen": 0}}, None
first = open(os.environ["HADOOP_TOKEN_FILE_LOCATION"], "rb").read()
for step in job.steps(10_000, state, every=5):
    state["seen"] += 1
    print("step", step)
    with fsspec.open("hdfs:///user/alice/seen/last", "w") as file:
        file.write(str(step))
    if outlived is None and time.time() > began + {outlived}:
        outlived = step
    if time.time() > began + {seconds}:
        break
    time.sleep(1)
with fsspec.open("webhdfs://{namenode}/user/alice/seen/last") as file:
    seen = int(file.read())
changed = first != open(os.environ["HADOOP_TOKEN_FILE_LOCATION"], "rb").read()
java = subprocess.run(["{hdfs}", "dfs", "-cat", "/user/alice/seen/last"],
                      capture_output=True, text=True)
print(java.stderr)
kept = int(os.path.basename(job.latest_checkpoint()).rpartition("-")[2])
{{"step": step, "seen": seen, "java": java.stdout, "changed": changed, "kept": kept > outlived}}
"""


class TooLateError(Exception):
    """A busy machine has not begun the job while the tokens counted that it was submitted with."""


@contextmanager
def short_lived_cluster(home, nodes, most):
    """Give a secure cluster of so many nodes whose tickets and tokens end soon.

    Parameters
    ----------
    most
        Seconds of a token in all.
    """
    lives = {
        "dfs.namenode.delegation.token.renew-interval": str(1000 * INTERVAL),
        "dfs.namenode.delegation.token.max-lifetime": str(1000 * most),
    }
    sites, kdc = realm.secure_sites, realm._KDC_CONF

    def short(plan, layout):
        found = sites(plan, layout)
        found["hdfs-site.xml"] |= lives
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(realm, "secure_sites", short)
        kdc = re.sub(r"max_life = .*", f"max_life = {TICKET}s", kdc)
        kdc = re.sub(r"max_renewable_life = .*", f"max_renewable_life = {RENEWABLE}s", kdc)
        patch.setattr(realm, "_KDC_CONF", kdc)
        yarn = start(home, f"short-{nodes}-{most}", nodes, secure=True)
    with pytest.MonkeyPatch.context() as patch:
        try:
            yield use(yarn, patch)
        finally:
            yarn.cluster.down()


@contextmanager
def jobs_of(user, yarn, folder):
    """Give it as a user has it, by a keytab."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBMARINE_HOME", str(folder / "home"))
        patch.setenv("SUBMARINE_YARN_KEYTAB", str(realm.keytab(yarn.cluster.layout, user)))
        patch.setenv("SUBMARINE_YARN_PRINCIPAL", f"{user}@{realm.REALM}")
        patch.setenv("SUBMARINE_YARN_IDLE", "1000")
        patch.setenv("KRB5CCNAME", f"FILE:{folder / 'nothing'}")
        try:
            yield yarn_cluster()
        finally:
            end_processes_of(folder / "home", patience=3)
            kerberos.log_in(None)


@pytest.fixture
def outlives(home_of_its_own, tmp_path):
    """Run a check with tokens that end soon, then with others, if these have ended too soon."""

    def run(check, user="alice"):
        for most in (MOST, LONGER):
            folder = tmp_path / str(most)
            folder.mkdir()
            with short_lived_cluster(home_of_its_own, 1, most) as yarn:
                try:
                    with jobs_of(user, yarn, folder) as cluster:
                        check(yarn, cluster, folder, most)
                except TooLateError:
                    if most == LONGER:
                        raise
                else:
                    return

    return run


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("mode", "least"), [("cold", RENEWABLE + 30), ("warm", 0)])
def test_a_job_outlives_tickets_and_tokens(outlives, mode, least):
    def check(yarn, cluster, folder, most):
        assert kerberos.read_ticket().until < time.time() + TICKET + 1
        script = TRAINING.format(
            seconds=max(least, 1.6 * most),
            outlived=1.2 * most,
            namenode=yarn.namenode.partition("://")[2],
            hdfs=yarn.cluster.layout.bin / "hdfs",
        )
        spec = spec_of(notebook="a.ipynb", mode=mode)
        job_id = cluster.submit(spec, bundle_of(script), workdir=folder)
        log = JobPaths(cluster.home, job_id).task("worker-0").stdout

        def has_begun():
            return log.exists() and "step 0" in log.read_text()

        too_late = time.time() + 2 * most + 60
        until(
            lambda: has_begun() or cluster.status(job_id).state.final or time.time() > too_late,
            900,
        )
        if not has_begun():
            raise TooLateError(cluster.status(job_id).reason)
        seen = follow(cluster, job_id, patience=RENEWABLE + 900)
        assert seen.status.state is JobState.SUCCEEDED, f"{seen.status.reason}\n{seen.out[-2000:]}"
        value = Job(cluster, job_id).results().value
        last = value["step"]
        whole = {"seen": last, "java": str(last), "changed": True, "kept": True}
        assert value == {"step": last, **whole}, seen.out
        steps = [line.split()[1] for line in seen.out.splitlines() if line.startswith("step ")]
        assert steps == [str(step) for step in range(last + 1)]
        hdfs = open_hdfs(load_hadoop())
        until(lambda: not hdfs.exists(f"{hdfs.home}/.submarine/logs/{job_id}"))
        hdfs.close()

    outlives(check)


WRITES = """
import os, time
from tensorboard.summary import Writer
writer = Writer(os.environ["SUBMARINE_LOGDIR"])
for step, gate in enumerate({gates!r}):
    while not os.path.exists(gate):
        time.sleep(0.05)
    writer.add_scalar("loss", 0.5, step)
    writer.flush()
    print("written", step)
while not os.path.exists({last!r}):
    time.sleep(0.05)
writer.close()
"""


@pytest.mark.timeout(3600)
def test_a_tensorboard_beside_a_job_outlives_its_tokens(outlives):
    def check(_, cluster, folder, most):
        gates = [str(folder / name) for name in ("first", "second")]
        last = folder / "last"
        script = WRITES.format(gates=gates, last=str(last))
        spec = spec_of(notebook="a.ipynb", tensorboard=True, memory=512)
        job_id = cluster.submit(spec, bundle_of(script), workdir=folder)
        too_late = time.time() + 2 * most + 60

        def page():
            return cluster.links(job_id).get("TensorBoard")

        def is_over():
            return cluster.status(job_id).state.final

        until(lambda: page() or is_over() or time.time() > too_late, 900)
        if not (there := page()):
            raise TooLateError(cluster.status(job_id).reason)
        session, began = new_session(load_hadoop()), time.time()

        def steps():
            assert not is_over(), cluster.status(job_id).reason
            asked = {"run": "worker-0", "tag": "loss"}
            with suppress(requests.RequestException, KerberosError):
                page = f"{there}data/plugin/scalars/scalars"
                answer = session.get(page, params=asked, timeout=60)
                kind = answer.headers.get("Content-Type", "")
                if answer.ok and kind.startswith("application/json"):
                    return [step for _, step, _ in answer.json()]
            return None

        (folder / "first").touch()
        until(lambda: steps() == [0], 600)
        # By the token that it was sent it can read no more.
        until(lambda: time.time() > began + 1.2 * most, 3 * most)
        (folder / "second").touch()
        until(lambda: steps() == [0, 1], 600)
        last.touch()
        seen = follow(cluster, job_id, patience=600)
        assert seen.status.state is JobState.SUCCEEDED, f"{seen.status.reason}\n{seen.out[-2000:]}"

    outlives(check, getpass.getuser())  # nodes tell where it listens to whoever runs them alone


HOLDS = """
import os, time
large = {large!r}
print("it runs")
while not os.path.exists({gate!r}):
    time.sleep(0.02)
len(large)
"""


@pytest.fixture
def short_lived(home_of_its_own):
    with short_lived_cluster(home_of_its_own, 2, LONGER) as yarn:
        yield yarn


@pytest.fixture
def cluster(short_lived, tmp_path):
    with jobs_of("alice", short_lived, tmp_path) as cluster:
        yield cluster


@pytest.mark.timeout(1800)
def test_a_warm_application_older_than_its_tokens_has_a_successor(cluster, tmp_path):
    """A node that it has not been on could not fetch its files: of two, one is such a node."""

    def submit(name, gpus):
        script = HOLDS.format(large=os.urandom(400_000).hex(), gate=str(tmp_path / name))
        spec = spec_of(notebook="a.ipynb", mode="warm", name=name, gpus=gpus)
        return cluster.submit(spec, bundle_of(script), workdir=tmp_path)

    def await_begun(job_id):
        log = JobPaths(cluster.home, job_id).task("worker-0").stdout
        until(lambda: (log.exists() and log.read_text()) or cluster.status(job_id).state.final, 400)
        assert not cluster.status(job_id).state.final, cluster.status(job_id).reason
        return read_json(JobPaths(cluster.home, job_id).root / "yarn.json")["app_id"]

    def ends_well(job_id, name):
        (tmp_path / name).touch()
        seen = follow(cluster, job_id, patience=600)
        assert seen.status.state is JobState.SUCCEEDED, f"{seen.status.reason}\n{seen.out[-2000:]}"
        assert Job(cluster, job_id).results().value == 800_000

    rm = ResourceManager(load_hadoop())
    first = submit("first", 1)
    old, began = await_begun(first), time.time()
    until(lambda: time.time() > began + 1.1 * LONGER, 2 * LONGER)
    # Of four GPUs a node, the first job's has three left: two of these jobs are on the other one.
    later = {name: submit(name, 2) for name in ("second", "third", "fourth")}
    (new,) = {await_begun(job_id) for job_id in later.values()}
    assert new != old
    assert rm.application(old)["state"] == "RUNNING"  # its job goes on
    for name, job_id in later.items():
        ends_well(job_id, name)
    ends_well(first, "first")
    until(lambda: rm.application(old)["state"] == "FINISHED")  # nobody needs it any more
    assert rm.application(old)["finalStatus"] == "SUCCEEDED"
    assert rm.application(new)["state"] == "RUNNING"
