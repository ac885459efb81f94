"""An image that holds this machine's Python, made of its own files: no registry is asked.

The interpreter is where it is here, so that an environment that was made from it here goes on
working there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

PYTHON_IMAGE = f"localhost/submarine-python:{sys.version_info[0]}.{sys.version_info[1]}"
"""The image of this process' Python; its user is not root."""
PAUSE_IMAGE = "localhost/submarine-pause:1"
"""The same files; it does nothing, and holds a pod's namespaces."""

# What a shell script and a shipped environment ask for.
_TOOLS = (
    "sh", "bash", "env", "cat", "chmod", "cp", "cut", "date", "df", "echo", "false", "grep",
    "gzip", "head", "hostname", "id", "kill", "ln", "ls", "mkdir", "mktemp", "mv", "nice", "ps",
    "readlink", "rm", "rmdir", "sed", "sleep", "sort", "stat", "tail", "tar", "test", "touch",
    "tr", "true", "uname", "wc", "xargs",
)  # fmt: skip
# Wheels bring their own libraries, but for those of the C and C++ compilers and of the C library:
# some of its parts are empty today, and asked for by name all the same.
_LIBRARIES = (
    "libgcc_s.so.1", "libstdc++.so.6", "libgomp.so.1", "libdl.so.2", "libm.so.6", "libpthread.so.0",
    "libresolv.so.2", "librt.so.1", "libutil.so.1",
)  # fmt: skip
_LEFT_OUT = ("site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo")
_ACCOUNTS = "root:x:0:0:root:/root:/bin/sh\nsubmarine:x:{user}:{user}::/srv/submarine:/bin/sh\n"
_GROUPS = "root:x:0:\nsubmarine:x:{user}:\n"
_LIBRARY = re.compile(r"(?:=>\s+)?(/\S+) \(0x")


def write_image(file: Path, user: int) -> None:
    """Write both images as an archive that ``ctr images import`` reads.

    Parameters
    ----------
    file
        Where; what is there is written anew.
    user
        The number of the images' user.

    Raises
    ------
    OSError
        A file of this machine's Python cannot be read, or `file` not be written.
    """
    layer = file.with_suffix(".layer")
    with tarfile.open(layer, "w") as archive:
        _write_layer(archive, user)
    digest = hashlib.sha256()
    with layer.open("rb") as content:
        while piece := content.read(1 << 20):
            digest.update(piece)
    images = {
        PYTHON_IMAGE: {"Cmd": [_interpreter()], "User": f"{user}:{user}", "WorkingDir": "/tmp"},  # noqa: S108
        PAUSE_IMAGE: {"Entrypoint": ["/bin/sleep", "infinity"], "User": f"{user}:{user}"},
    }
    manifest = []
    with tarfile.open(file, "w") as archive:
        for number, (name, config) in enumerate(images.items()):
            path = [f"{Path(_interpreter()).parent}", "/usr/bin", "/bin"]
            told = {
                "architecture": _architecture(),
                "os": "linux",
                "config": {"Env": [f"PATH={':'.join(path)}", "HOME=/srv/submarine"], **config},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest.hexdigest()}"]},
            }
            _write_text(archive, f"{number}.json", json.dumps(told))
            manifest.append(
                {"Config": f"{number}.json", "RepoTags": [name], "Layers": ["layer.tar"]}
            )
        _write_text(archive, "manifest.json", json.dumps(manifest))
        archive.add(layer, "layer.tar")
    layer.unlink()


def _interpreter() -> str:
    """Return the Python that this one's environment was made from."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _write_layer(archive: tarfile.TarFile, user: int) -> None:
    written: set[str] = set()
    for folder, mode, owner in (
        ("/tmp", 0o1777, 0), ("/var/tmp", 0o1777, 0), ("/srv/submarine", 0o700, user),  # noqa: S108
        ("/proc", 0o755, 0), ("/sys", 0o755, 0), ("/dev", 0o755, 0), ("/run", 0o755, 0),
    ):  # fmt: skip
        _write_parents(archive, folder, written)
        written.add(folder)
        entry = tarfile.TarInfo(folder.lstrip("/"))
        entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
        archive.addfile(entry)
    _write_parents(archive, "/etc/passwd", written)
    _write_text(archive, "etc/passwd", _ACCOUNTS.format(user=user))
    _write_text(archive, "etc/group", _GROUPS.format(user=user))
    tools = {f"/bin/{name}": found for name in _TOOLS if (found := shutil.which(name))}
    stdlib = list(_standard_library())
    binaries = [_interpreter(), *tools.values(), *(one for one in stdlib if one.endswith(".so"))]
    files = {path: path for path in [*stdlib, *_libraries(binaries), _interpreter()]} | tools
    for target, source in sorted(files.items()):
        _write_parents(archive, target, written)
        entry = archive.gettarinfo(os.path.realpath(source), target.lstrip("/"))
        entry.uid = entry.gid = 0
        entry.type = tarfile.REGTYPE  # a hard link here need not be one there
        entry.size = Path(source).stat().st_size
        entry.mode |= 0o444
        with Path(source).open("rb") as content:
            archive.addfile(entry, content)
    for name in ("python", "python3", f"python{sys.version_info[0]}.{sys.version_info[1]}"):
        for folder in {"/usr/bin", str(Path(_interpreter()).parent)}:
            if (link := f"{folder}/{name}") != _interpreter():
                _write_parents(archive, link, written)
                entry = tarfile.TarInfo(link.lstrip("/"))
                entry.type, entry.linkname = tarfile.SYMTYPE, _interpreter()
                archive.addfile(entry)


def _write_parents(archive: tarfile.TarFile, path: str, written: set[str]) -> None:
    """Write the folders above a path once: anybody may pass through them there."""
    for folder in reversed(Path(path).parents):
        if str(folder) != "/" and str(folder) not in written:
            written.add(str(folder))
            entry = tarfile.TarInfo(str(folder).lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)


def _write_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), 0o644
    archive.addfile(entry, io.BytesIO(text.encode()))


def _standard_library() -> Iterator[str]:
    """Yield the files of the standard library, without what is installed beside it."""
    for root in sorted({os.path.realpath(sysconfig.get_path(one)) for one in _FOLDERS}):
        for folder, folders, names in os.walk(root):
            folders[:] = [
                one for one in folders if one not in _LEFT_OUT and not one.startswith("config-")
            ]
            for name in names:
                path = f"{folder}/{name}"
                if Path(path).is_file() and not name.endswith(".a"):
                    yield path


_FOLDERS = ("stdlib", "platstdlib")


def _libraries(binaries: Iterable[str]) -> list[str]:
    """Return the shared libraries that programs load, and what wheels take for granted."""
    asked = [*binaries, *_named_libraries()]
    done = subprocess.run(  # noqa: S603 - the C library's own program
        [shutil.which("ldd") or "/usr/bin/ldd", *asked], capture_output=True, text=True, check=False
    )
    return sorted({*_LIBRARY.findall(done.stdout), *_named_libraries()})


def _named_libraries() -> list[str]:
    cache = shutil.which("ldconfig") or "/sbin/ldconfig"
    told = subprocess.run([cache, "-p"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    wanted = [
        re.compile(rf"^\s*{re.escape(name)} .* => (/\S+)$", re.MULTILINE) for name in _LIBRARIES
    ]
    lines = [one.search(told) for one in wanted]
    return [line[1] for line in lines if line]  # the first of several kinds is the machine's own


def _architecture() -> str:
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


__all__ = ["PAUSE_IMAGE", "PYTHON_IMAGE", "write_image"]
