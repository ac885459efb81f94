"""What a node of a flow takes in a scheduler, beside the same job without one.

Azkaban is the server of AZKABAN_URL where that is set (with AZKABAN_USER and AZKABAN_PASSWORD),
else the double of the tests, and the figure says which. Airflow runs in its tests' environment.
"""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.peers import own_home
from bench.table import Figure, in_turn
from tests.flows.airflow_site import Airflow
from tests.flows.azkaban_double import azkaban_double

_ROUNDS = 5
_CELL = "print(sum(range(10)))"
_MAIN = (sys.executable, "-m", "submarine_engine.cli")
_NAME = "bench-node"
_TARGET = "≤ 1 s more"


def _flow(folder: Path, to: str) -> Path:
    """Build a flow of one node; return its folder."""
    cell = {
        "cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None,
        "source": f"%%submarine --gpus 0 --name node\n{_CELL}",
    }  # fmt: skip
    notebook = folder / f"{_NAME}.ipynb"
    data = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    notebook.write_text(json.dumps(data))
    flow = folder / to
    _command("flow", "build", str(notebook), "--to", to, "--output", str(flow))
    return flow


def _command(*words: str) -> str:
    """Run a command of ours; return what it prints."""
    done = subprocess.run([*_MAIN, *words], check=True, capture_output=True, text=True)
    return done.stdout


def _alone(folder: Path) -> float:
    """Return the seconds of the same job by `submarine job run`, with the command's own start."""
    script = folder / "node.py"
    script.write_text(f"{_CELL}\n")
    began = time.perf_counter()
    _command("job", "run", "--gpus", "0", str(script))
    return time.perf_counter() - began


@contextmanager
def _azkaban(folder: Path) -> Iterator[str]:
    """Have an Azkaban in the environment; yield what it is called."""
    if "AZKABAN_URL" in os.environ:
        yield "Azkaban"
        return
    with azkaban_double(folder / "executions") as double:
        user, password = next(iter(double.users.items()))
        os.environ.update(AZKABAN_URL=double.url, AZKABAN_USER=user, AZKABAN_PASSWORD=password)
        yield "Azkaban's double"


def azkaban(folder: Path) -> Figure:
    """Measure a node in Azkaban, as it tells when it began and ended."""
    with own_home(folder / "home"), _azkaban(folder) as called:
        _command("azkaban", "upload", str(_flow(folder, "azkaban")))

        def node() -> float:
            words = ("azkaban", "run", _NAME, "--submarine", " ".join(_MAIN), "--json")
            told = json.loads(_command(*words).splitlines()[-1])
            (one,) = told["nodes"]
            return float(one["ended"]) - float(one["started"])

        ours, theirs = in_turn(_ROUNDS, node, lambda: _alone(folder))
    return Figure(what=f"node in {called}", target=_TARGET, unit="s", ours=ours,
                  peers={"`submarine job run` of it": theirs})  # fmt: skip


_PLAIN = """
from datetime import datetime
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG("plain", start_date=datetime(2026, 1, 1), schedule=None):
    BashOperator(task_id="node", bash_command={command!r})
"""


def airflow(folder: Path) -> Figure:
    """Measure a node in Airflow 3, as it has it on record, in runs of `airflow dags test`.

    Beside it, in the same Airflow, is the same job by a shell command: Airflow's own part is in
    both.
    """
    with own_home(folder / "home"):
        flow = _flow(folder, "airflow")
        script = folder / "node.py"
        script.write_text(f"{_CELL}\n")
        command = shlex.join([*_MAIN, "job", "run", "--gpus", "0", str(script)])
        (flow / "plain.py").write_text(_PLAIN.format(command=command))
        site = Airflow(folder / "airflow", flow, "3")

        def seconds(dag: str) -> float:
            site.run("dags", "test", dag)
            query = "select duration from task_instance where run_id = ? and dag_id = ?"
            path = f"file:{site.home}/airflow.db?mode=ro"
            with closing(sqlite3.connect(path, uri=True)) as data:
                ((taken,),) = data.execute(query, (site.last_run(dag), dag)).fetchall()
            return float(taken)

        ours, theirs = in_turn(_ROUNDS, lambda: seconds(_NAME), lambda: seconds("plain"))
    return Figure(what="node in Airflow 3", target=_TARGET, unit="s", ours=ours,
                  peers={"BashOperator, `submarine job run`": theirs})  # fmt: skip
