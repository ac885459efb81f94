"""Which cells the kernel takes for jobs, and where their tags come from."""

import json
import os
import subprocess
import sys

import pytest
from submarine_magics.frontend import notebook_path
from submarine_magics.tags import NotebookTags, job_options, sent_tags


@pytest.mark.parametrize(
    ("tags", "options"),
    [
        (["submarine"], ""),
        (["other", "submarine"], ""),
        (["submarine:--gpus=2"], "--gpus=2"),
        (["submarine: --gpus 2"], "--gpus 2"),
        (["submarine:--gpus=2", "submarine:--name=mnist"], "--gpus=2 --name=mnist"),
        (["submarine", "submarine:--gpus=2"], "--gpus=2"),
        (["submarines"], None),
        (["x:submarine"], None),
        ([], None),
        (None, None),
        ("submarine", None),
        ([1, None, {"submarine": 1}], None),
    ],
)
def test_options_come_from_the_tags(tags, options):
    assert job_options(tags) == options


@pytest.mark.parametrize(
    ("sent", "tags"),
    [
        ({"tags": ["submarine"], "cellId": "a", "recordTiming": False}, ["submarine"]),
        ({"cellId": "a", "deletedCells": [], "recordTiming": False}, []),
        ({"cellId": "a", "metadata": {"tags": ["submarine"]}}, ["submarine"]),
        ({"cellId": "vscode-notebook-cell:/a.ipynb#x"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_what_a_front_end_sends(sent, tags):
    assert sent_tags(sent) == tags


def notebook(path, *cells):
    path.write_text(
        json.dumps(
            {
                "cells": [
                    {"cell_type": kind, "source": source, "metadata": {"tags": tags}}
                    for kind, source, tags in cells
                ]
            }
        )
    )
    return path


def test_tags_are_read_from_the_file_by_the_source(tmp_path):
    path = notebook(
        tmp_path / "a.ipynb",
        ("code", ["train()\n", "1\n"], ["submarine"]),
        ("code", "plot()", []),
        ("markdown", "text", ["submarine"]),
    )
    tags = NotebookTags(path)
    assert tags.of("train()\n1") == ["submarine"]
    assert tags.of("plot()") == []
    assert tags.of("text") is None
    assert tags.of("other()") is None


def test_of_cells_alike_the_job_speaks_for_all(tmp_path):
    tags = NotebookTags(
        notebook(tmp_path / "a.ipynb", ("code", "train()", ["submarine"]), ("code", "train()", []))
    )
    assert tags.of("train()") == ["submarine"]


def test_a_file_that_changes_is_read_again(tmp_path):
    path = notebook(tmp_path / "a.ipynb", ("code", "train()", []))
    tags = NotebookTags(path)
    assert tags.of("train()") == []
    notebook(path, ("code", "train()", ["submarine"]))
    os.utime(path, ns=(1, 1))
    assert tags.of("train()") == ["submarine"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 1}', '{"cells": [{}]}', "\x00\xff"])
def test_a_file_that_is_no_notebook_has_no_tags(tmp_path, text):
    path = tmp_path / "a.ipynb"
    path.write_text(text)
    assert NotebookTags(path).of("train()") is None
    assert NotebookTags(tmp_path / "none.ipynb").of("train()") is None


def test_the_notebook_is_who_says_so_first(tmp_path, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "lab.ipynb"))
    assert notebook_path({}) == tmp_path / "lab.ipynb"
    assert notebook_path({"__vsc_ipynb_file__": "/vs/code.ipynb"}).name == "code.ipynb"
    monkeypatch.setenv("SUBMARINE_NOTEBOOK", str(tmp_path / "said.ipynb"))
    assert notebook_path({"__vsc_ipynb_file__": "/vs/code.ipynb"}).name == "said.ipynb"


def test_the_notebook_is_what_the_parent_was_started_with(tmp_path, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    notebook(tmp_path / "in.ipynb")
    child = "from submarine_magics.frontend import notebook_path; print(notebook_path({}))"
    parent = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    found = subprocess.run(
        [sys.executable, "-c", parent, "-p", "x", "in.ipynb", "out.ipynb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(tmp_path / "in.ipynb")
