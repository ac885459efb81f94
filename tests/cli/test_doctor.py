"""The doctor looks at a real machine, and says the way out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from submarine_engine import JobState, open_job
from submarine_engine.doctor import doctor
from submarine_engine.findings import BAD, NOTE, OK
from submarine_engine.history import default_home


def found(title, **overrides):
    return [check for check in doctor(overrides) if check.title == title]


def verdicts():
    return {check.title: check.verdict for check in doctor()}


def test_a_good_machine_has_nothing_bad(submarine):
    done = submarine("doctor")
    assert done.returncode == 0, done.stdout
    for word in ("Python", "settings: ", "disk", "GPUs", "notebook", "jobs"):
        assert word in done.stdout.decode()
    objects = [json.loads(line) for line in submarine("doctor", "--json").stdout.splitlines()]
    assert {frozenset(entry) for entry in objects} == {
        frozenset({"title", "verdict", "what", "fix"})
    }


def test_what_is_not_well_comes_with_the_way_out():
    assert all(check.fix for check in doctor() if check.verdict == BAD)


def test_a_wrong_configuration_is_found_not_raised(monkeypatch, submarine):
    monkeypatch.setenv("SUBMARINE_GRACE", "soon")
    (check,) = found("configuration")
    assert (check.verdict, "SUBMARINE_GRACE" in check.what) == (BAD, True)
    assert submarine("doctor").returncode == 1


def test_settings_say_where_they_come_from(monkeypatch):
    monkeypatch.setenv("SUBMARINE_GRACE", "9")
    assert found("setting grace")[0].what == "9 (from SUBMARINE_GRACE)"


def test_settings_that_nobody_has_chosen_are_one_line(monkeypatch):
    (before,) = found("settings")
    assert before.what.endswith(" have their defaults: submarine config show")
    assert not found("setting grace")
    monkeypatch.setenv("SUBMARINE_GRACE", "9")
    (after,) = found("settings")
    assert int(after.what.split()[0]) == int(before.what.split()[0]) - 1


def test_a_variable_that_is_spelled_wrong_is_found(monkeypatch):
    monkeypatch.setenv("SUBMARINE_GRAEC", "9")
    (check,) = found("environment")
    assert (check.verdict, check.fix) == (NOTE, "did you mean SUBMARINE_GRACE?")


def test_home_is_looked_at():
    assert "will be made" in found("home folder")[0].what
    assert found("home folder")[0].verdict == OK
    default_home().chmod(0o755)
    (check,) = found("home folder")
    assert (check.verdict, check.fix) == (NOTE, f"chmod 700 '{default_home()}'")
    shutil.rmtree(default_home())
    default_home().touch()
    assert found("home folder")[0].verdict == BAD


def test_declared_gpus_are_said_to_be_declared(monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "3")
    (check,) = found("GPUs")
    assert check.what.startswith("3 (declared GPU), 0 held; declared by SUBMARINE_LOCAL_GPUS")


def test_a_cluster_that_is_not_there_is_found():
    checks = found("cluster", cluster="nowhere")
    assert checks[0].verdict == BAD
    assert "there is no cluster 'nowhere'" in checks[0].what


def test_lost_jobs_are_found(folder, submarine):
    (folder / "train.py").write_text("import time\ntime.sleep(600)\n")
    submarine("job", "run", "train.py", "--detach")
    job = open_job("train")
    while not job.running():
        time.sleep(0.02)
    assert "lost jobs" not in verdicts()
    lost = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if job.id.encode() in process.read_bytes():
                lost.append(int(process.parent.name))
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them sees another's end
        for pid in lost:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    assert job.wait(180).state is JobState.LOST
    (check,) = found("lost jobs")
    assert (check.verdict, job.id in check.fix) == (NOTE, True)
    assert submarine("job", "wait", "train").returncode == 71


def test_a_missing_python_is_said(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert found("python in launch commands")[0].verdict == NOTE
