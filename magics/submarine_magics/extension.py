"""What ``%load_ext submarine_magics`` puts into a shell, and what unloading takes away."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.future import Job

from submarine_magics import frontend, verbs
from submarine_magics.aligned import JOB_MAGIC, lines_above
from submarine_magics.card import display, preload, show_job
from submarine_magics.running import add_part, run_cell
from submarine_magics.stream import in_notebook
from submarine_magics.tags import honour_tags, ignore_tags
from submarine_magics.verbs import run_line
from submarine_magics.workbench import bench_of

NAMES = (("cell", "submarine"), ("line", "submarine"), ("cell", "submarine.python"))


def load(shell: InteractiveShell) -> None:
    """Register in `shell` the magics, their completion, and how a `Job` is displayed."""
    bench = bench_of(shell)

    def submarine(line: str) -> object:
        """Look after jobs: `%submarine help` says how."""
        return run_line(bench, line)

    def submarine_cell(line: str, cell: str) -> object:
        """Run this cell as a job with GPUs: `%%submarine --help` lists the options."""
        return run_cell(bench, line, cell)

    def part_cell(line: str, cell: str) -> None:
        """Give this cell as a part of a script: `%%submarine.python TITLE.py`."""
        add_part(bench, line, cell)

    register: Any = shell.register_magic_function  # its type is that of the manager's own method
    register(submarine, "line", "submarine")
    register(submarine_cell, "cell", "submarine")
    register(part_cell, "cell", "submarine.python")
    shell.input_transformers_cleanup.append(with_body)
    verbs.register_completion(shell)
    honour_tags(shell)
    _formatter(shell).for_type(Job, show_job)
    display.register_table(shell)
    bench.get_ready(chosen=False)
    if in_notebook() and frontend.current.widgets:
        preload()


def unload(shell: InteractiveShell) -> None:
    """Take back what `load` registered in `shell`; jobs go on."""
    for kind, name in NAMES:
        shell.magics_manager.magics[kind].pop(name, None)
    if with_body in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(with_body)
    verbs.unregister_completion(shell)
    ignore_tags(shell)
    _formatter(shell).pop(Job, None)
    display.unregister_table(shell)


def with_body(lines: list[str]) -> list[str]:
    """Let one of our cell magics stand below comments, and alone, in the `lines` of a cell.

    IPython wants a cell magic in the first line, and refuses one without a body;
    ``%%submarine --help`` needs none.
    """
    lines = lines[lines_above(lines) :]
    if len(lines) == 1 and JOB_MAGIC.match(lines[0]):
        return [lines[0].rstrip("\n") + "\n", "\n"]
    return lines


# In a terminal, IPython must not try it on a cell that is still being typed.
with_body.has_side_effects = True  # type: ignore[attr-defined] # TransformerManager looks for it


def _formatter(shell: InteractiveShell) -> Any:  # noqa: ANN401 - IPython's, not typed
    assert shell.display_formatter is not None  # noqa: S101 - for the type checker
    return shell.display_formatter.ipython_display_formatter
