"""A real Airflow for tests: an environment of its own, SQLite, DAGs of one folder, ended always.

``python -m tests.flows.airflow_site`` makes the environments, where a slow registry is in no test's
way.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.zeppelin.server import CARETAKER, free_port

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 600.0

PAGE = '"$0" api-server --host 127.0.0.1 --port "$1" --workers 1'
# Airflow 3 has its tasks talk to the API server, so there is one; Airflow 2 needs the scheduler.
SERVICES = {
    "2": 'exec "$0" scheduler --skip-serve-logs',
    "3": f'{PAGE} & "$0" dag-processor & "$0" scheduler --skip-serve-logs & wait',
}


def program(major: str) -> Path:
    """Return the command of an Airflow, in an environment that is made where it is missing."""
    environment = Path(sys.prefix).with_name(f"{Path(sys.prefix).name}-airflow-{major}")
    environment.mkdir(exist_ok=True)
    with (environment / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (environment / ".airflow").exists():
            words = ["scripts/airflow", str(environment), sys.executable, major]
            subprocess.run(words, cwd=REPOSITORY, check=True)
    return environment / "bin/airflow"


class Airflow:
    """An Airflow with a data base of its own.

    Parameters
    ----------
    home
        Its folder.
    dags
        The folder of its DAGs.
    major
        ``2`` or ``3``.
    """

    def __init__(self, home: Path, dags: Path, major: str) -> None:
        self.home = home
        self.major = major
        self.program = program(major)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / "services.log"
        self._services: subprocess.Popen[str] | None = None
        old = major == "2"
        self.environment = {
            **os.environ,
            # Airflow 2 starts its tasks by the command's bare name.
            "PATH": f"{os.environ['PATH']}{os.pathsep}{self.program.parent}",
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
            # Of SQLite, Airflow 2 writes from one process alone.
            "AIRFLOW__CORE__EXECUTOR": "SequentialExecutor" if old else "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            # A worker that says nothing for so long is taken for lost; minutes unless told. They
            # say something every five.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        home.mkdir(parents=True, exist_ok=True)
        self.run("db", "migrate")

    def run(self, *words: str, code: int = 0) -> str:
        """Run an ``airflow`` command that ends with this exit code; return what it tells."""
        done = subprocess.run(
            [self.program, *words],
            env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    def start(self, services: str = "") -> None:
        """Start what schedules and runs; a caretaker ends it, and jobs, however the test ends."""
        services = services or SERVICES[self.major]
        shell = ["sh", "-c", services, str(self.program), str(self.port)]
        with self.log.open("ab") as log:
            self._services = subprocess.Popen(
                [sys.executable, str(CARETAKER), *shell],
                env=self.environment, cwd=self.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        self._services.stdin.write("start\n")
        self._services.stdin.flush()
        assert int(self._services.stdout.readline())
        if "api-server" in services:  # a task that is begun before it listens fails
            self.until(self.serves)

    def close(self) -> None:
        """End all of it."""
        if self._services is not None and not self._services.stdin.closed:
            self._services.stdin.close()
            self._services.wait(PATIENCE)
            self._services.stdout.close()

    def serves(self) -> bool:
        """Return whether its page can be read; Airflow 3 alone serves one here."""
        try:
            with urlopen(f"{self.url}/api/v2/monitor/health", timeout=10) as answer:  # noqa: S310
                return answer.status == HTTPStatus.OK
        except OSError:
            return False

    def last_run(self, dag: str) -> str:
        """Return the id of a DAG's last run."""
        query = "select run_id from dag_run where dag_id = ? order by id desc limit 1"
        ((found,),) = self._read(query, dag)
        return str(found)

    def tasks(self, dag: str) -> dict[str, tuple[str | None, int]]:
        """Return the state of each task of a DAG's last run, and its number of tries."""
        query = "select task_id, state, try_number from task_instance where run_id = ?"
        rows = self._read(query, self.last_run(dag))
        return {task: (state, tries) for task, state, tries in rows}

    def _read(self, query: str, value: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.home}/airflow.db?mode=ro", uri=True)) as data:
            return data.execute(query, (value,)).fetchall()

    def logs(self, task: str, attempt: int) -> str:
        """Return what a try of a task has in Airflow's log, a line a message."""
        found = list(self.home.glob(f"logs/dag_id=*/run_id=*/task_id={task}/attempt={attempt}.log"))
        text = found[0].read_text() if found else ""
        if self.major == "2":
            return text
        return "\n".join(str(json.loads(line).get("event")) for line in text.splitlines())

    def until(self, true: Callable[[], object]) -> None:
        """Wait for something; tell what Airflow has said if it does not come."""
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, self.log.read_text()[-20000:]
            time.sleep(0.2)


if __name__ == "__main__":
    for each in SERVICES:
        program(each)
