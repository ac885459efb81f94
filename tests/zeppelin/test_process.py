"""An interpreter process as Zeppelin's protocol sees it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from submarine_engine.errors import ConfigError
from submarine_engine.history import job_ids
from submarine_engine.records import list_jobs, open_job
from submarine_zeppelin import service
from submarine_zeppelin.sessions import clear_left
from submarine_zeppelin.wire import Listener
from thriftpy2.thrift import TException

from tests.jobs import until
from tests.zeppelin.server import free_port
from tests.zeppelin.talking import COMMAND, RUN, SHELL, Talk, kernel_of, shown

pytestmark = pytest.mark.service

WAITS = """\
--gpus 1
import os, time
print("begun", flush=True)
while not os.path.exists({!r}):
    time.sleep(0.02)
print("done")
"""


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def no_job_stays():
    yield
    for job in list_jobs():
        open_job(job.id).cancel("the test is over")


def listens(pid):
    """Return the addresses, hexadecimal as /proc has them, that a process listens on."""
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it has just been closed
            target = str(fd.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                found.add(words[1].partition(":")[0])
    return found


def test_a_paragraph_builds_on_the_one_before(talk):
    assert talk.interpret("%%time\nx = 20")[0] == "SUCCESS"
    code, outputs = talk.interpret("x * 2 + 2", context=talk.context("p2"))
    assert (code, shown(outputs).strip()) == ("SUCCESS", "42")
    code, outputs = talk.interpret("1 / 0", context=talk.context("p3"))
    assert code == "ERROR"
    assert "ZeroDivisionError" in shown(outputs)

    def complete(text):
        asked = "s1", "submarine_zeppelin.Python", text, len(text), talk.context()
        return [one.name for one in talk.call("completion", *asked)]

    # A kernel that takes long to look around answers nothing, and something the next time.
    until(lambda: "import" in complete("impo"))


def test_nothing_listens_elsewhere_than_on_loopback(talk):
    talk.interpret("1")
    for pid in (talk.process.pid, *kernel_of(talk.process.pid)):
        assert listens(pid) <= {"0100007F"}


def test_an_unknown_command_names_the_nearest(talk):
    code, outputs = talk.interpret("job lst", COMMAND)
    assert code == "ERROR"
    assert "list" in shown(outputs)
    assert talk.interpret("echo $((40 + 2))", SHELL)[1] == [("TEXT", "42\n")]


@pytest.mark.long
def test_the_cluster_that_a_session_uses_is_that_of_its_commands_and_of_no_other(talk):
    def doctors(session):
        found = talk.interpret("doctor", COMMAND, session, talk.context(f"d-{session}"))
        return next(line for line in str(found[1]).split("\\n") if "\\tcluster\\t" in line)

    talk.begin("s2")
    assert talk.interpret("use local", COMMAND, context=talk.context("p0"))[0] == "SUCCESS"
    assert "option" in doctors("s1")
    assert "option" not in doctors("s2")


def test_an_option_of_the_setting_that_is_refused_is_named_by_its_property(tmp_path):
    talk = Talk(tmp_path).begin(**{"submarine.job.queue": "root.default"})
    try:
        code, outputs = talk.interpret("1", RUN)
    finally:
        talk.close()
    assert code == "ERROR"
    assert "one queue" in shown(outputs)
    assert "from the interpreter's setting: submarine.job.queue=root.default" in shown(outputs)


def are_taken(port):
    """Return whether a server has read all that came to its port."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return not any(
        row[1].endswith(f":{port:04X}") and row[3] == "01" and int(row[4].partition(":")[2], 16)
        for row in rows
    )


def rests(pid):
    """Return whether no thread of a process wants to run."""
    with suppress(OSError):
        stats = [(one / "stat").read_text() for one in Path(f"/proc/{pid}/task").iterdir()]
        return all(stat.rpartition(")")[2].split()[0] != "R" for stat in stats)
    return False


def test_a_paragraph_sent_three_times_is_one_job(talk, tmp_path, home):
    go = tmp_path / "go"
    text = WAITS.format(str(go))
    answers = [talk.start(text, RUN) for _ in range(3)]
    talk.hear("begun")
    until(lambda: are_taken(talk.port))
    until(lambda: rests(talk.process.pid))  # who has read a call has found its run, too
    go.touch()
    until(lambda: all(answers))
    assert {answer[0][0] for answer in answers} == {"SUCCESS"}
    assert all(shown(answer[0][1]).count("done") == 1 for answer in answers)
    assert len(list(job_ids(home))) == 1
    # It was run to its end, and seen: run again it is another job.
    assert talk.interpret(text, RUN)[0] == "SUCCESS"
    assert len(list(job_ids(home))) == 2


def test_a_result_does_not_overtake_the_answer_that_it_runs(monkeypatch):
    """Zeppelin would write RUNNING over FINISHED, and the paragraph would run for ever.

    One that is cancelled while it waits would have failed, where Zeppelin hears of that first.
    """
    slept = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    monkeypatch.setattr(service, "time", clock)
    run = SimpleNamespace(answered_at=0.0, answers=0)
    service._let_answers_be_first(run)
    run.answered_at = service.time.monotonic() - 60
    service._let_answers_be_first(run)
    assert not slept
    run.answered_at = service.time.monotonic() + 60  # however busy the machine is
    service._let_answers_be_first(run)
    assert slept
    told = []
    run = SimpleNamespace(answered_at=0.0, answers=0, cancel=lambda: told.append(run.answers))
    monkeypatch.setattr(service.Service, "_find", lambda *_: run)
    asked = service.Service(None, None)
    asked.cancel("s1", "name", None)
    assert told == [1]  # before the paragraph can have ended

    def send(_):
        told.append(run.answers)
        if run.answers:
            asked.answered(True)

    clock.sleep = send
    service._let_answers_be_first(run)
    assert told[1] == 1
    assert run.answers == 0
    assert run.answered_at


def test_how_far_a_paragraph_is_told_before_its_end(monkeypatch):
    asked, state = service.Service(None, None), service.State.PENDING
    run = SimpleNamespace(answered_at=0.0, answers=0, state=state)
    asked._runs["n1", "p1"] = run
    assert asked.getStatus("s1", "p1") == "PENDING"
    assert not run.answers
    assert not run.answered_at
    run.state = service.State.RUNNING
    assert asked.getStatus("s1", "p1") == "RUNNING"
    assert run.answers == 1
    asked.answered(False)
    assert not run.answers
    assert run.answered_at


def test_a_result_that_could_not_be_sent_is_sent_again(monkeypatch):
    asked = service.Service(SimpleNamespace(draw=lambda *_: None), None)
    paragraph = SimpleNamespace(note_id="n1", id="p1")
    run = SimpleNamespace(delivered=True, past=False, paragraph=paragraph)
    for sent in (False, True):
        run.delivered = True
        asked._answering.run = run
        asked.answered(sent)
        assert run.delivered is sent


def test_threads_import_what_needs_ipython_one_after_the_other(monkeypatch):
    """Two at once would each find half of one of IPython's modules, now and then."""
    taken = []

    class Lock:
        def __enter__(self):
            taken.append("links")

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(service, "LATE_IMPORTS", Lock())
    monkeypatch.setattr("submarine_zeppelin.links.serve", lambda: None)
    service._serve_links()
    assert taken == ["links"]


def test_cancel_ends_the_job_and_those_who_wait(talk, tmp_path):
    first = talk.start(WAITS.format(str(tmp_path / "never")), RUN)
    talk.hear("begun")
    assert talk.call("getStatus", "s1", "p1") == "RUNNING"
    second = talk.start("x = 1", context=talk.context("p2"))
    until(lambda: talk.call("getStatus", "s1", "p2") == "RUNNING")
    talk.call("cancel", "s1", "submarine_zeppelin.Python", talk.context("p2"))
    talk.call("cancel", "s1", RUN, talk.context("p1"))
    until(lambda: first and second)
    assert talk.call("getStatus", "s1", "p1") == "ABORT"
    assert talk.call("getStatus", "s1", "p2") == "ABORT"
    assert [job.state.value for job in list_jobs()] == ["cancelled"]
    code, outputs = talk.interpret("x", context=talk.context("p3"))
    assert code == "ERROR", "what was cancelled in the queue did run"
    assert "NameError" in shown(outputs)


def test_progress_and_link_of_a_job(talk, tmp_path):
    running = talk.start(WAITS.format(str(tmp_path / "go")), RUN)
    until(lambda: talk.events.links)
    assert '"jobUrl": "http' in talk.events.links[0]
    assert '"label": "Log"' in talk.events.links[0]  # "YARN LOG" is one of YARN's
    (tmp_path / "go").touch()
    until(lambda: running)
    assert talk.call("getProgress", "s1", RUN, talk.context()) in range(101)


def test_pages_are_told_to_draw_what_has_just_come(talk):
    assert talk.interpret("40 + 2") == ("SUCCESS", [("TEXT", "42\n")])
    until(lambda: talk.events.links)  # who is late makes one of the two
    # Nothing new: another link beside the paragraph would make a menu of them.
    told = [json.loads(one) for one in talk.events.links]
    assert all(one == {"noteId": "n1", "paraId": "p1"} for one in told)


def test_a_kernel_that_dies_is_started_again(talk):
    talk.interpret("x = 1")
    endless = "import time\nprint('begun')\nwhile True: time.sleep(0.05)"
    running = talk.start(endless, context=talk.context("p2"))
    # A kernel that is gone before it is sent anything is simply started anew.
    talk.hear("begun")
    os.kill(kernel_of(talk.process.pid)[0], signal.SIGKILL)
    until(lambda: running)
    code, outputs = running[0]
    assert code == "ERROR"
    assert "the kernel ended" in shown(outputs)
    assert talk.interpret("40 + 2", context=talk.context("p3"))[1] == [("TEXT", "42\n")]


def test_a_gone_event_server_holds_nothing_up(talk):
    talk.interpret("x = 1")
    talk.events.close()
    code, outputs = talk.interpret("for i in range(5000): print(i)", context=talk.context("p2"))
    assert code == "SUCCESS"
    assert "4999" in shown(outputs)


def test_a_killed_interpreter_leaves_its_job_which_the_next_run_follows(tmp_path, home):
    go, first = tmp_path / "go", Talk(tmp_path / "first").begin()
    second = None
    try:
        first.start(WAITS.format(str(go)), RUN)
        first.hear("begun")
        kernels = kernel_of(first.process.pid)
        first.close()
        until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in kernels))
        second = Talk(tmp_path / "second").begin()
        followed = second.start(WAITS.format(str(go)), RUN)
        second.hear("begun")
        go.touch()
        until(lambda: followed)
    finally:
        first.close()
        if second:
            second.close()
    code, outputs = followed[0]
    assert code == "SUCCESS", shown(outputs)
    assert "done" in shown(outputs)
    assert len(list(job_ids(home))) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("other", [{"user": "bob"}, {"memory": "1G"}], ids=["user", "options"])
def test_nobody_follows_the_job_of_another_user_or_of_other_options(tmp_path, home, other):
    text = WAITS.format(str(tmp_path / "go"))
    for name, asked in (("first", {}), ("second", other)):
        talk = Talk(tmp_path / name).begin()
        try:
            running = talk.start(text, RUN, context=talk.context(**asked))
            talk.hear("begun")
            if name == "second":
                (tmp_path / "go").touch()
                until(lambda: running)  # noqa: B023
        finally:
            talk.close()
    code, outputs = running[0]
    assert (code, "followed on" in shown(outputs)) == ("SUCCESS", False)
    assert len(list(job_ids(home))) == 2


@pytest.mark.long
def test_a_job_that_is_followed_again_is_cancelled_with_its_paragraph(tmp_path):
    text = WAITS.format(str(tmp_path / "never"))
    for name in ("first", "second"):
        talk = Talk(tmp_path / name).begin()
        try:
            running = talk.start(text, RUN)
            talk.hear("begun")
            if name == "second":
                talk.call("cancel", "s1", RUN, talk.context())
                until(lambda: running)  # noqa: B023
        finally:
            talk.close()
    assert [job.state.value for job in list_jobs()] == ["cancelled"]


def test_what_was_recovered_is_never_run_again(talk, tmp_path):
    file = tmp_path / "ran"
    text = f"open({str(file)!r}, 'w').close()"
    code, outputs = talk.interpret(text, context=talk.context(isRecover="true"))
    assert code == "SUCCESS"
    assert "run it again" in shown(outputs)
    assert not file.exists()


def test_shutdown_ends_process_and_kernel(talk):
    talk.interpret("1")
    kernels = kernel_of(talk.process.pid)
    assert kernels
    with suppress(OSError, EOFError, TException):  # it may be gone before its answer is
        talk.call("shutdown")
    assert talk.process.wait(180) == 0
    until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in kernels))


def test_bad_ranges_and_nobody_there():
    with pytest.raises(ConfigError, match="no range of ports"):
        Listener("127.0.0.1", "many")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="is free"):
            Listener("127.0.0.1", f"{port}:{port}")
    nobody = str(free_port())
    command = [sys.executable, "-m", "submarine_zeppelin", "-c", "127.0.0.1", "-p", nobody]
    found = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert found.returncode == 1
    assert "submarine: " in found.stderr
    assert "Traceback" not in found.stderr


def test_it_logs_into_a_file_of_its_owner(talk, home):
    """Zeppelin reads what a process writes only until it has registered."""
    log = home / "zeppelin/logs/submarine-x.log"
    until(lambda: Path(f"/proc/{talk.process.pid}/fd/2").readlink() == log)
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_the_log_goes_on_until_it_is_too_long(home):
    def write(group, text):
        code = "from submarine_zeppelin.service import begin_log as begin; "
        code += f"begin({group!r}); print({text!r})"
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout

    log = service.log_path("../two words")
    assert (log.parent, log.name) == (home / "zeppelin/logs", "two-words.log")
    assert (write("../two words", "one"), write("../two words", "two")) == (b"", b"")
    assert log.read_text() == "one\ntwo\n"
    os.truncate(log, 11_000_000)
    write("../two words", "three")
    assert log.read_text() == "three\n"
    assert log.with_name("two-words.log.1").stat().st_size == 11_000_000
    log.unlink()
    log.symlink_to(home / "elsewhere")
    assert write("../two words", "as before") == b"as before\n"


def test_the_folder_of_a_killed_interpreters_kernel_is_removed(tmp_path, monkeypatch):
    """A living one's is kept, and so is whatever else is called like one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    left, kept = f"submarine-kernel-{gone.pid}-a", f"submarine-kernel-{os.getpid()}-b"
    others = ("submarine-kernel-x-c", "submarine-kernel-")
    for name in (left, kept, *others):
        (tmp_path / name).mkdir()
    (tmp_path / f"submarine-kernel-{gone.pid}-link").symlink_to(tmp_path / kept)
    clear_left()
    assert {path.name for path in tmp_path.iterdir()} == {
        kept, *others, f"submarine-kernel-{gone.pid}-link",
    }  # fmt: skip
