"""What a container is sent: bundle and plan as one archive, and the runtime, which stays the same.

What is sent is of one release: files may be replaced by another while a keeper lives.
"""

from __future__ import annotations

import base64
import hashlib
import json
import py_compile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile, ZipInfo

import submarine_runtime
from submarine_runtime.container import CHUNK

from submarine_engine.history import JobPaths

RUNTIME_FILE = "submarine_runtime.zip"
"""Lies in a container's working directory: Python imports from it."""

PYTHON = "SUBMARINE_RELEASE"
"""Variable with the notebook's version of Python, of which a container's has to be a release."""

BEGIN = f"""
import os, sys
wanted = os.environ.pop("{PYTHON}", "")
mine = "%d.%d.%d" % sys.version_info[:3]
if wanted and wanted.split(".")[:2] != mine.split(".")[:2]:
    sys.exit(
        "submarine: the notebook has Python %s, and %s here is %s: what was sent cannot be loaded."
        " Send the notebook's own environment (--environment pack), or name an interpreter of the"
        " same release." % (wanted, sys.executable, mine)
    )
here = os.getcwd()
sys.path[:] = [here + "/{RUNTIME_FILE}"] + [path for path in sys.path if path not in ("", here)]
from submarine_runtime.container import begin
begin()
"""
"""The program that a container begins with; any Python can tell by it that it is another one."""

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


def pack(paths: JobPaths, plan: Mapping[str, Any], large: Mapping[str, str] | None = None) -> bytes:
    """Return the archive of one task: the same bytes for the same content.

    File after file, each a line of two numbers (the lengths of its name and of its content), then
    name and content; all of it as zlib has it. What unpacks the usual kinds takes long to import.

    Parameters
    ----------
    plan
        ``task.json``, with the task's ``environment``, and in ``anew`` whether the interpreter is
        to start with that.
    large
        Files of the bundle that come by themselves: the SHA-256 of each, by its name there.
    """
    files = {}
    for path in sorted(paths.bundle.rglob("*")):
        name = path.relative_to(paths.bundle).as_posix()
        if path.is_file() and name not in (large or {}):
            files[f"bundle/{name}"] = path.read_bytes()
    files["task.json"] = json.dumps({**plan, "large": dict(large or {})}).encode()
    return zlib.compress(b"".join(_entry(name.encode(), data) for name, data in files.items()), 6)


def _entry(name: bytes, data: bytes) -> bytes:
    return b"%d %d\n%b%b" % (len(name), len(data), name, data)


def _runtime() -> bytes:
    """Return the runtime as one file that Python imports from, compiled for this release, too."""
    files = dict(_PLUGIN)
    with TemporaryDirectory() as folder:
        for path in sorted(_RUNTIME.glob("*.py")):
            files[f"submarine_runtime/{path.name}"] = path.read_bytes()
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            # An absolute name: no file of the bundle's can be meant by it in a traceback.
            name = f"/submarine_runtime/{path.name}"
            py_compile.compile(str(path), f"{folder}/x", name, True, invalidation_mode=mode)
            files[f"submarine_runtime/{path.stem}.pyc"] = Path(folder, "x").read_bytes()
    packed = BytesIO()
    with ZipFile(packed, "w") as file:
        for name, data in files.items():
            file.writestr(ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return packed.getvalue()


def chunks(archive: bytes) -> dict[str, str]:
    """Return the archive as environment variables."""
    text = base64.b64encode(archive).decode()
    pieces = [text[start : start + _CHUNK_SIZE] for start in range(0, len(text), _CHUNK_SIZE)]
    return {f"{CHUNK}{number}": piece for number, piece in enumerate(pieces)}


RUNTIME = _runtime()
"""The content of `RUNTIME_FILE`."""

RELEASE = hashlib.sha256(BEGIN.encode() + RUNTIME).hexdigest()
"""Tells what is sent by one release from what is sent by another."""
