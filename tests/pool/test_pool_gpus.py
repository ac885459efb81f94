"""A map's workers and the GPUs: more as they fall free, fewer when others wait."""

import pytest

from tests.pool.programs import Program

PROGRAM = """
    import os, time
    from pathlib import Path

    from submarine_engine import list_jobs, map, submit
    from submarine_engine.clusters import open_cluster

    def until(condition):
        limit = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < limit
            time.sleep(0.02)

    def hold(folder, n):
        Path(folder, f"begun-{n}").touch()
        until(Path(folder, f"go-{n}").exists)
        return os.environ["CUDA_VISIBLE_DEVICES"]

    def held():
        return sum(gpu.held_by is not None for gpu in open_cluster("local").gpus())

    def quick():
        return os.environ["CUDA_VISIBLE_DEVICES"]

    if __name__ == "__main__":
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "3")
    return Program(tmp_path, PROGRAM)


def test_it_grows_gives_way_and_grows_again(program, tmp_path):
    flags = tmp_path / "flags"
    flags.mkdir()
    program.run(f"""
        folder = {str(flags)!r}
        found = map(hold, [folder] * 6, range(6), gpus=1)
        begun = lambda: len(list(Path(folder).glob("begun-*")))
        until(lambda: begun() == 3)
        assert held() == 3
        until(lambda: found.job.status().tasks[0].message == "0 of 6 calls, 3 workers, 3 GPUs")
        # Another job waits: the first worker that is through with its call ends for it. One that
        # was through before the pool saw the job had a call more.
        other = submit(quick)
        until(lambda: other.status().state.value == "queued")
        for n in range(6):
            Path(folder, f"go-{{n}}").touch()
            until(lambda: other.done() or Path(folder, f"begun-{{n + 3}}").exists())
        assert other.result(120) in "012"
        assert all(value in "012" for value in found)
        found.job.wait()
        until(lambda: held() == 0)
    """)


MEETING = """
import os, time
from pathlib import Path

if "SUBMARINE_TASK_DIR" in os.environ:
    flags = Path({flags!r})
    (flags / str(os.getpid())).touch()
    limit = time.monotonic() + 120
    while len(list(flags.iterdir())) < 2:
        assert time.monotonic() < limit
        time.sleep(0.02)

def same(n):
    return n
"""

MEETS = """
    import meeting
    from submarine_engine import map

    def met(n):
        return meeting.same(n)

    if __name__ == "__main__":
"""


def test_its_workers_begin_together(program, tmp_path):
    flags = tmp_path / "flags"
    flags.mkdir()
    (tmp_path / "meeting.py").write_text(MEETING.format(flags=str(flags)))
    program.head = MEETS
    program.run("""
        assert list(map(met, range(2), gpus=1)) == [0, 1]
        # One call is one worker's, however many GPUs are free.
        assert list(map(met, [5], gpus=1)) == [5]
    """)
    assert len(list(flags.iterdir())) == 3


def test_a_worker_with_nothing_to_do_gives_its_gpu_back_while_others_run(program, tmp_path):
    flags = tmp_path / "flags"
    flags.mkdir()
    program.run(f"""
        from submarine_engine import sweep

        folder = {str(flags)!r}
        begun = lambda: len(list(Path(folder).glob("begun-*")))
        found = map(hold, [folder] * 3, range(3), gpus=1)
        until(lambda: begun() == 3)
        # One for all of it, with what its workers hold; each is noted after its code has begun.
        until(lambda: [(one.id, one.gpus) for one in list_jobs()] == [(found.job.id, 3)])
        Path(folder, "go-1").touch()
        until(lambda: held() == 2)
        until(lambda: list_jobs()[0].to_json()["gpus"] == 2)
        Path(folder, "go-2").touch()
        until(lambda: held() == 1)
        assert not found.job.done()
        Path(folder, "go-0").touch()
        found.wait()
        assert list_jobs()[0].gpus == 0

        def train(n):
            hold(folder, n)
            return n

        space = {{"n": [4, 5, 6]}}
        found = sweep(train, space, sampler="grid", gpus=1, minimize="loss", wait=False)
        until(lambda: begun() == 6)
        Path(folder, "go-5").touch()
        until(lambda: held() == 2)
        assert found.runs
        for n in (4, 6):
            Path(folder, f"go-{{n}}").touch()
        assert found.wait().counts() == {{"complete": 3}}
    """)


LINGERING = """
import atexit, os, time
from pathlib import Path

def linger():
    limit = time.monotonic() + 60
    while not Path({flag!r}).exists() and time.monotonic() < limit:
        time.sleep(0.02)

if "SUBMARINE_TASK_DIR" in os.environ:
    atexit.register(linger)
"""


def test_a_gpu_that_is_free_is_not_awaited_from_the_worker_that_had_it(program, tmp_path):
    flags = tmp_path / "flags"
    flags.mkdir()
    (tmp_path / "lingering.py").write_text(LINGERING.format(flag=str(flags / "over")))
    program.head = program.head.replace("import os, time", "import lingering, os, time", 1)
    program.head = program.head.replace("Path(folder, f", "lingering.Path(folder, f", 1)
    program.run(f"""
        from submarine_engine import open_job
        from submarine_engine.history import default_home
        from submarine_engine.records import children_of

        def given_back():  # its lease is free a moment before that is on record
            workers = [open_job(one) for one in children_of(default_home(), found.job.id)]
            told = any(task.released for one in workers for task in one.status().tasks)
            return told and held() == 2

        folder = {str(flags)!r}
        found = map(hold, [folder] * 5, range(5), gpus=1)
        begun = lambda: len(list(Path(folder).glob("begun-*")))
        until(lambda: begun() == 3)
        other = submit(quick, gpus=2)
        until(lambda: other.status().state.value == "queued")
        Path(folder, "go-0").touch()
        # The first worker has given its GPU back, and is not over yet. Where a call has begun
        # instead, it was before the pool had seen the job.
        until(lambda: given_back() or begun() == 4)
        if begun() == 4:
            Path(folder, "go-3").touch()
            until(given_back)
        Path(folder, "go-1").touch()
        assert len(other.result(120).split(",")) == 2
        for name in ("over", "go-2", "go-3", "go-4"):
            Path(folder, name).touch()
        assert len(list(found)) == 5
    """)


def test_it_takes_no_more_than_it_may(program, tmp_path):
    flags = tmp_path / "flags"
    flags.mkdir()
    program.run(f"""
        folder = {str(flags)!r}
        for n in range(4):
            Path(folder, f"go-{{n}}").touch()
        assert len(set(map(hold, [folder] * 4, range(4), gpus=1, max_gpus=1))) == 1
        (devices,) = map(hold, [folder], [0], gpus=2)
        assert len(devices.split(",")) == 2
    """)


def test_a_map_on_any_of_several_clusters_is_one_choice(program):
    program.run(
        """
        from submarine_engine.history import default_home
        from submarine_engine.records import children_of, record_of

        found = map(str, [1, 2, 3], gpus=1, cluster="any").wait()
        assert sorted(found.results().values()) == ["1", "2", "3"]
        jobs = [found.job.id, *children_of(default_home(), found.job.id)]
        told = [record_of(job)["spec"]["chosen"] for job in jobs]
        why = "local: 3 GPUs free, 1 asked for; nowhere: there is no cluster 'nowhere'"
        assert len(told) > 1 and set(told) == {why}, told
        """,
        SUBMARINE_ANY_OF="nowhere,local",
    )
