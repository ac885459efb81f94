"""Tells a webhook that a job has ended, from a process of its own (`clusters.outbox` starts it).

At least once: what is being done is noted in the job's ``notified.json`` first, and each request
has the job's id as its ``Idempotency-Key``. It is tried a few times, for seconds each. The request
goes to an address that was looked at before, by no redirect and no name that is looked up twice: a
webhook shall lead nobody into the private network, nor to what listens on this machine for its user
alone.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

if __name__ == "__main__":  # started by its path, as what the job's driver is part of
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from submarine_engine import webhooks
from submarine_engine.amounts import duration
from submarine_engine.clusters import locks, outbox
from submarine_engine.clusters.store import add_warning, read_events
from submarine_engine.errors import SubmarineError
from submarine_engine.events import Moment
from submarine_engine.history import SPOILT, JobPaths, SpoiltFileError, read_json, write_json
from submarine_engine.lifecycle import JobStatus, fold
from submarine_engine.masking import masker_of
from submarine_engine.usage import GpuTime, gpu_time

_PAUSES = (1.0, 5.0, 30.0, 120.0)  # between two tries: a service that begins anew is back by then
_PATIENCE = 10.0  # seconds that connecting, and each answer, may take
_DEADLINE = 20.0  # seconds for a whole try: an answer may come byte by byte
_LONGEST = 600  # characters of a reason
_SLACK = ("hooks.slack.com", "hooks.slack-gov.com")
_OK, _REDIRECT, _REFUSED, _BUSY = range(200, 300), range(300, 400), range(400, 500), (408, 425, 429)


class WebhookError(Exception):
    """A webhook was not told; a `lasting` reason is not tried again. No word of it is the address.

    Parameters
    ----------
    why
        In words.
    lasting
        Whether another try would end likewise.
    """

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting


# What is told.


def message(
    record: Mapping[str, Any], status: JobStatus, spent: GpuTime, log: str | None = None
) -> dict[str, Any]:
    """Return what is told of a job, as JSON.

    Parameters
    ----------
    record
        The job's ``record.json``.
    status
        As it ended.
    spent
        What its GPUs were asked for, held and busy.
    log
        Where its log can be read.
    """
    spec = record.get("spec") or {}
    told = {
        "id": record.get("id"),
        "name": spec.get("name"),
        "cluster": record.get("cluster"),
        "user": record.get("user"),
        "host": record.get("host"),
        "notebook": spec.get("notebook"),
        "state": status.state.value,
        "reason": _plain(status.reason)[:_LONGEST],
        "submitted": _time(status.submitted),
        "started": _time(status.started),
        "finished": _time(status.finished),
        "seconds": _seconds(status),
        "gpu_seconds": {
            "queued": round(spent.queued, 3),
            "held": round(spent.held, 3),
            "busy": round(spent.busy, 3),
        },
        "log": log,
    }
    return {**told, "text": sentence(told)}


def sentence(told: Mapping[str, Any]) -> str:
    """Return what `message` has `told`, in a sentence for people."""
    took = duration(told["seconds"])
    said = f"{told['name']} {told['state']} after {took}"
    return f"{said}: {told['reason']}" if told["reason"] else said


def slack(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `message` has `told`, as Slack takes it: text, and blocks of it.

    Names and reasons come from jobs: none becomes a mention or a link.
    """
    name = _escape(told["name"])
    log = told["log"]
    if isinstance(log, str) and log.startswith(("https://", "http://")) and "|" not in log:
        name = f"<{_escape(log)}|{name}>"
    text = f"*{name}* {told['state']} after {duration(told['seconds'])}"
    held = told["gpu_seconds"]["held"] / 3600
    facts = [told["cluster"], told["id"], f"{held:.2f} GPU-hours", told["notebook"]]
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text}},
        {"type": "context", "elements": [_said(" · ".join(str(one) for one in facts if one))]},
    ]
    if told["reason"]:
        blocks.insert(1, {"type": "section", "text": _said(told["reason"])})
    return {"text": _escape(told["text"]), "blocks": blocks}


def _said(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": _escape(text), "emoji": False}


def _escape(text: object) -> str:
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> str:
    """Return a text without what a terminal or a page would act on."""
    return "".join(one if one.isprintable() else " " for one in text).strip()


def _time(moment: Moment | None) -> str | None:
    if moment is None:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment.wall))


def _seconds(status: JobStatus) -> float | None:
    if status.submitted is None or status.finished is None:
        return None
    return round(status.submitted.until(status.finished), 3)


# How it is told.


def post(address: str, body: Mapping[str, Any], key: str, *, private: bool = False) -> None:
    """Send JSON to a webhook, once.

    Parameters
    ----------
    address
        The webhook's.
    body
        What is sent.
    key
        Says that two requests are the same.
    private
        Whether it may be in a private network, or on this machine.

    Raises
    ------
    WebhookError
        It was not told, or says so.
    """
    webhooks.check_address(address)
    parts = urlsplit(address)
    connection = _connect(parts, private=private)
    late = threading.Timer(_DEADLINE, connection.give_up)
    late.daemon = True
    late.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": key,
            "User-Agent": "submarine-notebook",
            "Connection": "close",
        }
        connection.request("POST", target, json.dumps(body).encode(), headers)
        code = connection.getresponse().status
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or "it speaks no TLS"
        raise WebhookError(f"its certificate is refused: {why}", lasting=True) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if connection.late or isinstance(error, TimeoutError):
            raise WebhookError("it does not answer in time") from None
        why = getattr(error, "strerror", None) or "it answers no HTTP"
        if connection.proxied:
            why = f"{why}, by the proxy"
        raise WebhookError(f"it cannot be reached: {why}") from None
    finally:
        late.cancel()
        connection.close()
    if code in _REDIRECT:
        why = "it leads elsewhere, and redirects are not followed; give the last address"
        raise WebhookError(f"{why} (HTTP {code})", lasting=True)
    if code not in _OK:
        lasting = code in _REFUSED and code not in _BUSY
        raise WebhookError(f"it answers HTTP {code}", lasting=lasting)


class _Connection(http.client.HTTPConnection):
    """A connection to addresses that were looked at, whatever their name would mean by now.

    Parameters
    ----------
    host, port
        Whom the request is for.
    addresses
        Where it goes to, as numbers: to the first one that takes it. The proxy's name alone where
        there is one.
    context
        For TLS; None without.
    """

    def __init__(
        self,
        host: str,
        port: int,
        addresses: Sequence[tuple[str, int]],
        context: ssl.SSLContext | None,
    ) -> None:
        super().__init__(host, port, timeout=_PATIENCE)
        self.late = False
        self._addresses = addresses
        self._context = context
        self._name = host

    def connect(self) -> None:
        """Connect to an address, with TLS where there is any, for the host's own name."""
        if self.proxied:
            super().connect()  # to the proxy, which is asked for the host
        else:
            self.sock = self._connect_to_any()
            self.sock.settimeout(self.timeout)
        if self._context is not None:
            tls = self._context.wrap_socket(
                self.sock, server_hostname=self._name, do_handshake_on_connect=False
            )
            self.sock = tls
            self._check_time()
            tls.do_handshake()
        self._check_time()

    def _connect_to_any(self) -> socket.socket:
        """Connect to the first address that takes it; all of them share the time for it."""
        refused = []
        for address in self._addresses:
            self._check_time()
            try:
                return socket.create_connection(address, _PATIENCE / len(self._addresses))
            except OSError as error:
                refused.append(error)
        raise refused[0]  # the one that the machine likes best; it may have no IPv6 at all

    proxied = False

    def go_by(self, proxy: SplitResult) -> None:
        """Have a proxy connect to the host."""
        host, port = self.host, self.port
        self.host, self.port = self._addresses[0]
        headers = {}
        if proxy.username:
            user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            headers["Proxy-Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        self.set_tunnel(host, port, headers)
        self.proxied = True

    def _check_time(self) -> None:
        """Go no further where `give_up` came before there was anything to end."""
        if self.late:
            raise TimeoutError

    def give_up(self) -> None:
        """End the connection, from another thread."""
        self.late = True
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


def _connect(parts: SplitResult, *, private: bool) -> _Connection:
    host, tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    context = ssl.create_default_context() if tls else None
    proxy = _proxy_of(host) if tls else None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if proxy is None:
            why = getattr(error, "strerror", error)
            raise WebhookError(f"its host is not found: {why}") from None
        found = []  # behind a firewall names outside may be known to the proxy alone
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    for address in addresses:
        check_ip(address, private=private)
    if proxy is None:
        return _Connection(host, port, [(one, port) for one in addresses], context)
    connection = _Connection(host, port, [(proxy.hostname or "", proxy.port or 3128)], context)
    connection.go_by(proxy)
    return connection


def _proxy_of(host: str) -> SplitResult | None:
    """Return the proxy that the environment names for a host, None where there is none."""
    named = getproxies().get("https")
    if not named or proxy_bypass(host):
        return None
    with suppress(ValueError):
        parts = urlsplit(named if "://" in named else f"http://{named}")
        if parts.hostname and (parts.port is None or parts.port):
            return parts
    raise WebhookError("the environment's https_proxy is no address", lasting=True)


def check_ip(text: str, *, private: bool) -> None:
    """Refuse an address that no webhook has, as numbers.

    Parameters
    ----------
    text
        The address, of version 4 or 6; a zone may stand behind a ``%``.
    private
        Whether private networks and this machine are allowed. The link's own addresses never are:
        there clouds keep the machine's credentials.

    Raises
    ------
    WebhookError
        It is refused.
    """
    address = _inner(ipaddress.ip_address(text.partition("%")[0]))
    strange = (
        address.is_unspecified
        or address.is_multicast
        or address.is_link_local
        or (address.is_reserved and not address.is_loopback)
    )
    # What was withdrawn, or came late, is not known to each Python as what it is.
    public = address.is_global and not any(address in one for one in _NOT_PUBLIC)
    if strange or not (public or private):
        fix = "" if strange else "; where that is right, set notify_private = true"
        why = f"its address {address} is none of the public network{fix}"
        raise WebhookError(why, lasting=True)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC = tuple(map(ipaddress.ip_network, ("fec0::/10", "64:ff9b:1::/48")))


def _inner(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 one leads to, where it does."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address in _NAT64 or (address.packed[:12] == bytes(12) and int(address) > 1):
        return ipaddress.IPv4Address(address.packed[12:])
    return address.ipv4_mapped or address.sixtofour or address


# For one job, until it is told or cannot be.


def send(paths: JobPaths, *, private: bool = False, pauses: Sequence[float] = _PAUSES) -> None:
    """Tell of a job's end, where that is still to be done and nobody else is at it.

    Parameters
    ----------
    paths
        The job's files.
    private
        As for `post`.
    pauses
        Seconds between two tries.
    """
    entry = outbox.entry_of(paths)
    while True:
        try:
            lock = locks.take(entry)
        except OSError:
            return
        if lock is None:
            return
        try:
            told = _send(paths, private=private, pauses=pauses)
            if told:
                entry.unlink(missing_ok=True)
        finally:
            locks.drop(lock)
        # Who has written the end since that look has met this lock, and left it to us.
        if told or not _is_over(paths):
            return


def _is_over(paths: JobPaths) -> bool:
    with suppress(FileNotFoundError, SpoiltFileError):
        return fold(event for event, _ in read_events(paths.events)[0]).state.final
    return False


def _send(paths: JobPaths, *, private: bool, pauses: Sequence[float]) -> bool:
    """Tell it; False where the job is not over, and whoever writes its end starts another one."""
    try:
        record = read_json(paths.record)
        events = [event for event, _ in read_events(paths.events)[0]]
    except (FileNotFoundError, SpoiltFileError):
        record, events = None, []
    if record is None:  # the job is deleted, or nobody can tell any more what it was
        return True
    if not (status := fold(events)).state.final:
        return False
    noted = _noted(paths)
    if noted.get("state") in ("sent", "failed"):
        return True
    named = str((record.get("spec") or {}).get("notify"))
    address = outbox.find(paths.root.parents[1], named)
    if address is None:
        _failed(paths, named, "its address is kept no more", 0)
        return True
    told = message(record, status, gpu_time(events, Moment.now()), _log_of(record, paths.job_id))
    if masker := masker_of(paths.root):
        told = masker.within(told)
    body = slack(told) if urlsplit(address).hostname in _SLACK else told
    _deliver(
        paths,
        named,
        int(noted.get("tries") or 0),
        pauses,
        partial(post, address, body, paths.job_id, private=private),
    )
    return True


def _noted(paths: JobPaths) -> dict[str, Any]:
    """Return what came of it; nothing where that is spoilt: it is told once more."""
    with suppress(SpoiltFileError):
        return read_json(paths.root / outbox.NOTIFIED) or {}
    return {}


def _deliver(
    paths: JobPaths, named: str, tries: int, pauses: Sequence[float], post_once: Callable[[], None]
) -> None:
    """Try until the webhook has taken the message, or never will; return which."""
    why = "it was tried often enough"
    for pause in [*pauses, None][tries:]:
        tries += 1
        _note(paths, named, "sending", tries)
        try:
            post_once()
        except WebhookError as error:
            why = str(error)
            if error.lasting or pause is None:
                break
            time.sleep(pause)
        else:
            _note(paths, named, "sent", tries)
            return
    _failed(paths, named, why, tries)


def _failed(paths: JobPaths, named: str, why: str, tries: int) -> None:
    shown = webhooks.host(named)
    with suppress(OSError):
        add_warning(paths, f"{shown} was not told that the job has ended: {why}")
    _note(paths, named, "failed", tries, why)


def _note(paths: JobPaths, named: str, state: str, tries: int, why: str = "") -> None:
    told = {"version": 1, "host": webhooks.host(named), "state": state, "tries": tries}
    with suppress(OSError):  # a full disk: it is told all the same
        write_json(paths.root / outbox.NOTIFIED, {**told, "why": why, "at": time.time()})


def _log_of(record: Mapping[str, Any], job_id: str) -> str | None:
    """Return where a job's log can be read by others, as its cluster says."""
    from submarine_engine.clusters import open_cluster  # noqa: PLC0415 - loads the cluster

    try:
        return open_cluster(str(record.get("cluster"))).log_url(job_id)
    except Exception:  # noqa: BLE001 - a cluster raises what it likes: it is told without
        return None


def main(arguments: Sequence[str]) -> None:
    """Tell of one job's end, then of those left by others; `arguments`: the home, the job's id."""
    from submarine_engine.config import load_config  # noqa: PLC0415 - only here

    home, job_id = Path(arguments[0]), arguments[1]
    private = False
    with suppress(SubmarineError):
        private = bool(load_config().value("notify_private"))
    send(JobPaths(home, job_id), private=private)
    for left in list(outbox.due(home)):
        with suppress(*SPOILT):  # one that cannot be read keeps no other from being told
            send(JobPaths(home, left), private=private)


if __name__ == "__main__":
    main(sys.argv[1:])
