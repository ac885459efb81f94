"""A keytab by which tickets are taken: what is wrong with one is told before anybody is asked."""

from __future__ import annotations

import pytest
from submarine_engine import kerberos
from submarine_engine.clusters.yarn.hadoop import ConfFolder, read_conf
from submarine_engine.errors import ConfigError, KerberosError

SECURE = (
    "<configuration><property><name>hadoop.security.authentication</name>"
    "<value>kerberos</value></property></configuration>"
)


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """Return how the configuration of a secure cluster is read, with a home of its own."""
    folder = tmp_path / "conf"
    folder.mkdir()
    for name in ("core-site.xml", "yarn-site.xml"):
        (folder / name).write_text(SECURE)
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'own'}")
    yield lambda: read_conf(ConfFolder(folder, "a test", {}))
    kerberos.log_in(None)


@pytest.fixture
def keytab(tmp_path, monkeypatch):
    """Give the path of a keytab that the settings name."""
    path = tmp_path / "ana.keytab"
    monkeypatch.setenv("SUBMARINE_YARN_KEYTAB", str(path))
    monkeypatch.setenv("SUBMARINE_YARN_PRINCIPAL", "ana/host@EXAMPLE.COM")
    path.write_bytes(b"\x05\x02")
    path.chmod(0o600)
    return path


def test_who_has_a_keytab_is_its_principal(conf, keytab, tmp_path):
    found = conf()
    assert found.user == "ana"
    cache = found.environment["KRB5CCNAME"].removeprefix("FILE:")
    assert cache.startswith(str(tmp_path / "home" / "kerberos"))
    assert (tmp_path / "home" / "kerberos").stat().st_mode & 0o777 == 0o700
    assert str(keytab) not in str(found.environment)


def test_without_one_the_own_ticket_counts_again(conf, keytab, monkeypatch):
    conf()
    monkeypatch.delenv("SUBMARINE_YARN_KEYTAB")
    monkeypatch.delenv("SUBMARINE_YARN_PRINCIPAL")
    assert "KRB5CCNAME" not in conf().environment
    assert kerberos.credentials() is None


def test_a_keytab_that_is_not_there_is_told(conf, keytab):
    keytab.unlink()
    with pytest.raises(KerberosError, match="cannot be read: No such file") as told:
        conf()
    assert told.value.where == str(keytab)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_keytab_that_others_may_read_is_refused(conf, keytab, mode):
    keytab.chmod(mode)
    with pytest.raises(KerberosError, match="not yours alone") as told:
        conf()
    assert f"chmod 600 {keytab}" in told.value.fix


def test_a_folder_is_no_keytab(conf, keytab):
    keytab.unlink()
    keytab.mkdir(mode=0o700)
    with pytest.raises(KerberosError, match="cannot be read: Is a directory"):
        conf()


@pytest.mark.parametrize("left", ["KEYTAB", "PRINCIPAL"])
def test_one_without_the_other_is_refused(conf, keytab, monkeypatch, left):
    monkeypatch.delenv(f"SUBMARINE_YARN_{left}")
    with pytest.raises(ConfigError, match=f"yarn_{left.lower()} is not"):
        conf()


@pytest.mark.parametrize("name", ["", "ana@", "-t /etc/passwd", "a b@C", "../ana"])
def test_what_is_no_principal_is_refused(conf, keytab, monkeypatch, name):
    monkeypatch.setenv("SUBMARINE_YARN_PRINCIPAL", name)
    with pytest.raises(ConfigError):
        conf()


@pytest.mark.parametrize("name", ["KEYRING:persistent:1000", "KCM:", "DIR:/tmp/tickets"])
def test_tickets_that_java_cannot_read_are_refused(monkeypatch, name):
    monkeypatch.setenv("KRB5CCNAME", name)
    with pytest.raises(KerberosError, match="Java cannot read") as told:
        kerberos.check_files()
    assert told.value.where == name
    assert "kinit" in told.value.fix


@pytest.mark.parametrize("name", ["FILE:/srv/tickets", "/srv/tickets", "/srv/tickets:2"])
def test_tickets_in_a_file_are_taken(monkeypatch, name):
    monkeypatch.setenv("KRB5CCNAME", name)
    kerberos.check_files()
