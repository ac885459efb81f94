"""What is sealed is read with its key alone, and what is marked is as it was marked."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_runtime import call_frames
from submarine_runtime.sealing import KEY_SIZE, NotGenuineError, mark, seal, unseal

KEYS = st.binary(min_size=KEY_SIZE, max_size=KEY_SIZE)


@given(st.binary(), KEYS)
def test_what_is_sealed_comes_out_again_and_shows_nothing(content, key):
    sealed = seal(content, key)
    assert unseal(sealed, key) == content
    assert sealed != seal(content, key)
    assert len(content) < 4 or content not in sealed


@given(st.binary(max_size=40), KEYS, st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_seen(content, key, place, change):
    sealed = bytearray(seal(content, key))
    sealed[place % len(sealed)] ^= change
    with pytest.raises(NotGenuineError):
        unseal(bytes(sealed), key)


@pytest.mark.parametrize("sealed", [b"", b"x", bytes(31), bytes(47), bytes(48)])
def test_what_was_never_sealed_is_refused(sealed):
    with pytest.raises(NotGenuineError):
        unseal(sealed, bytes(KEY_SIZE))


def test_another_key_opens_nothing():
    with pytest.raises(NotGenuineError):
        unseal(seal(b"content", os.urandom(KEY_SIZE)), os.urandom(KEY_SIZE))


def test_a_mark_is_of_a_name_a_content_and_a_key():
    key = bytes(KEY_SIZE)
    assert mark("a", [b"bc", b"d"], key) == mark("a", [b"b", b"cd"], key)
    others = [
        mark("ab", [b"cd"], key),
        mark("a", [b"bce"], key),
        mark("a", [b"bcd"], key[1:] + b"1"),
    ]
    assert mark("a", [b"bcd"], key) not in others


@given(st.binary(max_size=300), st.text(max_size=30), KEYS)
def test_a_frame_with_a_mark_is_read_by_who_has_the_key(tmp_path_factory, payload, text, key):
    path = tmp_path_factory.mktemp("frames") / "returns"
    head = {"kind": "ended", "said": text, "mark": {"mark": text}}
    marked = call_frames.sealed(call_frames.frame(head, payload), key)
    path.write_bytes(marked + marked)
    assert [one for _, one in call_frames.Reader(str(path), key=key).read()] == [payload] * 2
    assert [one for _, one in call_frames.Reader(str(path)).read()] == [payload] * 2
    for changed in (
        marked.replace(b"ended", b"begun"),
        call_frames.frame(head, payload),
        call_frames.sealed(call_frames.frame(head, payload), bytes(one ^ 1 for one in key)),
        *([marked[:-1] + bytes([marked[-1] ^ 1])] if payload else []),
    ):
        path.write_bytes(marked + changed)
        reader = call_frames.Reader(str(path), key=key)
        assert next(reader.read())[1] == payload
        with pytest.raises(call_frames.SpoiltError, match="somebody else"):
            next(reader.read())
