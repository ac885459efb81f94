"""What is committed: no trace of one machine, and commands that name what they miss."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Spelled in halves, so that this file is no exception to its own rule.
HOSTS = [
    "py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "npm" + "js.com",
    "yarn" + "pkg.com", "crates" + ".io", "proxy.golang" + ".org", "repo1.maven" + ".org",
    "deb.debian" + ".org",
]  # fmt: skip
MACHINE = re.compile(r"(?<![\w.~])/(?:home|Users)/\w{2,}|(?<![\w.~/])/(?:root|work)/\w+")


def committed() -> dict[str, str]:
    """Return the text files of the repository: content by path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = {}
    for name in listed.stdout.split("\0"):
        content = (ROOT / name).read_bytes() if name and (ROOT / name).is_file() else b"\0"
        if b"\0" not in content:
            found[name] = content.decode()
    return found


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in committed().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_path_of_a_machine_is_committed():
    assert lines_with(MACHINE) == []


def test_such_a_path_would_be_found():
    for path in ("/home/" + "ada/x", '"/ro' + "ot/x", "cd /wo" + "rk/main", "/Users/" + "ada"):
        assert MACHINE.search(path)


def test_no_package_registry_is_named():
    assert lines_with(re.compile("|".join(map(re.escape, HOSTS)))) == []


def test_nothing_unfinished_is_committed():
    marks = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
    assert lines_with(marks) == []


def test_make_help_lists_what_people_use():
    text = subprocess.run(
        ["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for target in (
        "demo",
        "check",
        "test",
        "test-long",
        "test-delays",
        "lint",
        "docs",
        "bench",
        "examples",
        "constraints",
    ):
        assert re.search(rf"^make {target} +\w", text, re.MULTILINE)


def test_ci_runs_what_people_run():
    assert "exec make test" in (ROOT / ".ci/run").read_text()


def test_each_tier_runs_all_that_the_one_before_it_runs():
    def left_out(target):
        recipe = re.search(rf"^{target}:.*\n\t(.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return set(re.findall(r"not (\w+)", recipe[1]))

    assert left_out("pytest-check") == {"jobs", "long", "service"}
    assert left_out("pytest-test") == {"long"}
    assert left_out("pytest-long") == set()


def bare_path(folder: Path, *programs: str) -> dict[str, str]:
    """Return an environment in which only these programs are there."""
    folder.mkdir()
    for program in programs:
        (folder / program).symlink_to(shutil.which(program))
    return {"PATH": str(folder)}


def test_a_program_that_cannot_be_installed_is_named(tmp_path):
    missing = subprocess.run(
        [ROOT / "scripts/require", "sh", "no-such-program"],
        env=bare_path(tmp_path / "bin", "sh", "id"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert missing.returncode == 1
    assert "no-such-program is missing and could not be installed" in missing.stderr
    assert "apt-get install no-such-program" in missing.stderr


def test_a_missing_python_is_named(tmp_path):
    missing = subprocess.run(
        [ROOT / "scripts/install", tmp_path / "venv", "python9.9", "test"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert missing.returncode == 1
    assert "there is no python9.9" in missing.stderr
    assert not (tmp_path / "venv").exists()


def test_an_old_python_is_refused(tmp_path):
    old = tmp_path / "python-old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.8.1\nexit 1\n')
    old.chmod(0o755)
    refused = subprocess.run(
        [ROOT / "scripts/install", tmp_path / "venv", old, "test"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "Python 3.8.1 is too old" in refused.stderr
