"""`submarine job run`: a file runs as a job as it would run by itself."""

from __future__ import annotations

import json
import signal

import pytest
from submarine_engine import list_jobs, open_job
from submarine_engine.history import JobPaths, default_home
from submarine_engine.job import JobState


def test_bytes_arrive_as_they_were_written(folder, submarine):
    (folder / "train.py").write_text(
        "import os\n"
        "os.write(1, bytes(range(256)) + b'\\r50%\\r100%\\n')\n"
        "os.write(2, b'\\xff warning\\n')\n"
    )
    done = submarine("job", "run", "train.py")
    assert done.returncode == 0
    assert done.stdout == bytes(range(256)) + b"\r50%\r100%\n"
    assert done.stderr.endswith(b"\xff warning\n")
    (job,) = list_jobs()
    assert done.stderr.startswith(f"job {job.id} (train)\n".encode())


def test_a_file_travels_byte_for_byte_with_what_it_imports(folder, submarine):
    source = b"# -*- coding: latin-1 -*-\nimport tools.steps\nprint('\xe9', tools.steps.STEP)\n"
    (folder / "train.py").write_bytes(source)
    (folder / "tools").mkdir()
    (folder / "tools/__init__.py").touch()
    (folder / "tools/steps.py").write_text("STEP = 7\n")
    (folder / "notes.py").write_text("this is not Python, and nobody imports it\n")
    done = submarine("job", "run", "train.py")
    assert (done.returncode, done.stdout.decode()) == (0, "é 7\n")
    bundle = JobPaths(default_home(), list_jobs()[0].id).bundle
    assert (bundle / "train.py").read_bytes() == source
    assert not (bundle / "notes.py").exists()


def test_a_script_gets_its_arguments_and_its_folder(folder, submarine):
    (folder / "data.txt").write_text("beside\n")
    (folder / "train.py").write_text(
        "import sys\nprint(sys.argv[1:], open('data.txt').read().strip(), __name__)\n"
    )
    done = submarine("job", "run", "train.py", "--", "--epochs", "3", "-h", "a b")
    assert done.stdout.decode() == "['--epochs', '3', '-h', 'a b'] beside __main__\n"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("raise ValueError('x')", 1),
        ("import os; os._exit(64)", 64),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
    ],
)
def test_the_exit_code_is_the_jobs_own(folder, submarine, source, code):
    (folder / "train.py").write_text(source)
    done = submarine("job", "run", "train.py")
    assert done.returncode == code, done.stderr
    assert submarine("job", "wait", "train").returncode == code
    assert submarine("job", "attach", "train").returncode == code


def test_a_failure_is_said_after_its_traceback(folder, submarine):
    (folder / "train.py").write_text("print('begun')\n1 / 0\n")
    done = submarine("job", "run", "train.py")
    text = done.stderr.decode()
    assert 'train.py", line 2' in text
    assert text.index("ZeroDivisionError") < text.index("train failed in")


def test_a_detached_job_goes_on_by_itself(folder, submarine):
    (folder / "train.py").write_text("history = [1, 2]\nhistory\n")
    done = submarine("job", "run", "train.py", "--detach", "--name", "mine", "-o", "history")
    (job_id,) = done.stdout.decode().split()
    assert (done.returncode, done.stderr) == (0, b"")
    assert submarine("job", "wait", job_id).returncode == 0
    assert open_job("mine").results().outputs["history"] == [1, 2]


def test_options_reach_the_job(folder, submarine, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "3")
    (folder / "data").mkdir()
    (folder / "train.py").write_text(
        "import os\n"
        "for name in ('CUDA_VISIBLE_DEVICES', 'SUBMARINE_INPUT_PATH', 'RATE'):\n"
        "    print(os.environ[name])\n"
    )
    words = ("--gpus=2", "--memory=64M", "--cpus=1", "--env=RATE=0.1", "--input_path=data")
    lines = submarine("job", "run", "train.py", *words).stdout.decode().split()
    assert len(lines[0].split(",")) == 2
    assert lines[1:] == [str(folder / "data"), "0.1"]


def test_a_command_takes_the_files_that_it_names(folder, submarine):
    (folder / "train.py").write_text("import sys, helper\nprint(sys.argv[1:], helper.X)\n")
    (folder / "helper.py").write_text("X = 1\n")
    (folder / "other.py").write_text("X = 2\n")
    command = "python3 train.py --a 1; ls *.py"
    done = submarine("job", "run", "--worker_launch_cmd", command)
    assert done.stdout.decode().split("\n") == ["['--a', '1'] 1", "helper.py", "train.py", ""]
    assert list_jobs()[0].name == "train"


def test_a_command_may_name_no_file(submarine):
    done = submarine("job", "run", "--worker_launch_cmd", "/bin/echo 'a  b' && exit 5")
    assert (done.returncode, done.stdout) == (5, b"a  b\n")
    assert list_jobs()[0].name == "echo"


def test_of_a_folder_all_python_files_travel(folder, submarine):
    (folder / "exp/pkg").mkdir(parents=True)
    (folder / "exp/.git").mkdir()
    (folder / "exp/.git/hook.py").touch()
    (folder / "exp/main.py").write_text(
        "import pathlib\n"
        "here = pathlib.Path(__file__).parent\n"
        "print(sorted(str(path.relative_to(here)) for path in here.rglob('*.py')))\n"
    )
    (folder / "exp/pkg/a.py").touch()
    done = submarine("job", "run", "exp")
    assert done.stdout.decode() == "['main.py', 'pkg/a.py']\n"
    assert list_jobs()[0].name == "exp"
    other = submarine("job", "run", "exp/", "--worker_launch_cmd", "ls pkg")
    assert other.stdout == b"a.py\n"


def test_a_dry_run_shows_all_and_asks_for_nothing(folder, submarine):
    (folder / "train.py").write_text("import helper\n")
    (folder / "helper.py").write_text("X = 1\n")
    done = submarine("job", "run", "train.py", "--dry-run", "--memory", "64M")
    assert done.stdout == b"import helper\n"
    assert "job run --name train --gpus 0 --memory 64M train.py" in done.stderr.decode()
    assert "helper.py" in done.stderr.decode()
    shown = json.loads(submarine("job", "run", "train.py", "--dry-run", "--json").stdout)
    assert shown["spec"]["name"] == "train"
    assert shown["manifest"]["modules"] == ["helper.py"]
    assert list_jobs() == []


@pytest.mark.parametrize(
    "source",
    [
        "globals().update(made=1)\nprint(made)",
        "exec('made = 1')\nprint(made)",
        "import builtins\nbuiltins.made = 1\nprint(made)",
        "from helper import *\nprint(made)",
        "try:\n    made\nexcept NameError:\n    made = 1\nprint(made)",
        "if __name__ == '__main__':\n    made = len([__file__])\nprint(made)",
    ],
)
def test_names_that_a_file_makes_by_other_means_are_believed_in(folder, submarine, source):
    (folder / "helper.py").write_text("made = 1\n")
    (folder / "train.py").write_text(source + "\n")
    done = submarine("job", "run", "train.py")
    assert (done.returncode, done.stdout) == (0, b"1\n"), done.stderr


def test_a_command_runs_a_file_as_it_is(folder, submarine):
    (folder / "train.py").write_text("not_there\n")
    done = submarine("job", "run", "train.py", "--worker_launch_cmd", "python train.py || echo ran")
    assert done.stdout == b"ran\n"
    assert b"NameError" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("nowhere.py",), 65, "nowhere.py: the file cannot be read: No such file"),
        (("broken.py",), 65, "broken.py, line 2: "),
        (("imports_broken.py",), 65, "broken.py, line 2"),
        (
            ("lacks.py",),
            65,
            "lacks.py, line 3: `histroy` is not defined; also missing: `np` (line 5)",
        ),
        (("lacking",), 65, "lacking/main.py, line 3: `histroy` is not defined"),
        (("nul.py",), 65, "nul.py"),
        (("cookie.py",), 65, "cookie.py"),
        (("data.csv",), 64, "data.csv is not a Python file"),
        (("nb.ipynb",), 64, "nb.ipynb is not a Python file"),
        (("two",), 64, "nothing says which file of two runs"),
        (("empty",), 64, "nothing says which file of empty runs"),
        ((), 64, "there is nothing to run"),
        (("ok.py", "--gpu", "2"), 64, "did you mean --gpus?"),
        (("ok.py", "--gpus", "lots"), 64, "'lots' is not possible"),
        (("ok.py", "--docker_image", "tf:1"), 69, "the local cluster runs no containers"),
        (("ok.py", "--gpus", "99"), 69, "--gpus"),
        (("ok.py", "--input_path", "missing"), 69, "--input_path"),
        (("ok.py", "--cluster", "nowhere"), 78, "there is no cluster 'nowhere'"),
    ],
)
def test_what_cannot_run_costs_nothing(folder, submarine, words, code, what):
    (folder / "ok.py").write_text("print('ran')\n")
    (folder / "broken.py").write_text("x = 1\nif x\n")
    (folder / "imports_broken.py").write_text("import broken\n")
    for lacks in (folder / "lacks.py", folder / "lacking/main.py"):
        lacks.parent.mkdir(exist_ok=True)
        lacks.write_text("history = []\ndef show():\n    print(histroy)\n\nnp.zeros(__file__)\n")
    (folder / "nul.py").write_bytes(b"x = 1\0\n")
    (folder / "cookie.py").write_bytes(b"# coding: no-such-code\n")
    (folder / "two").mkdir()
    (folder / "two/a.py").touch()
    (folder / "two/b.py").touch()
    (folder / "empty").mkdir()
    done = submarine("job", "run", *words)
    text = done.stderr.decode()
    assert (done.returncode, what in text) == (code, True), text
    assert "→ " in text
    assert "Traceback" not in text
    assert list_jobs() == []


def test_a_cancelled_job_has_a_code_of_its_own(folder, submarine):
    (folder / "train.py").write_text("import time\ntime.sleep(600)\n")
    job_id = submarine("job", "run", "train.py", "--detach").stdout.decode().strip()
    assert submarine("job", "cancel", job_id).stdout.decode() == f"{job_id} asked to end\n"
    done = submarine("job", "wait", job_id)
    assert done.returncode == 128 + signal.SIGTERM
    assert b"cancelled" in done.stderr
    assert submarine("job", "kill", job_id).stdout.decode() == f"{job_id} was over already\n"
    assert open_job(job_id).status().state is JobState.CANCELLED


def test_a_killed_job_is_over_at_once(folder, submarine):
    (folder / "train.py").write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n"
    )
    submarine("job", "run", "train.py", "--detach")
    assert submarine("job", "kill", "train").returncode == 0
    assert submarine("job", "wait", "train").returncode == 128 + signal.SIGTERM


def test_waiting_may_be_limited(folder, submarine):
    (folder / "train.py").write_text("import time\ntime.sleep(600)\n")
    submarine("job", "run", "train.py", "--detach")
    done = submarine("job", "wait", "train", "--timeout", "0.1")
    assert done.returncode == 124
    assert b"not over yet" in done.stderr
    submarine("job", "kill", "train")
