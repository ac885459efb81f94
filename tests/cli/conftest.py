"""The command as users run it, in a folder of its own."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest
from submarine_engine.cli import main

COMMAND = (sys.executable, "-m", "submarine_engine.cli")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty folder, which is the working directory."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


class Done(NamedTuple):
    returncode: int
    stdout: bytes
    stderr: bytes


@pytest.fixture
def submarine(folder):
    """Return a function that runs ``submarine WORDS`` in this process; bytes come out.

    A process for each of some hundred commands would take minutes; those that need one `start` it.
    """

    def run(*words):
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words)
        err.flush()
        return Done(code, out.buffer.getvalue(), err.buffer.getvalue())

    return run


@pytest.fixture
def start(folder):
    """Return a function that starts ``submarine WORDS``; what still runs at the end is ended."""
    started = []

    def popen(*words, **options):
        process = subprocess.Popen([*COMMAND, *words], cwd=folder, **options)
        started.append(process)
        return process

    yield popen
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
