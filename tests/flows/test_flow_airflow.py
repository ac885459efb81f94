"""A flow as a DAG's file: what people read, and names and values that never become code."""

from __future__ import annotations

import ast
import getpass
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from submarine_engine.bundle import Cell
from submarine_engine.errors import FlowError
from submarine_engine.flows.airflow import dag_text, write
from submarine_engine.flows.model import Flow, Node, Parameter, Read
from submarine_engine.flows.writers import WRITERS

KEPT = Path(__file__).with_name("nightly_dag.txt")


def flow_with(**more):
    parts = {
        "name": "nightly",
        "notebook": "train.ipynb",
        "cells": tuple(Cell(number=number, source="x = 1", raw="x = 1") for number in range(1, 6)),
        "parameters": (
            Parameter(name="day", default="2026-11-22"),
            Parameter(name="rate", default=0.1),
            Parameter(name="epochs", default=3),
            Parameter(name="quick", default=False),
            Parameter(name="sizes", default=(1, 2)),
            Parameter(name="limit"),
        ),
        "parameters_cell": 1,
        "schedule": "0 2 * * *",
        "nodes": (
            Node(name="load", kind="cell", cells=(2, 3), binds=("images", "labels")),
            Node(
                name="train-model",
                cells=(4,),
                reads=(Read(name="images", node="load"), Read(name="labels", node="load")),
                retries=2,
                time_limit=3600.0,
            ),
            Node(name="clean", cells=(5,), after=("load", "train-model"), condition="all_done"),
        ),
    }
    return Flow(**parts | more)


FLOW = flow_with()


def text_of(flow, folder="/shared/nightly"):
    return dag_text(flow, Path(folder), submarine="/opt/submarine/bin/submarine", owner="ada")


def shape(text):
    """Return what a file does, whatever the values in it are."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = "?"
    return ast.dump(tree)


PLAIN = shape(
    text_of(
        flow_with(
            parameters=(Parameter(name="day", default=""), Parameter(name="days", default=[]))
        )
    )
)


def test_mail_and_the_delay_of_retries_are_airflows_own():
    nodes = (Node(name="fit", cells=(4,), retries=2, retry_delay=300.0),)
    text = text_of(flow_with(nodes=nodes, mail="ana@example.com,bo@example.com"))
    assert "retries=2, retry_delay=timedelta(seconds=300.0)" in text
    assert '"email": ["ana@example.com", "bo@example.com"],' in text.replace("'", '"')
    assert '"email_on_failure": True' in text
    assert "email" not in text_of(FLOW)


def test_the_file_reads_as_the_one_that_is_kept():
    text = text_of(FLOW)
    compile(text, "nightly.py", "exec")
    assert text == KEPT.read_text()


@settings(max_examples=20)  # each is the whole file, parsed
@given(evil=st.text(st.characters(exclude_characters="\0"), min_size=1))
@example('""" + __import__("os").system("x") #')
@example("{{ ti }}\n'")
@example("\\")
@example("$(x)`x`\u2028")
def test_no_value_ever_becomes_code(evil):
    day = Parameter(name="day", default=evil)
    days = Parameter(name="days", default=[evil])
    flow = flow_with(notebook=evil, parameters=(day, days))
    text = dag_text(flow, Path("/shared") / evil, owner=evil, submarine=evil)
    assert shape(text) == PLAIN
    constants = {n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)}
    assert constants >= {evil, repr([evil]), str(Path("/shared") / evil)}


def test_a_value_that_no_command_can_pass_is_refused_by_name():
    flow = flow_with(parameters=(Parameter(name="day", default="a\0b"),))
    with pytest.raises(FlowError, match="the default of parameter day has a NUL"):
        text_of(flow)


def test_it_is_written_into_the_flows_folder_and_anew(tmp_path):
    path = WRITERS["airflow"](FLOW, tmp_path, tmp_path)
    assert path == tmp_path / "nightly.py"
    assert path.stat().st_mode & 0o777 == 0o600
    assert repr(getpass.getuser()).strip("'") in path.read_text()
    # What jobs run are Python files too, and no DAGs.
    assert (tmp_path / ".airflowignore").read_text().split() == ["bundles/", "modules/", "runs/"]
    assert "2 * * *" in path.read_text()
    write(flow_with(schedule=""), tmp_path, tmp_path)
    assert "schedule=None" in path.read_text()


def test_the_command_is_the_one_that_wrote_it(tmp_path):
    tree = ast.parse(write(FLOW, tmp_path, tmp_path).read_text())
    values = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    assert values["FOLDER"] == str(tmp_path)
    assert os.access(values["SUBMARINE"], os.X_OK)


def test_a_file_of_somebody_elses_stays(tmp_path):
    (tmp_path / "nightly.py").write_text("print('mine')\n")
    with pytest.raises(FlowError, match="has not written") as caught:
        write(FLOW, tmp_path, tmp_path)
    assert "--name" in caught.value.fix
    assert (tmp_path / "nightly.py").read_text() == "print('mine')\n"
