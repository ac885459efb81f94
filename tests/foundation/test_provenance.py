"""What a job ran with: noted beside it, bounded in time and size, and never trusted when read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine import provenance
from submarine_engine.clusters import locks
from submarine_engine.history import JobPaths, make_private, new_job_id, write_json
from submarine_engine.provenance import (
    DIFF,
    ENVIRONMENT,
    PROVENANCE,
    begin,
    draws_numbers,
    environment_now,
    keep_environment,
    look_at_data,
    look_at_repository,
    main,
    read_provenance,
    seeds_in,
)

from tests.jobs import LIMIT


@pytest.fixture
def job(tmp_path):
    paths = JobPaths(tmp_path / "home", new_job_id())
    make_private(paths.root)
    return paths


@pytest.fixture
def program(tmp_path):
    """Return a function that makes a program to stand in for git."""

    def make(text):
        path = tmp_path / "git-double"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o700)
        return str(path)

    return make


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return a repository with one commit of one file."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "train.py").write_text("rate = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def git(folder, *words):
    said = ("-c", "user.name=n", "-c", "user.email=n@localhost")
    done = subprocess.run(
        ["git", "-C", folder, *said, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def note(paths, **asked):
    """Have noted what `begin` would leave of a job."""
    home = paths.root.parents[1]
    told = {"kept": str(home / "kept.json"), "entries": [], "python": "3", "prefix": "",
            "workdir": "", "data": "", **asked}  # fmt: skip
    make_private(home / "noting")
    write_json(home / "noting" / f"{paths.job_id}.json", told)
    see_through(home, home / "noting")


def see_through(home, folder):
    """Note all that is left in a folder, as the process beside does."""
    lock = locks.take(folder / "lock")
    main(str(home), str(folder), str(lock))
    assert locks.is_free(folder / "lock")


def take_words(monkeypatch):
    """Have nothing started by `begin`; return the list that has the words of what would be."""
    started = []
    monkeypatch.setattr(
        "submarine_engine.clusters.machine.spawn_detached",
        lambda words, *_, **__: started.append(words),
    )
    return started


@pytest.fixture(autouse=True)
def kind(monkeypatch):
    """Let `main` change nothing of the tests' own process."""
    monkeypatch.setattr(provenance.os, "nice", lambda _: 0)
    monkeypatch.setattr(provenance.os, "umask", lambda _: 0)
    monkeypatch.setattr(provenance, "_GIT_PATIENCE", LIMIT)
    monkeypatch.setattr(provenance, "_DATA_PATIENCE", LIMIT)


# The environment.


def site(tmp_path, **versions):
    entry = tmp_path / "site-packages"
    for name, version in versions.items():
        info = entry / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text(f"{name}/__init__.py,sha256=,{version}\n")
    os.utime(entry, (1000, 1000))
    return entry


def test_an_environment_is_looked_at_once_for_all_its_jobs(tmp_path, monkeypatch):
    entry = site(tmp_path, numpy="2.0", Flax_nnx="1.5")
    (entry / "old-0.1.egg-info").mkdir()  # of a package without a record
    os.utime(entry, (1000, 1000))
    monkeypatch.setattr(sys, "path", [str(entry), *(p for p in sys.path if "-packages" not in p)])
    home = tmp_path / "home"
    started = take_words(monkeypatch)
    first, second, third = (JobPaths(home, new_job_id()) for _ in range(3))
    for paths in (first, second, third):
        make_private(paths.root)
    begin(first, tmp_path, None)
    (words,) = started
    see_through(home, Path(words[-2]))
    told = read_provenance(first).environment
    assert told == environment_now()
    versions = {name: version for name, (version, _) in told.by_name().items()}
    assert versions == {"flax-nnx": "1.5", "numpy": "2.0", "old": "0.1"}
    assert [len(record) for _, record in told.by_name().values()] == [64, 64, 0]
    begin(second, tmp_path, None)
    assert len(started) == 1  # nothing was left to do
    assert (second.root / ENVIRONMENT).samefile(first.root / ENVIRONMENT)
    assert (second.root / ENVIRONMENT).stat().st_mode & 0o777 == 0o600
    site(tmp_path, torch="3.0")
    os.utime(entry, (2000, 2000))
    begin(third, tmp_path, None)
    assert len(started) == 2
    see_through(home, Path(started[1][-2]))
    assert "torch" in read_provenance(third).environment.by_name()
    assert "torch" not in read_provenance(second).environment.by_name()


def test_what_an_installer_may_still_be_at_is_kept_for_no_other_job(tmp_path, job):
    entry = site(tmp_path, numpy="2.0")
    os.utime(entry)
    kept = tmp_path / "kept.json"
    keep_environment(kept, [str(entry)], "/somewhere", job.root / ENVIRONMENT)
    assert not kept.exists()
    assert read_provenance(job).environment.packages[0][:2] == ("numpy", "2.0")


def test_an_environment_is_copied_where_no_link_can_be(tmp_path, job, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(provenance.os, "link", refuse)
    entry = site(tmp_path, numpy="2.0")
    keep_environment(tmp_path / "kept.json", [str(entry)], "/somewhere", job.root / ENVIRONMENT)
    assert read_provenance(job).environment.prefix == "/somewhere"
    assert (job.root / ENVIRONMENT).stat().st_nlink == 1


def test_a_job_folder_that_is_gone_costs_nothing(tmp_path, job, repository):
    shutil.rmtree(job.root)
    begin(job, tmp_path, None)
    note(job, entries=[str(site(tmp_path, numpy="2.0"))], workdir=str(repository))
    assert not job.root.exists()


# The process that notes.


def test_jobs_that_come_together_are_noted_by_one_process_that_asks_git_once(
    tmp_path, repository, monkeypatch
):
    home, started, looks = tmp_path / "home", take_words(monkeypatch), []
    jobs = [JobPaths(home, new_job_id()) for _ in range(3)]
    data = repository / "train.py"
    for paths in jobs:
        make_private(paths.root)
    look = provenance.look_at_repository

    def looking(*words):
        looks.append(words)
        if len(looks) == 1:  # one more comes while git is asked: it is noted, too
            begin(jobs[2], repository, None)
        return look(*words)

    monkeypatch.setattr(provenance, "look_at_repository", looking)
    monkeypatch.setattr(provenance, "_LATER", 0.0)
    begin(jobs[0], repository, data)
    folder = Path(started[0][-2])
    held = locks.take(folder / "lock")  # the first's process runs
    begin(jobs[1], repository, None)
    assert len(started) == 1
    main(str(home), str(folder), str(held))
    assert len(started) == 1
    assert len(looks) == 2
    head = git(repository, "rev-parse", "HEAD")
    told = [read_provenance(paths) for paths in jobs]
    assert [one.git.commit for one in told] == [head] * 3
    assert [one.data and one.data.files for one in told] == [1, None, None]
    assert not list(folder.glob("*.json"))
    assert locks.is_free(folder / "lock")


def test_what_came_as_the_process_let_go_of_its_lock_is_noted(tmp_path, repository, monkeypatch):
    home, started = tmp_path / "home", take_words(monkeypatch)
    jobs = [JobPaths(home, new_job_id()) for _ in range(2)]
    for paths in jobs:
        make_private(paths.root)
    begin(jobs[0], repository, None)
    folder, drop = Path(started[0][-2]), locks.drop
    held = locks.take(folder / "lock")

    def dropped_late(descriptor):
        if not (jobs[1].root / ENVIRONMENT).exists():
            begin(jobs[1], repository, None)  # sees the lock held, and starts nothing
        drop(descriptor)

    monkeypatch.setattr(locks, "drop", dropped_late)
    main(str(home), str(folder), str(held))
    assert len(started) == 1
    assert read_provenance(jobs[1]).git is not None


def test_what_is_spoilt_or_too_late_is_noted_for_nobody(tmp_path, repository, job):
    home = job.root.parents[1]
    folder = home / "noting"
    make_private(folder)
    (folder / f"{new_job_id()}.json").write_text("no JSON")
    (folder / f"{new_job_id()}.json").write_text('{"entries": 3}')
    (folder / "..json").write_text("{}")
    late = folder / f"{job.job_id}.json"
    write_json(late, {"entries": [], "workdir": str(repository), "data": ""})
    os.utime(late, (1000, 1000))
    see_through(home, folder)
    assert not list(folder.glob("*.json"))
    assert list(job.root.iterdir()) == []


# The repository.


def test_commit_and_difference_are_noted(repository, job):
    (repository / "train.py").write_text("rate = 2\n")
    (repository / "new.py").write_text("secret = 1\n")
    (repository / "inner").mkdir()
    note(job, workdir=str(repository / "inner"))
    found = read_provenance(job).git
    assert (found.root, found.branch) == (str(repository), "trunk")
    assert found.commit == git(repository, "rev-parse", "HEAD")
    assert (found.changed, found.untracked) == (("train.py",), ("new.py",))
    assert (found.cut, found.problem) == (False, "")
    diff = job.root / DIFF
    assert "-rate = 1\n+rate = 2\n" in diff.read_text()
    assert "secret" not in diff.read_text()  # of what git does not know, the name alone
    assert {path.stat().st_mode & 0o777 for path in (diff, job.root / PROVENANCE)} == {0o600}


def test_a_repository_as_it_was_committed_has_no_difference(repository, job):
    note(job, workdir=str(repository))
    found = read_provenance(job).git
    assert found.diff == ""
    assert found.changed == ()
    assert not (job.root / DIFF).exists()


def test_a_repository_before_its_first_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    git(tmp_path, "init", "-q")
    (tmp_path / "train.py").write_text("1")
    found, diff = look_at_repository(str(tmp_path), LIMIT)
    assert found.commit == ""
    assert "train.py" in found.untracked
    assert (diff, found.problem) == (b"", "")


def test_a_long_difference_is_cut(repository):
    (repository / "train.py").write_text("x = 'long'\n" * 200_000)
    found, diff = look_at_repository(str(repository), LIMIT)
    assert found.cut
    assert len(diff) == 1 << 20


def test_a_program_that_a_repository_names_is_not_run(repository, tmp_path, program):
    flag = tmp_path / "ran"
    double = program(f"touch {flag}; cat")
    for name in ("diff.external", "core.fsmonitor", "core.pager"):
        git(repository, "config", name, double)
    (repository / "train.py").write_text("rate = 2\n")
    found, diff = look_at_repository(str(repository), LIMIT)
    assert found.changed == ("train.py",)
    assert b"+rate = 2" in diff
    assert not flag.exists()


@pytest.mark.parametrize(
    ("double", "patience", "problem"),
    [
        ("sleep 600 & wait", 0.2, "git has not answered within 0.2 s"),
        ("exec >&- 2>&-; sleep 600", 0.2, "git has not answered within 0.2 s"),
        ("echo fatal: dubious ownership >&2; exit 128", LIMIT, "git: fatal: dubious ownership"),
        ("kill -SEGV $$", LIMIT, "git: it ended with -11"),
    ],
)
def test_a_git_that_does_not_answer_is_left_to_itself(
    repository, program, double, patience, problem
):
    found, diff = look_at_repository(str(repository), patience, program(double))
    assert found.problem == problem
    assert diff == b""


def test_what_git_has_answered_is_kept_where_it_fails_later(repository, program):
    git_path = shutil.which("git")
    double = program(
        f'case "$*" in *ls-files*) echo too many >&2; exit 1;; *) exec {git_path} "$@";; esac'
    )
    found, _ = look_at_repository(str(repository), LIMIT, double)
    assert found.commit == git(repository, "rev-parse", "HEAD")
    assert found.problem == "git: too many"


def test_a_machine_without_git(repository, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert look_at_repository(str(repository), LIMIT)[0].problem == "git is not installed"


# Data.


def test_data_is_the_same_by_its_content(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("1,2")
    before = look_at_data(str(data), LIMIT)
    assert (before.files, before.size) == (1, 3)
    os.utime(data / "a.csv", (1000, 1000))
    assert before.same(look_at_data(str(data), LIMIT))
    (data / "a.csv").write_text("1,3")
    assert not before.same(look_at_data(str(data), LIMIT))
    (data / "a.csv").unlink()
    assert not before.same(look_at_data(str(data), LIMIT))
    assert look_at_data(str(data / "a.csv"), LIMIT).problem == "it is not there"


def test_large_data_is_the_same_by_names_sizes_and_times(tmp_path):
    large = tmp_path / "large.bin"
    large.touch()
    os.truncate(large, (64 << 20) + 1)  # takes no room
    before = look_at_data(str(large), LIMIT)
    assert before.content == ""
    assert before.same(look_at_data(str(large), LIMIT))
    os.utime(large, (1000, 1000))
    assert not before.same(look_at_data(str(large), LIMIT))


def test_data_that_never_ends_is_left(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a").write_text("1")
    assert look_at_data(str(tmp_path), LIMIT).files == 1
    assert look_at_data(str(tmp_path), 0.0).problem == "only its first 0 files were looked at"


# Reading it again, and seeds.


@pytest.mark.parametrize(
    "spoilt",
    [b"", b"[]", b"{}", b"\xff", b"[" * 10_000, b'{"packages": 1, "git": [], "data": null}',
     b'{"python": 1, "prefix": "", "packages": [["a"]], "git": {"root": 1}, "data": {"path": ""}}'],
)  # fmt: skip
def test_what_somebody_has_spoilt_is_not_known(job, spoilt):
    for name in (ENVIRONMENT, PROVENANCE):
        (job.root / name).write_bytes(spoilt)
    told = read_provenance(job)
    assert (told.environment, told.git, told.data) == (None, None, None)


def test_a_pipe_in_their_place_is_not_waited_for(job):
    for name in (ENVIRONMENT, PROVENANCE):
        os.mkfifo(job.root / name)
    assert read_provenance(job) == provenance.Provenance()


def test_seeds_are_seen_in_the_script():
    script = """
import random, torch
import numpy as np
random.seed(3)
np.random.seed(seed=4)
torch.manual_seed(5)
generator = np.random.default_rng(6)
split = train_test_split(x, random_state=7)
random.seed()
"""
    assert seeds_in(script) == [
        "random.seed(3)", "np.random.seed(seed=4)", "torch.manual_seed(5)",
        "np.random.default_rng(6)", "train_test_split(random_state=7)",
    ]  # fmt: skip
    assert draws_numbers(script)
    assert not draws_numbers("import os\nos.getpid()")
    assert draws_numbers("from torch import nn")
    assert seeds_in("def (:") == []
    assert seeds_in("x = " + "-" * 100_000 + "1") == []
