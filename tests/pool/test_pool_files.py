"""A pool's files that were cut off or damaged: said in words, and never waited for."""

import pytest

from tests.pool.programs import Program

PROGRAM = """
    from submarine_engine import map
    from submarine_engine.errors import JobLostError, ResultError

    def double(n):
        return n * 2

    if __name__ == "__main__":
        found = map(double, range(3), gpus=0, max_workers=1, ordered=True).wait()
        pool = found._folder.root
"""


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path, PROGRAM)


def test_values_that_are_cut_off_cost_their_calls_alone(program):
    program.run("""
        path = pool / "values"
        path.write_bytes(path.read_bytes()[:-3])
        found = found.job.result()
        assert found.results() == {0: 0, 1: 2}
        assert [next(found), next(found)] == [0, 2]
        try:
            next(found)
        except JobLostError as error:
            assert "call 2 (2) was lost" in str(error) and "is gone" in str(error), error
        else:
            raise AssertionError
        assert list(found) == []
    """)


def test_a_record_that_is_damaged_is_said_each_time(program):
    program.run("""
        path = pool / "calls.jsonl"
        told = path.read_bytes()
        path.write_bytes(told[:50] + bytes(3) + told[53:])
        found = found.job.result()
        for ask in (found.results, lambda: next(found), lambda: found.failed):
            try:
                ask()
            except ResultError as error:
                assert "is damaged" in str(error) and "calls.jsonl" in str(error), error
            else:
                raise AssertionError
        path.write_bytes(told)
        assert list(found) == [0, 2, 4]
    """)
