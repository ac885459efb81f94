"""A notebook to bundle cells of: its cells really run, its scripts too."""

from __future__ import annotations

import builtins
import codeop
import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import pytest
from submarine_engine.bundle import BuildOptions, Bundle, Cell, build, build_call

RUFF = [sys.executable, "-m", "ruff"]


class Notebook:
    """What a kernel is to the bundle: cells that ran, and the variables that they left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = types.ModuleType("__main__")
        self.module.__dict__["__builtins__"] = builtins
        self.cells: list[Cell] = []
        self.compile = codeop.Compile()  # remembers future imports, as IPython's does

    @property
    def namespace(self) -> dict[str, object]:
        return self.module.__dict__

    def run(self, source: str, **fields: object) -> Notebook:
        """Execute a cell."""
        source = source.strip("\n")
        number = len(self.cells) + 1
        cell = Cell(**{"number": number, "source": source, "id": f"id-{number}", **fields})
        self.cells.append(cell)
        lines = source.split("\n")[: cell.executed]
        name = f"<cell {number}>"
        exec(self.compile("\n".join(lines), name, "exec"), self.namespace)  # noqa: S102 - a kernel
        return self

    def bundle(self, main: str, outputs: Sequence[str] = (), **options: object) -> Bundle:
        """Bundle a main cell that has the next number."""
        cell = Cell(number=len(self.cells) + 1, source=main.strip("\n"), id="id-main")
        given = BuildOptions(**options)
        return build(cell, self.cells, self.namespace, options=given, outputs=outputs)

    def call(self, function, *args, **kwargs) -> Bundle:
        here = BuildOptions(root=self.folder)
        return build_call(function, args, kwargs, self.cells, self.namespace, options=here)

    def result(self, bundle: Bundle, python: str = sys.executable) -> str:
        """Write a bundle, run its script as a program, and return what it printed."""
        folder = self.folder / f"bundle-{len(list(self.folder.iterdir()))}"
        bundle.write(folder)
        done = subprocess.run(
            [python, bundle.manifest.entry], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{bundle.script}\n{done.stderr}"
        return done.stdout

    def job(self, main: str, **options: object) -> str:
        """Bundle a main cell, run the script, and return what it printed."""
        return self.result(self.bundle(main, **options))


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    folder = tmp_path / "notebook"
    folder.mkdir()
    made = Notebook(folder)
    monkeypatch.setitem(sys.modules, "__main__", made.module)
    return made


@pytest.fixture
def formatted(tmp_path):
    """Check that ``ruff format`` would leave a script as it is."""

    def check(bundle: Bundle) -> None:
        file = tmp_path / "formatted.py"
        file.write_text(bundle.script)
        command = [*RUFF, "format", "--isolated", "--diff", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return check
