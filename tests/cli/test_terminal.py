"""A person at a terminal: Ctrl-C, the progress line, colours, closed pipes."""

from __future__ import annotations

import codecs
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from submarine_engine import __version__, list_jobs, open_job
from submarine_engine.cli import desktop
from submarine_engine.cli.output import Output
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus

STUBBORN = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: print("not yet", flush=True))
print("begun", flush=True)
while not Path("go").exists(): time.sleep(0.02)
sys.exit(1)
"""
SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, start, *words, **environment):
        self.master, slave = pty.openpty()
        self.process = start(
            *words,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment},
        )
        os.close(slave)
        self.text = ""
        self._decode = codecs.getincrementaldecoder("utf-8")().decode  # a read may end anywhere

    def read_until(self, wanted):
        limit = time.monotonic() + 180
        while wanted not in self.text:
            assert time.monotonic() < limit, self.text
            if select.select([self.master], [], [], 0.5)[0]:
                try:
                    self.text += self._decode(os.read(self.master, 65536))
                except OSError:
                    break
        assert wanted in self.text
        return self.text

    def read_all(self):
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return self.text
            self.text += self._decode(data)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)


@pytest.fixture
def train(folder):
    def write(source):
        (folder / "train.py").write_text(source)

    return write


ASKING = """
import getpass
name = input("Name: ")
secret = getpass.getpass("Secret: ")
print("hello", name, len(secret))
"""


def test_a_job_asks_at_the_terminal_that_waits_for_it(start, train):
    train(ASKING)
    terminal = Terminal(start, "job", "run", "--name", "asks", "train.py")
    terminal.read_until("Name: ")
    os.write(terminal.master, b"Ann\n")
    terminal.read_until("Secret: ")
    os.write(terminal.master, b"s3cret\n")
    text = terminal.read_all()
    assert terminal.process.wait(180) == 0
    assert "hello Ann 6" in text
    assert (text.count("Name: "), text.count("Ann\r\n")) == (1, 1)
    assert "s3cret" not in text
    [job] = list_jobs()
    log = subprocess.run(
        [sys.executable, "-m", "submarine_engine.cli", "job", "logs", job.id],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert log.stdout == "Name: Ann\nSecret: \nhello Ann 6\n"


def test_an_interrupt_at_a_question_cancels_the_job(start, train):
    train(ASKING)
    terminal = Terminal(start, "job", "run", "train.py")
    terminal.read_until("Name: ")
    terminal.interrupt()
    assert "cancelled" in terminal.read_all()
    assert terminal.process.wait(180) == 130
    [job] = list_jobs()
    assert job.state is JobState.CANCELLED


def test_nobody_is_asked_without_a_terminal(start, train):
    train(ASKING)
    process = start(
        "job", "run", "train.py", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = process.communicate(b"Ann\n", 180)
    assert process.returncode == 1
    assert (out, b"EOFError" in err) == (b"Name: ", True)


def test_an_interrupt_cancels_the_job(start, train):
    train(SLOW)
    terminal = Terminal(start, "job", "run", "train.py")
    terminal.read_until("begun")
    terminal.interrupt()
    text = terminal.read_all()
    assert terminal.process.wait(180) == 130
    assert "cancelling; once more leaves at once" in text
    assert list_jobs()[0].state is JobState.CANCELLED


def test_a_second_interrupt_leaves_and_the_job_still_ends(start, train, monkeypatch):
    monkeypatch.setenv("SUBMARINE_GRACE", "3600")
    train(STUBBORN)
    terminal = Terminal(start, "job", "run", "train.py")
    terminal.read_until("begun")
    terminal.interrupt()
    terminal.read_until("not yet")
    terminal.interrupt()
    assert terminal.process.wait(180) == 130
    assert "left; the job ends by itself" in terminal.read_all()
    Path("go").touch()
    assert open_job("train").wait(180).state is JobState.CANCELLED


def test_an_interrupt_of_attach_leaves_the_job_alone(start, train, submarine):
    train(SLOW)
    submarine("job", "run", "train.py", "--detach")
    terminal = Terminal(start, "job", "attach", "train")
    terminal.read_until("begun")
    terminal.interrupt()
    assert terminal.process.wait(180) == 130
    assert "left; the job goes on" in terminal.read_all()
    job = open_job("train")
    assert not job.done()
    job.kill()


def test_a_line_below_the_log_says_how_far_it_is(start, train):
    train(
        "import pathlib, time\nprint('begun', flush=True)\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.02)\nprint('through')\n"
    )
    terminal = Terminal(start, "job", "run", "train.py")
    terminal.read_until("begun\r\n\r\x1b[2K\x1b[2mtrain  ")
    terminal.read_until("train  running · ")
    Path("go").touch()
    text = terminal.read_all()
    assert terminal.process.wait(180) == 0
    assert re.search(r"begun\r\n\r\x1b\[2K\x1b\[2mtrain  \w+ · ", text)
    assert "train  running · " in text
    assert re.search(r"\r\x1b\[2Kthrough\r\n", text)
    assert "\x1b[32msucceeded\x1b[0m in " in text


def test_a_job_that_is_over_is_never_shown_as_one_that_runs(start, train, submarine):
    train("print('x' * 1000)")
    submarine("job", "run", "train.py")
    text = Terminal(start, "job", "attach", "train").read_all()
    assert "succeeded" in text
    assert "train  " not in text


def test_colours_can_be_turned_off(start, train):
    train("print('x')")
    terminal = Terminal(start, "job", "run", "train.py", NO_COLOR="1")
    text = terminal.read_all()
    assert "succeeded in " in text
    assert not re.search(r"\x1b\[[0-9;]*m", text)


@pytest.mark.parametrize("term", ["dumb"])
def test_a_dumb_terminal_gets_plain_lines(start, train, term):
    train("print('x')")
    assert "\x1b" not in Terminal(start, "job", "run", "train.py", TERM=term).read_all()


def test_nothing_is_drawn_into_a_pipe(train, submarine):
    train("import time\nprint('x', flush=True)\ntime.sleep(0.5)")
    done = submarine("job", "run", "train.py")
    assert done.stdout == b"x\n"
    assert b"\x1b" not in done.stderr + done.stdout
    assert len(done.stderr.splitlines()) == 1


def test_escape_codes_of_a_job_are_not_obeyed_outside_its_log(start, train):
    train("raise ValueError('\\x1b]0;owned\\x07')\n")
    Terminal(start, "job", "run", "train.py").read_all()
    shown = Terminal(start, "job", "show", "train").read_all()
    assert "\x1b]0" not in shown
    assert "\x07" not in shown


@pytest.mark.sampled
@pytest.mark.parametrize(
    "words", [("logs", "train"), ("attach", "train"), ("logs", "train", "--json")]
)
def test_a_closed_pipe_is_no_error(start, train, submarine, words):
    train("for i in range(100000): print('line', i)")
    assert submarine("job", "run", "train.py").returncode == 0
    process = start("job", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(180) == 141
    assert b"Traceback" not in process.stderr.read()


def test_a_reader_that_goes_away_does_not_end_the_job(start, train):
    train(
        "import pathlib, time\n"
        "while not pathlib.Path('gone').exists(): print('x' * 1000, flush=True); time.sleep(0.01)\n"
    )
    process = start("job", "run", "train.py", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(180) == 141
    assert b"the job goes on" in process.stderr.read()
    assert not open_job("train").done()
    Path("gone").touch()
    assert open_job("train").wait(180).state is JobState.SUCCEEDED


def test_a_terminal_without_unicode_is_no_error(start):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = start("job", "run", stderr=subprocess.PIPE, env=environment)
    assert b"? name a Python file" in process.stderr.read()
    assert process.wait(180) == 64


def test_the_installed_program_is_the_command():
    program = Path(sys.executable).with_name("submarine")
    done = subprocess.run([program, "--version"], capture_output=True, check=True)
    assert done.stdout.decode() == f"submarine {__version__}\n"


def test_a_terminal_that_can_says_on_the_desktop_that_its_job_has_ended(
    start, train, monkeypatch, tmp_path
):
    (tmp_path / "at_once").mkdir()
    worth = "import submarine_engine.cli.desktop as it\nit._WORTH_IT = 0\n"
    (tmp_path / "at_once" / "sitecustomize.py").write_text(worth)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "at_once"))
    for name in ("TMUX", "STY", "LC_TERMINAL", "WT_SESSION"):
        monkeypatch.delenv(name, raising=False)
    train("print('here')")
    terminal = Terminal(start, "job", "run", "train.py", TERM_PROGRAM="iTerm.app")
    text = terminal.read_all()
    assert terminal.process.wait(180) == 0
    assert re.search(r"\x1b]9;train succeeded after [^\x1b]+\x1b\\", text)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;{}\x1b\\"),
        ({"TERM_PROGRAM": "WezTerm"}, "\x1b]9;{}\x1b\\"),
        ({"TERM_PROGRAM": "ghostty"}, "\x1b]9;{}\x1b\\"),
        ({"LC_TERMINAL": "iTerm2"}, "\x1b]9;{}\x1b\\"),
        ({"TERM": "xterm-kitty"}, "\x1b]99;;{}\x1b\\"),
        ({"WT_SESSION": "1"}, "\x1b]777;notify;Submarine;{}\x1b\\"),
        ({"TERM_PROGRAM": "iTerm.app", "TMUX": "default,1,0"}, ""),
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM_PROGRAM": "Apple_Terminal"}, ""),
    ],
)
def test_each_terminal_is_told_in_its_own_way_and_others_nothing(variables, said):
    assert desktop.sequence(variables) == said


def test_the_desktop_is_told_of_long_waits_alone_and_by_no_control_character(monkeypatch):
    def told(waited=60.0, name="net", **options):
        err = io.StringIO()
        output = Output(err=err, **options)
        output.live = not output.json
        status = JobStatus(state=JobState.FAILED)
        desktop.tell(output, name, status, waited, terminal="<{}>")
        return err.getvalue()

    assert told() == "<net failed after 1 min 00 s>"
    assert told(name="a\x1b\\b\x07\x9c") == "<a\\x1b\\b\\x07\\x9c failed after 1 min 00 s>"
    assert told(waited=5.0) == told(json=True) == ""
    monkeypatch.setenv("SUBMARINE_TERMINAL_NOTIFY", "false")
    assert told() == ""
