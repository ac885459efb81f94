"""Imports done ahead: the next job like the last is forked, and is as a fresh one in all else."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.clusters.local import zygotes
from submarine_engine.clusters.local.backend import RUNTIME
from submarine_engine.clusters.machine import process_stat
from submarine_engine.job import JobState, Resources, Role
from submarine_runtime import zygote

from tests.jobs import LIMIT, bundle_of, processes_of, spec_of, until

from .conftest import Local

# Counts as heavy, whatever it imports.
HEAVY = "import submarine_runtime.imported_modules as imported; imported.HEAVY = 0\n"
WARM = HEAVY + "import decimal\n"
IS_FORKED = "import sys; print('decimal' in sys.modules, flush=True)\n"
AGAIN = (
    IS_FORKED
    + """
import os
names = "SUBMARINE_ATTEMPT", "SUBMARINE_JOB_ID", "CUDA_VISIBLE_DEVICES", "MINE"
print([os.environ[name] for name in names])
if os.environ["SUBMARINE_ATTEMPT"] == "1":
    raise ValueError("once more")
"""
)
NOTEBOOK = "digits.ipynb"


class Ahead:
    """A local cluster, and what it has imported ahead."""

    def __init__(self, local):
        self.local = local

    @property
    def folders(self):
        return sorted(self.local.home.glob("hosts/*/zygotes/*"))

    def ready(self):
        """Return the folders of the zygotes that answer."""
        return [folder for folder in self.folders if (folder / "socket").exists()]

    def warm(self, script=WARM, count=1, **options):
        """Run a job, and wait until a zygote has its imports."""
        story = self.run(script, **options)
        assert story.state is JobState.SUCCEEDED, story
        until(lambda: len(self.ready()) >= count)
        return self.ready()[0]

    def submit(self, script, **options):
        return self.local.submit(script, **{"notebook": NOTEBOOK, **options})

    def run(self, script, **options):
        return self.local.follow(self.submit(script, **options))

    def is_forked(self, **options):
        story = self.run(IS_FORKED, **options)
        assert story.state is JobState.SUCCEEDED, story
        return story.out == "True\n"

    def pids(self):
        return [pid for pid, line in processes_of(self.local.home).items() if "--ahead" in line]


@pytest.fixture
def ahead(local, monkeypatch):
    monkeypatch.setenv("SUBMARINE_IMPORTS_AHEAD", "true")
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    # Else a zygote of a busy machine would be taken for one that is stopped.
    monkeypatch.setattr(zygotes, "_PATIENCE", LIMIT)
    here = Ahead(local)
    yield here
    # The supervisor of the last job may be about to start one.
    until(lambda: not [1 for line in processes_of(local.home).values() if "supervisor.py" in line])
    for folder in here.folders:
        zygotes.end(folder)
    for pid, line in processes_of(local.home).items():
        if "--ahead" in line or line.startswith("sleep"):  # one that still imports, or a child
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Give a function that installs a module where the jobs find it."""
    folder = tmp_path / "env" / "site-packages"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(folder))

    def install(source):
        path = folder / "lately.py"
        path.write_text(source)
        return path

    return install


def test_the_next_job_of_a_notebook_finds_its_imports_done(ahead):
    assert not ahead.is_forked()
    fresh = ahead.run(WARM)
    until(ahead.ready)
    forked = ahead.run(IS_FORKED)
    assert forked.out == "True\n"
    assert forked.kinds == fresh.kinds


def test_a_forked_job_that_fails_is_begun_again_by_itself(ahead):
    options = {"gpus": 1, "env": {"MINE": "kept"}}
    ahead.warm(**options)
    story = ahead.run(AGAIN, retries=1, **options)
    assert story.state is JobState.SUCCEEDED, story
    forked, first, again, second = story.out.splitlines()
    assert (forked, again) == ("True", "True")
    assert second == first.replace("'1'", "'2'", 1)
    assert "kept" in first


def test_a_job_with_nothing_heavy_leaves_no_process(ahead):
    ahead.run("import json")
    assert not ahead.folders
    assert not ahead.pids()


LIKE = """
import json, os, resource, signal, sys, threading, time
import __main__
def parent():
    with open(f"/proc/{os.getppid()}/cmdline") as file:  # empty while it becomes another program
        return "".join(file.read().split("\\0")[3:4]).rpartition("/")[2]
until = time.monotonic() + 180
while parent() != "supervisor.py" and time.monotonic() < until:
    time.sleep(0.01)  # the zygote's fork is about to become the supervisor
told = {
    "session": [os.getpid() == pid for pid in (os.getsid(0), os.getpgrp())],
    "parent": parent(),
    "name": open("/proc/self/comm").read(),
    "command": open("/proc/self/cmdline").read().rstrip("\\0").split("\\0"),
    "mark": [f"SUBMARINE_JOB_ID={os.environ['SUBMARINE_JOB_ID']}" in shown
             for shown in [open("/proc/self/environ").read().split("\\0")]],
    "driver": "SUBMARINE_DRIVER=1" in open("/proc/self/environ").read().split("\\0"),
    "environment": sorted(os.environ.items()),
    "path": sys.path, "argv": sys.argv, "flags": repr(sys.flags), "main": __main__.__file__,
    "cwd": os.getcwd(), "umask": os.umask(0), "nice": os.nice(0),
    "score": open("/proc/self/oom_score_adj").read(),
    "limits": [resource.getrlimit(n) for n in range(16)],
    "descriptors": sorted(set(os.listdir("/proc/self/fd")) - {"3"}),
    "streams": [os.readlink(f"/proc/self/fd/{n}") for n in range(3)],
    "streams' ways": [repr(s) for s in (sys.stdin, sys.stdout, sys.stderr)],
    "handlers": [repr(signal.getsignal(n)).partition(" at ")[0] for n in range(1, 32)],
    "masked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "threads": [len(os.listdir("/proc/self/task")), threading.current_thread().name],
    "waitable": os.system("exit 3") >> 8,
}
print(json.dumps(told))
"""


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_forked_task_is_as_a_fresh_one(ahead, gpus):
    ahead.warm(HEAVY + "import decimal, resource, signal, threading")
    told = []
    for isolation in ("fresh", "shared"):
        job_id = ahead.submit(LIKE, isolation=isolation, gpus=gpus)
        story = ahead.local.follow(job_id)
        assert story.state is JobState.SUCCEEDED, story.logs
        told.append(json.loads(story.out.replace(job_id, "JOB")))
    fresh, forked = told
    assert fresh["parent"] == "supervisor.py"
    assert fresh["session"] == [True, True]
    for name, value in fresh.items():
        if name != "descriptors":
            assert forked[name] == value, name
    # Numbers of the leases differ, how many there are does not.
    assert len(forked["descriptors"]) == len(fresh["descriptors"])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("script", "state", "code", "words"),
    [
        ("1 + 1", JobState.SUCCEEDED, 0, ""),
        ("raise ValueError('no')", JobState.FAILED, 1, "ValueError: no"),
        ("import sys; sys.exit(3)", JobState.FAILED, 3, "3"),
        ("import os; os._exit(4)", JobState.FAILED, 4, "4"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", JobState.FAILED, -11, "SEGV"),
        ("import os; os.fork(); print('both', flush=True)", JobState.SUCCEEDED, 0, ""),
    ],
)
def test_a_forked_task_ends_as_a_fresh_one(ahead, script, state, code, words):
    ahead.warm()
    before = ahead.pids()
    stories = [ahead.run(script, isolation=isolation) for isolation in ("fresh", "shared")]
    for story in stories:
        assert story.state is state, story
        assert story.status.tasks[0].exit_code == code
        assert words in story.status.reason
    assert stories[0].kinds == stories[1].kinds
    assert ahead.ready()  # nothing that ran on to its end was the zygote itself
    until(lambda: ahead.pids() == before)


def test_a_forked_task_is_interrupted_when_it_is_cancelled(ahead, tmp_path):
    ahead.warm()
    flag = tmp_path / "flag"
    job_id = ahead.submit(
        IS_FORKED + "import time\n"
        "try:\n"
        f"    open({str(flag)!r}, 'w'); time.sleep(600)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "    raise\n"
    )
    ahead.local.until_running(job_id, flag)
    ahead.local.cluster.cancel(job_id)
    story = ahead.local.follow(job_id)
    assert story.state is JobState.CANCELLED
    assert story.out == "True\ninterrupted\n"


SLEEP = IS_FORKED + "import os, time; open({flag!r}, 'w'); time.sleep(600)\n"


def test_the_task_dies_with_its_supervisor(ahead, tmp_path):
    ahead.warm()
    flag = tmp_path / "flag"
    # A child of a session of its own: only what the kernel shows of its environment tells of it.
    script = "import os\nif os.fork() == 0: os.setsid()\n" + SLEEP.format(flag=str(flag))
    job_id = ahead.submit(script, gpus=2)
    ahead.local.until_running(job_id, flag)
    os.kill(ahead.local.supervisor(job_id), signal.SIGKILL)
    until(lambda: ahead.local.state(job_id) is JobState.LOST)
    until(lambda: all(gpu.job_id is None for gpu in ahead.local.cluster.gpus()))
    until(lambda: list(processes_of(ahead.local.home)) == ahead.pids())
    assert ahead.is_forked()  # the zygote has nothing to do with it


def test_a_job_survives_its_zygote(ahead, tmp_path):
    ahead.warm()
    (pid,) = ahead.pids()
    gate = tmp_path / "gate"
    job_id = ahead.submit(
        IS_FORKED + f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n",
        gpus=1,
    )
    ahead.local.until_running(job_id)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not ahead.pids())
    assert not ahead.is_forked()  # a socket where nobody listens
    gate.touch()
    story = ahead.local.follow(job_id)
    assert story.state is JobState.SUCCEEDED
    assert story.out == "True\n"


def test_a_zygote_that_is_stopped_is_not_waited_for(ahead, monkeypatch):
    ahead.warm()
    (pid,) = ahead.pids()
    os.kill(pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as hasty:
            hasty.setattr(zygotes, "_PATIENCE", 0.5)
            assert not ahead.is_forked()
    finally:
        os.kill(pid, signal.SIGCONT)
    # What it reads when it goes on is a question that was taken back.
    assert ahead.is_forked()
    jobs = list((ahead.local.home / "jobs").iterdir())
    assert len(jobs) == 3


def test_the_gpus_of_a_forked_job_fall_free(ahead):
    ahead.warm()
    script = IS_FORKED + "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    story = ahead.run(script, gpus=2)
    assert story.out == "True\n0,1\n"
    until(lambda: all(gpu.job_id is None for gpu in ahead.local.cluster.gpus()))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "options",
    [
        {"isolation": "fresh"},
        {"env": {"OMP_NUM_THREADS": "1"}},
        {"vcores": 1},
        {"notebook": "other.ipynb"},
        {"notebook": None},
        {"workdir": Path("/")},
    ],
)
def test_a_job_that_differs_gets_a_fresh_process(ahead, options):
    ahead.warm()
    assert not ahead.is_forked(**options)
    assert ahead.is_forked()


def test_so_does_one_that_is_started_from_other_limits(ahead, monkeypatch):
    ahead.warm()
    mask = os.umask(0o027)
    try:
        assert not ahead.is_forked()
    finally:
        os.umask(mask)
    assert ahead.is_forked()


def test_so_does_a_job_of_another_home(ahead, tmp_path):
    ahead.warm()
    other = Ahead(Local(tmp_path / "other"))
    other.local.folder.mkdir()
    assert not other.is_forked(workdir=tmp_path)


def test_so_does_a_job_whose_own_file_hides_a_module(ahead):
    ahead.warm()
    spec = spec_of(notebook=NOTEBOOK)
    bundle = bundle_of("import decimal; print(decimal.MINE)", **{"decimal.py": "MINE = 1\n"})
    job_id = ahead.local.cluster.submit(spec, bundle, workdir=ahead.local.folder)
    assert ahead.local.follow(job_id).out == "1\n"


def test_it_can_be_asked_for_and_turned_off(ahead, monkeypatch):
    monkeypatch.setenv("SUBMARINE_IMPORTS_AHEAD", "false")
    ahead.run(WARM)
    assert not ahead.folders
    ahead.warm(isolation="shared", notebook=None)
    assert ahead.is_forked(isolation="shared", notebook=None)


def test_a_launch_command_has_nothing_imported_ahead(ahead):
    story = ahead.run("", command="echo on", isolation="shared")
    assert story.out == "on\n"
    assert not ahead.folders


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["write", "remove", "install"])
def test_it_ends_when_a_library_changes(ahead, library, how):
    path = library("VERSION = 1\n")
    ahead.warm(HEAVY + "import decimal, lately")
    script = IS_FORKED + "import lately; print(lately.VERSION)"
    assert ahead.run(script).out == "True\n1\n"
    if how == "write":
        path.write_text("VERSION = 2 \n")
        assert ahead.run(script).out == "False\n2\n"
    elif how == "remove":
        path.unlink()
        assert ahead.run(script).state is JobState.FAILED
    else:
        path.with_name("another-1.0.dist-info").mkdir()
    until(lambda: not ahead.pids())


def test_it_ends_when_it_is_idle(ahead, monkeypatch):
    monkeypatch.setenv("SUBMARINE_IMPORTS_IDLE", "1")
    ahead.run(WARM)
    begun = "hosts/*/zygotes/*/lock"
    until(lambda: list(ahead.local.home.glob(begun)))
    until(lambda: not ahead.pids())
    assert not ahead.ready()
    assert not (ahead.folders[0] / "unfit").exists()


def test_it_ends_when_its_folder_goes(ahead):
    folder = ahead.warm()
    (folder / "socket").unlink()
    until(lambda: not ahead.pids())


def by_hand(folder, **wanted):
    """Start a zygote as `zygotes.prepare` does."""
    folder.mkdir(parents=True, mode=0o700)
    head = {"names": ["decimal"], "workdir": "/", "idle": 600, "room": 0}
    (folder / "wanted.json").write_text(json.dumps({**head, **wanted}))
    environment = {**os.environ, "SUBMARINE_DRIVER": "1", "SUBMARINE_ZYGOTE": " " * 64}
    command = [sys.executable, "-u", RUNTIME, "--ahead", folder, " " * 256]
    return subprocess.Popen(command, env=environment, start_new_session=True)


def test_it_ends_when_memory_is_low(tmp_path):
    with by_hand(tmp_path / "zygote", room=1 << 60) as process:
        assert process.wait(180) == 0
    assert not (tmp_path / "zygote" / "socket").exists()


def test_there_is_one_for_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(zygotes, "_PATIENCE", LIMIT)
    folder = tmp_path / "zygote"
    first = by_hand(folder)
    try:
        until((folder / "socket").exists)
        command = [sys.executable, "-u", RUNTIME, "--ahead", folder]
        assert subprocess.call(command, timeout=180) == 0
        assert first.poll() is None
    finally:
        assert zygotes.end(folder)
        assert first.wait(180) == 0


def test_there_are_two_at_most(ahead):
    for number in range(4):
        named = f"{number}.ipynb"
        ahead.warm(notebook=named, count=min(2, number + 1))
        until(lambda named=named: ahead.is_forked(notebook=named))  # the next one counts it then
        until(lambda: len(ahead.pids()) <= 2)


def test_more_imports_take_its_place(ahead):
    ahead.warm()
    before = ahead.pids()
    script = IS_FORKED + "print('asyncio' in sys.modules)"
    ahead.run(HEAVY + "import decimal, asyncio")
    # In this order: what is ready while the former one is there is that.
    until(lambda: not {*before} & {*ahead.pids()} and ahead.ready())
    assert ahead.run(script).out == "True\nTrue\n"
    # One that needs less keeps it, and so does one that needs hardly more.
    before = until(lambda: len(found := ahead.pids()) == 1 and found)
    ahead.run(WARM)
    ahead.run(HEAVY + "import wave")
    assert ahead.run(script).out == "True\nTrue\n"
    until(lambda: ahead.pids() == before)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import threading\nt = threading.Timer(600, int); t.daemon = True; t.start()", "threads"),
        ("import socket\nkept = socket.socket()", "holds socket"),
        ("import subprocess, time\nkept = subprocess.Popen(['sleep', '600'])", "started processes"),
        ("import mmap\nkept = mmap.mmap(-1, 4096)", "shares"),
        ("import os\nos.environ.get('SUBMARINE_TASK')", "has read SUBMARINE_TASK"),
        ("import tempfile\nkept = tempfile.TemporaryFile()", "open"),
    ],
)  # fmt: skip
def test_a_library_that_no_fork_may_share_is_imported_by_each_job(ahead, library, source, words):
    library(source)
    story = ahead.run(HEAVY + "import decimal, lately")
    assert story.state is JobState.SUCCEEDED
    noted = until(lambda: [f / "unfit" for f in ahead.folders if (f / "unfit").exists()])[0]
    assert words in until(noted.read_text)  # it is there before it is written
    until(lambda: not ahead.pids())
    assert not ahead.is_forked()
    # It is not tried again after each job.
    ahead.run(HEAVY + "import decimal, lately")
    assert not ahead.pids()


def test_what_has_looked_for_gpus_is_for_jobs_without(ahead, library):
    library("import os\nSEEN = os.environ['CUDA_VISIBLE_DEVICES']")
    ahead.warm(HEAVY + "import decimal, lately")
    assert ahead.is_forked()
    story = ahead.run(IS_FORKED + "import lately; print(lately.SEEN)", gpus=1)
    assert story.out == "False\n0\n"


@pytest.mark.parametrize("what", ["/usr/lib/libcuda.so.550.54", "/dev/nvidia0"])
def test_so_is_what_has_loaded_the_driver(monkeypatch, what):
    line = "7f29fd12b000-7f29fd132000 r-xp 00000000 fe:00 325737 "
    assert not zygote.has_driver()
    monkeypatch.setattr(zygote, "_mappings", lambda: [f"{line}/usr/lib/libm.so\n"])
    assert not zygote.has_driver()
    monkeypatch.setattr(zygote, "_mappings", lambda: [f"{line}{what}\n"])
    assert zygote.has_driver()


def test_a_library_that_cannot_be_imported_alone_is_left_to_the_job(ahead, library):
    path = library("")
    library(f"import pathlib\nif pathlib.Path({str(path)!r} + '.no').exists(): raise SystemExit(1)")
    path.with_name("lately.py.no").touch()
    script = HEAVY + "import decimal, sys, types\n"
    script += "try: import lately\nexcept SystemExit: pass\n"
    ahead.warm(script)
    assert ahead.is_forked()


SHOWN = (
    HEAVY
    + """
import sys
print("decimal" in sys.modules, "matplotlib" in sys.modules, "matplotlib.pyplot" in sys.modules)
import decimal
import matplotlib.pyplot as plt
from IPython.display import display
display({"text/plain": "shown"}, raw=True)
plt.plot([1, 2])
"""
)


def test_a_forked_task_shows_what_a_fresh_one_shows(ahead):
    inline = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    fresh = ahead.run(SHOWN, env=inline)
    assert fresh.state is JobState.SUCCEEDED, fresh
    until(ahead.ready)
    forked = ahead.run(SHOWN, env=inline)
    assert fresh.out.splitlines()[0] == "False False False"
    assert forked.out.splitlines()[0] == "True True False"
    shown = [
        [sorted(getattr(frame, "data", None) or {}) for frame in story.displays]
        for story in (fresh, forked)
    ]
    assert shown[0] == shown[1]
    assert len(shown[0]) > 1


def test_a_library_that_asks_whether_it_is_in_a_notebook_is_left_to_the_job(ahead, library):
    library("import decimal\nimport IPython\nSEEN = IPython.get_ipython() is not None")
    script = "import lately; print(lately.SEEN)\n"
    seen = ahead.run(HEAVY + script).out
    until(ahead.ready)
    assert ahead.run(IS_FORKED + script).out == f"True\n{seen}"


def test_a_package_that_is_left_to_the_job_is_tried_once(ahead, library, tmp_path):
    times = tmp_path / "times"
    package = library("").with_name("large")
    package.mkdir()
    for name in ("one", "two", "three"):
        (package / f"{name}.py").touch()
    asks = "import IPython\nSEEN = IPython.get_ipython() is not None\n"
    count = f"with open({str(times)!r}, 'a') as file: file.write('once ')\n"
    (package / "__init__.py").write_text(f"{count}from large import one, two, three\n{asks}")
    ahead.run(HEAVY + "import decimal, large.two")
    until(ahead.ready)
    assert times.read_text() == "once once "  # the job, and what is to be forked
    assert ahead.run(IS_FORKED + "import large.two").out == "True\n"


def test_a_library_that_imports_ipython_and_asks_it_nothing_is_imported_once(
    ahead, library, tmp_path
):
    times = tmp_path / "times"
    library(
        f"with open({str(times)!r}, 'a') as file: file.write('once ')\n"
        "try:\n    import IPython\nexcept ImportError:\n    IPython = None\n"
    )
    ahead.warm(HEAVY + "import decimal, lately")
    times.unlink()
    script = "import lately, IPython; print(lately.IPython.get_ipython is IPython.get_ipython)\n"
    assert ahead.run(IS_FORKED + script).out == "True\nTrue\n"
    assert not times.exists()


def test_one_that_takes_no_for_an_answer_is_not_forked(ahead, library):
    library("try:\n    from IPython import get_ipython\nexcept:\n    get_ipython = None\n")
    ahead.run(HEAVY + "import decimal, lately")
    noted = until(lambda: [f / "unfit" for f in ahead.folders if (f / "unfit").exists()])[0]
    assert "lately was imported without IPython" in until(noted.read_text)


def test_who_talks_nonsense_is_not_answered(ahead):
    folder = ahead.warm()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "socket").stat().st_mode & 0o777 == 0o600
    for data in (b"", b"\0", b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\2{}", b"\0\0\0\4nope"):
        with zygotes._connect(folder) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(16) == b""
    assert ahead.is_forked()


def test_a_folder_that_others_may_write_is_not_used(ahead):
    folder = ahead.warm()
    folder.chmod(0o770)
    assert not ahead.is_forked()
    folder.chmod(0o700)
    assert ahead.is_forked()


SEEDS = (
    HEAVY
    + """
import multiprocessing, random, tempfile, uuid
import numpy, sys
kept = "decimal" in sys.modules
import decimal
print(random.random(), numpy.random.random(), uuid.uuid4(), uuid.uuid1(),
      next(tempfile._get_candidate_names()), multiprocessing.current_process().authkey.hex())
print(kept)
"""
)


def test_forks_share_no_seeds(ahead):
    ahead.warm(SEEDS)
    first, second = (ahead.run(SEEDS).out.split() for _ in range(2))
    assert first.pop() == second.pop() == "True"
    assert len(first) == 6
    assert not set(first) & set(second)


TRAIN = """
import sys
print("sklearn" in sys.modules, "jax" in sys.modules, flush=True)
import jax
import numpy
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
digits = load_digits()
model = MLPClassifier((64,), random_state=0, max_iter=3).fit(digits.data, digits.target)
centers = KMeans(3, n_init=1, random_state=0).fit(digits.data).inertia_
large = numpy.ones((600, 600)) @ numpy.ones((600, 600))
grown = jax.jit(lambda x: x @ x)(jax.numpy.ones((64, 64))).sum()
print(model.loss_, centers, large.sum(), grown)
"""


# Of several tasks, and of attempts after the first.


def several(count=2, **options):
    return {"roles": (Role(count=count, resources=Resources(gpus=1)),), **options}


def said(local, job_id, count=2):
    """Return what each task of a job has printed, in the order of ranks."""
    status = local.follow_several(job_id)
    assert status.state is JobState.SUCCEEDED, status.reason
    files = [local.paths(job_id).task(f"worker-{rank}") for rank in range(count)]
    return [one.stdout.read_text() for one in files]


@pytest.fixture
def many(tmp_path, monkeypatch):
    """Install so many modules that they are worth a process; return a script that has them."""
    folder = tmp_path / "env" / "site-packages" / "many"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    for number in range(zygotes._MANY):
        (folder / f"m{number}.py").write_text("")
    (folder / "__init__.py").write_text(
        f"for number in range({zygotes._MANY}): __import__(f'many.m{{number}}')\n"
    )
    return "import sys; print('many' in sys.modules, flush=True); import many\n"


def attempts(count=2, before="", wait=""):
    """Return a script that fails in all its attempts but the last, after `wait`."""
    return (
        f"{before}\nimport os, time\nattempt = int(os.environ['SUBMARINE_ATTEMPT'])\n"
        "place = f'told-{attempt}-'\n"
        "open(place + os.environ.get('RANK', '0'), 'w').close()\n"
        "ranks = range(int(os.environ.get('WORLD_SIZE', '1')))\n"
        # Who fails first ends the others: each has told before.
        "while not all(os.path.exists(f'{place}{rank}') for rank in ranks): time.sleep(0.01)\n"
        f"if attempt < {count}:\n    {wait or 'pass'}\n    raise ValueError('once more')\n"
    )


# As if the imports had taken a minute: the next attempt waits for them about as long as that.
SLOWLY = "os.utime(os.environ['SUBMARINE_TASK_DIR'] + '/imports', (time.time() + 60,) * 2)"
DIES_ALONE = f"import time; {SLOWLY}; os.kill(os.getpid(), 9)"
# Rank 0 tells what is imported: none is ended before it has told all.
DIES = f"import time\n    if os.environ['RANK'] == '0': {DIES_ALONE}\n    time.sleep(600)"


def own_zygotes(local):
    return [pid for pid, line in processes_of(local.home).items() if "--ahead-of-job" in line]


def until_own_zygote(ahead, job_id):
    """Wait for a job's own zygote, which forks for a moment as it begins; return its process."""
    supervisor = ahead.local.supervisor(job_id)

    def its():
        stats = ((pid, process_stat(pid)) for pid in own_zygotes(ahead.local))
        return [pid for pid, stat in stats if stat and stat.parent == supervisor]

    return until(its)[0]


def test_each_of_several_tasks_finds_its_imports_done(ahead):
    ahead.warm()
    script = IS_FORKED + "import os; print(os.environ['RANK'], os.environ['CUDA_VISIBLE_DEVICES'])"
    job_id = ahead.submit(script, **several())
    assert said(ahead.local, job_id) == ["True\n0 0\n", "True\n1 1\n"]
    until(lambda: all(gpu.job_id is None for gpu in ahead.local.cluster.gpus()))


def test_tasks_of_a_job_leave_their_imports_to_the_next(ahead):
    assert said(ahead.local, ahead.submit(WARM, **several())) == ["", ""]
    until(ahead.ready)
    assert said(ahead.local, ahead.submit(IS_FORKED, **several())) == ["True\n", "True\n"]


@pytest.mark.parametrize("count", [1, 2])
def test_so_does_each_in_attempts_after_the_first(ahead, count):
    ahead.warm()
    job_id = ahead.submit(attempts(3, IS_FORKED), retries=2, **several(count))
    assert said(ahead.local, job_id, count) == ["True\nTrue\nTrue\n"] * count


@pytest.mark.parametrize(("count", "dies"), [(1, DIES_ALONE), (2, DIES)])
def test_what_the_first_attempt_imports_the_second_finds_done(ahead, many, count, dies):
    job_id = ahead.submit(attempts(2, many, dies), retries=1, **several(count))
    assert said(ahead.local, job_id, count) == ["False\nTrue\n"] * count
    until(lambda: not own_zygotes(ahead.local))


def test_it_is_imported_while_the_first_attempt_runs(ahead, many, tmp_path):
    gate = tmp_path / "gate"
    wait = (
        f"import time\n    if os.environ['RANK'] == '0': {SLOWLY}\n"
        f"    while not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    )
    job_id = ahead.submit(attempts(2, many, wait), retries=1, **several())
    pid = until_own_zygote(ahead, job_id)
    assert process_stat(pid).parent == ahead.local.supervisor(job_id)
    gate.touch()
    assert said(ahead.local, job_id) == ["False\nTrue\n"] * 2


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)]
)
def test_without_it_each_task_is_started_anew(ahead, many, tmp_path, number):
    gate = tmp_path / "gate"
    wait = f"import time\n    while not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    job_id = ahead.submit(attempts(2, many, wait), retries=1, **several())
    pid = until_own_zygote(ahead, job_id)
    os.kill(pid, number)
    gate.touch()
    assert all(text.startswith("False\n") for text in said(ahead.local, job_id))
    until(lambda: not own_zygotes(ahead.local))


def test_it_ends_with_the_supervisor(ahead, many, tmp_path):
    gate = tmp_path / "gate"
    wait = f"import time\n    while not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    job_id = ahead.submit(attempts(2, many, wait), retries=1, **several())
    until(lambda: own_zygotes(ahead.local))
    os.kill(ahead.local.supervisor(job_id), signal.SIGKILL)
    until(lambda: ahead.local.state(job_id) is JobState.LOST)
    until(lambda: not own_zygotes(ahead.local))


def test_a_module_of_the_users_own_is_imported_by_each_attempt(ahead, many, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.py").write_text("")
    os.environ["PYTHONPATH"] += f":{own}"  # `many` has it put back
    script = f"{many}print('mine' in sys.modules); import mine\n"
    job_id = ahead.submit(attempts(2, script, DIES), retries=1, **several())
    # Rank 1 may have been ended before it had told all of its first attempt.
    assert all(text.endswith("True\nFalse\n") for text in said(ahead.local, job_id))


def test_what_has_looked_for_its_rank_is_for_tasks_alone(ahead, library):
    library("import os\nSEEN = os.environ.get('RANK')")
    ahead.warm(HEAVY + "import decimal, lately")
    assert ahead.is_forked()
    script = IS_FORKED + "import lately; print(lately.SEEN)"
    job_id = ahead.submit(script, **several())
    assert said(ahead.local, job_id) == ["False\n0\n", "False\n1\n"]


def test_a_task_whose_environment_differs_is_started_anew(ahead):
    ahead.warm()
    roles = (
        Role(resources=Resources(gpus=1)),
        Role(name="ps", resources=Resources(gpus=0, vcores=1)),
    )
    threads = (
        IS_FORKED + "import os, time; print(os.environ.get('OMP_NUM_THREADS'), flush=True)\n"
        "open(f\"told by {os.environ['SUBMARINE_TASK']}\", 'w').close()\n"
        "while not os.path.exists('told by ps-0'): time.sleep(0.01)\n"  # it ends with the worker
    )
    job_id = ahead.submit(threads, roles=roles)
    status = ahead.local.follow_several(job_id)
    assert status.state is JobState.SUCCEEDED, status.reason
    text = [ahead.local.paths(job_id).task(t).stdout.read_text() for t in ("worker-0", "ps-0")]
    assert text[1] == "False\n1\n"


def test_a_forked_task_of_several_is_as_a_fresh_one(ahead):
    ahead.warm(HEAVY + "import decimal, resource, signal, threading")
    told = []
    for isolation in ("fresh", "shared"):
        job_id = ahead.submit(LIKE, **several(options={"isolation": isolation}))
        text = said(ahead.local, job_id)[1]
        told.append(json.loads(text.replace(job_id, "JOB")))
    fresh, forked = told
    assert fresh["parent"] == "supervisor.py"
    for name in fresh.keys() - {"descriptors", "environment"}:
        assert forked[name] == fresh[name], name
    assert len(forked["descriptors"]) == len(fresh["descriptors"])
    ports = ("MASTER_PORT", "PET_MASTER_PORT", "JAX_COORDINATOR_ADDRESS", "TF_CONFIG")
    environments = [{k: v for k, v in one["environment"] if k not in ports} for one in told]
    assert environments[0] == environments[1]


@pytest.mark.long
@pytest.mark.service  # imports jax and scikit-learn four times
def test_libraries_that_have_threads_compute_in_forks_as_in_fresh_processes(ahead):
    fresh = ahead.run(TRAIN)
    until(ahead.ready)
    assert fresh.out.startswith("False False\n")
    for _ in range(2):
        forked = ahead.run(TRAIN)
        assert forked.state is JobState.SUCCEEDED
        assert forked.out == fresh.out.replace("False False", "True True")


def test_what_it_takes_is_said_in_the_settings(monkeypatch):
    from submarine_engine.config import load_config
    from submarine_engine.declared import check_options
    from submarine_engine.errors import CommandError, ConfigError
    from submarine_engine.settings import format_value

    assert format_value("imports_ahead", load_config().value("imports_ahead")) == "false"
    monkeypatch.setenv("SUBMARINE_IMPORTS_AHEAD", "perhaps")
    with pytest.raises(ConfigError, match="true or false"):
        load_config()
    with pytest.raises(CommandError, match="no isolation 'none'"):
        check_options(spec_of(isolation="none"), "local")


def test_memory_is_told():
    free, total = zygotes.available()
    assert 0 < free < total
