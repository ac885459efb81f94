"""The first thing that runs in a container: unpack the payload, and go on with the runtime in it.

It is sent as text and therefore imports the standard library alone, and of that what takes no time:
the user's first line waits for it.
"""

# pathlib takes 10 ms to import.
# ruff: noqa: PTH102, PTH103, PTH109, PTH112, PTH123

from __future__ import annotations

# The C halves of `base64` and `socket`: the other halves import re, selectors and enum, 10 ms each.
import _signal  # type: ignore[import-not-found]
import _socket
import binascii
import os
import sys
import zlib

from submarine_runtime.webhdfs import fetch  # not sent: its source is, in place of this line

CHUNK = "SUBMARINE_PAYLOAD_"
URL = "SUBMARINE_PAYLOAD_URL"
RELEASE = "SUBMARINE_RELEASE"
"""The notebook's Python, which ours has to be a release of."""

GPUS = "SUBMARINE_GPUS"
"""How many GPUs the container was asked for with."""

RUNTIME = "submarine_runtime.zip"
"""A file beside the container's script: Python imports from it."""


_PATIENCE = 3.0
_OWN = "/ws/v1/node/resources/yarn.io%2Fgpu"


def boot() -> None:
    """Become the task's runtime."""
    # It asks for the model (`submarine_runtime.saving`), and comes to all processes of the task.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGQUIT})
    count = int(os.environ.pop(GPUS, "0"))
    node = _ask_node() if count else None
    _refuse_other_python(os.environ.pop(RELEASE, ""))
    here = os.getcwd()
    _unpack(zlib.decompress(_payload()), f"{here}/job")
    sys.path[:] = [f"{here}/{RUNTIME}", *(path for path in sys.path if path not in ("", here))]
    from submarine_runtime.container import begin  # noqa: PLC0415 - found by the line above

    begin(f"{here}/job", count, node)


def _ask_node() -> _socket.socket | Exception:
    """Ask the NodeManager for its GPUs; it runs a program before it answers.

    By HTTP/1.0, so that nothing is chunked.
    """
    try:
        host, port = os.environ["NM_HOST"], int(os.environ["NM_HTTP_PORT"])
        # As bytes: a text would be encoded as IDNA, whose module takes 15 ms to import.
        found = _socket.getaddrinfo(host.encode(), port, 0, _socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        node = _socket.socket(family, kind, protocol)
        node.settimeout(_PATIENCE)
        node.connect(address)
        asked = f"GET {_OWN} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n\r\n"
        node.send(asked.encode())
    except (OSError, ValueError, KeyError) as error:
        return error
    return node


def _refuse_other_python(wanted: str) -> None:
    """End where no warm master has tried this interpreter before, and it is another release."""
    mine = ".".join(map(str, sys.version_info[:3]))
    if wanted and wanted.split(".")[:2] != mine.split(".")[:2]:
        sys.exit(
            f"submarine: the notebook has Python {wanted}, and {sys.executable} here is {mine}: "
            "what was sent cannot be loaded. Send the notebook's own environment "
            "(--environment pack), or name an interpreter of the same release."
        )


def _payload() -> bytes:
    if urls := os.environ.pop(URL, ""):
        fetch(urls, "payload.z")
        with open("payload.z", "rb") as file:
            return file.read()
    chunks: list[str] = []
    while (chunk := os.environ.pop(f"{CHUNK}{len(chunks)}", None)) is not None:
        chunks.append(chunk)
    return binascii.a2b_base64("".join(chunks))


def _unpack(content: bytes, folder: str) -> None:
    """Write the files of a payload; `payload.pack` says how they lie in it."""
    os.mkdir(folder, 0o700)
    at = 0
    while at < len(content):
        end = content.index(b"\n", at)
        name_size, size = map(int, content[at:end].split())
        at = end + 1 + name_size + size
        name = content[end + 1 : end + 1 + name_size].decode()
        below = f"{folder}/{name}".rpartition("/")[0]
        if not os.path.isdir(below):
            os.makedirs(below, 0o700)
        opened = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(opened, "wb") as file:
            file.write(content[at - size : at])


if __name__ == "__main__":
    boot()
