"""Azkaban over HTTP: log in, upload, schedule, execute, follow, cancel.

Its pages' own protocol (``/``, ``/manager``, ``/executor``, ``/schedule``), which has no other
form. Everything is a POST, so the session's id stands in a body and in no URL, which servers log;
without a cookie Azkaban asks for no XSRF token either. Only the download of a project is a GET: its
session goes as the cookie.
"""

from __future__ import annotations

import html
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

import requests

from submarine_engine.errors import ClusterError, ConfigError, SubmissionError
from submarine_engine.history import make_private, read_json, write_json

PATIENCE = (5.0, 60.0)
"""Seconds to connect, and to wait for the next bytes of an answer."""

EVERY = 0.5
"""Seconds between two looks at an execution: what it costs the server is two small queries."""

_SILENT = 900.0  # seconds: a web server of Azkaban that is started anew is back within minutes

REQUEST = "submarine.request"
"""The flow parameter by which an execution that was asked for is found again."""

ENDED = frozenset(("SUCCEEDED", "FAILED", "KILLED", "EXECUTION_STOPPED"))
"""States in which an execution stays."""

_NEVER_RAN = frozenset(("CANCELLED", "SKIPPED", "DISABLED"))
_UPLOAD = (5.0, 600.0)  # Azkaban answers when it has unpacked and checked the zip
_CHUNK = 50_000
_LARGEST = 256 << 20
# The log of a job that has just ended is on its way from executor to data base: HTTP 500 meanwhile.
_MOVING = (0.2, 0.5, 1.0, 2.0)
_LOGGED_OUT = ("session", "Invalid Session. Need to re-login", "Login error. Need username")
_SESSION_COOKIE = "azkaban.browser.session.id"
_PROJECT = re.compile(r"[a-zA-Z][a-zA-Z_0-9|-]{0,63}")
_TAG = re.compile(r"<[^<>]{0,200}>")
_NUMBERED = re.compile(r"((?:&#[0-9]{1,7};)+)")


@dataclass(frozen=True, slots=True)
class Login:
    """Who one is at which Azkaban.

    Parameters
    ----------
    url
        Its address, ``https://azkaban.example.com:8443``.
    user
        The name.
    session
        The session's id, a secret; empty before the first login.
    """

    url: str
    user: str
    session: str = field(default="", repr=False)


class LoginFile:
    """The login that stays from command to command, for its owner alone; a password is never kept.

    Parameters
    ----------
    home
        The home of the jobs.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / "azkaban" / "login.json"

    def read(self) -> Login | None:
        """Return the login; None where there is none that can be read."""
        try:
            data = read_json(self.path)
            if data is None:
                return None
            return Login(str(data["url"]), str(data["user"]), str(data["session"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, login: Login) -> None:
        """Keep `login`, with mode 0600."""
        make_private(self.path.parent)
        write_json(self.path, {"url": login.url, "user": login.user, "session": login.session})


def check_url(url: str) -> str:
    """Return `url`, the address of an Azkaban, without the slashes that it ends in.

    Raises
    ------
    ConfigError
        It is none, or holds a user, a password or a query.
    """
    fix = "write it like https://azkaban.example.com:8443"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError("this is no address", where="Azkaban's address", fix=fix) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(f"{url!r:.120} is no address", where="Azkaban's address", fix=fix)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            "it holds a user, a password or a query", where="Azkaban's address", fix=fix
        )
    return url.rstrip("/")


def check_project(name: str) -> str:
    """Return `name`, which names a project.

    Raises
    ------
    ConfigError
        Azkaban takes no such name.
    """
    if not _PROJECT.fullmatch(name):
        raise ConfigError(
            f"{name!r:.80} cannot name a project: Azkaban takes letters, digits, - and _,"
            " a letter first",
            where="--project",
            fix="give another one: --project NAME",
        )
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A node of an execution: its name, Azkaban's word for its state, and the number of the try."""

    name: str
    state: str
    attempt: int = 0
    started: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of a flow at Azkaban, as it is now.

    Parameters
    ----------
    id
        Azkaban's number.
    project, flow
        What runs.
    state
        Azkaban's word: ``PREPARING``, ``RUNNING``, ``SUCCEEDED``, ``FAILED``, ``KILLED`` …
    steps
        Its nodes, in the order in which they were begun; those not begun last.
    """

    id: int
    project: str
    flow: str
    state: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionEvent:
    """What following an execution yields: a line of a node's log, or a new state of it.

    Parameters
    ----------
    node
        The node; empty for the execution itself.
    text
        The line, or the state's word.
    is_state
        Which of both.
    """

    node: str
    text: str
    is_state: bool = False


class Azkaban:
    """An Azkaban, as one of its users.

    Parameters
    ----------
    login
        Where, as whom, and in which session.
    password
        Gives the password where a session is to be opened; None where there is nobody to ask.
    renewed
        Is told of each new session.
    folder
        Where what was asked for and not answered yet is noted; None to note nothing.
    """

    def __init__(
        self,
        login: Login,
        password: Callable[[], str | None],
        *,
        renewed: Callable[[Login], None] = lambda _: None,
        folder: Path | None = None,
    ) -> None:
        self.login = Login(check_url(login.url), login.user, login.session)
        self._password = password
        self._renewed = renewed
        self._folder = folder
        self._http = requests.Session()
        self._http.headers["X-Requested-With"] = "XMLHttpRequest"

    def __repr__(self) -> str:
        return f"<Azkaban {self.login.url} as {self.login.user}>"

    def log_in(self) -> Login:
        """Open a session.

        Raises
        ------
        ConfigError
            There is no password, or it is wrong.
        ClusterError
            Nothing answers there, or it is no Azkaban.
        """
        password = self._password()
        if not password:
            raise ConfigError(
                f"no session of {self.login.user} is open, and there is no password to open one",
                where=self.login.url,
                fix="submarine azkaban login; without a terminal, set AZKABAN_PASSWORD_FILE",
            )
        words = {"action": "login", "username": self.login.user, "password": password}
        answer = _json(self._send("/", words))
        if "error" in answer:
            raise ConfigError(
                f"Azkaban does not let {self.login.user!r} in: {plain(answer['error'])}",
                where=self.login.url,
                fix="look at user and password: submarine azkaban login URL --user NAME",
            )
        if not isinstance(answer.get("session.id"), str):
            raise self._nonsense("an answer to the login without a session")
        self.login = Login(self.login.url, self.login.user, answer["session.id"])
        self._renewed(self.login)
        return self.login

    def flows(self, project: str) -> list[str] | None:
        """Return the names of the flows of `project`; None where there is no such project.

        Raises
        ------
        SubmissionError
            It is somebody else's, and closed.
        """
        answer = self._ask("/manager", {"ajax": "fetchprojectflows", "project": project})
        error = plain(answer.get("error", ""))
        if "doesn't exist" in error:
            return None
        self._refused(error, f"project {project}", "choose another one: --project NAME")
        return [str(one["flowId"]) for one in answer.get("flows", ())]

    def upload(
        self, project: str, archive: bytes, *, flow: str, description: str, replace: bool = False
    ) -> str:
        """Put a zip into a project, which is made where there is none; return its version.

        Parameters
        ----------
        project
            The project's name.
        archive
            The zip.
        flow
            The flow that it holds.
        description
            What a new project is said to be.
        replace
            Whether flows of the project that the zip does not hold may go.

        Raises
        ------
        SubmissionError
            The project is somebody else's or holds other flows, Azkaban refuses the zip, or is too
            old for it.
        """
        check_project(project)
        there = self.flows(project)
        if there is None:
            made = {"action": "create", "name": project, "description": description}
            answer = self._ask("/manager", made)
            if answer.get("status") != "success":
                error = plain(answer.get("message") or answer.get("error", "it does not say why"))
                self._refused(error, f"project {project}", "choose another one: --project NAME")
        elif (others := sorted(set(there) - {flow})) and not replace:
            raise SubmissionError(
                f"the project holds {', '.join(others)[:200]} too, which this zip would remove",
                where=f"project {project}",
                fix="choose another one by --project NAME, or say --replace",
            )
        file = {"file": (f"{flow}.zip", archive, "application/zip")}
        words = {"ajax": "upload", "project": project}
        answer = self._ask("/manager", words, files=file, patience=_UPLOAD)
        self._refused(
            plain(answer.get("error", "")),
            f"project {project}",
            "where the project is somebody else's, choose another: --project NAME;"
            " else mend what it names",
        )
        if flow not in (self.flows(project) or ()):
            raise SubmissionError(
                f"Azkaban took the zip and finds no flow {flow!r} in it: it is too old for 2.0",
                where=self.login.url,
                fix="build it for the older one by `submarine flow build … --to azkaban-1.0`, and"
                " upload the zip that this writes",
            )
        return str(answer.get("version", ""))

    def download(self, project: str) -> bytes:
        """Return the zip of the newest version of `project`.

        Raises
        ------
        SubmissionError
            There is no such project, or it is somebody else's.
        """
        if self.flows(project) is None:  # opens a session where none is open, too
            raise self._no_project(project)
        answer = self._send(
            "/manager", {"project": project, "download": "true"}, method="GET", stream=True
        )
        with answer:
            if answer.headers.get("Content-Type", "") != "application/zip":
                raise SubmissionError(
                    "Azkaban does not hand out its zip",
                    where=f"project {project}",
                    fix="ask its owner for READ access",
                )
            found = bytearray()
            for chunk in answer.iter_content(1 << 20):
                found += chunk
                if len(found) > _LARGEST:
                    raise ClusterError(
                        f"the zip is larger than {_LARGEST >> 20} MiB", where=f"project {project}"
                    )
        return bytes(found)

    def schedule(
        self,
        project: str,
        flow: str,
        cron: str,
        parameters: Mapping[str, str] = MappingProxyType({}),
        *,
        mail: str = "",
    ) -> None:
        """Schedule a flow, in place of a schedule that it has.

        Parameters
        ----------
        project, flow
            The project's name, and that of its flow.
        cron
            A line as Quartz has it: see `azkaban.quartz`.
        parameters
            Flow parameters of each scheduled run, by name.
        mail
            Who is told of a failure, parted by commas.
        """
        words = {"ajax": "scheduleCronFlow", "projectName": project, "flow": flow}
        words |= {"cronExpression": cron, **_options(parameters, mail)}
        answer = self._ask("/schedule", words)
        if answer.get("status") != "success":
            error = plain(answer.get("message") or answer.get("error", "it does not say why"))
            self._refused(error, f"flow {flow} of {project}", "see the schedule")

    def scheduled(self, project: str, flow: str) -> tuple[int, str] | None:
        """Return number and cron line of the schedule of `flow` in `project`; None for none."""
        answer = self._ask("/manager", {"ajax": "fetchprojectflows", "project": project})
        if "projectId" not in answer:
            raise self._no_project(project)
        words = {"ajax": "fetchSchedule", "projectId": answer["projectId"], "flowId": flow}
        found = self._ask("/schedule", words).get("schedule")
        return found and (int(found["scheduleId"]), str(found.get("cronExpression")))

    def unschedule(self, project: str, flow: str) -> bool:
        """Take `flow` of `project` off the schedule; return whether it was on it."""
        found = self.scheduled(project, flow)
        if found is None:
            return False
        answer = self._ask("/schedule", {"action": "removeSched", "scheduleId": found[0]})
        if answer.get("status") != "success":
            self._refused(plain(answer.get("message", "")), f"flow {flow}", "ask the owner")
        return True

    def execute(
        self, project: str, flow: str, parameters: Mapping[str, str], *, mail: str = ""
    ) -> tuple[int, bool]:
        """Run a flow now; return the execution's number, and whether it was asked for before.

        What is asked for is noted first. Where a process was killed, or the connection broke,
        before Azkaban's answer came, the next call finds the execution, and does not ask anew.

        Parameters
        ----------
        project, flow
            The project's name, and that of its flow.
        parameters
            Flow parameters, by name.
        mail
            Who is told of a failure, parted by commas.

        Raises
        ------
        SubmissionError
            Azkaban refuses it.
        ClusterError
            It gave no answer, and no such execution is to be seen there yet.
        """
        for request in self._open_requests(project, flow):
            found = self._asked_for(project, flow, request, running=True)
            if found is not None:
                self._close_request(request)
                return found, True
            self._close_request(request)
        request = os.urandom(8).hex()
        self._note_request(request, project, flow)
        words = {"ajax": "executeFlow", "project": project, "flow": flow}
        words |= _options({**parameters, REQUEST: request}, mail)
        try:
            answer = self._ask("/executor", words)
        except ClusterError:
            found = self._asked_for(project, flow, request)
            if found is None:
                raise
            self._close_request(request)
            return found, True
        self._close_request(request)
        error = plain(answer.get("error", ""))
        self._refused(error, f"flow {flow} of {project}", "see the project on Azkaban's page")
        if not isinstance(answer.get("execid"), int):
            raise self._nonsense("no execution's number")
        return answer["execid"], False

    def execution(self, number: int) -> Execution:
        """Return the execution of that `number` as it is now.

        Raises
        ------
        SubmissionError
            There is none of that number, or it is somebody else's.
        """
        answer = self._ask("/executor", {"ajax": "fetchexecflow", "execid": number})
        self._refused(plain(answer.get("error", "")), f"execution {number}", _SEE)
        try:
            steps = tuple(map(_step, answer.get("nodes", ())))
            return Execution(
                id=number,
                project=str(answer["project"]),
                flow=str(answer["flow"]),
                state=str(answer["status"]),
                steps=tuple(sorted(steps, key=lambda one: one.started or float("inf"))),
            )
        except (KeyError, TypeError, ValueError):
            raise self._nonsense("an execution without a state") from None

    def cancel(self, number: int) -> bool:
        """Ask the execution of that `number` to end; return whether it was running."""
        answer = self._ask("/executor", {"ajax": "cancelFlow", "execid": number})
        error = plain(answer.get("error", ""))
        if "isn't running" in error or "is not running" in error:
            return False
        self._refused(error, f"execution {number}", _SEE)
        return True

    def log(self, number: int, node: str, offset: int, attempt: int) -> tuple[str, int]:
        """Return more of a node's log, as its job wrote it, and where it goes on.

        Parameters
        ----------
        number
            The execution's.
        node
            The node's name.
        offset
            The byte to begin at.
        attempt
            Which try, from 0.
        """
        words = {"ajax": "fetchExecJobLogs", "execid": number, "jobId": node, "attempt": attempt}
        words |= {"offset": offset, "length": _CHUNK}
        for pause in (*_MOVING, None):
            answer = self._ask("/executor", words, lenient=pause is not None)
            if answer:
                break
            time.sleep(pause or 0)
        self._refused(plain(answer.get("error", "")), f"the log of {node}", _SEE)
        return unescaped(str(answer.get("data", ""))), offset + int(answer.get("length", 0))

    def follow(
        self, number: int, *, wait: Callable[[float], None] = time.sleep
    ) -> Iterator[ExecutionEvent | Execution]:
        """Yield what an execution's nodes write and become; last the execution itself, ended.

        Parameters
        ----------
        number
            The execution's.
        wait
            How to wait between two looks, for so many seconds.

        Raises
        ------
        SubmissionError
            As `execution`.
        ClusterError
            Azkaban does not answer, or has stopped to for a quarter of an hour.
        """
        logs: dict[str, _Log] = {}
        heard: float | None = None
        while True:
            try:
                now = self.execution(number)
                heard = heard or time.monotonic()
                yield from self._news(now, logs)
                heard = time.monotonic()
            except ClusterError:  # it may be started anew: the execution goes on meanwhile
                if heard is None or time.monotonic() - heard > _SILENT:
                    raise
            else:
                if now.state in ENDED:
                    yield now
                    return
            wait(EVERY)

    def _news(self, now: Execution, logs: dict[str, _Log]) -> Iterator[ExecutionEvent]:
        """Yield what is new of the nodes of an execution."""
        for step in now.steps:
            if step.started is not None or step.state in _NEVER_RAN:
                log = logs.setdefault(step.name, _Log(self, now.id, step.name))
                yield from log.more(step, over=now.state in ENDED)

    def _ask(
        self,
        path: str,
        words: Mapping[str, object],
        *,
        files: Mapping[str, tuple[str, bytes, str]] | None = None,
        patience: tuple[float, float] = PATIENCE,
        lenient: bool = False,
    ) -> dict[str, Any]:
        """Return Azkaban's answer, in a session that is opened anew once where it has expired.

        Parameters
        ----------
        lenient
            Whether an answer that is no JSON is an empty one.
        """
        renewed = not self.login.session
        if renewed:
            self.log_in()
        while True:
            asked = {**words, "session.id": self.login.session}
            answer = self._send(path, asked, files=files, patience=patience)
            if not _logged_out(answer):
                return _json(answer, lenient=lenient)
            if renewed:
                raise ConfigError(
                    "Azkaban ends the session at once",
                    where=self.login.url,
                    fix="ask its owner how many sessions one user may have",
                )
            renewed = True
            self.log_in()

    def _send(  # noqa: PLR0913 - as requests has it
        self,
        path: str,
        words: Mapping[str, object],
        *,
        files: Mapping[str, tuple[str, bytes, str]] | None = None,
        patience: tuple[float, float] = PATIENCE,
        method: str = "POST",
        stream: bool = False,
    ) -> requests.Response:
        self._http.cookies.clear()  # of a login: with it, an XSRF token would be asked for
        get = method == "GET"
        try:
            answer = self._http.request(
                method,
                self.login.url + path,
                params=cast("dict[str, str]", dict(words)) if get else None,
                data=None if get else dict(words),
                files=files,
                cookies={_SESSION_COOKIE: self.login.session} if get else None,
                timeout=patience,
                allow_redirects=False,  # a session is for this server alone
                stream=stream,
            )
        except requests.RequestException as error:
            raise ClusterError(
                f"Azkaban does not answer: {_why(error)}",
                where=self.login.url,
                fix="see whether it runs, and whether the address is right",
            ) from None
        if answer.is_redirect and not get:
            raise ClusterError(
                f"it leads on to {answer.headers['Location']!r:.200}",
                where=self.login.url,
                fix="log in at the address that it leads to",
            )
        return answer

    def _refused(self, error: str, where: str, fix: str) -> None:
        if error:
            raise SubmissionError(f"Azkaban refuses: {error[:2000]}", where=where, fix=fix)

    def _no_project(self, project: str) -> SubmissionError:
        return SubmissionError(
            f"there is no project {project!r:.80}",
            where=self.login.url,
            fix="upload one: submarine azkaban upload FOLDER",
        )

    def _nonsense(self, what: str) -> ClusterError:
        return ClusterError(
            f"it gives {what}", where=self.login.url, fix="see whether this is Azkaban's address"
        )

    def _note_request(self, request: str, project: str, flow: str) -> None:
        if self._folder is not None:
            make_private(self._folder)
            said = {"url": self.login.url, "user": self.login.user, "project": project}
            write_json(self._folder / f"{request}.json", {**said, "flow": flow})

    def _close_request(self, request: str) -> None:
        if self._folder is not None:
            (self._folder / f"{request}.json").unlink(missing_ok=True)

    def _open_requests(self, project: str, flow: str) -> list[str]:
        """Return what was asked for here and has no answer on record, of this user and flow."""
        if self._folder is None or not self._folder.is_dir():
            return []
        same = {"url": self.login.url, "user": self.login.user, "project": project, "flow": flow}
        return [path.stem for path in sorted(self._folder.glob("*.json")) if _holds(path, same)]

    def _asked_for(
        self, project: str, flow: str, request: str, *, running: bool = False
    ) -> int | None:
        """Return the execution that a request has led to; None where there is none."""
        words = {"ajax": "fetchFlowExecutions", "project": project, "flow": flow}
        newest = self._ask("/manager", {**words, "start": 0, "length": 20}).get("executions", ())
        for one in newest:
            if running and one.get("status") in ENDED:
                continue
            info = self._ask("/executor", {"ajax": "flowInfo", "execid": one["execId"]})
            if (info.get("flowParam") or {}).get(REQUEST) == request:
                return int(one["execId"])
        return None


_SEE = "see what runs on Azkaban's page, Executing"


class _Log:
    """Follows one node's log through its tries; gives what the node's command has written.

    Azkaban writes before and after it what it does itself, a line each with date, node and level.
    """

    _LINE = re.compile(r"\d\d-\d\d-\d{4} \d\d:\d\d:\d\d \S+ (?P<node>\S+) (?P<level>[A-Z]+) - ")

    def __init__(self, azkaban: Azkaban, number: int, node: str) -> None:
        self._azkaban, self._number, self._node = azkaban, number, node
        self._attempt = self._offset = 0
        self._state, self._rest, self._shown = "", "", False

    def more(self, step: Step, *, over: bool) -> Iterator[ExecutionEvent]:
        """Yield what is new of a node."""
        if step.state not in _NEVER_RAN:  # else there is no log
            yield from self._tried(step, over=over)
        if step.state != self._state:
            self._state = step.state
            yield ExecutionEvent(node=self._node, text=step.state.lower(), is_state=True)

    def _tried(self, step: Step, *, over: bool) -> Iterator[ExecutionEvent]:
        while self._attempt < step.attempt:
            yield from self._lines(last=True)
            yield ExecutionEvent(
                node=self._node, text=f"failed, try {self._attempt + 2} follows", is_state=True
            )
            self._attempt, self._offset, self._rest, self._shown = self._attempt + 1, 0, "", False
        yield from self._lines(last=over)
        if step.state != self._state and step.ended is not None:
            yield from self._lines(last=True)

    def _lines(self, *, last: bool) -> Iterator[ExecutionEvent]:
        while True:
            text, offset = self._azkaban.log(self._number, self._node, self._offset, self._attempt)
            if offset == self._offset:
                break
            self._offset = offset
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                yield from self._shown_of(line)
        if last and self._rest:
            yield from self._shown_of(self._rest)
            self._rest = ""

    def _shown_of(self, line: str) -> Iterator[ExecutionEvent]:
        found = self._LINE.match(line)
        ours = found is not None and found["node"] == self._node
        text = line[found.end() :] if found and ours else line
        if ours and text.startswith("Process with id "):
            self._shown = False
        elif self._shown or (found and ours and found["level"] in ("ERROR", "FATAL")):
            yield ExecutionEvent(node=self._node, text=text)
        if ours and text.startswith("Spawned process with id "):
            self._shown = True


def unescaped(text: str) -> str:
    """Return text that Azkaban has escaped for HTML as it was.

    It writes each UTF-16 unit beyond ASCII by name or number, so a character beyond the first
    65,536 comes as two numbers.

    Parameters
    ----------
    text
        As its log has it.
    """

    def together(found: re.Match[str]) -> str:
        units = [int(one) for one in re.findall("[0-9]+", found[0])]
        if max(units) > 0xFFFF:  # noqa: PLR2004 - one unit
            return found[0]
        raw = b"".join(unit.to_bytes(2, "big") for unit in units)
        return raw.decode("utf-16-be", "replace").replace("&", "&amp;")

    return html.unescape(_NUMBERED.sub(together, text))


def plain(message: object) -> str:
    """Return `message`, of Azkaban's, without its HTML, on one line."""
    return " ".join(html.unescape(_TAG.sub(" ", str(message))).split())


def _options(parameters: Mapping[str, str], mail: str) -> dict[str, str]:
    """Return the fields of a flow's options, for an execution or a schedule."""
    found = {f"flowOverride[{name}]": text for name, text in parameters.items()}
    # By Azkaban's default a failure cancels nodes that are to run whatever comes before them.
    found |= {"failureAction": "finishPossible", "failureActionOverride": "true"}
    if mail:
        found |= {"failureEmails": mail, "failureEmailsOverride": "true"}
        found["notifyFailureFirst"] = "true"
    return found


def _step(data: Mapping[str, Any]) -> Step:
    started, ended = (
        None if not isinstance(data.get(key), int) or data[key] <= 0 else data[key] / 1000
        for key in ("startTime", "endTime")
    )
    attempt = int(data.get("attempt", 0))
    past = data.get("pastAttempts")
    if started is None and past:  # it waits for its next try: what there is to read is the former
        attempt = int(past[-1]["attempt"])
        started = past[-1]["startTime"] / 1000
    return Step(
        name=str(data["id"]),
        state=str(data["status"]),
        attempt=attempt,
        started=started,
        ended=ended,
    )


def _holds(path: Path, same: Mapping[str, str]) -> bool:
    try:
        return read_json(path) == same
    except (OSError, ValueError):
        return False


def _json(answer: requests.Response, *, lenient: bool = False) -> dict[str, Any]:
    """Return an answer that is a JSON object, whatever its status: errors come as HTTP 500 too."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    if lenient and answer.status_code >= 500:  # noqa: PLR2004 - the server's own faults
        return {}
    raise ClusterError(
        f"no answer of Azkaban's: HTTP {answer.status_code} {plain(answer.text[:300])!r:.200}",
        where=answer.url,
        fix="see whether this is Azkaban's address, and its log",
    )


def _logged_out(answer: requests.Response) -> bool:
    try:
        found = answer.json()
    except ValueError:
        return answer.text.startswith(_LOGGED_OUT[2])
    said = (found.get("error"), found.get("message")) if isinstance(found, dict) else ()
    return any(one in _LOGGED_OUT for one in said)


def _why(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted here (REQUESTS_CA_BUNDLE names those that are)"
    if isinstance(error, requests.Timeout):
        return "no word within the time"
    return "nobody listens there, or the connection broke"
