"""A copy of this process's Python environment, in layers that are sent once each.

What is installed is found by its metadata; layers are archives with nothing in them that only this
machine has.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import os
import platform
import re
import sys
import sysconfig
import tarfile
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path

# The program that stands for ``python3`` in a packed environment.
#
# It is a script, so that whatever starts Python there (the runtime, a data loader, a console
# script) gets the layers beside it, whatever it has made of its environment. It needs bash, as
# skein does.


BASE = "base"
REAL = "libexec"
"""Folder of the interpreter itself, in the base layer; libraries are found from it as from bin."""

PTH = (
    b"import os, site; list(map(site.addsitedir,"
    b" filter(None, os.environ.get('SUBMARINE_LAYERS', '').split(os.pathsep))))\n"
)
"""Puts the layers on ``sys.path`` as if they were installed: with their own ``.pth`` files."""

_SCRIPT = """\
#!/bin/bash
case $0 in */*) self=$0 ;; *) self=$(type -P "$0") ;; esac
home=$(cd -L "${self%/*}/.." && pwd -L)
export SUBMARINE_ENVIRONMENT="${SUBMARINE_ENVIRONMENT:-${home%/*}}"
export PYTHONNOUSERSITE=1 SUBMARINE_LAYERS=
unset PYTHONHOME
programs=$SUBMARINE_ENVIRONMENT/BASE/bin
for layer in "$SUBMARINE_ENVIRONMENT"/{local,large-*,small}; do
    [ -d "$layer/site" ] && SUBMARINE_LAYERS=$SUBMARINE_LAYERS:$layer/site
    [ -d "$layer/bin" ] && programs=$programs:$layer/bin
done
case :$PATH: in *":$programs:"*) ;; *) export PATH=$programs:$PATH ;; esac
LIBRARIES
exec -a "$home/bin/${self##*/}" "$home/REAL/PROGRAM" "$@"
"""
_LIBRARIES = """\
case :$LD_LIBRARY_PATH: in *":$home/lib:"*) ;; *)
    export LD_LIBRARY_PATH=$home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ;;
esac"""


def launcher(program: str, *, shared: bool) -> bytes:
    """Return the script.

    Parameters
    ----------
    program
        The interpreter's name, as in ``python3.11``.
    shared
        Whether it is linked to a library of its own, which lies in the base's ``lib``.
    """
    text = _SCRIPT.replace("LIBRARIES", _LIBRARIES if shared else ":")
    for word, value in {"BASE": BASE, "REAL": REAL, "PROGRAM": program}.items():
        text = text.replace(word, value)
    return text.encode()


# What is installed in this process's Python: distributions, loose files, code under development.
#
# Read from each distribution's ``RECORD`` (PyPA, "Recording installed projects"), which holds a
# hash of every file: nothing has to be read to know whether anything has changed.


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
    """Return what lies in `site` and belongs to no ``RECORD``: old installs, files put by hand.

    Parameters
    ----------
    site
        A folder that packages are installed in.
    claimed
        Names directly in the folder that belong to a ``RECORD``.
    """
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
    """Return a hash of `seed`, and of names and content of `files` as far as they are there."""
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


# The interpreter of this process and its standard library, as files to be sent.


# Tests, and what draws windows: a third of the library, and of no use in a container.
_LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo"})
_PROGRAMS = re.compile(r"bin/python[0-9.]*")
_OF_CONDA = frozenset({"conda-meta", "include", "man", "pkgs", "envs", "compiler_compat"})


def base_files() -> tuple[File, ...]:
    """Return the files of the base layer, but for links and what we write ourselves.

    Of conda's Python that is the whole prefix, since its libraries lie beside it.
    """
    prefix = Path(sys.base_prefix)
    real = _file(interpreter_path(), f"{REAL}/{program_name()}")
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


def program_name() -> str:
    """Return the interpreter's name, as in ``python3.11``."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def interpreter_path() -> Path:
    """Return the interpreter itself: not an environment's link to it."""
    return Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))


def shared_library() -> str:
    """Return the name of the library that the interpreter is linked to; empty where it is none."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return ""
    return str(sysconfig.get_config_var("INSTSONAME") or "")


def site_folder() -> str:
    """Return where the base layer's own packages lie, relative to it."""
    return f"lib/{program_name()}/site-packages"


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


# Archives of an environment's files, with nothing in them that only this machine has.


def write_archive(
    files: Iterable[File],
    written: Mapping[str, bytes],
    links: Mapping[str, str],
    folder: Path | None = None,
) -> Path:
    """Write a ``.tar.gz`` to a temporary file of the caller's.

    Parameters
    ----------
    files
        Those that are not there are left out. Console scripts (``bin/…``) run with whatever
        ``python3`` comes first on the path.
    written, links
        Content, and targets of links, by path: what is nowhere a file.
    folder
        Where to; where temporary files go unless given.
    """
    handle, name = tempfile.mkstemp(prefix="submarine-", suffix=".tar.gz", dir=folder)
    try:
        # Level 1: the wire is quicker than the compression of the last few percent.
        with (
            os.fdopen(handle, "wb") as raw,
            tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as archive,
        ):
            for file in files:
                if os.path.exists(file.source):  # noqa: PTH110 - for ten thousand files
                    _add(archive, file)
            for path, data in written.items():
                info = tarfile.TarInfo(path)
                info.mode = 0o755 if path.startswith("bin/") else 0o644
                _add_bytes(archive, info, data)
            for path, target in links.items():
                link = tarfile.TarInfo(path)
                link.type, link.linkname = tarfile.SYMTYPE, target
                archive.addfile(link)
    except BaseException:
        Path(name).unlink()
        raise
    return Path(name)


def _add(archive: tarfile.TarFile, file: File) -> None:
    info = archive.gettarinfo(file.source, file.name)
    if info.issym() and (info.linkname.startswith("/") or ".." in info.linkname):
        # It leads to somewhere that the container has not.
        info = archive.gettarinfo(os.path.realpath(file.source), file.name)
    if info.islnk():
        info.type = tarfile.REGTYPE
        info.size = Path(file.source).stat().st_size
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    if not info.isreg():
        archive.addfile(info)
        return
    with Path(file.source).open("rb") as source:
        if file.name.startswith("bin/"):
            _add_bytes(archive, info, _relocated(source.read()))
        else:
            archive.addfile(info, source)


def _add_bytes(archive: tarfile.TarFile, info: tarfile.TarInfo, data: bytes) -> None:
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _relocated(script: bytes) -> bytes:
    """Return a console script that runs with whatever ``python3`` comes first on the path."""
    first, _, rest = script.partition(b"\n")
    if not first.startswith(b"#!"):
        return script
    if first == b"#!/bin/sh" and rest.startswith(b"'''exec'"):  # as pip writes long paths
        rest = rest.partition(b"\n' '''\n")[2]
    elif b"python" not in first:
        return script
    return b"#!/usr/bin/env python3\n" + rest


def digest_of(data: bytes | Path) -> str:
    """Return the SHA-256 of `data`, bytes or the path of a file, in hexadecimal."""
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    status = data.stat()
    return _digest_of_file(data.absolute(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest_of_file(path: Path, _size: int, _changed: int) -> str:
    """Read a file once for as long as it stays as it is: archives are of gigabytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


# A copy of this process's Python environment, in layers that are sent once each.
#
# ::
#
#     base/     the interpreter and its standard library
#     <name>/   a large package, with those that its libraries are linked to
#     small/    all other packages
#     local/    code installed for editing, as it is now
#
# Layers other than the base hold ``site/`` and ``bin/``. YARN unpacks each beside the container and
# keeps it on the node for the next one. The program ``base/bin/python3`` (`launcher`) finds the
# layers beside it.


_FORMAT = "1"
_PIECE = 1 << 20
_LARGE = 40_000_000
_LARGEST_LOCAL = 100_000_000
_MOST_LARGE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """An archive of an environment.

    Parameters
    ----------
    folder
        Where it is unpacked, in the container's working directory.
    title
        For people.
    key
        SHA-256 of all that it is made from: same files, same key.
    written, links
        Content, and targets of links, by path: what is nowhere a file.
    """

    folder: str
    title: str
    key: str
    files: tuple[File, ...]
    written: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all files, before compression."""
        return sum(file.size for file in self.files)

    def write(self, folder: Path | None = None) -> Path:
        """Write the archive (``.tar.gz``) to a temporary file of the caller's.

        Parameters
        ----------
        folder
            Where to; where temporary files go unless given.
        """
        return write_archive(self.files, self.written, self.links, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """What an environment is made of, before anything is written.

    Parameters
    ----------
    python
        Path of its program, relative to the folder that the layers are unpacked in.
    versions
        ``python`` and every distribution.
    notes
        What the user should know.
    """

    layers: tuple[Layer, ...]
    python: str
    versions: dict[str, str]
    notes: tuple[str, ...]


def plan_layers() -> LayerPlan:
    """Return the layers of this process's environment; reads no more than lists of files."""
    found, local, notes = _installed()
    groups = together(found)
    large = sorted((one for one in groups if _size(one) >= _LARGE), key=_size, reverse=True)
    large = large[:_MOST_LARGE]
    small = [one for group in groups if group not in large for one in group]
    layers = [_base()]
    layers += [_layer(f"large-{max(group, key=_by_size).name}", group) for group in large]
    layers += [_layer("small", small)] if small else []
    layers += [_layer("local", local)] if local else []
    versions = {"python": platform.python_version()}
    versions.update((one.name, one.version) for one in found if one.version)
    return LayerPlan(
        layers=tuple(layers),
        python=f"{BASE}/bin/{program_name()}",
        versions=versions,
        notes=tuple(notes),
    )


def together(found: Iterable[Installed]) -> list[list[Installed]]:
    """Return the distributions `found` in groups that have to lie in one folder.

    These are the ones that share a folder (``nvidia``, ``google``): a library finds the others
    beside it, ``$ORIGIN/../../nvidia/…``, and so does whatever requires one of NVIDIA's.
    """
    groups: dict[str, list[Installed]] = {}
    known = {one.name: one for one in found}
    for one in sorted(known.values(), key=lambda one: one.name):
        keys = {one.name, *(f"{top}/" for top in one.tops if "." not in top)}
        near = (known[need] for need in one.needs if need in known)
        keys.update("nvidia/" for other in near if "nvidia" in other.tops)
        joined = {id(groups[key]): groups[key] for key in keys if key in groups}
        group = [one, *(other for part in joined.values() for other in part)]
        groups.update({key: group for key, part in groups.items() if id(part) in joined})
        groups.update(dict.fromkeys(keys, group))
    return list({id(group): group for group in groups.values()}.values())


def _installed() -> tuple[list[Installed], list[Installed], list[str]]:
    """Return what is installed, the code under development, and what the user should know."""
    found: dict[str, Installed] = {}
    local: dict[str, Installed] = {}
    notes = []
    for site in sites():
        here = list(distributions(site))
        claimed = frozenset(top for one in here for top in one.tops)
        for one in (*here, *loose(site, claimed)):
            found.setdefault(one.name, one)  # what stands first on sys.path hides what comes later
        for name, path in local_code(site):
            files = tuple(tree(path, f"site/{path.name}"))
            size = sum(file.size for file in files)
            if size > _LARGEST_LOCAL:
                notes.append(
                    f"{name} stays behind: it is imported from {path}, which holds "
                    f"{size / 1e6:.0f} MB; install it to send it: pip install {path.parent}"
                )
            elif name not in local:
                notes.append(f"{name} goes along as it is now in {path}")
                local[name] = Installed(
                    name=name, key=stamp(files), files=files, tops=frozenset({path.name})
                )
    return list(found.values()), list(local.values()), notes


@cache  # an interpreter stays as it is while it runs
def _base() -> Layer:
    files = base_files()
    digest = hashlib.sha256(f"{_FORMAT} {sys.version} {program_name()}".encode())
    for file in files:
        digest.update(f"{file.name} {file.size}\n".encode())
    program = program_name()
    script = launcher(program, shared=bool(shared_library()))
    written = {f"{site_folder()}/submarine-layers.pth": PTH, f"bin/{program}": script}
    links = {f"bin/{name}": program for name in ("python", "python3")}
    digest.update(repr((sorted(written.items()), sorted(links.items()))).encode())
    return Layer(
        folder=BASE,
        title="Python itself",
        key=digest.hexdigest(),
        files=files,
        written=written,
        links=links,
    )


def _layer(folder: str, parts: Sequence[Installed]) -> Layer:
    digest = hashlib.sha256(_FORMAT.encode())
    for one in sorted(parts, key=lambda one: one.name):
        digest.update(f"{one.name} {one.key}\n".encode())
    title = f"{len(parts)} packages" if len(parts) > 1 else parts[0].name
    if folder.startswith("large-") and len(parts) > 1:
        title = f"{folder.removeprefix('large-')} and {len(parts) - 1} more"
    files = tuple(file for one in parts for file in one.files)
    return Layer(folder=folder, title=title, key=digest.hexdigest(), files=files)


def _size(group: Iterable[Installed]) -> int:
    return sum(one.size for one in group)


def _by_size(one: Installed) -> int:
    return one.size
