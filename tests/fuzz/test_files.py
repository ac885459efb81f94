"""Whatever a stranger puts in place of a job's files: words, never a hang or a fault of ours."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from submarine_engine.cli import main
from submarine_engine.cli.output import INTERNAL
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import JobError
from submarine_engine.history import SpoiltFileError, read_json
from submarine_engine.records import list_jobs, open_job

from tests.jobs import bundle_of, end_processes_of, spec_of, until

KINDS = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a file without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a file of a terabyte": lambda path: _sparse(path, 1 << 40),
    "nested without end": lambda path: path.write_bytes(b"[" * 100_000),
    "objects without end": lambda path: path.write_bytes(b'{"a":' * 100_000),
    "a number that no float is": lambda path: path.write_bytes(b"1" + b"0" * 5000),
    "a list": lambda path: path.write_bytes(b"[1]"),
    "nothing at all": lambda path: path.write_bytes(b""),
    "null": lambda path: path.write_bytes(b"null"),
    "bytes that are no text": lambda path: path.write_bytes(b'{"version": 1, "\xff\xfe": 2}'),
}
RECORDS = ("record.json", "status.json", "events.jsonl", "environment.json", "provenance.json",
           "secrets.json", "warnings.json", "notified.json", "cancel.json", "stacks.json",
           "bundle/manifest.json")  # fmt: skip
OF_TASK = ("outcome.json", "progress.json", "startup", "moments", "displays", "metrics", "reported",
           "stacks", "sweep.json", "calls.json", "trials.jsonl", "artifacts.json", "inside.json",
           ".origins.json", "task.json", "results/post-mortem.json")  # fmt: skip
FILES = (*RECORDS, *(f"tasks/worker-0/{name}" for name in OF_TASK))
LIMIT = 60  # seconds: a hang has no end

BAD = "x = 5\nprint('before')\nraise ValueError('no')"


def _sparse(path, size):
    path.touch()
    os.truncate(path, size)


class HangError(BaseException):
    """A reader waits for what never comes."""


@contextmanager
def no_hang():
    def ring(*_):
        raise HangError

    former = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def said(*words):
    """Run ``submarine WORDS``; return its code, and all that a user sees."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO())  # whoever would ask is told nothing
        with redirect_stdout(out), redirect_stderr(err), no_hang():
            code = main(words)
    for one in (out, err):
        one.flush()
    return code, (out.buffer.getvalue() + err.buffer.getvalue()).decode(errors="replace")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two jobs that are over: one has failed."""
    home = tmp_path_factory.mktemp("spoilt") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBMARINE_LOCAL_GPUS", "0")
        cluster = LocalCluster(home)
        scripts = {"bad": BAD, "good": "print('well')\n5"}
        jobs = {
            name: cluster.submit(spec_of(name=name), bundle_of(script), workdir=home.parent)
            for name, script in scripts.items()
        }
        for job_id in jobs.values():
            until(lambda one=job_id: cluster.status(one).state.final)
        until(lambda: not end_processes_of(home, patience=60))
    return home, jobs


@pytest.fixture(scope="module")
def spoilt(finished):
    """Give a function that puts something in a file's place, and looks at the job by all verbs."""
    home, jobs = finished
    bad, good = jobs["bad"], jobs["good"]
    root = home / "jobs" / bad
    verbs = (
        ("job", "list"), ("job", "show", bad, "--json"), ("job", "logs", bad),
        ("job", "diff", bad, good), ("usage",), ("job", "show", "good"),
    )  # fmt: skip
    more = (
        ("job", "show", bad), ("job", "show", "bad"), ("job", "artifacts", bad),
        ("sweep", "list"), ("notebook", "list"), ("job", "debug", bad),
    )  # fmt: skip

    def spoil(name, make, *, thorough=False):
        path = root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        aside = root.with_name("aside")
        if there := path.exists():
            path.rename(aside)
        try:
            make(path)
            for words in (*verbs, *(more if thorough else ())):
                code, text = said(*words)
                assert "fault of ours" not in text, (name, words, text)
                assert "most recent call last" not in text or "ValueError: no" in text
                assert code != INTERNAL or str(path) in text, (name, words, text)
                if bad not in words:
                    assert code == 0 or words[-1] == "bad", "the others are none of its business"
        finally:
            _remove(path)
            if there:
                aside.rename(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBMARINE_HOME", str(home))
        yield spoil


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def home_of_the_module(finished, own_environment, monkeypatch):
    """Look at the jobs of the module, whichever test it is."""
    monkeypatch.setenv("SUBMARINE_HOME", str(finished[0]))
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "0")


@pytest.mark.parametrize("name", ["record.json", "status.json", "events.jsonl"])
def test_whatever_is_in_its_place_a_record_is_told_of_in_words(spoilt, name):
    for make in KINDS.values():
        spoilt(name, make)


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_whatever_is_in_its_place_a_file_is_told_of_in_words(spoilt, name):
    for make in KINDS.values():
        spoilt(name, make, thorough=True)


@pytest.mark.parametrize("name", ["status.json", "events.jsonl", "tasks/worker-0/outcome.json"])
@settings(max_examples=10)
@given(noise=st.binary(max_size=300))
def test_noise_is_told_of_in_words(spoilt, name, noise):
    spoilt(name, lambda path: path.write_bytes(noise))


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "a number that no float is"])
def test_what_is_no_record_is_an_error_that_readers_know(tmp_path, kind):
    path = tmp_path / "record.json"
    KINDS[kind](path)
    with no_hang(), pytest.raises(OSError) as error:  # noqa: PT011 - each kind has its own words
        read_json(path)
    assert str(path) in str(error.value)
    if path.is_file() and not path.is_symlink():
        assert isinstance(error.value, SpoiltFileError)


def test_a_job_without_a_record_is_told_of_and_the_others_are_listed(finished):
    home, jobs = finished
    path = home / "jobs" / jobs["bad"] / "record.json"
    keep = path.read_bytes()
    try:
        path.write_text("[")
        with pytest.raises(JobError, match="record cannot be read") as error:
            open_job(jobs["bad"])
        assert str(path) in str(error.value)
        assert {one.id for one in list_jobs()} == set(jobs.values())
        assert open_job("good").id == jobs["good"]
    finally:
        path.write_bytes(keep)


def test_a_number_without_measure_in_a_summary_hides_no_other_job(finished):
    home, jobs = finished
    path = home / "jobs" / jobs["bad"] / "status.json"
    told = json.loads(path.read_text())
    try:
        for spoils in ({"gpus": float("inf")}, {"created": [float("nan"), 1]}, {"parent": [1]},
                       {"created": [0, 10**400]}):  # fmt: skip
            path.write_text(json.dumps({**told, **spoils}))
            assert jobs["good"] in {one.id for one in list_jobs()}
    finally:
        path.write_text(json.dumps(told))
