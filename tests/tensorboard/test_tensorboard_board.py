"""TensorBoards as processes: what they show, who may read them, when they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from submarine_engine.clusters import locks
from submarine_engine.errors import ClusterError, CommandError, JobNotFoundError, UnsupportedError
from submarine_engine.history import make_private
from submarine_engine.tensorboard import board as module
from submarine_engine.tensorboard import (
    find_board,
    list_boards,
    select,
    start_board,
    stop_board,
    wait_for_board,
)
from submarine_engine.tensorboard.board import Board, Files

from tests.jobs import until
from tests.tensorboard.conftest import Reader, writes

pytestmark = pytest.mark.service


def test_a_job_s_scalars_are_drawn(here):
    job_id = here.run(writes(), name="digits")
    board = wait_for_board(here.home, select(here.home, ["digits"]))
    reader = Reader(board)
    run = f"digits-{job_id[-5:]}"
    reader.until_runs(run)
    until(lambda: [step for step, _ in reader.scalars(run, "loss")] == list(range(10)))
    assert reader.scalars(run, "loss")[1][1] == pytest.approx(0.5)


def test_it_shows_a_job_that_still_writes_and_outlives_it(here):
    flag = here.folder / "go"
    script = f"""
import os, time
from tensorboard.summary import Writer
writer = Writer(os.environ["SUBMARINE_LOGDIR"] + "/train")
writer.add_scalar("loss", 1.0, 0)
writer.flush()
while not os.path.exists({str(flag)!r}):
    time.sleep(0.02)
writer.add_scalar("loss", 0.5, 1)
writer.close()
"""
    job_id = here.submit(script, name="long", tensorboard=True)
    [board] = until(lambda: list_boards(here.home))
    assert board.wanted.jobs == (job_id,)
    reader, run = Reader(board), f"long-{job_id[-5:]}/train"
    until(lambda: reader.scalars(run, "loss") == [[0, 1.0]])
    flag.touch()
    until(lambda: here.cluster.status(job_id).state.final)
    until(lambda: reader.scalars(run, "loss") == [[0, 1.0], [1, 0.5]])


def test_all_jobs_come_to_the_one_over_all_of_them(here):
    first = here.run(writes(), name="one")
    reader = Reader(wait_for_board(here.home, select(here.home)))
    reader.until_runs(f"one-{first[-5:]}")
    second = here.run(writes(runs=("train", "eval")), name="two")
    here.run("pass", name="without")
    two = f"two-{second[-5:]}"
    reader.until_runs(f"one-{first[-5:]}", f"{two}/train", f"{two}/eval")


def test_the_checkpoint_path_is_looked_through(here):
    script = writes().replace('os.environ["SUBMARINE_LOGDIR"]', '"kept/deep/tb"')
    job_id = here.run(script, name="saver", checkpoint_path="kept")
    reader = Reader(wait_for_board(here.home, select(here.home, [job_id])))
    reader.until_runs(f"saver-{job_id[-5:]}/checkpoints/deep/tb")


def test_a_folder_can_be_shown_whatever_its_name(here):
    folder = here.folder / "odd, name: of all"
    job_id = here.run(writes())
    here.paths(job_id).task("worker-0").logdir.rename(folder)
    reader = Reader(wait_for_board(here.home, select(here.home, folders=[str(folder)])))
    reader.until_runs(folder.name)


def test_the_same_content_is_one_process(here):
    job_id = here.run(writes())
    shown = select(here.home, [job_id])
    first = wait_for_board(here.home, shown)
    start_board(here.home, shown)
    assert wait_for_board(here.home, shown) == first
    assert [board.pid for board in list_boards(here.home)] == [first.pid]


def test_it_holds_no_gpu_and_no_tensorflow(here):
    board = wait_for_board(here.home, select(here.home))
    environment = Path(f"/proc/{board.pid}/environ").read_bytes().split(b"\0")
    assert b"CUDA_VISIBLE_DEVICES=" in environment
    assert b"libtensorflow" not in Path(f"/proc/{board.pid}/maps").read_bytes()
    assert Files(here.home, board.id).record.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_it_ends_after_its_last_reader(here, monkeypatch):
    monkeypatch.setenv("SUBMARINE_TENSORBOARD_IDLE", "10")  # more than it takes to read it
    board = wait_for_board(here.home, select(here.home))
    Reader(board).runs()
    until(lambda: not list_boards(here.home))
    assert find_board(here.home, board.id).port == 0
    monkeypatch.delenv("SUBMARINE_TENSORBOARD_IDLE")
    again = wait_for_board(here.home, board.wanted)
    assert again.id == board.id
    assert again.pid != board.pid


def test_one_that_is_stopped_while_it_starts_does_not_come_back(here):
    shown = select(here.home)
    files = Files(here.home, shown.id)
    start_board(here.home, shown)
    until(files.links.exists)  # it has read its record, and goes on to start
    assert stop_board(here.home, shown.id)
    until(lambda: locks.is_free(files.lock))
    assert not files.record.exists()


def test_one_that_was_killed_is_started_again(here):
    first = wait_for_board(here.home, select(here.home))
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not list_boards(here.home))
    assert wait_for_board(here.home, first.wanted).key != first.key


@pytest.mark.parametrize("how", ["it is stopped", "nobody has asked for it in a month"])
def test_what_one_that_was_killed_has_left_goes(how, tmp_path):
    home, events = tmp_path / "home", tmp_path / "events"
    events.mkdir()
    wanted = select(home, folders=[str(events)])
    files = Files(home, wanted.id)
    make_private(files.root)
    files.write(Board(wanted))
    files.log.touch()
    files.links.mkdir()
    (files.links / "events").symlink_to(events)
    if how == "it is stopped":
        assert not stop_board(home, wanted.id)
    else:
        os.utime(files.record, (0, 0))
        module.sweep(home)
    assert {path.suffix for path in files.root.iterdir()} <= {".lock"}
    assert events.is_dir()


def test_the_record_of_one_that_is_over_is_not_that_of_whoever_begins_it_anew(tmp_path):
    wanted = select(make_private(tmp_path / "home"), folders=[str(tmp_path)])
    files = Files(tmp_path / "home", wanted.id)
    make_private(files.root)
    with subprocess.Popen(["true"]) as over:
        over.wait()
    files.write(Board(wanted, over.pid, 1, 6006, "key"))
    lock = locks.take(files.lock)
    assert files.live() is None
    locks.drop(lock)


def test_it_needs_no_certain_port(here):
    board = wait_for_board(here.home, select(here.home))
    os.kill(board.pid, signal.SIGKILL)
    until(lambda: not list_boards(here.home))
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # somebody else has it by now
            taken.bind(("127.0.0.1", board.port))
            taken.listen()
        assert wait_for_board(here.home, board.wanted).port != board.port


def test_nobody_reads_without_the_key(here):
    board = wait_for_board(here.home, select(here.home))
    session = requests.Session()
    session.trust_env = False
    base = f"http://127.0.0.1:{board.port}{board.path}"
    for query in ("", "?key=", "?key=wrong", "data/runs"):
        assert session.get(base + query, timeout=180).status_code == 403
    session.headers["Cookie"] = f"submarine-tensorboard-{board.key[:8]}=nonsense; ;;=,\u00e9"
    assert session.get(base, timeout=180).status_code == 403


def test_a_stranger_s_process_is_never_ended(here):
    board = wait_for_board(here.home, select(here.home))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        files = Files(here.home, board.id)
        data = json.loads(files.record.read_text())
        data["live"]["pid"] = stranger.pid
        files.record.write_text(json.dumps(data))
        assert stop_board(here.home, board.id)
        until(lambda: locks.is_free(files.lock))  # its own process saw that its record is gone
        assert stranger.poll() is None
        stranger.stdin.close()


def test_what_cannot_be_shown_is_said_at_once(here):
    with pytest.raises(JobNotFoundError):
        select(here.home, ["nothing"])
    with pytest.raises(CommandError, match="no folder"):
        select(here.home, folders=["not-there"], begin=here.folder)
    with pytest.raises(CommandError, match="s3"):
        select(here.home, folders=["s3://bucket/logs"])
    with pytest.raises(CommandError, match="contradict"):
        select(here.home, ["x"], everything=True)
    for bad in ("../../etc", "0" * 15, "g" * 16, ""):
        with pytest.raises(CommandError):
            find_board(here.home, bad)
    with pytest.raises(CommandError, match="there is no TensorBoard"):
        find_board(here.home, "0" * 16)


def test_another_user_s_is_not_found(here, monkeypatch):
    monkeypatch.setenv("SUBMARINE_USER", "ada")
    job_id = here.run(writes())
    board = wait_for_board(here.home, select(here.home, [job_id]))
    monkeypatch.setenv("SUBMARINE_USER", "grace")
    with pytest.raises(JobNotFoundError):
        select(here.home, [job_id])
    with pytest.raises(CommandError):
        find_board(here.home, board.id)
    assert list_boards(here.home) == []
    monkeypatch.setenv("SUBMARINE_USER", "ada")
    assert list_boards(here.home) == [board]


def test_one_that_cannot_start_says_why(here, monkeypatch):
    monkeypatch.setenv("HADOOP_CONF_DIR", str(here.folder / "nowhere"))
    with pytest.raises(ClusterError, match="ended as it began"):
        wait_for_board(here.home, select(here.home, folders=["hdfs:///logs"]))


def test_where_it_is_not_installed_the_fix_is_said(here, monkeypatch):
    from submarine_engine.tensorboard import board

    monkeypatch.setattr(board, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedError, match=r"-m pip install .*tensorboard"):
        start_board(here.home, select(here.home))
    with pytest.raises(UnsupportedError):
        here.submit("pass", tensorboard=True)
    assert module.list_boards(here.home) == []
