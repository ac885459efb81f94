"""Runs a task whose files are there already, and writes how it ended: on a shared disk, in a pod.

Slurm, Kubernetes and clusters that others write start it. ``python -I …/launcher.py FOLDER TASK…``
is one of several equal processes, one for each task, and ``SLURM_PROCID`` says which; elsewhere
there is one task alone. A task's folder has ``launch.json``; ``node``, ``started.json``, the logs,
and at last ``exit`` are written here, see "What a container writes" in docs/clusters.md.
"""

# ruff: noqa: PTH105, PTH108, PTH109, PTH112, PTH117, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # as type checkers have it

if TYPE_CHECKING:
    from typing import Any

ASKED = "asked-to-end"
"""Each line of it, TERM or KILL, is a signal for the task, or one of `QUESTIONS`. It is there from
the start: what is not there a shared disk may say for a minute after it has come."""

QUESTIONS = ("asked/stacks", "asked-main/stacks", "peer-failed/frames")
"""Files that the task has the kernel tell of. That tells of what this machine writes, and not of
what another one writes on a shared disk: so they are written here."""

BEGUN = "begun"
"""Whoever makes it runs the task, and holds its lock."""

_LOOKS_EVERY = 0.2  # seconds between two looks for what is asked: a question to the disk's server
_LIBC, _OURS = ctypes.CDLL(None), os.getpid()
_PDEATHSIG = 1  # PR_SET_PDEATHSIG: the signal that a child gets when its parent is gone
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: what loses its parent becomes ours
_INSIDE_ASKED = "inside-asked.json"


def main(words: list[str]) -> int:
    """Run the task that is this process's; 0 where its end is told, whatever it was.

    Parameters
    ----------
    words
        The folder that has the tasks' folders, and the tasks: this process runs one of them.
    """
    root, *tasks = words
    # Those of one component of a heterogeneous job have consecutive numbers, from whichever on.
    task = tasks[int(os.environ.get("SLURM_PROCID", "0")) % len(tasks)]
    os.umask(0o077)
    os.chdir(os.path.join(root, task))
    try:
        begun = os.open(BEGUN, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return 0  # it was asked for twice: another one runs it, or has run it
    with suppress(OSError):  # a shared disk may have no locks, and nobody asks for this one there
        fcntl.flock(begun, fcntl.LOCK_EX)
    with open("launch.json") as file:
        launch = json.load(file)
    here = ".".join(map(str, sys.version_info[:2]))
    if launch.get("release", here) != here:  # values travel between the same releases only
        sys.exit(f"Python {here} is there, and the job was made by Python {launch['release']}")
    named = os.environ.get("SLURMD_NODENAME") or os.environ.get("SUBMARINE_NODE")
    _write("node", named or os.uname().nodename)
    _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    # `scancel` by hand asks all processes of the job to end: this one stays, to tell of it.
    early: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: early.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    before = _oom_kills()
    code = _run(launch, early)
    _end_rest()
    _pack(launch)
    code = code if code >= 0 else 128 - code
    _write("exit", f"{code}{' oom' * (_oom_kills() != before)}\n")
    return 0


def _run(launch: dict[str, Any], early: list[int]) -> int:
    environment = _environment(launch)
    gpus = [gpu for gpu in environment["CUDA_VISIBLE_DEVICES"].split(",") if gpu]
    _write("started.json", json.dumps({"at": [time.time(), time.monotonic()], "gpus": gpus}))
    with open("stdout", "ab") as stdout, open("stderr", "ab") as stderr:
        task = subprocess.Popen(  # noqa: S603 - the job's own program
            launch["command"],
            env=environment,
            cwd=launch["workdir"],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=_begin_child,  # noqa: PLW1509 - no threads here
        )
    if launch.get("passes_on"):  # in a pod nobody else hears of its end
        signal.signal(signal.SIGTERM, lambda *_: _ask_to_end(task.pid))
        if early:  # it came while the task was being started
            _ask_to_end(task.pid)
    heard, let_in = 0, b""
    while task.poll() is None:
        signal.sigtimedwait({signal.SIGCHLD}, _LOOKS_EVERY)
        _let_go_of_others(task.pid)
        asked = _read_asked(heard)
        heard += len(asked)
        for word in asked.decode("ascii", "replace").split():
            if word in QUESTIONS:
                _ask(word, task.pid)
                continue
            with suppress(ProcessLookupError):
                os.killpg(task.pid, signal.SIGTERM if word == "TERM" else signal.SIGKILL)
        let_in = _let_inside(launch, environment, task.pid, let_in)
    return int(task.returncode)


def _read_asked(heard: int) -> bytes:
    """Return the lines since the first `heard` bytes; nothing where that cannot be read now."""
    # A shared disk may fail for a moment: were that our end, it would be the task's, too.
    with suppress(OSError), open(ASKED, "rb") as file:
        file.seek(heard)
        said = file.read()
        return said[: said.rfind(b"\n") + 1]
    return b""


def _ask(question: str, pid: int) -> None:
    """Ask the task; nobody is asked where its code has not begun, or cannot hear of it."""
    with suppress(Exception):  # an image's Python, say, that cannot read it: then nobody knows
        runtime = os.path.dirname(os.path.dirname(__file__))
        sys.path += [runtime] * (runtime not in sys.path)  # this file is run by itself
        from submarine_runtime.stacks import USED, used, with_use  # noqa: PLC0415 - to ask alone

        with suppress(FileNotFoundError):  # what it had used before says nothing of now
            os.unlink(USED)
        _write(USED, with_use(*used([pid])[0], b"").decode())
    with suppress(OSError), open(f"{question}.asked", "w"):
        os.replace(f"{question}.asked", question)


def _let_go_of_others(pid: int) -> None:
    """Take the ends of all children but the task `pid`: its orphans, which are ours.

    They would hold a number each, of which the task's limit allows so many, until it ends.
    """
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == pid:  # then it is over, and `_end_rest` takes what is left
                return
            os.waitpid(ended.si_pid, 0)


def _environment(launch: dict[str, Any]) -> dict[str, str]:
    """Return the task's environment: the job's own, what the cluster tells, the GPUs it granted."""
    tells = launch.get("tells", "SLURM")
    told = {key: value for key, value in os.environ.items() if key.startswith(tells)}
    given: dict[str, str] = launch["environment"]
    python = launch["command"][0]
    # What the job begins, and who goes inside it, find its Python first, as in an environment that
    # is activated: its image may have another one.
    if "PATH" in told and os.path.isabs(python):
        told["PATH"] = os.pathsep.join((os.path.dirname(python), told["PATH"]))
    return {**told, **given, "CUDA_VISIBLE_DEVICES": _granted(launch["gpus"])}


def _granted(gpus: int | list[str]) -> str:
    """Return the GPUs that the task may see, as CUDA has them: those named, or so many."""
    if not isinstance(gpus, int):
        return ",".join(gpus)
    if not gpus:
        return ""
    if "SLURM_PROCID" in os.environ:
        return os.environ.get("CUDA_VISIBLE_DEVICES", "")
    # A pod has no GPUs but its own. A device plugin names them, or the first ones are they.
    named = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    by_number = ",".join(map(str, range(gpus)))
    return by_number if named in ("", "all", "none", "void") else named


def _ask_to_end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)


def _let_inside(
    launch: dict[str, Any], environment: dict[str, str], pid: int, before: bytes
) -> bytes:
    """Begin a server beside the task where somebody asks for one; return the question."""
    try:
        with open(_INSIDE_ASKED, "rb") as file:
            asked = file.read()
    except OSError:  # nobody asks, or the disk fails for a moment
        return before
    if asked != before:
        try:
            subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", launch["inside"], os.getcwd(), str(pid)],
                env=environment,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                preexec_fn=_begin_child,  # noqa: PLW1509 - no threads here
            )
        except OSError:  # the task has used up its limit of processes: the next look tries again
            return before
    return asked


def _begin_child() -> None:
    """Have a child hear of its own children, and end with this process: else it is nobody's."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    _LIBC.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != _OURS:  # it went before the line above
        os._exit(1)


def _end_rest() -> None:
    """Kill what the task has left behind, and wait until it is gone."""
    own = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    while True:
        with open(own) as file:
            for child in file.read().split():
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _pack(launch: dict[str, Any]) -> None:
    """Pack what the task has left as artifacts."""
    # Where that cannot begin they are lost, and how the task ended is told all the same.
    with suppress(OSError), open("stderr", "ab", buffering=0) as stderr:
        try:
            if os.path.isdir("artifacts") and os.listdir("artifacts"):
                pack = [sys.executable, "-I", launch["artifacts"], "artifacts", "."]
                subprocess.run(pack, stderr=stderr, check=False)  # noqa: S603 - our own program
        except OSError as error:
            stderr.write(f"submarine: its artifacts cannot be kept: {error.strerror}\n".encode())


def _oom_kills() -> list[str]:
    with open("/proc/vmstat") as file:
        return file.read().partition("oom_kill ")[2].split()[:1]


def _write(name: str, text: str) -> None:
    """Write a file that is seen whole or not at all."""
    with open("." + name, "w") as file:
        file.write(text)
    os.replace("." + name, name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
