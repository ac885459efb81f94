"""Which GPUs of its node a YARN container was given: those alone may be seen by its task."""

# pathlib takes 10 ms to import.
# ruff: noqa: PTH103

from __future__ import annotations

# The C half of `socket`: the other half imports selectors and enum, 10 ms each.
import _socket
import fcntl
import os
import sys
import time

from submarine_runtime import plainjson

_FOLDER = 0o040000  # a folder, and none of the bits by which group and others may write
_CONNECT = 3.0
_PATIENCE = 20.0  # a busy node answers late; without its answer the task would see every GPU
_OWN = "/ws/v1/node/resources/yarn.io%2Fgpu"


def ask_node() -> _socket.socket | Exception:
    """Ask the NodeManager for its GPUs; it runs a program before it answers.

    By HTTP/1.0, so that nothing is chunked. `granted` takes what is returned.
    """
    try:
        host, port = os.environ["NM_HOST"], int(os.environ["NM_HTTP_PORT"])
        # As bytes: a text would be encoded as IDNA, whose module takes 15 ms to import.
        found = _socket.getaddrinfo(host.encode(), port, 0, _socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        node = _socket.socket(family, kind, protocol)
        node.settimeout(_CONNECT)
        node.connect(address)
        node.settimeout(_PATIENCE)
        asked = f"GET {_OWN} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n\r\n"
        node.send(asked.encode())
    except (OSError, ValueError, KeyError) as error:
        return error
    return node


def granted(count: int, node: _socket.socket | Exception | None) -> list[str] | None:
    """Return the UUIDs of the GPUs that this container was given, else their minor numbers.

    Parameters
    ----------
    count
        How many it was asked for with.
    node
        What `ask_node` returned; None without GPUs.

    Returns
    -------
    list of str or None
        None where the NodeManager does not tell: then it has hidden all others itself, by cgroups.
    """
    if node is None:
        return []
    try:
        told = plainjson.loads(_answer(node))
        devices = (told.get("gpuDeviceInformation") or {}).get("gpus") or []
        names = {gpu["minorNumber"]: gpu.get("uuid") or str(gpu["minorNumber"]) for gpu in devices}
        me = os.environ["CONTAINER_ID"]
        assigned = told.get("assignedGpuDevices") or []
        mine = [device["minorNumber"] for device in assigned if device["containerId"] == me]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.stderr.write(f"submarine: the node does not say which GPUs are ours: {error}\n")
        return None
    if mine:
        return [names.get(minor, str(minor)) for minor in sorted(mine)]
    return _lease(count, [names[minor] for minor in sorted(names)])


def _answer(node: _socket.socket | Exception) -> str:
    """Return what the NodeManager says of its GPUs."""
    if isinstance(node, Exception):
        raise node
    answer = b""
    try:
        while piece := node.recv(1 << 16):
            answer += piece
    finally:
        node.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.split(None, 2)[1:2] != [b"200"]:
        raise OSError(f"it answers {head[:40].decode('ascii', 'replace')!r}")
    return body.decode()


def _lease(count: int, devices: list[str]) -> list[str] | None:
    """Choose GPUs on a node that counts them but does not say whose is which.

    YARN's default container executor is such. Containers agree among themselves: the lock of a
    file is the lease of a GPU, and falls free with the last process that has inherited it.
    """
    # Where the node's own administrator or the job's own user wants it; else where all may write.
    folder = os.environ.get("SUBMARINE_GPU_LEASES") or f"/tmp/submarine-gpus-{os.getuid()}"  # noqa: S108 - its owner is checked
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)  # not what a link leads to
    if found.st_uid != os.getuid() or found.st_mode & 0o170022 != _FOLDER:
        # Who may change it could have two tasks on one GPU, and without it each would see all.
        raise SystemExit(
            f"submarine: {folder} is not a folder that this user alone may write in: remove it, or "
            "let SUBMARINE_GPU_LEASES name another one, for all jobs of this user on this node"
        )
    until = time.monotonic() + _PATIENCE
    while True:
        held: dict[str, int] = {}
        for device in devices:
            if len(held) == count:
                break
            name = "".join(c if c.isalnum() or c in "-." else "_" for c in device)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            descriptor = os.open(f"{folder}/{name}", flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held[device] = descriptor
            except BlockingIOError:
                os.close(descriptor)
        if len(held) == count or time.monotonic() > until:
            break
        for descriptor in held.values():
            os.close(descriptor)
        time.sleep(0.05)
    if len(held) < count:
        sys.stderr.write(f"submarine: only {len(held)} of {count} GPUs are free on this node\n")
    for descriptor in held.values():
        os.set_inheritable(descriptor, True)
    return list(held)
