"""TensorBoard in a container of its own, beside a job: without a GPU, over events in HDFS.

Sent as text, with `job_hdfs` as ``submarine_hdfs`` beside it. Nobody is asked who they are here:
the path that it lies under cannot be guessed, and is told in the container's log folder alone, from
where the keeper brings it to the application's own pages. It asks HDFS by a token, and hears of the
next one as the job's tasks do.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

TOLD = "board.json"
LOGDIR = "SUBMARINE_BOARD_LOGDIR"
ACCESS = "SUBMARINE_BOARD_ACCESS"
"""Variables of fsspec: JSON, which the shell of a container would not leave as it is."""
TASKS = "SUBMARINE_BOARD_TASKS"
JOB = "SUBMARINE_BOARD_JOB"
PLACE = "SUBMARINE_SAVE"
"""As `submarine_runtime.saving` has it: where the files lie that the container was sent."""

_EVERY = 5.0  # seconds: TensorBoard itself reads anew every five, so nobody sees more of sooner
_AFTER = 60.0  # seconds: the last events of the job are read and looked at; its memory is then free
_LONGEST = 7 * 86400.0  # seconds: as long as HDFS lets a delegation token live unless configured
_OVER = "@over"


def main(folder: str) -> None:
    """Serve until the job's tasks are over, and a little longer.

    Parameters
    ----------
    folder
        The container's log folder, in which the address is told.
    """
    sys.path.append(f"{Path.cwd()}/submarine_runtime.zip")
    unseal = import_module("submarine_runtime.sealing").unseal
    relay = import_module("submarine_runtime.relay").Relay
    tokens = import_module("submarine_runtime.delegation").FILE
    sys.path.pop()
    access = unseal(base64.b64decode(os.environ.pop(ACCESS)), Path("submarine.key").read_bytes())
    os.environ.update(json.loads(access))
    os.environ[PLACE] = str(Path.cwd())
    import fsspec  # noqa: PLC0415 - of the job's own environment

    hdfs = import_module("submarine_hdfs").Hdfs  # sent beside this file
    fsspec.register_implementation("hdfs", patient(hdfs), clobber=True)
    logdir, tasks = os.environ[LOGDIR], os.environ[TASKS].split(",")
    key = secrets.token_urlsafe(24)
    sys.modules["tensorboard.compat.notf"] = ModuleType("tensorboard.compat.notf")
    from tensorboard import default, program  # noqa: PLC0415 - likewise

    ports = []

    class Server(program.WerkzeugServer):  # type: ignore[misc] # TensorBoard is not typed
        def __init__(self, app: object, flags: object) -> None:
            super().__init__(app, flags)
            ports.append(self.server_port)

    board = program.TensorBoard(plugins=default.get_plugins(), server_class=Server)
    board.configure(
        ["tensorboard", "--logdir", logdir, "--host", "0.0.0.0", "--port", "0",  # noqa: S104 - the application's master proxies it
         "--load_fast", "false", "--path_prefix", f"/{key}", "--reload_interval", "5",
         "--reload_multifile", "true"],
    )  # fmt: skip
    board.launch()
    told = {"target": f"http://{os.environ['NM_HOST']}:{ports[0]}/{key}"}
    aside = Path(folder, f".{TOLD}")
    aside.write_text(json.dumps(told))
    aside.rename(Path(folder, TOLD))
    variables = {tokens: os.environ.get(tokens, "")}
    messages = relay(os.environ[JOB], str(Path.cwd()), os.getpid(), variables)
    begun, over_at = time.monotonic(), None
    while time.monotonic() - begun < _LONGEST:
        time.sleep(_EVERY)
        messages.step()
        if over_at is None and _are_over(hdfs(), logdir, tasks):  # waits for nothing: see above
            over_at = time.monotonic()
        if over_at is not None and time.monotonic() - over_at > _AFTER:
            return


def patient(kind: Any) -> Any:  # noqa: ANN401 - a class of fsspec's, which is not typed
    """Return a file system that waits while HDFS is away, or the next token is on its way.

    TensorBoard looks for new runs in one thread, which any error of that ends: it would show
    nothing new from then on.

    Parameters
    ----------
    kind
        A class of file systems of fsspec's, which what is returned is derived from.
    """

    class Patient(kind):  # type: ignore[misc] # as above
        def _call(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - fsspec's own
            while True:
                try:
                    return super()._call(*arguments, **options)
                except FileNotFoundError:  # noqa: PERF203 - a request takes longer
                    raise
                except (OSError, RuntimeError):  # of requests; what HDFS refuses
                    time.sleep(_EVERY)

    return Patient


def _are_over(files: object, logdir: str, tasks: list[str]) -> bool:
    try:
        return all(
            files.exists(f"{logdir}/{task}/{_OVER}")  # type: ignore[attr-defined] # fsspec's
            for task in tasks
        )
    except Exception:  # noqa: BLE001 - HDFS is away for a while, in whatever words
        return False


if __name__ == "__main__":
    main(sys.argv[1])
