"""The interpreter of this process and its standard library, as files to be sent."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from submarine_engine.clusters.yarn.installed import SKIPPED, File
from submarine_engine.clusters.yarn.launcher import REAL

# Tests, and what draws windows: a third of the library, and of no use in a container.
_LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo"})
_PROGRAMS = re.compile(r"bin/python[0-9.]*")
_OF_CONDA = frozenset({"conda-meta", "include", "man", "pkgs", "envs", "compiler_compat"})


def base_files() -> tuple[File, ...]:
    """Return the files of the base layer, but for links and what we write ourselves.

    Of conda's Python that is the whole prefix, since its libraries lie beside it.
    """
    prefix = Path(sys.base_prefix)
    real = _file(interpreter(), f"{REAL}/{program()}")
    if (prefix / "conda-meta").is_dir():
        found = _below(prefix, "", _LEFT_OUT | _OF_CONDA)
        return (*(file for file in found if not _PROGRAMS.fullmatch(file.name)), real)
    stdlib = Path(sysconfig.get_path("stdlib"))
    library = Path(sysconfig.get_config_var("LIBDIR") or "", shared_library())
    files = list(_below(stdlib, f"lib/{stdlib.name}", _LEFT_OUT))
    files.append(real)
    if shared_library() and library.is_file():
        files.append(_file(library, f"lib/{library.name}"))
    return tuple(files)


def program() -> str:
    """Return the interpreter's name, as in ``python3.11``."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def interpreter() -> Path:
    """Return the interpreter itself: not an environment's link to it."""
    return Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))


def shared_library() -> str:
    """Return the name of the library that the interpreter is linked to; empty where it is none."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return ""
    return str(sysconfig.get_config_var("INSTSONAME") or "")


def site_folder() -> str:
    """Return where the base layer's own packages lie, relative to it."""
    return f"lib/{program()}/site-packages"


def _below(folder: Path, name: str, left_out: frozenset[str]) -> Iterator[File]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name in left_out or entry.name in SKIPPED:
            continue
        path = f"{name}/{entry.name}" if name else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _below(Path(entry.path), path, left_out)
        elif entry.is_file() and not entry.name.endswith((".pyc", ".a")):
            yield File(entry.path, path, entry.stat().st_size)


def _file(source: Path, name: str) -> File:
    return File(str(source), name, source.stat().st_size)
