"""From a YARN container to the task in it: which GPUs are ours, what is told, then the task.

`boot` has unpacked the payload. What is written lies in the container's log folder, where the
NodeManager shows it: ``started.json``, then the runtime's own files.
"""

# pathlib takes 10 ms to import.
# ruff: noqa: PTH103, PTH105, PTH109, PTH123

from __future__ import annotations

# The C half of `socket`: the other half imports selectors and enum.
import _socket
import fcntl
import os
import sys
import time

from submarine_runtime import eventpack, plainjson
from submarine_runtime.saving import PLACE

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import NoReturn

SHIP = "SUBMARINE_SHIP"
EVENTS = "SUBMARINE_EVENTS"
STARTED = "started.json"

_PATIENCE = 3.0
_ANEW = (
    "import sys; sys.path[:] = [sys.argv[1], *filter(None, sys.path)];"
    " from submarine_runtime.container import go_on; go_on(sys.argv[2])"
)


def begin(job: str, count: int, node: _socket.socket | Exception | None) -> NoReturn:
    """Tell that the task has started, and go on with it.

    Parameters
    ----------
    job
        The folder that the payload was unpacked to.
    count
        How many GPUs the container was asked for with.
    node
        Where the NodeManager answers which GPUs it has, or why it was not asked; None without GPUs.
    """
    logs = os.environ.get("SUBMARINE_TASK_DIR") or os.environ["LOG_DIRS"].split(",")[0]
    with open(f"{job}/task.json") as file:
        plan = plainjson.loads(file.read())
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
    gpus = _granted(count, node)
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
    # `leave` notes which files are open: those of the leases are none of the user's.
    from submarine_runtime.task import main  # noqa: PLC0415

    main(logs)


def _granted(count: int, node: _socket.socket | Exception | None) -> list[str] | None:
    """Return the UUIDs of the GPUs that this container was given, else their minor numbers.

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
