"""Several replicas: updates under load, a replica that is killed, a front that is killed."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import CommandError, JobError, JobFailedError, JobNotFoundError
from submarine_engine.records import open_job
from submarine_engine.serving import front, launching
from submarine_engine.serving.launching import servings, stand, start, stop, update, wait
from submarine_engine.serving.record import FrontState, ServingRecord

from tests.jobs import bundle_of, spec_of, until
from tests.serving.conftest import ask


class Load:
    """Clients that ask without a pause, and count what they are answered."""

    def __init__(self, address, clients=4):
        self._address, self._over = address, threading.Event()
        self.answers, self.failed = [], []
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self):
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for one in self._threads:
            one.join()

    def _ask(self):
        while not self._over.is_set():
            try:
                found = ask(self._address, {"inputs": [[1]]})
            except OSError as error:
                self.failed.append(str(error))
                continue
            if found.status == 200:
                self.answers.append(found.told["predictions"][0])
            else:
                self.failed.append(found)

    def goes_on(self):
        """Wait for ten more answers."""
        count = len(self.answers) + 10
        until(lambda: len(self.answers) >= count or self.failed)


def updates_under_load(constant, number):
    """Serve, replace the model so often under load, and return what was answered and what not."""
    record = start(str(constant(0)), {"name": "load", "replicas": 2})
    wait(record)
    with Load(record.address) as load:
        for version in range(1, number + 1):
            load.goes_on()
            wait(update("load", str(constant(version)), {}))
            # Whatever was asked from here on, the new one answers.
            assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [version]}
        load.goes_on()
    until(lambda: len(stand(record).told.replicas) == 2)
    told = stand(record).told
    assert (told.serves, told.failures) == (number + 1, 0)
    return load


def patient_front(served):
    """Be a front whose requests wait for as long as a replica takes on a machine that is busy."""
    from submarine_engine.serving import front

    front._PATIENCE = 600.0
    front.run_front(served)


@pytest.mark.service
def test_no_request_is_lost_by_an_update_and_a_death(home, constant, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for the front to be found
    monkeypatch.setattr(front, "run_front", patient_front)
    record = start(str(constant(1)), {"name": "digits", "replicas": 2})
    wait(record)
    with Load(record.address, clients=2) as load:
        load.goes_on()
        wait(update("digits", str(constant(2)), {"replicas": 1}))
        assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [2]}
        now = stand(record).told
        replica = next(one.job for one in now.replicas if one.version == now.serves)
        os.kill(pid_of(replica), signal.SIGKILL)
        until(lambda: attempt_of(replica) == 2)
        load.goes_on()  # the requests of meanwhile have waited
    assert load.failed == []
    assert set(load.answers) == {1, 2}
    until(lambda: [one.job for one in stand(record).told.replicas] == [replica])


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_request_is_lost_by_twenty_updates(home, constant):
    load = updates_under_load(constant, 20)
    assert load.failed == []
    assert set(load.answers) == set(range(21))


@pytest.mark.long
def test_what_dies_is_there_again_and_no_request_is_lost(home, constant):
    record = start(str(constant(1)), {"name": "kills", "replicas": 2})
    first = wait(record)
    pids = [pid_of(one.job) for one in first.told.replicas]
    with Load(record.address) as load:
        load.goes_on()
        os.kill(pids[0], signal.SIGKILL)
        until(lambda: attempt_of(first.told.replicas[0].job) == 2)
        load.goes_on()
        until(lambda: stand(record).told.ready == 2)
        front = pid_of(record.job)
        assert load.failed == []
    os.kill(front, signal.SIGKILL)
    until(lambda: attempt_of(record.job) == 2)
    until(lambda: stand(record).state == "ready" and stand(record).told.ready == 2)
    assert until(lambda: answered(record.address)) == {"predictions": [1]}
    after = stand(record)
    assert {one.job for one in after.told.replicas} == {one.job for one in first.told.replicas}
    assert attempt_of(first.told.replicas[1].job) == 1  # it went on all the time


def answered(address):
    try:
        return ask(address, {"inputs": [[1]]}).told
    except OSError:  # between the front's two attempts
        return None


def attempt_of(job):
    return open_job(job).status().attempt


def pid_of(job):
    """Return the process of a job's only task, in its first attempt."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError):
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                if words[1] == "-u" and words[3].endswith(f"/jobs/{job}/tasks/worker-0"):
                    return int(entry.name)
    raise LookupError(job)


@pytest.mark.long
def test_an_update_that_does_not_load_leaves_all_as_it_was(home, constant, tmp_path):
    record = start(str(constant(1)), {"name": "kept"})
    wait(record)
    broken = tmp_path / "broken"
    shutil.copytree(constant(2), broken)
    (broken / "python_model.pkl").write_bytes(b"no pickle")
    with pytest.raises(JobFailedError, match="load key"):
        wait(update("kept", str(broken), {}))
    until(lambda: stand(record).state == "updating" or stand(record).told.failed == 2)
    assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [1]}
    with pytest.raises(CommandError, match="nothing to change"):
        update("kept", None, {})
    with pytest.raises(CommandError, match="is not there"):
        update("kept", str(tmp_path / "missing"), {"replicas": 5})
    assert stand(record).record.replicas == 1
    wait(update("kept", str(constant(3)), {}))
    assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [3]}
    wait(update("kept", None, {"replicas": 2}))
    wait(update("kept", None, {"replicas": 1}))
    until(lambda: len(stand(record).told.replicas) == 1)
    stop("kept")
    with pytest.raises(JobNotFoundError, match="nothing is served under"):
        update("kept", str(constant(1)), {})
    assert servings() == []


@pytest.fixture
def asked_for(home, constant, tmp_path, monkeypatch):
    """Return what is asked for, and no front follows, of a model whose folder is gone by now."""

    def begin(record):
        job = LocalCluster(home).submit(spec_of(), bundle_of(HOLDS), workdir=tmp_path)
        return record.with_job(job)

    monkeypatch.setattr(launching, "_begin_front", begin)
    path = tmp_path / "gone"
    shutil.copytree(constant(1), path)
    record = start(str(path), {"name": "digits", "memory": 512, "env": {"A": "1"}})
    shutil.rmtree(path)
    return record


HOLDS = "import time\ntime.sleep(600)"


def test_options_without_a_model_are_another_version_of_the_same(asked_for):
    (former, model), takes = asked_for.what(1), asked_for.takes
    now = update("digits", None, {"replicas": 3, "cpus": 1, "server": "mlflow"})
    assert (now.wanted, now.replicas, now.takes) == (2, 3, takes)
    assert now.servers == {"1": "", "2": "mlflow"}
    assert now.models["2"] == now.models["1"]
    spec, bundle = now.what(2)
    (role,) = spec.roles
    assert (role.resources.vcores, role.resources.memory) == (1, 512)
    assert (spec.env, spec.retries) == (former.env, former.retries)
    (packed,) = (load.path for load in bundle.manifest.loads)
    assert bundle.files[packed] == model.files[packed]
    assert '"mlflow"' in bundle.script
    now = update("digits", None, {"env": {"B": "2"}})
    assert now.what(3)[0].env == {"B": "2"}
    assert now.servers["3"] == "mlflow", "as it was"
    with pytest.raises(CommandError, match="no server 'none'"):
        update("digits", None, {"server": "none", "replicas": 5})
    last = update("digits", None, {"replicas": 1, "memory": None})
    assert (last.wanted, last.replicas) == (3, 1)  # no new replicas where they are the same
    with pytest.raises(CommandError, match="nothing to change"):
        update("digits", None, {"detach": True, "serving": "digits"})


def test_options_alone_are_for_the_model_that_is_served_not_for_one_that_failed(
    asked_for, constant
):
    failed = update("digits", str(constant(2)), {"memory": 256, "server": "mlflow"})
    failed.tell(FrontState(serves=1, failed=2))
    now = update("digits", None, {"cpus": 1})
    assert (now.wanted, now.models["3"], now.servers["3"]) == (3, now.models["1"], "")
    (role,) = now.what(3)[0].roles
    assert (role.resources.vcores, role.resources.memory) == (1, 512)


class Sleeps:
    def __reduce__(self):
        return time.sleep, (600,)


@pytest.mark.long
def test_an_update_takes_the_place_of_one_that_is_not_over(home, constant, tmp_path):
    # Made before: MLflow takes as long for one as a replica may for its start, and two threads
    # that make one at once change each other's warnings.
    models = {number: str(constant(number)) for number in range(1, 6)}
    slow = tmp_path / "slow"  # never loaded: it is replaced before, however long that takes
    shutil.copytree(models[2], slow)
    (slow / "python_model.pkl").write_bytes(pickle.dumps(Sleeps()))
    record = start(models[1], {"name": "twice"})
    wait(record)
    with Load(record.address, clients=2) as load:
        load.goes_on()
        second = update("twice", str(slow), {})
        until(lambda: any(one.version == 2 for one in stand(record).told.replicas))
        third = update("twice", models[3], {"replicas": 2})
        with pytest.raises(JobError, match="another model was put in its place"):
            wait(second)
        wait(third)
        assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [3]}
        load.goes_on()
    assert load.failed == []
    assert set(load.answers) == {1, 3}
    until(lambda: [one.version for one in stand(record).told.replicas] == [3, 3])
    # Two at once: each has a number of its own, and one of them is what is served.
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda n: update("twice", models[n], {}), (4, 5)))
    assert {one.wanted for one in both} == {4, 5}
    wait(max(both, key=lambda one: one.wanted))
    now = ask(record.address, {"inputs": [[1]]}).told["predictions"][0]
    assert ServingRecord.read(record.folder).models["5"] == models[now]


@pytest.mark.long
def test_what_is_served_no_more_cannot_be_changed(home, constant):
    record = start(str(constant(1)), {"name": "gone"})
    wait(record)
    replicas = stand(record).told.replicas
    open_job(record.job).kill()
    until(lambda: open_job(record.job).done())
    with pytest.raises(JobError, match="served no more"):
        update("gone", str(constant(2)), {})
    assert stop("gone")
    for one in replicas:
        until(lambda one=one: open_job(one.job).done())
