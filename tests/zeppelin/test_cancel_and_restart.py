"""Paragraphs that are cancelled at any moment, and an interpreter that is restarted under them."""

from __future__ import annotations

import os
import signal

from tests.jobs import until
from tests.zeppelin.talking import PYTHON, kernel_of, shown

WAITS = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\nopen({!r}, 'w').close()"


def held_kernel(talk):
    """Return the pid of the kernel, which is stopped from now on."""
    (pid,) = until(lambda: kernel_of(talk.process.pid))
    os.kill(pid, signal.SIGSTOP)
    return pid


def cancel_once_it_runs(talk, paragraph="p1"):
    until(lambda: talk.call("getStatus", "s1", paragraph) == "RUNNING")
    talk.call("cancel", "s1", PYTHON, talk.context(paragraph))


def test_cancelled_while_its_kernel_starts_it_never_runs(talk, tmp_path):
    talk.interpret("1")  # the kernel of the first session has made the profile by now
    go, ran = tmp_path / "go", tmp_path / "ran"
    startup = tmp_path / "ipython/profile_default/startup/waits.py"
    startup.write_text(WAITS.format(str(go), str(tmp_path / "started")))
    talk.begin("s2")
    running = talk.start(
        f"open({str(ran)!r}, 'w').close()", session="s2", context=talk.context("p2")
    )
    cancel_once_it_runs(talk, "p2")
    go.touch()
    until(lambda: running)
    assert talk.call("getStatus", "s2", "p2") == "ABORT"
    assert not ran.exists()
    found = talk.interpret("40 + 2", session="s2", context=talk.context("p3"))
    assert found[1] == [("TEXT", "42\n")]


def test_cancelled_before_its_kernel_has_begun_it_does_not_run_to_its_end(talk, tmp_path):
    """A kernel that is idle drops an interrupt."""
    talk.interpret("1")
    kernel = held_kernel(talk)
    go, ran = tmp_path / "go", tmp_path / "ran"
    running = talk.start(WAITS.format(str(go), str(ran)), context=talk.context("p2"))
    cancel_once_it_runs(talk, "p2")
    os.kill(kernel, signal.SIGCONT)
    until(lambda: running)
    assert talk.call("getStatus", "s1", "p2") == "ABORT"
    assert not ran.exists()


def test_cancelled_when_it_is_over_it_leaves_the_next_one_alone(talk, tmp_path):
    talk.interpret("1")
    go, ran = tmp_path / "go", tmp_path / "ran"
    running = talk.start(WAITS.format(str(go), str(ran)), context=talk.context("p2"))
    until(lambda: talk.call("getStatus", "s1", "p2") == "RUNNING")
    talk.call("cancel", "s1", PYTHON, talk.context("p1"))
    go.touch()
    until(lambda: running)
    assert running[0][0] == "SUCCESS", shown(running[0][1])


def test_restarted_under_it_a_paragraph_says_so(talk, tmp_path):
    talk.interpret("1")
    never = WAITS.format(str(tmp_path / "never"), str(tmp_path / "ran"))
    running = talk.start(f"print('on', flush=True)\n{never}", context=talk.context("p2"))
    until(lambda: any("on" in data for _, _, data in talk.events.updates))
    talk.call("close", "s1", PYTHON)
    until(lambda: running)
    code, outputs = running[0]
    assert code == "ERROR"
    assert "the interpreter was restarted: its variables are gone, jobs go on" in shown(outputs)
    assert "ZMQError" not in shown(outputs)
    assert talk.interpret("40 + 2", context=talk.context("p3"))[1] == [("TEXT", "42\n")]


def test_restarted_before_its_turn_a_paragraph_starts_no_kernel(talk, tmp_path):
    talk.interpret("1")
    never = WAITS.format(str(tmp_path / "never"), str(tmp_path / "ran"))
    running = talk.start(f"print('on', flush=True)\n{never}", context=talk.context("p2"))
    until(lambda: any("on" in data for _, _, data in talk.events.updates))
    waiting = talk.start("2", context=talk.context("p3"))
    until(lambda: talk.call("getStatus", "s1", "p3") == "RUNNING")
    talk.call("close", "s1", PYTHON)
    until(lambda: running and waiting)
    code, outputs = waiting[0]
    assert code == "ERROR"
    assert "restarted before the paragraph could run" in shown(outputs)
    until(lambda: not kernel_of(talk.process.pid))


def test_runs_are_forgotten_once_they_are_seen_and_their_session_is_closed(talk, tmp_path):
    def status(paragraph):
        return talk.call("getStatus", "s1", paragraph)

    talk.interpret("1")
    talk.interpret("1", session="s2", context=talk.context("other"))
    never = WAITS.format(str(tmp_path / "never"), str(tmp_path / "ran"))
    running = talk.start(f"print('on', flush=True)\n{never}", context=talk.context("p2"))
    until(lambda: any("on" in data for _, _, data in talk.events.updates))
    assert (status("p1"), status("p2")) == ("FINISHED", "RUNNING")
    talk.call("close", "s1", PYTHON)
    until(lambda: status("p1") == "UNKNOWN")  # that its end was sent is noted after it was
    until(lambda: running)
    until(lambda: status("p2") == "UNKNOWN")
    assert status("other") == "FINISHED"
