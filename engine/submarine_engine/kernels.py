"""Kernels as jobs: a notebook of this machine whose code runs on the cluster.

Such a job runs `submarine_runtime.kernel_server`. Its ports are on loopback here, as those of `job
forward`; its key is read in the job, as a notebook server's token is.
"""

from __future__ import annotations

import json
import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_runtime.kernel_server import AGAIN
from submarine_runtime.kernel_server import KERNEL as KERNEL_FILE

from submarine_engine import inside
from submarine_engine.amounts import count
from submarine_engine.command.parser import parse, to_command
from submarine_engine.errors import ConfigError, JobError, SubmarineError
from submarine_engine.inside import Forward
from submarine_engine.notebooks import (
    IDLE,
    KERNEL,
    await_running,
    in_private_folder,
    raise_ended,
    spec_of,
    submit_server,
    unreadable,
)

INSTALL = ("notebook", "kernel")
"""The verb whose options say what a kernel's job is."""

WITHIN = 300.0
"""Seconds that somebody who opens a notebook waits for the GPUs of its kernel, unless said."""

PROVISIONER = "submarine-provisioner"
"""The entry point of Jupyter's that our provisioner has."""

PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
_OWN = ("cluster", "idle", "within")
_MOST_PORT = 65535
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def kernel_words(values: Mapping[str, Any]) -> list[str]:
    """Return the words that mean the options of ``notebook kernel``, for a kernelspec.

    Parameters
    ----------
    values
        What was chosen, by the name of the option.

    Raises
    ------
    CommandError
        A value is not possible.
    """
    _, _, *words = shlex.split(to_command(spec_of(KERNEL, values)))
    if "name" not in values:
        words = words[2:]
    left = ("--idle", "0", "--post_mortem", "off")
    words = [word for at, word in enumerate(words) if not _is_ours(words, at, left)]
    for key in _OWN:
        if key in values:
            value = values[key]
            words += [f"--{key}", f"{value:g}" if isinstance(value, float) else str(value)]
    return words


def _is_ours(words: Sequence[str], at: int, ours: Sequence[str]) -> bool:
    """Return whether a word is one that every kernel has: an option, or the value of one."""
    options = ours[::2]
    return words[at] in options or (at > 0 and words[at - 1] in options)


def write_kernelspec(values: Mapping[str, Any]) -> Path:
    """Write the kernelspec of kernels that run as jobs; return its folder, named as the kernel is.

    Parameters
    ----------
    values
        Options of ``notebook kernel``, by key.

    Raises
    ------
    CommandError
        A value is not possible.
    ConfigError
        Jupyter is not installed, or its folder cannot be written.
    """
    words = kernel_words(values)
    try:
        from jupyter_core.paths import jupyter_data_dir  # noqa: PLC0415 - the engine needs no Jupyter
    except ImportError as error:
        raise ConfigError(
            "Jupyter is not installed here, so no notebook could choose the kernel",
            fix="pip install 'submarine-notebook[jupyter]' where your Jupyter is",
        ) from error
    name = spec_of(KERNEL, values).name
    name = name if name == KERNEL else f"{KERNEL}-{name}"
    folder = (
        Path(jupyter_data_dir()) / "kernels" / _NOT_IN_A_NAME.sub("-", f"submarine-{name}").lower()
    )
    provisioner = {"provisioner_name": PROVISIONER, "config": {"words": words}}
    spec = {
        "argv": ["python", "-m", "submarine_kernel", "-f", "{connection_file}"],
        "display_name": f"Python on {_where(values)}",
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"debugger": True, "kernel_provisioner": provisioner},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / ".kernel.json"
        aside.write_text(f"{json.dumps(spec, indent=2)}\n", encoding="utf-8")
        aside.replace(folder / "kernel.json")
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}", fix="see whose folder it is"
        ) from error
    return folder


def _where(values: Mapping[str, Any]) -> str:
    """Return where a kernel runs, as Jupyter's menus show it."""
    gpus = values.get("gpus")
    parts = [str(values.get("cluster") or "the cluster")]
    parts += [] if gpus is None else [count(gpus, "GPU")]
    parts += [str(values["name"])] if "name" in values else []
    return ", ".join(parts)


class RemoteKernel:
    """A kernel that runs as a job, with its ports on loopback here.

    Parameters
    ----------
    words
        Options of ``notebook kernel``, as a kernelspec has them.
    folder
        Where the notebook is: on this machine the kernel runs there.
    tell
        Is told, in words, what it waits for.
    notebook
        Whose kernel it is, for people; `folder` for None.

    Raises
    ------
    CommandError, SubmissionError, ClusterError
        As of `submarine_engine.notebooks.submit`.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        tell: Callable[[str], object] = lambda _: None,
        notebook: str | None = None,
    ) -> None:
        self._values = dict(parse([*INSTALL, "install", *words]).values)
        self._values.pop("what", None)
        self._tell = tell
        self._forwards: list[Forward] = []
        self._starts = 0
        self._pid = 0
        self._begins_anew = False
        own = {"idle": float(self._values.get("idle", IDLE))}
        # A job of a notebook's: on YARN the kernels of one Jupyter server share an application.
        asker = notebook or str(folder)
        self.job = submit_server(KERNEL, "kernel_server", self._values, own, tell, folder, asker)

    def connect(self) -> dict[str, Any]:
        """Wait until it is there; return what Jupyter's connection file says, for this machine.

        Raises
        ------
        JobError
            It has no GPU in time, or ends.
        """
        await_running(self.job, self._values.get("within", WITHIN), self._tell)
        told = self._wait_for(1)
        found = told["connection"]
        for name in PORTS:
            # It listens: it has said so.
            forward = Forward(self.job.cluster, self.job.id, found[name], 0, check=False)
            self._forwards.append(forward)
            threading.Thread(target=_serve, args=(forward,), daemon=True).start()
            found[name] = forward.port
        return {**found, "ip": "127.0.0.1", "transport": "tcp", "key": found["key"].encode()}

    def restart(self) -> None:
        """Begin the kernel anew in its job, which keeps its GPUs; its ports and key stay.

        Raises
        ------
        JobError
            The job is over.
        """
        if not self._begins_anew:
            self._shell(f"touch {in_private_folder(AGAIN)}")
        self._begins_anew = False
        self._wait_for(self._starts + 1)

    def kill(self) -> None:
        """Kill the kernel's process so that it is begun anew, which `restart` waits for.

        Raises
        ------
        JobError
            The job is over.
        """
        self._begins_anew = True
        self._shell(f"touch {in_private_folder(AGAIN)}; kill -KILL {self._pid:d}")

    def signal(self, number: int) -> None:
        """Send the signal `number` to the kernel's process and what it has started.

        Raises
        ------
        JobError
            The job is over.
        """
        self._shell(f"kill -{number:d} -{self._pid:d}")

    def close(self, reason: str) -> None:
        """Ask the job to end, for `reason`, and listen no more."""
        for forward in self._forwards:
            forward.close()
        self._forwards = []
        if not self.job.done():
            self.job.cancel(reason)

    def _shell(self, script: str) -> bytes:
        return inside.run(self.job.cluster, self.job.id, ["sh", "-c", script]).stdout

    def _wait_for(self, starts: int) -> dict[str, Any]:
        """Return what it tells of itself once it was begun so often."""
        place = in_private_folder(KERNEL_FILE)
        begun = f"grep -qs '\"starts\": *{starts:d}[,}}]' {place}"
        try:
            said = self._shell(f"until {begun}; do sleep 0.05; done; cat {place}")
        except JobError:
            self.job.wait(30.0)  # it has failed to start; that is said by the job itself
            raise_ended(self.job)
            raise
        try:
            told: dict[str, Any] = json.loads(said)
            connection, self._pid = told["connection"], int(told["pid"])
            right = all(0 < int(connection[name]) <= _MOST_PORT for name in PORTS)
            right = right and isinstance(connection["key"], str) and self._pid > 1
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise unreadable(self.job) from error
        if not right:
            raise unreadable(self.job)
        self._starts = starts
        return told


def _serve(forward: Forward) -> None:
    # OSError: it listens no more; SubmarineError: the job is over.
    with suppress(OSError, SubmarineError):
        forward.serve()
