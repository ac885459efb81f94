"""``--cluster any``: the first of several clusters whose GPUs are free, and why."""

from __future__ import annotations

import json
import threading

import pytest
from submarine_engine import launch, open_job
from submarine_engine.cli import main
from submarine_engine.clusters import choice, cluster_kind, open_cluster
from submarine_engine.clusters.base import Gpu, room_on
from submarine_engine.clusters.choice import candidates, cluster_for
from submarine_engine.command import complete
from submarine_engine.config import load_config
from submarine_engine.doctor import doctor
from submarine_engine.errors import ClusterError, ConfigError, SubmarineError, SubmissionError
from submarine_engine.job import Resources, Role
from submarine_engine.notebooks import submit_server
from submarine_engine.records import list_jobs

from tests.contract.conftest import use_backend
from tests.jobs import bundle_of, end_processes_of, spec_of, until

HOLD = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\n"


@pytest.fixture
def several(tmp_path, monkeypatch):
    """Give this machine with one GPU, and hosts of four; return the file that ends `HOLD`."""
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    monkeypatch.setenv("SUBMARINE_ANY_OF", "local,hosts")
    monkeypatch.setenv("SUBMARINE_ANY_WITHIN", "60")  # the machine may be busy
    gate = tmp_path / "gate"
    yield gate
    gate.touch()
    for job in list_jobs():
        found = open_job(job.id)
        if not found.done():
            found.kill()
            found.wait(180)
    left = end_processes_of(tmp_path / "home", patience=60)
    assert not left, f"left running: {left}"


@pytest.fixture
def asks_hosts(several, monkeypatch):
    """Have another function asked in place of the hosts' own check."""
    return lambda check: monkeypatch.setattr(cluster_kind("hosts"), "check", check)


def choose(**options):
    """Return the name of the cluster that a job would go to, and the reason."""
    cluster, spec = cluster_for("any", spec_of(**options))
    return cluster.name, spec.chosen


def submit(text, **options):
    """Submit a script as `submarine job run --cluster any` does; return cluster, reason and id."""
    cluster, spec = cluster_for("any", spec_of(**options))
    return cluster.name, spec.chosen, cluster.submit(spec, bundle_of(text), workdir=open_folder())


def open_folder():
    return load_config().path.parents[2]


def test_the_first_with_free_gpus_takes_a_job_and_says_why(several, tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(HOLD.format(str(several)))
    words = ["job", "run", str(script), "--cluster", "any", "--gpus", "1", "--detach", "--json"]
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["cluster"] == "local"
    assert main(words) == 0  # the first one holds the only GPU of this machine, or waits for it
    second = json.loads(capsys.readouterr().out)
    assert second["cluster"] == "hosts"

    told = [open_job(one["job"]) for one in (first, second)]
    assert [job.cluster.name for job in told] == ["local", "hosts"]
    assert main(["job", "show", first["job"]]) == 0
    assert "local: 1 GPU free, 1 asked for\n" in capsys.readouterr().out
    assert main(["job", "show", second["job"]]) == 0
    shown = capsys.readouterr().out
    assert "hosts: 4 GPUs free, 1 asked for; local: " in shown
    assert main(["job", "show", second["job"], "--json"]) == 0
    spec = json.loads(capsys.readouterr().out)["spec"]
    assert spec["chosen"].startswith("hosts: 4 GPUs free, 1 asked for; local: ")


def test_what_waits_already_is_not_free(several):
    submit(HOLD.format(str(several)), gpus=1)
    until(lambda: not [gpu for gpu in open_cluster("local").gpus() if gpu.held_by is None])
    waits = open_cluster("local").submit(spec_of(gpus=1), bundle_of("1"), workdir=open_folder())
    _, chosen = choose(gpus=1)
    assert chosen.startswith("hosts: ")
    assert chosen.endswith("local: 0 GPUs free, 1 asked for, others wait for 1")
    assert open_job(waits).status().state.value == "queued"


def test_where_nobody_has_room_the_first_that_takes_it_has_it(several, monkeypatch):
    monkeypatch.setenv("SUBMARINE_ANY_OF", "local")
    submit(HOLD.format(str(several)), gpus=1)
    name, chosen, job_id = submit("1", gpus=1)
    assert name == "local"
    assert "no cluster has room now, and this is the first that takes it" in chosen
    several.touch()
    assert open_job(job_id).wait(180).state.value == "succeeded"


def test_who_refuses_the_job_is_passed_over_and_where_all_do_each_says_why(several):
    name, chosen = choose(gpus=4)
    assert name == "hosts"
    assert "local: the job asks for 4 GPUs" in chosen
    before = list_jobs()
    with pytest.raises(SubmissionError, match="no cluster can take the job now") as refused:
        submit("1", gpus=9)
    assert "local: the job asks for 9 GPUs" in refused.value.what
    assert "hosts: the job asks for 9 GPUs, a host has 4" in refused.value.what
    assert "any_of" in refused.value.fix
    assert [job.id for job in list_jobs()] == [job.id for job in before]


def test_an_error_that_is_the_jobs_own_is_told_once(several):
    with pytest.raises(SubmarineError) as refused:
        submit("1", gpus=1, env={"SUBMARINE_TASK": "worker-7"})
    assert "SUBMARINE_TASK" in str(refused.value)
    assert "no cluster" not in refused.value.what


def test_who_does_not_answer_is_passed_over_and_nothing_is_on_record_before(
    several, asks_hosts, monkeypatch
):
    gate, asked, on_record = threading.Event(), threading.Event(), []

    def silent(backend, spec):
        if not asked.is_set():
            on_record.extend(list_jobs())
            asked.set()
        gate.wait(180)

    asks_hosts(silent)
    answer = choice._answer
    # Nobody is given up before it was asked, however late its thread is.
    monkeypatch.setattr(choice, "_answer", lambda *told: asked.wait(180) and answer(*told))
    monkeypatch.setenv("SUBMARINE_ANY_OF", "hosts,local")
    try:
        # A busy machine may need as long for its own answer.
        chosen, job_id = next(filter(None, map(passes_over_hosts(monkeypatch), (2, 20))))
        assert chosen.startswith("local: 1 GPU free, 1 asked for; hosts: did not answer within ")
        assert on_record == []
        assert [job.id for job in list_jobs()] == [job_id]
        monkeypatch.setenv("SUBMARINE_ANY_OF", "hosts")
        monkeypatch.setenv("SUBMARINE_ANY_WITHIN", "0.1")
        with pytest.raises(ClusterError, match="did not answer within"):
            submit("1", gpus=1)
    finally:
        gate.set()


def passes_over_hosts(monkeypatch):
    """Give what submits a job to the local cluster, unless that takes longer than it may, too."""

    def passed(within):
        monkeypatch.setenv("SUBMARINE_ANY_WITHIN", str(within))
        try:
            _, chosen, job_id = submit("1", gpus=1)
        except ClusterError:
            return None
        return chosen, job_id

    return passed


class OddError(Exception):
    """What a client of somebody else's may raise: its own words fail, too."""

    def __str__(self):
        raise RuntimeError


UNFORESEEN = [
    (RuntimeError("no\nroute \x1b[31m"), "RuntimeError: no route ?[31m"),
    (KeyError("items"), "KeyError: 'items'"),
    (TimeoutError("took too long"), "took too long"),  # an OSError, and not that it is late here
    (AssertionError(), "AssertionError"),
    (SystemExit(3), "SystemExit: 3"),
    (OddError(), "OddError"),
]


@pytest.mark.parametrize(("error", "words"), UNFORESEEN)
@pytest.mark.parametrize("fails", ["check", "open"])
def test_one_that_fails_in_an_unforeseen_way_is_named_and_stops_no_other(
    several, monkeypatch, error, words, fails
):
    def fail(*_):
        raise error

    kind = cluster_kind("hosts")
    monkeypatch.setattr(kind, "check" if fails == "check" else "__init__", fail)
    monkeypatch.setenv("SUBMARINE_ANY_OF", "hosts,local")
    name, chosen = choose(gpus=1)
    assert name == "local"
    assert chosen.startswith("local: 1 GPU free, 1 asked for; hosts: ")
    assert chosen.endswith(words)
    monkeypatch.setenv("SUBMARINE_ANY_OF", "hosts")
    with pytest.raises(ClusterError) as refused:
        choose(gpus=1)
    assert refused.value.what.endswith(" ".join(str(words).replace("?", "\x1b").split()))
    assert refused.value.where == "hosts"


def test_one_whose_gpus_cannot_be_told_for_an_unforeseen_reason_takes_jobs_last(
    several, monkeypatch
):
    def fail(*_):
        raise UnboundLocalError("left over")

    monkeypatch.setattr(cluster_kind("hosts"), "gpus", fail)
    monkeypatch.setenv("SUBMARINE_ANY_OF", "hosts,local")
    assert choose(gpus=1)[0] == "local"
    monkeypatch.setenv("SUBMARINE_ANY_OF", "hosts")
    name, chosen = choose(gpus=1)
    assert name == "hosts"
    assert "UnboundLocalError: left over" in chosen


def test_one_that_cannot_say_whether_the_user_has_it_is_asked(several, monkeypatch):
    def fail():
        raise RuntimeError("spoilt")

    monkeypatch.delenv("SUBMARINE_ANY_OF")
    monkeypatch.setattr(cluster_kind("hosts"), "configured", fail)
    assert "hosts" in candidates()


def test_a_job_of_no_gpus_goes_to_the_first_and_asks_nobody_else(several, asks_hosts):
    asked = []
    asks_hosts(lambda *_: asked.append(1))
    name, chosen = choose(gpus=0)
    assert (name, chosen, asked) == ("local", "local: no GPU asked for", [])


def test_where_the_number_is_open_one_with_gpus_is_chosen(several, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "0")
    name, chosen = choose(gpus=None)
    assert (name, chosen) == ("hosts", "hosts: 4 GPUs free, 1 asked for; local: no GPU")
    monkeypatch.setenv("SUBMARINE_ANY_OF", "local")
    assert choose(gpus=None) == ("local", "local: no cluster that takes it has a GPU")


def test_every_way_to_submit_chooses(several, monkeypatch):
    monkeypatch.setenv("SUBMARINE_CLUSTER", "any")
    assert launch(sum, [1, 2], gpus=1) == 3
    (done,) = list_jobs()
    assert open_job(done.id).cluster.name == "local"
    hold = submit(HOLD.format(str(several)), gpus=1)[2]
    with pytest.warns(UserWarning, match="which packages") as warned:  # none are noted in tests
        again = open_job(done.id).rerun(cluster="any")
    assert len(warned) == 1
    assert again.cluster.name == "hosts"
    assert again.result(180) == 3
    server = submit_server("notebook", "no_such", {"gpus": 1}, {}, str, open_folder())
    assert server.cluster.name == "hosts"
    several.touch()
    assert open_job(hold).wait(180).state.value == "succeeded"


def test_any_is_no_cluster_by_itself(several):
    with pytest.raises(ConfigError, match="one of several is chosen for each job") as refused:
        open_cluster("any")
    assert "hosts, local" in refused.value.fix
    with pytest.raises(ConfigError, match="there is no cluster 'nowhere'") as refused:
        open_cluster("nowhere")
    assert "any" in refused.value.fix
    assert complete("job run --cluster an") == ["any"]


@pytest.mark.parametrize("bad", ["any", "local,any", "local,local", ",", "local,"])
def test_a_list_that_cannot_be_used_is_refused(monkeypatch, bad):
    monkeypatch.setenv("SUBMARINE_ANY_OF", bad)
    with pytest.raises(ConfigError, match="any_of cannot be"):
        candidates()


def test_a_cluster_of_the_list_that_is_none_is_passed_over(several, monkeypatch):
    monkeypatch.setenv("SUBMARINE_ANY_OF", "nowhere,local")
    _, chosen = choose(gpus=1)
    assert chosen.endswith("; nowhere: there is no cluster 'nowhere'")


def test_unless_set_it_is_all_that_there_are_this_machine_first(several, monkeypatch):
    monkeypatch.delenv("SUBMARINE_ANY_OF")
    found = candidates()
    assert found[0] == "local"
    assert "hosts" in found


def test_gpus_and_doctor_look_at_all_of_them(several, monkeypatch, capsys):
    assert main(["gpus", "--cluster", "any", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["cluster"] for one in told] == ["local"] + 4 * ["hosts"]
    monkeypatch.setenv("SUBMARINE_ANY_OF", "nowhere,local")
    assert main(["gpus", "--cluster", "any"]) == 1
    shown = capsys.readouterr()
    assert "there is no cluster 'nowhere'" in shown.err
    assert "local:\nGPU" in shown.out
    found = {check.title: check for check in doctor({"cluster": "any"})}
    assert found["cluster"].what.endswith("the first of nowhere, local whose GPUs are free")
    assert (found["nowhere"].verdict, "local: GPUs" in found) == ("note", True)


def test_one_that_fails_in_an_unforeseen_way_hides_no_other_from_gpus_and_doctor(
    several, monkeypatch, capsys
):
    def fail(*_):
        raise RuntimeError("no route")

    kind = cluster_kind("hosts")
    monkeypatch.setattr(kind, "gpus", fail)
    monkeypatch.setattr(kind, "checks", fail)
    monkeypatch.setenv("SUBMARINE_ANY_OF", "hosts,local")
    assert main(["gpus", "--cluster", "any"]) == 1
    shown = capsys.readouterr()
    assert "RuntimeError: no route" in shown.err
    assert "local:\nGPU" in shown.out
    found = {check.title: check for check in doctor({"cluster": "any"})}
    assert found["hosts"].what.endswith("RuntimeError: no route")
    assert {"local: GPUs", "jobs"} <= set(found)
    alone = {check.title: check for check in doctor({"cluster": "hosts"})}
    assert (alone["cluster"].verdict, "jobs" in alone) == ("bad", True)
    assert alone["cluster"].what.endswith("RuntimeError: no route")


def test_the_cause_at_the_end_of_a_long_error_is_told(several, monkeypatch):
    def fail(*_):
        raise RuntimeError("tried\n" * 100 + "no such host")

    monkeypatch.setattr(cluster_kind("hosts"), "check", fail)
    monkeypatch.setenv("SUBMARINE_ANY_OF", "hosts,local")
    _, chosen = choose(gpus=1)
    assert "RuntimeError: tried tried" in chosen
    assert chosen.endswith("no such host")


@pytest.mark.parametrize(
    ("error", "is_there"), [(AttributeError("mistaken"), True), (ImportError("missing"), False)]
)
def test_a_mistake_in_what_says_whether_the_user_has_a_cluster_is_no_missing_package(
    several, monkeypatch, error, is_there
):
    def fail():
        raise error

    monkeypatch.setattr(cluster_kind("hosts"), "configured", fail)
    monkeypatch.delenv("SUBMARINE_ANY_OF")
    assert ("hosts" in candidates()) == is_there


def test_a_task_has_its_gpus_on_one_host():
    gpus = [
        Gpu(id=f"{host}{n}", name="GPU", host=host, holder="bob" if n < held else None)
        for host, held in (("a", 0), ("b", 1)) for n in range(4)
    ]  # fmt: skip

    def room(*tasks):
        roles = [
            Role(name=name, count=count, resources=Resources(gpus=each))
            for name, (count, each) in zip(("worker", "ps"), tasks, strict=False)
        ]
        return room_on(gpus, spec_of(roles=tuple(roles))).free

    assert room((1, 1)) == 7
    assert room((1, 2)) == 6
    assert room((1, 4)) == 4
    assert room((2, 4)) == 0
    assert room((2, 3), (1, 1)) == 7
    assert room((1, 0)) == 0
