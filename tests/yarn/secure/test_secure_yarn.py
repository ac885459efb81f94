"""A secure cluster of one's own: a ticket is all that a job needs; what is wrong is told first."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from submarine_engine import kerberos
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.node_pages import NodeConnection
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.errors import KerberosError
from submarine_engine.installer import realm

from tests.jobs import end_processes_of, until

from .users import kinit

PATIENCE = 240

pytestmark = pytest.mark.long


def submarine(*words):
    command = [sys.executable, "-m", "submarine_engine.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give a home for jobs on the secure cluster."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield home
    end_processes_of(home, patience=3)


def test_a_job_needs_a_ticket_and_nothing_else(on_secure_yarn, home, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('trained')")
    done = submarine("job", "run", str(script), "--cluster", "yarn", "--gpus", "0")
    assert done.stdout == "trained\n", done.stderr
    log = next(home.glob("yarn/*/skein/driver.log")).read_text()
    assert "owner=" + kerberos.read_ticket().principal in log


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("none", "there is no Kerberos ticket"),
        ("expired", "your Kerberos ticket has expired"),
        ("configuration", "the file cannot be read"),
        ("no file", "where Hadoop's Java cannot read them"),
    ],
)
@pytest.mark.usefixtures("on_secure_yarn")
def test_without_a_ticket_it_is_told_before_there_is_a_job(
    secure_yarn, home, monkeypatch, wrong, words
):
    cache, script = home.with_name("tickets"), home.with_name("train.py")
    if wrong == "expired":
        monkeypatch.setenv("KRB5CCNAME", kinit(secure_yarn, cache, "alice", "-l", "1s"))
        until(lambda: _refusal().what == words, 60)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    if wrong == "no file":
        cache.mkdir()
        name = kinit(secure_yarn, cache, "alice", kind="DIR")
        monkeypatch.setenv("KRB5CCNAME", name)
    if wrong == "configuration":
        monkeypatch.setenv("KRB5_CONFIG", str(home.with_name("krb5.conf")))
    script.write_text("print('trained')")
    done = submarine("job", "run", str(script), "--cluster", "yarn", "--gpus", "0")
    assert done.returncode != 0
    assert words in done.stderr
    assert "kinit" in done.stderr
    assert not list(home.glob("jobs/*"))


def _refusal():
    try:
        return KerberosError(str(kerberos.read_ticket()))
    except KerberosError as error:
        return error


def test_tickets_are_found_where_krb5_conf_says(on_secure_yarn, home, tmp_path, monkeypatch):
    """Java looks there by itself for nothing: it is told."""
    text = realm.config(on_secure_yarn.cluster.layout).read_text()
    tickets = tmp_path / "krb5cc_%{uid}"
    text = re.sub(r"default_ccache_name = .*", f"default_ccache_name = FILE:{tickets}", text)
    (tmp_path / "krb5.conf").write_text(text)
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    monkeypatch.delenv("KRB5CCNAME")
    script = tmp_path / "train.py"
    script.write_text("print('trained')")
    words = ("job", "run", str(script), "--cluster", "yarn", "--gpus", "0")
    done = submarine(*words)
    assert f"krb5cc_{os.geteuid()}: there is no Kerberos ticket" in done.stderr, done.stderr
    kinit(on_secure_yarn, tmp_path / f"krb5cc_{os.geteuid()}", "alice")
    done = submarine(*words)
    assert done.stdout == "trained\n", done.stderr


def test_whose_an_expired_ticket_was_is_known(on_secure_yarn, tmp_path, monkeypatch):
    cache = tmp_path / "tickets"
    monkeypatch.setenv("KRB5CCNAME", kinit(on_secure_yarn, cache, "alice", "-l", "1s"))
    until(lambda: "expired" in _refusal().what, 60)
    assert load_hadoop().user == "alice"


def test_each_principal_has_a_keeper_of_its_own(on_secure_yarn, tmp_path, monkeypatch):
    """Who has skein's certificates has the masters."""
    keys = {load_hadoop().fingerprint}
    for user in realm.OTHERS:
        monkeypatch.setenv("KRB5CCNAME", kinit(on_secure_yarn, tmp_path / user, user))
        keys.add(load_hadoop().fingerprint)
    assert len(keys) == 3


def test_a_server_that_the_realm_does_not_know_is_told(on_secure_yarn):
    error = kerberos.explain("nowhere.invalid")
    assert "does not know the cluster's service HTTP/nowhere.invalid" in error.what
    assert "klist" in error.fix


def test_a_clock_that_differs_is_told():
    error = kerberos.skewed(-600, "http://there")
    assert "behind this machine's" in error.what
    assert "time server" in error.fix


def test_who_asks_without_a_ticket_is_refused_and_who_answers_proves_itself(on_secure_yarn):
    conf = load_hadoop()
    (node,) = ResourceManager(conf).nodes()
    there, tls = node["nodeHTTPAddress"], conf.node_tls
    proven = NodeConnection(there, user=None, timeout=30, tls=tls)
    anonymous = NodeConnection(there, user="alice", timeout=30, tls=tls)
    try:
        assert proven.get("/ws/v1/node/info").status == 200
        assert anonymous.get("/ws/v1/node/info").status == 401
    finally:
        proven.close()
        anonymous.close()
    with pytest.raises(KerberosError, match="has not proven"):
        kerberos.Handshake("localhost").verify("Negotiate bm9uc2Vuc2U=")
    with pytest.raises(KerberosError, match="has not proven"):
        kerberos.Handshake("localhost").verify(None)


def test_the_doctor_walks_through_kerberos(on_secure_yarn, home):
    done = submarine("doctor", "--cluster", "yarn")
    for title in ("krb5.conf", "ticket", "SPNEGO at localhost", "delegation token", "queue"):
        assert f"ok    {title}: " in done.stdout, done.stdout + done.stderr
