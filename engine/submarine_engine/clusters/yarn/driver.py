"""skein's driver: one Java process for all jobs of a keeper, and of those after it.

It is found by the keeper's folder, of which there is one for each home and Hadoop configuration.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import skein
from skein.exceptions import DriverError, DriverNotRunningError, SkeinError
from submarine_runtime.sealing import KEY_FILE, KEY_SIZE

from submarine_engine import kerberos
from submarine_engine.clusters import backend
from submarine_engine.clusters.yarn.options import HADOOP_CONF_DIR
from submarine_engine.errors import ClusterError
from submarine_engine.history import make_private, write_aside, write_json

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf


# The keeper's folder: one for each home and Hadoop configuration, and how one is woken.


_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


class KeeperFolder(backend.KeeperFolder):
    """A keeper's folder on YARN: one for each home and Hadoop configuration.

    ::

        <home>/yarn/<fingerprint>/
            wishes/         what notebooks would have ready for their first job, see `wish`
            masters.json    applications that are kept warm
            submarine.key   opens what containers are sent, see `submarine_runtime.sealing`
            skein/          skein's certificates, and the address of its driver

    Parameters
    ----------
    home
        Where all jobs are kept.
    conf
        The cluster's configuration.
    """

    def __init__(self, home: Path, conf: HadoopConf) -> None:
        super().__init__(home, "yarn", conf.fingerprint)
        self.conf = conf
        self.wishes = self.root / "wishes"
        self.masters = self.root / "masters.json"
        self.skein = self.root / "skein"
        self.sealing_key = self.root / KEY_FILE

    def make(self) -> None:
        """Make the folder, for its owner alone.

        Raises
        ------
        OSError
            It cannot be made.
        """
        super().make()
        for folder in (self.wishes, self.skein):
            make_private(folder)

    def read_key(self) -> bytes:
        """Return the key of what containers are sent; the first keeper makes it.

        Raises
        ------
        OSError
            It cannot be read or made.
        """
        with suppress(FileNotFoundError):
            if len(key := self.sealing_key.read_bytes()) == KEY_SIZE:
                return key
        write_aside(self.sealing_key, os.urandom(KEY_SIZE))
        return self.sealing_key.read_bytes()


def keeper_environment(outer: Mapping[str, str], folder: KeeperFolder) -> dict[str, str]:
    """Return the environment of a keeper, and so of skein's driver.

    Without proxies: gRPC would look for this machine's own driver behind them.

    Parameters
    ----------
    outer
        The variables of whoever starts it.
    folder
        The keeper's: the variables name its configuration, and where skein's files are.
    """
    environment = {key: value for key, value in outer.items() if key.lower() not in _PROXIES}
    environment.update(folder.conf.environment)
    if folder.conf.kerberos:  # Java does not look for the default that krb5.conf names
        environment.setdefault(kerberos.CACHE, kerberos.cache_name())
    environment["HADOOP_CONF_DIR"] = str(folder.conf.folder)
    environment[HADOOP_CONF_DIR.variable] = str(folder.conf.folder)
    environment["SKEIN_CONFIG"] = str(folder.skein)
    return environment


def read_masters(folder: KeeperFolder) -> list[dict[str, Any]]:
    """Return what a former keeper noted in `folder` of its warm masters."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted: list[dict[str, Any]] = json.loads(folder.masters.read_bytes())["masters"]
        return noted
    return []


def write_masters(folder: KeeperFolder, masters: list[dict[str, Any]]) -> None:
    """Note the warm `masters` in `folder` for a keeper that comes after a kill."""
    with suppress(OSError):
        write_json(folder.masters, {"version": 1, "masters": masters})


# What Hadoop's client says to who has no ticket; of an application also where that runs.
_NO_TICKET = (
    "Unknown ApplicationId",
    "GSS initiate failed",
    "Failed to find any Kerberos tgt",
    "Client cannot authenticate via",
)
_RELOGIN = 90.0
"""Seconds in which skein's Java has a new ticket: Hadoop's client looks for one once in 60 s."""

_LOOK = 1.0  # seconds: a try is a call to skein's Java, which looks for a ticket once a minute

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
        self.cannot_start = False
        """Whether it could not be started when that was last tried, as where no Java is found."""
        self._client: skein.Client | None = None
        self._pid: int | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it where it does not run; raises as `submit`."""
        self._call(lambda _client: None)

    def submit(
        self, application: skein.ApplicationSpec, find: Callable[[], str] = lambda: ""
    ) -> str:
        """Submit an application; return its id.

        Parameters
        ----------
        application
            As `describe_application` makes one.
        find
            Returns the application where a driver that was killed had submitted it already.

        Raises
        ------
        ClusterError
            The driver cannot be started, or YARN refuses: in its own words.
        """
        return self._patiently(
            lambda client: str(client.submit(application)),
            lambda client: find() or str(client.submit(application)),
        )

    def connect(self, app_id: str) -> skein.ApplicationClient:
        """Return the way to the master of the running application `app_id`; raises as `submit`.

        Without a ticket, that waits for one: the application runs on.
        """
        return self._patiently(lambda client: client.connect(app_id, wait=False), runs=True)

    def close(self) -> None:
        """Stop the driver, also where the folder that noted it is gone."""
        with self._lock:
            self._client = None
            if self._pid is not None and _is_driver(self._pid):
                with suppress(OSError):
                    os.kill(self._pid, signal.SIGTERM)
            with suppress(OSError):
                self._note.unlink()

    def _patiently(
        self,
        what: Callable[[skein.Client], _T],
        again: Callable[[skein.Client], _T] | None = None,
        *,
        runs: bool = False,
    ) -> _T:
        """Call it as `_call`, where the cluster may not have heard of the user's new ticket yet.

        Parameters
        ----------
        runs
            Whether to wait for a ticket, too.
        """
        until: float | None = None
        while True:
            try:
                return self._call(what, again)
            except (ClusterError, ValueError) as error:
                said = str(error)
                if not self._folder.conf.kerberos or not any(word in said for word in _NO_TICKET):
                    raise
                if (wrong := kerberos.ticket_problem()) is not None:
                    if not runs:
                        raise wrong from error
                    until = None
                else:
                    until = until or time.monotonic() + _RELOGIN
                    if time.monotonic() > until:
                        raise ClusterError(
                            f"skein says: {said[:600]}", where=str(self._folder.skein)
                        ) from error
                what = again or what
            time.sleep(_LOOK)

    def _call(
        self,
        what: Callable[[skein.Client], _T],
        again: Callable[[skein.Client], _T] | None = None,
    ) -> _T:
        try:
            try:
                return what(self._connected())
            except (skein.exceptions.ConnectionError, DriverError) as error:
                if isinstance(error, DriverError) and "onnect" not in str(error):
                    raise
                with self._lock:  # it was killed: once more, with a new one
                    self._client = None
                return (again or what)(self._connected())
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
                    try:
                        self._client = self._start()
                    except BaseException:
                        # Not before: a keeper that has no job yet ends where it cannot be started.
                        self.cannot_start = True
                        raise
                    self.cannot_start = False
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
            if self._folder.conf.kerberos:
                kerberos.ticket_problem()  # by a keytab, one is taken: Java finds it in its file
            if self._folder.conf.kerberos and os.environ.get(kerberos.CONFIG):
                # Java does not read the variable that all others do.
                options.append(f"-Djava.security.krb5.conf={os.environ[kerberos.CONFIG]}")
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
