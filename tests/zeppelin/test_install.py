"""`submarine zeppelin …`: the interpreter comes into a Zeppelin and out of it, leaving no trace."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.cli import main
from submarine_engine.command.options import RUN
from submarine_engine.declared import known_settings
from submarine_zeppelin.install import find_zeppelin, setting

ROOT = Path(__file__).parents[2]


def folder(home: Path, release: str = "0.11.2") -> Path:
    """Make what makes a folder a Zeppelin."""
    (home / "lib").mkdir(parents=True)
    (home / "lib" / f"zeppelin-server-{release}.jar").touch()
    (home / "interpreter").mkdir()
    (home / "conf").mkdir()
    return home


@pytest.fixture
def home(tmp_path):
    return folder(tmp_path / "zeppelin")


def submarine(capsys, *words, code=0):
    assert main(["zeppelin", *map(str, words)]) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


def files(home):
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_installed_twice_is_installed_once(home, capsys):
    before = files(home)
    said = submarine(capsys, "install", "--zeppelin-home", home)
    assert "Zeppelin 0.11.2 has" in said
    assert sys.executable in said
    first = files(home)
    submarine(capsys, "install", "--zeppelin-home", home)
    assert (
        files(home)
        == first
        == before
        | {
            "interpreter/submarine/interpreter-setting.json",
            "interpreter/submarine/submarine.sh",
        }
    )
    assert "is gone" in submarine(capsys, "uninstall", "--zeppelin-home", home)
    assert files(home) == before
    assert "was not there" in submarine(capsys, "uninstall", "--zeppelin-home", home)


def test_the_home_is_taken_from_the_environment(home, capsys, monkeypatch):
    monkeypatch.setenv("ZEPPELIN_HOME", str(home))
    found = json.loads(submarine(capsys, "install", "--json"))
    assert found == {"folder": str(home / "interpreter/submarine"), "python": sys.executable}


def test_the_old_interpreter_is_kept_and_comes_back(home, capsys):
    old = home / "interpreter/submarine/submarine-0.11.2.jar"
    old.parent.mkdir()
    old.write_text("Java")
    said = submarine(capsys, "install", "--zeppelin-home", home)
    assert "interpreter-replaced" in said
    assert not old.exists()
    submarine(capsys, "install", "--zeppelin-home", home)
    submarine(capsys, "uninstall", "--zeppelin-home", home)
    assert old.read_text() == "Java"
    assert not (home / "interpreter-replaced").exists()


def test_what_else_is_kept_beside_the_old_interpreter_stays(home, capsys):
    (home / "interpreter/submarine").mkdir()
    submarine(capsys, "install", "--zeppelin-home", home)
    notes = home / "interpreter-replaced/notes.txt"
    notes.write_text("why it was replaced")
    assert "is gone" in submarine(capsys, "uninstall", "--zeppelin-home", home)
    assert notes.exists()
    assert not (home / "interpreter-replaced/submarine").exists()


def test_every_interpreter_has_the_same_runner(home):
    entries = json.loads(setting(home / "a folder/submarine.sh"))
    assert {entry["runner"]["linux"] for entry in entries} == {f'"{home}/a folder/submarine.sh"'}
    assert [entry["name"] for entry in entries if entry.get("defaultInterpreter")] == ["submarine"]


def test_every_setting_of_a_note_is_documented_in_zeppelin():
    properties = json.loads(setting(Path("submarine.sh")))[0]["properties"]
    names = [name.split(".") for name in properties if name.startswith("submarine.")]
    assert {name[-1] for name in names if name[1] == "job"} <= {option.key for option in RUN}
    # A paragraph has a limit as in every interpreter, Zeppelin says who the user is, and
    # HADOOP_CONF_DIR has the name that it has everywhere.
    elsewhere = {"cell_output_limit", "user", "hadoop_conf_dir"}
    assert {name[1] for name in names} - {"job", "links", "concurrent"} == set(
        known_settings()
    ) - elsewhere
    assert "HADOOP_CONF_DIR" in properties
    assert all(found["description"].endswith(".") for found in properties.values())


def test_the_launch_script_runs_the_named_python(home, capsys, tmp_path):
    python = tmp_path / "its' python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    submarine(capsys, "install", "--zeppelin-home", home, "--python", python)
    script = home / "interpreter/submarine/submarine.sh"
    done = subprocess.run(["sh", "-n", script], check=False)
    assert done.returncode == 0
    assert "-m submarine_zeppelin" in script.read_text()
    said = submarine(capsys, "doctor", "--zeppelin-home", home)
    assert f"Python of the notes: {python}" in said


def bare_python(tmp_path):
    """Return a Python that has nothing of ours."""
    python = tmp_path / "bare"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    return python


def test_a_python_without_the_interpreter_is_refused(home, capsys, tmp_path):
    python = bare_python(tmp_path)
    said = submarine(capsys, "install", "--zeppelin-home", home, "--python", python, code=78)
    assert "No module named" in said
    assert f"{python} -m pip install {ROOT}[zeppelin]" in said.replace("'", "")
    assert files(home) == {"lib/zeppelin-server-0.11.2.jar"}


@pytest.mark.parametrize("verb", ["install", "uninstall", "doctor"])
def test_what_is_no_zeppelin_is_refused(verb, capsys, tmp_path):
    assert "not said where" in submarine(capsys, verb, code=78)
    said = submarine(capsys, verb, "--zeppelin-home", tmp_path / "nowhere", code=78)
    assert "no such folder" in said
    (tmp_path / "interpreter").mkdir()
    said = submarine(capsys, verb, "--zeppelin-home", tmp_path, code=78)
    assert "this is no Zeppelin: it has no lib/zeppelin-server" in said


def test_a_zeppelin_that_speaks_otherwise_is_refused(tmp_path, capsys):
    old = folder(tmp_path / "old", "0.9.0")
    said = submarine(capsys, "install", "--zeppelin-home", old, code=69)
    assert "take Zeppelin 0.10 or newer" in said


def test_the_doctor_finds_what_is_wrong(home, capsys, tmp_path):
    said = submarine(capsys, "doctor", "--zeppelin-home", home, code=1)
    assert "BAD" in said
    command = shlex.split(re.search(r"(\S+ .*)zeppelin install --zeppelin-home \S+", said)[0])
    assert command[-1] == str(home)
    submarine(capsys, "install", "--zeppelin-home", home)
    assert "has not found" in submarine(capsys, "doctor", "--zeppelin-home", home)
    (home / "conf/interpreter.json").write_text(
        json.dumps({"interpreterSettings": {"submarine": {"group": "submarine"}}})
    )
    assert "has found" in submarine(capsys, "doctor", "--zeppelin-home", home)
    (home / "conf/zeppelin-site.xml").write_text(
        "<configuration><property><name>zeppelin.interpreter.exclude</name>"
        "<value>angular,submarine</value></property></configuration>"
    )
    said = submarine(capsys, "doctor", "--zeppelin-home", home, code=1)
    assert "zeppelin.interpreter.exclude names submarine" in said
    (home / "conf/zeppelin-site.xml").unlink()
    script = home / "interpreter/submarine/submarine.sh"
    script.write_text(f"#!/bin/sh\nexec {bare_python(tmp_path)} -m submarine_zeppelin\n")
    assert "No module named" in submarine(capsys, "doctor", "--zeppelin-home", home, code=1)
    script.chmod(0o600)
    said = submarine(capsys, "doctor", "--zeppelin-home", home, code=1)
    assert "cannot be run" in said
    (home / "interpreter/submarine/interpreter-setting.json").write_text(
        '[{"className": "submarine_zeppelin.Old"}]'
    )
    assert "of another release" in submarine(capsys, "doctor", "--zeppelin-home", home, code=1)


@pytest.mark.parametrize(
    ("host", "listens", "noted"),
    [("127.0.0.1", "", False), ("0.0.0.0", "", True), ("0.0.0.0", "0.0.0.0:8900", False)],  # noqa: S104 - read
)
def test_the_doctor_says_where_no_link_leads(home, capsys, host, listens, noted):
    submarine(capsys, "install", "--zeppelin-home", home)
    (home / "conf/zeppelin-site.xml").write_text(
        "<configuration><property><name>zeppelin.server.addr</name>"
        f"<value>{host}</value></property></configuration>"
    )
    properties = {"submarine.links.listen": {"value": listens}}
    saved = {"submarine": {"group": "submarine", "properties": properties}}
    (home / "conf/interpreter.json").write_text(json.dumps({"interpreterSettings": saved}))
    said = submarine(capsys, "doctor", "--zeppelin-home", home)
    assert ("submarine.links.listen" in said) == noted


@pytest.mark.parametrize(
    ("note", "user", "noted"),
    [
        ("shared", "shared", True),
        (None, None, True),
        ("scoped", "shared", False),
        ("shared", "isolated", False),
    ],
)
def test_the_doctor_says_where_one_note_may_hold_up_all(home, capsys, note, user, noted):
    submarine(capsys, "install", "--zeppelin-home", home)
    option = {"perNote": note, "perUser": user}
    saved = {"submarine": {"group": "submarine", "option": option}}
    (home / "conf/interpreter.json").write_text(json.dumps({"interpreterSettings": saved}))
    said = submarine(capsys, "doctor", "--zeppelin-home", home)
    assert ("Per Note, in scoped process" in said) == noted


def test_newer_zeppelins_are_noted(tmp_path):
    from submarine_zeppelin.install import checks

    newer = find_zeppelin(folder(tmp_path / "newer", "0.13.0"))
    assert checks(newer)[0].verdict == "note"


@pytest.mark.parametrize(
    ("option", "command", "words"),
    [
        ({}, "no-such-program", ()),
        ({"isUserImpersonate": True}, "no-such-program x", ("users share", "no program 'no-such")),
        ({"isUserImpersonate": True, "perUser": "isolated"}, "sh 'x", ("is no command",)),
        ({"isUserImpersonate": True, "perUser": "isolated"}, "sh -c", ()),
    ],
)
def test_the_doctor_looks_whether_others_can_be_impersonated(  # noqa: PLR0913, PLR0917 - what is said, and of what
    home, capsys, monkeypatch, option, command, words
):
    submarine(capsys, "install", "--zeppelin-home", home)
    monkeypatch.setenv("ZEPPELIN_IMPERSONATE_CMD", command)
    python = home / "python"
    (home / "interpreter/submarine/submarine.sh").write_text(f"exec {python} -m x\n")
    saved = {"submarine": {"group": "submarine", "option": option}}
    (home / "conf/interpreter.json").write_text(json.dumps({"interpreterSettings": saved}))
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    said = submarine(capsys, "doctor", "--zeppelin-home", home, code=1 if option else 0)
    told = [line for line in said.splitlines() if "user impersonation" in line]
    assert all(any(word in line for line in told) for word in words), told
    # Folders of a test are closed to all others, and so is the Python in them.
    assert [line for line in told if "other users cannot run" in line] == told[len(words) :]
    assert len(told) == len(words) + bool(option)
