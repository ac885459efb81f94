"""A process that imports what jobs need ahead of time, and is forked for each of their tasks.

`submarine_engine.clusters.local.zygotes` starts it: the imports then cost a job no time.

``PYTHON -u …/submarine_runtime/__main__.py --ahead FOLDER``: it imports the modules that are named
in the folder, and gives its place up where it may not be forked: threads and open devices do not
survive a fork (`unfit`). A forked process is made the task that a fresh one would have been.

With ``--ahead-of-job DESCRIPTOR`` it is one job's own, a child of the job's supervisor.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import ctypes
import fcntl
import gc
import json
import os
import select
import socket
import struct
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

from submarine_runtime.displays import INLINE
from submarine_runtime.imported_modules import installed, is_installed, leave_out
from submarine_runtime.rendezvous import VARIABLES

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType
    from typing import Any


# What makes a forked process the task that a fresh one would have been.


LATE = (
    "CUDA_VISIBLE_DEVICES",
    "SUBMARINE_CHECKPOINT_PATH",
    "SUBMARINE_INPUT_PATH",
    "SUBMARINE_JOB_ID",
    "SUBMARINE_LOGDIR",
    "SUBMARINE_OUTPUT_PATH",
    "SUBMARINE_TASK",
    "SUBMARINE_TASK_DIR",
)
"""Environment variables that may differ from job to job: no import reads them, which is watched."""

DRIVER = "SUBMARINE_DRIVER"
ROOM = "SUBMARINE_ZYGOTE"
"""Holds the place of job and task in what the kernel shows of a process's environment."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9
_ARGUMENTS, _ENVIRONMENT = 45, 47  # in /proc/self/stat, counted behind the name: proc(5)
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class ProcessTitle:
    """The memory from which ``/proc/PID/environ`` and ``cmdline`` are read.

    Supervisors and readers find a job's processes by them, and a fork has its parent's.

    Raises
    ------
    OSError
        The kernel does not say where they are, or `ROOM` and `DRIVER` are not in them.
    """

    def __init__(self) -> None:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            fields = [int(field) for field in file.read().rpartition(")")[2].split()[1:]]
        at, end = fields[_ARGUMENTS - 1 : _ARGUMENTS + 1]
        self._arguments = at, end - at
        start, end = fields[_ENVIRONMENT - 1 : _ENVIRONMENT + 1]
        if not 0 < start < end:
            raise OSError("the kernel does not say where the environment is")
        text = b"\0" + ctypes.string_at(start, end - start)
        self._room = self._find(text, start, f"{ROOM}=")
        self._driver = self._find(text, start, f"{DRIVER}=1")

    @staticmethod
    def _find(text: bytes, start: int, entry: str) -> tuple[int, int]:
        at = text.find(f"\0{entry}".encode())
        if at < 0:
            raise OSError(f"there is no {entry} in the environment")
        return start + at, text.index(b"\0", at + 1) - at - 1

    def become(self, job_id: str, task: str, arguments: list[str]) -> None:
        """Show the process as one of a job's task, started with these arguments.

        Parameters
        ----------
        job_id, task
            Shown as ``SUBMARINE_JOB_ID`` and ``SUBMARINE_TASK``.
        arguments
            Shown as the command line, where that has room for them.
        """
        _write(self._room, f"SUBMARINE_JOB_ID={job_id}\0SUBMARINE_TASK={task}".encode())
        _write(self._driver, f"{DRIVER}=0".encode())
        line = b"\0".join(os.fsencode(argument) for argument in arguments)
        if len(line) < self._arguments[1]:
            _write(self._arguments, line)


def _write(place: tuple[int, int], data: bytes) -> None:
    at, size = place
    ctypes.memmove(at, data.ljust(size, b"\0"), size)


def become_subreaper() -> None:
    """Make whatever loses its parent below this process its child."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when its parent ends; whether the parent still lives."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def set_environment(late: Mapping[str, str]) -> None:
    """Give the process those variables of `LATE` that its job has.

    Parameters
    ----------
    late
        Values by name; one of another name is passed over.
    """
    for name in LATE:
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in late.items() if name in LATE})


def refresh() -> None:
    """Renew what libraries drew or noted when they were imported; a fork has its parent's.

    `random` and OpenSSL see to themselves. What code seeds itself stays as it is seeded.
    """
    modules = sys.modules
    with suppress(Exception):
        if "numpy.random" in modules:
            modules["numpy.random"].seed()
    with suppress(Exception):
        if "torch" in modules:
            # Not `torch.seed`, which would seed GPUs too: those have the same seed in each process.
            modules["torch"].default_generator.seed()
    with suppress(Exception):
        if "multiprocessing.process" in modules:
            modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    with suppress(Exception):
        if "uuid" in modules:
            modules["uuid"].__dict__["_last_timestamp"] = None
    with suppress(Exception):
        if "logging" in modules:  # times of records count from there
            names = modules["logging"].__dict__
            names["_startTime"] = (
                time.time_ns() if isinstance(names["_startTime"], int) else time.time()
            )


# Whether a process that has imported libraries may be forked into jobs, and for which.


NEVER = ("antigravity", "horovod", "mpi4py", "pycuda.autoinit")
"""Modules whose import does something that cannot be shared: it joins a ring, opens a window."""

_TRIAL_TAKES = 60  # seconds at most: a library that does not survive a fork may hang in it
_HARMLESS_DEVICES = ("/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
_OPENMP_OF_INTEL = "__KMP_REGISTERED_LIB_"


def unfit(before: set[str]) -> str | None:
    """Return in words why this process must not be forked into jobs; None where it may.

    Parameters
    ----------
    before
        The descriptors (`descriptors`) that were open before anything was imported.
    """
    return _by_name() or _by_descriptors(before) or _by_mappings() or _by_processes()


def descriptors() -> set[str]:
    """Return the descriptors that are open, and what each is."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names only
        with suppress(OSError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")  # noqa: PTH115 - as above
    return found


def has_driver() -> bool:
    """Return whether CUDA's driver is loaded: what it was told of GPUs, it would tell a fork."""
    return any("/libcuda.so" in line or "/dev/nvidia" in line for line in _mappings())


def trial() -> str | None:
    """Let a fork of this process compute with what is loaded; return in words why it cannot."""
    if threads() and not _TRIALS.keys() & sys.modules.keys():
        return f"{threads()} threads of a library that is not known here"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _signal.alarm(_TRIAL_TAKES)  # its default ends the process: so does a hung library
            for name, compute in _TRIALS.items():
                if name in sys.modules:
                    compute()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"a fork of it cannot compute (exit code {code})" if code else None


def threads() -> int:
    """Return how many threads there are besides this one."""
    return len(os.listdir("/proc/self/task")) - 1  # noqa: PTH208 - names only


def _by_name() -> str | None:
    loaded = [name for name in NEVER if name in sys.modules]
    if loaded:
        return f"{loaded[0]} is loaded, which no fork survives"
    jax = sys.modules.get("jax._src.xla_bridge")
    if jax is not None and getattr(jax, "_backends", None):
        return "jax has begun to compute"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "torch has begun to use CUDA"
    return None


def _by_descriptors(before: set[str]) -> str | None:
    for entry in descriptors() - before:
        name, _, what = entry.partition(" ")
        if what in _HARMLESS_DEVICES or what == f"/proc/{os.getpid()}/fd":
            continue
        if not what.startswith("/") or what.startswith("/dev/") or _is_for_writing(name):
            return f"a library holds {what} open"
    return None


def _is_for_writing(descriptor: str) -> bool:
    with suppress(OSError, ValueError):
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:  # noqa: PTH123
            told = file.read().split()
        return bool(int(told[told.index("flags:") + 1], 8) & os.O_ACCMODE)
    return False  # it is closed: it was the listing's own


def _by_mappings() -> str | None:
    for line in _mappings():
        fields = line.split(maxsplit=5)
        if fields[1].startswith("rw") and fields[1].endswith("s"):
            what = fields[5].strip() if len(fields) > 5 else "memory"  # noqa: PLR2004 - as split
            if _OPENMP_OF_INTEL not in what:
                return f"a library shares {what} with its forks"
    return None


def _mappings() -> list[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.readlines()


def _by_processes() -> str | None:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        pass
    else:
        return "a library has started processes"
    module = sys.modules.get("threading")
    if module is not None and module.active_count() > 1:
        return "a library has started threads of Python"
    return None


def _try_numpy() -> None:
    numpy = sys.modules["numpy"]
    numpy.ones((300, 300)) @ numpy.ones((300, 300))


def _try_scipy() -> None:
    numpy, linear = sys.modules["numpy"], sys.modules["scipy.linalg"]
    linear.lu_factor(numpy.eye(300))


def _try_torch() -> None:
    torch = sys.modules["torch"]
    weights = torch.ones(300, 300, requires_grad=True)
    (weights @ weights).sum().backward()


def _try_jax() -> None:
    jax = sys.modules["jax"]
    jax.config.update("jax_platforms", "cpu")
    jax.jit(lambda x: x @ x)(jax.numpy.ones((8, 8))).block_until_ready()


def _try_tensorflow() -> None:
    tensorflow = sys.modules["tensorflow"]
    tensorflow.matmul(tensorflow.ones((300, 300)), tensorflow.ones((300, 300))).numpy()


_TRIALS: dict[str, Callable[[], None]] = {
    "numpy": _try_numpy,
    "scipy.linalg": _try_scipy,
    "torch": _try_torch,
    "jax": _try_jax,
    "tensorflow": _try_tensorflow,
}


# A process that imports ahead what a notebook's jobs import, and forks for each of them.
#
# ``PYTHON -u …/submarine_runtime/__main__.py --ahead FOLDER``: it imports the modules that
# ``FOLDER/wanted.json`` names, with no GPU to see, and listens at ``FOLDER/socket``. Who starts a
# job sends the supervisor's words and descriptors. The fork that answers forks the task, and then
# becomes the job's supervisor by ``execve``: so the task is its supervisor's child, and neither has
# anything to do with this process any more. It ends when nobody asks for long, when memory runs
# low, when a file changes that it has read, or when its folder goes.
#
# A job of several tasks, and one that may be begun again, has a zygote of its own: a fork of that
# one, or a process that its supervisor starts. It is the supervisor's child, and forks twice: what
# it forks becomes the supervisor's child, since that is the subreaper of all below it.


OPTION = "--ahead"
OPTION_OF_JOB = "--ahead-of-job"
READY = b"ready"
GUARD = "--guard"
"""Makes ``supervisor.py`` the guard of the supervisor whose process it names."""
WANTED = "wanted.json"
LOCK = "lock"
SOCKET = "socket"
UNFIT = "unfit"

_IMPORTS_TAKE = 900  # seconds at most: an import that hangs would hold its memory for ever
_LOOK = 5.0  # seconds between two looks whether memory is low or a file has changed
_LOOK_OF_JOB = 30.0  # seconds: likewise for memory alone; files are looked at for each task
_NAP = 0.0005  # seconds: a task's start waits until the process between has ended
_PAUSE = 0.05  # seconds: accept() fails again at once while too many files are open
_BAD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error)
"""What a question that is none may raise."""
_PATIENCE = 2.0  # seconds: who asks and sends only a half of it would hold up all others
_LONGEST = 1 << 24
_MOST_DESCRIPTORS = 250
_PLACES = ("site-packages", "dist-packages")
_IPYTHON = "IPython"


def serve(folder: str) -> str:
    """Import, then fork for each job that asks; returns in a task alone, with the task's folder."""
    os.environ.pop(DRIVER, None)
    os.environ.pop(ROOM, None)
    lock = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another one has been quicker
        os._exit(0)
    os.utime(lock)
    zygote = _Zygote(json.loads(Path(folder, WANTED).read_bytes()), os.fstat(lock).st_ctime_ns)
    try:
        zygote.prepare()
    except _Unfit as why:
        Path(folder, UNFIT).write_text(f"{why}\n", encoding="utf-8")
        os._exit(0)
    return zygote.wait(folder, lock)


def serve_job(descriptor: str) -> str:
    """Import, then fork the tasks of one job; returns in a task alone, with the task's folder.

    Parameters
    ----------
    descriptor
        Of the connection to the job's supervisor, whose child this process is.
    """
    os.environ.pop(DRIVER, None)
    os.environ.pop(ROOM, None)
    clock = os.memfd_create("clock")  # as files have it, which is a little behind
    began = os.fstat(clock).st_ctime_ns
    os.close(clock)
    with socket.socket(fileno=int(descriptor)) as connection:
        os.set_inheritable(connection.fileno(), False)
        wanted, _ = _receive(connection)
        if not die_with_parent(wanted["supervisor"]):
            os._exit(0)
        zygote = _Zygote(wanted, began)
        try:
            zygote.prepare()
            if why := zygote.unfit_for(wanted):
                raise _Unfit(why)  # noqa: TRY301 - told like any other
        except _Unfit as why:
            connection.sendall(f"no: {why}".encode())
            os._exit(0)
        connection.sendall(READY)
        return zygote.serve(connection, wanted["supervisor"])


def available() -> tuple[int, int]:
    """Return how many bytes of memory are free for use here, and how many there are."""
    told = {}
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        told[name] = int(value.split()[0]) * 1024
    free, total = told["MemAvailable"], told["MemTotal"]
    with suppress(OSError, ValueError, KeyError):  # no such controller, or "max": no limit
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        lines = Path("/sys/fs/cgroup/memory.stat").read_text(encoding="ascii").splitlines()
        caches = int(dict(line.split() for line in lines)["inactive_file"])
        free, total = min(free, limit - used + caches), min(total, limit)
    return free, total


class _Unfit(Exception):  # noqa: N818 - a state, not an error
    """Why this process cannot be forked into jobs."""


class _LeftToJobError(BaseException):
    """Ends an import that is left to the job; no ``except Exception`` of a library catches it."""


class _Guard:
    """Ends imports that depend on whether there is a notebook: the job makes them, see `displays`.

    IPython itself may be imported, and is a stand-in (`_Later`) until the job asks it for more.
    """

    def __init__(self, wanted: set[str]) -> None:
        self.asked = ""
        self._left = {"ipywidgets", "matplotlib_inline", "tqdm.notebook"}
        if _IPYTHON in wanted:
            self._left.add("tqdm.autonotebook")
        if os.environ.get("MPLBACKEND") == INLINE:
            self._left.add("matplotlib.pyplot")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ANN401
        """Find a stand-in or nothing; raise where the module is left to the job."""
        if name in self._left or name.startswith(f"{_IPYTHON}."):
            self.leave(name)
        if name != _IPYTHON:
            return None
        for finder in [other for other in sys.meta_path if other is not self]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                spec.loader = self
                return spec
        return None

    def create_module(self, _spec: object) -> None:
        """Let a module be made as ever."""

    def exec_module(self, module: ModuleType) -> None:
        """Make the module a stand-in."""
        module.__dict__["_guard"] = self
        module.__class__ = _Later

    def leave(self, name: str) -> None:
        """End the import that asks for this, as long as imports are guarded."""
        if self in sys.meta_path:
            self.asked = name
            raise _LeftToJobError(name)

    def end(self) -> None:
        """Guard no more: from now on IPython is imported as ever."""
        sys.meta_path.remove(self)
        sys.modules.pop(_IPYTHON, None)


class _Later(type(sys)):  # type: ignore[misc]
    """Stands for IPython in libraries that import it and ask it for nothing, as Keras does.

    Such an import must not end: TensorFlow's, of which it is a part, cannot be begun again.
    """

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever IPython has
        self.__dict__["_guard"].leave(_IPYTHON)
        __import__(_IPYTHON)
        return getattr(sys.modules[_IPYTHON], name)


def _missing(name: str) -> str:
    """Return the outermost package of a module that is not imported, or the module itself."""
    parts = name.split(".")
    above = (".".join(parts[:count]) for count in range(1, len(parts)))
    return next((package for package in above if package not in sys.modules), name)


def _forget_orphans() -> None:
    """Forget modules whose package could not be imported: the job's import makes them anew."""
    for name in sorted(sys.modules):
        parent = name.rpartition(".")[0]
        if parent and parent not in sys.modules and name in sys.modules:
            del sys.modules[name]


class _Watched(type(os.environ)):  # type: ignore[misc]
    """`os.environ`, which notes the variables of a single task that an import reads."""

    read: set[str] = set()  # noqa: RUF012 - one process, one environment

    def __getitem__(self, key: str) -> str:
        if key in LATE or key in VARIABLES:
            self.read.add(key)
        value: str = super().__getitem__(key)
        return value


class _Zygote:
    """A process with imports done.

    Parameters
    ----------
    wanted
        What is wanted of it: ``names`` of modules, ``workdir``, ``room`` of memory to leave, and,
        of one that a notebook's jobs share, after how many ``idle`` seconds it ends.
    began
        When it did, as the clock of files has it, in nanoseconds.
    """

    def __init__(self, wanted: dict[str, Any], began: int) -> None:
        self._folder = ""
        self._lock = -1
        self._began = began
        self._names = [str(name) for name in wanted["names"]]
        self._workdir = str(wanted["workdir"])
        self._idle = float(wanted.get("idle", 0))
        self._room = int(wanted["room"])
        self._title = ProcessTitle()
        self._for_gpus = True
        self._for_several = True
        self._paths: list[str] = []
        self._folders: list[str] = []
        self._score = Path("/proc/self/oom_score_adj").read_text(encoding="ascii")

    def prepare(self) -> None:
        """Import what is wanted, and see whether this process can be forked then."""
        self._step_back()
        os.chdir(self._workdir)  # libraries look for their settings there, as in the job
        leave_out(sys.modules.keys() - set(self._names))
        before = descriptors()
        _signal.alarm(_IMPORTS_TAKE)  # its default ends the process
        kind = type(os.environ)
        os.environ.__class__ = _Watched
        self._import()
        os.environ.__class__ = kind
        _signal.alarm(0)
        if why := unfit(before):
            raise _Unfit(why)
        read = _Watched.read
        if late := read.intersection(LATE) - {"CUDA_VISIBLE_DEVICES"}:
            raise _Unfit(f"a library has read {', '.join(sorted(late))} as it was imported")
        self._for_gpus = "CUDA_VISIBLE_DEVICES" not in read and not has_driver()
        self._for_several = read.isdisjoint(VARIABLES)
        with _quiet():
            if why := trial():
                raise _Unfit(why)
        os.chdir("/")
        self._note_files()
        if why := self._changed():
            raise _Unfit(why)
        gc.collect()
        gc.freeze()  # a collection in a fork would copy all of it
        for stream in (sys.stdout, sys.stderr):
            stream.flush()

    def _import(self) -> None:
        # What is the user's own changes between two runs.
        names = [name for name in self._names if is_installed(name)]
        guard = _Guard(set(names))
        sys.meta_path.insert(0, guard)
        left: tuple[str, ...] = ()
        for name in names:
            if name in sys.modules or f"{name}.".startswith(left):
                continue
            if name.partition(".")[0] == _IPYTHON:
                continue
            try:
                __import__(name)
            except BaseException:  # noqa: BLE001 - whatever it is, it is the job's to see
                _forget_orphans()
                # What is below it would come to the same: a large package has hundreds of modules.
                left = (*left, f"{_missing(name)}.")
            else:
                if guard.asked:
                    raise _Unfit(
                        f"{name} was imported without {guard.asked}, which the job would have"
                    )
            guard.asked = ""
        guard.end()

    def wait(self, folder: str, lock: int) -> str:
        """Answer the jobs of a notebook until there is a reason to end; returns in tasks alone.

        Parameters
        ----------
        folder
            Where it is found.
        lock
            What says that it lives, locked.
        """
        self._folder, self._lock = folder, lock
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        here = os.open(self._folder, os.O_PATH | os.O_CLOEXEC)
        near = f"/proc/self/fd/{here}"  # the path itself may be longer than an address can be
        with suppress(FileNotFoundError):
            os.unlink(f"{near}/{SOCKET}")  # noqa: PTH108 - as above
        listener.bind(f"{near}/.{SOCKET}")
        os.chmod(f"{near}/.{SOCKET}", 0o600)  # noqa: PTH101 - as above
        listener.listen()
        os.rename(f"{near}/.{SOCKET}", f"{near}/{SOCKET}")  # noqa: PTH104 - as above
        os.close(here)
        until = time.monotonic() + self._idle
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while True:
            self._reap()
            left = until - time.monotonic()
            if left <= 0 or self._is_over():
                self._end()
            if not poll.poll(max(1, int(min(left, _LOOK) * 1000))):
                continue
            try:
                connection, _ = listener.accept()
            except OSError:  # who asked has gone, or too many files are open
                time.sleep(_PAUSE)
                continue
            task = self._answer(connection, (listener.close,))
            if task is not None:
                return task
            connection.close()
            until = time.monotonic() + self._idle

    def serve(self, connection: socket.socket, supervisor: int) -> str:
        """Fork the tasks of one job until its supervisor needs no more; returns in these alone."""
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        while True:
            if not poll.poll(_LOOK_OF_JOB * 1000):
                if available()[0] < self._room:
                    os._exit(0)
                continue
            try:
                asked, descriptors = _receive(connection)
            except _BAD:  # it has gone
                os._exit(0)
            self._reap()
            task = self._fork_task(connection, asked, descriptors, supervisor)
            if task is not None:
                return task

    def _fork_task(
        self,
        connection: socket.socket,
        asked: dict[str, Any],
        descriptors: list[int],
        supervisor: int,
    ) -> str | None:
        """Fork a task that becomes the supervisor's child; returns its folder in the task alone."""
        answer = socket.socket(fileno=descriptors[0])
        pid = -1
        try:
            if why := self._refusal(asked):
                answer.sendall(f"no: {why}".encode())
                return None
            with _quiet():
                pid = os.fork()
        except (OSError, KeyError, TypeError):  # the supervisor sees that the answer ends
            return None
        finally:
            if pid:  # else this process would go on to hold the job's GPUs
                answer.close()
                for descriptor in descriptors[1:]:
                    os.close(descriptor)
        if pid:
            return None
        try:
            between = os.getpid()
            with _quiet():
                if os.fork():
                    os._exit(0)
            connection.close()
            while os.getppid() == between:
                time.sleep(_NAP)
            os.setsid()
            # Nothing is started before the supervisor knows the process and says so.
            answer.sendall(str(os.getpid()).encode())
            if answer.recv(2) != b"go":
                os._exit(0)
            answer.close()
            return self._become_task(asked, supervisor, descriptors[1:3], descriptors[3:])
        except BaseException:  # noqa: BLE001 - nothing may come back to the zygote's loop
            os._exit(1)

    def _step_back(self) -> None:
        """Let jobs come first: for the processor, and where memory runs out."""
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text("5", encoding="ascii")
        self._yield_memory()

    @staticmethod
    def _yield_memory() -> None:
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")

    def _keep_memory(self) -> None:
        """Take that back in a job's process."""
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(self._score, encoding="ascii")

    def _note_files(self) -> None:
        """Note what must not change: files that were read, and where modules are found."""
        files = {path for _, path in installed()}
        files.add(os.path.realpath(sys.executable))
        files.add(f"{sys.prefix}/pyvenv.cfg")
        library = os.path.dirname(os.__file__)  # noqa: PTH120 - as the others
        for folder in filter(os.path.isdir, sys.path):
            if folder == library or any(place in folder for place in _PLACES):
                files.add(folder)
            else:
                self._folders.append(folder)
        self._paths = [str(path) for path in files if os.path.exists(path)]  # noqa: PTH110

    def _changed(self) -> str | None:
        """Return what has changed since this process began."""
        for path in self._paths:
            try:
                changed = os.stat(path).st_ctime_ns >= self._began  # noqa: PTH116 - thousands
            except OSError:
                changed = True
            if changed:
                return f"{path} has changed"
        return None

    def _hides(self, folder: str) -> bool:
        """Return whether a folder has a module of the name of one that is loaded from elsewhere."""
        try:
            names = os.listdir(folder)  # noqa: PTH208 - names only
        except OSError:
            return False
        for name in names:
            stem, _, suffix = name.partition(".")
            module = sys.modules.get(stem)
            if module is None or not (
                suffix.endswith(("py", "pyc", "so"))
                or os.path.exists(f"{folder}/{name}/__init__.py")  # noqa: PTH110 - as above
            ):
                continue
            if not (getattr(module, "__file__", None) or "").startswith(f"{folder}/"):
                return True
        return False

    def _is_over(self) -> bool:
        """Return whether this process should end though it is not idle."""
        return (
            available()[0] < self._room
            or not os.path.exists(f"{self._folder}/{SOCKET}")  # noqa: PTH110 - as above
            or self._changed() is not None
        )

    def _end(self) -> None:
        with suppress(OSError):
            os.unlink(f"{self._folder}/{SOCKET}")  # noqa: PTH108 - as above
        os._exit(0)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _answer(
        self, connection: socket.socket, closing: tuple[Callable[[], None], ...]
    ) -> str | None:
        """Answer one who asks; returns a task's folder in the task alone."""
        connection.settimeout(_PATIENCE)
        descriptors: list[int] = []
        pid = -1
        try:
            if _peer(connection) != os.getuid():
                return None
            asked, descriptors = _receive(connection)
            if asked.get("end") is True:
                self._end()
            if why := self._refusal(asked):
                connection.sendall(f"no: {why}".encode())
                return None
            with _quiet():
                pid = os.fork()
        except _BAD:
            return None
        finally:
            if pid:  # else this process would go on to hold the job's GPUs
                for descriptor in descriptors:
                    os.close(descriptor)
        if pid:
            return None
        os.close(self._lock)
        for close in closing:
            close()
        return self._become_supervisor(connection, asked, descriptors)

    def _refusal(self, asked: dict[str, Any]) -> str | None:
        if (why := self._changed()) is not None:
            return why
        if available()[0] < self._room:
            return "memory is low"
        if why := self.unfit_for(asked):
            return why
        if any(self._hides(folder) for folder in (asked["bundle"], *self._folders)):
            return "a file of the job hides a module"
        return None

    def unfit_for(self, asked: dict[str, Any]) -> str | None:
        """Return in words why no tasks like these are forked from here; None where they are."""
        if asked["gpus"] and not self._for_gpus:
            return "a library has looked for GPUs"
        if asked["several"] and not self._for_several:
            return "a library has looked for the other tasks"
        return None

    def _become_supervisor(
        self, connection: socket.socket, asked: dict[str, Any], descriptors: list[int]
    ) -> str:
        """Fork the supervisor, and become its guard; returns in tasks, with their folder."""
        try:
            log, lock, *rest = descriptors
            # The supervisor itself starts each of several tasks.
            alone = asked["task"]
            streams, leases = (rest[:2], rest[2:]) if alone else ([], rest)
            self._keep_memory()
            _lead(log, connection)
            told = [f"{time.time()!r}", f"{time.monotonic()!r}"]
            supervisor = os.fork()
            if supervisor:  # as `supervisor._leave_guard`; the exec gives the memory back
                for descriptor in leases:
                    os.set_inheritable(descriptor, True)
                command = [*asked["supervisor"][:4], GUARD, str(supervisor)]
                os.execve(command[0], command, asked["environment"])  # noqa: S606 - no shell
            become_subreaper()
            supervisor, pid = os.getpid(), 0
            if alone:
                os.unlink(asked["launch"])  # noqa: PTH108 - as `supervisor._start` does, and why
                pid = os.fork()
                if pid == 0:
                    os.close(lock)
                    os.setsid()
                    return self._become_task(asked, supervisor, streams, leases)
            own = ["", ""]
            if asked["own"]:
                its, *own = self._fork_own(supervisor)
                if its is not None:
                    for descriptor in (lock, *streams, *leases):
                        os.close(descriptor)
                    return self.serve(its, supervisor)
            for descriptor in (lock, *leases):
                os.set_inheritable(descriptor, True)
            command = [
                *asked["supervisor"], str(lock), "", ",".join(map(str, leases)),
                asked["ahead"], "--forked", str(pid), *told, *own,
            ]  # fmt: skip
            os.execve(command[0], command, asked["environment"])  # noqa: S606 - no shell on purpose
        except BaseException:  # noqa: BLE001 - nothing may come back to the zygote's loop
            os._exit(1)

    def _fork_own(self, supervisor: int) -> tuple[socket.socket | None, str, str]:
        """Fork the own zygote of the supervisor's job.

        Returns its connection in that one alone; in the supervisor its descriptor and process,
        empty where none could be made.
        """
        ours, its = socket.socketpair()
        try:
            child = os.fork()
        except OSError:  # a job can do without
            return None, "", ""
        if child:
            os.set_inheritable(ours.fileno(), True)
            return None, str(ours.detach()), str(child)
        ours.close()
        os.setsid()
        if not die_with_parent(supervisor):
            os._exit(0)
        self._yield_memory()
        return its, "", ""

    def _become_task(
        self, asked: dict[str, Any], supervisor: int, streams: list[int], leases: list[int]
    ) -> str:
        """Become a task, as the leader of its session and the supervisor's child."""
        if not die_with_parent(supervisor):
            os._exit(1)
        self._keep_memory()
        for number, descriptor in enumerate(streams, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        for descriptor in leases:
            os.set_inheritable(descriptor, True)
        task: str = asked["task"]
        late = {name: value for name, value in asked["environment"].items() if name in LATE}
        set_environment(late)
        sys.argv = [sys.argv[0], task]
        job_id, name = late["SUBMARINE_JOB_ID"], late["SUBMARINE_TASK"]
        self._title.become(job_id, name, [sys.executable, "-u", *sys.argv])
        refresh()
        return task


def _lead(log: int, connection: socket.socket) -> None:
    """Lead a job's processes, where who asks for it still waits."""
    os.setsid()
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)
    become_subreaper()
    connection.sendall(READY)
    if connection.recv(2) != b"go":
        os._exit(0)
    connection.sendall(b"on")
    connection.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings of Python or a library that there are threads: `zygote` looks at them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _peer(connection: socket.socket) -> int:
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", told)[1]
    return uid


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return what is asked and the descriptors that came with it: length, then JSON."""
    head, descriptors, _, _ = socket.recv_fds(
        connection, 4, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC | socket.MSG_WAITALL
    )
    try:
        return _read(connection, head), descriptors
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _read(connection: socket.socket, head: bytes) -> dict[str, Any]:
    (length,) = struct.unpack("!I", head)
    if length > _LONGEST:
        raise ValueError(length)
    data = bytearray()
    until = time.monotonic() + _PATIENCE  # while it is read nobody else's is
    while len(data) < length:
        if time.monotonic() > until:
            raise TimeoutError(length)
        piece = connection.recv(length - len(data))
        if not piece:
            raise ConnectionError("it went away")
        data += piece
    asked = json.loads(data)
    if not isinstance(asked, dict):
        raise TypeError(asked)
    return asked
