"""Events on their way home, packed into a log, and scalars of them: damage is passed over."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.clusters.log_mirror import EventLog, FolderSource, LogMirror
from submarine_engine.history import JobPaths, TaskPaths, make_private, write_json
from submarine_engine.tensorboard import scalar_reader, scalars
from submarine_engine.tensorboard.event_dirs import LinkedFolder, Source
from submarine_runtime import eventpack
from submarine_runtime import ship as shipping
from submarine_runtime.eventpack import LOG, finish, pack
from submarine_runtime.ship import EventShip
from tensorboard.summary import Writer


@pytest.fixture
def task(tmp_path):
    files = TaskPaths(tmp_path / "worker-0")
    make_private(files.root)
    return files


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_grows_comes_whole_whenever_it_is_looked_at(task, tmp_path):
    there = tmp_path / "there"
    (there / "a" / "b").mkdir(parents=True)
    log = str(task.log("events"))
    unpacked = EventLog(task)
    for number in range(5):
        for name in ("x", "a/b/y z é"):
            with (there / name).open("ab") as file:
                file.write(os.urandom(1000 * number))
        pack(str(there), log)
        unpacked.step()
    assert content(task.logdir) == content(there)
    (there / "x").write_bytes(b"anew")
    pack(str(there), log)
    EventLog(task).step()  # another keeper goes on
    assert content(task.logdir) == content(there)


def test_nothing_is_packed_twice(task, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "x").write_bytes(b"once")
    (there / "link").symlink_to("/etc/hostname")
    os.mkfifo(there / "pipe")
    for _ in range(3):
        pack(str(there), str(task.log("events")))
    assert task.log("events").read_bytes() == b"1 0 4\nxonce"


def fail_to_read(monkeypatch, path):
    """Have the disk lose all of a file but its first bytes."""
    real = os.pread

    def pread(descriptor, size, at):
        if Path(f"/proc/self/fd/{descriptor}").readlink() != path:
            return real(descriptor, size, at)
        if at:
            raise OSError(errno.EIO, "the disk is broken")
        return real(descriptor, 3, at)

    monkeypatch.setattr(os, "pread", pread)


def test_a_file_that_cannot_be_read_keeps_no_other(task, tmp_path, monkeypatch, capsys):
    there = tmp_path / "there"
    there.mkdir()
    (there / "bad").write_bytes(b"lost")
    (there / "good").write_bytes(b"here")
    listed = ["a file that is gone", *eventpack.files(str(there))]
    monkeypatch.setattr(eventpack, "files", lambda _: listed)
    fail_to_read(monkeypatch, there / "bad")
    log = task.log("events")
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="a file that is gone"):
            pack(str(there), str(log))
    packed = b"3 0 3\nbadlos4 0 4\ngoodhere"
    assert log.read_bytes() == packed  # also what could be read is packed once
    del listed[0]
    finish(str(there), str(log))
    assert "the last events are not packed: [Errno 5] the disk is broken" in capsys.readouterr().err
    monkeypatch.undo()
    pack(str(there), str(log))
    assert log.read_bytes() == packed + b"3 3 1\nbadt"


def test_a_log_that_is_full_takes_no_other_file_either(task, tmp_path, monkeypatch):
    there = tmp_path / "there"
    there.mkdir()
    for name in ("x", "y"):
        (there / name).write_bytes(b"once")
    tried = []

    def write(_out, data):
        tried.append(data)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        with pytest.raises(OSError, match="No space left"):
            pack(str(there), str(task.log("events")))
    assert len(tried) == 1
    pack(str(there), str(task.log("events")))
    assert task.log("events").read_bytes() == b"1 0 4\nxonce1 0 4\nyonce"


def test_a_file_that_cannot_be_read_keeps_no_other_from_hdfs(tmp_path):
    (tmp_path / "good").write_bytes(b"here")
    brought = []
    ship = EventShip(str(tmp_path), "http://nowhere", "board", lambda _: ["gone", "good"])
    ship._there.create = lambda name, data: brought.append((name, data))
    assert ship.step()
    assert brought == [("good", b"here")]


def test_a_task_is_said_to_be_whole_in_hdfs_once_its_last_file_could_be_read(tmp_path, monkeypatch):
    late, brought = tmp_path / "late", []
    ship = EventShip(str(tmp_path), "http://nowhere", "board", lambda _: ["late"])
    ship._there.create = lambda name, data: brought.append((name, data))
    monkeypatch.setattr(shipping.time, "sleep", lambda _: late.write_bytes(b"here"))
    ship.finish(600.0)
    assert [name for name, _ in brought] == ["late", shipping._OVER]
    brought.clear()
    late.unlink()
    monkeypatch.setattr(shipping.time, "sleep", lambda _: None)
    ship.finish(0.2)  # it never comes: all else is there
    assert [name for name, _ in brought] == [shipping._OVER]


@given(cut=st.integers(0, 200))
def test_a_piece_that_was_cut_off_ends_with_its_container(tmp_path_factory, cut):
    task = TaskPaths(tmp_path_factory.mktemp("cut") / "worker-0")
    make_private(task.root)
    first = b"1 0 150\na" + b"A" * 150
    cut = min(cut, len(first))
    task.log("events").write_bytes(first[:cut] + b"1 0 3\nbBBB")
    EventLog(task).step([0, cut])
    found = content(task.logdir) if task.logdir.exists() else {}
    assert found["b"] == b"BBB"
    assert found.get("a", b"A" * 150) == b"A" * 150


@pytest.mark.parametrize(
    "name", ["../out", "/etc/x", "a/../../out", "", ".", "a//b", "a\nb", "x" * 300, "a\x00b"]
)
def test_names_lead_nowhere_else(task, name):
    key = name.encode()
    good = b"4 0 2\ngoodok"
    task.log("events").write_bytes(b"%d 0 3\n%bBAD" % (len(key), key) + good)
    EventLog(task).step()
    assert content(task.logdir) == {"good": b"ok"}
    assert sorted(path.name for path in task.root.iterdir()) == [
        ".events-unpacked", "events", "logdir",
    ]  # fmt: skip


@given(data=st.binary(max_size=300))
def test_any_bytes_survive(tmp_path_factory, data):
    task = TaskPaths(tmp_path_factory.mktemp("any") / "worker-0")
    make_private(task.root)
    task.log("events").write_bytes(data)
    EventLog(task).step()
    scalar_reader.scalars_of(data)
    assert (task.root / ".events-unpacked").exists() or not task.logdir.exists()


def test_a_hole_is_not_written(task):
    task.log("events").write_bytes(b"1 900000000000 3\nxBAD")
    EventLog(task).step()
    assert task.logdir.joinpath("x").stat().st_size == 0


@pytest.fixture
def job(tmp_path):
    paths = JobPaths(tmp_path / "home", "20260101-000000-aaaaa")
    make_private(paths.task("worker-0").logdir)
    write_json(paths.record, {"cluster": "local", "spec": {"name": "job"}, "workdir": "/"})
    return paths


def logdir(job):
    return job.task("worker-0").logdir


def record(data):
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", scalar_reader._masked(head)) + data + bytes(4)


def simple(tag, step, value):
    inner = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    return b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary


def test_both_kinds_of_scalars_are_read(job):
    writer = Writer(str(logdir(job) / "new"))
    writer.add_scalar("loss", 0.25, 7)
    writer.close()
    (logdir(job) / "events.out.tfevents.1").write_bytes(record(simple(b"old", 3, 0.5)))
    assert scalars(job) == {"old": [[3, 0.5]], "new/loss": [[7, 0.25]]}


def test_the_last_record_may_still_be_written(job, monkeypatch):
    monkeypatch.setattr(
        sys.modules["submarine_engine.tensorboard.scalar_reader"], "_LOOK_AGAIN", 0.0
    )
    path = logdir(job) / "events.out.tfevents.1"
    whole = record(simple(b"loss", 1, 1.0)) + record(simple(b"loss", 2, 0.5))
    seen = []
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        seen.append(len(scalars(job).get("loss", [])))
    assert seen == sorted(seen)
    assert scalars(job) == {"loss": [[1, 1.0], [2, 0.5]]}


def test_many_points_are_thinned_and_the_newest_kept(job):
    writer = Writer(str(logdir(job)))
    for step in range(5000):
        writer.add_scalar("loss", float(step), step)
    for number in range(20):
        writer.add_scalar(f"tag-{number}", 1.0, 0)
    writer.close()
    found = scalars(job)
    assert len(found) == 8
    points = found["loss"]
    assert 100 <= len(points) <= 200
    assert (points[0], points[-1]) == ([0, 0.0], [4999, 4999.0])
    assert points == sorted(points)


def test_what_is_no_number_for_a_chart_is_left_out(job):
    bad = [float("nan"), float("inf"), float("-inf")]
    data = b"".join(record(simple(b"loss", step, value)) for step, value in enumerate(bad))
    data += record(simple(b"loss", 9, 1.0)) + record(simple(b"x" * 110, 1, 1.0))
    (logdir(job) / "events.out.tfevents.1").write_bytes(data)
    assert scalars(job) == {"loss": [[9, 1.0]]}


@pytest.mark.parametrize("make", [
    lambda path: path.write_bytes(os.urandom(5000)),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(record(os.urandom(500)) * 5),
    lambda path: path.write_bytes(struct.pack("<Q", 1 << 62) + bytes(100)),
    os.mkfifo,
    lambda path: path.mkdir(),
    lambda path: path.symlink_to("/dev/zero"),
])  # fmt: skip
def test_files_that_are_none_are_passed_over(job, make):
    make(logdir(job) / "events.out.tfevents.0")
    (logdir(job) / "events.out.tfevents.1").write_bytes(record(simple(b"loss", 1, 1.0)))
    assert scalars(job) == {"loss": [[1, 1.0]]}


def test_links_follow_what_jobs_write(tmp_path):
    there, farm = tmp_path / "there", LinkedFolder(tmp_path / "farm")
    source = Source("job", str(there))
    farm.renew([source])
    assert list(farm.root.iterdir()) == []
    (there / "train").mkdir(parents=True)
    (there / "train" / "events.out.tfevents.1").touch()
    farm.renew([source])
    assert (farm.root / "job" / "train").is_symlink()
    (there / "events.out.tfevents.1").touch()  # now all of it is a run, with train below it
    farm.renew([source])
    assert (farm.root / "job").is_symlink()
    assert (farm.root / "job" / "train" / "events.out.tfevents.1").exists()
    farm.renew([])
    assert list(farm.root.iterdir()) == []


def test_a_loop_of_links_ends(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "loop").symlink_to(there)
    farm = LinkedFolder(tmp_path / "farm")
    farm.renew([Source("job", str(there))])
    assert list(farm.root.iterdir()) == []


def test_the_last_look_misses_nothing(job):
    """A short job's events come within a moment of the look before."""
    assert scalars(job) == {}
    writer = Writer(str(job.task("worker-0").logdir))
    writer.add_scalar("loss", 0.5, 1)
    writer.close()
    assert scalars(job, at_once=True) == {"loss": [[1, 0.5]]}


def test_events_in_a_folder_that_this_machine_sees_come_as_they_are_written(task, tmp_path):
    """Nobody packs them on the host: whoever looks does, and after it another keeper."""
    there = tmp_path / "there"
    (there / "logdir/train").mkdir(parents=True)
    (there / "logdir/train/secret").symlink_to("/etc/hostname")
    events = there / "logdir/train/events.out.tfevents.1"
    copy = task.logdir / "train" / events.name
    for text in (b"one", b"one and two", b"anew"):  # the last one is shorter: it begins anew
        events.write_bytes(text)
        mirror = LogMirror(task, source := FolderSource("container-1", there))
        mirror.step()
        EventLog(task).step(mirror.borders(LOG))
        assert copy.read_bytes() == text
    size = (there / LOG).stat().st_size
    assert FolderSource("container-1", there).sizes()[LOG] == size  # what is packed is packed once
    assert [path.name for path in task.logdir.rglob("*")] == ["train", events.name]
    shutil.rmtree(there)
    assert source.sizes() == {}
