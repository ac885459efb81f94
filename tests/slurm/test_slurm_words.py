"""What Slurm's programs say is read, whichever release says it, and what they refuse is told."""

from __future__ import annotations

import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from submarine_engine.clusters import locks
from submarine_engine.clusters.backend import KeptJob, SubmitQueue
from submarine_engine.clusters.polled import Polled
from submarine_engine.clusters.slurm.backend import SlurmBackend
from submarine_engine.clusters.slurm.client import (
    GpuLimits,
    Partition,
    Slurm,
    SlurmJob,
    read_complaint,
    read_gres,
    read_indices,
    read_time,
)
from submarine_engine.clusters.slurm.request import REASONS, SlurmRequest
from submarine_engine.clusters.slurm.sbatch import (
    arguments,
    asks_for_partitions,
    longest_of,
    parts,
)
from submarine_engine.clusters.slurm.state import SlurmState, Told
from submarine_engine.config import load_config
from submarine_engine.errors import (
    ClusterError,
    CommandError,
    ConfigError,
    ResourcesError,
    SubmissionError,
    UnsupportedError,
)
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.installer.slurm import SlurmCluster
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.settings import format_value
from submarine_engine.testing.jobs import LIMIT

A_JOB = new_job_id()
OLD = {
    "job_id": 7, "het_job_id": 0, "name": "x", "job_state": "RUNNING", "state_reason": "None",
    "user_name": "ana", "partition": "gpu", "priority": 12, "start_time": 1700000000,
    "nodes": "n[1-2]", "gres_detail": ["gpu:2(IDX:0-1)", "gpu:1(IDX:3)"],
}  # fmt: skip
NEW = {
    **OLD,
    "job_id": 7,
    "het_job_id": {"set": True, "infinite": False, "number": 0},
    "job_state": ["RUNNING", "COMPLETING"],
    "priority": {"set": True, "infinite": False, "number": 12},
    "start_time": {"set": True, "infinite": False, "number": 1700000000},
}


def test_a_job_reads_alike_of_each_release():
    assert SlurmJob.read(OLD) == SlurmJob.read(NEW)
    assert (SlurmJob.read(NEW).leader, SlurmJob.read(NEW).final) == (7, False)
    assert SlurmJob.read({**NEW, "job_state": ["CANCELLED"]}).final
    for told in (1700000000, {"set": True, "number": 1700000000}):
        assert SlurmJob.read({**NEW, "preempt_time": told}).preempted
    for told in (0, {"set": False, "number": 1}, None):
        assert not SlurmJob.read({**NEW, "preempt_time": told}).preempted


def test_a_job_that_tells_nothing_is_read():
    job = SlurmJob.read({"job_id": 3, "start_time": {"set": False, "number": 9}, "job_state": []})
    assert (job.id, job.began, job.state, job.gres) == (3, 0.0, "", ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpu:4", ("", 4)),
        ("gpu:a100:4(S:0-1)", ("a100", 4)),
        ("gpu:a100:4,gpu:v100:2(S:0)", ("a100", 6)),
        ("craynetwork:4", ("", 0)),
        ("(null)", ("", 0)),
    ],
)
def test_gres_says_its_gpus(text, told):
    assert read_gres(text) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpu:2(IDX:0-1)", [0, 1]),
        ("gpu:a100:3(IDX:0,2-3)", [0, 2, 3]),
        ("gpu:0(IDX:N/A)", []),
    ],
)
def test_gres_says_which(text, told):
    assert read_indices(text) == told


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:01:00", 60), ("1-12:00:30", 129630), ("UNLIMITED", None), ("NONE", None), ("", None)],
)
def test_lengths_of_time_are_read(text, seconds):
    assert read_time(text) == seconds


def test_partitions_say_how_long_a_job_may_take(programs):
    programs(
        "scontrol",
        "echo 'PartitionName=long Default=YES MaxTime=UNLIMITED State=UP'\n"
        "echo 'PartitionName=short Default=NO MaxTime=01:00:00 State=UP'",
    )
    known = Slurm().partitions()
    assert known == [Partition("long", True, None), Partition("short", False, 3600.0)]
    assert longest_of(JobSpec(), known) is None
    assert longest_of(JobSpec(queue="short"), known) == 3600.0
    assert longest_of(JobSpec(queue="none"), known) is None


@pytest.mark.parametrize(
    ("options", "longest", "words"),
    [
        ({}, None, {"--signal=B:USR1@60"}),
        ({"grace": 0.0}, None, set()),  # no time for a checkpoint is wanted
        ({"time_limit": 3600.0}, None, {"--signal=B:USR1@60", "--time=63"}),  # ours comes first
        ({"time_limit": 3600.0, "grace": 600}, 1e6, {"--signal=B:USR1@600", "--time=72"}),
        ({"time_limit": 86400.0}, 5400.0, {"--signal=B:USR1@60", "--time=90"}),
        ({"time_limit": 1.0, "grace": 0.5}, 30.0, {"--signal=B:USR1@1", "--time=1"}),
    ],
)
def test_slurm_is_told_how_long_a_job_takes_and_when_to_say_so(options, longest, words):
    partitions = [Partition("none", False, 1.0), Partition("main", True, longest)]
    told = arguments(JobSpec(**options), "submarine-j.1", partitions)
    assert {word for word in told if word.startswith(("--signal", "--time"))} == words


BY_PARTITION = """
slurm_qos = "low"
slurm_account = "lab"
[slurm_partitions.gpu]
qos = "high"
gpu_type = "a100"
[slurm_partitions."big one"]
reservation = "night"
"""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, {"--qos=low", "--account=lab", "--gpus-per-task=1"}),
        ({"queue": "gpu"}, {"--qos=high", "--account=lab", "--gpus-per-task=a100:1"}),
        ({"queue": "big one"}, {"--qos=low", "--reservation=night", "--gpus-per-task=1"}),
        (
            {"queue": "gpu", "options": {"qos": "mine", "gpu_type": "v100"}},
            {"--qos=mine", "--account=lab", "--gpus-per-task=v100:1"},
        ),
    ],
)
def test_a_partition_has_defaults_of_its_own(tmp_path, monkeypatch, options, words):
    (tmp_path / "config.toml").write_text(BY_PARTITION)
    monkeypatch.setenv("SUBMARINE_CONFIG", str(tmp_path / "config.toml"))
    spec = JobSpec(roles=(Role(resources=Resources(gpus=1)),), **options)
    told = arguments(spec, "submarine-j.1")
    named = ("--qos", "--account", "--reservation", "--constraint", "--gpus-per-task")
    assert {word for word in told if word.startswith(named)} >= words
    assert len([word for word in told if word.startswith("--qos")]) == 1
    # Where a job names no partition, those of the one that Slurm gives it.
    monkeypatch.setenv("SUBMARINE_SLURM_PARTITION", "gpu")
    if not options:
        assert "--qos=high" in arguments(spec, "submarine-j.1")
        monkeypatch.delenv("SUBMARINE_SLURM_PARTITION")
        known = [Partition("cpu", False, None), Partition("gpu", True, None)]
        assert asks_for_partitions(spec)
        told = arguments(spec, "submarine-j.1", known)
        assert {"--qos=high", "--gpus-per-task=a100:1"} <= set(told)
        assert not any(word.startswith("--partition") for word in told)


@pytest.mark.parametrize("option", ["account", "qos", "constraint", "reservation", "gpu_type"])
def test_each_option_of_a_name_has_a_setting(monkeypatch, option):
    monkeypatch.setenv(f"SUBMARINE_SLURM_{option.upper()}", "said")
    monkeypatch.setenv("SUBMARINE_SLURM_PARTITION", "part")
    spec = JobSpec(roles=(Role(resources=Resources(gpus=1)),))
    word = "--gpus-per-task=said:1" if option == "gpu_type" else f"--{option}=said"
    assert {word, "--partition=part"} <= set(arguments(spec, "submarine-j.1"))
    assert not asks_for_partitions(spec)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[slurm_partitions.gpu]\nqso = "x"',
            r"no 'qso' of the partition 'gpu'; did you mean qos\?",
        ),
        (
            "[slurm_partitions.gpu]\nqos = 3",
            "qos of the partition 'gpu' is 3, and it must be a text",
        ),
        ('slurm_partitions = "gpu"', "no table of TOML"),
        ('[slurm_partitions]\nqos = "x"', "a table of tables"),
        ("slurm_partitions = [1]", "a table of tables"),
    ],
)
def test_what_cannot_be_of_a_partition_is_told(tmp_path, monkeypatch, text, words):
    (tmp_path / "config.toml").write_text(f"grace = 1\n{text}\n")
    monkeypatch.setenv("SUBMARINE_CONFIG", str(tmp_path / "config.toml"))
    with pytest.raises(ConfigError, match=words) as refused:
        load_config()
    assert refused.value.where.endswith("config.toml, line 2")
    assert "for example slurm_partitions = {gpu = {" in refused.value.fix


def test_what_holds_by_partition_may_be_a_variable_too(monkeypatch):
    monkeypatch.setenv("SUBMARINE_SLURM_PARTITIONS", '{gpu = {qos = "high", account = "lab"}}')
    value = load_config().value("slurm_partitions")
    assert value == {"gpu": {"qos": "high", "account": "lab"}}
    assert format_value("slurm_partitions", value) == "gpu: qos = high, account = lab"
    monkeypatch.setenv("SUBMARINE_SLURM_PARTITIONS", "gpu")
    with pytest.raises(ConfigError, match="no table of TOML"):
        load_config()


def test_a_heterogeneous_job_has_its_time_in_each_part_and_hears_of_its_end_once():
    chief, worker = (Resources(gpus=gpus, vcores=1) for gpus in (1, 2))
    roles = Role(name="chief", resources=chief), Role(name="worker", resources=worker)
    words = arguments(JobSpec(roles=roles, time_limit=600.0), "submarine-j.1")
    assert words.count("--time=13") == 2
    assert [word for word in words if word.startswith("--signal")] == words[:1]


def test_a_complaint_is_one_line_without_the_programs_name():
    said = "sbatch: error: Invalid account\nsbatch: error: Batch job submission failed: no\n"
    assert read_complaint(said) == "Invalid account; Batch job submission failed: no"
    assert read_complaint("\n") == "it does not say why"


def test_tasks_without_gpus_run_beside_those_with_some():
    small, large = Resources(gpus=0, vcores=1, memory=100), Resources(gpus=2, vcores=4, memory=900)
    roles = (
        Role(name="chief", resources=large),
        Role(name="ps", count=2, resources=small),
        Role(name="worker", count=1, resources=large),
    )
    options = {"gpu_type": "a100", "account": "x; rm -rf /", "nice": 5, "exclusive": True}
    spec = JobSpec(roles=roles, options={**options, "qos": "high"})
    (part,) = parts(spec)
    assert (part.tasks, part.beside) == (("chief-0", "worker-0"), ("ps-0", "ps-1"))
    words = arguments(spec, "submarine-j.1")
    assert {"--ntasks=2", "--cpus-per-task=5", "--mem-per-cpu=200M"} <= set(words)
    # As one word each, which no shell reads.
    assert {"--gpus-per-task=a100:2", "--account=x; rm -rf /", "--nice=5"} <= set(words)
    assert {"--exclusive", "--qos=high"} <= set(words)


def test_tasks_with_other_numbers_of_gpus_are_another_component():
    chief, worker = (Resources(gpus=gpus, vcores=1) for gpus in (1, 2))
    roles = Role(name="chief", resources=chief), Role(name="worker", count=3, resources=worker)
    words = arguments(JobSpec(roles=roles), "submarine-j.1")
    first, second = words[: words.index(":")], words[words.index(":") + 1 :]
    assert {"--ntasks=3", "--gpus-per-task=2", "--job-name=submarine-j.1"} <= set(first)
    assert {"--ntasks=1", "--gpus-per-task=1", "--job-name=submarine-j.1"} <= set(second)


@pytest.mark.parametrize(
    ("path", "here"),
    [
        ("models", "models"),
        ("/data/train", "/data/train"),
        ("~/data", str(Path("~/data").expanduser())),
        ("file:///a%20b", "/a b"),
        ("s3://bucket/train", None),
        ("", None),
    ],
)
def test_paths_of_options_are_those_of_the_shared_disk(path, here):
    assert SlurmBackend.machine_path(path, "--input_path") == (here and Path(here))


def test_a_job_without_gpus_asks_for_none():
    spec = JobSpec(roles=(Role(count=2, resources=Resources(gpus=0)),))
    words = arguments(spec, "submarine-j.1")
    assert {"--ntasks=2", "--cpus-per-task=1"} <= set(words)
    assert not any("gpu" in word or "mem" in word for word in words)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Programs of Slurm's names that say and do what a test writes."""
    conf = tmp_path / "slurm.conf"
    conf.touch()
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("SLURM_CONF", str(conf))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def write(name, text):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    write("sbatch", "exit 0")
    return write


def test_what_slurm_refuses_is_told_and_what_passes_is_not_refused(programs, monkeypatch):
    monkeypatch.setattr("submarine_engine.clusters.slurm.client._SILENT_FOR", LIMIT)
    programs("sbatch", 'echo "sbatch: error: Invalid account or partition" >&2; exit 1')
    with pytest.raises(SubmissionError, match="Invalid account or partition") as refused:
        Slurm().submit([], "", keep=1)
    assert refused.value.fix
    programs("sbatch", 'echo "sbatch: error: Unable to contact slurm controller" >&2; exit 1')
    slurm = Slurm()
    with pytest.raises(ClusterError, match="does not answer"):
        slurm.submit([], "", keep=1)
    programs("squeue", "echo asked >asked; exit 1")
    with pytest.raises(ClusterError, match="does not answer"):  # and is not asked at once again
        slurm.jobs(mine=True)


def test_a_program_that_hangs_is_given_up(programs, monkeypatch):
    programs("squeue", "sleep 600")
    monkeypatch.setattr("submarine_engine.clusters.slurm.client.PATIENCE", 0.1)
    monkeypatch.setattr(
        Slurm._run, "__kwdefaults__", {**Slurm._run.__kwdefaults__, "patience": 0.1}
    )
    with pytest.raises(ClusterError, match=r"no answer within 0\.1 s"):
        Slurm().jobs(mine=True)


def test_what_is_no_json_is_told(programs):
    programs("squeue", "echo '{\"jobs\": 3}'")
    with pytest.raises(ClusterError, match=r"Slurm 22\.05 or newer"):
        Slurm().jobs(mine=True)


def test_programs_see_nothing_of_this_process_but_what_they_need(programs, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    monkeypatch.setenv("SBATCH_ACCOUNT", "mine")
    told = Slurm().environment()
    assert told["SBATCH_ACCOUNT"] == "mine"
    assert not {"TOKEN", "SLURM_JOB_ID"} & set(told)
    assert programs


def test_where_there_is_no_slurm_the_way_to_one_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("submarine_engine.clusters.slurm.client._SYSTEM_CONF", ())
    monkeypatch.delenv("SLURM_CONF", raising=False)
    assert not SlurmBackend.configured()
    with pytest.raises(ConfigError, match="no Slurm is configured") as missing:
        SlurmBackend(tmp_path)
    assert "submarine cluster up slurm" in missing.value.fix
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none.conf"))
    with pytest.raises(ConfigError, match="no such configuration"):
        SlurmBackend(tmp_path)


def test_what_a_cluster_is_made_of_is_asked_again_where_a_job_would_be_refused(programs, tmp_path):
    asked, name = tmp_path / "asked", tmp_path / "name"
    name.write_text("gpu")
    programs(
        "scontrol",
        f'echo "$*" >>{asked}\n'
        f'echo "NodeName=n1 Gres=gpu:2 Partitions=$(cat {name}) CPUTot=4 RealMemory=100"\n'
        f'echo "PartitionName=$(cat {name}) Default=YES MaxTime=UNLIMITED"',
    )
    backend = SlurmBackend(tmp_path)
    for _ in range(3):
        backend.check(JobSpec(queue="gpu"))
    assert len(asked.read_text().splitlines()) == 2  # its nodes, and its partitions
    name.write_text("new")
    backend.check(JobSpec(queue="new"))
    assert len(asked.read_text().splitlines()) == 4
    with pytest.raises(UnsupportedError, match="no partition 'gpu'"):
        backend.check(JobSpec(queue="gpu"))


@pytest.mark.parametrize(
    ("queue", "gpus"),
    [
        ("gpu", {"worker": 1, "ps": 0}),
        ("cpu", {"worker": 0, "ps": 0}),
        (None, {"worker": 1, "ps": 0}),
    ],
)
def test_gpus_that_are_left_open_are_those_of_the_role_and_the_partition(
    programs, tmp_path, queue, gpus
):
    programs(
        "scontrol",
        'echo "NodeName=n1 Gres=gpu:2 Partitions=gpu CPUTot=4 RealMemory=100"\n'
        'echo "NodeName=n2 Partitions=cpu CPUTot=4 RealMemory=100"\n'
        'echo "PartitionName=gpu Default=YES MaxTime=UNLIMITED"\n'
        'echo "PartitionName=cpu Default=NO MaxTime=UNLIMITED"',
    )
    spec = JobSpec(queue=queue, roles=(Role(), Role(name="ps")))
    filled = SlurmBackend(tmp_path).check(spec)
    assert {role.name: role.resources.gpus for role in filled.roles} == gpus
    asked = JobSpec(queue="cpu", roles=(Role(resources=Resources(gpus=1)),))
    with pytest.raises(ResourcesError, match="the largest one has 0"):
        SlurmBackend(tmp_path).check(asked)


def test_however_many_jobs_wait_the_nodes_are_asked_for_once(programs, tmp_path):
    asked = tmp_path / "asked"
    programs("scontrol", f"echo asked >>{asked}; sleep 0.3; echo NodeName=n1 Gres=gpu:2")
    state = SlurmState(Slurm(), tmp_path, SubmitQueue())
    # As long as it holds here, however slow the machine.
    state._nodes = Polled(state._nodes._ask, holds=LIMIT)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: state.nodes(), range(8)))
    assert [[node.gpus for node in nodes] for nodes in found] == [[2]] * 8
    assert asked.read_text() == "asked\n"


def told_of(*jobs):
    """Return what `squeue --json` would say of jobs: number, state, priority and partition."""
    fields = ("job_id", "job_state", "priority", "partition")
    return [{**OLD, **dict(zip(fields, job, strict=True)), "name": f"j{job[0]}"} for job in jobs]


def test_however_many_jobs_wait_what_is_told_is_gone_through_once(programs, tmp_path):
    asked, said = tmp_path / "asked", tmp_path / "said.json"
    running = [(n, "RUNNING", 9, "gpu") for n in range(1, 6)]
    waiting = [(n, "PENDING", 9, "gpu") for n in range(6, 106)]
    said.write_text(json.dumps({"jobs": told_of(*running, *waiting)}))
    programs("squeue", f"echo squeue >>{asked}; cat {said}")
    programs(
        "scontrol",
        f'for last; do :; done; echo "$last" >>{asked}\n'
        'if [ "$2" = hostnames ]; then echo n1 n2; exit; fi\n'
        'echo "NodeName=n1 Gres=gpu:4 State=MIXED"\necho "NodeName=n2 Gres=gpu:4 State=MIXED"',
    )
    state = SlurmState(Slurm(), tmp_path, SubmitQueue())
    # As long as they hold here, however slow the machine.
    state.all = Polled(state.all._ask, holds=LIMIT)
    state._nodes = Polled(state._nodes._ask, holds=LIMIT)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: state.free(), range(100)))
    assert found == [{"n1": 2, "n2": 3}] * 100
    assert sorted(asked.read_text().split()) == ["n[1-2]", "node", "squeue"]
    found[0]["n1"] = 0  # who reckons with it changes what is its own
    assert state.free() == {"n1": 2, "n2": 3}


def test_a_node_alone_is_read_without_a_process(programs):
    programs("scontrol", "exit 1")
    assert [Slurm().hosts(text) for text in ("n1", "n1,n3", "")] == [["n1"], ["n1", "n3"], []]


def test_who_is_before_a_job_is_in_its_partition_and_counts_once():
    jobs = [SlurmJob.read(one) for one in told_of(
        (1, "PENDING", 5, "gpu"),
        (2, "PENDING", 9, "gpu"),
        (3, "PENDING", 5, "gpu"),
        (4, "PENDING", 99, "cpu"),
        (5, "RUNNING", 99, "gpu"),
        (6, "PENDING", 7, "gpu"),
    )]  # fmt: skip
    jobs.append(replace(jobs[-1], id=7, name="j6", priority=8))  # one job of two components
    told = Told(jobs)
    assert [told.before(told.named(f"j{n}")[0]) for n in (1, 2, 3, 4)] == [2, 0, 3, 0]
    assert [job.id for job in told.named("j6")] == [6, 7]
    assert (told.named("none"), [job.id for job in told.waiting]) == ([], [1, 2, 3, 4, 6, 7])
    assert told.before(replace(jobs[0], partition="new")) == 0


TWO = JobSpec(roles=(Role(count=2, resources=Resources(gpus=1, vcores=1)),))
ELASTIC = replace(TWO, roles=(replace(TWO.roles[0], count=4, least=1),))


@pytest.fixture
def request_of(programs, tmp_path, monkeypatch):
    """Give what follows a job of which Slurm says what a test writes, and no more is asked for."""
    monkeypatch.setattr("submarine_engine.clusters.slurm.request._FIRST_LOOK", 0.0)
    programs("sbatch", f"touch {tmp_path}/submitted; echo 8")
    programs("scancel", "exit 0")
    paths = JobPaths(tmp_path, A_JOB)
    paths.root.mkdir(parents=True)

    def make(*told, tasks=("worker-0",), spec=TWO, **noted):
        programs("squeue", f"cat {tmp_path}/told.json")
        jobs = [{**OLD, "name": f"submarine-{A_JOB}.1", **one} for one in told]
        (tmp_path / "told.json").write_text(json.dumps({"jobs": jobs}))
        (paths.root / "slurm.json").write_text(json.dumps({"attempt": 1, "asked": 1.0, **noted}))
        launch = {"python": "python", "entry": "script.py", "home": None, "outer": {}}
        job = KeptJob(paths, spec, launch, {"workdir": str(tmp_path)})
        queue = SubmitQueue()
        queue.join(paths.job_id)
        request = SlurmRequest(SlurmState(Slurm(), tmp_path / "tasks", queue), job)
        for task in tasks:
            folder = tmp_path / "tasks" / A_JOB / "1" / task
            folder.mkdir(parents=True)
            (folder / "node").write_text("n1")
        return request

    return make


def test_a_job_that_slurm_has_forgotten_is_not_waited_for(request_of, monkeypatch):
    request = request_of(number=7)
    assert request.ask() is None  # it may be away for a moment: a controller that comes back
    monkeypatch.setattr("submarine_engine.clusters.slurm.request._GONE_FOR", 0.0)
    with pytest.raises(SubmissionError, match="Slurm has forgotten the job") as refused:
        request.ask()
    assert refused.value.where == "job 7 of Slurm"
    assert f"submarine job retry {A_JOB}" in refused.value.fix
    assert not request.stopped


def test_a_job_that_slurm_has_forgotten_is_not_submitted_again_where_it_has_begun(
    request_of, tmp_path
):
    request = request_of(tasks=("worker-0", "worker-1"))  # its number was not noted
    given = request.ask()
    assert {task: one.id for task, one in given.items()} == {
        "worker-0": "0/worker-0", "worker-1": "0/worker-1",
    }  # fmt: skip
    assert request.count().over  # so what it has left is brought home
    assert request.forgotten
    assert not (tmp_path / "submitted").exists()


@pytest.mark.parametrize(
    ("told", "words", "stopped"),
    [
        ({"job_state": "CANCELLED", "nodes": ""}, "somebody cancelled it .* while it waited", True),
        ({"job_state": "CANCELLED"}, "somebody cancelled it .* before its tasks began", True),
        ({"job_state": "CANCELLED", "preempt_time": 9}, r"before its tasks began \(CAN", False),
        ({"job_state": "DEADLINE", "nodes": ""}, r"while it waited \(DEADLINE\)", False),
        # No node has seen the folder: there is no log of srun's.
        ({"job_state": "FAILED"}, r"\(FAILED\): it says no more", False),
    ],
)
def test_a_job_that_is_over_before_its_tasks_began_says_how(request_of, told, words, stopped):
    request = request_of(told, number=7)
    with pytest.raises(SubmissionError, match=words) as refused:
        request.ask()
    assert refused.value.fix
    assert bool(request.stopped) is stopped


NODES = (
    'if [ "$2" = hostnames ]; then echo n1 n2; exit; fi\n'
    'if [ "$3" = partition ]; then echo "PartitionName=gpu Default=YES QoS=N/A"; exit; fi\n'
    'echo "NodeName=n1 Gres=gpu:4 State=MIXED"\necho "NodeName=n2 Gres=gpu:4 State=MIXED"'
)
"""A `scontrol` that knows two nodes of four GPUs, all in one partition."""


def waiting_for(request_of, reason, qos="normal"):
    """Return what follows a job that waits: three are before it, and four others are not."""
    more = [{**one, "name": "other"} for one in told_of(
        (1, "PENDING", 99, "gpu"),
        (2, "PENDING", 12, "gpu"),
        (3, "PENDING", 13, "gpu"),
        (4, "PENDING", 99, "cpu"),
        (5, "RUNNING", 1, "gpu"),
        (8, "PENDING", 12, "gpu"),
    )]  # fmt: skip
    mine = {"job_state": "PENDING", "state_reason": reason, "nodes": "", "gres_detail": []}
    return request_of({**mine, "qos": qos}, *more, number=7, tasks=())


@pytest.mark.parametrize("reason", [*REASONS, "QOSMinGRES"])
def test_what_slurm_says_of_a_job_that_waits_is_told_in_words(request_of, programs, reason):
    programs("scontrol", NODES)
    programs("sacctmgr", "exit 1")
    words = REASONS.get(reason, "Slurm says QOSMinGRES")
    assert waiting_for(request_of, reason).waiting() == (3, f"3/8 GPUs in use; {words}")
    if reason in REASONS:
        assert reason not in words


APART = NODES.replace("n1 ", "n1 Partitions=gpu ").replace("n2 Gres", "n2 Partitions=cpu Gres")
"""As `NODES`, and each node in a partition of its own: a job of four GPUs is in `gpu`, with two."""


@pytest.mark.parametrize(
    ("partition", "reason", "room"),
    [
        ("gpu", "JobHeldUser", 2),  # it waits for nothing that anybody else could take
        ("gpu", "Dependency", 2),
        ("cpu", "Resources", 2),
        ("gpu", "Resources", 0),
        ("cpu,gpu", "Priority", 0),
        ("gpu", "None", 0),  # Slurm has not looked at it yet
    ],
)
def test_an_elastic_job_grows_by_what_is_free_in_its_partition_and_nobody_waits_for(
    request_of, programs, partition, reason, room
):
    programs("scontrol", APART)
    other = {"name": "other", "job_id": 8, "job_state": "PENDING", "nodes": "", "gres_detail": []}
    other |= {"partition": partition, "state_reason": reason}
    request = request_of({}, other, spec=ELASTIC, number=7, workers=1)
    assert request.room() == room
    request._job = request._job._replace(spec=replace(ELASTIC, queue="gpu"))
    assert request.room() == room


def test_an_elastic_job_is_submitted_again_as_its_folder_is(
    request_of, programs, tmp_path, monkeypatch
):
    """What an sbatch is asked for, that had no answer, another one asks for again."""
    for name in ("request._TRIES_EVERY", "client._SILENT_FOR"):
        monkeypatch.setattr(f"submarine_engine.clusters.slurm.{name}", 0.0)
    programs("scontrol", APART)
    silent = "echo 'sbatch: error: Unable to contact slurm controller' >&2; exit 1"
    kept = tmp_path / "arguments"
    programs("sbatch", f'echo "$*" >>{kept}; {silent}')
    request = request_of(
        {"name": "other", "gres_detail": ["gpu:3(IDX:0-2)"]}, spec=ELASTIC, tasks=()
    )
    request._job.paths.bundle.mkdir()
    request._note = {}  # it was not asked for yet
    assert request.ask() is None
    programs("squeue", "echo '{\"jobs\": []}'")  # all of its partition is free by now
    programs("sbatch", f'echo "$*" >>{kept}; echo 7')
    assert request.ask() is None
    folders = {path.parent.name for path in (tmp_path / "tasks").rglob("launch.json")}
    assert folders == {"worker-0"}
    asked = [word for word in kept.read_text().split() if word.startswith("--ntasks")]
    assert asked == ["--ntasks=1"] * 2


@pytest.mark.parametrize("error", [OSError(28, "No space left"), shutil.Error([("a", "b", "no")])])
def test_a_job_that_cannot_be_submitted_says_why_and_lets_others_go_before(
    request_of, programs, monkeypatch, error
):
    monkeypatch.setattr("submarine_engine.clusters.slurm.request._TRIES_EVERY", 0.0)
    programs("scontrol", NODES)
    request = request_of(tasks=())
    request._queue.join("later")
    request._queue.name("later", "slurm")
    assert not request._queue.is_turn("later")

    def copytree(*_):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(shutil, "copytree", copytree)
        assert request.ask() is None
    said = error.strerror or error
    used = "0/8 GPUs in use"
    assert request.waiting() == (0, f"{used}; the tasks' folder cannot be written: {said}")
    assert request._queue.is_turn("later")
    request._job.paths.bundle.mkdir()
    assert request.ask() is None  # it is tried again, in nobody's turn
    assert request._number == 8


def test_a_job_whose_sbatch_of_before_is_under_way_says_so(request_of, programs):
    programs("scontrol", NODES)
    request = request_of(tasks=())
    lock = locks.take(request._job.paths.root / "slurm.lock")
    try:
        assert request.ask() is None
        told = "0/8 GPUs in use; an earlier sbatch is still under way"
        assert request.waiting() == (0, told)
    finally:
        locks.drop(lock)


def test_gpus_of_nodes_that_take_no_jobs_are_not_told_to_be_in_use(request_of, programs):
    programs("scontrol", NODES.replace("n2 Gres=gpu:4 State=MIXED", "n2 Gres=gpu:4 State=DOWN*"))
    _, told = waiting_for(request_of, "Resources").waiting()
    assert told == f"2/8 GPUs in use, 4 of nodes that take no jobs now; {REASONS['Resources']}"


@pytest.mark.parametrize(
    ("reason", "limits", "number"),
    [
        ("QOSMaxGRESPerUser", "normal||\nfew|cpu=9,gres/gpu=4|gres/gpu=6", ": 4"),
        ("QOSGrpGRES", "normal||\nfew|gres/gpu=4|cpu=50,gres/gpu=6,node=2", ": 6"),
        ("QOSMaxGRESPerUser", "few|gres/gpu=4|\npart|gres/gpu=8|", ""),  # which of them holds?
        ("QOSMaxGRESPerUser", "few||\npart|gres/gpu=8|", ": 8"),
        ("QOSMaxGRESPerUser", "few|gres/gpu:a100=4,xgres/gpu=3|", ""),
        ("QOSMaxGRESPerUser", "few\nfew|a|b|c|d\n|||", ""),  # what no sacctmgr says
        ("Priority", "few|gres/gpu=4|", ""),  # it waits for something else
    ],
)
def test_how_many_gpus_its_qos_allows_is_asked_for_once(
    request_of, programs, reason, limits, number
):
    folder = Path(os.environ["SLURM_CONF"]).parent
    asked = folder / "asked"
    programs("scontrol", NODES.replace("QoS=N/A", "QoS=part"))
    (folder / "limits").write_text(f"{limits}\n")
    programs("sacctmgr", f"echo asked >>{asked}; cat {folder}/limits")
    request = waiting_for(request_of, reason, "few")
    for _ in range(3):
        assert request.waiting() == (3, f"3/8 GPUs in use; {REASONS[reason]}{number}")
    questions = asked.read_text() if asked.exists() else ""
    assert questions == ("" if reason == "Priority" else "asked\n")


def test_a_database_of_accounts_that_does_not_answer_is_not_a_silent_controller(programs):
    programs("scontrol", NODES)
    programs("sacctmgr", "echo 'sacctmgr: error: Connection refused' >&2; exit 1")
    slurm = Slurm()
    assert slurm.gpu_limits() == {}
    assert len(slurm.nodes()) == 2
    programs("sacctmgr", "echo 'few|gres/gpu=1|gres/gpu=3'")
    assert slurm.gpu_limits() == {"few": GpuLimits(1, 3)}


def test_a_folder_too_long_for_a_socket_is_refused(tmp_path):
    with pytest.raises(CommandError, match="longer than 107 bytes"):
        SlurmCluster(tmp_path / ("x" * 100))
    short = Path("/") / ("x" * 70)  # with room for munge's, and none for that of a job
    with pytest.raises(CommandError, match="longer than 107 bytes") as refused:
        SlurmCluster(short)
    assert "spool.n" in refused.value.where
    assert SlurmCluster(Path("/") / ("x" * 50)).conf.name == "slurm.conf"


def test_tasks_that_begin_and_end_while_slurm_is_asked_are_not_refused(request_of, monkeypatch):
    over = {"job_id": 7, "job_state": ["COMPLETED"], "tres_alloc_str": ""}
    request = request_of({**over}, tasks=(), number=7)
    found = request._found
    place = request._place

    def late(**options):
        jobs = found(**options)
        for task in ("worker-0", "worker-1"):
            (place / task).mkdir(parents=True)
            (place / task / "node").write_text("n1")
        return jobs

    monkeypatch.setattr(request, "_found", late)
    assert set(request.ask()) == {"worker-0", "worker-1"}
