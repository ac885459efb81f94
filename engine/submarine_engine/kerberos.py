"""Kerberos, as a user of a secure Hadoop needs it: the ticket, what is wrong with it, SPNEGO.

``gssapi`` comes with the extra ``kerberos`` and is imported where a cluster is secure
alone. A ticket is found as every program of MIT Kerberos finds it: ``KRB5CCNAME``, ``KRB5_CONFIG``
and what ``krb5.conf`` says.

Both `clusters.yarn` and `installer` need it, and neither loads the other. Its words name YARN's
settings ``yarn_keytab`` and ``yarn_principal``: no other cluster asks for Kerberos.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submarine_engine.amounts import duration, exactly
from submarine_engine.errors import KerberosError
from submarine_engine.extras import install_extra

CONFIG, CACHE = "KRB5_CONFIG", "KRB5CCNAME"
SKEW = 300.0
"""Seconds by which clocks may differ: ``clockskew`` of krb5.conf(5), and Java's own limit."""

# Error codes of MIT Kerberos (``krb5_err.et``) count from here; texts are translated, they not.
_TABLE = -1765328384
_UNKNOWN_CLIENT, _UNKNOWN_SERVER, _EXPIRED, _SKEWED = 6, 7, 32, 37
_NO_KDC_ANSWERS, _NO_REALM, _NO_KDC, _NO_KEY = 156, 154, 220, 181
_NO_CACHE = (141, 195)
# What `expired` means to GSS-API (RFC 2744): the major status beside the mechanism's own.
_KRB5 = "1.2.840.113554.1.2.2"
_SPNEGO = "1.3.6.1.5.5.2"

_ours: dict[str, str] = {}
_login: Login | None = None
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class Ticket:
    """Who the user is to the cluster, and until when.

    Parameters
    ----------
    principal
        As in ``alice@EXAMPLE.COM``.
    until
        When it expires, seconds since the epoch.
    """

    principal: str
    until: float

    @property
    def user(self) -> str:
        """The name that Hadoop's usual rules make of it: the first component."""
        return short_name(self.principal)

    def __str__(self) -> str:
        return f"{self.principal}, for {duration(max(0.0, self.until - time.time()))} more"


@dataclass(frozen=True, slots=True)
class Login:
    """A principal and its keytab, by which tickets are taken whenever one is about to expire.

    Parameters
    ----------
    principal
        As in ``alice@EXAMPLE.COM``, or ``alice`` of the realm that is the default.
    keytab
        Absolute path. Nothing but this process and the KDC's library reads the file.
    cache
        Where the tickets are, for programs that read no keytab; for the user alone.
    """

    principal: str
    keytab: Path
    cache: Path

    @property
    def environment(self) -> dict[str, str]:
        """What lets other programs have the tickets; Java finds them by it."""
        return {CACHE: f"FILE:{self.cache}"}

    def check(self) -> None:
        """Refuse a keytab that is not there, or that others may read: it is as good as a password.

        Raises
        ------
        KerberosError
            With the command that mends it.
        """
        where = str(self.keytab)
        try:
            found = self.keytab.stat()
            self.keytab.open("rb").close()
        except OSError as error:
            raise KerberosError(
                f"the keytab cannot be read: {error.strerror}",
                where=where,
                fix="let yarn_keytab name it; `klist -kt FILE` shows whose it is",
            ) from error
        if not stat.S_ISREG(found.st_mode):
            raise KerberosError(
                "the keytab is no file", where=where, fix="let yarn_keytab name a keytab's file"
            )
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o077:
            raise KerberosError(
                "the keytab is not yours alone: whoever reads it can be you",
                where=where,
                fix=f"let it be yours (chown), and: chmod 600 {where}",
            )


def log_in(login: Login | None) -> None:
    """Let this process be a principal by its keytab, and what it starts find the tickets.

    Nobody is asked for one before one is needed.

    Parameters
    ----------
    login
        None for the user's own ticket.

    Raises
    ------
    KerberosError
        The keytab is not there, or not the user's alone.
    """
    global _login  # as the variables of the environment are the process's
    if login is not None:
        login.check()
        login.cache.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _lock:
        former, _login = _login, login
        if login is not None:
            os.environ.update(login.environment)
        elif former is not None and os.environ.get(CACHE) == former.environment[CACHE]:
            del os.environ[CACHE]


def credentials() -> object:
    """Return what to ask with: by the keytab where there is one, else None, the user's own ticket.

    Tickets by a keytab are renewed by the library, at half of their life.

    Raises
    ------
    KerberosError
        The KDC gives none.
    """
    return None if _login is None else _by_keytab(_login.principal, _login.keytab, _login.cache)


def short_name(principal: str) -> str:
    """Return the first component of a principal, ``alice`` of ``alice/admin@EXAMPLE.COM``."""
    return principal.partition("@")[0].partition("/")[0]


def use(environment: Mapping[str, str]) -> None:
    """Let this process find tickets and realm where a cluster of one's own keeps them.

    What the user has set stays. libkrb5 reads the variables of its process and nothing else.

    Parameters
    ----------
    environment
        ``KRB5_CONFIG`` and ``KRB5CCNAME`` of that cluster, as far as it has them; others are left
        alone.
    """
    with _lock:
        for name in (CONFIG, CACHE):
            value = environment.get(name)
            if value and os.environ.get(name) in (None, _ours.get(name)):
                os.environ[name] = _ours[name] = value


@contextmanager
def settings(environment: Mapping[str, str]) -> Iterator[None]:
    """Have the variables of `environment` set in this process for the time of a ``with``.

    `use` and `log_in` in other threads wait meanwhile.
    """
    with _lock:
        kept = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        try:
            yield
        finally:
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def read_ticket() -> Ticket:
    """Return the user's ticket, without asking anybody for it.

    Raises
    ------
    KerberosError
        There is none, it has expired, or the configuration of Kerberos cannot be used; with the
        command to run. The package for it is not installed.
    """
    gssapi = _library()
    try:
        own: Any = credentials()
        held = own or gssapi.Credentials(usage="initiate", mechs=[gssapi.OID.from_int_seq(_KRB5)])
        return Ticket(str(held.name), time.time() + (held.lifetime or 0))
    except gssapi.exceptions.GSSError as error:
        raise _words(gssapi, error, "") from error


def ticket_problem() -> KerberosError | None:
    """Return why nothing can be asked of the cluster now; None where there is a ticket."""
    try:
        read_ticket()
    except KerberosError as error:
        return error
    return None


def cache_name() -> str:
    """Return where the user's tickets are looked for, as in ``FILE:/tmp/krb5cc_1000``.

    By ``KRB5CCNAME``, else as ``krb5.conf`` says (``default_ccache_name``).
    """
    if named := os.environ.get(CACHE):
        return named
    try:
        from gssapi.raw import krb5_ccache_name  # noqa: PLC0415 - an extra, and 30 ms
        from gssapi.raw.misc import GSSError  # noqa: PLC0415 - likewise
    except ImportError:
        return _usual_cache()
    try:
        return str(krb5_ccache_name(None).decode())  # as none is set, what it was is the default
    except (GSSError, UnicodeDecodeError):
        return _usual_cache()


def _usual_cache() -> str:
    return f"FILE:/tmp/krb5cc_{os.geteuid()}"


def check_files() -> None:
    """Refuse tickets that only MIT's own programs find: Java reads those in files alone.

    Raises
    ------
    KerberosError
        With the commands by which they are in a file.
    """
    kind, colon, _ = (name := cache_name()).partition(":")
    if colon and kind != "FILE" and not kind.startswith("/"):
        raise KerberosError(
            "your Kerberos tickets are where Hadoop's Java cannot read them",
            where=name,
            fix=f"let them be in a file: export {CACHE}={_usual_cache()}; kinit (for all programs: "
            f"default_ccache_name in {_config()})",
        )


def known_principal() -> str | None:
    """Return whose ticket there is or was, also where it has expired; None where nobody can tell.

    What was begun as a user stays the user's when the ticket has run out.
    """
    if _login is not None:
        return _login.principal
    try:
        return read_ticket().principal
    except KerberosError:
        return _principal_of_file(cache_name())


def _principal_of_file(cache: str) -> str | None:
    """Return the principal that a ccache file is of (MIT's "Credential cache file format", 4)."""
    kind, colon, path = cache.partition(":")
    if colon and kind != "FILE":
        return None
    try:
        with Path(path if colon else cache).open("rb") as file:
            data = file.read(4096)
    except OSError:
        return None
    if data[:2] != b"\x05\x04":
        return None
    try:
        at = 4 + int.from_bytes(data[2:4], "big") + 4  # after the header, and the name's type
        count, at = int.from_bytes(data[at : at + 4], "big"), at + 4
        parts = []
        for _ in range(min(count, 8) + 1):  # the realm first
            size, at = int.from_bytes(data[at : at + 4], "big"), at + 4
            parts.append(data[at : at + size].decode())
            at += size
    except UnicodeDecodeError:
        return None
    return f"{'/'.join(parts[1:])}@{parts[0]}" if len(parts) > 1 and parts[1] else None


class Handshake:
    """One request's SPNEGO (RFC 4559): who asks says who they are, and the server does, too.

    Parameters
    ----------
    host
        The server's host, as its service ``HTTP/host`` is named.
    own
        Whose; the user's own ticket unless given, see `keytab_credentials`.

    Raises
    ------
    KerberosError
        There is no ticket for that server; with the command to run.
    """

    def __init__(self, host: str, own: object = None) -> None:
        gssapi = _library()
        held = credentials() if own is None else own
        self._gssapi = gssapi
        self._host = host
        try:
            self._context = gssapi.SecurityContext(
                name=gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service),
                flags=[gssapi.RequirementFlag.mutual_authentication],
                mech=gssapi.OID.from_int_seq(_SPNEGO),
                creds=held,
                usage="initiate",
            )
            token = self._context.step()
        except gssapi.exceptions.GSSError as error:
            raise explain(host) or _words(gssapi, error, host) from error
        self.header = f"Negotiate {b64encode(token).decode()}"

    def verify(self, answered: str | None) -> None:
        """Check that the server has shown that it is the one.

        Parameters
        ----------
        answered
            Its ``WWW-Authenticate``.

        Raises
        ------
        KerberosError
            It has not.
        """
        try:
            scheme, _, token = (answered or "").strip().partition(" ")
            if scheme.lower() == "negotiate" and token:
                self._context.step(b64decode(token))
            proven = bool(self._context.complete)
        except (ValueError, self._gssapi.exceptions.GSSError):
            proven = False
        if not proven:
            raise not_proven(self._host)


def not_proven(host: str) -> KerberosError:
    """Return the error of the server `host`, which has not shown that it is who it says."""
    return KerberosError(
        "the server has not proven by Kerberos that it is the cluster's",
        where=host,
        fix="nothing that it says is used; see whether a proxy stands between, and whether the "
        "name is the cluster's own",
    )


def keytab_credentials(principal: str, keytab: Path) -> object:
    """Return credentials of `principal`, a service, by `keytab`; in this process's memory alone.

    Raises
    ------
    KerberosError
        The KDC does not answer, or does not know the key.
    """
    return _by_keytab(principal, keytab, None)


def _by_keytab(principal: str, keytab: Path, cache: Path | None) -> object:
    gssapi = _library()
    ccache = f"FILE:{cache}" if cache else f"MEMORY:{keytab}:{principal}"
    store = {"client_keytab": f"FILE:{keytab}", "ccache": ccache}
    try:
        return gssapi.Credentials(
            name=gssapi.Name(principal, gssapi.NameType.kerberos_principal),
            usage="initiate",
            store={key.encode(): value.encode() for key, value in store.items()},
        )
    except gssapi.exceptions.GSSError as error:
        raise _words(gssapi, error, "") from error


def explain(host: str) -> KerberosError | None:
    """Return why there is no ticket for the web pages of `host`; None where there is one.

    Kerberos is asked by itself: what SPNEGO says of it has lost the reason.
    """
    gssapi = _library()
    try:
        gssapi.SecurityContext(
            name=gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service),
            mech=gssapi.OID.from_int_seq(_KRB5),
            creds=credentials(),
            usage="initiate",
        ).step()
    except gssapi.exceptions.GSSError as error:
        return _words(gssapi, error, host)
    return None


def skewed(seconds: float, where: str) -> KerberosError:
    """Return the error of a clock that is too far from this machine's.

    Parameters
    ----------
    seconds
        How far the other one is ahead.
    where
        The server, as people are told of it.
    """
    side = "ahead of" if seconds > 0 else "behind"
    return KerberosError(
        f"its clock is {exactly(abs(seconds))} {side} this machine's; Kerberos takes "
        f"{exactly(SKEW)} at most",
        where=where,
        fix="let both ask the same time server: see `timedatectl`, `chronyc tracking`",
    )


def how_to_get_a_ticket() -> str:
    """Return the command that gets a ticket, for who has none."""
    config = os.environ.get(CONFIG, "")
    keytabs = Path(config).parent / "keytabs"
    if config and keytabs.is_dir():  # a cluster of one's own
        return (
            "`submarine cluster up` takes a new one for you; as alice: "
            f"kinit -kt {keytabs}/alice.keytab alice"
        )
    return "kinit"


def not_installed() -> KerberosError:
    """Return the error of a Python without the packages for Kerberos."""
    return KerberosError(
        "the cluster wants Kerberos, and the packages for it are not installed",
        where="Kerberos",
        fix=f"{install_extra('kerberos')} (needs a C compiler and, on Debian, libkrb5-dev); "
        "then kinit",
    )


def check_installed() -> None:
    """Refuse to go on where the package for Kerberos is not installed.

    Raises
    ------
    KerberosError
        It is not; with the command that installs it.
    """
    _library()


def _library() -> Any:  # noqa: ANN401 - an optional extra without types
    try:
        import gssapi  # noqa: PLC0415 - an extra, and 30 ms
    except ImportError as error:
        raise not_installed() from error
    return gssapi


def _words(gssapi: Any, error: Any, host: str) -> KerberosError:  # noqa: ANN401 - without types
    """Return our error for one of GSS-API's."""
    kinds = gssapi.exceptions
    code = (int(error.min_code) - _TABLE) & 0xFFFFFFFF
    said = " ".join(str(error.gen_message()).split())[:300]
    if isinstance(error, kinds.ExpiredCredentialsError) or code == _EXPIRED:
        what, where = "your Kerberos ticket has expired", cache_name()
        return KerberosError(what, where=where, fix=how_to_get_a_ticket())
    if code in _NO_CACHE or isinstance(error, kinds.MissingCredentialsError):
        return _no_ticket()
    if code in _KNOWN:
        what, fix = _KNOWN[code]
        where = _config() if code in _OF_CONFIG else host or _config()
        told = {"said": said, "host": host, "config": _config(), "ticket": how_to_get_a_ticket()}
        return KerberosError(what.format(**told), where=where, fix=fix.format(**told))
    fix = f"see `klist`; {how_to_get_a_ticket()}"
    return KerberosError(f"Kerberos says: {said}", where=host or _config(), fix=fix)


def _no_ticket() -> KerberosError:
    config = _config()
    if CONFIG in os.environ and not os.access(config.partition(":")[0], os.R_OK):
        return KerberosError(
            "Kerberos has no configuration: the file cannot be read",
            where=f"{CONFIG}={config}",
            fix=f"let {CONFIG} name the krb5.conf of the cluster's realm; then kinit",
        )
    return KerberosError(
        "there is no Kerberos ticket", where=cache_name(), fix=how_to_get_a_ticket()
    )


def _config() -> str:
    return os.environ.get(CONFIG, "/etc/krb5.conf")


_REALMS = "see whether this network reaches the KDC that {config} names ([realms])"
_HOSTS = (
    "see by `klist` whether the ticket is of the cluster's realm, by {config} which realm the host "
    "is in ([domain_realm]); name hosts as the cluster does (dns_canonicalize_hostname = false, "
    "rdns = false)"
)
# By MIT's code: what it means, and what to do next.
_KNOWN = {
    _UNKNOWN_SERVER: (
        "the realm of your ticket does not know the cluster's service HTTP/{host}: {said}",
        _HOSTS,
    ),
    _NO_KDC_ANSWERS: ("no KDC answers: {said}", _REALMS),
    _NO_KDC: ("no KDC of the realm is known: {said}", _REALMS),
    _NO_REALM: ("no KDC of the realm is known: {said}", _REALMS),
    _SKEWED: (
        f"this machine's clock and Kerberos' differ by over {exactly(SKEW)}",
        "let this machine ask a time server: see `timedatectl`, `chronyc tracking`",
    ),
    _UNKNOWN_CLIENT: ("the KDC does not know you: {said}", "{ticket}"),
    _NO_KEY: (
        "the keytab has no key of the principal: {said}",
        "see by `klist -kt FILE` whose it is, and name one of these: yarn_principal",
    ),
}
_OF_CONFIG = (_NO_KDC_ANSWERS, _NO_KDC, _NO_REALM, _UNKNOWN_CLIENT)
