"""A real Zeppelin for tests: assembled from Maven's jars, on a port of its own, ended always.

``python tests/zeppelin/server.py`` fetches the jars, where a slow repository is in no test's way.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from submarine_engine.installer.java import fetch_jars, find_java
from submarine_engine.installer.sites import quick_flags
from submarine_zeppelin.install import find_zeppelin, install

HERE = Path(__file__).parent
CARETAKER = HERE / "caretaker.py"
MAIN = "org.apache.zeppelin.server.ZeppelinServer"
# REST answers some seconds before a stop would end the interpreters too.
STARTED = "Done, zeppelin server started"
PATIENCE = 180.0

LOG4J = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %5p [%t] %c{{1}}: %m%n
"""
SHIRO = """\
[users]
{users}
[main]
sessionManager = org.apache.shiro.web.session.mgt.DefaultWebSessionManager
securityManager.sessionManager = $sessionManager
[urls]
/api/version = anon
/api/login = anon
/** = authc
"""


class Server:
    """A Zeppelin with Submarine's interpreter installed; not started yet.

    Parameters
    ----------
    home
        Its folder; made unless it is there.
    site
        Properties of ``zeppelin-site.xml`` beyond those that every test needs.
    environment
        Variables for it and its interpreters, beyond those of this process.
    users
        Names and passwords; without, everybody is ``anonymous``.
    python
        That of the notes.
    """

    def __init__(
        self,
        home: Path,
        *,
        site: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.home = home
        self.python = python
        self.jobs_home = home / "submarine"
        self.java = find_java()
        self.jars = fetch_jars(self.java, pom=HERE / "pom.xml")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / "logs/zeppelin.log"
        self.pid = 0
        self._environment = {**_clean(os.environ), **(environment or {})}
        self._assemble(site or {}, users or {})
        self._caretaker = self._start_caretaker()

    def start(self) -> None:
        """Start the server, also again after its end; return when notes can be run."""
        self.log.unlink(missing_ok=True)
        self.pid = self._tell("start")
        end = time.monotonic() + PATIENCE
        while STARTED not in self.told():
            gone = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            in_time = not gone and time.monotonic() < end
            assert in_time, f"Zeppelin did not start:\n{self.told()}"
            time.sleep(0.05)

    def stop(self) -> None:
        """End the server as its admin does; its interpreters end with it."""
        self._tell("stop")

    def kill(self) -> None:
        """End it by SIGKILL; its interpreters become orphans."""
        self._tell("kill")

    def close(self) -> None:
        """End the server and everything that it has started, jobs on this machine as well."""
        if not self._caretaker.stdin.closed:
            self._caretaker.stdin.close()
            assert self._caretaker.wait(180) == 0
            self._caretaker.stdout.close()

    def told(self) -> str:
        """Return the server's own log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def interpreters(self) -> list[int]:
        """Return the pids of the interpreter processes that live, this server's alone."""
        wanted = [str(self.home / "interpreter/submarine").encode(), b"submarine_zeppelin"]
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(word in words for word in wanted):
                found.append(int(folder.name))
        return found

    def _tell(self, word: str) -> int:
        self._caretaker.stdin.write(f"{word}\n")
        self._caretaker.stdin.flush()
        return int(self._caretaker.stdout.readline())

    def _assemble(self, site: Mapping[str, str], users: Mapping[str, str]) -> None:
        for name in ("conf", "interpreter", "notebook", "logs", "local-repo"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        # There is no web UI in the jars.
        for name in ("war", "war-next"):
            shutil.copytree(HERE / "page", self.home / name, dirs_exist_ok=True)
        new_page = os.environ.get("ZEPPELIN_NEXT_PAGE") or HERE / "page-next"
        shutil.copytree(new_page, self.home / "war-next", dirs_exist_ok=True)
        if not (self.home / "lib").exists():
            (self.home / "lib").symlink_to(self.jars)
        (self.home / "conf/log4j.properties").write_text(LOG4J.format(log=self.log))
        (self.home / "conf/zeppelin-site.xml").write_text(_xml(self._site() | dict(site)))
        if users:
            told = "\n".join(f"{name} = {password}, admin" for name, password in users.items())
            (self.home / "conf/shiro.ini").write_text(SHIRO.format(users=told))
        install(find_zeppelin(self.home), self.python)

    def _site(self) -> dict[str, str]:
        return {
            "zeppelin.server.addr": "127.0.0.1",
            "zeppelin.server.port": str(self.port),
            "zeppelin.war": str(self.home / "war"),
            "zeppelin.angular.war": str(self.home / "war-next"),
            "zeppelin.run.mode": "local",
            "zeppelin.notebook.storage": "org.apache.zeppelin.notebook.repo.VFSNotebookRepo",
            "zeppelin.interpreter.group.default": "submarine",
            "zeppelin.interpreter.connect.timeout": "120000",
            "zeppelin.search.enable": "false",  # its index lies in a folder that servers share
        }

    def _start_caretaker(self) -> subprocess.Popen[str]:
        command = [
            str(self.java.program), *quick_flags(512), f"-Djava.io.tmpdir={self.home / 'logs'}",
            "-cp", f"{self.home / 'conf'}:{self.home / 'lib'}/*", MAIN,
        ]  # fmt: skip
        environment = {
            **self._environment,
            "ZEPPELIN_HOME": str(self.home),
            "ZEPPELIN_CONF_DIR": str(self.home / "conf"),
            "ZEPPELIN_LOCAL_IP": "127.0.0.1",
            "ZEPPELIN_IDENT_STRING": "test",  # else it waits for its stdin
            "SUBMARINE_HOME": str(self.jobs_home),
        }
        with (self.home / "logs/console.log").open("ab") as console:
            return subprocess.Popen(
                [sys.executable, str(CARETAKER), *command], env=environment, cwd=self.home,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=console, text=True,
                start_new_session=True,
            )  # fmt: skip


def free_port() -> int:
    """Return a port that nobody listens on, and that nobody else is given while this process lives.

    It stays bound: who wants that very port gets it all the same, by `SO_REUSEADDR`.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        held.detach()
        return port


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what is the test's own, or leads loopback elsewhere."""
    theirs = re.compile(r"SUBMARINE_|ZEPPELIN_|PYTEST_|\w+_proxy$", re.IGNORECASE)
    return {name: value for name, value in environment.items() if not theirs.match(name)}


def _xml(properties: Mapping[str, str]) -> str:
    rows = "\n".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}\n</configuration>\n'


if __name__ == "__main__":
    fetch_jars(find_java(), pom=HERE / "pom.xml", report=lambda text: sys.stderr.write(f"{text}\n"))
