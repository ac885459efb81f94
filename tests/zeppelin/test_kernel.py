"""The kernel of a session, driven as the interpreter drives it."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from queue import Empty
from types import SimpleNamespace

import pytest
from submarine_engine.errors import ClusterError
from submarine_zeppelin import sessions as kernels

from tests.jobs import until

UNANSWERED = """
session = get_ipython().kernel.session
send = session.send
def all_but_replies(stream, kind, *args, **options):
    return None if kind == "execute_reply" else send(stream, kind, *args, **options)
session.send = all_but_replies
"""


@pytest.fixture
def kernel():
    kernel = kernels.Kernel()
    kernel.start()
    yield kernel
    kernel.close()


def test_a_kernel_that_is_idle_and_does_not_reply_is_not_waited_for(kernel, monkeypatch):
    kinds = []
    assert kernel.run("1", {}, lambda kind, _: kinds.append(kind))["status"] == "ok"
    assert "execute_result" in kinds
    monkeypatch.setattr(kernels, "_REPLY", 0.5)
    assert kernel.run(UNANSWERED, {}, lambda *_: None)["status"] == "aborted"
    assert kernel.lives


# A display that the reply overtakes, after code that has shown nothing for long.
LATE = """
import os, time
session = get_ipython().kernel.session
send, held = session.send, []
def late(stream, message, *args, **options):
    kind = message if isinstance(message, str) else message["msg_type"]
    if kind == "display_data":
        held.append((stream, message, args, options))
        return None
    sent = send(stream, message, *args, **options)
    if kind == "execute_reply":
        open({replied!r}, "w").close()
        while not os.path.exists({seen!r}): time.sleep(0.01)
        for stream, message, args, options in held:
            send(stream, message, *args, **options)
    return sent
session.send = late
while not os.path.exists({silent!r}): time.sleep(0.01)
display({{"text/plain": "the end"}}, raw=True)
"""


def test_what_a_reply_overtakes_is_not_lost(kernel, monkeypatch, tmp_path):
    silent, replied, seen = (tmp_path / name for name in ("silent", "replied", "seen"))
    shown, skipped, looks = [], [0.0], [0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + skipped[0])
    monkeypatch.setattr(kernels, "time", clock)

    def take(kind, content):
        if kind == "display_data":
            shown.append(content["data"]["text/plain"])
        elif not kind and not silent.exists():
            skipped[0] = 10 * kernels._REPLY
            silent.touch()
        elif not kind and replied.exists():
            looks[0] += 1
            if looks[0] == 3:
                seen.touch()

    code = LATE.format(silent=str(silent), replied=str(replied), seen=str(seen))
    assert kernel.run(code, {}, take)["status"] == "ok"
    assert shown == ["the end"]


def test_whoever_starts_a_kernel_has_its_magics(monkeypatch):
    kernel = kernels.Kernel()
    load, held = kernel._load, []

    def loading():
        held.append(kernel._starting.locked())  # others wait: they would run without the magics
        load()

    monkeypatch.setattr(kernel, "_load", loading)
    kernel.start()
    kernel.close()
    assert held == [True]


def test_a_kernel_without_its_magics_is_none(monkeypatch):
    monkeypatch.setattr(kernels, "EXTENSION", "no_such_extension")
    kernel = kernels.Kernel()
    for _ in range(2):
        with pytest.raises(ClusterError, match="cannot load no_such_extension"):
            kernel.start()
        assert not kernel.lives


# Far more than a reader may be behind, and none of it is read before all of it is there.
CHATTY = """
for number in range({count}):
    print(number, "x" * 200, flush=True)
open({done!r}, "w").close()
"""
NEVER_IDLE = """
session = get_ipython().kernel.session
send = session.send
def all_but_idle(stream, kind, content=None, *args, **options):
    if kind == "status" and (content or {}).get("execution_state") == "idle":
        return None
    return send(stream, kind, content, *args, **options)
session.send = all_but_idle
"""


@pytest.mark.long
def test_no_line_is_lost_however_far_the_reader_is_behind(kernel, tmp_path):
    done, lines = tmp_path / "done", []

    def take(kind, content):
        if kind == "stream":
            until(done.exists)
            lines.append(content["text"])

    count = 8_000
    reply = kernel.run(CHATTY.format(count=count, done=str(done)), {}, take)
    assert reply["status"] == "ok"
    numbers = [int(line.split()[0]) for line in "".join(lines).splitlines()]
    assert numbers == list(range(count))


def test_a_kernel_that_replies_and_is_not_seen_idle_is_not_waited_for(kernel, monkeypatch):
    monkeypatch.setattr(kernels, "_REPLY", 0.5)
    assert kernel.run(NEVER_IDLE, {}, lambda *_: None)["status"] == "ok"
    assert kernel.run("1", {}, lambda *_: None)["status"] == "ok"


def test_commands_are_those_of_the_notes_python(kernel):
    kinds = []
    code = "import shutil, sys, os\nprint([shutil.which(p) for p in ('python', 'submarine')])"
    kernel.run(code, {}, lambda _, content: kinds.append(content.get("text", "")))
    folder = Path(sys.executable).parent
    assert "".join(kinds).strip() == str([str(folder / "python"), str(folder / "submarine")])


def test_all_that_a_shell_writes_arrives_in_both_streams(kernel):
    texts = {"stdout": [], "stderr": []}

    def take(kind, content):
        if kind == "stream":
            texts[content["name"]].append(content["text"])

    script = "seq 300000\nprintf 'é%.0s' $(seq 70000) >&2\ncat <<END\nto itself\nEND"
    assert kernel.run(f"%%submarine.sh\n{script}", {}, take)["status"] == "ok"
    lines = "".join(texts["stdout"]).splitlines()
    assert lines == [*map(str, range(1, 300_001)), "to itself"]
    assert "".join(texts["stderr"]) == "é" * 70_000


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "the shell ended with exit status 3"),
        ("kill -9 $$", "the shell was ended by SIGKILL"),
        ("exit 4\n" + "# not read any more\n" * 20_000, "the shell ended with exit status 4"),
    ],
    ids=["status", "signal", "long"],
)
def test_a_shell_that_fails_says_how(kernel, script, said):
    errors = []
    reply = kernel.run(f"%%submarine.sh\n{script}", {}, lambda *told: errors.append(told))
    assert reply["status"] == "error"
    assert said in reply["evalue"]


def test_an_interrupted_shell_that_does_not_end_is_ended(kernel):
    def take(kind, _):
        if kind == "stream":
            kernel.interrupt()

    script = "trap '' INT\necho begun\nwhile :; do sleep 0.05; done"
    reply = kernel.run(f"%%submarine.sh\n{script}", {}, take)
    # It is killed where it does not end in time, as on a busy machine.
    assert re.search("the shell was ended by SIG(TERM|KILL)", reply["evalue"])


def test_one_that_is_closed_between_its_start_and_a_paragraph_says_that_jobs_go_on(kernel):
    kernel.close()
    with pytest.raises(kernels.KernelDiedError, match="variables are gone, jobs go on"):
        kernel.run("1", {}, lambda *_: None)


def test_a_kernel_that_died_says_that_jobs_go_on(kernel):
    with pytest.raises(kernels.KernelDiedError, match=r"the kernel ended: .* jobs go on"):
        kernel.run("import os; os._exit(1)", {}, lambda *_: None)


def test_the_last_words_of_a_kernel_that_died_are_shown(monkeypatch):
    """They come between the look for them and the look whether it lives."""
    kernel, shown = kernels.Kernel(), []
    message = {"parent_header": {"msg_id": "it"}, "msg_type": "stream", "content": {"text": "last"}}
    come = iter([Empty, message, Empty, Empty])

    def get_iopub_msg(timeout):
        found = next(come)
        if found is Empty:
            raise Empty
        return found

    client = SimpleNamespace(get_iopub_msg=get_iopub_msg)
    monkeypatch.setattr(kernel, "_client", client)
    with pytest.raises(kernels.KernelDiedError):
        kernel._collect(client, "it", lambda _, content: shown.append(content["text"]))
    assert shown == ["last"]
