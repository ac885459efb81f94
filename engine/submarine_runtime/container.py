"""What a YARN container begins with: unpack the payload, see which GPUs are ours, be the task.

What is written lies in the container's log folder, where the NodeManager shows it:
``started.json``, then the runtime's own files.
"""

# pathlib takes 10 ms to import.
# ruff: noqa: PTH102, PTH103, PTH105, PTH109, PTH112, PTH123

from __future__ import annotations

# The C half of `base64`: the other half imports re, 10 ms.
import _signal  # type: ignore[import-not-found]
import binascii
import os
import sys
import time
import zlib

from submarine_runtime import eventpack, plainjson
from submarine_runtime.gpus import ask_node, granted
from submarine_runtime.saving import PLACE

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import NoReturn

CHUNK = "SUBMARINE_PAYLOAD_"
URL = "SUBMARINE_PAYLOAD_URL"
LARGE = "SUBMARINE_PAYLOAD_LARGE"
"""Where the large files of a bundle are: addresses as `URL` has them, `DIGEST` for their name."""

DIGEST = "DIGEST"
GPUS = "SUBMARINE_GPUS"
"""How many GPUs the container was asked for with."""

SHIP = "SUBMARINE_SHIP"
EVENTS = "SUBMARINE_EVENTS"
STARTED = "started.json"

_ANEW = (
    "import sys; sys.path[:] = [sys.argv[1], *filter(None, sys.path)];"
    " from submarine_runtime.container import go_on; go_on(sys.argv[2])"
)


def begin() -> NoReturn:
    """Become the task."""
    # It asks for the model (`submarine_runtime.saving`), and comes to all processes of the task.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGQUIT})
    count = int(os.environ.pop(GPUS, "0"))
    node = ask_node() if count else None
    job = f"{os.getcwd()}/job"
    _unpack(zlib.decompress(_payload()), job)
    logs = os.environ.get("SUBMARINE_TASK_DIR") or os.environ["LOG_DIRS"].split(",")[0]
    with open(f"{job}/task.json") as file:
        plan = plainjson.loads(file.read())
    _fetch_large(plan.pop("large"), f"{job}/bundle")
    for name in plan.pop("beside"):  # files that the script runs by a path from here
        _put_beside(f"{job}/bundle/{name}", f"{plan['workdir'] or os.getcwd()}/{name}")
    environment = {**os.environ, **plan.pop("environment")}
    environment["SUBMARINE_TASK_DIR"] = logs
    environment[PLACE] = os.getcwd()
    if "SUBMARINE_TASK" not in environment:  # one plan for all tasks of a role: skein numbers them
        role, _, number = os.environ["SKEIN_CONTAINER_ID"].rpartition("_")
        environment["SUBMARINE_TASK"] = plan["task"] = f"{role}-{number}"
    if not os.access(environment.get("HOME", ""), os.W_OK):
        environment["HOME"] = os.getcwd()  # YARN's own default is a folder for nobody
    anew = plan.pop("anew")
    plan.update(bundle=f"{job}/bundle", workdir=plan["workdir"] or os.getcwd())
    _write(logs, "task.json", plainjson.dumps(plan))
    environment["SUBMARINE_LOGDIR"] = f"{os.getcwd()}/logdir"
    board = environment.pop(EVENTS, ""), environment["SUBMARINE_TASK"]
    eventpack.start(environment["SUBMARINE_LOGDIR"], f"{logs}/{eventpack.LOG}", os.getpid(), *board)
    # While the node makes up its answer.
    from submarine_runtime import task  # noqa: F401, PLC0415 - what `go_on` runs

    gpus = granted(count, node)
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    at = [time.time(), time.monotonic()]
    told = {"at": at, "host": os.uname().nodename, "gpus": gpus, "pid": os.getpid()}
    told["python"] = ".".join(map(str, sys.version_info[:3]))
    _write(logs, STARTED, plainjson.dumps(told))
    if there := environment.pop(SHIP, ""):
        # This folder cannot be reached from outside: its files go to HDFS while it is filled.
        from submarine_runtime import ship  # noqa: PLC0415 - of such clusters alone

        ship.start(logs, there, os.environ["CONTAINER_ID"], os.getppid())
    # The interpreter itself reads some of what the user sets, and the modules that HTTP needs would
    # hide the user's own of the same names.
    if anew or "http.client" in sys.modules:
        command = [sys.executable, "-u", "-c", _ANEW, sys.path[0], logs]
        os.execve(command[0], command, environment)  # noqa: S606 - no shell is wanted
    os.environ.clear()
    os.environ.update(environment)
    go_on(logs)


def go_on(logs: str) -> NoReturn:
    """Run the task, the runtime last on the path: nothing of the user's is hidden by it."""
    sys.path.append(sys.path.pop(0))
    from submarine_runtime.task import main  # noqa: PLC0415 - after the node was asked

    main(logs)


def _payload() -> bytes:
    if urls := os.environ.pop(URL, ""):
        from submarine_runtime.webhdfs import fetch  # noqa: PLC0415 - of large bundles alone

        fetch(urls, "payload.z")
        with open("payload.z", "rb") as file:
            return file.read()
    chunks: list[str] = []
    while (chunk := os.environ.pop(f"{CHUNK}{len(chunks)}", None)) is not None:
        chunks.append(chunk)
    return binascii.a2b_base64("".join(chunks))


def _fetch_large(files: dict[str, str], folder: str) -> None:
    """Get the files of the bundle that lie in HDFS by themselves."""
    urls = os.environ.pop(LARGE, "")
    for name, digest in files.items():
        from submarine_runtime.webhdfs import fetch  # noqa: PLC0415 - of large values alone

        path = f"{folder}/{name}"
        os.makedirs(path.rpartition("/")[0], 0o700, exist_ok=True)
        fetch(urls.replace(DIGEST, digest), path, digest)


def _put_beside(file: str, place: str) -> None:
    if not os.path.lexists(place):
        os.makedirs(place.rpartition("/")[0], 0o700, exist_ok=True)
        os.link(file, place)


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


def _write(folder: str, name: str, content: str) -> None:
    with open(f"{folder}/.{name}", "w") as file:
        file.write(content)
    os.replace(f"{folder}/.{name}", f"{folder}/{name}")
