"""skein's driver: one Java process for all jobs of a keeper, and of those after it."""

from __future__ import annotations

import json
import os
import signal
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import skein
from skein.exceptions import DriverError, DriverNotRunningError, SkeinError

from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.folder import KeeperFolder

_T = TypeVar("_T")


class Driver:
    """The way to skein's driver; it is started when it is first needed, and again when it dies.

    It outlives the keeper: one that comes after a kill finds it by ``skein/driver``.

    Parameters
    ----------
    folder
        Its output goes to ``skein/driver.log`` there.
    """

    def __init__(self, folder: KeeperFolder) -> None:
        self._folder = folder
        self._client: skein.Client | None = None
        self._pid: int | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it where it does not run; raises as `submit`."""
        self._call(lambda _client: None)

    def submit(self, application: skein.ApplicationSpec) -> str:
        """Submit an application; return its id.

        Raises
        ------
        ClusterError
            The driver cannot be started, or YARN refuses: in its own words.
        """
        return self._call(lambda client: str(client.submit(application)))

    def connect(self, app_id: str) -> skein.ApplicationClient:
        """Return the way to a running application's master; raises as `submit`."""
        return self._call(lambda client: client.connect(app_id, wait=False))

    def close(self) -> None:
        """Stop the driver, also where the folder that noted it is gone."""
        with self._lock:
            self._client = None
            if self._pid is not None and _is_driver(self._pid):
                with suppress(OSError):
                    os.kill(self._pid, signal.SIGTERM)
            with suppress(OSError):
                self._note.unlink()

    def _call(self, what: Callable[[skein.Client], _T]) -> _T:
        try:
            try:
                return what(self._connected())
            except (skein.exceptions.ConnectionError, DriverError) as error:
                if isinstance(error, DriverError) and "onnect" not in str(error):
                    raise
                with self._lock:  # it was killed: once more, with a new one
                    self._client = None
                return what(self._connected())
        except (SkeinError, OSError) as error:
            raise ClusterError(
                f"skein says: {' '.join(str(error).split())[:600]}",
                where=str(self._folder.skein / "driver.log"),
                fix="its log says more; submarine doctor --cluster yarn checks what it needs",
            ) from error

    def _connected(self) -> skein.Client:
        with self._lock:
            if self._client is None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # it says that it makes its certificates
                    self._client = self._start()
                with suppress(OSError, ValueError, KeyError, TypeError):
                    self._pid = int(json.loads(self._note.read_bytes())["pid"])
            return self._client

    @property
    def _note(self) -> Path:
        """Where skein notes its driver's address and process."""
        return self._folder.skein / "driver"

    def _start(self) -> skein.Client:
        try:
            return skein.Client.from_global_driver()
        except (DriverNotRunningError, SkeinError, OSError):
            self._forget_dead()
            log = str(self._folder.skein / "driver.log")
            options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            skein.Client.start_global_driver(log=log, java_options=options)
            return skein.Client.from_global_driver()

    def _forget_dead(self) -> None:
        """Forget a driver that was killed: skein takes a zombie, or a stranger, for it."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            pid = int(json.loads(self._note.read_bytes())["pid"])
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            if not _is_driver(pid):
                self._note.unlink()


def _is_driver(pid: int) -> bool:
    """Return whether that process is a driver of skein's: a number is used again."""
    try:
        return b"com.anaconda.skein.Driver" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
