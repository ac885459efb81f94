"""The index of a log's lines against the plain reading of it: growing, cut, replaced, endless."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from submarine_engine.logs import last_state
from submarine_jupyter import log_index
from submarine_jupyter.log_index import LineIndex

PIECES = st.lists(
    st.sampled_from([b"\n", b"a", b"\r", b"\xff", "é".encode(), b"xyz" * 7, b"\n\n", b"ab\r\n"]),
    max_size=30,
).map(b"".join)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(log_index, "CHUNK", 8)


@contextmanager
def opened(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def lines_of(data):
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [last_state(line.decode("utf-8", "replace")) for line in lines]


def grown(index, path, step=1 << 20):
    with opened(path) as log:
        while not index.grow(log, step):
            pass


@settings(deadline=None)
@given(
    pieces=st.lists(PIECES, min_size=1, max_size=4),
    start=st.integers(0, 40),
    step=st.integers(1, 20),
)
def test_lines_are_those_of_the_whole_log_however_it_grew(tmp_path_factory, pieces, start, step):
    path = tmp_path_factory.mktemp("log") / "stdout"
    path.touch()
    index, data = LineIndex(), b""
    for piece in pieces:
        data += piece
        path.write_bytes(data)
        grown(index, path, step)
        lines = lines_of(data)
        with opened(path) as log:
            found = log_index.read_lines(index, log, start, 5)
            last = log_index.read_lines(index, log, None, 3)
        assert found["lines"] == lines[start : start + 5]
        assert (found["total"], found["size"]) == (len(lines), len(data))
        assert last["lines"] == lines[-3:]
        assert last["start"] == max(0, len(lines) - 3)


@settings(deadline=None)
@given(
    data=PIECES, text=st.sampled_from(["a", "zx", "xyz", "é", "Z", "ab\r"]), block=st.integers(1, 9)
)
def test_search_finds_the_lines_that_hold_a_text(tmp_path_factory, data, text, block):
    path = tmp_path_factory.mktemp("log") / "stdout"
    path.write_bytes(data)
    index = LineIndex()
    grown(index, path)
    needle = text.encode().lower()
    holding = [n for n, line in enumerate(data.split(b"\n")) if needle in line.lower()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_index, "_BLOCK", block)
        patch.setattr(log_index, "_SCANNED", 2 * block)
        found, start = [], 0
        while start is not None:
            with opened(path) as log:
                part = log_index.search(index, log, text, start, 2)
            assert part["next"] is None or part["next"] > start
            found += part["lines"]
            start = part["next"]
    assert found == holding


@pytest.mark.parametrize("after", [b"", b"x\n", b"other\nlines\nand\nmore of them\n" * 3])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_log_that_was_cut_or_replaced_is_read_anew(tmp_path, after, replaced):
    path = tmp_path / "stdout"
    path.write_bytes(b"one\ntwo\nthree\nfour\n")
    index = LineIndex()
    grown(index, path)
    if replaced:
        (tmp_path / "new").write_bytes(after)
        (tmp_path / "new").rename(path)
    else:
        path.write_bytes(after)
    grown(index, path)
    with opened(path) as log:
        assert log_index.read_lines(index, log, 0, 50)["lines"] == lines_of(after)


def test_endless_lines_and_bars_stay_short(tmp_path, monkeypatch):
    monkeypatch.setattr(log_index, "CHUNK", 1 << 16)
    path = tmp_path / "stdout"
    bar = b"".join(b"%d%%\r" % n for n in range(200_000))
    path.write_bytes(b"x" * 3_000_000 + b"\n" + bar + b"\n" + b"\xff" * 20_000 + b"\nend")
    index = LineIndex()
    grown(index, path)
    with opened(path) as log:
        first, second, third, fourth = log_index.read_lines(index, log, 0, 9)["lines"]
        assert log_index.search(index, log, "end", 0, 9) == {"lines": [3], "next": None}
    assert first == "x" * 10_000 + " … 2,990,001 bytes left out"
    assert second == "199999%"
    assert third == "\ufffd" * 10_000 + " … 10,000 characters left out"
    assert fourth == "end"


def test_an_answer_of_long_lines_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr(log_index, "CHUNK", 1 << 16)
    path = tmp_path / "stdout"
    path.write_bytes((b"y" * 9_999 + b"\n") * 2000)
    index = LineIndex()
    grown(index, path)
    with opened(path) as log:
        lines = log_index.read_lines(index, log, 0, 2000)["lines"]
        assert len(lines) == 2000
        assert sum(map(len, lines)) < 5 << 20
        assert log_index.read_lines(index, log, 5, 1)["lines"] == ["y" * 9_999]
