"""The vocabulary: valid by construction, and the same after a trip through JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.errors import CommandError
from submarine_engine.job import ROLE_NAMES, JobSpec, JobState, Resources, Role, TaskState

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._=+,@~-]{0,63}", fullmatch=True)
TEXTS = st.none() | st.text(min_size=1)

RESOURCES = st.builds(
    Resources,
    gpus=st.none() | st.integers(0, 64),
    memory=st.none() | st.integers(1, 1 << 40),
    vcores=st.none() | st.integers(1, 1024),
)


def role_of(name):
    return st.builds(
        Role,
        name=st.just(name),
        count=st.just(1) if name == "chief" else st.integers(1, 100),
        resources=RESOURCES,
        command=st.none() | st.text(min_size=1).filter(str.strip),
    )


# Somebody works, whoever serves besides, in any order.
ROLES = st.tuples(
    st.sampled_from(["chief", "worker"]), st.sets(st.sampled_from(ROLE_NAMES))
).flatmap(
    lambda asked: st.permutations(sorted({asked[0], *asked[1]})).flatmap(
        lambda names: st.tuples(*map(role_of, names))
    )
)
SPECS = st.builds(
    JobSpec,
    name=NAMES,
    roles=ROLES,
    queue=TEXTS,
    docker_image=TEXTS,
    input_path=TEXTS,
    checkpoint_path=TEXTS,
    tensorboard=st.booleans(),
    quicklinks=st.lists(st.tuples(st.text(min_size=1), st.just("https://h/ü?a=b"))).map(tuple),
    env=st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True), st.text()),
    outputs=st.lists(st.sampled_from(["history", "größe", "_x1"])).map(tuple),
    notebook=TEXTS,
)


@given(SPECS)
def test_a_spec_survives_json(spec):
    assert JobSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@given(SPECS)
def test_tasks_are_numbered_members_of_their_roles(spec):
    assert len(set(spec.tasks)) == len(spec.tasks) == sum(role.count for role in spec.roles)
    for role in spec.roles:
        assert role.tasks[0] == f"{role.name}-0"
        assert role.tasks[-1] == f"{role.name}-{role.count - 1}"


@given(SPECS)
def test_gpus_are_those_of_all_tasks_or_open(spec):
    each = [role.resources.gpus for role in spec.roles]
    if None in each:
        assert spec.gpus is None
    else:
        assert spec.gpus == sum(
            gpus * role.count for gpus, role in zip(each, spec.roles, strict=True)
        )


@pytest.mark.parametrize("version", [None, 0, 2, "1"])
def test_an_unknown_version_is_refused(version):
    data = {**JobSpec().to_json(), "version": version}
    with pytest.raises(CommandError, match=f"of version {version!r} cannot be read") as caught:
        JobSpec.from_json(data)
    assert "upgrade submarine-notebook" in caught.value.fix


def test_every_field_travels():
    fields = {field.name for field in dataclasses.fields(JobSpec)}
    assert fields | {"version"} == set(JobSpec().to_json())


def test_a_spec_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        JobSpec().name = "other"


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: Resources(gpus=-1), "gpus=-1 is not possible"),
        (lambda: Resources(gpus=1.5), "gpus=1.5 is not possible"),
        (lambda: Resources(gpus=True), "gpus=True is not possible"),
        (lambda: Resources(gpus="2"), "gpus='2' is not possible"),
        (lambda: Resources(memory=0), "memory=0 is not possible"),
        (lambda: Resources(vcores=0), "vcores=0 is not possible"),
        (lambda: JobSpec(retries=-1), "retries=-1 is not possible"),
        (lambda: JobSpec(retries=True), "retries=True is not possible"),
        (lambda: JobSpec(retries="3"), "retries='3' is not possible"),
        (lambda: JobSpec(retries=1001), "a whole number from 0 to 1000"),
        (lambda: JobSpec(time_limit=0), "time_limit=0 is not possible"),
        (lambda: JobSpec(time_limit=float("nan")), "time_limit=nan is not possible"),
        (lambda: JobSpec(time_limit=float("inf")), "time_limit=inf is not possible"),
        (lambda: JobSpec(time_limit="2h"), "time_limit='2h' is not possible"),
        (lambda: JobSpec(idle=-1.0), "idle=-1.0 is not possible"),
        (lambda: JobSpec(idle=float("nan")), "idle=nan is not possible"),
        (lambda: JobSpec(grace=-1), "grace=-1 is not possible"),
        (lambda: JobSpec(grace=float("nan")), "grace=nan is not possible"),
        (lambda: Role(name="boss"), "there is no role 'boss'"),
        (lambda: Role(name="chief", count=2), "a job has one chief, not 2"),
        (
            lambda: JobSpec(roles=(Role(name="ps"), Role(name="evaluator"))),
            "nobody works in a job of ps, evaluator alone",
        ),
        (lambda: Role(count=0), "role worker cannot have 0 tasks"),
        (lambda: Role(count=True), "role worker cannot have True tasks"),
        (lambda: Role(count=2, least=4), "4 to 2 workers is not possible"),
        (lambda: Role(count=2, least=0), "0 to 2 workers is not possible"),
        (lambda: Role(count=2, least=2), "2 to 2 workers is not possible"),
        (lambda: Role(count=2, least=True), "True to 2 workers is not possible"),
        (lambda: Role(name="ps", count=2, least=1), "the number of ps tasks cannot change"),
        (lambda: Role(command="  "), "launch command of role worker is empty"),
        (lambda: JobSpec(name=""), "'' cannot name a job"),
        (lambda: JobSpec(name="../etc"), "'../etc' cannot name a job"),
        (lambda: JobSpec(name="mnist\n"), r"'mnist\n' cannot name a job"),
        (lambda: JobSpec(name="x" * 65), "cannot name a job"),
        (lambda: JobSpec(name="hdfs:x"), "'hdfs:x' cannot name a job"),
        (lambda: JobSpec(name="~"), "'~' cannot name a job"),
        (lambda: JobSpec(name="<script>"), "'<script>' cannot name a job"),
        (lambda: JobSpec(roles=()), "a job needs each role once"),
        (lambda: JobSpec(roles=(Role(), Role())), "a job needs each role once"),
        (lambda: JobSpec(env={"A=B": "1"}), "'A=B' cannot name an environment variable"),
        (lambda: JobSpec(env={"": "1"}), "'' cannot name an environment variable"),
        (lambda: JobSpec(outputs=("a.b",)), "'a.b' cannot name a variable"),
        (lambda: JobSpec(outputs=("1a",)), "'1a' cannot name a variable"),
        (lambda: JobSpec(quicklinks=(("ui", "javascript:alert(1)"),)), "is not a web address"),
        (lambda: JobSpec(quicklinks=(("", "https://h"),)), "is not a web address"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(build, what):
    with pytest.raises(CommandError) as caught:
        build()
    assert what in caught.value.what
    assert caught.value.fix


def test_a_rank_for_each_gpu_is_a_task_of_one():
    both = Resources(gpus=2, memory=4096, vcores=3)
    ps = Role(name="ps", resources=Resources(gpus=0, memory=512))
    spec = JobSpec(roles=(Role(count=2, resources=both), ps), ranks_per_task="gpu")
    ranks = spec.each_rank_a_task()
    assert ranks.tasks == ("worker-0", "worker-1", "worker-2", "worker-3", "ps-0")
    assert ranks.roles[0].resources == Resources(gpus=1, memory=2048, vcores=1)
    assert ranks.roles[1] == ps
    assert ranks.gpus == spec.gpus
    assert ranks.each_rank_a_task() == ranks
    assert JobSpec(roles=spec.roles).each_rank_a_task().tasks == ("worker-0", "worker-1", "ps-0")


@pytest.mark.parametrize(
    ("roles", "what", "fix"),
    [
        ((Role(),), "no worker is said to have any", "--gpus 4"),
        ((Role(resources=Resources(gpus=0)),), "no worker is said to have any", "--gpus 4"),
        ((Role(name="chief"),), "no worker is said to have any", "--gpus 4"),
        (
            (
                Role(name="chief", resources=Resources(gpus=2)),
                Role(resources=Resources(gpus=2)),
            ),
            "a chief is one rank, and is to have 2 GPUs",
            "--chief_resources gpu=1",
        ),
        *(
            (
                (Role(resources=Resources(gpus=2), command=command),),
                f"{name} starts a process for each GPU",
                "leave --ranks_per_task out",
            )
            for command, name in [
                ("torchrun train.py", "torchrun"),
                ("NCCL_DEBUG=INFO /opt/bin/torchrun --standalone train.py", "torchrun"),
                ("python -m torch.distributed.run train.py", "torch.distributed.run"),
                ("accelerate launch train.py", "accelerate launch"),
            ]
        ),
    ],
)
def test_a_rank_for_each_gpu_where_that_means_nothing(roles, what, fix):
    with pytest.raises(CommandError) as caught:
        JobSpec(roles=roles, ranks_per_task="gpu")
    assert what in caught.value.what
    assert caught.value.where == "--ranks_per_task gpu"
    assert fix in caught.value.fix
    assert JobSpec(roles=roles)


@pytest.mark.parametrize("state", JobState)
def test_final_job_states(state):
    assert state.final == (state in {"succeeded", "failed", "cancelled", "lost"})


@pytest.mark.parametrize("state", TaskState)
def test_final_task_states(state):
    assert state.final == (state in {"succeeded", "failed", "killed"})


def test_an_elastic_job_has_its_other_roles_whatever_the_number_of_workers():
    one = Resources(gpus=1)
    roles = Role(name="chief", resources=one), Role(count=4, least=2, resources=one)
    spec = JobSpec(roles=(*roles, Role(name="ps", resources=Resources(gpus=0))))
    assert spec.tasks == ("chief-0", "worker-0", "worker-1", "worker-2", "worker-3", "ps-0")
    assert (spec.gpus, spec.smallest.gpus) == (5, 3)
    assert spec.smallest.tasks == ("chief-0", "worker-0", "worker-1", "ps-0")
    assert spec.sized(3).elastic is None
    assert JobSpec.from_json(spec.to_json()) == spec


def test_the_code_of_an_elastic_job_may_run_again():
    assert JobSpec().tries is None
    assert JobSpec(roles=(Role(count=2, least=1),)).tries == 0
    assert JobSpec(roles=(Role(count=2, least=1),), retries=3).tries == 3


def test_an_elastic_job_with_a_rank_for_each_gpu_has_as_many_ranks_as_gpus():
    workers = Role(count=4, least=2, resources=Resources(gpus=2))
    spec = JobSpec(roles=(workers,), ranks_per_task="gpu").each_rank_a_task()
    assert (spec.roles[0].least, spec.roles[0].count, spec.gpus) == (4, 8, 8)
