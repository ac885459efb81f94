"""Jobs on a real Slurm: what `sbatch` refuses, what `scancel` ends, what a killed keeper leaves."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.cli import main
from submarine_engine.clusters.slurm.request import REASONS
from submarine_engine.clusters.slurm.sbatch import job_name
from submarine_engine.errors import ResourcesError, SubmissionError
from submarine_engine.history import JobPaths
from submarine_engine.installer.slurm import SlurmCluster
from submarine_engine.job import JobState, Resources, Role
from submarine_engine.records import list_jobs
from submarine_engine.testing.jobs import end_processes_of, until
from submarine_engine.testing.place import HOLD

from tests.slurm.conftest import PATIENCE, SlurmPlace, names_of, scontrol


def test_a_job_is_one_job_of_slurms_and_leaves_nothing(place):
    told = "(os.environ['SLURM_JOB_ID'], 'SLURM_STEP_ID' in os.environ)"
    job = place.submit(f"import os\n{told}", gpus=1)
    number, is_step = job.result(180)
    assert not is_step  # its one task is the batch script's own: no step is begun, nor ended
    told = place.told()[job_name(job.id, 1)]
    assert str(told["job_id"]) == number
    until(lambda: place.told()[job_name(job.id, 1)]["job_state"] == "COMPLETED")
    # The ledger's moments are Slurm's own, which it tells in whole seconds.
    told, (task,) = place.told()[job_name(job.id, 1)], job.status().tasks
    assert int(task.held.wall) == told["start_time"]
    assert task.held.wall <= task.busy.wall <= task.returned.wall < told["end_time"] + 1
    assert task.released.wall >= told["end_time"]
    assert (told["tres_per_task"], len(task.gpus)) == ("gres:gpu:1", 1)
    until(lambda: not list(place.home.glob(f"slurm/*/tasks/{job.id}")))  # goes after the last event
    failed = place.submit("raise ValueError('no')", gpus=0)
    assert failed.wait(180).state is JobState.FAILED
    until(lambda: place.told()[job_name(failed.id, 1)]["job_state"] == "FAILED")


WAITS = "import time\nprint('there', flush=True)\nwhile True: time.sleep(0.05)"


def test_a_job_that_hangs_says_so(place):
    resources = Resources(gpus=0, memory=256, vcores=1)
    job = place.submit(WAITS, roles=(Role(count=2, resources=resources),), hang_after=2.0)
    until(lambda: job.status().warning, PATIENCE)
    assert "the job seems to hang" in job.status().warning
    assert "ranks 0, 1: " in job.status().warning
    job.cancel("enough")
    assert job.wait(PATIENCE).state is JobState.CANCELLED


def test_what_slurm_would_never_run_is_refused_before_there_is_a_job(place, monkeypatch):
    before = set(place.told())
    for options, word in (
        ({"reservation": "none"}, "eservation"),
        ({"constraint": "no-such-feature"}, "feature"),
    ):
        with pytest.raises(SubmissionError, match=word) as refused:
            place.submit("1", **options)
        assert refused.value.fix
    with pytest.raises(ResourcesError, match="the largest one has 2"):
        place.submit("1", gpus=5)
    # Slurm's default partition is `main`, which the job does not name.
    monkeypatch.setenv("SUBMARINE_SLURM_PARTITIONS", '{main = {constraint = "none-such"}}')
    with pytest.raises(SubmissionError, match="feature"):
        place.submit("1")
    assert set(place.told()) <= before  # jobs of former tests are forgotten meanwhile


def test_a_job_that_waits_says_what_slurm_says_and_one_that_is_held_goes_on_when_let_go(place):
    gate = place.folder / "gate"
    alone = place.submit(HOLD.format(str(gate)), gpus=1, exclusive=True)
    others = place.submit(HOLD.format(str(gate)), gpus=2)
    for job in (alone, others):
        place.until_running(job)
    assert place.holders() == {alone.id: 2, others.id: 2}  # its node is its own, with all of it
    job, later = (place.submit("1", gpus=1) for _ in range(2))
    until(lambda: job.status().waiting_reason == f"4/4 GPUs in use; {REASONS['Resources']}")
    until(lambda: REASONS["Priority"] in later.status().waiting_reason)
    scontrol("hold", str(place.number(job)))
    until(lambda: REASONS["JobHeldAdmin"] in job.status().waiting_reason)
    gate.touch()
    assert later.wait(180).state is JobState.SUCCEEDED
    assert job.status().state is JobState.QUEUED
    scontrol("release", str(place.number(job)))
    assert job.wait(180).state is JobState.SUCCEEDED


def test_a_jobs_paths_are_those_of_the_shared_disk_and_addresses_reach_its_code(place):
    told = "(os.environ['SUBMARINE_INPUT_PATH'], os.environ['SUBMARINE_CHECKPOINT_PATH'])"
    options = {"input_path": "s3://bucket/train", "checkpoint_path": "kept here", "gpus": 0}
    job = place.submit(f"import os\n{told}", **options)
    assert job.result(180) == ("s3://bucket/train", str(place.folder / "kept here"))
    assert (place.folder / "kept here").is_dir()
    with pytest.raises(SubmissionError, match=r"no file or folder .*/none-such"):
        place.submit("1", input_path="none-such")


@pytest.mark.long
def test_scancel_by_hand_ends_a_job(place):
    flag = place.folder / "runs"
    job = place.submit(f"import time\nopen({str(flag)!r}, 'w')\ntime.sleep(600)", gpus=1, retries=3)
    place.until_running(job, flag)
    number = place.told()[job_name(job.id, 1)]["job_id"]
    subprocess.run(["scancel", str(number)], check=True)
    status = job.wait(180)
    assert status.state is JobState.CANCELLED
    assert status.reason == "somebody cancelled it in Slurm (scancel)"
    assert {task.attempt for task in status.tasks} == {1}
    until(lambda: place.holders() == {})


@pytest.mark.long
def test_scancel_by_hand_ends_a_job_of_several_tasks(place):
    flag = place.folder / "runs"
    script = f"import os, time\nopen({str(flag)!r} + os.environ['SUBMARINE_TASK'], 'w')\n"
    job = place.submit(f"{script}time.sleep(600)", retries=3, **place.with_gpus(3))
    until(lambda: len(list(place.folder.glob("runs*"))) == 3)
    subprocess.run(["scancel", str(place.number(job))], check=True)
    status = job.wait(180)
    assert (status.state, status.attempt) == (JobState.CANCELLED, 1)
    assert status.reason == "somebody cancelled it in Slurm (scancel)"
    until(lambda: place.holders() == {})


@pytest.mark.long
def test_a_job_that_failed_by_itself_stays_failed_though_its_rest_is_cancelled(place):
    flag = place.folder / "raises"
    job = place.submit(
        f"import atexit, time\natexit.register(time.sleep, 600)\nopen({str(flag)!r}, 'w')\n"
        "raise ValueError('its own')",
        gpus=1,
    )
    until(lambda: any(task.returned for task in job.status().tasks) or job.done())
    subprocess.run(["scancel", str(place.number(job))], check=True)
    status = job.wait(180)
    assert status.state is JobState.FAILED
    assert "its own" in status.reason


@pytest.mark.long
def test_scancel_by_hand_ends_jobs_that_wait(place):
    """All of them, however many: each is one job of Slurm, in the order in which they came."""
    holder, gate = place.hold(4)
    until(lambda: holder.status().state is JobState.RUNNING)
    jobs = [place.submit("1", gpus=2, retries=2) for _ in range(20)]
    names = [job_name(job.id, 1) for job in jobs]
    until(lambda: set(names) <= set(place.told()))
    numbers = [place.told()[name]["job_id"] for name in names]
    assert numbers == sorted(numbers)
    assert [names_of(job.id) for job in jobs] == [[name] for name in names]
    subprocess.run(["scancel", *map(str, numbers)], check=True)
    for job in jobs:
        status = job.wait(180)
        assert (status.state, status.attempt) == (JobState.CANCELLED, 1)
        assert "somebody cancelled it in Slurm (scancel) while it waited" in status.reason
    gate.touch()
    assert holder.wait(180).state is JobState.SUCCEEDED


def test_gpus_that_somebody_elses_job_holds_are_shown_with_it_and_with_what_is_left(place, capsys):
    wrap = ["sbatch", "--parsable", "--ntasks=1", "--gpus-per-task=1", "--nodelist=n1"]
    wrap += ["--job-name=her\x1b[31m job", "--output=/dev/null", "--wrap=sleep 600"]
    done = subprocess.run(wrap, check=True, capture_output=True, text=True)
    number = done.stdout.strip()
    user = getpass.getuser()
    try:
        until(lambda: [gpu for gpu in place.seam.gpus() if gpu.holder])
        (held,) = [gpu for gpu in place.seam.gpus() if gpu.holder]
        assert held.holder == f"{user}: job {number} her\x1b[31m job"
        assert (held.host, held.queue, held.job_id) == ("n1", "main", None)
        shares = {(one.kind, one.name): (one.free, one.total) for one in place.seam.gpu_shares()}
        assert shares == {("node", "n1"): (1, 2), ("node", "n2"): (2, 2), ("queue", "main"): (3, 4)}
        assert main(["gpus", "--cluster", "slurm"]) == 0
        shown = capsys.readouterr().out
    finally:
        subprocess.run(["scancel", number], check=True)
    rows = [line.split() for line in shown.splitlines()]
    assert ["queue", "main", "3", "4"] in rows
    assert ["node", "n1", "1", "2"] in rows
    (line,) = [line for line in shown.splitlines() if f"{user}: job {number} her" in line]
    assert line.startswith(held.id)
    assert "\x1b" not in shown  # what others call their jobs is hostile
    until(lambda: not any(gpu.holder for gpu in place.seam.gpus()))


def of_the_cluster(root):
    """Return the processes that belong to a cluster of one's own, or to a job of it, by pid."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is no process of ours
            words = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
            if bytes(root) in words and int(folder.name) != os.getpid():
                found[int(folder.name)] = (folder / "cmdline").read_bytes()
    return found


def answers(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long
@pytest.mark.usefixtures("slurm")  # skips where there can be none
def test_a_cluster_of_three_nodes_comes_runs_a_job_on_all_its_gpus_and_goes(
    tmp_path_factory, tmp_path, monkeypatch, capsys
):
    home = tmp_path_factory.mktemp("three")
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.chdir(tmp_path)
    name = ["--name", "three"]
    root = SlurmCluster(home, "three").layout.root
    try:
        assert main(["cluster", "up", "slurm", "--nodes", "3", "--gpus", "4", *name]) == 0
        capsys.readouterr()
        assert main(["cluster", "status", *name]) == 0
        assert "a job could run: 3 nodes, 4 GPUs each, declared" in capsys.readouterr().out
        port = SlurmCluster(home, "three").plan.port
        assert all(answers(one) for one in range(port, port + 4))  # the controller and the nodes
        Path("train.py").write_text(
            "from os import environ\n"
            "print('has', environ['SLURMD_NODENAME'], environ['CUDA_VISIBLE_DEVICES'])"
        )
        run = ["job", "run", "train.py", "--cluster", "slurm", "--num_workers", "3"]
        assert main([*run, "--gpus", "4", "--name", "wide"]) == 0
        job = list_jobs(home)[0]
        told = {JobPaths(home, job.id).task(f"worker-{n}").stdout.read_text() for n in range(3)}
        assert told == {f"has n{n} 0,1,2,3\n" for n in (1, 2, 3)}
        assert of_the_cluster(root)
        assert main(["cluster", "down", *name]) == 0
    finally:
        main(["cluster", "down", *name])
        shutil.rmtree(home / "slurm", ignore_errors=True)  # its keeper would wait for more jobs
        left = end_processes_of(home, PATIENCE)
    assert not left
    assert of_the_cluster(root) == {}
    assert not root.exists()
    assert not any(answers(one) for one in range(port, port + 4))
    capsys.readouterr()
    assert main(["cluster", "status", *name]) != 0
    assert "three" in capsys.readouterr().err


class OnNodesOfTheirOwn(SlurmCluster):
    """A Slurm whose nodes do not see a folder of this machine: they have an empty one there."""

    def __init__(self, home, unseen):
        super().__init__(home, "apart")
        self.unseen = unseen

    def _command(self, name):
        words = super()._command(name)
        if not name.startswith("slurmd"):
            return words
        hide = f'mount -t tmpfs none {shlex.quote(str(self.unseen))} && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", hide, "sh", *words]


@pytest.mark.long
@pytest.mark.usefixtures("slurm")  # skips where there can be none
def test_a_job_whose_folder_the_nodes_do_not_see_is_refused_in_words(
    tmp_path_factory, tmp_path, monkeypatch
):
    home = tmp_path / "home"
    home.mkdir()
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount here")
    cluster = OnNodesOfTheirOwn(tmp_path_factory.mktemp("apart"), home)
    try:
        cluster.up(nodes=1, gpus=1)
        monkeypatch.setenv("SUBMARINE_HOME", str(home))
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        place = SlurmPlace("slurm", home, tmp_path)
        job = place.submit("1", gpus=1, retries=2)
        status = job.wait(180)
        assert (status.state, status.attempt) == (JobState.FAILED, 1)
        assert (
            "Slurm ended the job before its tasks began (FAILED): it says no more" in status.reason
        )
        assert "the nodes must see the folder of your jobs" in status.reason
        assert f"try `srun ls {home}/slurm/" in status.reason
        assert len(names_of(job.id)) == 1
        until(lambda: place.holders() == {})
    finally:
        cluster.down()
        end_processes_of(home)


def test_the_verbs_show_and_write(slurm, capsys):
    home = slurm.layout.root.parents[1]
    name = ["--name", slurm.name]
    os.environ["SUBMARINE_HOME"] = str(home)  # `own_environment` puts it back
    assert main(["cluster", "status", *name]) == 0
    assert "a job could run: 2 nodes, 2 GPUs each, declared" in capsys.readouterr().out
    assert main(["cluster", "env", *name]) == 0
    assert capsys.readouterr().out == f"export SLURM_CONF={slurm.conf}\n"
    assert main(["cluster", "logs", *name]) == 0
    assert "slurmd-n1" in capsys.readouterr().out
    assert main(["cluster", "up", "slurm", "--gpus", "3"]) != 0
    assert "is there already, with 2 nodes of 2 GPUs" in capsys.readouterr().err
    assert main(["cluster", "up", "slurm", "--secure"]) != 0
    assert "neither HDFS nor Kerberos" in capsys.readouterr().err
    assert main(["cluster", "up", "lsf"]) != 0
    assert "write yarn, slurm or kubernetes" in capsys.readouterr().err
