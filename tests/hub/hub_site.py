"""A real JupyterHub for tests: an environment of its own, real system users, ended always.

``python -m tests.hub.hub_site`` makes the environment, where a slow registry is in no test's way.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest
import requests
import websocket
from submarine_engine.clusters.local.shared import VARIABLE

from tests.jobs import LIMIT, until
from tests.local.users import Place, needs_root, python
from tests.zeppelin.server import CARETAKER, free_port

REPOSITORY = Path(__file__).parents[2]
# Beside what docs/hub.md has: ports, and who may come in, of a test.
CONFIG = """
c.JupyterHub.bind_url = {url!r}
c.JupyterHub.hub_bind_url = {hub!r}
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie_secret"
c.ConfigurableHTTPProxy.api_url = {api!r}
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = {password!r}
c.Authenticator.allow_all = True
c.LocalAuthenticator.create_system_users = False
c.JupyterHub.allow_named_servers = True
c.Spawner.cmd = [{server!r}]
c.Spawner.args = ["--LabApp.expose_app_in_browser=True"]
c.Spawner.environment.update({environment!r})
c.Spawner.http_timeout = c.Spawner.start_timeout = 300
c.JupyterHub.services = [{{"name": "tests", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [
    {{"name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens"]}}
]
"""
LEAVES = """%%submarine --name leaves
import os
from pathlib import Path
from tensorboard.summary import Writer

print("a line")
Path(os.environ["SUBMARINE_OUTPUT_PATH"], "a b#é%2F.txt").write_text("left")
writer = Writer(os.environ["SUBMARINE_LOGDIR"])
for step in range(10):
    writer.add_scalar("loss", 1 / (step + 1), step)
writer.close()
"""
"""A cell whose job writes a line, and leaves a file and what TensorBoard shows."""


@cache
def environment() -> Path:
    """Return an environment with a JupyterHub, which is made where it is missing or too old."""
    made = Path(sys.prefix).with_name(f"{Path(sys.prefix).name}-hub")
    made.mkdir(exist_ok=True)
    with (made / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = made / ".hub"
        needs = (REPOSITORY / "constraints-hub.txt", REPOSITORY / "scripts/hub")
        if not stamp.exists() or any(stamp.stat().st_mtime < one.stat().st_mtime for one in needs):
            words = ["scripts/hub", str(made), python() or sys.executable]
            subprocess.run(words, cwd=REPOSITORY, check=True)
    return made


class Hub:
    """A JupyterHub of root's whose users are the machine's; each has a Jupyter server of their own.

    Parameters
    ----------
    folder
        Its own.
    variables
        What each user's server has in its environment beside JupyterHub's own.
    """

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        made = environment()
        self.url = f"http://127.0.0.1:{free_port()}"
        self.password, self._token = secrets.token_hex(16), secrets.token_hex(16)
        self.log = folder / "hub.log"
        config = folder / "jupyterhub_config.py"
        page = (REPOSITORY / "docs/hub.md").read_text()
        (told,) = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        config.write_text(
            told
            + CONFIG.format(
                url=self.url,
                hub=f"http://127.0.0.1:{free_port()}",
                api=f"http://127.0.0.1:{free_port()}",
                folder=folder,
                password=self.password,
                server=str(made / "bin/jupyterhub-singleuser"),
                environment=variables,
                token=self._token,
            )
        )
        config.chmod(0o600)
        command = [made / "bin/jupyterhub", "--config", config]
        with self.log.open("ab") as log:
            self._caretaker = subprocess.Popen(
                [sys.executable, str(CARETAKER), *map(str, command)],
                # The proxy runs on the environment's own Node.js.
                env={**os.environ, "PATH": f"{made / 'bin'}{os.pathsep}{os.environ['PATH']}"},
                cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True,
            )  # fmt: skip
        self._caretaker.stdin.write("start\n")
        self._caretaker.stdin.flush()
        assert int(self._caretaker.stdout.readline())
        until(self._answers)

    def _answers(self) -> bool:
        assert self._caretaker.poll() is None, self.log.read_text()
        try:
            return requests.get(f"{self.url}/hub/api/", timeout=LIMIT).ok
        except requests.ConnectionError:
            return False

    def ask(self, method: str, path: str, **options) -> requests.Response:
        """Ask the Hub's own API, as its admin's service."""
        headers = {"Authorization": f"token {self._token}"}
        url = f"{self.url}/hub/api{path}"
        answer = requests.request(method, url, headers=headers, timeout=LIMIT, **options)
        answer.raise_for_status()
        return answer

    def stranger(self, method: str, path: str, session: requests.Session | None) -> int:
        """Ask for a path of a user's server by somebody's session, or none; return the status."""
        ask = session.request if session else requests.request
        return ask(method, self.url + path, timeout=LIMIT, allow_redirects=False).status_code

    def knows(self, name: str) -> bool:
        """Return whether a user has been there."""
        users = self.ask("GET", "/users").json()
        return any(one["name"] == name for one in users)

    def person(self, name: str, server: str = "") -> Person:
        """Let a user of the machine in: a token of their own, and a server of theirs, started."""
        user = f"/users/{quote(name, safe='')}"
        if not self.knows(name):
            self.ask("POST", user)
        token = self.ask("POST", f"{user}/tokens", json={"note": "tests"}).json()["token"]
        person = Person(self, name, token, server)
        person.start()
        return person

    def close(self) -> None:
        """End the Hub, its proxy, and the servers."""
        if not self._caretaker.stdin.closed:
            self._caretaker.stdin.close()
            assert self._caretaker.wait(LIMIT) == 0
            self._caretaker.stdout.close()


class Person:
    """A user of the Hub, by a token: what a program of theirs can do."""

    def __init__(self, hub: Hub, name: str, token: str, server: str = "") -> None:
        self.hub, self.name, self.server = hub, name, server
        # As JupyterHub writes names into addresses: their own characters but for @ and ~.
        self.base = f"/user/{quote(name, safe='@~')}/" + (f"{quote(server)}/" if server else "")
        self._user = f"/users/{quote(name, safe='')}"
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"token {token}"

    def start(self) -> None:
        """Start this user's Jupyter server, and wait until it answers."""
        self.hub.ask("POST", self._user + self._place)
        until(lambda: self._servers()[self.server]["ready"])

    def stop(self) -> None:
        """Stop it."""
        self.hub.ask("DELETE", self._user + self._place)
        until(lambda: self.server not in self._servers())

    @property
    def _place(self) -> str:
        return f"/servers/{quote(self.server)}" if self.server else "/server"

    def _servers(self) -> dict:
        return self.hub.ask("GET", self._user).json()["servers"]

    def ask(self, method: str, path: str, **options) -> requests.Response:
        """Ask for a path of the Hub's address; redirections are shown, not followed."""
        options = {"allow_redirects": False, "timeout": LIMIT, **options}
        return self.session.request(method, self.hub.url + path, **options)

    def get(self, path: str, **options) -> requests.Response:
        """Get what is below this user's prefix; it has to be there."""
        answer = self.ask("GET", f"{self.base}{path}", **options)
        assert answer.ok, (path, answer.status_code, answer.text)
        return answer

    def notebook(self) -> Kernel:
        """Start a kernel, as a notebook does."""
        answer = self.ask("POST", f"{self.base}api/kernels", json={"name": "python3"})
        assert answer.status_code == requests.codes.created, answer.text
        return Kernel(self, answer.json()["id"])


class LabThere:
    """JupyterLab of a person's server, for a page that has logged in to the Hub."""

    def __init__(self, person: Person) -> None:
        self.url, self.token = f"{person.hub.url}{person.base}", ""

    def show(self, page, *, reset: bool = True) -> None:
        """Show it, as `lab_driver.Lab` does."""
        from lab_driver import wait_restored  # pytest's path has it, this module's own has not

        page.goto(f"{self.url}lab{'?reset' if reset else ''}")
        wait_restored(page)


class Kernel:
    """A kernel of a user's server, by its WebSocket through the Hub's proxy."""

    def __init__(self, person: Person, kernel: str) -> None:
        path = f"{person.base}api/kernels/{kernel}/channels"
        token = person.session.headers["Authorization"]
        self._socket = websocket.create_connection(
            f"{person.hub.url.replace('http', 'ws', 1)}{path}",
            header=[f"Authorization: {token}"],
            timeout=LIMIT,
        )

    def send(self, code: str) -> str:
        """Send a cell; return its id."""
        sent = secrets.token_hex(8)
        header = {"msg_id": sent, "msg_type": "execute_request", "session": "tests",
                  "username": "", "version": "5.3", "date": "2026-01-01T00:00:00Z"}  # fmt: skip
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {},
                   "allow_stdin": False, "stop_on_error": True}  # fmt: skip
        told = {"header": header, "parent_header": {}, "metadata": {}, "content": content,
                "channel": "shell", "buffers": []}  # fmt: skip
        self._socket.send(json.dumps(told))
        return sent

    def shown(self, sent: str):
        """Yield each text and MIME bundle that a cell shows, until the kernel is idle again."""
        while True:
            told = json.loads(self._socket.recv())
            if told["parent_header"].get("msg_id") != sent or told["channel"] != "iopub":
                continue
            kind, content = told["msg_type"], told["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return
            if kind == "stream":
                yield {"text/plain": content["text"]}
            elif kind == "error":
                raise AssertionError("\n".join(content["traceback"]))
            elif "data" in content:
                yield content["data"]

    def run(self, code: str) -> list[dict]:
        """Run a cell to its end; return what it has shown."""
        return list(self.shown(self.send(code)))

    def text(self, code: str) -> str:
        """Likewise, as text."""
        return "\n".join(str(one.get("text/plain", "")) for one in self.run(code))

    def close(self) -> None:
        """Leave it; it ends with its server."""
        self._socket.close()


def job_of(person: Person, name: str) -> str:
    """Return the id of a person's newest job of that name."""
    jobs = person.get("submarine/api/jobs").json()["jobs"]
    return next(one["id"] for one in jobs if one["name"] == name)


@pytest.fixture(scope="module")
def place():
    needs_root()
    made = environment()
    told = subprocess.run(
        [made / "bin/python", "-c", "import submarine_engine"],
        user=65534, group=65534, extra_groups=[], cwd="/", check=False,
    )  # fmt: skip
    if told.returncode:
        pytest.skip("no other user may read this checkout")
    place = Place().begin()
    try:
        yield place
    finally:
        place.end()


@pytest.fixture(scope="module")
def hub(place, tmp_path_factory):
    """Give a Hub whose users share two GPUs."""
    variables = {"SUBMARINE_LOCAL_GPUS": "2", "SUBMARINE_GRACE": "5", VARIABLE: str(place.machine)}
    hub = Hub(tmp_path_factory.mktemp("hub"), variables)
    try:
        yield hub
    finally:
        hub.close()


@pytest.fixture(scope="module")
def alice(hub, place):
    return hub.person(place.user("alice").name)


@pytest.fixture(scope="module")
def bob(hub, place):
    return hub.person(place.user("bob").name)


@pytest.fixture
def alices(alice):
    kernel = alice.notebook()
    kernel.run("%load_ext submarine_magics")
    yield kernel
    kernel.close()


if __name__ == "__main__" and os.geteuid() == 0:  # its tests need root
    environment()
