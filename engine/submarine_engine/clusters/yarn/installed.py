"""What is installed in this process's Python: distributions, loose files, code under development.

Read from each distribution's ``RECORD`` (PyPA, "Recording installed projects"), which holds a hash
of every file: nothing has to be read to know whether anything has changed.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import os
import re
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

SKIPPED = frozenset({"__pycache__", ".git", ".venv", "node_modules", ".ipynb_checkpoints"})
_SITES = ("site-packages", "dist-packages")
_MAPPING = re.compile(r"^MAPPING[^=]*=\s*(\{.*\})\s*$", re.MULTILINE)
_NEEDS = re.compile(r"^Requires-Dist: ([A-Za-z0-9._-]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class File:
    """A file of an environment: where it lies, its path in a layer, its bytes.

    `hash` is as its ``RECORD`` has it: ``sha256=…``.
    """

    source: str
    name: str
    size: int
    hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """Something that is installed, whole.

    Parameters
    ----------
    name
        The distribution's, normalised; a path for what belongs to none.
    key
        New whenever any of its files is another.
    tops
        Its packages and modules, as they lie in ``site-packages``.
    needs
        Names of distributions that it requires.
    """

    name: str
    key: str
    files: tuple[File, ...]
    tops: frozenset[str]
    needs: frozenset[str] = frozenset()
    version: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def sites() -> list[Path]:
    """Return the folders that packages are installed in, in the order of ``sys.path``."""
    found = [Path(entry) for entry in sys.path if Path(entry).name in _SITES]
    return [folder for folder in dict.fromkeys(found) if folder.is_dir()]


def distributions(site: Path) -> Iterator[Installed]:
    """Return the distributions in `site` that have a ``RECORD``."""
    for record in sorted(site.glob("*.dist-info/RECORD")):
        status = record.stat()
        one = _distribution(site, record, status.st_mtime_ns, status.st_size)
        edited = [file for file in one.files if _is_edited(file, status.st_mtime)]
        yield replace(one, key=stamp(edited, one.key)) if edited else one


@lru_cache(maxsize=10_000)  # the next job of this process asks again
def _distribution(site: Path, record: Path, _changed: int, _size: int) -> Installed:
    name, version, needs = _metadata(record.parent)
    digest = hashlib.sha256(f"{name} {version}".encode())
    files, tops = [], set()
    for row in csv.reader(record.read_text("utf-8").splitlines()):
        path, hashed, size = (*row, "", "")[:3]
        if not path or not hashed or path.endswith(".pyc"):
            continue  # what the installer notes for itself, and what Python makes again
        if path.startswith("__editable__") or (path.endswith(".pth") and _leads_away(site / path)):
            continue
        script = path.startswith("../") and "/bin/" in path
        if path.startswith(("../", "/")) and not script:
            continue  # data of other programs: manuals, kernels, desktop files
        digest.update(f"{path} {hashed}\n".encode())
        if not script:
            tops.add(path.partition("/")[0])
        place = f"bin/{path.rpartition('/')[2]}" if script else f"site/{path}"
        files.append(File(f"{site}/{path}", place, int(size) if size.isdigit() else 0, hashed))
    return Installed(
        name=name,
        version=version,
        key=digest.hexdigest(),
        files=tuple(files),
        tops=frozenset(tops),
        needs=needs,
    )


def _is_edited(file: File, since: float) -> bool:
    """Tell whether Python code is not as it was installed: people do debug other people's code."""
    if not file.name.endswith(".py"):
        return False
    try:
        if os.stat(file.source).st_mtime <= since:  # noqa: PTH116 - for ten thousand files
            return False
        found = hashlib.sha256(Path(file.source).read_bytes()).digest()
    except OSError:
        return True
    return file.hash != f"sha256={urlsafe_b64encode(found).rstrip(b'=').decode()}"


def _metadata(info: Path) -> tuple[str, str, frozenset[str]]:
    """Return name, version and required names; the standard library's reader takes 4 ms for it."""
    name, _, version = info.name.removesuffix(".dist-info").partition("-")
    with suppress(OSError):
        head = (info / "METADATA").read_text("utf-8", "replace").partition("\n\n")[0]
        needs = frozenset(normal(found) for found in _NEEDS.findall(head))
        return normal(name), version, needs
    return normal(name), version, frozenset()


def loose(site: Path, claimed: frozenset[str]) -> Iterator[Installed]:
    """Return what lies in `site` and belongs to no ``RECORD``: old installs, files put by hand."""
    for path in sorted(site.iterdir()):
        if path.name in claimed or path.name in SKIPPED or path.suffix == ".pth":
            continue
        files = tuple(tree(path, f"site/{path.name}"))
        if files:
            yield Installed(
                name=str(path), key=stamp(files), files=files, tops=frozenset({path.name})
            )


def local_code(site: Path) -> Iterator[tuple[str, Path]]:
    """Return the code that is imported from where it is written, by name: editable installs'.

    `site` only points to it, by ``.pth`` files and by setuptools' finders.
    """
    for path in sorted(site.glob("*.pth")):
        for line in path.read_text("utf-8", "replace").splitlines():
            folder = Path(line.strip())
            if line.strip() and folder.is_absolute() and folder.is_dir():
                yield from _packages(folder)
    for path in sorted(site.glob("__editable__*_finder.py")):
        mapping = _MAPPING.search(path.read_text("utf-8", "replace"))
        if mapping:
            for name, where in ast.literal_eval(mapping[1]).items():
                yield name, Path(where)


def _packages(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()):
        if (path / "__init__.py").is_file() or path.suffix in (".py", ".so"):
            yield path.name.removesuffix(".py"), path


def tree(path: Path, name: str) -> Iterator[File]:
    """Return the files at and below `path`, `name` in place of its own."""
    if path.is_file():
        if path.suffix != ".pyc":
            yield File(str(path), name, path.stat().st_size)
    elif path.is_dir() and path.name not in SKIPPED and not (path / "pyvenv.cfg").exists():
        for below in sorted(path.iterdir()):
            yield from tree(below, f"{name}/{below.name}")


def stamp(files: Sequence[File], seed: str = "") -> str:
    """Return a hash of the content of `files`."""
    digest = hashlib.sha256(seed.encode())
    for file in files:
        with suppress(FileNotFoundError):
            data = Path(file.source).read_bytes()
            digest.update(f"{file.name}\0{len(data)}\0".encode())
            digest.update(data)
    return digest.hexdigest()


def normal(name: str) -> str:
    """Return a distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _leads_away(pth: Path) -> bool:
    """Tell whether a ``.pth`` file names a folder of this machine."""
    lines = pth.read_text("utf-8", "replace").splitlines() if pth.is_file() else ()
    return any(line.startswith("/") for line in lines)
