"""Runs a Jupyter server as a job: the script of ``submarine notebook start`` calls `serve`.

It listens on loopback of its host alone, and lets in who has its token. It makes the token itself
and writes it into a file that only its user may read: whoever may enter the job reads it there
(`submarine_runtime.inside`). So the token is in no log, argument, or address.

It ends by itself once nobody has used it for a while, so that others get its GPUs.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import time
from importlib import import_module  # Jupyter is the job's own, as the user's script elsewhere
from math import inf
from pathlib import Path

from submarine_runtime import lean, progress_file
from submarine_runtime.saving import PLACE

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any

SERVER = "notebook.json"
"""Where the server is: ``{"version": 1, "port": 40123, "token": "…", "path": "/lab"}``."""

WARNINGS = (3600.0, 600.0)
"""Seconds before the end of a server that nobody uses, at which it says so."""

KEPT = "kept"
"""A file whose time is when somebody last asked to keep what nobody uses: that is use, too."""

_LOOK = 2.0  # seconds between two looks at who uses it; fewer where the limit is short
_SLACK = 0.5  # seconds: two clocks tell how long nobody used it
_LONGEST_PREFIX = 1000
_NEEDED = {"jupyter_server": "jupyter-server", "jupyterlab": "jupyterlab"}


# Behind Submarine's proxy a page is in a sandbox, where a browser keeps nothing for it. JupyterLab
# needs a `localStorage` to tell windows apart, and would reload for ever without one.
_STORAGE = """<script>try { window.localStorage; } catch {
for (const name of ["localStorage", "sessionStorage"]) {
const kept = new Map();
Object.defineProperty(window, name, { configurable: true, value: {
getItem: key => kept.get(String(key)) ?? null,
setItem: (key, value) => { kept.set(String(key), String(value)); },
removeItem: key => { kept.delete(String(key)); },
clear: () => kept.clear(),
key: at => [...kept.keys()][at] ?? null,
get length() { return kept.size; },
} });
} }</script>"""


class NotebookError(Exception):
    """There can be no server; the message says why, and what to do."""


def private_folder() -> Path:
    """Return the task's folder that is its user's alone.

    On YARN ``SUBMARINE_TASK_DIR`` is the folder of the logs, which pages of the node show.

    Raises
    ------
    NotebookError
        This is no job.
    """
    folder = os.environ.get(PLACE) or os.environ.get("SUBMARINE_TASK_DIR")
    if not folder:
        raise NotebookError("this is no job: `submarine notebook start` begins one")
    return Path(folder)


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Write JSON that this user alone can read; whoever sees the file sees all of it.

    Parameters
    ----------
    path
        The file; one that is there is replaced.
    content
        What is written, by name.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(lean.dumps(content))
    aside.replace(path)


def serve(
    *, idle: float = 0.0, folder: str | None = None, here: str | None = None, port: int = 0
) -> str:
    """Serve notebooks until nobody uses them any more, or the job is asked to end.

    Parameters
    ----------
    idle
        Seconds without use after which it ends; 0 for never.
    folder
        Where the notebooks are: a folder that this machine has, too. None for `here` where the job
        runs in it, else for the folder ``SUBMARINE_OUTPUT_PATH``, whose files come home.
    here
        The folder that the job was submitted from.
    port
        Where it listens; any that is free for 0.

    Returns
    -------
    str
        Why it has ended.

    Raises
    ------
    NotebookError
        Jupyter is not installed, the folder is not there, or the port is taken.
    KeyboardInterrupt
        The job was asked to end.
    """
    place = private_folder()
    _check_packages()
    root = _root(folder, here)
    _check_port(port)
    for name in [name for name in os.environ if name.startswith(("JPY_", "JUPYTER_"))]:
        if name.endswith(("_TOKEN", "_TOKEN_FILE")) or name.startswith("JPY_"):
            del os.environ[name]  # of the server that the job was submitted from
    runtime = place / ".jupyter"
    runtime.mkdir(0o700, exist_ok=True)
    os.environ["JUPYTER_RUNTIME_DIR"] = str(runtime)
    return _Server(place, root, port, idle).run()


def _check_packages() -> None:
    from importlib.util import find_spec  # noqa: PLC0415 - the first line of others waits for it

    missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise NotebookError(
            f"the job's Python ({sys.executable}) has no {' and no '.join(missing)}: install"
            f" {' '.join(missing)} into it, or start the notebook with an environment that has it"
        )


def _root(folder: str | None, here: str | None) -> Path:
    if folder is not None:
        if not Path(folder).is_dir():
            raise NotebookError(
                f"there is no folder {folder} on {socket.gethostname()}, where the job runs: name"
                " one that both machines have, or leave --dir out"
            )
        return Path(folder)
    if here is not None and Path(here).resolve() == Path.cwd().resolve():
        return Path.cwd()
    root = Path(os.environ.get("SUBMARINE_OUTPUT_PATH") or Path.cwd())
    root.mkdir(0o700, parents=True, exist_ok=True)
    return root


def _check_port(port: int) -> None:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError as error:
            raise NotebookError(
                f"port {port} of {socket.gethostname()} cannot be had ({error.strerror}): name"
                " another one, or leave --port out for any that is free"
            ) from error


class _Server:
    """The server, and what watches over its use.

    Parameters
    ----------
    place
        The folder of its file.
    root, port, idle
        As of `serve`.
    """

    def __init__(self, place: Path, root: Path, port: int, idle: float) -> None:
        self._file, self._token = place / SERVER, secrets.token_hex(32)
        self._use = IdleLimit(idle, place / KEPT)
        self._ended = ""
        self._asked_to_end = False
        handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
        self._app: Any = import_module("jupyter_server.serverapp").ServerApp.instance()
        self._app.initialize(self._settings(root, port))
        self._app.write_browser_open_files = lambda: None  # they hold the token, and none is opened
        for each, handler in handlers.items():  # Jupyter's own asks a terminal
            signal.signal(each, handler)
        signal.signal(signal.SIGTERM, self._ask_to_end)
        let_pages_lie_below(self._app.web_app.settings)

    def _settings(self, root: Path, port: int) -> list[str]:
        """Return the options that the user's own configuration cannot change.

        They are given within this process: no command line shows the token.
        """
        return [
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            "--ServerApp.sock=",
            "--ServerApp.certfile=",
            "--ServerApp.base_url=/",
            "--ServerApp.default_url=/lab",
            f"--ServerApp.root_dir={root}",
            "--ServerApp.open_browser=False",
            "--ServerApp.allow_root=True",
            "--ServerApp.allow_origin=",
            "--ServerApp.allow_remote_access=False",
            "--ServerApp.disable_check_xsrf=False",
            "--ServerApp.quit_button=False",
            "--ServerApp.shutdown_no_activity_timeout=0",
            "--ServerApp.identity_provider_class=jupyter_server.auth.identity.IdentityProvider",
            f"--IdentityProvider.token={self._token}",
        ]

    def run(self) -> str:
        """Serve to the end; return why it came."""
        app = self._app
        app.io_loop.add_callback(self._announce)  # after the port is bound, which is a callback too
        if self._use.limit:
            look = min(_LOOK, self._use.limit / 4)
            watch = import_module("tornado.ioloop").PeriodicCallback(self._check_use, look * 1000)
            app.io_loop.add_callback(watch.start)
        try:
            app.start()
        finally:
            self._file.unlink(missing_ok=True)
        if self._asked_to_end:
            raise KeyboardInterrupt("the notebook was stopped")
        return self._ended

    def _announce(self) -> None:
        port = self._app.port
        told = {"version": 1, "port": port, "token": self._token, "path": "/lab"}
        write_private(self._file, told)
        _say(f"notebooks are served at port {port}; submarine notebook open leads there")

    def _ask_to_end(self, *_: object) -> None:
        self._asked_to_end = True
        self._app.io_loop.add_callback_from_signal(self._app.stop)

    def _check_use(self) -> None:
        """See whether it is used; say that it will end, or end it."""
        app = self._app
        busy = any(
            kernel.get("execution_state") == "busy" for kernel in app.kernel_manager.list_kernels()
        )
        last = app.web_app.last_activity()
        said = self._use.note_unused(0.0 if busy else time.time() - last.timestamp())
        if said:
            _say(said)
        if said is not None:
            progress_file.say_unused(said)
        if self._use.over and not self._ended:
            self._ended = said or "it was not used"
            app.stop()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class IdleLimit:
    """For how long something was not used, and what is to be said of that.

    Parameters
    ----------
    limit
        Seconds after which it is over; 0 for never.
    kept
        The file that `KEPT` names; None for no such file.
    """

    def __init__(self, limit: float, kept: Path | None = None) -> None:
        self.limit = limit
        self._kept = kept
        self.over = False
        self._next = [each for each in WARNINGS if each < limit]
        self._said, self._left = False, limit

    def note_unused(self, unused: float) -> str | None:
        """Note that it was not used for `unused` seconds; return what to tell the user.

        Returns
        -------
        str or None
            Empty where what was said before holds no more; None where nothing is new.
        """
        if not self.limit or self.over:
            return None
        unused = min(unused, self._since_kept())
        left = self.limit - unused
        if left <= 0:
            self.over = True
            return f"nobody has used it for {words(self.limit)}: it ends, its GPUs are given back"
        if self._said and left > self._left:  # somebody has used it since
            self._said, self._next = False, [each for each in WARNINGS if each < self.limit]
            return ""
        self._left = left + _SLACK
        due = [each for each in self._next if left <= each]
        if not due:
            return None
        self._next = [each for each in self._next if each not in due]
        self._said = True
        until = time.strftime("%H:%M", time.localtime(time.time() + left))
        return (
            f"nobody has used it for {words(unused)}; it ends in {words(left)}, at {until}, unless"
            " somebody does"
        )

    def _since_kept(self) -> float:
        """Return for how many seconds nobody has asked to keep it."""
        try:
            at = self._kept.stat().st_mtime if self._kept else -inf
        except OSError:
            return inf
        return max(0.0, time.time() - at)


def words(seconds: float) -> str:
    """Return `seconds` as people say a length of time: in minutes from one on, to the nearest."""
    whole = max(0, round(seconds))
    if whole < 60:  # noqa: PLR2004 - a minute
        return f"{whole} s"
    hours, minutes = divmod((whole + 30) // 60, 60)
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min"


def let_pages_lie_below(settings: dict[str, Any]) -> None:
    """Let JupyterLab's pages find their server below the path that a proxy has for it.

    Parameters
    ----------
    settings
        Of the server's web application.
    """
    settings["page_config_hook"] = below_prefix
    # Its template takes this one from the handler; no redirection of Jupyter's comes of that class.
    page: Any = import_module("jupyterlab_server.handlers").LabHandler
    page.base_url = property(lambda page: f"{prefix_of(page)}{page.settings['base_url']}")
    render = page.render_template

    def with_storage(page: Any, name: str, **values: Any) -> str:  # noqa: ANN401 - Jupyter's
        text: str = render(page, name, **values)
        return text.replace("<head>", f"<head>{_STORAGE}", 1) if prefix_of(page) else text

    page.render_template = with_storage


def prefix_of(handler: Any) -> str:  # noqa: ANN401 - Jupyter's
    """Return the path that a proxy has for this server by `handler`'s request; empty for none."""
    import re  # noqa: PLC0415 - as Jupyter

    prefix = str(handler.request.headers.get("X-Forwarded-Prefix", ""))
    is_one = len(prefix) <= _LONGEST_PREFIX and re.fullmatch(r"(/[\w~.%@:-]+)+", prefix, re.ASCII)
    return prefix if is_one else ""


def below_prefix(handler: Any, config: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - Jupyter's
    """Return a page's configuration with its addresses below the path that a proxy has for it.

    The proxy shows the token itself, so the page needs none, and no address of it has one.

    Parameters
    ----------
    handler
        Jupyter's, of the page's request.
    config
        The page's, by name; it stays as it is.
    """
    prefix = prefix_of(handler)
    if not prefix:
        return config
    changed = {**config, "token": ""}
    for name, value in config.items():
        of_ours = isinstance(value, str) and value.startswith("/") and not value.startswith("//")
        if of_ours and name.startswith("full"):
            changed[name] = f"{prefix}{value}"
    return changed
