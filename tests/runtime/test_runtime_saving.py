"""``on_save()``: the function that saves a model, and whoever asks for it."""

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from submarine_runtime import on_save
from submarine_runtime.saving import ASK, STATE
from submarine_runtime.skein_store import key

from tests.runtime.conftest import wait_for
from tests.runtime.skein_master import CONTAINER, JOB

TRAIN = """
import os, time
import submarine_runtime

@submarine_runtime.on_save
def save(folder):
    (folder / "weights").write_text("1.5")

print("training")
while not os.path.exists("over"): time.sleep(0.01)
"""


def note(task):
    try:
        return json.loads((task.folder / STATE).read_text())
    except FileNotFoundError:
        return None


def say(task, data):
    (task.folder / ".ask").write_bytes(data)
    (task.folder / ".ask").rename(task.folder / ASK)


def ask(task, name, folder):
    folder.mkdir()
    say(task, json.dumps({"id": name, "folder": str(folder)}).encode())
    return wait_for(lambda: (n := note(task)).get("id") == name and n["state"] != "saving" and n)


def over(task):
    (task.workdir / "over").touch()
    assert task.wait() == 0, task.stderr


def test_outside_a_job_it_does_nothing(each_python, tmp_path):
    code = (
        "import submarine_runtime\n@submarine_runtime.on_save\n"
        "def save(folder): raise SystemExit('never')\n"
        "print(submarine_runtime.on_save(save) is save)"
    )
    home = Path(on_save.__code__.co_filename).parents[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SUBMARINE")}
    done = subprocess.run(
        [each_python, "-c", code],
        env={**environment, "PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"True\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [None, "model.pt", 5])
def test_what_cannot_be_called_is_refused_everywhere(wrong):
    with pytest.raises(TypeError, match="give a function that takes a folder"):
        on_save(wrong)


def test_it_saves_when_asked_and_tells_nobody_else(task, each_python, tmp_path):
    task.start(TRAIN, python=each_python)
    wait_for(lambda: note(task))
    assert (note(task)["state"], note(task)["number"]) == ("ready", 0)
    assert (task.folder / STATE).stat().st_mode & 0o777 == 0o600
    for number in (1, 2):
        said = ask(task, f"asked {number}", tmp_path / f"model {number}")
        assert (said["state"], said["number"]) == ("done", number)
        assert (tmp_path / f"model {number}" / "weights").read_text() == "1.5"
    over(task)
    assert (task.stdout, task.stderr) == ("training\n", "")
    assert task.outcome["kind"] == "returned"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pass", "wrote no file"),
        ("raise SystemExit(3)", "3"),
        ("raise KeyboardInterrupt('no')", "no"),
        ("(folder / 'half').write_text('x'); 1 / 0", "division by zero"),
        ("from failing import deep; deep()", "deep ü"),
    ],
)
def test_whatever_the_function_does_the_training_goes_on(task, tmp_path, body, message):
    script = TRAIN.replace('(folder / "weights").write_text("1.5")', body)
    task.start(script, files={"failing.py": "def deep():\n    raise LookupError('deep ü')\n"})
    wait_for(lambda: note(task))
    said = ask(task, "1", tmp_path / "model")
    assert (said["state"], message in said["error"]["message"]) == ("failed", True)
    assert not (tmp_path / "model").exists()
    frames = [(frame["file"], frame["function"]) for frame in said["error"]["frames"]]
    assert frames[:1] == ([("script.py", "save")] if body != "pass" else [])
    over(task)
    assert task.stderr == ""


def test_nonsense_is_passed_over(task, tmp_path):
    task.start(TRAIN)
    wait_for(lambda: note(task))
    wrong = (b"", b"\xff\xfe", b"[]", b'{"id": 1, "folder": "x"}', b'{"id": "", "folder": 5}')
    for nonsense in (*wrong, b"[" * 4000):
        say(task, nonsense)
        time.sleep(0.15)  # it has its turn, or it has not: nothing may come of it
    assert ask(task, "1", tmp_path / "model")["number"] == 1
    over(task)
    assert task.stderr == ""


def test_the_same_question_is_asked_once(task, tmp_path):
    """Whoever takes a job over asks again what was asked before."""
    task.start(TRAIN)
    wait_for(lambda: note(task))
    assert ask(task, "1", tmp_path / "model")["number"] == 1
    say(task, json.dumps({"id": "1", "folder": str(tmp_path / "model")}).encode())
    assert ask(task, "2", tmp_path / "second")["number"] == 2
    over(task)


def test_what_nobody_waits_for_any_more_is_not_written(task, tmp_path):
    task.start(TRAIN)
    wait_for(lambda: note(task))
    say(task, json.dumps({"id": "1", "folder": str(tmp_path / "gone")}).encode())
    said = wait_for(lambda: (n := note(task))["state"] == "failed" and n)
    assert "nobody waits" in said["error"]["message"]
    assert not (tmp_path / "gone").exists()
    over(task)


def test_the_last_function_of_a_process_counts_and_the_first_process(task, tmp_path):
    task.start(
        """
        import multiprocessing, os, subprocess, sys, time
        import submarine_runtime

        def first(folder): (folder / "first").touch()
        def last(folder): (folder / "last").touch()

        if __name__ == "__main__":
            submarine_runtime.on_save(first)
            submarine_runtime.on_save(last)
            for way in ("fork", "spawn"):
                process = multiprocessing.get_context(way).Process(
                    target=submarine_runtime.on_save, args=(print,)
                )
                process.start()
                process.join()
            child = "import submarine_runtime; submarine_runtime.on_save(print)"
            path = os.path.dirname(submarine_runtime.__path__[0])
            environment = {**os.environ, "LOCAL_RANK": "1", "PYTHONPATH": path}
            subprocess.run([sys.executable, "-c", child], check=True, env=environment)
            print("training")
            while not os.path.exists("over"): time.sleep(0.01)
        """
    )
    task.said("training")
    assert ask(task, "1", tmp_path / "model")["state"] == "done"
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["last"]
    over(task)


def test_a_command_may_save_what_its_program_trains(task, tmp_path):
    task.start(TRAIN, command="python script.py")
    wait_for(lambda: note(task))
    assert ask(task, "1", tmp_path / "model")["state"] == "done"
    (task.bundle / "over").touch()
    assert task.wait() == 0


def test_from_a_container_it_is_packed_beside_the_logs_and_gone_at_the_end(task, master, tmp_path):
    place = master.credentials
    task.start(TRAIN, env={"SUBMARINE_SAVE": str(place), "SUBMARINE_JOB_ID": JOB})
    wait_for(lambda: note(task))
    for number in (1, 2):
        asked = {"id": f"asked {number}", "folder": "/of the asker's machine"}
        master.kept[key(JOB, CONTAINER, ASK)] = json.dumps(asked).encode()
        said = wait_for(lambda n=number: (s := note(task))["number"] == n and "pieces" in s and s)
        assert said["id"] == f"asked {number}"
    packed = (task.folder / "save.0000").read_bytes()
    assert said["pieces"] == [len(packed)]
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["weights"]
    left = {path.name for path in place.iterdir()} - {
        "asked",
        "asked-main",
        "stacks",
    }  # of `stacks`
    assert left == {".skein.crt", ".skein.pem"}
    over(task)
    assert not (task.folder / "save.0000").exists()
    assert (task.folder / STATE).exists()
    assert task.stderr == ""


def test_it_takes_nothing_from_a_script_that_never_saves(tmp_path):
    code = "import submarine_runtime, sys; print(*sorted(sys.modules))"
    path = str(Path(on_save.__code__.co_filename).parents[1])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({path!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"tarfile", "pathlib", "shutil", "threading", "hashlib"} & {*done.stdout.split()}
