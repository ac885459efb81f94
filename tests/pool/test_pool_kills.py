"""The controller of a pool killed with -9 at each of its steps: every call ends exactly once."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from submarine_engine.bundle import BuildOptions
from submarine_engine.bundle.build import build_call
from submarine_engine.clusters import locks
from submarine_engine.history import default_home, new_job_id
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.pool.calls import Call
from submarine_engine.pool.folder import PoolFolder
from submarine_engine.pool.inputs import Giver
from submarine_engine.pool.mapping import Mapped
from submarine_engine.records import children_of
from submarine_runtime.worker import serve

from tests.jobs import end_processes_of, until

KILLED = Path(__file__).with_name("killed.py")
SOURCE = """
import os

def check(n):
    if os.environ.get("RANK", "0") != "0":
        return None
    side = os.open(os.environ["SIDE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(side, f"{n}\\n".encode())
    if n % 77 == 3:
        raise ValueError(n)
    return n * 2
"""


class Run:
    """A pool of so many calls, and its controllers."""

    def __init__(self, folder, count, ranks=1, **told):
        self.side = folder / "side"
        self.count = count
        space = {}
        (folder / "checks.py").write_text(SOURCE)
        sys.path.insert(0, str(folder))
        try:
            exec("import checks", space)  # noqa: S102 - ours
            options = BuildOptions(root=folder)
            bundle = build_call(serve, (space["checks"].check,), {}, [], {}, options=options)
        finally:
            sys.path.remove(str(folder))
            sys.modules.pop("checks")
        spec = JobSpec(
            name="check",
            roles=(Role(count=ranks, resources=Resources(gpus=0)),),
            env={"SIDE": str(self.side)},
        )
        plan = {
            "source": "submarine_engine.pool.mapping:MapSource",
            "cluster": "local",
            "most": 2,
            "workdir": str(folder),
            **told,
        }
        self.folder = PoolFolder.new(default_home(), plan, spec, bundle)
        giver = Giver(self.folder)
        for n in range(count):
            giver.give(Call(n, pickle.dumps(((n,), {})), str(n)))
        giver.close()
        self.job = new_job_id()

    def control(self, *kill):
        """Run a controller; return its exit code."""
        command = [sys.executable, str(KILLED), self.folder.root.name, *kill]
        environment = {
            **os.environ,
            "SUBMARINE_JOB_ID": self.job,
            "PYTHONPATH": str(KILLED.parents[2]),
        }
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert ran.returncode in (0, -9), ran.stdout + ran.stderr
        return ran.returncode

    def lines(self):
        return [json.loads(line) for line in self.folder.calls.read_bytes().splitlines()]

    def look(self):
        """See that each call ran once, ended once, and that all is as if nobody was killed."""
        ends = [line for line in self.lines() if line["kind"] == "ended"]
        assert Counter(line["index"] for line in ends) == Counter(range(self.count))
        wrong = [n for n in range(self.count) if n % 77 == 3]
        found = Mapped(self.folder)
        assert found.results() == {n: n * 2 for n in range(self.count) if n not in wrong}
        assert list(found.failed) == wrong
        ran = Counter(map(int, self.side.read_text().split()))
        assert ran == Counter(range(self.count)), [n for n in ran if ran[n] != 1]
        assert [line["kind"] for line in self.lines()][-1] == "over"


@pytest.fixture
def home(monkeypatch):
    yield default_home()
    end_processes_of(default_home())


def rarely(*what):
    """Return a parameter that is left to `make test-long`."""
    return pytest.param(*what, marks=pytest.mark.long)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("step", "moment", "number"),
    [
        rarely("submit", "before", 1),
        ("submit", "after", 1),  # a worker that is on no record
        rarely("submit", "after", 2),
        rarely("journal worker", "after", 1),
        rarely("journal call", "half", 20),
        rarely("journal", "after", 20),  # the arguments are written, the line is not
        rarely("journal given", "before", 20),
        rarely("journal given", "half", 20),
        ("journal given", "after", 20),  # it is given, and the worker never hears of it
        ("frame call", "half", 20),
        rarely("frame call", "after", 20),
        rarely("journal began", "after", 20),
        ("journal ended", "before", 20),  # its value is written, the line is not
        rarely("journal ended", "half", 20),
        rarely("journal ended", "after", 20),
        rarely("journal ended", "after", 90),  # the last one
        rarely("frame end", "before", 1),
        rarely("journal over", "before", 1),
        rarely("journal over", "after", 1),
    ],
)
def test_a_controller_that_is_killed_is_taken_over(tmp_path, home, step, moment, number):
    run = Run(tmp_path, 90)
    assert run.control(step, moment, str(number)) == -9
    assert run.control() == 0
    run.look()


@pytest.mark.parametrize(
    ("step", "moment", "number"),
    [
        ("frame call", "after", 19),  # one rank is told, the other one not
        rarely("frame call", "half", 20),
        rarely("frame call", "after", 20),
        rarely("journal given", "after", 10),
        rarely("journal ended", "before", 10),
        rarely("frame end", "after", 1),
    ],
)
def test_a_controller_of_gangs_that_is_killed_is_taken_over(tmp_path, home, step, moment, number):
    run = Run(tmp_path, 20, ranks=2, most=1)
    assert run.control(step, moment, str(number)) == -9
    assert run.control() == 0
    run.look()


@pytest.mark.long
def test_a_thousand_calls_of_which_13_fail_and_controllers_are_killed(tmp_path, home):
    run = Run(tmp_path, 1000)
    kills = [
        ("journal given", "after", "150"),
        ("frame call", "half", "100"),
        ("journal ended", "before", "200"),
        ("journal began", "half", "150"),
        ("journal ended", "after", "200"),
    ]
    for kill in kills:
        assert run.control(*kill) == -9
    assert run.control() == 0
    run.look()
    assert len(Mapped(run.folder).failed) == 13


@pytest.mark.long
def test_two_controllers_do_not_run_one_pool(tmp_path, home):
    run = Run(tmp_path, 3)
    lock = locks.take(run.folder.lock)
    command = [sys.executable, str(KILLED), run.folder.root.name]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert "another job runs this pool already" in ran.stderr
    locks.drop(lock)
    assert run.control() == 0
    run.look()


KILLS_ITSELF = """
import os
from submarine_runtime import worker

def append(descriptor, data, plain=worker.append):
    told = f'"kind": "{os.environ["KIND"]}"'.encode() in data[:300].partition(b"\\n")[0]
    mark = os.environ["SIDE"] + ".killed"
    # What goes to the worker's own file, whoever writes it: a fork tells its parent by a pipe.
    if told and b"/returns" in os.readlink(f"/proc/self/fd/{descriptor}").encode():
        if not os.path.exists(mark) and (WORKER != os.getpid() or os.environ["KIND"] != "began"):
            open(mark, "w").close()
            sizes = {"before": 0, "half": len(data) // 2, "after": len(data)}
            plain(descriptor, bytes(data)[: sizes[os.environ["MOMENT"]]])
            os.kill(WORKER, 9)
            os.kill(os.getpid(), 9)
    plain(descriptor, data)

if "SUBMARINE_TASK_DIR" in os.environ:
    WORKER = os.getpid()
    worker.append = append
"""


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        rarely("ready", "before"),
        rarely("ready", "half"),
        rarely("ready", "after"),
        rarely("began", "before"),
        ("began", "half"),
        rarely("began", "after"),
        rarely("ended", "before"),
        ("ended", "half"),
        rarely("ended", "after"),
    ],
)
def test_a_worker_that_is_killed_at_a_word_costs_that_call_alone(
    tmp_path, home, monkeypatch, kind, moment
):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", KILLS_ITSELF + SOURCE)
    monkeypatch.setenv("KIND", kind)
    monkeypatch.setenv("MOMENT", moment)
    run = Run(tmp_path, 20, most=1)
    assert run.control() == 0
    assert Path(f"{run.side}.killed").exists()
    ends = [line for line in run.lines() if line["kind"] == "ended"]
    assert Counter(line["index"] for line in ends) == Counter(range(20))
    assert Mapped(run.folder).results() == {n: n * 2 for n in range(20) if n != 3}
    ran = Counter(map(int, run.side.read_text().split()))
    # It ran, and its worker was gone before it could say so: then alone it runs once more.
    again = [n for n in ran if ran[n] != 1]
    assert again == ([0] if (kind, moment) in (("ended", "before"), ("ended", "half")) else [])
    assert len(children_of(home, run.job)) == 2


def test_a_worker_that_is_killed_loses_the_call_that_ran_and_no_other(tmp_path, home, monkeypatch):
    source = SOURCE.replace(
        "    if n % 77",
        "    if n == 7 and not os.path.exists(os.environ['SIDE'] + '.killed'):\n"
        "        open(os.environ['SIDE'] + '.killed', 'w').close()\n"
        "        os.kill(os.getppid(), 9)\n"
        "        os.kill(os.getpid(), 9)\n"
        "    if n % 77",
    )
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", source)
    run = Run(tmp_path, 20, most=1)
    assert run.control() == 0
    ran = Counter(map(int, run.side.read_text().split()))
    assert ran == Counter({**dict.fromkeys(range(20), 1), 7: 2})
    tried = [line for line in run.lines() if line["kind"] == "tried"]
    assert [(line["index"], line["outcome"]) for line in tried] == [(7, "lost")]
    assert len(children_of(home, run.job)) == 2
    until(lambda: len(Mapped(run.folder).results()) == 19)
