"""The first thing that runs in a container: unpack the payload, see which GPUs are ours, go on.

It is sent as text and therefore imports the standard library alone, and of that what takes no time:
the user's first line waits for it. What it writes lies in the container's log folder, where the
NodeManager shows it: ``started.json`` before the runtime takes this process over, then the
runtime's own files.
"""

# pathlib takes 10 ms to import.
# ruff: noqa: PTH102, PTH103, PTH105, PTH109, PTH123

from __future__ import annotations

# The C halves of `base64` and `socket`: the other halves import re, selectors and enum, 10 ms each.
import _signal  # type: ignore[import-not-found]
import _socket
import binascii
import fcntl
import os
import sys
import time
import zlib

from submarine_runtime.webhdfs import fetch  # not sent: its source is, in place of this line

CHUNK = "SUBMARINE_PAYLOAD_"
URL = "SUBMARINE_PAYLOAD_URL"
SHIP = "SUBMARINE_SHIP"
SAVE = "SUBMARINE_SAVE"
EVENTS = "SUBMARINE_EVENTS"
STARTED = "started.json"
TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PATIENCE = 3.0
_OWN = "/ws/v1/node/resources/yarn.io%2Fgpu"


def boot() -> None:
    """Become the task's runtime."""
    # It asks for the model (`submarine_runtime.saving`), and comes to all processes of the task.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGQUIT})
    logs = os.environ.get("SUBMARINE_TASK_DIR") or os.environ["LOG_DIRS"].split(",")[0]
    job = f"{os.getcwd()}/job"
    _unpack(zlib.decompress(_payload()), job)
    sys.path.insert(0, job)
    from submarine_runtime import plainjson  # noqa: PLC0415 - unpacked just now

    with open(f"{job}/task.json") as file:
        plan = plainjson.loads(file.read())
    _refuse_other_python(plan.pop("python", ""))
    environment = {**os.environ, **plan.pop("environment")}
    gpus = _granted(plan.pop("gpus"), plainjson.loads)
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    environment["SUBMARINE_TASK_DIR"] = logs
    environment[SAVE] = os.getcwd()
    if "SUBMARINE_TASK" not in environment:  # one plan for all tasks of a role: skein numbers them
        role, _, number = os.environ["SKEIN_CONTAINER_ID"].rpartition("_")
        environment["SUBMARINE_TASK"] = plan["task"] = f"{role}-{number}"
    if not os.access(environment.get("HOME", ""), os.W_OK):
        environment["HOME"] = os.getcwd()  # YARN's own default is a folder for nobody
    plan.update(bundle=f"{job}/bundle", workdir=plan["workdir"] or os.getcwd())
    _write(logs, "task.json", plainjson.dumps(plan))
    at = [time.time(), time.monotonic()]
    told = {"at": at, "host": os.uname().nodename, "gpus": gpus, "pid": os.getpid()}
    told["python"] = ".".join(map(str, sys.version_info[:3]))
    _write(logs, STARTED, plainjson.dumps(told))
    from submarine_runtime import eventpack  # noqa: PLC0415 - as above

    environment["SUBMARINE_LOGDIR"] = f"{os.getcwd()}/logdir"
    board = environment.pop(EVENTS, ""), environment["SUBMARINE_TASK"]
    eventpack.start(environment["SUBMARINE_LOGDIR"], f"{logs}/{eventpack.LOG}", os.getpid(), *board)
    if there := environment.pop(SHIP, ""):
        # This folder cannot be reached from outside: its files go to HDFS while it is filled.
        from submarine_runtime import ship  # noqa: PLC0415 - as above

        ship.start(logs, there, os.environ["CONTAINER_ID"], os.getppid())
    runtime = f"{job}/submarine_runtime/__main__.py"
    os.execve(sys.executable, [sys.executable, "-u", runtime, logs], environment)  # noqa: S606 - no shell is wanted


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
        os.makedirs(f"{folder}/{name}".rpartition("/")[0], 0o700, exist_ok=True)
        opened = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(opened, "wb") as file:
            file.write(content[at - size : at])


def _granted(count: int, loads: Callable[[str], Any]) -> list[str] | None:
    """Return the UUIDs of the GPUs that this container was given, else their minor numbers.

    None where the NodeManager does not tell: then it has hidden all others itself, by cgroups.
    """
    if not count:
        return []
    try:
        told = loads(_node_says(os.environ["NM_HOST"], int(os.environ["NM_HTTP_PORT"])))
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


def _node_says(host: str, port: int) -> str:
    """Return what the NodeManager says of its GPUs; by HTTP/1.0, so that nothing is chunked."""
    family, kind, protocol, _, address = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM)[0]
    connection = _socket.socket(family, kind, protocol)
    try:
        connection.settimeout(_PATIENCE)
        connection.connect(address)
        asked = f"GET {_OWN} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n\r\n"
        connection.send(asked.encode())
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    finally:
        connection.close()
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
    if os.lstat(folder).st_uid != os.getuid():  # not what a link leads to
        return None
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


def _write(folder: str, name: str, content: str) -> None:
    with open(f"{folder}/.{name}", "w") as file:
        file.write(content)
    os.replace(f"{folder}/.{name}", f"{folder}/{name}")


if __name__ == "__main__":
    boot()
