"""What a container is sent: runtime, bundle and plan, as one archive."""

from __future__ import annotations

import base64
import gzip
import inspect
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import submarine_runtime
from submarine_runtime import webhdfs

from submarine_engine.clusters.yarn import boot
from submarine_engine.history import JobPaths

INLINE_LIMIT = 384 * 1024
"""Bytes of an archive that travel in a container's environment rather than by HDFS."""

INLINE_MOST = 1024 * 1024
"""Bytes that still may where there is no HDFS: Linux has room for 2 MB of arguments in all."""

_CHUNK_SIZE = 96 * 1024  # one variable may have 128 KiB (MAX_ARG_STRLEN), name and all
_RUNTIME = Path(submarine_runtime.__file__).parent
# Beside the runtime, and found by fsspec there as what is installed; see `jobhdfs`.
_INFO = "submarine_hdfs-1.dist-info"
_PLUGIN = {
    "submarine_hdfs.py": Path(__file__).with_name("jobhdfs.py").read_bytes(),
    f"{_INFO}/METADATA": b"Metadata-Version: 2.1\nName: submarine-hdfs\nVersion: 1\n",
    f"{_INFO}/entry_points.txt": b"[fsspec.specs]\nhdfs = submarine_hdfs:Hdfs\n",
}


def pack(paths: JobPaths, plan: Mapping[str, Any]) -> bytes:
    """Return the archive of one task: the same bytes for the same content.

    Parameters
    ----------
    plan
        ``task.json``, with ``environment`` and ``gpus`` for `boot`.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(_RUNTIME.glob("*.py")):
            _add(archive, f"submarine_runtime/{path.name}", path.read_bytes())
        for name, data in _PLUGIN.items():
            _add(archive, name, data)
        for path in sorted(paths.bundle.rglob("*")):
            if path.is_file():
                name = f"bundle/{path.relative_to(paths.bundle).as_posix()}"
                _add(archive, name, path.read_bytes())
        _add(archive, "task.json", json.dumps(plan).encode())
    return gzip.compress(buffer.getvalue(), compresslevel=6, mtime=0)


def boot_text() -> str:
    """Return the text that a container begins with, whole in itself."""
    text = inspect.getsource(boot)
    line = next(line for line in text.splitlines() if line.startswith("from submarine_runtime"))
    return text.replace(line, inspect.getsource(webhdfs.fetch))


def chunks(archive: bytes) -> dict[str, str]:
    """Return the archive as environment variables."""
    text = base64.b64encode(archive).decode()
    pieces = [text[start : start + _CHUNK_SIZE] for start in range(0, len(text), _CHUNK_SIZE)]
    return {f"{boot.CHUNK}{number}": piece for number, piece in enumerate(pieces)}


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    entry.mode = 0o600
    archive.addfile(entry, io.BytesIO(data))
