"""The token by which a container asks HDFS, as the driver replaces it."""

from __future__ import annotations

import base64
import json
import stat

import pytest
from submarine_runtime import delegation
from submarine_runtime.delegation import TOKEN, Reader, Token, accept, current, read_token, renewed
from submarine_runtime.saving import PLACE

HERE, LOGICAL, OTHER = b"10.0.0.1:8020", b"ha-hdfs:team", b"10.0.0.2:8020"


def token_text(token):
    return base64.urlsafe_b64encode(token.written()).decode().rstrip("=")


def message(token, *services, version=1):
    named = [one.decode() for one in services]
    told = {"version": version, "token": token_text(token), "services": named}
    return json.dumps(told).encode()


def stored(*tokens, secrets=b"\0"):
    """Write tokens as Hadoop's ``Credentials`` do."""
    entries = [delegation._number(len(one.service)) + one.service + one.written() for one in tokens]
    return b"HDTS\0" + delegation._number(len(tokens)) + b"".join(entries) + secrets


def read_stored(data):
    assert data[:5] == b"HDTS\0"
    reader = Reader(data[5:])
    found = {}
    for _ in range(reader.number()):
        alias, token = reader.text(), reader.token()
        assert alias == token.service
        found[token.service] = token.identifier, token.password, token.kind
    return found, reader.rest()


OLD = Token(b"old" * 50, b"secret", delegation.KIND, HERE)
NEW = Token(b"new" * 200, b"another secret", b"WEBHDFS delegation", HERE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(PLACE, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("number", [0, 1, 127, 128, 255, 256, 65_535, 1 << 40])
def test_numbers_are_read_as_hadoop_writes_them(number):
    assert Reader(delegation._number(number)).number() == number


def test_numbers_of_hadoop_s_own():
    """By `WritableUtils.writeVLong` of Hadoop 3.4.1."""
    written = {b"\x8f\x80": 128, b"\x8e\x01\x00": 256, b"\xff": -1, b"\x87\xc7": -200}
    assert {data: Reader(data).number() for data in written} == written


def test_who_was_told_of_no_other_token_asks_with_the_one_that_was_sent(folder, monkeypatch):
    assert current("first") == "first"
    assert renewed("op=OPEN&delegation=first") == "op=OPEN&delegation=first"
    monkeypatch.delenv(PLACE)
    assert current("first") == "first"


def test_who_was_told_of_another_token_asks_with_that(folder):
    accept(message(NEW, HERE), str(folder), "")
    assert current("first") == token_text(NEW)
    assert renewed("op=OPEN&delegation=first&x=1") == f"op=OPEN&delegation={token_text(NEW)}&x=1"
    assert renewed("user.name=ana") == "user.name=ana"
    assert stat.S_IMODE((folder / TOKEN).stat().st_mode) == 0o600


def test_who_brings_the_last_bytes_knows_the_token_of_a_folder_that_is_gone(folder):
    accept(message(NEW, HERE), str(folder), "")
    assert current("first") == token_text(NEW)
    (folder / TOKEN).unlink()
    assert current("first") == token_text(NEW)


def test_hadoop_s_own_file_has_the_new_token_in_the_place_of_the_old(folder):
    other = Token(b"other", b"x", delegation.KIND, OTHER)
    alike = Token(b"timeline", b"y", b"TIMELINE_DELEGATION_TOKEN", HERE)
    logical = Token(b"old", b"z", delegation.KIND, LOGICAL)
    file = folder / "container_tokens"
    file.write_bytes(stored(OLD, other, logical, secrets=b"\x01\x01a\x01b"))
    accept(message(NEW, HERE, LOGICAL), str(folder), str(file))
    kept = {OTHER: (b"other", b"x", delegation.KIND), LOGICAL: (NEW.identifier, NEW.password,
            delegation.KIND), HERE: (NEW.identifier, NEW.password, delegation.KIND)}  # fmt: skip
    assert read_stored(file.read_bytes()) == (kept, b"\x01\x01a\x01b")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_bytes(stored(alike))
    accept(message(NEW, HERE), str(folder), str(file))
    assert file.read_bytes() == stored(alike)


def test_a_file_that_is_written_otherwise_stays_as_it_is(folder):
    file = folder / "container_tokens"
    file.write_bytes(b"HDTS\x01protobuf")
    accept(message(NEW, HERE), str(folder), str(file))
    assert file.read_bytes() == b"HDTS\x01protobuf"


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"version": 1}',
        b'{"version": 1, "token": "a&op=DELETE", "services": []}',
        b'{"version": 1, "token": "", "services": []}',
        b'{"version": 1, "token": 3, "services": []}',
        b'{"version": 1, "token": "AAAA", "services": 3}',
        message(NEW, HERE, version=2),
    ],
)
def test_what_is_no_message_changes_nothing(folder, told):
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        accept(told, str(folder), "")
    assert current("first") == "first"
    (folder / TOKEN).write_bytes(told)
    assert current("first") == "first"


@pytest.mark.parametrize("text", ["", "A", "////", "AAAA", "f39_f39_", "\u00e4"])
def test_what_is_no_token_is_none(text):
    if text == "AAAA":  # of no more than nothing: two empty parts, and the end too early
        with pytest.raises(ValueError, match="too early"):
            read_token(text)
        return
    with pytest.raises(ValueError):  # noqa: PT011 - in whatever words
        read_token(text)


def test_a_token_does_not_show_its_secret():
    assert "secret" not in repr(OLD)
