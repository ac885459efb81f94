"""The API server by the official client, and what it refuses in words."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from submarine_engine.amounts import shortened
from submarine_engine.config import load_config
from submarine_engine.errors import ClusterError, ConfigError, SubmissionError

try:
    from kubernetes import client, config
    from kubernetes.client.exceptions import ApiException
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.stream import stream
    from urllib3.exceptions import HTTPError
    from websocket import WebSocketException
    from yaml import YAMLError, safe_load
except ImportError as missing:
    raise ConfigError(
        f"the Python package for Kubernetes is not installed: {missing}",
        where="--cluster kubernetes",
        fix="pip install 'submarine-notebook[kubernetes]'",
    ) from missing

PATIENCE = (3.0, 15.0)
"""Seconds that the API server has to take a connection, and to answer."""

_OPENS_WITHIN = 30.0
"""Seconds in which a program has to begin in a pod: its API server gives a kubelet as many."""

_SENDS_WITHIN = 20.0
"""Seconds that a connection into a pod may take for the next bytes: what stands between here and
there may forget it and say nothing."""

_LOGS_IN_WITHIN = 60.0
"""Seconds that a kubeconfig's credential plugin may take."""

_LOGS_IN_EVERY = 30.0
"""Seconds after a login that has not helped in which no other is tried."""

WIRE_ERRORS = (ApiException, HTTPError, WebSocketException, OSError)
"""What a connection into a pod may end by."""

_SPOILT = (ConfigException, YAMLError, OSError, ValueError, TypeError, LookupError, AttributeError)
"""What reading a kubeconfig may raise, whatever somebody has written there."""

_SILENT_FOR = 2.0  # seconds for which a server that did not answer is not asked again
_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LONGEST_REASON = 300
"""Characters of a reason that the cluster gives for what waits or ended."""

_LONGEST = 500
_WEBHOOK_AWAY = "failed calling webhook"
_TAKEN = "AlreadyExists"
_BEYOND_QUOTA = "exceeded quota"
_UNCOUNTED = "status unknown for quota"  # a new one, whose use nobody has counted yet
_NO_ANSWER = "what comes is no answer of a Kubernetes"
_NO_SUCH_NAMESPACE = re.compile(r'namespaces "[^"]*" not found')

Answer = Mapping[str, Any]
T = TypeVar("T")


class RefusedError(ClusterError):
    """The API server refuses what it was asked.

    Attributes
    ----------
    status
        Of its HTTP answer.
    reason, told
        The one word that the server has for it, and all that it says; empty where nothing.
    """

    status: int = 0
    reason: str = ""
    told: str = ""


class TakenError(ClusterError):
    """There is a pod of that name."""


class QuotaError(ClusterError):
    """The namespace's quota has no room for a pod now.

    Parameters
    ----------
    what, where, fix
        As of `ClusterError`.
    told
        All that the server says of it.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "", told: str = "") -> None:
        super().__init__(what, where=where, fix=fix)
        self.told = told


def find_config() -> tuple[Path, ...]:
    """Return the kubeconfig files that there are, the first of which wins; none in a cluster."""
    settings = load_config()
    named, origin = settings.value("kubernetes_config"), settings.origin("kubernetes_config")
    if named and origin != str(settings.path):
        return (Path(named),)
    if paths := os.environ.get("KUBECONFIG"):
        return tuple(Path(path).expanduser() for path in paths.split(os.pathsep) if path)
    default = Path(named) if named else Path("~/.kube/config").expanduser()
    if named or default.exists():
        return (default,)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return ()
    from submarine_engine.installer.kubernetes.cluster import running_kubeconfig  # noqa: PLC0415 - most have a file

    own = running_kubeconfig(settings.value("home"))
    return (own,) if own is not None else ()


class Kubernetes:
    """One namespace of the cluster of one context.

    Raises
    ------
    ConfigError
        There is no kubeconfig, or no such context in it.
    """

    def __init__(self) -> None:
        settings = load_config()
        self._lock = threading.Lock()
        self._log_in = threading.Lock()
        self._logged_in_at = time.monotonic()
        self._login_helps = True
        self._silent: tuple[float, ClusterError] | None = None
        self._files = find_config()
        self._context: str | None = settings.value("kubernetes_context")
        self._configuration = client.Configuration()
        self.namespace, self._who = self._load()
        self.namespace = settings.value("kubernetes_namespace") or self.namespace
        self._api = client.CoreV1Api(client.ApiClient(self._configuration))

    @property
    def own_image(self) -> str | None:
        """The image that a cluster of one's own has, which no registry has to be asked for."""
        from submarine_engine.installer.kubernetes.cluster import own_image  # noqa: PLC0415 - as above

        return own_image(self._files[0]) if self._files else None

    @property
    def own_user(self) -> int | None:
        """The number of the user that pods run as in a cluster of one's own."""
        from submarine_engine.installer.kubernetes.cluster import own_user  # noqa: PLC0415 - as above

        return own_user(self._files[0]) if self._files else None

    @property
    def fingerprint(self) -> str:
        """What tells this cluster, namespace and user from others."""
        told = json.dumps([self._configuration.host, self.namespace, self._who])
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def _load(self) -> tuple[str, str]:
        """Read the configuration; return its namespace and user."""
        self._configuration.retries = False  # who asks asks again, and says so
        if not self._files and _IN_CLUSTER.exists():
            try:
                config.load_incluster_config(client_configuration=self._configuration)
                return _IN_CLUSTER.joinpath("namespace").read_text().strip(), "in the cluster"
            except (ConfigException, OSError) as error:
                raise ConfigError(
                    f"the pod's service account cannot be used: {_said(error)}",
                    where=str(_IN_CLUSTER),
                    fix="have its token given to this pod (automountServiceAccountToken), or let"
                    " KUBECONFIG name a kubeconfig",
                ) from error
        if not self._files:
            raise ConfigError(
                "there is no kubeconfig",
                where="~/.kube/config",
                fix="let KUBECONFIG name the file by which kubectl finds your cluster, or start one"
                " by submarine cluster up kubernetes",
            )
        files = [path for path in self._files if path.is_file()]  # kubectl passes over the others
        if not files:
            raise ConfigError(
                "there is no such kubeconfig",
                where=str(self._files[0]),
                fix="let KUBECONFIG name the file by which kubectl finds your cluster",
            )
        where = os.pathsep.join(map(str, files))
        try:
            contexts, _ = config.list_kube_config_contexts(where)
            known = {one["name"]: one for one in contexts}
            chosen = self._context or _current_context(files)
            if chosen not in known:
                names = ", ".join(sorted(known)) or "none"
                raise ConfigError(
                    f"the kubeconfig has no context {chosen!r}",
                    where=where,
                    fix=f"choose one of its contexts by kubernetes_context: {names}",
                )
            self._read(where, str(chosen))
        except _SPOILT as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"the kubeconfig cannot be used: {_said(error)}",
                where=where,
                fix="see what `kubectl config view` and `kubectl get pods` say",
            ) from error
        details = known[chosen]["context"]
        return str(details.get("namespace") or "default"), str(details.get("user") or "")

    def _read(self, where: str, context: str) -> None:
        """Read a context of the kubeconfig, and have its plugin log in where it has one.

        Raises
        ------
        ConfigError
            The plugin does not.
        """
        with _said_of_plugins() as said:
            try:
                within(
                    _LOGS_IN_WITHIN,
                    lambda: config.load_kube_config(
                        where,
                        context,
                        client_configuration=self._configuration,
                        persist_config=False,
                    ),
                )
            except TimeoutError:
                said.append(f"it has not ended within {_LOGS_IN_WITHIN:g} s")
        if said:
            raise ConfigError(
                f"its credential plugin does not log in: {shortened('; '.join(said), _LONGEST)}",
                where=where,
                fix="log in to the cluster as its provider says; `kubectl get pods` runs the same"
                " plugin, which has to be on the PATH here, too, and may not ask anything",
            )
        # By it the client would run a plugin whose token is over before each question.
        self._configuration.refresh_api_key_hook = None

    def _log_in_again(self, since: float) -> bool:
        """Read the kubeconfig anew, unless another thread has done so after `since`.

        Returns whether there may be another token: who has to log in by hand is waited for, and not
        asked for by each question of each job.
        """
        with self._log_in:
            if self._logged_in_at > since:
                return True
            if not self._login_helps and time.monotonic() - self._logged_in_at < _LOGS_IN_EVERY:
                return False
            with suppress(ConfigError):  # the server says best that it knows nobody
                self._load()
            # Certificates are a connection's: a plugin may give one in place of a token.
            self._api = client.CoreV1Api(client.ApiClient(self._configuration))
            self._logged_in_at = time.monotonic()
            self._login_helps = True  # until the server says otherwise
            return True

    # What is asked.

    def pods(self, selector: str) -> list[Answer]:
        """Return the pods of the namespace that have these labels.

        Parameters
        ----------
        selector
            As ``kubectl -l`` takes it.

        Raises
        ------
        ClusterError
            The server does not answer.
        RefusedError
            It refuses.
        """
        return self._items(self._api.list_namespaced_pod, self.namespace, label_selector=selector)

    def all_pods(self) -> list[Answer] | None:
        """Return all pods that hold something, of all namespaces; None where that is not ours."""
        held = "status.phase!=Succeeded,status.phase!=Failed"
        return self._allowed(self._api.list_pod_for_all_namespaces, field_selector=held)

    def nodes(self) -> list[Answer] | None:
        """Return the nodes; None where that is not ours to know. Raises as `pods`."""
        return self._allowed(self._api.list_node)

    def events(self, pod: str) -> list[Answer]:
        """Return what the cluster has told of a pod; raises as `pods`."""
        chosen = f"involvedObject.name={pod}"
        listed = self._allowed(
            self._api.list_namespaced_event, self.namespace, field_selector=chosen
        )
        return listed or []

    def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> Answer:
        """Create a pod, or see whether that could be; return it as the server has it.

        Parameters
        ----------
        manifest
            The pod's, as `manifests` makes it.
        dry_run
            Whether the server only says if it would take it.

        Raises
        ------
        TakenError
            There is a pod of that name.
        QuotaError
            The namespace's quota has no room for it now.
        SubmissionError
            The server refuses, for good.
        ClusterError
            It does not answer, or wants to be asked again.
        """
        more = {"dry_run": "All"} if dry_run else {}
        try:
            return self._ask(
                self._api.create_namespaced_pod, self.namespace, dict(manifest), alone=True, **more
            )
        except RefusedError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:  # until somebody has logged in
                raise
            if error.reason == _TAKEN:
                raise TakenError(error.what, where=error.where) from error
            if error.status == HTTPStatus.CONFLICT or _UNCOUNTED in error.told:
                raise ClusterError(
                    f"the API server wants to be asked again: {shortened(error.told, _LONGEST)}",
                    where=error.where,
                    fix="nothing to be done for a job that waits; else submit it again",
                ) from error
            if _BEYOND_QUOTA in error.told:
                raise QuotaError(
                    error.what, where=error.where, fix=error.fix, told=error.told
                ) from error
            raise SubmissionError(error.what, where=error.where, fix=error.fix) from error

    def delete(self, pod: str, *, grace: int) -> None:
        """End a pod; nothing where it is gone. Raises as `pods`.

        Parameters
        ----------
        grace
            Seconds between SIGTERM and SIGKILL.
        """
        try:
            self._ask(
                self._api.delete_namespaced_pod, pod, self.namespace, grace_period_seconds=grace
            )
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def version_of(self, group: str) -> str | None:
        """Return the version in which the server prefers an extension; None where it has none.

        Parameters
        ----------
        group
            The extension's, as ``kubectl api-versions`` has it. Raises as `pods`.
        """
        found = self._ask(client.ApisApi(self._api.api_client).get_api_versions)
        groups = {one["name"]: one for one in found.get("groups") or ()}
        return str(groups[group]["preferredVersion"]["version"]) if group in groups else None

    def custom(self, group: str, version: str, kind: str) -> list[Answer]:
        """Return the objects of an extension in the namespace; raises as `pods`.

        Parameters
        ----------
        group, version
            As `version_of` has them.
        kind
            Their kind, in the plural.
        """
        api = client.CustomObjectsApi(self._api.api_client)
        return self._items(api.list_namespaced_custom_object, group, version, self.namespace, kind)

    def open(self, pod: str, container: str, command: Sequence[str]) -> Any:  # noqa: ANN401 - untyped
        """Begin a program in a pod; return the WebSocket of its input and output.

        Parameters
        ----------
        pod, container
            The names of the pod, and of the container that it runs in.
        command
            The program and its arguments; no shell reads them.

        Raises
        ------
        ClusterError
            It cannot be begun now.
        """
        self._refuse_silent()
        began = time.monotonic()
        try:
            try:
                return self._begin(pod, container, command)
            except ApiException as error:
                if not _is_unauthorized(error) or not self._log_in_again(began):
                    raise
                return self._begin(pod, container, command)
        except WIRE_ERRORS as error:
            if _is_unauthorized(error):
                self._login_helps = False
                raise refusal(HTTPStatus.UNAUTHORIZED, "", self.namespace) from error
            raise ClusterError(
                f"the pod's files cannot be reached: {_said(error)}",
                where=f"pod {pod}",
                fix="it is tried again; your role needs `create` of pods/exec: docs/kubernetes.md",
            ) from error

    def _begin(self, pod: str, container: str, command: Sequence[str]) -> Any:  # noqa: ANN401 - untyped
        # `stream` changes the client that it is given, so it has one of its own.
        api = client.CoreV1Api(client.ApiClient(self._configuration))
        wire = within(  # the client itself has no limit here
            _OPENS_WITHIN,
            lambda: stream(
                api.connect_get_namespaced_pod_exec, pod, self.namespace,
                container=container, command=list(command), stdin=True, stdout=True, stderr=True,
                tty=False, binary=True, _preload_content=False,
            ),
            late=lambda wire: wire.sock.shutdown(),
        )  # fmt: skip
        wire.sock.settimeout(_SENDS_WITHIN)
        with suppress(OSError):  # what is not taken within that time was lost on the way
            milliseconds = int(_SENDS_WITHIN * 1000)
            wire.sock.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        return wire

    def _items(self, method: Callable[..., Any], *words: str, **more: Any) -> list[Answer]:  # noqa: ANN401 - the API's
        items = self._ask(method, *words, **more).get("items", "")
        if not isinstance(items, list | None):
            raise self._note_silent(_NO_ANSWER)
        return items or []

    def _allowed(self, method: Callable[..., Any], *words: str, **more: str) -> list[Answer] | None:
        try:
            return self._items(method, *words, **more)
        except RefusedError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                return None
            raise

    def _ask(
        self,
        method: Callable[..., Any],
        *words: Any,  # noqa: ANN401 - the API's
        alone: bool = False,
        **more: Any,  # noqa: ANN401 - as above
    ) -> Answer:
        """Ask once, once more where the token is an old one; return the answer's JSON.

        What fails within the server fails for all, unless it is said of a question that stands
        `alone`.
        """
        self._refuse_silent()
        began = time.monotonic()
        try:
            status, data = self._once(method, *words, **more)
            # A plugin of the kubeconfig, or its owner, has a newer token.
            if status == HTTPStatus.UNAUTHORIZED and self._log_in_again(began):
                method = getattr(self._api, method.__name__, method)
                status, data = self._once(method, *words, **more)
        except (HTTPError, OSError) as error:
            raise self._note_silent(_said(error)) from error
        if status == HTTPStatus.UNAUTHORIZED:
            self._login_helps = False
        told = _read_object(data)
        if told is None:
            if status < HTTPStatus.BAD_REQUEST:  # a proxy's page, which asks for a login, say
                raise self._note_silent(_NO_ANSWER)
            told = {"message": data[:_LONGEST].decode("utf-8", "replace")}
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
            said = shortened(str(told.get("message")), _LONGEST)
            if _WEBHOOK_AWAY in said:  # of this kind of object: all else is answered
                raise ClusterError(
                    f"a webhook of the cluster has to see its pods, and does not answer: {said}",
                    where=f"namespace {self.namespace}",
                    fix="submit it again later; whoever runs the cluster sees which webhook that is"
                    " (Kueue has one)",
                )
            if alone and told.get("kind") == "Status" and status != HTTPStatus.TOO_MANY_REQUESTS:
                raise ClusterError(
                    f"the API server cannot do that now: {said}",
                    where=f"namespace {self.namespace}",
                    fix="submit it again later; whoever runs the cluster sees what that is, often a"
                    " webhook that changes pods",
                )
            raise self._note_silent(said)
        if status >= HTTPStatus.BAD_REQUEST:
            refused = refusal(status, str(told.get("message") or ""), self.namespace)
            refused.reason = str(told.get("reason") or "")
            raise refused
        return told

    def _once(self, method: Callable[..., Any], *words: Any, **more: Any) -> tuple[int, bytes]:  # noqa: ANN401 - the API's
        try:
            found = method(*words, **more, _preload_content=False, _request_timeout=PATIENCE)
        except ApiException as error:
            if not error.status:
                raise OSError(str(error.reason)) from error
            return int(error.status), str(error.body or error.reason).encode()
        return int(found.status), bytes(found.data)

    def _refuse_silent(self) -> None:
        """Raise at once what a question has just found, so that many jobs wait once."""
        with self._lock:
            if self._silent and time.monotonic() - self._silent[0] < _SILENT_FOR:
                raise self._silent[1]

    def _note_silent(self, said: str) -> ClusterError:
        error = ClusterError(
            f"the API server does not answer: {said}",
            where=str(self._configuration.host),
            fix="nothing to be done where that passes: pods that run go on, and this asks again by"
            " itself; else see what `kubectl get pods` says",
        )
        with self._lock:
            self._silent = time.monotonic(), error
        return error


def _current_context(files: Sequence[Path]) -> str | None:
    """Return the current context of the first file that has one: the official client's is the last.

    Parameters
    ----------
    files
        That are there; raises as reading them does.
    """
    told = (safe_load(path.read_text()) or {} for path in files)
    return next(filter(None, (one.get("current-context") for one in told)), None)


@contextmanager
def _said_of_plugins() -> Iterator[list[str]]:
    """Give a list of what the official client logs of a plugin that fails, and raises not."""
    words: list[str] = []
    handler = logging.Handler(logging.ERROR)

    def hear(record: logging.LogRecord) -> bool:
        if record.name == "root" and record.module == "kube_config":
            words.append(" ".join(record.getMessage().split()))
        return False

    handler.addFilter(hear)
    logging.getLogger().addHandler(handler)
    try:
        yield words
    finally:
        logging.getLogger().removeHandler(handler)


def within(
    seconds: float, call: Callable[[], T], late: Callable[[T], object] = lambda _: None
) -> T:
    """Return what a call returns that has no time limit of its own.

    Parameters
    ----------
    seconds
        How long it may take; it goes on in a thread of its own afterwards.
    call
        What is called.
    late
        Is given what came too late, to let go of it.

    Raises
    ------
    TimeoutError
        It takes longer.
    OSError
        The machine starts no more threads now.
    """
    lock, found = threading.Lock(), SimpleQueue[tuple[T | None, BaseException | None]]()
    given_up = False

    def run() -> None:
        answer: tuple[T | None, BaseException | None]
        try:
            answer = call(), None
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
            answer = None, error
        with lock:
            if not given_up:
                found.put(answer)
                return
        if answer[1] is None:  # it came, and nobody waits for it any more
            with suppress(*WIRE_ERRORS):
                late(_given(answer))

    try:
        threading.Thread(target=run, daemon=True).start()
    except RuntimeError as error:  # no more threads: that passes, as a connection that breaks
        raise OSError(str(error)) from error
    with suppress(Empty):
        return _given(found.get(timeout=seconds))
    with lock:
        given_up = True
    with suppress(Empty):  # at the last moment
        return _given(found.get_nowait())
    raise TimeoutError(f"no answer within {seconds:g} s")


def _given(answer: tuple[T | None, BaseException | None]) -> T:
    value, error = answer
    if error is not None:
        raise error
    return cast("T", value)


def _read_object(data: bytes) -> dict[str, Any] | None:
    """Return the object of JSON that an answer is; None for anything else."""
    with suppress(ValueError):
        told = json.loads(data)
        return told if isinstance(told, dict) else None
    return None


def refusal(status: int, said: str, namespace: str) -> RefusedError:
    """Return the error of what the API server refuses, with the way out.

    Parameters
    ----------
    status, said
        Of its answer.
    namespace
        The one that was asked in.
    """
    told, said = said, shortened(said, _LONGEST) or f"HTTP {status}"
    if status == HTTPStatus.UNAUTHORIZED:
        what = "the API server does not know you: the kubeconfig's token or certificate is expired"
        fix = "log in to the cluster anew, and see what `kubectl get pods` says"
    elif _NO_SUCH_NAMESPACE.search(said) or "is being terminated" in said:
        what = f"there is no namespace {namespace!r}, or it is being removed"
        fix = "name another one by kubernetes_namespace, or make it: kubectl create namespace"
    elif _BEYOND_QUOTA in told:
        what = f"the namespace's quota does not allow that: {said}"
        fix = "ask for less, or see `kubectl describe quota`"
    elif "PodSecurity" in said or "admission webhook" in said or "denied the request" in said:
        what = f"the cluster's admission refuses the pod: {said}"
        fix = "ask whoever runs the cluster which pods it takes; ours keep to `restricted`"
    elif status == HTTPStatus.FORBIDDEN:
        what = f"you may not do that: {said}"
        fix = "ask for the role that docs/kubernetes.md shows, in this namespace"
    else:
        what = f"the API server refuses: {said}"
        fix = "choose others of the job's options: `submarine job run --help` lists them"
    error = RefusedError(what, where=f"namespace {namespace}", fix=fix)
    error.status, error.told = status, told
    return error


def _is_unauthorized(error: BaseException) -> bool:
    """Return whether a WebSocket was refused since nobody is known by its token."""
    said = str(getattr(error, "reason", ""))[:40]
    return str(HTTPStatus.UNAUTHORIZED.value) in said


def _said(error: BaseException) -> str:
    """Return what a client's error says, in one line without its objects' addresses."""
    reason = str(getattr(error, "reason", None) or error)
    reason, *more = reason.split(" -+-+- ")  # of a WebSocket: the answer's headers, and its body
    if more and (told := _read_object(more[-1].encode())):
        reason += f": {told.get('message')}"
    return shortened(re.sub(r"<[^<>]*>[:,]? ?", "", reason), _LONGEST)
