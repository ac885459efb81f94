"""Starts the task of a YARN container: unpacks the payload, finds its GPUs, runs the task.

The container's shell script begins it. What it writes lies in the container's log folder, where the
NodeManager shows it: ``started.json``, then the files that every task writes.
"""

# ruff: noqa: PTH103
# ruff: noqa: PTH102, PTH103, PTH105, PTH109, PTH112, PTH123

from __future__ import annotations

# The C half of `base64`: the other half imports re, 10 ms.
# The C half of `socket`: the other half imports selectors and enum, 10 ms each.
import _socket
import binascii
import fcntl
import os
import sys
import time
import zlib

from submarine_runtime import eventpack, lean, progress_file, relay, sealing
from submarine_runtime.saving import PLACE

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from typing import NoReturn


# Which GPUs of its node a YARN container was given: those alone may be seen by its task.


_FOLDER = 0o040000  # a folder, and none of the bits by which group and others may write
_CONNECT = 3.0  # seconds: it is this very machine; what drops packets holds up the first line
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


def granted(count: int, node: _socket.socket | Exception | None, program: str) -> list[str] | None:
    """Return the UUIDs of the GPUs that this container was given, else their minor numbers.

    Parameters
    ----------
    count
        How many it was asked for with.
    node
        What `ask_node` returned; None without GPUs.
    program
        Lists the GPUs where the node wants to know who asks, see `SMI`.

    Returns
    -------
    list of str or None
        None where nobody tells: then the NodeManager has hidden all others itself, by cgroups.
    """
    if node is None:
        return []
    try:
        told = lean.loads(_answer(node))
        devices = (told.get("gpuDeviceInformation") or {}).get("gpus") or []
        names = {gpu["minorNumber"]: gpu.get("uuid") or str(gpu["minorNumber"]) for gpu in devices}
        me = os.environ["CONTAINER_ID"]
        assigned = told.get("assignedGpuDevices") or []
        mine = [device["minorNumber"] for device in assigned if device["containerId"] == me]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # Who speaks TLS hangs up on who does not.
        refused = isinstance(error, _RefusedError | ConnectionResetError)
        seen = _visible(program) if refused else []
        if len(seen) >= count:
            return seen if len(seen) == count else _lease(count, seen)
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
    if not answer.startswith(b"HTTP/"):
        raise _RefusedError("it speaks no plain HTTP")
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(None, 2)[1:2]
    if status != [b"200"]:
        kind = _RefusedError if status in ([b"401"], [b"403"]) else OSError
        raise kind(f"it answers {head[:40].decode('ascii', 'replace')!r}")
    return body.decode()


class _RefusedError(OSError):
    """The NodeManager asks for Kerberos or a client's certificate, and no container has those."""


def _visible(program: str) -> list[str]:
    """Return the UUIDs of the GPUs that this container sees, of a node that tells nothing.

    None where GPUs are divided (MIG): those parts are given by cgroups alone.
    """
    # imported late: on such nodes alone
    import re  # noqa: PLC0415
    import subprocess  # noqa: PLC0415

    try:
        told = subprocess.run(  # noqa: S603 - the program that NodeManagers ask, too
            [program, "-q", "-x"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=True,
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return []
    if re.search(r"<current_mig>\s*Enabled", told):
        return []
    return sorted(set(re.findall(r"<uuid>\s*(GPU-[0-9A-Za-z-]{1,80})\s*</uuid>", told)))


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
        time.sleep(0.05)  # a process that ends, or a container that got too few, gives some back
    if len(held) < count:
        sys.stderr.write(f"submarine: only {len(held)} of {count} GPUs are free on this node\n")
    for descriptor in held.values():
        os.set_inheritable(descriptor, True)
    return list(held)


SMI = "SUBMARINE_NVIDIA_SMI"
"""The program that tells of a node's GPUs, where its owner names another than the PATH's."""

CHUNK = "SUBMARINE_PAYLOAD_"
"""What came sealed, in pieces: variables as JSON, and on the next line the payload itself."""

RESULTS_KEY = "results.key"
"""In a payload, the job's key: what results are marked with is made of it."""

URL = "SUBMARINE_PAYLOAD_URL"
LARGE = "SUBMARINE_PAYLOAD_LARGE"
"""Where the large files of a bundle are: addresses as `URL` has them, `DIGEST` for their name."""

DIGEST = "DIGEST"
GPUS = "SUBMARINE_GPUS"
"""How many GPUs the container was asked for with."""

SHIP = "SUBMARINE_SHIP"
EVENTS = "SUBMARINE_EVENTS"
STARTED = eventpack.STARTED

_ANEW = (
    "import sys; sys.path[:] = [sys.argv[1], *filter(None, sys.path)];"
    " from submarine_runtime.container import go_on; go_on(sys.argv[2])"
)


def begin() -> NoReturn:
    """Become the task."""
    os.environ[PLACE] = os.getcwd()  # what is fetched below looks there, too
    count = int(os.environ.pop(GPUS, "0"))
    node = ask_node() if count else None
    job = f"{os.getcwd()}/job"
    _unpack(zlib.decompress(_payload()), job)
    logs = os.environ.get("SUBMARINE_TASK_DIR") or os.environ["LOG_DIRS"].split(",")[0]
    with open(f"{job}/task.json") as file:
        plan = lean.loads(file.read())
    _fetch_large(plan.pop("large"), f"{job}/bundle")
    for name in plan.pop("beside"):  # files that the script runs by a path from here
        _put_beside(f"{job}/bundle/{name}", f"{plan['workdir'] or os.getcwd()}/{name}")
    environment = {**os.environ, **plan.pop("environment")}
    environment["SUBMARINE_TASK_DIR"] = logs
    environment[PLACE] = os.environ[PLACE]  # of what is begun beside the task, too
    if "SUBMARINE_TASK" not in environment:  # one plan for all tasks of a role: skein numbers them
        role, _, number = os.environ["SKEIN_CONTAINER_ID"].rpartition("_")
        environment["SUBMARINE_TASK"] = plan["task"] = f"{role}-{number}"
    if not os.access(environment.get("HOME", ""), os.W_OK):
        environment["HOME"] = os.getcwd()  # YARN's own default is a folder for nobody
    anew = plan.pop("anew")
    plan.update(bundle=f"{job}/bundle", workdir=plan["workdir"] or os.getcwd())
    if os.access(f"{job}/{RESULTS_KEY}", os.R_OK):  # only where it is, not what is in it
        plan["key"] = f"{job}/{RESULTS_KEY}"
        _narrow(plan["key"], plan["job_id"], plan["task"], os.environ["CONTAINER_ID"])
    mark_process(logs, plan.get("attempt", 1))
    plan["credentials"] = os.getcwd()  # skein's, by which the container reaches its master
    _write(logs, "task.json", lean.dumps(plan))
    _give_folders(environment)
    board = environment.pop(EVENTS, ""), environment["SUBMARINE_TASK"]
    calls = plan.pop("calls", False)
    beside = relay.Relay(
        plan["job_id"],
        os.getcwd(),
        os.getpid(),
        environment,
        calls=calls,
        peers=plan.get("peers", 1),
    )
    eventpack.start(environment["SUBMARINE_LOGDIR"], f"{logs}/{eventpack.LOG}", beside, *board)
    # While the node makes up its answer.
    from submarine_runtime import task  # noqa: F401, PLC0415 - what `go_on` runs

    gpus = granted(count, node, environment.pop(SMI, "nvidia-smi"))
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    _tell_of_start(logs, gpus)
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


def _give_folders(environment: dict[str, str]) -> None:
    """Name the folders for TensorBoard's events and for what the task leaves."""
    environment["SUBMARINE_LOGDIR"] = f"{os.getcwd()}/logdir"
    environment["SUBMARINE_OUTPUT_PATH"] = f"{os.getcwd()}/artifacts"
    os.mkdir("artifacts", 0o700)  # `application` has what is in it put beside the logs at the end


def _tell_of_start(logs: str, gpus: list[str] | None) -> None:
    at = [time.time(), time.monotonic()]
    told = {"at": at, "host": os.uname().nodename, "gpus": gpus, "pid": os.getpid()}
    told["python"] = ".".join(map(str, sys.version_info[:3]))
    _write(logs, STARTED, lean.dumps(told))


def mark_process(logs: str, attempt: int) -> None:
    """Mark when this process was started, by proc(5) to 10 ms; its program may be replaced.

    Parameters
    ----------
    logs
        The task's folder.
    attempt
        Which attempt of the job this is, from 1 on; noted in the environment, too.
    """
    age = 0.0
    with lean.suppress(OSError, ValueError, IndexError), open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    os.environ["SUBMARINE_ATTEMPT"] = str(attempt)
    progress_file.note_start(logs, progress_file.PROCESS, time.monotonic() - max(0.0, age))
    progress_file.flush_start()


def go_on(logs: str) -> NoReturn:
    """Run the task of the folder `logs`, the runtime last on the path: it hides no other module."""
    sys.path.append(sys.path.pop(0))
    from submarine_runtime.task import main  # noqa: PLC0415 - after the node was asked

    main(logs)


def _payload() -> bytes:
    payload = _opened()
    if urls := os.environ.pop(URL, ""):
        from submarine_runtime.webhdfs import fetch  # noqa: PLC0415 - of large bundles alone

        fetch(urls, "payload.z")
        with open("payload.z", "rb") as file:
            return file.read()
    return payload


def _opened() -> bytes:
    """Open what came sealed: put its variables into the environment, return the rest."""
    chunks: list[str] = []
    while (chunk := os.environ.pop(f"{CHUNK}{len(chunks)}", None)) is not None:
        chunks.append(chunk)
    with open(sealing.KEY_FILE, "rb") as file:
        told = sealing.unseal(binascii.a2b_base64("".join(chunks)), file.read())
    variables, _, rest = told.partition(b"\n")
    os.environ.update(lean.loads(variables.decode()))
    return rest


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


def _narrow(path: str, *owner: str) -> None:
    """Put the key of this container alone into the place of its job's."""
    with open(path, "r+b") as file:
        key = sealing.attempt_key(file.read(), *owner)
        file.seek(0)
        file.write(key)


def _write(folder: str, name: str, content: str) -> None:
    with open(f"{folder}/.{name}", "w") as file:
        file.write(content)
    os.replace(f"{folder}/.{name}", f"{folder}/{name}")
