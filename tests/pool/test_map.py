"""`map` of a plain program, on the real local cluster: each call by a worker that stays."""

import json
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import sys

    from submarine_engine import map, open_job

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

    if __name__ == "__main__":
"""


@pytest.fixture
def program(tmp_path):
    """Run a program that ends in `body`; return what it printed."""

    def run(body, *, program=PROGRAM, code=0):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(program) + textwrap.indent(textwrap.dedent(body), "    "))
        command = [sys.executable, "-W", "error", str(path)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout if code == 0 else ran.stderr

    return run


def test_values_errors_and_classes_of_the_program_come_back(program):
    told = program("""
        import json
        found = map(shift, [Point(n) for n in range(6)], gpus=0, max_workers=2)
        values, errors = [], []
        while True:
            try:
                values.append(next(found))
            except StopIteration:
                break
            except Odd as error:
                errors.append([error.x, error.frames[-1].line, str(error)])
        assert values == [Point(n + 100) for n in (0, 1, 2, 4, 5)], values
        assert sorted(found.results()) == [0, 1, 2, 4, 5]
        assert isinstance(found.failed[3], Odd)
        job = found.job
        assert job.result().results()[4] == Point(104)
        print(json.dumps([errors, job.status().state.value, job.id]))
    """)
    (error,), state, _ = json.loads(told)
    assert error[0] == 3
    assert "raise Odd(point.x)" in error[2]
    assert state == "succeeded"
