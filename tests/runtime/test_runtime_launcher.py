"""The launcher of a task whose files are there: it stays for as long as the task runs."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import submarine_runtime
from submarine_runtime import launcher, peer_failed, stacks

from tests.runtime.conftest import PATIENCE, wait_for

LAUNCHER = Path(submarine_runtime.__file__).with_name("launcher.py")
TASK = "worker-0"

ORPHANS = """
import os, subprocess, time

def orphan():
    # The shell is gone before what it has begun.
    begun = ["sh", "-c", "sleep 0.01 >/dev/null & echo $!"]
    return subprocess.run(begun, stdout=subprocess.PIPE, text=True).stdout.strip()

def until_looked():
    # The first orphan goes as a look of the launcher begins, the second as a later one does.
    for pid in (orphan(), orphan()):
        while os.path.exists(f"/proc/{pid}"): time.sleep(0.01)
"""


@pytest.fixture
def launched(tmp_path):
    """Give a function that runs a script by a launcher, and the folder of its task."""
    folder = tmp_path / TASK
    (folder / "artifacts").mkdir(parents=True)
    python = tmp_path / "python"
    python.symlink_to(sys._base_executable)
    begun = []

    def launch(script):
        (tmp_path / "script.py").write_text(ORPHANS + textwrap.dedent(script))
        inside = tmp_path / "inside.py"
        inside.write_text("import sys\nopen(sys.argv[1] + '/inside-began', 'w').close()\n")
        launch = {
            "gpus": 0, "command": [sys.executable, str(tmp_path / "script.py")], "tells": "",
            "workdir": str(folder), "inside": str(inside), "artifacts": "/no/such",
            "environment": {},
        }  # fmt: skip
        (folder / "launch.json").write_text(json.dumps(launch))
        command = [str(python), "-I", "-S", str(LAUNCHER), str(tmp_path), TASK]
        begun.append(subprocess.Popen(command))
        return begun[-1]

    launch.folder = folder
    yield launch
    for process in begun:
        process.kill()
        process.wait(PATIENCE)


def test_a_disk_that_fails_and_programs_that_cannot_begin_end_no_task(launched):
    (launched.folder / "asked-to-end").mkdir()  # it cannot be read
    process = launched("""
        open("artifacts/kept", "w").close()
        os.remove("../python")  # whatever is begun by it fails
        open("inside-asked.json", "w").write("{}")
        until_looked()
        os.remove("inside-asked.json")
        os.mkdir("inside-asked.json")
        until_looked()
        os._exit(7)
    """)
    assert process.wait(PATIENCE) == 0
    assert (launched.folder / "exit").read_text() == "7\n"


def test_what_could_not_be_read_once_is_heard_later(launched):
    asked = launched.folder / "asked-to-end"
    asked.mkdir()
    process = launched("""
        until_looked()
        os.rmdir("asked-to-end")
        open("asked-to-end", "w").write("TERM\\n")
        while True: until_looked()
    """)
    assert process.wait(PATIENCE) == 0
    assert (launched.folder / "exit").read_text() == "143\n"


def test_a_question_is_written_where_the_task_runs_and_half_a_word_waits(launched):
    assert launcher.QUESTIONS == (stacks.ASK, stacks.ASK_MAIN, peer_failed.ASK)
    asked = launched.folder / launcher.ASKED
    asked.touch()
    process = launched("""
        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        os.mkdir("asked")
        open("there", "w").close()
        while not os.path.exists("asked/stacks"): time.sleep(0.01)
        until_looked()
        open("heard", "w").close()
        while True: time.sleep(0.01)
    """)
    wait_for((launched.folder / "there").exists)
    with asked.open("a") as file:
        file.write("peer-failed/frames\nasked/stacks\nTE")  # nobody has the first one's folder
        file.flush()
        wait_for((launched.folder / "heard").exists)
        file.write("RM\n")
    assert process.wait(PATIENCE) == 0
    assert (launched.folder / "exit").read_text().split()[0] == "5"
    assert [path.name for path in (launched.folder / "asked").iterdir()] == ["stacks"]
    assert re.fullmatch(r"cpu \d+\.\d\d io \d+\n", (launched.folder / "used").read_text())


def test_a_server_that_could_not_begin_is_begun_by_a_later_look(launched):
    (launched.folder / "asked-to-end").touch()
    process = launched("""
        os.rename("../python", "../away")  # nothing can be begun by it meanwhile
        open("inside-asked.json", "w").write("{}")
        until_looked()
        os.rename("../away", "../python")
        while not os.path.exists("inside-began"): time.sleep(0.01)
        os._exit(5)
    """)
    assert process.wait(PATIENCE) == 0
    assert (launched.folder / "exit").read_text() == "5\n"


def test_orphans_of_a_task_that_have_ended_are_gone_while_it_runs(launched):
    (launched.folder / "asked-to-end").touch()
    launched("""
        pids = [orphan() for _ in range(30)]
        open(".pids", "w").write(" ".join(pids))
        os.rename(".pids", "pids")
        while not os.path.exists("gate"): time.sleep(0.05)
        os._exit(3)
    """)
    pids = wait_for((launched.folder / "pids").exists) and (launched.folder / "pids").read_text()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.split()))
    assert not (launched.folder / "exit").exists()
    (launched.folder / "gate").touch()
    wait_for((launched.folder / "exit").exists)
    assert (launched.folder / "exit").read_text() == "3\n"
