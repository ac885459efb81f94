"""The docs are true: links lead somewhere, commands are in the grammar, cells and programs run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from submarine_engine.command import parse

from tests.kernels import execute

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(.*)\n((?:(?!```).*\n)*?)```$", re.MULTILINE)
# ipython: cells that run one after the other; python: one program; console: commands after "$ ".
LANGUAGES = {"ipython", "python", "console", "text", "toml", "json"}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


class Block(NamedTuple):
    info: str
    text: str


def blocks(page: Path, language: str | None = None) -> list[Block]:
    found = [Block(info.strip(), text) for info, text in FENCE.findall(page.read_text())]
    return [block for block in found if language in (None, block.info.partition(" ")[0])]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def commands(page: Path) -> Iterator[str]:
    for block in blocks(page, "console"):
        for line in block.text.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                yield line[2:]


@each_page
def test_links_lead_somewhere(page):
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), f"{page.name} links to {target}"


@each_page
def test_code_is_of_a_language_that_is_tested(page):
    assert {block.info.partition(" ")[0] for block in blocks(page)} <= LANGUAGES
    assert page.read_text().count("\n```") == 2 * len(blocks(page))


@each_page
def test_commands_are_in_the_grammar(page):
    makefile = (ROOT / "Makefile").read_text()
    for command in commands(page):
        words = shlex.split(command, comments=True)
        if words[0] == "submarine":
            parse(words[1:])
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), command


def cells(page: Path) -> nbformat.NotebookNode:
    """Put the cells of a page together; blank line, comment ``# ---``, blank line parts them."""
    notebook = nbformat.v4.new_notebook()
    for block in blocks(page, "ipython"):
        tags = ["raises-exception"] if block.info.endswith("raises") else []
        for source in block.text.rstrip("\n").split("\n\n# ---\n\n"):
            cell = nbformat.v4.new_code_cell(source, metadata={"tags": tags})
            notebook.cells.append(cell)
    return notebook


FIRST = {"README.md", "getting-started.md"}
"""What is read first, so it works as it stands on a machine without a GPU too."""
TRIED = [
    (page, gpus)
    for page in PAGES
    if blocks(page, "ipython")
    for gpus in (["0", "4"] if page.name in FIRST else ["4"])
]


def as_cells(page: Path) -> nbformat.NotebookNode:
    """Return a page's programs as cells: whoever reads them in a notebook pastes them there."""
    sources = [block.text for block in blocks(page, "python")]
    made = [nbformat.v4.new_code_cell(source, metadata={"tags": []}) for source in sources]
    return nbformat.v4.new_notebook(cells=made)


@pytest.mark.sampled
@pytest.mark.service
@pytest.mark.parametrize(("page", "gpus"), TRIED, ids=lambda value: getattr(value, "name", value))
def test_cells_run(page, gpus, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", gpus)
    notebook = cells(page)
    notebook.cells += as_cells(page).cells if page.name in FIRST else []
    (tmp_path / "work").mkdir()
    execute(notebook, tmp_path / "work")
    for cell in notebook.cells:
        raised = any(output.output_type == "error" for output in cell.outputs)
        assert raised == ("raises-exception" in cell.metadata.tags), cell.source


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_programs_run(page, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("\n\n".join(block.text for block in blocks(page, "python")))
    done = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env={**os.environ, "SUBMARINE_LOCAL_GPUS": "4"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_page_is_reachable_from_the_readme():
    seen, to_do = set(), [ROOT / "README.md"]
    while to_do:
        page = to_do.pop()
        if page in seen:
            continue
        seen.add(page)
        for target in LINK.findall(page.read_text()):
            linked = (page.parent / target.partition("#")[0]).resolve()
            if linked.suffix == ".md" and linked.is_file():
                to_do.append(linked)
    assert {page.name for page in PAGES} <= {page.name for page in seen}


def test_the_readmes_table_names_each_page_once():
    table = [line for line in (ROOT / "README.md").read_text().splitlines() if line[:1] == "|"]
    linked = [target.partition("#")[0] for line in table for target in LINK.findall(line)]
    pages = sorted(f"docs/{page.name}" for page in PAGES if page.parent != ROOT)
    assert sorted(target for target in linked if target.startswith("docs/")) == pages
