"""A notebook forks while its threads wait for jobs: no fork takes a lock along."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import pytest
from submarine_engine import Job
from submarine_engine.clusters import locks
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.job import JobState

from tests.jobs import until

FORKS = 1000
AT_ONCE = 50


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_thousand_forks_beside_threads_that_wait(local, declare_gpus):
    """Each of them lives on for a while, as a worker of a DataLoader does."""
    declare_gpus(1)
    gate = local.folder / "gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n1"
    jobs = [Job(LocalCluster(local.home), local.submit(code, gpus=1)) for _ in range(3)]
    over = threading.Event()

    def wait(job):
        while not over.is_set() and not job.done():
            job.cluster.gpus()  # locks as well

    waiting = [threading.Thread(target=wait, args=(job,)) for job in jobs]
    for thread in waiting:
        thread.start()
    try:
        for _ in range(FORKS // AT_ONCE):
            forks = [fork() for _ in range(AT_ONCE)]
            try:  # whoever looks next has the locks, with all of the forks alive
                free = [local.paths(jobs[2].id).lock, *local.home.glob("hosts/*/queue.lock")]
                assert len(free) == 2
                for path in free:
                    until(lambda path=path: locks.is_free(path))
            finally:
                for pid in forks:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
    finally:
        gate.touch()
        over.set()
        for thread in waiting:
            thread.join()
    assert [local.follow(job.id).state for job in jobs] == [JobState.SUCCEEDED] * 3


def fork():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are threads is the point
        pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid
