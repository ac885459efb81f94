"""`map` of a plain program, on the real local cluster: each call by a worker that stays."""

import pytest

from tests.pool.programs import Program
from tests.webhook import receiver

PROGRAM = """
    import itertools, os, sys, time
    from pathlib import Path

    from submarine_engine import list_jobs, map, open_job, open_map, submit
    from submarine_engine.errors import SubmarineError

    class Point:
        def __init__(self, x): self.x = x
        def __eq__(self, other): return self.x == other.x

    class Odd(LookupError):
        def __init__(self, x):
            super().__init__(f"no {x}")
            self.x = x

    offset = 100

    def shift(point):
        print("shifting", point.x)
        if point.x == 3:
            raise Odd(point.x)
        return Point(point.x + offset)

    def check(n):
        if n % 77 == 3:
            raise ValueError(n)
        return n * 2

    def once(folder, n):
        print(n, flush=True)
        flag = Path(folder, str(n))
        if n % 2 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), 9)
        return n, os.getpid()

    def until(condition):
        limit = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < limit
            time.sleep(0.01)

    def gather(found):
        values, errors = [], []
        while True:
            try:
                values.append(next(found))
            except StopIteration:
                return values, errors
            except (LookupError, ValueError) as error:
                errors.append(error)

    if __name__ == "__main__":
"""


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path, PROGRAM)


def test_values_errors_and_classes_of_the_program_come_back(program):
    program.run("""
        found = map(shift, [Point(n) for n in range(6)], gpus=0, max_workers=2)
        values, (error,) = gather(found)
        assert values == [Point(n + 100) for n in (0, 1, 2, 4, 5)], values
        assert error.x == 3 and "raise Odd(point.x)" in str(error)
        assert sorted(found.results()) == [0, 1, 2, 4, 5]
        assert isinstance(found.failed[3], Odd) and len(found) == 6
        assert "1 of 6 calls failed" in str(found.failed[3]), str(found.failed[3])
        # What a call prints is in its worker's log, and told apart there.
        logs = [found.log(n) for n in range(6)]
        assert [one.split()[:2] for one in logs] == [["shifting", str(n)] for n in range(6)]
        assert ["raise Odd(point.x)" in one for one in logs] == [n == 3 for n in range(6)]
        try:
            found.log(6)
        except SubmarineError as error:
            assert "no call 6" in str(error)
        assert found.job.result().results()[4] == Point(104)
        assert open_job(found.job.id).result().wait().results()[5] == Point(105)
        # One entry in the list: the workers are the map's.
        assert [job.id for job in list_jobs()] == [found.job.id]
        assert found.job.status().state.value == "succeeded"
    """)


def test_what_failed_runs_again_and_nothing_else(program, tmp_path):
    folder = tmp_path / "flags"
    folder.mkdir()
    program.run(
        f"""
        found = map(once, [{str(folder)!r}] * 7, range(7), gpus=0, max_workers=2, give_up=None)
        found.wait()
        assert sorted(found.failed) == [1, 3, 5] and "signal 9" in str(found.failed[1])
        # Each to where the next one begins, though those that died have told no end.
        assert [found.log(n).strip() for n in range(7)] == list("0123456")
        before = found.results()
        again = found.retry_failed().wait()
        assert [value[0] for value in again] == [1, 3, 5] and not again.failed
        assert {{**again.results(), **before}} == again.results()
        assert [value[0] for value in again.results().values()] == list(range(7))
        for one in (again, found, open_map(found.job.id)):
            try:
                one.retry_failed()
            except SubmarineError as error:
                print(error)
    """,
        "no call has failed",
    )


def test_what_failed_runs_again_while_the_others_run_and_each_succeeds_once(program, tmp_path):
    folder = tmp_path / "flags"
    folder.mkdir()
    program.run(f"""
        folder = {str(folder)!r}

        def held(n):
            with open(Path(folder, "ran"), "a") as ran:
                ran.write(f"{{n}}\\n")
            until(Path(folder, f"go-{{n}}").exists)
            if n < 3 and not Path(folder, f"mended-{{n}}").exists():
                raise Odd(n)
            return n

        for n in range(1, 3):
            Path(folder, f"go-{{n}}").touch()
        found = map(held, range(5), gpus=0, max_workers=5, give_up=None, name="held")
        until(lambda: len(found.failed) == 2)
        Path(folder, "mended-1").touch()
        again = found.retry_failed()  # 1, which succeeds now, and 2, which does not
        again.wait()
        assert list(again.results()) == [1] and list(again.failed) == [2]
        Path(folder, "go-0").touch()
        until(lambda: sorted(again.failed) == [0, 2])  # what has failed since is told, too
        for n in (0, 2):
            Path(folder, f"mended-{{n}}").touch()
        assert not found.job.done()
        third = open_map(again.job.id).retry_failed()
        try:
            found.retry_failed()
        except SubmarineError as error:
            assert "not tried again" in str(error)
        for n in (3, 4):
            Path(folder, f"go-{{n}}").touch()
        found.wait(), third.wait()
        assert third.results() == {{n: n for n in range(5)}} and not third.failed
        assert open_map("held").results() == third.results()
        ran = Path(folder, "ran").read_text().split()
        assert sorted(ran) == list("00112223" "4"), ran
    """)


@pytest.mark.long
def test_maps_of_the_same_second_follow_one_another_whatever_their_names(program, tmp_path):
    folder = tmp_path / "flags"
    folder.mkdir()
    program.run(
        f"""
        from submarine_engine.pool import folder as folders

        names = [f"20260101-000000-{{letter * 5}}" for letter in "mzabc"]
        folders.new_job_id = lambda: names.pop(0)

        def mended(n):
            with open(Path({str(folder)!r}, "ran"), "a") as ran:
                ran.write(f"{{n}}\\n")
            if not Path({str(folder)!r}, "mended").exists():
                raise Odd(n)
            return n

        found = map(mended, range(2), gpus=0, max_workers=1, give_up=None)
        found.wait()
        again = found.retry_failed().wait()
        Path({str(folder)!r}, "mended").touch()
        third = again.retry_failed().wait()
        assert third.results() == {{0: 0, 1: 1}}
        try:
            found.retry_failed()
        except SubmarineError as error:
            print(error)
        ran = Path({str(folder)!r}, "ran").read_text().split()
        assert sorted(ran) == list("000111"), ran
    """,
        "not tried again",
    )


def test_a_call_that_fails_is_tried_again_so_often(program, tmp_path):
    folder = tmp_path / "flags"
    folder.mkdir()
    program.run(f"""
        found = map(once, [{str(folder)!r}] * 4, range(4), gpus=0, batch=4, retries=1)
        assert [value[0] for value in found] == [0, 1, 2, 3]
    """)


def test_a_batch_runs_in_one_process_and_without_forks_all_do(program, tmp_path):
    program.run(f"""
        folder = {str(tmp_path)!r}
        evens = range(0, 16, 2)
        pids = [pid for _, pid in map(once, [folder] * 8, evens, gpus=0, batch=4, max_workers=1)]
        assert len(set(pids)) == 2 and len(set(pids[:4])) == 1, pids
        one = {{"gpus": 0, "max_workers": 1}}
        pids = [pid for _, pid in map(once, [folder] * 8, evens, forks=False, **one)]
        assert len(set(pids)) == 1, pids
        pids = [pid for _, pid in map(once, [folder] * 8, evens, gpus=0, max_workers=1)]
        assert len(set(pids)) == 8, pids
    """)


def test_values_come_as_they_are_there(program, tmp_path):
    program.run(f"""
        flag = Path({str(tmp_path / "flag")!r})

        def late(n):
            while n == 0 and not flag.exists():
                time.sleep(0.01)
            return n

        found = map(late, range(4), gpus=0, max_workers=2, ordered=False)
        first = [next(found) for _ in range(3)]
        assert 0 not in first and found.results() == {{n: n for n in (1, 2, 3)}}
        flag.touch()
        assert list(found) == [0]
    """)


def test_the_card_says_how_many_calls_there_are_and_the_name_is_the_map_s(program, tmp_path):
    program.run(f"""
        flag = Path({str(tmp_path / "flag")!r})

        def late(n):
            while n and not flag.exists():
                time.sleep(0.01)
            return n

        found = map(late, range(30), gpus=0, max_workers=1, name="counted")
        assert next(found) == 0
        until(lambda: found.job.status().tasks[0].message == "1 of 30 calls, 1 worker")
        assert open_job("counted").id == found.job.id  # its worker has that name, too
        again = open_map("counted")
        assert again.results() == {{0: 0}} and next(again) == 0
        flag.touch()
        assert open_job("counted").result().results() == {{n: n for n in range(30)}}
        assert again.wait().results() == {{n: n for n in range(30)}}

        flag.unlink()
        held = map(late, [0, 1], gpus=0, name="held")
        assert next(held) == 0
        assert open_map("held").cancel()
        held.job.wait()
        assert open_map("held").results()[0] == 0
        try:
            open_map(submit(late, 0, gpus=0).id)
        except SubmarineError as error:
            assert "is no map" in str(error)
    """)


def test_inputs_without_end_are_taken_as_calls_end(program):
    program.run("""
        taken = []

        def numbers():
            for n in itertools.count(1):
                taken.append(n)
                yield n * 77

        found = map(check, numbers(), gpus=0)
        assert found
        try:
            len(found)
        except TypeError as error:
            assert "generator" in str(error)
        values = list(itertools.islice(found, 150))
        assert values == [n * 154 for n in range(1, 151)]
        assert 150 <= len(taken) < 300, len(taken)
        assert found.cancel()
        assert found.job.wait().state.value == "cancelled"
    """)


def test_bad_input_is_named_before_anything_is_asked(program):
    program.run(
        """
        class Held:
            def __reduce__(self): raise TypeError("never")

        inputs = [*range(731), Held(), *range(268)]
        for arguments, options in (
            ((check, inputs), {}),
            ((check, [1]), {"batch": 0}),
            ((check, [1]), {"retries": -1}),
            ((check, [1]), {"give_up": 0}),
            ((check, [1]), {"max_gpus": 0, "gpus": 1}),
            ((check, [1]), {"workers": (1, 2)}),
            ((check,), {}),
            (("check", [1]), {}),
        ):
            try:
                map(*arguments, **{"gpus": 0, **options})
            except SubmarineError as error:
                print(type(error).__name__, error)
        try:
            map(chekc, [1])
        except NameError as error:
            print(error)
        assert not list_jobs()
    """,
        "input 731",
        "TypeError: never",
        "batch=0",
        "retries=-1",
        "give_up=0",
        "cannot change",
        "there are no inputs",
        "'check' is no function",
        "'chekc'",
    )


def test_a_worker_that_dies_at_import_ends_the_map_with_its_error(program):
    path = program.folder / "broken.py"
    path.write_text(
        "import os\nif 'SUBMARINE_TASK' in os.environ:\n    raise ImportError('half')\n"
    )
    program.run(
        """
        import broken

        def use(n): return broken, n

        found = map(use, range(100), gpus=0)
        try:
            next(found)
        except SubmarineError as error:
            print(error)
        assert found.job.wait().state.value == "failed"
    """,
        "no worker can begin",
        "half",
        "broken.py",
    )


def test_when_every_call_fails_it_stops_with_the_first_error(program):
    program.run(
        """
        found = map(check, [3] * 100, gpus=0, give_up=5)
        values, errors = [], []
        while True:
            try:
                values.append(next(found))
            except ValueError as error:
                errors.append(error)
            except SubmarineError as error:
                print(error)
                break
        assert not values and 5 <= len(found.failed) < 100
        assert all(isinstance(one, ValueError) for one in found.failed.values())
        try:
            found.wait()
        except ValueError as error:  # the first call's own, at its line
            assert "raise ValueError(n)" in str(error), error
            assert f".log({min(found.failed)})" in str(error), error
            assert f"{len(found.failed)} of 100 calls failed" in str(error), error
        else:
            raise AssertionError
        status = found.job.wait()
        assert "GivenUp" not in f"{status.reason} {found.job.exception(0)}", status
        assert "raise ValueError(n)" in status.reason, status
        assert (status.state.value, status.attempt) == ("failed", 1), status
        # What its last lines say, they say once.
        log = Path(os.environ["SUBMARINE_HOME"], "jobs", found.job.id, "tasks/worker-0/stdout")
        first = min(found.failed)
        assert log.read_text().count(f"call {first} (3)") == 1, log.read_text()
    """,
        "all of the first 5 calls failed",
        "ValueError: 3",
        "give_up=None",
    )


def test_no_input_is_no_map(program):
    program.run("""
        found = map(check, [], gpus=0)
        assert list(found) == [] and found.results() == {}
        assert found.wait().job.wait().state.value == "succeeded"
    """)


def test_short_calls_do_not_wait_behind_a_long_one(program, tmp_path):
    program.run(f"""
        flag = Path({str(tmp_path / "flag")!r})

        def uneven(n):
            if n == 150:
                until(flag.exists)
            return n

        found = map(uneven, range(200), gpus=0, max_workers=2, ordered=False)
        values = [next(found) for _ in range(199)]
        flag.touch()
        assert list(found) == [150] and sorted(values) == [n for n in range(200) if n != 150]
    """)


@pytest.mark.long
def test_a_webhook_is_told_of_a_map_once_and_of_none_of_its_workers(program):
    with receiver() as server:
        program.run(
            f"""
            found = map(check, range(3), gpus=0, max_workers=2, notify={server.url!r}, give_up=None)
            found.wait()
            noted = Path(os.environ["SUBMARINE_HOME"], "jobs", found.job.id, "notified.json")
            until(lambda: noted.exists() and '"sent"' in noted.read_text())
            """,
            SUBMARINE_NOTIFY_PRIVATE="true",
        )
        assert len({told["id"] for _, _, told in server.got}) == 1
        assert server.got[0][2]["name"] == "check"
