"""Which room may import which: the walls of the house."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "submarine_engine": ROOT / "engine/submarine_engine",
    "submarine_runtime": ROOT / "engine/submarine_runtime",
    "submarine_magics": ROOT / "magics/submarine_magics",
    "submarine_kernel": ROOT / "kernel/submarine_kernel",
    "submarine_jupyter": ROOT / "jupyter_ext/submarine_jupyter",
    "submarine_zeppelin": ROOT / "zeppelin_interpreter/submarine_zeppelin",
}
FRONT_ENDS = {"submarine_jupyter", "submarine_kernel", "submarine_magics", "submarine_zeppelin"}
# Of others' packages, the engine may use these, each where the user has it.
ENGINE_EXTRAS = {"click", "cryptography", "jupyter_core", "tomli", "mlflow", "mlserver", "pynvml",
                 "skein", "requests", "requests_gssapi", "gssapi", "fsspec", "optuna", "pandas",
                 "pyarrow", "tensorboard", "tornado", "uvicorn", "yaml", "kubernetes", "urllib3",
                 "websocket"}  # fmt: skip
FRONT_END_EXTRAS = {
    "IPython", "anywidget", "ipykernel", "ipywidgets", "jupyter_client", "jupyter_core",
    "jupyter_server",
    "thriftpy2", "tornado", "traitlets",
}  # fmt: skip


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of what the file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.lineno, node.module or ""


def foreign_imports(package: str, allowed: set[str]) -> list[str]:
    """Return the imports of `package` beyond the standard library, itself and `allowed`."""
    known = allowed | {package} | set(sys.stdlib_module_names)
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sorted(PACKAGES[package].rglob("*.py"))
        for line, name in imports(path)
        if name.partition(".")[0] not in known
    ]


def test_no_module_leads_back_to_itself():
    """Also by what is imported late, or for its types alone."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=False, cache_dir=None)
    left = {
        module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules
    }
    while free := {module for module, needed in left.items() if not needed & left.keys()}:
        left = {module: needed for module, needed in left.items() if module not in free}
    assert not left, f"a circle, or what stands on one: {sorted(left)}"


def test_the_runtime_imports_the_standard_library_only():
    assert foreign_imports("submarine_runtime", set()) == []


def test_the_engine_imports_no_front_end():
    found = foreign_imports("submarine_engine", {"submarine_runtime", *ENGINE_EXTRAS})
    tests = [one for one in found if one.startswith("engine/submarine_engine/testing/")]
    assert found == tests
    assert {one.rpartition(" ")[2] for one in tests} == {"hypothesis", "pytest"}


@pytest.mark.parametrize("package", sorted(FRONT_ENDS))
def test_front_ends_stand_on_the_engine(package):
    allowed = {"submarine_engine", *FRONT_ENDS, *FRONT_END_EXTRAS}
    assert foreign_imports(package, allowed) == []


def test_a_forbidden_import_would_be_found(tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text("def f():\n    from IPython.display import HTML\n")
    monkeypatch.setitem(PACKAGES, "submarine_engine", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert foreign_imports("submarine_engine", set()) == ["bad.py:2 imports IPython.display"]


def test_no_room_is_left_out_of_the_walls_around_backends():
    """Who adds a module to the engine adds it there: import-linter cannot say "all but these"."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (walls,) = (one for one in contracts["contracts"] if "backend names one" in one["name"])
    engine = PACKAGES["submarine_engine"]
    there = {
        ".".join(("submarine_engine", *path.relative_to(engine).with_suffix("").parts))
        for folder in (engine, engine / "clusters")
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    backends = set(walls["forbidden_modules"])
    named = {name for name in walls["source_modules"] if name.startswith("submarine_engine.")}
    left = there - backends - {"submarine_engine.clusters"}
    assert {name for name in left if "__" not in name} == named
