"""A local job of several tasks: one supervisor has them all, each with its own GPUs."""

from __future__ import annotations

import errno
import json
import os
import signal

import pytest
from submarine_engine.clusters.local import backend, launch
from submarine_engine.clusters.machine import process_stat
from submarine_engine.errors import ClusterError, ResourcesError
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.job import JobState, Resources, Role

from tests.jobs import processes_of, spec_of, until

from .conftest import open_files

BEGIN = "import os, sys, time; task = os.environ['SUBMARINE_TASK']; print(task, flush=True)\n"
SLEEP = BEGIN + "time.sleep(600)\n"


def roles(*, gpus=1, memory=None, **counts):
    """Return roles of so many tasks each; a parameter server has no GPU."""
    return tuple(
        Role(name=name, count=count, resources=Resources(gpus=gpus * (name != "ps"), memory=memory))
        for name, count in counts.items()
    )


def out(local, job_id, task):
    log = local.paths(job_id).task(task).stdout
    return log.read_text() if log.exists() else ""


def until_begun(local, job_id, *tasks):
    until(lambda: all(task in out(local, job_id, task) for task in tasks))


def held(local):
    return [gpu.id for gpu in local.cluster.gpus() if gpu.job_id]


def pids(local, job_id):
    """Return the process of each task, by its working folder's plan."""
    commands = processes_of(local.home)
    folders = {task.root.name: str(task.root) for task in map(local.paths(job_id).task, tasks_of)}
    return {
        task: pid
        for task, folder in folders.items()
        for pid, command in commands.items()
        if command.rstrip().endswith(folder)  # who measures the tasks has all of their folders
    }


tasks_of = ("worker-0", "worker-1", "ps-0")


@pytest.fixture(autouse=True)
def three_gpus(declare_gpus):
    declare_gpus(3)


def test_each_task_has_its_own_gpus_folder_and_threads(local):
    worker, ps = roles(worker=2, ps=1)
    ps = Role(name="ps", resources=Resources(gpus=0, vcores=1))
    names = "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "SUBMARINE_TASK_DIR"
    served = str(local.folder / "served")
    script = (
        f"import os, time\nprint([os.environ.get(name) for name in {names}], flush=True)\n"
        f"if os.environ['SUBMARINE_TASK'] == 'ps-0': open({served!r}, 'w').close()\n"
        f"while not os.path.exists({served!r}): time.sleep(0.02)\n"  # it ends with the workers
    )
    job_id = local.submit(script, roles=(worker, ps))
    status = local.follow_several(job_id)
    assert status.state is JobState.SUCCEEDED, status.reason
    shown = {task: out(local, job_id, task) for task in tasks_of}
    folders = {task: str(local.paths(job_id).task(task).root) for task in tasks_of}
    threads = os.environ.get("OMP_NUM_THREADS")
    assert shown == {
        "worker-0": f"{['0', threads, folders['worker-0']]}\n",
        "worker-1": f"{['1', threads, folders['worker-1']]}\n",
        "ps-0": f"{['', threads or '1', folders['ps-0']]}\n",
    }
    assert [task.gpus for task in status.tasks] == [("0",), ("1",), ()]
    assert len({task.container for task in status.tasks}) == 3
    assert all(task.released for task in status.tasks)


RANKS = """
import os, time
from pathlib import Path
from submarine_runtime import job
names = "CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"
names += "JAX_PROCESS_ID", "OMP_NUM_THREADS"
print([os.environ.get(name) for name in names], job.local_rank, job.local_world_size, flush=True)
flags = Path(os.environ["FLAGS"])
(flags / str(job.rank)).touch()
if job.rank == 2:
    while len(list(flags.iterdir())) < 3:  # whoever fails first ends all others
        time.sleep(0.02)
    raise ValueError("of the third GPU")
"""


def test_a_task_of_several_gpus_may_have_a_rank_for_each(local, tmp_path):
    flags = tmp_path / "flags"
    flags.mkdir()
    role = Role(resources=Resources(gpus=3, vcores=3))
    env = {"OMP_NUM_THREADS": "", "FLAGS": str(flags)}
    job_id = local.submit(RANKS, roles=(role,), ranks_per_task="gpu", env=env)
    status = local.follow_several(job_id)
    assert [task.gpus for task in status.tasks] == [("0",), ("1",), ("2",)]
    # Each rank sees its own GPU alone, as number 0: that is what LOCAL_RANK chooses by.
    for number, task in enumerate(("worker-0", "worker-1", "worker-2")):
        told = [str(number), str(number), "3", "0", "1", str(number), ""]
        assert out(local, job_id, task) == f"{told} {number} 3\n"
    assert status.failed_task == "worker-2"
    assert "of the third GPU" in status.reason


def test_a_rank_for_each_gpu_needs_all_of_them_at_once(local):
    role = Role(count=2, resources=Resources(gpus=2))
    with pytest.raises(ResourcesError, match="asks for 4 GPUs, its 4 tasks together"):
        local.submit("1", roles=(role,), ranks_per_task="gpu")


def test_a_gang_takes_all_its_gpus_or_none(local, tmp_path):
    flag, gate = tmp_path / "flag", tmp_path / "gate"
    wait = f"open({str(flag)!r}, 'w')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    first = local.submit(f"import os, time\n{wait}", gpus=2)
    local.until_running(first, flag)
    gang = local.submit("1", roles=roles(worker=2))
    assert local.state(gang) is JobState.QUEUED
    assert held(local) == ["0", "1"]
    gate.touch()
    assert local.follow_several(gang).state is JobState.SUCCEEDED


def test_more_than_the_machine_has_is_refused_in_words(local):
    words = "asks for 4 GPUs, its 4 tasks together, this machine has 3"
    with pytest.raises(ResourcesError, match=words) as caught:
        local.submit("1", roles=roles(worker=4))
    # What is asked for by --gpus is each task's.
    assert caught.value.fix.startswith("ask for fewer tasks, or fewer GPUs for each")


def test_a_cancel_ends_all_tasks(local):
    job_id = local.submit(SLEEP, roles=roles(worker=2, ps=1))
    until_begun(local, job_id, *tasks_of)
    local.cluster.cancel(job_id, "enough")
    status = local.follow_several(job_id)
    assert (status.state, status.reason) == (JobState.CANCELLED, "enough")
    assert {task.reason for task in status.tasks} == {"enough"}
    until(lambda: held(local) == [])


def test_a_task_that_was_killed_ends_the_others_and_is_the_reason(local):
    job_id = local.submit(SLEEP, roles=roles(worker=2, ps=1))
    until_begun(local, job_id, *tasks_of)
    os.kill(pids(local, job_id)["worker-1"], signal.SIGKILL)
    status = local.follow_several(job_id)
    assert status.state is JobState.FAILED
    assert "SIGKILL" in status.task("worker-1").reason
    assert status.reason.startswith("worker-1 on ")
    assert "SIGKILL" in status.reason
    assert {status.task(name).reason for name in ("worker-0", "ps-0")} == {status.reason}
    until(lambda: held(local) == [])


def test_nothing_outlives_a_supervisor_that_was_killed(local):
    job_id = local.submit(SLEEP, roles=roles(worker=2, ps=1))
    until_begun(local, job_id, *tasks_of)
    os.kill(local.supervisor(job_id), signal.SIGKILL)
    until(lambda: held(local) == [])
    until(lambda: not pids(local, job_id))
    status = local.follow_several(job_id)
    assert status.state is JobState.LOST
    assert all(task.released for task in status.tasks)


STRAY = (
    BEGIN
    + """
if task == 'worker-0':
    if os.fork() == 0:
        {hide}
        import subprocess
        code = "import os, time; open({flag!r}, 'w').write(str(os.getpid())); time.sleep(600)"
        subprocess.Popen([sys.executable, '-c', code], start_new_session=True)
        os._exit(0)
    while not (os.path.exists({flag!r}) and os.path.getsize({flag!r})): time.sleep(0.02)
    sys.exit()
while not os.path.exists({gate!r}): time.sleep(0.02)
"""
)


def lives(pid):
    seen = process_stat(pid)
    return seen is not None and seen.state not in "ZX"


@pytest.mark.parametrize("hidden", [False, True])
def test_what_a_task_leaves_behind_keeps_its_gpu_until_it_is_gone(local, tmp_path, hidden):
    flag, gate = tmp_path / "flag", tmp_path / "gate"
    hide = "os.environ.clear()" if hidden else "pass"
    script = STRAY.format(hide=hide, flag=str(flag), gate=str(gate))
    job_id = local.submit(script, roles=roles(worker=2))
    until_begun(local, job_id, "worker-0", "worker-1")
    stray = int(until(lambda: flag.exists() and flag.read_text()))
    if hidden:  # nobody knows whose it is, so it may as well be the one's that still runs
        until(lambda: held(local) == ["0", "1"])
        assert local.cluster.status(job_id).task("worker-0").released is None
        assert lives(stray)
    else:
        until(lambda: local.cluster.status(job_id).task("worker-0").released)
        assert held(local) == ["1"]
        assert not lives(stray)
    gate.touch()
    assert local.follow_several(job_id).state is JobState.SUCCEEDED
    assert not lives(stray)
    until(lambda: held(local) == [])


def test_each_task_has_the_memory_that_it_asked_for(local):
    big = BEGIN + "data = bytearray((300 << 20) if task == 'worker-1' else 0); time.sleep(600)"
    job_id = local.submit(big, roles=roles(worker=2, memory=200))
    status = local.follow_several(job_id)
    assert status.state is JobState.FAILED
    assert status.reason.endswith("of 200 MiB of memory asked for")


def test_a_task_that_cannot_be_started_is_one_that_failed(local):
    job_id = local.submit("1", roles=roles(worker=2))
    local.follow_several(job_id)
    paths, status = local.paths(job_id), local.cluster.status(job_id)
    own = {task.task: {"environment": {}} for task in status.tasks}
    (paths.root / "launch.json").write_text(json.dumps({"tasks": own}))
    processes = [backend.Process(task.task, task.container, None, []) for task in status.tasks]

    def fork_task(command, _environment, logs, _held):
        if command[-1].endswith("worker-1"):
            raise OSError(errno.EAGAIN, "no more processes")
        for descriptor in logs:
            os.close(descriptor)
        return 7

    starter = backend.Starter(paths, spec_of(roles=roles(worker=2)), fork_task)
    assert starter.start_first(processes)
    assert [(one.pid, one.exit_status) for one in processes] == [(7, None), (0, 127)]
    assert "no more processes" in paths.task("worker-1").stderr.read_text()
    assert not (paths.root / "launch.json").exists()
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(backend, "process_stat", lambda _: None)
        backend._sign(paths, [])  # nobody's session is taken for one of the job's
    assert json.loads(paths.lock.read_text())["session"] is None


@pytest.mark.parametrize("fails", ["dup", "fork"])
def test_what_cannot_be_started_beside_a_task_leaves_no_file_open(tmp_path, monkeypatch, fails):
    paths = JobPaths(tmp_path, new_job_id())
    paths.root.mkdir(parents=True)

    def fail(*_):
        raise OSError(errno.EAGAIN, "no more of them")

    starter = backend.Starter(paths, spec_of(), fail)
    before = open_files()
    if fails == "dup":
        monkeypatch.setattr(os, "dup", fail)
    with pytest.raises(ClusterError, match="no more of them"):
        starter.start_beside(backend.Process("worker-0", "abcde-1", None, [], pid=1))
    assert open_files() == before


def test_logs_of_which_one_cannot_be_opened_leave_none_open(tmp_path):
    task = JobPaths(tmp_path, new_job_id()).task("worker-0")
    task.stdout.parent.mkdir(parents=True)
    task.stderr.mkdir(parents=True)
    before = open_files()
    with pytest.raises(IsADirectoryError):
        launch.open_logs(task)
    assert open_files() == before


def test_a_supervisor_that_is_second_begins_nothing(local, tmp_path):
    """As where two granters have started one each."""
    job_id = local.submit("1", roles=roles(worker=2))
    local.follow_several(job_id)
    spec = spec_of(roles=roles(worker=2))
    assert not backend.Starter(local.paths(job_id), spec, pytest.fail).start_first(())
