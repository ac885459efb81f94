"""The very same run once more: whatever was changed since, and told where it cannot be the same."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from dataclasses import replace

import pytest
from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.errors import CommandError, JobError, SubmarineError, SubmissionError
from submarine_engine.future import Job
from submarine_engine.history import read_json, write_json
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.pool.folder import PoolFolder
from submarine_engine.provenance import ENVIRONMENT, PROVENANCE, read_provenance
from submarine_engine.rerun import rerun as run_again
from submarine_engine.rerun import with_options

from tests.jobs import LIMIT, spec_of, until

DRAWN = """
import os, random
import helper
from pathlib import Path
random.seed(helper.SEED)
print("gpus", os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("RATE"))
Path(__file__).with_name("left.py").write_text("1")
[random.random().hex() for _ in range(5)]
"""


def bundle_of(script, **files):
    content = {"script.py": script.encode()}
    content |= {name.replace("_py", ".py"): text.encode() for name, text in files.items()}
    manifest = Manifest(
        entry="script.py",
        python=".".join(map(str, os.sys.version_info[:3])),
        modules=tuple(name for name in content if name != "script.py"),
    )
    return Bundle(files=content, manifest=manifest)


@pytest.fixture
def ran(local):
    """Return a function that runs a script to its end, and returns the job."""

    def run(script, files=(), workdir=None, **options):
        bundle = bundle_of(script, **dict(files))
        job_id = local.cluster.submit(spec_of(**options), bundle, workdir=workdir or local.folder)
        job = Job(local.cluster, job_id)
        job.wait(180)
        return job

    return run


def rerun(job, change=lambda spec: spec, *, tell=str):
    return Job(*run_again(job.id, change, cluster=job.cluster, tell=tell))


def spec_on_record(local, job):
    return JobSpec.from_json(read_json(local.paths(job.id).record)["spec"])


@pytest.mark.filterwarnings("ignore:which packages")
def test_a_rerun_is_the_very_same_with_other_options(local, ran, declare_gpus):
    """The job's own bytes, although Python and its code have added files beside them."""
    declare_gpus(2)
    job = ran(DRAWN, {"helper_py": "SEED = 7"}, gpus=1, name="drawn", env={"RATE": "1"})
    first = job.result(180)
    bundle = local.paths(job.id).bundle
    assert {"left.py", "script.py", "helper.py"} < {path.name for path in bundle.iterdir()}
    again = job.rerun(gpus=2, env={"OTHER": "x"}, time_limit="2h")
    assert again.result(180) == first
    assert "gpus 0,1 1" in local.follow(again.id).out
    before, after = spec_on_record(local, job), spec_on_record(local, again)
    assert after.roles[0].resources.gpus == 2
    assert (after.name, after.time_limit) == ("drawn", 7200)
    assert after.env == {"RATE": "1", "OTHER": "x"}
    assert replace(after, roles=before.roles, env=before.env, time_limit=None) == before
    records = [read_json(local.paths(one.id).record) for one in (job, again)]
    assert records[0]["bundle_hash"] == records[1]["bundle_hash"]
    assert (records[0].get("rerun_of"), records[1]["rerun_of"]) == (None, job.id)
    # What is in its bundle now is what was in the first one's, before it ran.
    once_more = again.rerun()
    assert once_more.result(180) == first


def test_what_is_another_now_is_told(local, ran, monkeypatch):
    monkeypatch.setenv("SUBMARINE_PROVENANCE", "true")
    monkeypatch.setattr("submarine_engine.rerun._PATIENCE", LIMIT)
    data = local.folder / "data.csv"
    data.write_text("1,2")
    job = ran("import random\nrandom.random()", input_path=str(data))
    paths = local.paths(job.id)
    until((paths.root / PROVENANCE).exists)
    until((paths.root / ENVIRONMENT).exists)
    told = []
    rerun(job, tell=told.append).wait(180)
    assert told == ["no seed is in its script: what it draws at random comes out otherwise"]
    data.write_text("1,2,3")
    noted = read_json(paths.root / ENVIRONMENT)
    for package in noted["packages"]:
        if package[0] in ("pytest", "click"):
            package[1] = "0.1"
    noted["packages"].append(["vanished", "1.0", ""])
    write_json(paths.root / ENVIRONMENT, noted)
    told.clear()
    rerun(job, tell=told.append).wait(180)
    assert [line.partition(":")[0] for line in told] == [
        f"other packages than for job {job.id}",
        f"other data than for job {job.id}",
        "no seed is in its script",
    ]
    assert "click 0.1 → " in told[0]
    assert "pytest 0.1 → " in told[0]
    assert told[0].endswith("vanished 1.0 is gone")
    assert "1 file, 3 bytes → 1 file, 5 bytes" in told[1]
    (paths.root / ENVIRONMENT).unlink()
    data.unlink()
    told.clear()
    with pytest.raises(SubmarineError, match=r"data\.csv"):  # nothing is submitted without it
        rerun(job, tell=told.append)
    assert told[0] == f"which packages job {job.id} ran with is not on record"
    assert told[1].endswith("data.csv: it is not there")


def test_a_secret_is_asked_from_where_it_came_again(local, ran, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", "the-first-token-of-all")
    job = ran("import os\nprint(os.environ['SERVICE_TOKEN'])", secrets=("SERVICE_TOKEN",))
    monkeypatch.delenv("SERVICE_TOKEN")
    before = {path.name for path in (local.home / "jobs").iterdir()}
    with pytest.raises(SubmissionError, match="no value is known for SERVICE_TOKEN"):
        rerun(job)
    assert {path.name for path in (local.home / "jobs").iterdir()} == before
    monkeypatch.setenv("SERVICE_TOKEN", "another-token-since")
    again = rerun(job)
    assert "another-token-since" not in local.follow(again.id).out
    assert again.status().state.value == "succeeded"


def test_a_job_that_never_began_is_run_anew(local, declare_gpus, tmp_path):
    declare_gpus(1)
    gate = tmp_path / "gate"
    held = local.submit(
        f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)", gpus=1
    )
    waiting = Job(local.cluster, local.cluster.submit(spec_of(gpus=1), bundle_of("40 + 2"),
        workdir=local.folder))  # fmt: skip
    waiting.cancel()
    waiting.wait(180)
    gate.touch()
    local.follow(held)
    assert rerun(waiting).result(180) == 42


def test_other_data_that_was_asked_for_is_no_surprise(local, ran, monkeypatch):
    for name in ("first", "second"):
        (local.folder / name).mkdir()
    job = ran("1", input_path=str(local.folder / "first"))
    noted = {"path": str(local.folder / "first"), "files": 9, "size": 9, "newest": 1.0,
             "names": "x", "content": "", "problem": ""}  # fmt: skip
    write_json(local.paths(job.id).root / PROVENANCE, {"data": noted})
    told = []
    second = str(local.folder / "second")
    rerun(job, lambda spec: replace(spec, input_path=second), tell=told.append).wait(180)
    assert not any("data" in line for line in told)
    noted["problem"] = "only its first 9 files were looked at"
    write_json(local.paths(job.id).root / PROVENANCE, {"data": noted})
    rerun(job, tell=told.append).wait(180)
    assert "whether its data has changed is not known" in told[-1]


def test_a_job_that_no_command_line_says_is_run_again_as_it_was():
    spec = JobSpec(roles=(Role(name="chief", resources=Resources(gpus=0)),))
    assert with_options(spec, {}) is spec
    assert with_options(spec, {"time_limit": None}) is spec
    with pytest.raises(CommandError, match="no command line says roles chief"):
        with_options(spec, {"time_limit": "1h"})


# What cannot be run again.


@pytest.fixture
def refused(local):
    """Return a function that says how a rerun is refused; no job is put on record by it."""

    def words(job, change=lambda spec: spec):
        before = {path.name for path in (local.home / "jobs").iterdir()}
        with pytest.raises((JobError, CommandError)) as caught:
            rerun(job, change)
        assert {path.name for path in (local.home / "jobs").iterdir()} == before
        assert caught.value.fix
        return str(caught.value)

    return words


def test_a_bundle_that_is_not_what_it_was_is_refused(local, ran, refused):
    job = ran("import helper\nhelper.x", {"helper_py": "x = 1"})
    paths = local.paths(job.id)
    good = (paths.bundle / "helper.py").read_bytes()
    (paths.bundle / "helper.py").write_text("x = 2")
    assert "have been changed since it ran" in refused(job)
    (paths.bundle / "helper.py").unlink()
    assert "have been changed since it ran" in refused(job)
    (paths.bundle / "helper.py").write_bytes(good)
    assert rerun(job).result(180) == 1
    (paths.bundle / "manifest.json").write_text("{")
    assert "its script cannot be read" in refused(job)
    shutil.rmtree(paths.bundle)
    assert "its script and values are gone" in refused(job)
    paths.record.write_text("{")
    assert "its record cannot be read" in refused(job)
    paths.record.unlink()
    assert "its record is gone" in refused(job)
    shutil.rmtree(paths.root)
    assert "its record is gone" in refused(job)


def test_a_bundle_of_an_older_release_is_known_by_its_own_manifest(local, ran):
    job = ran("1 + 1")
    paths = local.paths(job.id)
    manifest = read_json(paths.bundle / "manifest.json")
    del manifest["compiled"]
    write_json(paths.bundle / "manifest.json", manifest)
    record = read_json(paths.record)
    from submarine_engine.rerun import _hash

    record["bundle_hash"] = _hash({"script.py": b"1 + 1"}, manifest)
    write_json(paths.record, record)
    assert rerun(job).result(180) == 2


def test_a_job_of_another_python_is_refused(local, ran, refused):
    job = ran("1")
    paths = local.paths(job.id)
    manifest = {**read_json(paths.bundle / "manifest.json"), "python": "3.7.1"}
    write_json(paths.bundle / "manifest.json", manifest)
    from submarine_engine.rerun import _hash

    record = {**read_json(paths.record), "bundle_hash": _hash({"script.py": b"1"}, manifest)}
    write_json(paths.record, record)
    assert "its values were written by Python 3.7.1" in refused(job)


def test_what_works_for_another_job_is_refused(local, ran, refused, monkeypatch):
    job = ran("1")
    record = read_json(local.paths(job.id).record)
    record["spec"]["parent"] = "20260101-000000-aaaaa"
    write_json(local.paths(job.id).record, record)
    assert "it runs calls of job 20260101-000000-aaaaa" in refused(job)
    other = ran("2")
    monkeypatch.setattr(PoolFolder, "of_job", lambda *_: "a folder")
    assert "it runs a sweep or a map" in refused(other)


def test_a_rerun_does_not_go_on_from_the_first_one_s_checkpoints(local, ran, refused):
    script = (
        "import os\nfrom pathlib import Path\n"
        "kept = Path(os.environ['SUBMARINE_CHECKPOINT_PATH']) / 'kept'\n"
        "before = kept.exists()\nkept.parent.mkdir(exist_ok=True)\nkept.touch()\nbefore"
    )
    job = ran(script, checkpoint_path=str(local.folder / "first"))
    assert job.result(180) is False
    assert "from which a second run would go on" in refused(job)
    again = rerun(job, lambda spec: replace(spec, checkpoint_path="second"))
    assert again.result(180) is False
    own = ran(script.replace("'kept'", "'own'"))  # in a folder of its own job
    assert rerun(own).result(180) is False


def test_a_folder_that_is_gone_is_said(local, ran, refused):
    work = local.folder / "work"
    work.mkdir()
    job = ran("1", workdir=work)
    work.rmdir()
    assert f"the folder that it ran in is gone: {work}" in refused(job)


@pytest.mark.parametrize("options", [{"gups": 1}, {"cache": True}, {"sweep": "a=1"}])
def test_an_option_that_there_is_not_is_refused(ran, options):
    job = ran("1")
    with pytest.raises(CommandError, match=f"there is no option --{next(iter(options))}") as caught:
        job.rerun(**options)
    assert caught.value.fix


# Noting it is off the way.


def test_a_job_does_not_wait_for_what_is_noted_of_it(local, ran, monkeypatch, tmp_path):
    """A git that hangs is met by nobody but the process that asks it."""
    monkeypatch.setenv("SUBMARINE_PROVENANCE", "true")
    flag, work = tmp_path / "asked", tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    double = tmp_path / "bin" / "git"
    double.parent.mkdir()
    double.write_text(f"#!/bin/sh\necho $$ > {flag}.tmp; mv {flag}.tmp {flag}; exec sleep 600\n")
    double.chmod(0o700)
    monkeypatch.setenv("PATH", f"{double.parent}:{os.environ['PATH']}")
    job = ran("6 * 7", workdir=work)
    assert job.result(180) == 42
    until(flag.exists)
    with suppress(ProcessLookupError):  # on a slow machine it was given up before
        os.kill(int(flag.read_text()), signal.SIGKILL)
    until(lambda: read_provenance(local.paths(job.id)).git)
    assert read_provenance(local.paths(job.id)).git.problem.startswith("git")


def test_nothing_is_noted_where_the_setting_says_so(local, ran, monkeypatch):
    started = []
    monkeypatch.setattr("submarine_engine.clusters.driver.begin", lambda *_: started.append(1))
    ran("1")
    assert started == []
    monkeypatch.setenv("SUBMARINE_PROVENANCE", "true")
    ran("1")
    assert started == [1]
