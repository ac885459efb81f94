"""Archives of an environment's files, with nothing in them that only this machine has."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from submarine_engine.clusters.yarn.installed import File


def write_archive(
    files: Iterable[File], written: Mapping[str, bytes], links: Mapping[str, str]
) -> Path:
    """Write a ``.tar.gz`` to a temporary file of the caller's.

    Parameters
    ----------
    files
        Those that are not there are left out. Console scripts (``bin/…``) run with whatever
        ``python3`` comes first on the path.
    written, links
        Content, and targets of links, by path: what is nowhere a file.
    """
    handle, name = tempfile.mkstemp(prefix="submarine-", suffix=".tar.gz")
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
