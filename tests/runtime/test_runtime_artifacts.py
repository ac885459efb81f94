"""What a task leaves for people: put beside its logs, and brought home from there."""

from __future__ import annotations

import errno
import os
import shutil

import pytest
from submarine_engine.clusters import artifacts as bringing
from submarine_engine.clusters.artifacts import ArtifactMirror
from submarine_engine.clusters.log_mirror import FolderSource
from submarine_engine.errors import ClusterError
from submarine_engine.history import TaskPaths, make_private, read_json
from submarine_runtime import artifacts as runtime
from submarine_runtime.artifacts import PACK, finish

LARGE = b"large" * 300_000


@pytest.fixture
def there(tmp_path):
    """Give what a task has left on its host: ``left``, and its log folder, ``logs``."""
    for name in ("left", "logs"):
        (tmp_path / name).mkdir()
    return tmp_path


def put(there):
    finish(str(there / "left"), str(there / "logs"))
    return FolderSource("container-1", there / "logs")


def home(there):
    return TaskPaths(make_private(there / "home" / "worker-0"))


def bring(source, files, limit=1 << 40):
    return ArtifactMirror(files, limit).bring(source, source.sizes())


def came(files):
    """Return what has come home, by name."""
    root = files.artifacts
    found = [path for path in root.rglob("*") if path.is_file()]
    return {os.fsencode(path.relative_to(root)): path.read_bytes() for path in found}


HOSTILE = [b"a\nb", b"\x1b[31mred", b"not \xff utf-8", b"n" * 255, b"deep/er/x", b".hidden", b"-rf"]


def test_files_come_home_whatever_their_names_and_sizes(there):
    wanted = {name: b"in " + name for name in HOSTILE} | {b"empty": b"", b"large": LARGE}
    for name, data in wanted.items():
        path = there / "left" / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    source, files = put(there), home(there)
    assert source.sizes().keys() == {PACK, "artifact-1"}  # nothing else lies beside the logs
    assert bring(source, files) == ""
    assert came(files) == wanted
    assert read_json(files.artifacts_note) == {"version": 1, "left": {}, "names": []}
    assert sorted(path.name for path in files.root.iterdir()) == ["artifacts", "artifacts.json"]
    assert (files.artifacts.stat().st_mode | 0o077) == 0o40777  # the owner's alone
    assert bring(source, files) == ""  # once more: nothing happens


def test_a_large_file_takes_no_second_copy_and_may_be_read_by_the_node(there):
    large = there / "left" / "large"
    large.write_bytes(LARGE)
    large.chmod(0o600)
    put(there)
    assert large.samefile(there / "logs" / "artifact-1")
    assert large.stat().st_mode & 0o777 == 0o640


def test_another_disk_has_a_copy(there, monkeypatch):
    def refuse(*_args, **_options):
        raise OSError(errno.EXDEV, "another disk")

    (there / "left" / "large").write_bytes(LARGE)
    monkeypatch.setattr(runtime.os, "link", refuse)
    files = home(there)
    assert bring(put(there), files) == ""
    assert came(files) == {b"large": LARGE}


def test_links_and_pipes_stay_and_are_told(there):
    (there / "secret").write_text("nobody's business")
    left = there / "left"
    (left / "link").symlink_to(there / "secret")
    (left / "folder").symlink_to(there)
    os.mkfifo(left / "pipe")
    (left / "model").write_text("weights")
    files = home(there)
    said = bring(put(there), files)
    assert said == (
        "artifacts of worker-0 that did not come home: 2: a link; "
        "1: no file (a pipe, a socket, a device)"
    )
    assert came(files) == {b"model": b"weights"}
    assert read_json(files.artifacts_note)["names"][0] == ["folder", "a link"]


def test_a_folder_that_is_a_link_is_none_and_an_empty_one_leaves_nothing(there):
    (there / "left").rmdir()
    (there / "left").symlink_to(there)
    put(there)
    (there / "left").unlink()
    put(there)
    (there / "left").mkdir()
    assert put(there).sizes() == {}


def test_a_full_disk_there_is_told_and_costs_no_other_file(there, monkeypatch, capsys):
    """The file that finds no room is left out whole; the pack stays readable."""
    for name in ("a", "b", "c"):
        (there / "left" / name).write_text(name * 1000)
    write = os.write

    def fail(descriptor, data):
        if bytes(data).startswith(b"bbb"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(runtime.os, "write", fail)
    source, files = put(there), home(there)
    assert "1 artifacts are lost: no room on the node's disk" in capsys.readouterr().err
    assert "1: no room on the node's disk" in bring(source, files)
    assert came(files).keys() == {b"a", b"c"}


def test_a_file_that_grows_or_shrinks_while_it_is_read(there, monkeypatch):
    """What comes is as long as the file was, or nothing of it."""
    growing, shrinking = (there / "left" / name for name in ("growing", "shrinking"))
    growing.write_bytes(b"x" * 1000)
    shrinking.write_bytes(b"y" * 1000)
    read, grows = os.pread, growing.stat()

    def change(descriptor, size, at):
        if os.path.samestat(os.fstat(descriptor), grows):
            with growing.open("ab") as file:
                file.write(b"z" * 10)
        else:
            os.truncate(shrinking, 10)
        return read(descriptor, size, at)

    monkeypatch.setattr(runtime.os, "pread", change)
    source, files = put(there), home(there)
    monkeypatch.undo()
    assert "1: cannot be read" in bring(source, files)
    assert came(files) == {b"growing": b"x" * 1000}


def test_a_hundred_thousand_files_would_come_and_more_are_told(there, monkeypatch):
    monkeypatch.setattr(runtime, "MOST_FILES", 300)
    for number in range(310):
        (there / "left" / f"{number:04}").write_text(str(number))
    files = home(there)
    assert "10: more than" in bring(put(there), files)
    assert len(came(files)) == 300


def test_many_large_files_come_in_the_pack(there, monkeypatch):
    """A node tells all files of a container in one answer."""
    monkeypatch.setattr(runtime, "MOST_PARTS", 2)
    monkeypatch.setattr(runtime, "LARGE", 10)
    for number in range(5):
        (there / "left" / f"{number}").write_text(f"{number}" * 100)
    source, files = put(there), home(there)
    assert source.sizes().keys() == {PACK, "artifact-1", "artifact-2"}
    assert bring(source, files) == ""
    assert came(files) == {b"%d" % n: b"%d" % n * 100 for n in range(5)}


class Failing(FolderSource):
    """Gives a few pieces, then does not answer any more."""

    def __init__(self, *words, calls):
        super().__init__(*words)
        self.calls = calls
        self.read_at = []

    def read(self, name, offset, limit):
        if self.calls == 0:
            raise ClusterError("the node is silent")
        self.calls -= 1
        self.read_at.append((name, offset))
        return super().read(name, offset, min(limit, 100_000))


def test_who_goes_on_reads_no_byte_twice(there):
    (there / "left" / "large").write_bytes(LARGE)
    (there / "left" / "small").write_text("small")
    put(there)
    files, read = home(there), []
    for _ in range(100):
        source = Failing("container-1", there / "logs", calls=2)
        try:
            bring(source, files)
        except ClusterError:
            assert not files.artifacts_note.exists()
        read += source.read_at
        if files.artifacts_note.exists():
            break
    assert came(files) == {b"large": LARGE, b"small": b"small"}
    assert len(read) == len(set(read)) == 16


def test_what_came_of_another_container_is_dropped(there):
    (there / "left" / "large").write_bytes(LARGE)
    put(there)
    files = home(there)
    with pytest.raises(ClusterError):
        bring(Failing("container-0", there / "logs", calls=3), files)
    (there / "logs" / "artifact-1").unlink()
    (there / "left" / "large").write_bytes(b"L" * len(LARGE))
    assert bring(put(there), files) == ""
    assert came(files) == {b"large": b"L" * len(LARGE)}


def test_past_the_limit_files_stay_and_are_told(there):
    for name, size in (("a", 600), ("b", 600), ("c", 300)):
        (there / "left" / name).write_bytes(b"x" * size)
    files = home(there)
    said = bring(put(there), files, limit=1000)
    assert said.startswith("1 artifact of worker-0 stayed among its container's logs")
    assert "artifacts_limit is 1.0 kB" in said
    assert came(files).keys() == {b"a", b"c"}
    assert read_json(files.artifacts_note)["left"] == {"past artifacts_limit": 1}


def test_a_full_disk_here_is_told_and_leaves_no_half_file(there, monkeypatch):
    for name in ("a", "b"):
        (there / "left" / name).write_bytes(name.encode() * 1000)
    source, files, write = put(there), home(there), bringing._write

    def fail(descriptor, data):
        write(descriptor, data[:10])
        if data.startswith(b"bbb"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(descriptor, data[10:])

    monkeypatch.setattr(bringing, "_write", fail)
    assert "1: no room on the disk here" in bring(source, files)
    assert came(files) == {b"a": b"a" * 1000}


@pytest.mark.parametrize(
    "name",
    [b"../out", b"/etc/x", b"a/../../out", b".", b"a//b", b"a\0b", b"d/" * 150 + b"x", b"x" * 300],
    ids=range(8),
)
def test_a_name_leads_nowhere_else(there, name):
    """The pack is a stranger's, as is all that a job's code could have written."""
    pack = b"%d 0 4\n%bevil" % (len(name), name) + b"4 0 4\ngoodgood" + b"0 0 2\n{}"
    (there / "logs" / PACK).write_bytes(pack)
    source, files = FolderSource("container-1", there / "logs"), home(there)
    assert "1: a name that cannot be here" in bring(source, files)
    assert came(files) == {b"good": b"good"}
    assert not (files.root / "out").exists()
    assert not (files.root.parent / "out").exists()


@pytest.mark.parametrize(
    "pack",
    [b"", b"nonsense", b"4 0 9\ngood", b"4 0 99999999999999\ngood", b"0 0 3\n[1]", b"0 0 1\n"],
)
def test_a_damaged_pack_harms_nothing(there, pack):
    (there / "logs" / PACK).write_bytes(pack)
    source, files = FolderSource("container-1", there / "logs"), home(there)
    bring(source, files)
    assert came(files) == {}
    assert files.artifacts_note.exists()


def test_a_part_that_is_not_there_yet_is_waited_for(there):
    (there / "left" / "large").write_bytes(LARGE)
    source, files = put(there), home(there)
    shutil.move(there / "logs" / "artifact-1", there / "aside")
    with pytest.raises(ClusterError, match="artifact-1 of container-1 is not there"):
        bring(source, files)
    shutil.move(there / "aside", there / "logs" / "artifact-1")
    assert bring(source, files) == ""
    assert came(files) == {b"large": LARGE}


@pytest.mark.parametrize("at", ["told", "moved"])
def test_a_kill_between_the_last_renames_loses_nothing(there, monkeypatch, at):
    (there / "left" / "model").write_text("weights")
    source, files = put(there), home(there)
    mirror = ArtifactMirror(files, 1 << 40)

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(mirror, "_finish", die)
    with pytest.raises(KeyboardInterrupt):
        mirror.bring(source, source.sizes())
    if at == "moved":
        (files.root / ".artifacts" / "files").rename(files.artifacts)
    assert bring(source, files) == ""
    assert came(files) == {b"model": b"weights"}
    assert files.artifacts_note.exists()
