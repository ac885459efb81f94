"""When HDFS's token is renewed, and when there is another one: by a clock of the test's own."""

from __future__ import annotations

import base64
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from submarine_engine.clusters.yarn.delegation import Delegation, read_life
from submarine_engine.errors import ClusterError, KerberosError

from tests.jobs import LIMIT, until

INTERVAL, MOST = 100.0, 700.0
THERE = 1_700_000_000.0
"""What HDFS's clock is ahead of the test's."""


def part(data):
    return bytes([len(data)]) + data


def long(value):
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([256 - 112 - len(data)]) + data


class NameNode:
    """Gives tokens as HDFS does, and takes them for as long."""

    def __init__(self):
        self.now = 0.0
        self.tokens = {}
        self.asked = []
        self.failure = None
        self.renews = True

    def call(self, op, token=""):
        self.asked.append((op, self.now))
        if self.failure is not None:
            raise self.failure
        if op == "get":
            issued = THERE + self.now
            times = long(int(issued * 1000)) + long(int((issued + MOST) * 1000))
            identifier = b"\0" + part(b"ana") + part(b"ana") + part(b"") + times + b"\x01\x01"
            parts = [identifier, b"password", b"WEBHDFS delegation", b"10.0.0.1:8020"]
            raw = b"".join(map(part, parts)) + bytes([len(self.tokens)])
            text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
            self.tokens[text] = [self.now + INTERVAL, self.now + MOST]
            return text
        if op == "cancel":
            del self.tokens[token]
            return None
        if not self.renews or not self.counts(token):
            raise ClusterError("it is expired")
        self.tokens[token][0] = min(self.now + INTERVAL, self.tokens[token][1])
        return int((THERE + self.tokens[token][0]) * 1000)

    def counts(self, token):
        return self.now <= self.tokens[token][0]


@pytest.fixture
def node():
    return NameNode()


@pytest.fixture
def delegation(node):
    return Delegation(node.call, lambda: node.now, lambda work: work())


def test_a_token_always_counts_and_is_changed_seldom(node, delegation):
    given = []
    for now in range(0, 3 * int(MOST), 5):
        node.now = float(now)
        token = delegation.current()
        assert node.counts(token)
        given.append(token)
    changes = [5 * n for n, token in enumerate(given) if n and token != given[n - 1]]
    assert changes == [525, 1050, 1575]  # with three quarters of 700 s behind it
    renewals = [at for op, at in node.asked if op == "renew" and at < 525]
    assert renewals == [0, 75, 150, 225, 300, 375, 450]


def test_who_has_the_former_token_has_a_quarter_of_its_life_to_hear_of_the_next(node, delegation):
    former = delegation.current()
    for now in range(0, 526, 5):
        node.now = float(now)
        delegation.current()
    assert node.tokens[former][0] - node.now >= INTERVAL / 4


def test_without_a_ticket_the_token_serves_to_its_end_and_the_next_ticket_is_enough(
    node, delegation
):
    former = delegation.current()
    node.failure = KerberosError("your Kerberos ticket has expired")
    node.now = 80.0
    assert delegation.current() == former
    asked = len(node.asked)
    node.now = 82.0
    assert delegation.current() == former
    assert len(node.asked) == asked  # not at each turn
    node.now = 101.0
    with pytest.raises(KerberosError, match="expired"):
        delegation.current()
    node.failure = None
    node.now = 110.0
    assert node.counts(delegation.current())
    assert delegation.current() != former


def test_a_machine_that_slept_gets_another_one(node, delegation):
    former = delegation.current()
    node.now = 300.0
    assert delegation.current() != former
    assert node.counts(delegation.current())


def test_a_token_that_nobody_may_renew_is_replaced(node, delegation):
    node.renews = False
    former = delegation.current()
    node.now = 524.0
    assert delegation.current() == former
    node.now = 526.0
    assert delegation.current() != former


def test_one_that_hdfs_does_not_know_is_replaced_once_for_all_who_had_it(node, delegation):
    former = delegation.current()
    delegation.forget(former)
    later = delegation.current()
    assert later != former
    delegation.forget(former)  # said by another thread that had it
    assert delegation.current() == later


def test_a_renewal_on_its_way_brings_no_forgotten_token_back(node, hanging):
    delegation = Delegation(hanging.call, lambda: node.now)
    former = delegation.current()
    hanging.answers.clear()
    node.now = 76.0
    assert delegation.current() == former  # it is renewed meanwhile
    delegation.forget(former)
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(delegation.current)  # waits for the renewal, which helps it nothing
        hanging.answers.set()
        assert later.result(LIMIT) != former


def test_who_needs_it_no_more_tells_hdfs(node, delegation):
    delegation.give_back()
    assert node.asked == []  # there is none
    delegation.current()
    assert delegation.life == MOST
    delegation.give_back()
    assert node.tokens == {}
    delegation.current()
    node.failure = ClusterError("no answer")
    delegation.give_back()


def test_without_hdfs_there_is_no_first_token(node, delegation):
    node.failure = ClusterError("no answer")
    with pytest.raises(ClusterError, match="no answer"):
        delegation.current()


@pytest.mark.parametrize("token", ["", "AAAAAA", "not a token"])
def test_what_is_no_token_of_hdfs_is_told(token):
    with pytest.raises(ClusterError, match="cannot be read"):
        read_life(token)


class Hanging:
    """Lets each call to a NameNode wait until `answers` is set."""

    def __init__(self, node):
        self.node = node
        self.called, self.answers = threading.Semaphore(0), threading.Event()
        self.count = 0

    def call(self, op, token=""):
        self.count += 1
        self.called.release()
        assert self.answers.wait(LIMIT)
        return self.node.call(op, token)


@pytest.fixture
def hanging(node):
    hanging = Hanging(node)
    hanging.answers.set()
    yield hanging
    hanging.answers.set()


def many(delegation, *, wait, jobs=200):
    """Have as many jobs ask at once, each in its thread; return what each was told."""
    with ThreadPoolExecutor(jobs) as pool:
        asking = [pool.submit(delegation.current, wait=wait) for _ in range(jobs)]
        return [one.exception() or one.result() for one in asking]


def test_200_jobs_have_one_token_and_none_waits_for_a_namenode_that_hangs(node, hanging):
    delegation = Delegation(hanging.call, lambda: node.now)
    former = delegation.current()
    assert node.asked == [("get", 0.0), ("renew", 0.0)]
    for now in (76.0, 526.0):  # to be renewed, to be replaced
        hanging.answers.clear()
        hanging.count, node.now = 0, now
        node.tokens[former][0] = 700.0
        delegation._held = delegation._held._replace(ends_at=700.0)
        assert set(many(delegation, wait=False)) == {former}
        # It counts: there is nothing to wait for.
        assert set(many(delegation, wait=True)) == {former}
        until(lambda: hanging.count)  # its thread may begin late
        assert hanging.count == 1
        hanging.answers.set()
        until(lambda: delegation._asking is None)
    assert delegation.current() != former


def test_who_waits_for_a_first_token_gets_the_answer_of_all_and_who_does_not_goes_on(node, hanging):
    delegation = Delegation(hanging.call, lambda: node.now)
    hanging.answers.clear()
    with pytest.raises(ClusterError, match="not given a token yet"):
        delegation.current(wait=False)
    with ThreadPoolExecutor(20) as pool:
        asking = [pool.submit(delegation.current) for _ in range(20)]
        assert hanging.called.acquire(timeout=LIMIT)
        hanging.answers.set()
        (token,) = {one.result(LIMIT) for one in asking}
    assert delegation.current(wait=False) == token
    assert [op for op, _ in node.asked] == ["get", "renew"]


def test_without_a_ticket_200_jobs_ask_once_in_a_while_and_hear_why(node):
    node.failure = KerberosError("your Kerberos ticket has expired")
    delegation = Delegation(node.call, lambda: node.now, lambda work: work())
    with pytest.raises(KerberosError, match="expired"):
        delegation.current(wait=False)  # who comes meanwhile hears only that there is none yet
    assert {type(one) for one in many(delegation, wait=False)} == {KerberosError}
    assert len(node.asked) == 1
    node.now = 4.0
    many(delegation, wait=False)
    assert len(node.asked) == 1
    node.failure = None  # who submits asks now: there was a kinit
    assert node.counts(delegation.current())


def test_a_fault_of_ours_is_told_to_who_waits(node):
    node.failure = LookupError("no such thing")
    with pytest.raises(ClusterError, match="LookupError: no such thing"):
        Delegation(node.call, lambda: node.now).current()
