"""The kernel tells which memory was written to; where it does not, the memory is read."""

import mmap
import os

import numpy as np
import pytest
from submarine_runtime import memory

SIZE = 64 * mmap.PAGESIZE


@pytest.fixture
def block(tmp_path):
    path = tmp_path / "values.bin"
    path.write_bytes(f"{SIZE} {SIZE}\n".encode().ljust(64) + bytes(2 * SIZE))
    return next(memory.mapped_blocks(str(path)))


def test_memory_that_was_only_read_is_pristine(block):
    assert np.frombuffer(block, "u1").sum() == 0
    assert memory.is_pristine(block)


@pytest.mark.parametrize("at", [0, 5 * mmap.PAGESIZE + 7, SIZE - 1])
def test_memory_that_was_written_to_is_not(block, at):
    block[at] = 1
    assert not memory.is_pristine(block)
    block[at] = 0  # nor where it holds again what it held: then it has to be read
    assert not memory.is_pristine(block)


@pytest.mark.parametrize("answer", [bytes, lambda size: b"\xff" * size, lambda _: b""])
def test_a_kernel_that_does_not_tell_is_not_believed(block, monkeypatch, answer):
    monkeypatch.setattr(os, "pread", lambda _file, size, _at: answer(size))
    assert not memory.is_pristine(block)


def test_without_proc_the_memory_is_read(block, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    assert not memory.is_pristine(block)
