"""What serves a pod's files, over a pipe to a real process of this machine in the pod's place."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.backend import Allocated, KeptJob, SubmitQueue
from submarine_engine.clusters.container import Container
from submarine_engine.clusters.kubernetes.files import PodSource, pack
from submarine_engine.clusters.kubernetes.inside import reach
from submarine_engine.clusters.kubernetes.request import KubernetesRequest
from submarine_engine.clusters.log_mirror import LogsGoneError, LogTruncatedError
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.testing.jobs import until
from submarine_runtime import pod as runtime
from submarine_runtime.pod import BEGUN, ROOT, Server, _Lease, keep, runs
from websocket import ABNF, WebSocket, WebSocketException

from tests.kubernetes.conftest import TASK, WireOfThisMachine


@pytest.fixture
def brought(files, tmp_path):
    """Bring a pod a job's files."""
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "script.py").write_text("print('größe')")
    assert files.hello()["ready"] is False
    below = f"job/{TASK}"
    texts = {f"{below}/": b"", f"{below}/task.json": b"{}", f"{below}/asked-to-end": b""}
    files.bring(pack({"job/bundle": bundle}, texts))
    return files


def test_a_pod_is_brought_its_jobs_files_and_begins_then(pods, brought):
    assert brought.hello()["ready"] is True
    assert (pods.root / "ready").exists()
    assert (pods.root / "job/bundle/script.py").read_text() == "print('größe')"
    assert (pods.root / "lib/submarine_runtime/launcher.py").exists()
    assert (pods.root / "work").is_dir()
    for path in (pods.root / "job", pods.root / "job/worker-0/task.json"):
        assert path.stat().st_mode & 0o077 == 0


def test_what_was_half_brought_is_brought_anew(pods, files, tmp_path):
    files.hello()
    files._ask("bring", b"half", at=0)
    files.close()  # the keeper was killed
    (tmp_path / "empty").mkdir()
    files._tried_at = float("-inf")
    files.bring(pack({"job/bundle": tmp_path / "empty"}, {}))
    assert (pods.root / "job/bundle").is_dir()


def test_files_are_read_by_offset_and_what_was_cut_is_told(pods, brought):
    log = pods.root / "job" / TASK / "stdout"
    log.write_bytes(bytes(range(256)) * 10_000)
    sizes, alive = brought.sizes()
    assert (sizes["stdout"], alive) == (2_560_000, True)
    assert brought.read("stdout", 255, 3) == b"\xff\x00\x01"
    with pytest.raises(LogTruncatedError):
        brought.read("stdout", 2_560_001, 1)
    with pytest.raises(LogsGoneError):
        brought.read("stderr", 0, 1)
    (log.parent / "leads").symlink_to("/etc/passwd")
    assert "leads" not in brought.sizes()[0]
    with pytest.raises(LogsGoneError):
        brought.read("leads", 0, 10)


def test_messages_go_both_ways(pods, brought):
    folder = pods.root / "job" / TASK
    (folder / "hello.json").write_bytes(b'{"host": "x"}')
    assert brought.exchange({"answer.json": b"told"})["hello.json"] == b'{"host": "x"}'
    assert (folder / "answer.json").read_bytes() == b"told"
    with pytest.raises(ClusterError, match="cannot be written"):
        brought.exchange({"nowhere/stacks": b"{}"})
    brought.signal("TERM")
    brought.signal("KILL")
    assert (folder / "asked-to-end").read_text() == "TERM\nKILL\n"


def test_all_that_a_task_has_left_comes_home_before_the_pod_ends(
    pods, brought, tmp_path, monkeypatch
):
    folder = pods.root / "job" / TASK
    (folder / "stdout").write_bytes(b"0123456789")
    source = PodSource(brought, "pod-1", tmp_path / "spool", lambda: None)
    assert source.read("stdout", 0, 4) == b"0123"
    assert source.read("stdout", 4, 2) == b"45"
    (folder / "outcome.json").write_bytes(b"{}")
    (folder / "exit").write_bytes(b"0\n")
    sizes = source.sizes()
    assert (sizes["exit"], sizes["stdout"], sizes["outcome.json"]) == (2, 10, 2)
    assert (pods.root / "taken").exists()
    assert source.read("stdout", 6, 10) == b"6789"
    another = PodSource(brought, "pod-1", tmp_path / "spool", lambda: None)
    assert another.sizes() == sizes  # asks no pod
    monkeypatch.setattr("signal.signal", lambda *_: None)  # it is for a process of its own
    assert keep(str(pods.root), TASK, 0.0) == 0


def test_large_and_many_files_come_home_by_few_questions(pods, brought, tmp_path, monkeypatch):
    folder = pods.root / "job" / TASK
    left = {"stdout": os.urandom(2_500_000), "exit": b"0\n", "empty": b""}
    left |= {f"name {number}": b"%d" % number for number in range(2500)}
    for name, data in left.items():
        (folder / name).write_bytes(data)
    asked = []
    ask = brought._ask
    monkeypatch.setattr(
        brought, "_ask", lambda what, *body, **more: asked.append(what) or ask(what, *body, **more)
    )
    source = PodSource(brought, "pod-1", tmp_path / "spool", lambda: None)
    source.sizes()
    assert {one.name: one.read_bytes() for one in (tmp_path / "spool").iterdir()} == left
    # A megabyte, or a thousand pieces, at a time; in the order in which the disk has the files.
    assert asked.count("gather") in {4, 5}
    assert "read" not in asked


@pytest.mark.parametrize("sizes", [[3], [1, 1], ["x"], [-1], None, [True]])
def test_pieces_that_are_none_are_an_error(brought, monkeypatch, sizes):
    monkeypatch.setattr(brought, "_ask", lambda *_, **__: ({"sizes": sizes, "why": "odd"}, b"abc"))
    with pytest.raises(ClusterError, match=r"what it says of its files|odd"):
        brought.gather({"exit": (0, 2)})


def test_a_task_that_was_killed_with_its_container_has_a_last_word(pods, brought, tmp_path):
    said = []
    source = PodSource(brought, "pod-1", tmp_path / "spool", lambda: said[0] if said else None)
    begun = pods.root / "job" / TASK / BEGUN
    with begun.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert brought.sizes()[1] is True
    assert "exit" not in source.sizes()
    said.append("137 oom\n")
    sizes = source.sizes()
    assert source.read("exit", 0, sizes["exit"]) == b"137 oom\n"
    assert not (pods.root / "job" / TASK / "exit").exists()  # its disk may be full
    assert (pods.root / "taken").exists()


def test_files_that_find_no_room_in_a_pod_are_an_error_in_words(pods, files):
    (pods.root / ".begins").mkdir()  # nothing can be written there
    with pytest.raises(SubmissionError, match="its files cannot be written in the pod: Is a") as no:
        files.bring(pack({}, {}))
    assert no.value.fix


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda _: b"no archive", "file could not be opened successfully"),
        (lambda whole: whole[: len(whole) // 2], "Compressed file ended before"),
    ],
    ids=["no archive", "a half"],
)
def test_files_that_come_damaged_are_an_error_in_words(pods, files, damage, words):
    with pytest.raises(SubmissionError, match=f"its files cannot be written in the pod: {words}"):
        files.bring(damage(pack({}, {})))
    assert not (pods.root / "ready").exists()
    files._tried_at = float("-inf")
    files.bring(pack({}, {}))
    assert (pods.root / "ready").exists()


def test_a_pod_whose_disk_is_full_is_let_go_all_the_same(tmp_path, monkeypatch):
    job = tmp_path / "job" / TASK
    job.mkdir(parents=True)
    server = runtime.Server(str(tmp_path), TASK)
    note = server._note_taken

    def note_where_there_is_room():
        if job.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        note()

    monkeypatch.setattr(server, "_note_taken", note_where_there_is_room)
    assert server.do_end(b"") == {}
    assert (tmp_path / "taken").exists()


def test_a_pod_keeps_what_nobody_has_taken_for_its_time_and_no_longer(pods, brought):
    folder = pods.root / "job" / TASK
    with (folder / BEGUN).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waits = []
        keeper = threading.Thread(target=lambda: waits.append(keep(str(pods.root), TASK, 0.0)))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("signal.signal", lambda *_: None)  # of main threads alone
            keeper.start()
            assert runs(str(folder))
            assert not waits
            fcntl.flock(file, fcntl.LOCK_UN)
            keeper.join(60)
    assert waits == [1]


def test_a_task_that_runs_is_ended_when_nobody_has_looked_after_it_for_its_lease(pods, brought):
    folder = pods.root / "job" / TASK
    asked, log, heard = folder / "asked-to-end", folder / "stderr", pods.root / "heard"
    with (folder / BEGUN).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        times = [0.0, 600.0, 600.0]
        owner = _Lease(str(pods.root), TASK, *times[1:])
        owner.check()
        os.utime(heard, (0, 0))  # a clock is set to another year
        owner.check()
        assert asked.read_text() == "", "a clock alone ends no task"
        owner._since -= 601
        owner.check()
        owner.check()
        assert asked.read_text() == "TERM\n"
        assert "its lease is over" in log.read_text()
        heard.touch()  # it has been heard again, and goes
        owner.check()
        assert asked.read_text() == "TERM\n"
        owner._since -= 1201
        owner.check()
        assert asked.read_text() == "TERM\nKILL\n"
        assert log.read_text().count("its lease is over") == 1
        waits = []
        words = [str(pods.root), TASK, 0.0, 0.0, 0.0]
        keeper = threading.Thread(target=lambda: waits.append(keep(*words)))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("signal.signal", lambda *_: None)  # of main threads alone
            keeper.start()
            until(lambda: asked.read_text() == "TERM\nKILL\n" * 2)
            assert not waits, "it stays as long as the task does"
            fcntl.flock(file, fcntl.LOCK_UN)
            keeper.join(60)
    assert waits == [1]


def test_a_pod_that_hangs_up_is_called_again_after_a_while(pods, brought):
    brought.again_after = 600.0
    pods.wires[-1].process.kill()
    pods.wires[-1].process.wait()
    with pytest.raises(ClusterError, match="cannot be reached"):
        brought.sizes()
    with pytest.raises(ClusterError, match="cannot be reached"):
        brought.sizes()  # not at once
    assert len(pods.wires) == 1
    brought._tried_at = float("-inf")
    assert brought.hello()["ready"] is True
    assert len(pods.wires) == 2


@pytest.mark.parametrize("answer", [b"[]\n", b"{}\n", b"no json\n", b'{"size": "x"}\n'])
def test_an_answer_that_is_none_is_an_error_in_words(pods, files, answer):
    program = (
        f"import sys; sys.stdout.buffer.write({answer!r}); sys.stdout.flush(); sys.stdin.read()"
    )
    pods.open = lambda *_: WireOfThisMachine([sys.executable, "-c", program])
    with pytest.raises(ClusterError, match="cannot be reached"):
        files.hello()


def test_an_image_without_python_is_told_by_the_pods_own_words(pods, files):
    pods.open = lambda *_: WireOfThisMachine(["sh", "-c", "echo no python3 here >&2; exit 127"])
    with pytest.raises(ClusterError, match="no python3 here"):
        files.hello()


@pytest.mark.parametrize("held", [False, True], ids=["its lock is free", "and soon will be"])
def test_what_a_task_writes_for_tensorboard_comes_while_it_runs_and_at_its_end(
    pods, brought, tmp_path, held
):
    folder = pods.root / "job" / TASK
    (folder / "logdir/train").mkdir(parents=True)
    events = folder / "logdir/train/events.out.1"
    events.write_bytes(b"one")
    home = JobPaths(tmp_path / "home", "20260101-000000-aaaaa")
    container = Container(home, TASK, 0)
    container.see(PodSource(brought, "pod-1", tmp_path / "spool", lambda: None))
    copy = home.task(TASK).logdir / "train/events.out.1"
    until(lambda: container.poll() == [] and copy.exists() and copy.read_bytes() == b"one")
    events.write_bytes(b"one and two")
    with (folder / BEGUN).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if held else fcntl.LOCK_UN)
        (folder / "exit").write_text("0\n")
        assert container.drain()
    assert copy.read_bytes() == b"one and two"


def test_neither_secrets_nor_models_that_were_saved_come_home_with_the_rest(
    pods, brought, tmp_path
):
    folder = pods.root / "job" / TASK
    for name in ("launch.json", "task.json", "save.0000", "stdout", "outcome.json", "exit"):
        (folder / name).write_bytes(b"0\n")
    gone = []
    source = PodSource(
        brought, "pod-1", tmp_path / "spool", lambda: None, let_go=lambda: gone.append("pod-1")
    )
    assert set(source.sizes()) == {"stdout", "outcome.json", "exit"}
    assert gone == ["pod-1"]


def test_a_pod_whose_files_are_home_is_let_go_by_the_next_keeper_until_that_succeeds(
    pods, brought, tmp_path
):
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "exit").write_text("0\n")  # a keeper has brought it home, and was killed then
    tried, away = [], True

    def let_go():
        tried.append("pod-1")
        if away:
            raise ClusterError("it does not answer")
        return True

    brought.end = let_go

    def see():  # of one that is gone nobody can tell who has ended it
        tried.append("seen")

    source = PodSource(brought, "pod-1", spool, lambda: None, see=see, let_go=let_go)
    for _ in range(2):
        assert set(source.sizes()) == {"exit"}
    assert tried == ["seen", "pod-1", "pod-1"] * 2
    away = False
    for _ in range(2):
        assert set(source.sizes()) == {"exit"}
    assert tried == ["seen", "pod-1", "pod-1"] * 3


def test_a_program_of_the_pod_leads_to_the_server_beside_the_task(tmp_path):
    folder = tmp_path / "job" / TASK
    folder.mkdir(parents=True)
    command = [sys.executable, "-I", runtime.__file__, "reach", str(tmp_path), TASK]
    nobody = subprocess.run(command, capture_output=True, check=False)
    assert (nobody.returncode, nobody.stdout) == (1, b"")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "inside.sock"))
        server.listen()
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        connection, _ = server.accept()
        with connection, program:
            program.stdin.write(b"asked")
            program.stdin.flush()
            assert connection.recv(10) == b"asked"
            connection.sendall(b"answered")
            assert program.stdout.read(8) == b"answered"
            program.stdin.close()  # who asked is gone
            assert connection.recv(1) == b""
    assert program.returncode == 0


class ExecOfThisMachine:
    """The double of ``exec``: real frames of a WebSocket, whose program sends back what comes."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        self.sock, self.far = WebSocket(), WebSocket()
        for wire, end in ((self.sock, ours), (self.far, theirs)):
            wire.sock, wire.connected = end, True
        self.waiting = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=self.write, daemon=True).start()

    def read(self):
        with suppress(WebSocketException, OSError):
            while frame := self.far.recv_frame():
                if frame.opcode == ABNF.OPCODE_BINARY:
                    assert frame.data[:1] == b"\0"
                    self.waiting.put(frame.data[1:])
        self.waiting.put(b"")
        self.far.shutdown()  # a reset leaves it open, unlike an end

    def write(self):
        with suppress(WebSocketException, OSError):
            self.far.send_binary(b"\2said of a warning")
            self.far.ping("there?")
            while data := self.waiting.get():
                self.far.send_binary(b"\1" + data)
                if data.endswith(b"end"):
                    self.far.send_close()

    def open(self, _pod, _container, command):
        assert command[-3:] == ["reach", ROOT, TASK]
        return self


def test_much_goes_both_ways_at_once_and_each_end_tells_the_other_of_its_own():
    sent = os.urandom(1 << 23)
    end = reach(ExecOfThisMachine(), "pod-1", TASK, "python")
    with end:
        sender = threading.Thread(target=end.sendall, args=(sent + b"end",))
        sender.start()
        came = bytearray()
        while data := end.recv(1 << 16):
            came += data
        sender.join()
    assert bytes(came) == sent + b"end"


def test_who_goes_away_is_missed_in_the_pod():
    pod = ExecOfThisMachine()
    end = reach(pod, "pod-1", TASK, "python")
    end.sendall(b"asked")
    assert end.recv(5) == b"asked"
    end.close()
    until(lambda: is_over(pod))


def is_over(pod):
    """Return whether the pod's end of the WebSocket is closed."""
    with suppress(WebSocketException, OSError):
        pod.far.ping("still?")
        return False
    return True


def test_what_pods_have_left_is_gone_before_the_jobs_end_is_told_and_how_they_ended_is_kept(
    tmp_path,
):
    paths = JobPaths(tmp_path, "20260101-000000-aaaaa")
    left, name = paths.root / "pods/pod-1", {"worker-0": "pod-1"}
    left.mkdir(parents=True)
    (left / "exit").write_bytes(b"137 oom\n")
    (left / "stdout").write_bytes(b"its log")
    note = paths.root / "kubernetes.json"
    note.write_text(json.dumps({"attempt": 1, "pods": name, "created": True, "given": {}}))
    spec = JobSpec(roles=(Role(),))
    job = KeptJob(paths, spec, {"python": "python"}, {}, 1)
    state = SimpleNamespace(api=None, submit_queue=SubmitQueue(), pods=lambda **_: {})
    request = KubernetesRequest(state, job)
    for _ in range(2):  # once more by the next keeper
        assert request.words("worker-0", patient=False) == "OOMKilled: its node had no memory left"
        request.give_back()
        assert not left.parent.exists()
        request = KubernetesRequest(state, job)
        source = request.source(Allocated("pod-1", "n1", 0.0))
        assert source.sizes() == {"exit": 8}
        assert source.read("exit", 0, 100) == b"137 oom\n"
        with pytest.raises(LogsGoneError):
            source.read("stdout", 0, 1)
        assert request._is_home("pod-1")
    asked = JobSpec(roles=(Role(resources=Resources(memory=64)),))
    told = KubernetesRequest(state, job._replace(spec=asked)).words("worker-0", patient=False)
    assert told == "OOMKilled: the task took more memory than it asked for"
    nothing = KubernetesRequest(state, job._replace(attempt=2))  # which asked for nothing yet
    nothing.give_back()
    assert not nothing.begun


SAYS = """\
#!/bin/sh
echo "$PATH" > said
exec sleep 0
"""


@pytest.mark.parametrize("own", [False, True])
def test_what_a_task_begins_finds_the_jobs_python_before_the_images(tmp_path, own):
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(SAYS)
    python.chmod(0o700)
    folder = tmp_path / TASK
    folder.mkdir()
    (folder / "asked-to-end").touch()
    launch = {
        "gpus": 0, "command": [str(python)], "workdir": str(folder), "tells": "", "inside": "",
        "artifacts": "", "environment": {"PATH": "/its/own:/bin"} if own else {},
    }  # fmt: skip
    (folder / "launch.json").write_text(json.dumps(launch))
    path = os.environ["PATH"]
    program = Path(runtime.__file__).with_name("launcher.py")
    command = [sys.executable, "-I", str(program), str(tmp_path), TASK]
    subprocess.run(command, check=True, env={"PATH": path})
    said = (folder / "said").read_text().strip()
    assert said == ("/its/own:/bin" if own else f"{python.parent}:{path}")


def test_two_who_begin_a_pod_begin_it_once(tmp_path):
    """The first one's driver got no answer in time, and another one asks a second."""
    first, second = Server(str(tmp_path), TASK), Server(str(tmp_path), TASK)
    second._archive += "2"
    data = pack({}, {f"job/{TASK}/": b""})
    for server in (first, second):
        server.do_bring(data, 0)
    first.do_begin(b"")
    begun = tmp_path / "job" / TASK / "begun"
    begun.touch()
    second.do_bring(data, 0)
    second.do_begin(b"")
    assert begun.exists()
    assert not list(tmp_path.glob(".archive*"))
