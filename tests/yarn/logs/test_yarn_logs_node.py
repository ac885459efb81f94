"""Logs by byte offset, as a NodeManager answers, and as it should not."""

from __future__ import annotations

import random
import socket
from contextlib import closing

import pytest
from submarine_engine.clusters.log_mirror import LogsGoneError, LogTruncatedError
from submarine_engine.clusters.yarn import node_pages
from submarine_engine.clusters.yarn.node_pages import NodeLogs
from submarine_engine.errors import ClusterError

HOSTILE = (
    b"LogContents:\n",
    b"End of LogType:stdout.\n",
    b"End of LogType:stdout.This log file belongs to a running container",
    b"\n\nEnd of LogType:stdout\n******\n\n",
    b"LogLength:3\nLogContents:\nabcEnd of LogType:stdout.",
    b"Container: container_1_1_1_1 on localhost:1\nLogAggregationType: AGGREGATED\n",
    b"\xff\xfe\x00\r\n\x1b[0m",
    "…\N{NO-BREAK SPACE}".encode()[1:],
)


def noise(seed, size):
    return random.Random(seed).randbytes(size)  # noqa: S311 - any bytes do


def read_on(logs, container, got, limit):
    """Read to the end of the log; the error is raised with what was got before it."""
    try:
        while data := logs.read(container, "stdout", len(got), limit):
            got.extend(data)
    except ClusterError as error:
        return error
    return None


@pytest.mark.parametrize("content", [b"", b"\n", b"x", *HOSTILE, b"".join(HOSTILE) * 3])
@pytest.mark.parametrize("limit", [1, 7, 1 << 20])
def test_bytes_are_told_apart_from_what_stands_around_them(node, logs, container, content, limit):
    node.write("stdout", content)
    got = b""
    while data := logs.read(container, "stdout", len(got), limit):
        assert len(data) <= limit
        got += data
    assert got == content


def test_reading_on_goes_on_with_the_same_answer(node, logs, container, monkeypatch):
    monkeypatch.setattr(node_pages, "_REST", 30.0)  # the end of an answer may be late
    content = noise(1, 3_000_000)
    node.write("stdout", content)
    assert logs.files(container) == {"stdout": len(content)}
    got = b""
    while data := logs.read(container, "stdout", len(got), 100_000):
        got += data
    assert got == content
    assert len(node.asked) == 3  # the list, the log, and that there is no more
    assert node.connections == 1


def test_any_offset_gives_the_bytes_from_there(node, logs, container):
    content = noise(2, 300_000)
    node.write("stdout", content)
    for offset in (299_999, 0, 4_095, 150_000, 300_000, 1):
        got = logs.read(container, "stdout", offset, 5_000)
        assert got == content[offset : offset + 5_000]


def test_growth_between_list_and_read_leaves_no_gap(node, logs, container):
    node.write("stdout", b"a" * 10)
    logs.files(container)
    node.write("stdout", noise(3, 700_000))
    got = b""
    while data := logs.read(container, "stdout", len(got)):
        got += data
    assert got == node.log("stdout").read_bytes()


def test_growth_while_the_node_answers_comes_with_the_next_answer(node, logs, container):
    node.write("stdout", b"first\n")
    node.after_length = lambda: node.write("stdout", b"later\n" * 2000)
    assert logs.read(container, "stdout", 0) == b"first\n"
    node.after_length = lambda: None
    assert logs.read(container, "stdout", 6) == b"later\n" * 2000


def test_a_log_that_always_grows_more_is_given_up_with_words(node, logs, container):
    node.write("stdout", b"x")
    grown = iter(range(100))
    node.after_list = lambda: None
    original = logs._ask

    def ask(key, wanted):
        response, _ = original(key, wanted)
        return response, 10_000_000 * 20 ** next(grown)

    logs._ask = ask
    with pytest.raises(ClusterError, match="grows too fast"):
        logs.read(container, "stdout", 0)


def test_a_log_cut_while_it_is_sent_gives_no_byte_that_is_not_its_own(node, logs, container):
    content = noise(4, 50_000)
    node.write("stdout", content)
    # Hadoop before 3.3 sends what is left, then its trailer, whatever length it has announced.
    logs.files(container)
    node.after_length = lambda: node.log("stdout").write_bytes(content[:40_000])
    got = bytearray()
    error = read_on(logs, container, got, 1_000)
    assert "was cut" in str(error)
    assert content.startswith(got)
    assert 30_000 < len(got) <= 40_000


def test_a_shorter_log_is_named_as_truncated(node, logs, container):
    node.write("stdout", b"1234")
    with pytest.raises(LogTruncatedError, match="has 4 bytes, 9 were read"):
        logs.read(container, "stdout", 9)
    assert logs.read(container, "stdout", 0) == b"1234"


def test_what_is_not_there_is_empty_or_gone(node, logs, container):
    assert logs.files(container) == {}
    with pytest.raises(LogsGoneError):
        logs.read(container, "stdout", 0)
    node.write("stdout", b"")
    assert logs.files(container) == {"stdout": 0}
    assert logs.read(container, "stdout", 0) == b""


def test_a_redirection_is_not_followed(node, logs, container):
    node.write("stdout", b"x")
    node.status = 307
    assert logs.files(container) == {}
    with pytest.raises(LogsGoneError):
        logs.read(container, "stdout", 0)
    assert node.connections == 1


def test_a_kept_connection_that_was_closed_is_opened_again(node, logs, container):
    node.write("stdout", b"12")
    assert logs.read(container, "stdout", 0, 1) == b"1"
    assert logs.read(container, "stdout", 1, 1) == b"2"
    node.hang_up()
    assert logs.files(container) == {"stdout": 2}
    assert logs.read(container, "stdout", 1) == b"2"


def test_an_answer_that_breaks_off_can_be_asked_for_again(node, logs, container):
    content = noise(5, 100_000)
    node.write("stdout", content)
    logs.files(container)
    node.break_off = 60_000
    got = bytearray()
    assert "does not answer" in str(read_on(logs, container, got, 10_000))
    assert len(got) == 50_000
    node.break_off = None
    assert read_on(logs, container, got, 10_000) is None
    assert got == content


def test_bytes_come_before_the_end_of_an_answer_that_does_not_come(node, logs, container):
    node.write("stdout", b"line\n")
    node.rest = None
    assert logs.read(container, "stdout", 0) == b"line\n"
    node.write("stdout", b"more\n")
    assert logs.read(container, "stdout", 5) == b"more\n"


def test_aggregated_logs_after_the_nodes_own_are_not_taken_for_them(node, logs, container):
    node.write("stdout", b"own")
    node.rest = b"Container: x\nLogAggregationType: AGGREGATED\nLogLength:3\nLogContents:\nold"
    assert logs.read(container, "stdout", 0) == b"own"
    assert logs.read(container, "stdout", 3) == b""


def test_a_node_that_is_silent_is_named(container):
    with closing(socket.socket()) as nobody:  # bound, and so nobody else's meanwhile
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(ClusterError, match=rf"node {address}: the node does not answer"):
            NodeLogs(address).files(container)


def test_a_node_that_hangs_is_given_up(node, container):
    node.write("stdout", b"x")
    node.after_length = lambda: forever.wait(180)
    from threading import Event

    forever = Event()
    logs = NodeLogs(node.address, timeout=0.2)
    with pytest.raises(ClusterError, match="does not answer"):
        logs.read(container, "stdout", 0)
    forever.set()
    logs.close()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_what_to_do(node, logs, container, status):
    node.status = status
    with pytest.raises(ClusterError, match="Kerberos") as caught:
        logs.files(container)
    assert "HDFS" in caught.value.fix


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>a proxy</html>",
        b"LogLength:5\n" * 40,
        b"x" * 100_000,
        b"LogType:stdout\nLogLength:-5\nLogContents:\nabc",
        b"LogType:stdout\nLogLength:" + b"9" * 5000 + b"\nLogContents:\n",
        b"LogType:stdout\nLogLength:9999999999999999999999\nLogContents:\n",
        b"LogLength:3\nLogContents:\nabc",
        b"[]",
        b'{"containerLogsInfo": 5}',
        b'{"containerLogsInfo": {"containerLogInfo": [1]}}',
        b'{"containerLogsInfo": {"containerLogInfo": {"fileName": "a", "fileSize": "many"}}}',
        b"[" * 100_000,
        b" " * 5_000_000,
    ],
)
def test_nonsense_is_refused(node, logs, container, status, answer):
    node.status, node.answer = (None if status == 200 else status), answer
    with pytest.raises(ClusterError):
        logs.files(container)
    if answer:
        with pytest.raises(ClusterError):
            logs.read(container, "stdout", 0)
    node.status = node.answer = None
    node.write("stdout", b"ok")
    assert logs.read(container, "stdout", 0) == b"ok"


def test_names_that_lead_elsewhere_are_not_listed_or_asked_for(node, logs, container):
    node.answer = (
        b'{"containerLogsInfo": [{"containerLogInfo": [{"fileName": "../x", "fileSize": "1"},'
        b'{"fileName": "stdout", "fileSize": "2"}, {"fileName": "a b", "fileSize": "-1"}]},'
        b'{"logAggregationType": "AGGREGATED", "containerLogInfo": {"fileName": "old"}}]}'
    )
    assert logs.files(container) == {"stdout": 2}
    asked = len(node.asked)
    for wrong in ("../x", "a/b", "", "x?size=1", "a\r\nHost: b", "-"):
        with pytest.raises(ClusterError, match="not the name of a log"):
            logs.read(container, wrong, 0)
    for wrong in ("container_1/..", "", "application_1_1", f"{container}\n"):
        with pytest.raises(ClusterError, match="not a container's id"):
            logs.files(wrong)
    assert len(node.asked) == asked


@pytest.mark.parametrize("address", ["", "ftp://a:1", "http://", "a:b", "http://[::1", "file:///x"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ClusterError, match="not the web address"):
        NodeLogs(address)


def test_the_user_is_named_where_yarn_wants_one(node, container):
    logs = NodeLogs(node.address, user="a b&c")
    node.write("stdout", b"x")
    logs.files(container)
    logs.read(container, "stdout", 0)
    logs.close()
    assert all(asked.endswith("user.name=a%20b%26c") for asked in node.asked)
    assert len(node.asked) == 2


@pytest.mark.parametrize("state", ["NEW", "LOCALIZING", "SCHEDULED"])
def test_a_container_that_has_not_begun_is_not_asked_for_its_logs(node, logs, container, state):
    """A node writes a stack trace into its own log for each such question."""
    node.write("stdout", b"1\n")
    node.state = state
    assert logs.files(container) == {}
    assert node.asked == []
    node.state = "RUNNING"
    assert logs.files(container) == {"stdout": 2}
    node.state = "EXITED_WITH_SUCCESS"
    assert logs.files(container) == {"stdout": 2}
    assert len(node.asked) == 2
