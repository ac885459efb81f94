"""Whatever another has put where a job's or a flow's files lie in HDFS: words, or as it was.

The storage is fsspec's memory, by the same way as HDFS's; what no storage here can hold is told by
a double of one.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tarfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st
from submarine_engine import Cell
from submarine_engine.bundle import Bundle, build
from submarine_engine.clusters import saving
from submarine_engine.clusters.packed import unpack
from submarine_engine.clusters.storage import Storage, Stored
from submarine_engine.clusters.yarn.log_transport import HdfsSource
from submarine_engine.errors import ClusterError, FlowError, SubmarineError
from submarine_engine.flows.folder import (
    Copies,
    RemotePath,
    create_json,
    place_of,
    read_json,
    write_once,
)
from submarine_engine.flows.session import Session
from submarine_engine.history import SPOILT
from submarine_runtime import checkpoint_files

from .test_documents import spoilt

SHORT = 12
MINUTE = 60.0


def fuzz(look, *strategies, seconds=0.0, examples=()):
    """Let hypothesis look for what breaks it: the same few cases, or new ones for so long."""
    count = 100 if seconds else SHORT
    test = look
    for one in examples:
        test = example(*one)(test)
    until = time.monotonic() + seconds
    while True:
        own = settings(max_examples=count, derandomize=not seconds, database=None)
        found = own(given(*strategies)(test))
        (seed(time.time_ns())(found) if seconds else found)()
        if time.monotonic() >= until:
            return


def small_and_long(test):
    """Run a test that takes `seconds` for a moment, and for a minute in `make test-long`."""
    long = pytest.param(MINUTE, marks=pytest.mark.long, id="a minute")
    return pytest.mark.parametrize("seconds", [pytest.param(0.0, id="a moment"), long])(test)


NAMES = st.one_of(
    st.sampled_from([
        "", ".", "..", "../x", "/etc/passwd", "a/b", "a\0b", "x" * 300, "é" * 200, "\ud800", "-rf",
        "manifest.json", "main.py", "values", "\x1b[31m", " ", "a\nb",
    ]),
    st.text(min_size=1, max_size=6),
)  # fmt: skip


def a_bundle():
    cell = Cell(number=2, source="y = [x, f(1)]\nprint(y)")
    above = [Cell(number=1, source="import random\ndef f(a):\n    return a + 1\nx = [1, 2]")]
    return build(cell, above, {"x": [1, 2], "f": len})


@pytest.fixture(scope="module")
def bundle():
    return a_bundle()


@pytest.fixture
def place():
    return place_of(f"memory:///fuzz-{secrets.token_hex(4)}/bundle")


@small_and_long
def test_whatever_lies_where_a_bundle_was_is_a_bundle_or_told_of(bundle, place, seconds):
    write_once(bundle, place)
    storage = place.storage
    whole = json.loads((place / "manifest.json").read_bytes())
    names = sorted(bundle.files)

    def look(said, name, noise):
        storage.write((place / "manifest.json").path, said)
        if noise is not None:
            storage.write((place / name).path, noise)
        copies = Copies()
        try:
            try:
                found = Bundle.read(copies.of(place))
            except SPOILT:
                return
            assert isinstance(found.script, str)
            assert (found.hash == bundle.hash) == (found == bundle)
            assert found.manifest.origin("script.py", 3) is None or found.manifest.lines
            for code in found.manifest.compiled:
                assert len(code.lines) < 1 << 25
            found.manifest.home()
            json.dumps(found.manifest.to_json())
            folder = Path(copies.of(place)).with_name("again")
            found.write(folder)
            assert Bundle.read(folder) == found
        finally:
            copies.close()
            storage.write((place / name).path, bundle.files[name])

    noises = st.one_of(st.none(), st.binary(max_size=50))
    fuzz(look, spoilt(whole), st.sampled_from(names), noises, seconds=seconds, examples=[
        (b"[" * 100_000, names[0], None),
        (b"[]", names[0], None),
        (json.dumps({**whole, "entry": "../../x"}).encode(), names[0], None),
        (json.dumps({**whole, "random": [[]]}).encode(), names[0], None),
    ])  # fmt: skip


class StrangeStorageDouble(Storage):
    """A storage whose folders hold what no file system here does.

    Parameters
    ----------
    tree
        Folders are dictionaries, files bytes; a folder may be its own.
    """

    def __init__(self, tree) -> None:
        self.tree = tree

    def _at(self, path):
        found = self.tree
        for name in path.split("/")[1:]:
            found = found[name] if isinstance(found, dict) else None
        return found

    def uri(self, path):
        return f"strange://{path}"

    def again(self):
        return self

    def entry(self, path):
        return Stored(path.rpartition("/")[2], isinstance(self._at(path), dict))

    def list(self, folder):
        found = self._at(folder) if folder.strip("/") else self.tree
        return [Stored(name, isinstance(one, dict)) for name, one in (found or {}).items()]

    def read(self, path):
        return self._at(path)

    def get(self, path, to):
        to.write_bytes(self._at(path))

    def write(self, path, source):
        raise NotImplementedError

    def create(self, path, data):
        raise NotImplementedError

    def remove(self, path):
        raise NotImplementedError


TREES = st.recursive(
    st.binary(max_size=20),
    lambda inner: st.dictionaries(NAMES.filter(lambda name: "/" not in name), inner, max_size=4),
    max_leaves=8,
)


@small_and_long
def test_whatever_a_folder_is_called_its_copy_is_here_or_that_is_told(tmp_path, seconds):
    def look(tree):
        copies = Copies()
        outside = set(tmp_path.parent.iterdir())
        try:
            place = RemotePath(StrangeStorageDouble({"of": {"flow": tree}}), "/of/flow")
            with suppress(FlowError):
                here = copies.of(place)
                for path in here.rglob("*"):
                    assert path.resolve().is_relative_to(here.resolve())
        finally:
            copies.close()
        assert set(tmp_path.parent.iterdir()) == outside

    endless = {}
    endless["deep"] = endless
    fuzz(look, st.dictionaries(NAMES, TREES, max_size=4), seconds=seconds, examples=[(endless,)])


@small_and_long
def test_whatever_a_document_of_a_flow_holds_there_is_an_object_or_told_of(place, seconds):
    whole = {"state": "running", "attempt": 1, "shared": {"x": ["y"]}}

    def look(said):
        place.storage.write(place.path, said)
        for read in (read_json, lambda one: create_json(one, whole)):
            try:
                found = read(place)
            except SPOILT:
                continue
            assert isinstance(found, dict)

    examples = [(b"[" * 100_000,), (b"[]",), (b"1" + b"0" * 5000,), (b"null",), (b"",)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("submarine_engine.flows.folder._HALF_WRITTEN", 0.0)
        fuzz(look, st.one_of(spoilt(whole), st.binary(max_size=30)), seconds=seconds,
             examples=examples)  # fmt: skip


@small_and_long
def test_whatever_lies_where_values_were_left_is_taken_or_told_of(bundle, place, seconds):
    write_once(bundle, place)
    whole = json.loads((place / "manifest.json").read_bytes())
    sources = [b"x = 3\n", b"(" * 100_000, b"x = " + b"[" * 5000, b"\xff", b"if", b"a\0b", b""]

    def look(said, source):
        place.storage.write((place / "manifest.json").path, said)
        place.storage.write((place / bundle.manifest.entry).path, source)
        copies = Copies()
        try:
            with Session((), copies.of(place)).open() as session, suppress(SubmarineError):
                session.take(copies.of(place), {"x"}, ["x"])
        finally:
            copies.close()

    fuzz(look, spoilt(whole), st.sampled_from(sources), seconds=seconds)


def archive_of(*members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def sparse():
    """Return an archive whose one file says that it has 64 MiB, nearly all of it holes."""
    member = tarfile.TarInfo("hole")
    member.pax_headers = {
        "GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "hole",
        "GNU.sparse.size": str(1 << 26), "GNU.sparse.numblocks": "1",
        "GNU.sparse.map": f"{(1 << 26) - 1},1",
    }  # fmt: skip
    member.size = 1
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(b"x"))
    return packed.getvalue()


@st.composite
def archives(draw):
    """Strategy: an archive, its bytes changed here and there with headers that sum up or not."""
    members = draw(st.lists(st.tuples(NAMES, st.binary(max_size=30)), max_size=4))
    with suppress(ValueError):
        packed = bytearray(archive_of(*members))
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, min(len(packed), 3000) - 1))
            packed[at] = draw(st.integers(0, 255))
            head = at // 512 * 512
            if draw(st.booleans()) and head + 512 <= len(packed):
                block = packed[head : head + 148] + b" " * 8 + packed[head + 156 : head + 512]
                packed[head + 148 : head + 156] = b"%06o\0 " % sum(block)
        return bytes(packed)
    return b""


@small_and_long
def test_whatever_comes_as_a_saved_model_is_unpacked_within_its_folder_or_told_of(
    tmp_path, seconds
):
    def look(packed, right):
        folder = tmp_path / secrets.token_hex(6) / "model"
        folder.mkdir(parents=True)
        sent = hashlib.sha256(packed).hexdigest() if right else "0" * 64

        def read(_, offset, limit):
            return packed[offset : offset + limit]

        with suppress(ClusterError, OSError):
            unpack(read, {"save.0000": len(packed)}, sent, folder)
            assert right
        assert [one.name for one in folder.parent.iterdir()] == ["model"]
        size = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
        assert size <= len(packed)
        assert not any(one.is_symlink() for one in folder.rglob("*"))

    same = archive_of(("a", b"1"), ("a", b"2"))
    fuzz(look, archives(), st.booleans(), seconds=seconds,
         examples=[(sparse(), True), (same, True), (b"", True)])  # fmt: skip


@small_and_long
def test_whatever_a_task_says_of_a_save_is_a_note_or_none(seconds):
    error = {"type": "ValueError", "message": "no", "frames": []}
    whole = {"state": "done", "number": 1, "id": "a", "at": [1.0, 2.0], "pieces": [5],
             "sha256": "0" * 64, "error": error}  # fmt: skip

    def look(said):
        note = saving.read_note(said)
        if note is not None:
            assert all(isinstance(one, int) and one > 0 for one in note.pieces)
            assert note.began - note.began == 0
            saving.busy(note, "j")

    fuzz(look, spoilt(whole), seconds=seconds)


@small_and_long
def test_whatever_a_checkpoint_says_of_itself_it_is_whole_or_passed_over(tmp_path, seconds):
    folder = checkpoint_files.Folder(str(tmp_path))
    name = checkpoint_files.name_of(3)
    folder.make(name)
    with folder.new(f"{name}/{checkpoint_files.STATE}") as file:
        file.write(b"kept")
    files = {checkpoint_files.STATE: [file.size, file.sum]}
    checkpoint_files.write_note(folder, name, 3, files)
    path = tmp_path / name / checkpoint_files.NOTE
    whole = json.loads(path.read_text())

    def look(said):
        path.write_bytes(said)
        for step, found in checkpoint_files.complete(folder):
            assert (step, found) == (3, name)
            checkpoint_files.is_sound(folder, found)
        with suppress(ValueError):  # of a later release
            checkpoint_files.expect_known(folder)

    fuzz(look, spoilt(whole), seconds=seconds, examples=[
        (json.dumps({**whole, "files": {"state.pickle": [4, 0], "../x": [0, 0]}}).encode(),),
        (json.dumps({**whole, "files": {"state.pickle": 4}}).encode(),),
    ])  # fmt: skip


class Brought:
    """What lies in HDFS where a container brings its files, as `Files` has it."""

    def __init__(self, found) -> None:
        self.found = found

    def list(self, folder):
        return [Entry(f"{folder}/{name}", size, kind) for name, size, kind in self.found]

    def read(self, _, offset, limit):
        return bytes(limit) if offset >= 0 else b""


class Entry:
    def __init__(self, path, size, folder) -> None:
        self.path, self.size, self.folder = path, size, folder


SEGMENTS = st.tuples(
    st.one_of(
        st.sampled_from(
            ["stdout", "stdout@" + "0" * 20, "stdout@" + "٣" * 20, "@over", "@", "a@b"]
        ),
        st.builds("stdout@{:020}".format, st.integers(0, 50)),
        NAMES,
    ),
    st.integers(0, 40),
    st.booleans(),
)


@small_and_long
def test_whatever_lies_where_a_log_is_brought_is_read_to_its_end(seconds):
    def look(found):
        source = HdfsSource(Brought(found), "/logs", "container_1_1_01_000001")
        for name, size in source.sizes().items():
            offset = 0
            while data := source.read(name, offset, 16):
                assert len(data) <= 16
                offset += len(data)
            assert offset <= size

    fuzz(look, st.lists(SEGMENTS, max_size=6), seconds=seconds)
