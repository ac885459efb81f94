"""The first thing that runs in a container: unpack the payload, see which GPUs are ours, go on.

It is sent as text (``python -c``) and therefore imports the standard library alone. What it writes
lies in the container's log folder, where the NodeManager shows it: ``started.json`` before the
runtime takes this process over, then the runtime's own files.
"""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import sys
import tarfile
import time
import urllib.request
from pathlib import Path

from submarine_runtime.webhdfs import fetch  # not sent: its source is, in place of this line

CHUNK = "SUBMARINE_PAYLOAD_"
URL = "SUBMARINE_PAYLOAD_URL"
SHIP = "SUBMARINE_SHIP"
STARTED = "started.json"
_PATIENCE = 3.0
_OWN = "yarn.io%2Fgpu"


def boot() -> None:
    """Become the task's runtime."""
    logs = os.environ.get("SUBMARINE_TASK_DIR") or os.environ["LOG_DIRS"].split(",")[0]
    job = Path("job").absolute()
    _unpack(_payload(), job)
    plan = json.loads((job / "task.json").read_text())
    _refuse_other_python(plan.pop("python", ""))
    environment = {**os.environ, **plan.pop("environment")}
    gpus = _granted(plan.pop("gpus"))
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    environment["SUBMARINE_TASK_DIR"] = logs
    if "SUBMARINE_TASK" not in environment:  # one plan for all tasks of a role: skein numbers them
        role, _, number = os.environ["SKEIN_CONTAINER_ID"].rpartition("_")
        environment["SUBMARINE_TASK"] = plan["task"] = f"{role}-{number}"
    if not os.access(environment.get("HOME", ""), os.W_OK):
        environment["HOME"] = str(Path.cwd())  # YARN's own default is a folder for nobody
    work = Path.cwd() if plan["workdir"] is None else Path(plan["workdir"])
    plan.update(bundle=str(job / "bundle"), workdir=str(work))
    _write(Path(logs, "task.json"), plan)
    at = [time.time(), time.monotonic()]
    told = {"at": at, "host": os.uname().nodename, "gpus": gpus, "pid": os.getpid()}
    told.update(python=".".join(map(str, sys.version_info[:3])))
    _write(Path(logs, STARTED), told)
    if there := environment.pop(SHIP, ""):
        # This folder cannot be reached from outside: its files go to HDFS while it is filled.
        sys.path.insert(0, str(job))
        from submarine_runtime import ship  # noqa: PLC0415 - unpacked just now

        ship.start(logs, there, os.environ["CONTAINER_ID"], os.getppid())
    runtime = job / "submarine_runtime" / "__main__.py"
    os.execve(sys.executable, [sys.executable, "-u", str(runtime), logs], environment)  # noqa: S606 - no shell is wanted


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
        fetch(urls, "payload.tar.gz")
        return Path("payload.tar.gz").read_bytes()
    chunks: list[str] = []
    while (chunk := os.environ.pop(f"{CHUNK}{len(chunks)}", None)) is not None:
        chunks.append(chunk)
    return base64.b64decode("".join(chunks))


def _unpack(payload: bytes, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    with tarfile.open(fileobj=io.BytesIO(payload), mode="r:gz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:  # Python before its security releases of 2023
            archive.extractall(folder)  # noqa: S202 - our own archive


def _granted(count: int) -> list[str] | None:
    """Return the UUIDs of the GPUs that this container was given, else their minor numbers.

    None where the NodeManager does not tell: then it has hidden all others itself, by cgroups.
    """
    if not count:
        return []
    host, port = os.environ.get("NM_HOST"), os.environ.get("NM_HTTP_PORT")
    url = f"http://{host}:{port}/ws/v1/node/resources/{_OWN}"
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=_PATIENCE) as answer:
            told = json.load(answer)
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


def _lease(count: int, devices: list[str]) -> list[str] | None:
    """Choose GPUs on a node that counts them but does not say whose is which.

    YARN's default container executor is such. Containers agree among themselves: the lock of a
    file is the lease of a GPU, and falls free with the last process that has inherited it.
    """
    # Where the node's own administrator or the job's own user wants it; else where all may write.
    folder = os.environ.get("SUBMARINE_GPU_LEASES") or f"/tmp/submarine-gpus-{os.getuid()}"  # noqa: S108 - its owner is checked
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - mode
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


def _write(path: Path, content: object) -> None:
    aside = path.with_name(f".{path.name}")
    aside.write_text(json.dumps(content))
    aside.replace(path)


if __name__ == "__main__":
    boot()
