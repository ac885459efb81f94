"""Python files beside the notebook travel with the job; installed packages never do."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES, FrozenImporter, PathFinder
from pathlib import Path

from submarine_runtime.module_state import ModuleStates

from submarine_engine.errors import BundleError, CellSyntaxError

__all__ = [
    "ModuleStates",
    "ModuleValue",
    "imported_names",
    "ran_by_path",
    "run_paths",
    "travelling_modules",
]

ModuleValue = tuple[str, str, str, object]
"""What a module holds: the module, the class in it or nothing, the name, the value."""

FILE_LIMIT = 4 * 1024 * 1024
"""Bytes of one Python file: what is larger is data."""

TOTAL_LIMIT = 32 * 1024 * 1024
"""Bytes of all Python files that travel with one job."""

_SKIPPED = ("__pycache__", "site-packages", "node_modules")


def travelling_modules(
    sources: Iterable[tuple[str, str]], root: Path, scripts: Iterable[str] = ()
) -> dict[str, bytes]:
    """Return the files under `root` that the code imports or runs, directly or through one another.

    A package travels with all of its ``.py`` files, since packages import parts of themselves by
    computed names; but only files that an import statement leads to are parsed.

    Parameters
    ----------
    sources
        ``(label, source)`` of each piece of code; the label says where a syntax error is.
    root
        The notebook's folder: what Python would find there first is what travels.
    scripts
        Files that travel as well, by their paths relative to `root`.

    Returns
    -------
    dict
        Content by POSIX path relative to `root`, sorted.

    Raises
    ------
    CellSyntaxError
        A file that is imported, or one of `sources`, does not parse.
    BundleError
        A file cannot be read, leads out of `root` by a link, is compiled, or is too large.
    """
    walk = _Walk(root.resolve())
    for label, source in sources:
        walk.scan(source.encode("utf-8", "surrogatepass"), label, "")
    for script in scripts:
        walk.take(walk.root / script, "")
    return walk.collected()


def imported_names(tree: ast.AST, package: str = "") -> Iterator[str]:
    """Yield the dotted names that the code of `tree`, a module of `package`, imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0]
            if name in ("import_module", "__import__") and isinstance(first, ast.Constant):
                yield str(first.value)


def run_paths(tree: ast.AST) -> Iterator[str]:
    """Yield the paths of files that the code of `tree` runs: ``runpy.run_path("tools.py")``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0]
            if name == "run_path" and isinstance(first, ast.Constant):
                yield os.path.normpath(str(first.value))


def ran_by_path(files: Mapping[str, object]) -> list[str]:
    """Return which of a bundle's files its code runs by a path from the working directory."""
    found: set[str] = set()
    for name, content in files.items():
        if name.endswith(".py") and isinstance(content, bytes) and b"run_path" in content:
            with suppress(SyntaxError, ValueError):  # a package's, which may never be imported
                found.update(run_paths(ast.parse(content)))
    return sorted(found & files.keys())


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    parents = parents[: len(parents) - (node.level - 1)]
    return ".".join([*parents, *([node.module] if node.module else [])])


class _Walk:
    """Follows imports from file to file, never out of `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: dict[str, bytes] = {}
        self.scanned: set[Path] = set()
        self.size = 0
        self.todo: list[str] = []

    def collected(self) -> dict[str, bytes]:
        while self.todo:
            self.follow(self.todo.pop())
        return dict(sorted(self.found.items()))

    def scan(self, source: bytes, label: str, package: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python has shown them where it ran the file
                tree = ast.parse(source)
        except SyntaxError as error:
            text = f": {error.text.strip()}" if error.text else ""
            raise CellSyntaxError(
                f"{error.msg}{text}",
                where=f"{label}, line {error.lineno or 1}",
                fix="correct it; the job imports this file",
            ) from None
        except ValueError as error:
            raise CellSyntaxError(str(error), where=label, fix="save it as UTF-8 text") from None
        self.todo += imported_names(tree, package)
        for path in run_paths(tree):
            file = self.root / path
            if file.is_file() and not path.startswith("..") and not self.leads_out(file):
                self.take(file, "")

    def follow(self, dotted: str) -> None:
        """Take every file that ``import dotted`` would run."""
        folder, parts = self.root, dotted.split(".")
        if _comes_first(parts[0], self.root):
            return
        for depth, part in enumerate(parts):
            if not part.isidentifier():
                return
            package, module = folder / part, folder / f"{part}.py"
            if (package / "__init__.py").is_file() or _plain_folder(package, module, depth):
                self.take_package(package, whole=depth == 0)
                if (package / "__init__.py").is_file():
                    self.take(package / "__init__.py", ".".join(parts[: depth + 1]))
                folder = package
                continue
            self.refuse_compiled(folder, part)
            if module.is_file():
                self.take(module, ".".join(parts[:depth]))
            elif module.is_symlink() or package.is_symlink():
                self.inside(module if module.is_symlink() else package)
            return

    def take(self, file: Path, package: str) -> None:
        if file not in self.scanned:
            self.scanned.add(file)
            self.scan(self.read(file), self.name(file), package)

    def take_package(self, folder: Path, *, whole: bool) -> None:
        self.inside(folder)
        if not whole or folder in self.scanned:
            return
        self.scanned.add(folder)
        for here, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if _is_code(Path(here, name)))
            for name in files:
                file = Path(here, name)
                if name.endswith(".py") and file.is_file() and not self.leads_out(file):
                    self.read(file)

    def read(self, file: Path) -> bytes:
        """Return a file's content and let it travel."""
        name = self.name(file)
        if name in self.found:
            return self.found[name]
        self.inside(file)
        try:
            size = file.stat().st_size
            content = file.read_bytes() if size <= FILE_LIMIT else b""
        except OSError as error:
            raise BundleError(
                f"{name} cannot be read: {error.strerror}",
                where=str(file),
                fix="the job imports it: make it readable, or do not import it",
            ) from error
        self.size += size
        if size > FILE_LIMIT or self.size > TOTAL_LIMIT:
            raise BundleError(
                f"{name} has {size:,} bytes, and with it the Python files beside the notebook "
                f"are more than may travel ({FILE_LIMIT:,} each, {TOTAL_LIMIT:,} in all)",
                where=str(file),
                fix="keep data in files that the job opens, or install the package",
            )
        self.found[name] = content
        return content

    def name(self, file: Path) -> str:
        return file.relative_to(self.root).as_posix()

    def leads_out(self, path: Path) -> bool:
        return not path.resolve().is_relative_to(self.root)

    def inside(self, path: Path) -> None:
        if self.leads_out(path) or not path.exists():
            words = "leads out of the notebook's folder" if path.exists() else "leads nowhere"
            raise BundleError(
                f"{self.name(path)} is a link that {words}",
                where=str(path),
                fix="copy it beside the notebook, or install it as a package",
            )

    def refuse_compiled(self, folder: Path, part: str) -> None:
        for suffix in EXTENSION_SUFFIXES:
            if (file := folder / f"{part}{suffix}").is_file():
                raise BundleError(
                    f"{self.name(file)} is compiled for this machine and does not travel",
                    where=str(file),
                    fix="install it as a package where the job runs",
                )


def _comes_first(top: str, root: Path) -> bool:
    """Return whether the notebook has this module from elsewhere whatever lies beside it."""
    if top in sys.builtin_module_names or FrozenImporter.find_spec(top) is not None:
        return True
    if top not in sys.stdlib_module_names or top not in sys.modules:
        return False
    # The kernel has loaded it, long before the first cell, unless it is the one beside it.
    return not Path(getattr(sys.modules[top], "__file__", None) or "/").is_relative_to(root)


def _plain_folder(folder: Path, module: Path, depth: int) -> bool:
    """Return whether `folder` is a package without ``__init__.py`` that Python would choose."""
    if not folder.is_dir() or module.is_file() or not _is_code(folder):
        return False
    if depth:
        return True
    # Python takes such a folder only where no other place on its path has a module of that name.
    elsewhere = [path for path in sys.path if path and Path(path).resolve() != folder.parent]
    spec = PathFinder.find_spec(folder.name, elsewhere)
    return spec is None or spec.loader is None or spec.origin is None


def _is_code(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name in _SKIPPED
    return not hidden and not (folder / "pyvenv.cfg").exists()
