"""A packed model on its way: what was packed comes out, and nothing else does."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.clusters.packed import unpack
from submarine_engine.clusters.saving import read_note
from submarine_engine.errors import ClusterError
from submarine_runtime import packing

NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40
).filter(lambda name: name not in (".", ".."))
TREES = st.dictionaries(NAMES, st.binary(max_size=40_000), min_size=1, max_size=5)


def come(folder, told, to):
    """Unpack what `packing` left in a folder, as it comes from a node: in small reads."""
    names = [f"save.{number:04d}" for number in range(len(told["pieces"]))]

    def read(name, offset, limit):
        with (folder / name).open("rb") as file:
            file.seek(offset)
            return file.read(min(limit, 3000))

    unpack(read, dict(zip(names, told["pieces"], strict=True)), told["sha256"], to)


@given(tree=TREES, below=TREES)
def test_what_was_packed_comes_out(tmp_path_factory, tree, below):
    tmp_path = tmp_path_factory.mktemp("packed")
    source, there, to = (tmp_path / name for name in ("source", "there", "to"))
    for folder in (source, there, to, source / "a folder", source / "empty"):
        folder.mkdir()
    for root, files in ((source / "a folder", below), (source, tree)):
        for name, data in files.items():
            if not (root / name).is_dir():
                (root / name).write_bytes(data)
    piece, packing.PIECE = packing.PIECE, 10_000
    try:
        told = packing.pack(str(source), f"{there}/save", 0o600)
    finally:
        packing.PIECE = piece
    assert all(size == 10_000 for size in told["pieces"][:-1])
    come(there, told, to)
    assert contents(to) == contents(source)


def contents(root):
    return {
        path.relative_to(root): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


def test_links_are_followed_to_files_and_strange_things_left_out(tmp_path):
    source, there, to = (tmp_path / name for name in ("source", "there", "to"))
    for folder in (source, there, to):
        folder.mkdir()
    (source / "step-5").write_text("5")
    (source / "latest").symlink_to("step-5")
    (source / "gone").symlink_to("nowhere")
    (source / "round").symlink_to(source)
    os.mkfifo(source / "pipe")
    come(there, packing.pack(str(source), f"{there}/save", 0o600), to)
    files = {path.name: path.read_text() for path in to.rglob("*") if path.is_file()}
    assert files == {"step-5": "5", "latest": "5"}
    assert not any(path.is_symlink() for path in to.rglob("*"))


def archive(*members):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as made:
        for member in members:
            made.addfile(member, io.BytesIO(bytes(member.size)))
    return data.getvalue()


def member(name, kind=tarfile.REGTYPE, size=0, link=""):
    found = tarfile.TarInfo(name)
    found.type, found.size, found.linkname = kind, size, link
    return found


def arrive(data, to, sha256=None):
    sha256 = sha256 or hashlib.sha256(data).hexdigest()
    unpack(lambda _, at, n: data[at : at + n], {"save.0000": len(data)}, sha256, to)


@pytest.mark.parametrize(
    "data",
    [
        archive(member("../outside")),
        archive(member("/tmp/outside")),  # noqa: S108 - nothing may be written there
        archive(member("a/../../outside")),
        b"no archive at all" * 100,
        archive(member("weights", size=5000))[:3000],
    ],
)
def test_what_is_no_model_is_refused(tmp_path, data):
    to = tmp_path / "to"
    to.mkdir()
    with pytest.raises(ClusterError, match="not whole"):
        arrive(data, to)
    assert [path.name for path in tmp_path.iterdir()] == ["to"]


def test_links_and_devices_are_not_made(tmp_path):
    arrive(archive(member("link", tarfile.SYMTYPE, link="/etc/passwd"),
                   member("hard", tarfile.LNKTYPE, link="/etc/passwd"),
                   member("device", tarfile.CHRTYPE), member("pipe", tarfile.FIFOTYPE),
                   member("weights", size=3)), tmp_path)  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


def test_another_check_sum_is_noticed(tmp_path):
    with pytest.raises(ClusterError, match="check sum"):
        arrive(archive(member("weights", size=3)), tmp_path, "0" * 64)


def test_bytes_that_do_not_come_are_noticed(tmp_path):
    with pytest.raises(ClusterError, match="ends at byte 0 of 100"):
        unpack(lambda *_: b"", {"save.0000": 100}, "0" * 64, tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"\xff", b'{"state": "done"}', b"[" * 100_000,
     b'{"state": "gone", "number": 1, "at": [1, 1]}',
     b'{"state": "done", "number": 1, "at": [1, 1], "pieces": [-5]}',
     b'{"state": "done", "number": 1, "at": [1, 1], "pieces": "x"}',
     b'{"state": "done", "number": 1e999, "at": [1, 1]}'],
)  # fmt: skip
def test_nonsense_of_a_task_is_no_note(data):
    assert read_note(data) is None
