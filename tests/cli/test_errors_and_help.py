"""Whatever goes wrong, people read a sentence and programs an object."""

from __future__ import annotations

import json

import pytest
from submarine_engine import __version__
from submarine_engine.cli import handler, output
from submarine_engine.cli.output import (
    FAILED,
    INTERNAL,
    NOT_POSSIBLE,
    code_of_error,
    code_of_job,
    visible,
    width,
)
from submarine_engine.command.verbs import verbs
from submarine_engine.errors import (
    JobError,
    JobFailedError,
    ResultError,
    SaveError,
    SubmarineError,
)
from submarine_engine.job import JobState, TaskState
from submarine_engine.lifecycle import JobStatus, TaskStatus


def test_every_verb_of_the_terminal_is_there():
    assert all(callable(handler(verb.path)) for verb in verbs("terminal"))
    assert not [verb.text for verb in verbs() if verb.run and "terminal" not in verb.surfaces]


def test_help_and_version(submarine):
    assert submarine("--version").stdout.decode() == f"submarine {__version__}\n"
    assert json.loads(submarine("version", "--json").stdout) == {"version": __version__}
    everything = submarine("help").stdout
    assert everything == submarine().stdout == submarine("-h").stdout
    assert submarine("job", "run", "--gpus", "lots", "--help").stdout.startswith(b"Run code")
    assert "job run" in json.loads(submarine("help", "--json").stdout)["help"]


def test_an_error_is_a_sentence_and_a_code(submarine):
    done = submarine("jbo", "list")
    assert (done.returncode, done.stdout) == (64, b"")
    assert done.stderr.decode() == (
        "submarine: there is no verb 'jbo'\n→ did you mean job? `submarine help` lists them all\n"
    )


def test_an_error_for_programs_is_an_object(submarine):
    done = submarine("job", "run", "--json", "--gpus", "lots")
    assert json.loads(done.stderr) == {
        "error": "CommandError",
        "what": "--gpus: 'lots' is not possible",
        "where": "job run",
        "fix": "give a whole number, 0 or more",
    }


def test_a_traceback_is_shown_only_when_asked_for(submarine):
    assert b"Traceback" not in submarine("job", "show", "x").stderr
    assert b"Traceback" in submarine("job", "show", "x", "--verbose").stderr


def test_a_home_that_is_a_file_is_an_error_in_words(submarine, folder, monkeypatch):
    (folder / "home").touch()
    (folder / "train.py").touch()
    monkeypatch.setenv("SUBMARINE_HOME", str(folder / "home"))
    for words in (("job", "list"), ("job", "run", "train.py"), ("job", "show", "x")):
        done = submarine(*words)
        assert done.returncode != 0
        assert b"Traceback" not in done.stderr
        assert b"a fault of ours" not in done.stderr


def task(code, state=TaskState.FAILED):
    return TaskStatus(task="worker-0", state=state, exit_code=code)


@pytest.mark.parametrize(
    ("state", "tasks", "code"),
    [
        (JobState.SUCCEEDED, (), 0),
        (JobState.FAILED, (task(3),), 3),
        (JobState.FAILED, (task(0, TaskState.SUCCEEDED), task(-9)), 137),
        (JobState.FAILED, (task(256),), 1),
        (JobState.FAILED, (), 1),
        (JobState.CANCELLED, (task(-15),), 143),
        (JobState.LOST, (), 71),
    ],
)
def test_codes_of_jobs(state, tasks, code):
    assert code_of_job(JobStatus(state=state, tasks=tasks)) == code


@pytest.mark.parametrize("kind", [JobError, SaveError, ResultError])
def test_what_a_job_cannot_do_is_no_fault_of_ours(kind):
    code = code_of_error(kind("x"))
    assert code == NOT_POSSIBLE
    assert [name for name, value in vars(output).items() if value == code] == ["NOT_POSSIBLE"]


def test_code_that_failed_elsewhere_ends_as_a_job_of_ones_own_does():
    assert code_of_error(JobFailedError("x")) == FAILED


def test_any_other_error_of_ours_has_a_code():
    assert code_of_error(SubmarineError("x")) == INTERNAL


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\tc", "a b c"),
        ("\u202eabc", "\\x202eabc"),
        ("é漢", "é漢"),
        ("\x9b1m", "\\x9b1m"),
    ],
)
def test_no_terminal_obeys_what_is_shown(text, shown):
    assert visible(text, line=True) == shown


def test_width_counts_columns():
    assert [width(text) for text in ("abc", "漢字", "e\u0301")] == [3, 4, 1]
