"""The ResourceManager's REST API, and the one place that turns its failures into our words.

Documents are described in Hadoop's "ResourceManager REST APIs" (Hadoop 3.4).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import requests

from submarine_engine import kerberos
from submarine_engine.errors import ClusterError, KerberosError
from submarine_engine.trust import untrusted

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf

_TIMEOUT = (3.0, 15.0)
"""Seconds to connect, and between two bytes: a host that is down says nothing, and is soon given
up; the manager of a large cluster takes its time for an answer."""
_LONGEST_ANSWER = 300
_CLUSTER = "/ws/v1/cluster"
_FORGOTTEN = "the ResourceManager does not know it any more: it may have been started anew"


class _UnknownError(ClusterError):
    """What was asked for is not there: in the ResourceManager's own words, not a proxy's."""


def new_session(conf: HadoopConf) -> requests.Session:
    """Return a session for the cluster's own pages: no proxy, and Kerberos if `conf` asks for it.

    Raises
    ------
    KerberosError
        The cluster wants Kerberos, and the packages for that are not installed.
    """
    session = requests.Session()
    session.trust_env = False  # a proxy for the outside has no way to the cluster
    session.headers["Accept"] = "application/json"
    session.verify = conf.ca or True
    if conf.kerberos:
        secure_session(conf, session)
    return session


def secure_session(conf: HadoopConf, session: requests.Session) -> None:
    """Let `session` speak Kerberos, as the user's ticket for the cluster of `conf` says.

    Raises
    ------
    KerberosError
        The packages for it are not installed.
    """
    kerberos.use(conf.environment)
    kerberos.check_installed()
    try:
        from submarine_engine.clusters.yarn import spnego  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise kerberos.not_installed() from error
    spnego.secure(session)


class ResourceManager:
    """The ResourceManager of a cluster; of several (high availability) the one that is active.

    Parameters
    ----------
    conf
        The cluster's configuration.
    timeout
        Seconds to wait for a connection, and between two bytes of an answer.
    """

    def __init__(self, conf: HadoopConf, *, timeout: tuple[float, float] = _TIMEOUT) -> None:
        self._conf = conf
        self._timeout = timeout
        self._session = new_session(conf)
        self._urls = list(conf.rm_urls)
        self.user = conf.user
        self.web_user = conf.web_user
        self.node_tls = conf.node_tls

    @property
    def url(self) -> str:
        """The address that answered last."""
        return self._urls[0]

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return the document at a path, such as ``/ws/v1/cluster/nodes``.

        Parameters
        ----------
        path
            Absolute, quoted as an address has it.
        query
            What the address has behind its ``?``, by name.

        Raises
        ------
        ClusterError
            No ResourceManager answers, or it refuses.
        """
        answer = self._ask("GET", path, query)
        try:
            document: dict[str, Any] = answer.json()
        except ValueError as error:
            raise ClusterError(
                "the ResourceManager's answer is no JSON",
                where=answer.url,
                fix="see whether yarn.resourcemanager.webapp.address names a ResourceManager",
            ) from error
        return document

    def application(self, app_id: str) -> dict[str, Any]:
        """Return the report of the application `app_id`.

        One that the ResourceManager does not know counts as failed, as one whose master died: it
        was started anew without recovery, and what ran is over then; or it keeps no more of those
        that are over.
        """
        path = f"{_CLUSTER}/apps/{app_id}"
        try:
            report: dict[str, Any] = self.get(path)["app"]
        except _UnknownError:
            # One that recovers has its pages up before it knows anything, and is active after that.
            if self.get(f"{_CLUSTER}/info")["clusterInfo"].get("haState") != "ACTIVE":
                raise
            try:
                report = self.get(path)["app"]
            except _UnknownError:
                return {"id": app_id, "state": "FAILED", "diagnostics": _FORGOTTEN}
        return report

    def applications(self, **query: str) -> list[dict[str, Any]]:
        """Return the reports of all applications that match, such as ``user=…, states=RUNNING``.

        Parameters
        ----------
        query
            Which, by the names of the address's parameters; none for all.
        """
        return listed(self.get(f"{_CLUSTER}/apps", **query).get("apps"), "app")

    def containers(self, app_id: str) -> list[dict[str, Any]]:
        """Return the containers that the scheduler counts as those of `app_id` at this moment."""
        attempts = listed(
            self.get(f"{_CLUSTER}/apps/{app_id}/appattempts").get("appAttempts"), "appAttempt"
        )
        if not attempts:
            return []
        last = max(attempts, key=lambda attempt: int(attempt["id"]))["appAttemptId"]
        return listed(
            self.get(f"{_CLUSTER}/apps/{app_id}/appattempts/{last}/containers"), "container"
        )

    def nodes(self) -> list[dict[str, Any]]:
        """Return the NodeManagers."""
        return listed(self.get(f"{_CLUSTER}/nodes").get("nodes"), "node")

    def scheduler(self) -> dict[str, Any]:
        """Return what the scheduler says of its queues."""
        info: dict[str, Any] = self.get(f"{_CLUSTER}/scheduler")["scheduler"]["schedulerInfo"]
        return info

    def signal(self, container_id: str, command: str = "GRACEFUL_SHUTDOWN") -> None:
        """Let a container's node send it a signal: SIGTERM, or by ``FORCEFUL_SHUTDOWN`` SIGKILL.

        Parameters
        ----------
        container_id
            YARN's id of it.
        command
            YARN's word for the signal, ``GRACEFUL_SHUTDOWN`` unless given.
        """
        self._ask("POST", f"{_CLUSTER}/containers/{container_id}/signal/{command}", {})

    def set_priority(self, app_id: str, priority: int) -> None:
        """Give application `app_id` a `priority` in the queue; the cluster's maximum limits it."""
        self._ask("PUT", f"{_CLUSTER}/apps/{app_id}/priority", {}, json={"priority": priority})

    def set_lifetime(self, app_id: str, until: float) -> None:
        """Let the application `app_id` end at `until` at the latest, in seconds since the epoch."""
        at = datetime.fromtimestamp(until, timezone.utc)
        expiry = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}+0000"
        told = {"timeout": {"type": "LIFETIME", "expiryTime": expiry}}
        self._ask("PUT", f"{_CLUSTER}/apps/{app_id}/timeout", {}, json=told)

    def kill(self, app_id: str, diagnostics: str = "") -> None:
        """End application `app_id`, with `diagnostics` as the reason; no-op where it is over."""
        state = {"state": "KILLED", "diagnostics": diagnostics}
        self._ask("PUT", f"{_CLUSTER}/apps/{app_id}/state", {}, json=state)

    def _ask(
        self, method: str, path: str, query: Mapping[str, str], json: dict[str, Any] | None = None
    ) -> requests.Response:
        if not self._conf.kerberos:
            query = {**query, "user.name": self.user}
        silent: list[ClusterError] = []
        barred: list[ClusterError] = []
        standby = []
        for url in list(self._urls):
            try:
                # Whom a standby sends to is not asked: only whom the configuration names hears who
                # asks.
                answer = self._session.request(
                    method, f"{url}{path}", params=query, json=json, timeout=self._timeout,
                    allow_redirects=False,
                )  # fmt: skip
            except requests.RequestException as error:
                wrong = untrusted(error, url)
                (silent if wrong is None else barred).append(wrong or _unreachable(url, error))
                continue
            except KerberosError as error:  # it may be that one's alone, and the other one do
                barred.append(error)
                continue
            # One on standby sends to the active one; where it knows of none, to itself.
            if 300 <= answer.status_code < 400:  # noqa: PLR2004 - of HTTP
                standby.append(url)
                continue
            refused = _not_admitted(answer) if self._conf.kerberos else None
            if refused is not None:
                barred.append(refused)
                continue
            # The active one first, next time; by one assignment, as threads ask.
            self._urls = [url, *(other for other in self._urls if other != url)]
            if not answer.ok:
                raise _refused(answer)
            return answer
        raise _nobody(standby, silent, barred)


def _nobody(
    standby: list[str], silent: list[ClusterError], barred: list[ClusterError]
) -> ClusterError:
    """Return the error of ResourceManagers none of which has answered as the active one."""
    if barred:  # no ticket, no trust: whoever lacks it has to hear that first
        return barred[0]
    if not standby and len(silent) == 1:
        return silent[0]
    said = [f"{', '.join(standby)} on standby"] if standby else []
    if silent:
        away = " and ".join(error.where for error in silent)
        said.append(f"{away} {'do' if len(silent) > 1 else 'does'} not answer")
    return ClusterError(
        f"no ResourceManager is active: {'; '.join(said)}",
        where="YARN",
        fix="ask the cluster's owner; `yarn rmadmin -getAllServiceState` tells them which is"
        if standby
        else silent[0].fix,
    )


def listed(holder: Any, name: str) -> list[dict[str, Any]]:  # noqa: ANN401 - a foreign document
    """Return the list `name` of the document `holder`, which may be absent, null, or one object."""
    found = (holder or {}).get(name) or []
    return found if isinstance(found, list) else [found]


def _unreachable(url: str, error: requests.RequestException) -> ClusterError:
    return ClusterError(
        "the ResourceManager does not answer",
        where=url,
        fix="see whether it runs (submarine doctor --cluster yarn), and whether HADOOP_CONF_DIR "
        f"names this cluster; the network says: {_short(str(error))}",
    )


def _refused(answer: requests.Response) -> ClusterError:
    said, kind = answer.text, ClusterError
    with suppress(ValueError, KeyError, TypeError):
        told = answer.json()["RemoteException"]
        said = told["message"]
        if told["exception"] == "NotFoundException":
            kind = _UnknownError
    return kind(
        f"the ResourceManager refuses ({answer.status_code}): {_short(said)}",
        where=answer.url.partition("?")[0],
        fix="its own words say why; its log says more",
    )


def _not_admitted(answer: requests.Response) -> ClusterError | None:
    """Return why Kerberos does not let the user in; None where it does."""
    denied = answer.status_code == requests.codes.forbidden and "RemoteException" not in answer.text
    if answer.status_code != requests.codes.unauthorized and not denied:
        return None
    where = answer.url.partition("?")[0]
    with suppress(ValueError, TypeError):
        ahead = parsedate_to_datetime(answer.headers["Date"]).timestamp() - time.time()
        if abs(ahead) > kerberos.SKEW:
            return kerberos.skewed(ahead, where)
    return KerberosError(
        f"the ResourceManager does not take your ticket ({answer.status_code}): "
        f"{_short(answer.reason or '')}",
        where=where,
        fix="see by `klist` whose it is, and whether it is of the cluster's realm; "
        f"{kerberos.how_to_get_a_ticket()}",
    )


def _short(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _LONGEST_ANSWER else line[: _LONGEST_ANSWER - 1] + "…"
