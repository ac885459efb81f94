"""skein's Java without a ticket: what runs is not taken for gone, and what is wrong is told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from submarine_engine.clusters.yarn import driver
from submarine_engine.clusters.yarn.driver import Driver
from submarine_engine.errors import ClusterError, KerberosError

EXPIRED = KerberosError("your Kerberos ticket has expired", fix="kinit")
UNKNOWN = ValueError("Unknown ApplicationId 'application_1_0001'")
REFUSED = ClusterError("skein says: GSS initiate failed")


@pytest.fixture
def says(monkeypatch, tmp_path):
    """Return a driver whose Java gives these answers, and where there are these tickets."""

    def make(answers, tickets=(), *, secure=True):
        answers, tickets = list(answers), list(tickets)

        def call(_self, what, again=None):
            called.append(what)
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        called = []
        monkeypatch.setattr(Driver, "_call", call)
        monkeypatch.setattr(driver, "_LOOK", 0.0)
        monkeypatch.setattr(driver.kerberos, "ticket_problem", lambda: tickets.pop(0))
        made = Driver(SimpleNamespace(conf=SimpleNamespace(kerberos=secure), skein=tmp_path))
        return made, called

    return make


def test_an_application_that_runs_waits_for_a_ticket(says):
    made, _ = says([UNKNOWN, UNKNOWN, REFUSED, "the way"], [EXPIRED, EXPIRED, None])
    assert made.connect("application_1_0001") == "the way"


def test_nothing_is_submitted_without_a_ticket_and_that_is_told(says):
    made, called = says([REFUSED], [EXPIRED])
    with pytest.raises(KerberosError, match="has expired"):
        made.submit(None)
    assert len(called) == 1


def test_with_a_new_ticket_what_was_submitted_is_looked_for_first(says):
    made, called = says([REFUSED, "application_1_0001"], [None])
    assert made.submit(None, lambda: "application_1_0001") == "application_1_0001"
    client = SimpleNamespace(submit=lambda _: pytest.fail("it was submitted twice"))
    assert called[1](client) == "application_1_0001"


def test_an_application_that_nobody_knows_is_told_in_the_end(says, monkeypatch):
    monkeypatch.setattr(driver, "_RELOGIN", -1.0)
    made, _ = says([UNKNOWN], [None])
    with pytest.raises(ClusterError, match="Unknown ApplicationId"):
        made.connect("application_1_0001")


@pytest.mark.parametrize(
    ("error", "secure"), [(UNKNOWN, False), (ClusterError("skein says: the queue is full"), True)]
)
def test_any_other_error_is_told_at_once(says, error, secure):
    made, called = says([error], secure=secure)
    with pytest.raises(type(error)):
        made.connect("application_1_0001")
    assert len(called) == 1
