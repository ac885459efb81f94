"""A map outlives its program and its controller, and ends with its job."""

import json
import os
import signal
import subprocess

import pytest
from submarine_engine import list_jobs, open_job
from submarine_engine.history import JobPaths, default_home
from submarine_engine.job import JobState
from submarine_engine.records import children_of

from tests.jobs import end_processes_of, processes_of, until
from tests.pool.programs import Program

PROGRAM = """
    import itertools, os, sys, time
    from pathlib import Path

    from submarine_engine import map

    def hold(folder, n):
        Path(folder, f"begun-{n}").touch()
        limit = time.monotonic() + 300
        while n > 5 and not Path(folder, "go").exists():
            assert time.monotonic() < limit
            time.sleep(0.01)
        with open(Path(folder, "ran"), "a") as ran:
            ran.write(f"{n}\\n")
        return n

    if __name__ == "__main__":
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "flags").mkdir()
    yield Program(tmp_path, PROGRAM)
    end_processes_of(default_home())


def begin(program, inputs):
    """Start a map in a program that then waits; return both, once some calls hold."""
    flags = program.folder / "flags"
    body = f"""
        found = map(hold, itertools.repeat({str(flags)!r}), {inputs}, gpus=0, max_workers=2)
        print(found.job.id, flush=True)
        for value in found: pass
    """
    # It is followed by its job alone.
    started = subprocess.Popen(program.command(body), stdout=subprocess.PIPE, text=True)
    with started.stdout:
        job_id = started.stdout.readline().strip()
    until(lambda: len(list(flags.glob("begun-*"))) == 8)
    return started, open_job(job_id), flags


def ran(flags):
    return sorted(map(int, (flags / "ran").read_text().split()))


def test_it_goes_on_without_its_program_and_where_its_controller_was_killed(program):
    started, job, flags = begin(program, "list(range(20))")
    started.kill()
    started.wait()
    (task,) = job.status().tasks
    lock = JobPaths(default_home(), job.id).lock
    (session,) = [json.loads(lock.read_text())["session"]]
    os.kill(session, signal.SIGKILL)
    until(lambda: job.status().attempt == 2)
    (flags / "go").touch()
    found = job.result(120)
    assert found.results() == {n: n for n in range(20)}
    assert list(found) == list(range(20))
    assert ran(flags) == list(range(20)), task


def test_of_a_generator_it_runs_what_was_given(program):
    started, job, flags = begin(program, "itertools.count()")
    started.kill()
    started.wait()
    (flags / "go").touch()
    found = job.result(120)
    assert ran(flags) == sorted(found.results()) == list(range(len(found.results())))
    assert len(found.results()) >= 64


@pytest.mark.parametrize("way", ["cancel", pytest.param("kill", marks=pytest.mark.long)])
def test_its_workers_end_with_it(program, way):
    started, job, flags = begin(program, "list(range(20))")
    assert len(children_of(default_home(), job.id)) == 2
    getattr(job, way)()
    assert job.wait(120).state is JobState.CANCELLED
    started.wait(120)
    # After a kill nobody is there to end them: they wait a minute for another word.
    until(lambda: not processes_of(default_home()))
    assert [one.id for one in list_jobs()] == [job.id]
    (flags / "go").touch()
    assert ran(flags) == list(range(6))
