"""`Executor` behaves as those of `concurrent.futures`, by real jobs."""

import threading

import pytest
from submarine_engine import Executor

from tests.pool.programs import Program

PROGRAM = """
    import concurrent.futures, functools, os, sys, time
    from concurrent.futures import as_completed, wait
    from pathlib import Path

    from submarine_engine import Executor, list_jobs

    class Point:
        def __init__(self, x): self.x = x
        def doubled(self, more=0): return self.x * 2 + more

    class Odd(LookupError):
        pass

    def half(n, by=2):
        if n % 2:
            raise Odd(f"{n} is odd")
        return n // by

    def hold(flag):
        Path(flag + ".begun").touch()
        while not Path(flag).exists():
            time.sleep(0.01)
        return flag

    def until(condition):
        limit = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < limit
            time.sleep(0.01)

    if __name__ == "__main__":
"""


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path, PROGRAM)


def test_submit_wait_as_completed_and_map(program):
    program.run(
        """
        with Executor(gpus=0, max_workers=2) as ex:
            futures = [ex.submit(half, n) for n in range(4)]
            done, left = wait(futures)
            assert len(done) == 4 and not left
            assert sorted(f.result() for f in as_completed(futures) if not f.exception()) == [0, 1]
            assert isinstance(futures[1].exception(), Odd), futures[1].exception()
            assert "raise Odd" in str(futures[3].exception())
            assert "raise Odd" in futures[3].log() and futures[0].log() == ""
            assert futures[0].job.id
            assert list(ex.map(half, [2, 4, 6], [2, 4, 3], chunksize=2)) == [1, 1, 2]
            assert ex.submit(half, 9, by=3).exception() is not None
            called = []
            ex.submit(half, 8).add_done_callback(lambda f: called.append(f.result()))
        assert called == [4], called
        try:
            ex.submit(half, 2)
        except RuntimeError as error:
            print(error)
    """,
        "cannot schedule new futures after shutdown",
    )


def test_methods_partials_lambdas_and_builtins(program):
    program.run("""
        with Executor(1, gpus=0) as ex:
            offset = 5
            asked = [
                ex.submit(functools.partial(half, by=4), 8),
                ex.submit(lambda n: Point(n + offset), 1),
                ex.submit(Point(3).doubled, more=1),
                ex.submit(pow, 2, 5),
            ]
            a, b, c, d = [one.result(120) for one in asked]
            assert (a, type(b), b.x, c, d) == (2, Point, 6, 7, 32), (a, b, c, d)
            assert "calls" in [job.name for job in list_jobs()]  # what has no name of its own
    """)


def test_calls_are_cancelled(program, tmp_path):
    program.run(f"""
        flag = {str(tmp_path / "flag")!r}
        with Executor(1, gpus=0) as ex:
            first = ex.submit(hold, flag)
            until(first.running)
            second = ex.submit(hold, flag)
            assert second.cancel() and second.cancelled()
            assert not first.cancel() and not first.done()
            assert first.cancel(running=True)
            try:
                first.result(120)
            except concurrent.futures.CancelledError:
                pass
            else:
                raise AssertionError
            assert first.cancelled()
            third = ex.submit(hold, flag)
            until(third.running)
            fourth = ex.submit(hold, flag)
            try:
                fourth.result(0.01)
            except concurrent.futures.TimeoutError:
                pass
            ex.shutdown(wait=False, cancel_futures=True)
            assert fourth.cancelled() and not third.done()
            Path(flag).touch()
            assert third.result(120) == flag
    """)


def test_the_death_of_a_call_is_its_own(program):
    program.run(
        """
        with Executor(1, gpus=0) as ex:
            dead = ex.submit(os._exit, 3)
            alive = ex.submit(half, 2)
            assert alive.result(120) == 1
            try:
                dead.result(120)
            except Exception as error:
                print(error)
    """,
        "ended its process with code 3",
    )


def test_bad_input_is_refused_before_anything_is_asked(program):
    program.run(
        """
        from submarine_engine import list_jobs
        none = {"max_gpus": 1, "gpus": 0}
        for wrong in ({"retries": -1}, {"max_workers": 0}, none, {"gpus": 10**6}):
            try:
                with Executor(**{"gpus": 0, **wrong}) as ex:
                    ex.submit(half, 2)
            except Exception as error:
                print(type(error).__name__, error)
        with Executor(gpus=0) as ex:
            for function, arguments in ((3, ()), (half, (open(__file__),))):
                try:
                    ex.submit(function, *arguments)
                except Exception as error:
                    print(type(error).__name__, error)
    """,
        "retries=-1",
        "max_workers=0",
        "max_gpus is for calls with GPUs",
        "ResourcesError",
        "3 is no function",
        "an open file",
    )


def test_a_call_of_the_last_moment_is_followed_to_its_end():
    """It comes while those before it are looked at, and then no other does."""
    executor = object.__new__(Executor)
    executor._lock, executor._more = threading.Lock(), threading.Event()
    executor._shut, executor._calls = False, {}

    class Calls:
        polled = 0

        def __init__(self, ends):
            self.ends = ends

        def poll(self):
            self.polled += 1
            return False

        @property
        def open(self):
            self.ends(self)
            return False

    def last_moment(_):
        executor._calls.setdefault("last", Calls(lambda _: None))
        executor._shut = True
        executor._more.set()

    executor._calls["first"] = Calls(last_moment)
    executor._follow()
    assert executor._calls["last"].polled
