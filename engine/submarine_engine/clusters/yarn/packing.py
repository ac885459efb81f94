"""A copy of this process's Python environment, in layers that are sent once each.

::

    base/     the interpreter and its standard library
    <name>/   a large package, with those that its libraries are linked to
    small/    all other packages
    local/    code installed for editing, as it is now

Layers other than the base hold ``site/`` and ``bin/``. YARN unpacks each beside the container and
keeps it on the node for the next one. The program ``base/bin/python3`` (`launcher`) finds the
layers beside it.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from submarine_engine.clusters.yarn import installed, interpreter
from submarine_engine.clusters.yarn.archives import write_archive
from submarine_engine.clusters.yarn.installed import File, Installed
from submarine_engine.clusters.yarn.launcher import BASE, PTH, launcher

_FORMAT = "1"
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

    def write(self) -> Path:
        """Write the archive (``.tar.gz``) to a temporary file of the caller's."""
        return write_archive(self.files, self.written, self.links)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
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


def plan() -> Plan:
    """Return the layers of this process's environment; reads no more than lists of files."""
    found, local, notes = _found()
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
    return Plan(
        layers=tuple(layers),
        python=f"{BASE}/bin/{interpreter.program()}",
        versions=versions,
        notes=tuple(notes),
    )


def together(found: Iterable[Installed]) -> list[list[Installed]]:
    """Return the distributions in groups that have to lie in one folder.

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


def _found() -> tuple[list[Installed], list[Installed], list[str]]:
    """Return what is installed, the code under development, and what the user should know."""
    found: dict[str, Installed] = {}
    local: dict[str, Installed] = {}
    notes = []
    for site in installed.sites():
        here = list(installed.distributions(site))
        claimed = frozenset(top for one in here for top in one.tops)
        for one in (*here, *installed.loose(site, claimed)):
            found.setdefault(one.name, one)  # what stands first on sys.path hides what comes later
        for name, path in installed.local_code(site):
            files = tuple(installed.tree(path, f"site/{path.name}"))
            size = sum(file.size for file in files)
            if size > _LARGEST_LOCAL:
                notes.append(
                    f"{name} stays behind: it is imported from {path}, which holds "
                    f"{size / 1e6:.0f} MB; install it to send it: pip install {path.parent}"
                )
            elif name not in local:
                notes.append(f"{name} goes along as it is now in {path}")
                local[name] = Installed(
                    name=name, key=installed.stamp(files), files=files, tops=frozenset({path.name})
                )
    return list(found.values()), list(local.values()), notes


@cache  # an interpreter stays as it is while it runs
def _base() -> Layer:
    files = interpreter.base_files()
    digest = hashlib.sha256(f"{_FORMAT} {sys.version} {interpreter.program()}".encode())
    for file in files:
        digest.update(f"{file.name} {file.size}\n".encode())
    program = interpreter.program()
    script = launcher(program, shared=bool(interpreter.shared_library()))
    written = {f"{interpreter.site_folder()}/submarine-layers.pth": PTH, f"bin/{program}": script}
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
