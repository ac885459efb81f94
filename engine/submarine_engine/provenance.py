"""What a job ran with, noted beside it: installed packages, the notebook's repository, its data.

Its script and values are in its bundle; this is what a later run may find changed. Nothing of it is
needed to run the job, so nothing of it may hold a submission up: `begin` takes a moment, and leaves
what may take longer to a process of its own. What is not known is not there.

``environment.json`` is one file for all jobs of an environment as long as nothing is installed, and
is linked into each job's folder. ``provenance.json`` and ``git.diff`` are of one job.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submarine_engine.history import (
    SPOILT,
    JobPaths,
    is_job_id,
    make_private,
    read_foreign,
    read_json,
    write_aside,
    write_json,
)

VERSION = 1
ENVIRONMENT = "environment.json"
PROVENANCE = "provenance.json"
DIFF = "git.diff"

_SETTLED = 60.0
"""Seconds after a change of the installed packages in which an installer may still be at it."""
_MOST_DIFF = 1 << 20
_MOST_NAMES = 1000
_MOST_ERRORS = 4096
_MOST_TOLD = 4 << 20
_GIT_PATIENCE = 10.0  # seconds for each answer: of a large repository on a slow drive it notes less
_UNTRACKED = ("ls-files", "--others", "--exclude-standard", "-z")
_DATA_PATIENCE = 10.0
"""Seconds: of data that takes longer it is noted that it was not looked at whole."""
_MOST_FILES = 200_000
_NOT_THERE = "it is not there"
_LOCK = "lock"
_LATER = 0.5
"""Seconds after a submission in which its job begins, and nothing is noted."""
_TOO_LATE = 60.0
"""Seconds after a submission from which on a look would tell of what has come since."""
_SMALL = 64 << 20
"""Bytes of data that are read to tell by the content whether it has changed."""

Package = tuple[str, str, str]
"""Name, version, and the SHA-256 of the installer's record of its files; empty where none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A Python and what is installed in it.

    Parameters
    ----------
    python
        Its version.
    prefix
        Where it is.
    packages
        In the order of Python's path, so the first of a name is what is imported.
    """

    python: str
    prefix: str
    packages: tuple[Package, ...] = ()

    def by_name(self) -> dict[str, tuple[str, str]]:
        """Return version and record's hash by name, the first of each name."""
        found: dict[str, tuple[str, str]] = {}
        for name, version, record in self.packages:
            found.setdefault(name.replace("_", "-").lower(), (version, record))
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "version": VERSION,
            "python": self.python,
            "prefix": self.prefix,
            "packages": [list(package) for package in self.packages],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A git repository as a job's folder lay in it.

    Parameters
    ----------
    root
        Its folder.
    commit, branch
        What was checked out; empty before the first commit.
    changed, untracked
        Files that differ from the commit, and that git does not know; the first thousand of each.
    diff
        SHA-256 of what ``git diff HEAD`` gave, as far as it is kept; empty for no difference.
    cut
        Whether there was more of that than is kept.
    problem
        Why less is known; empty where all is.
    """

    root: str
    commit: str = ""
    branch: str = ""
    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    diff: str = ""
    cut: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What ``--input_path`` named.

    Parameters
    ----------
    path
        As the machine has it.
    files, size
        How many, and their bytes together.
    newest
        When the last of them was changed, seconds since 1970.
    names
        SHA-256 over their paths, sizes and times.
    content
        SHA-256 over their paths and contents; empty where that is too much to read.
    problem
        Why less is known; empty where all is.
    """

    path: str
    files: int = 0
    size: int = 0
    newest: float = 0.0
    names: str = ""
    content: str = ""
    problem: str = ""

    @property
    def whole(self) -> bool:
        """Whether all of it was looked at."""
        return self.problem in ("", _NOT_THERE)

    def same(self, other: Data) -> bool:
        """Return whether `other` is the same data as far as names, sizes, times or content tell."""
        if self.content and other.content:
            return self.content == other.content
        return (self.names, self.files, self.size) == (other.names, other.files, other.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What is known of what a job ran with; None for what is not."""

    environment: Environment | None = None
    git: Repository | None = None
    data: Data | None = None


# Noting it, as the job is submitted.
#
# One process of a home and machine notes for all that is submitted there meanwhile: a burst of
# jobs starts one interpreter, and git is asked once for those of a folder. What is asked for lies
# in files by the jobs' ids. Whoever makes one takes the lock, and starts the process where it is
# free; who holds it looks once more for such files after it has let go.


def begin(paths: JobPaths, workdir: Path, data: Path | None) -> None:
    """Note what a job that was just submitted runs with; what takes longer is left to a process.

    Parameters
    ----------
    paths
        The job, which is on record.
    workdir
        Where the user's relative paths begin.
    data
        The job's input, where it is on this machine.
    """
    # Whatever goes wrong here costs the note, never the job.
    with suppress(OSError, ValueError):
        home = paths.root.parents[1]
        entries = _entries(sys.path)
        kept = _kept_at(home, entries)
        known = _link(kept, paths.root / ENVIRONMENT)
        git = next((str(one) for one in (workdir, *workdir.parents) if _is_root(one)), "")
        if known and not git and data is None:
            return
        asked = {
            "kept": str(kept),
            "entries": [] if known else entries,
            "python": platform.python_version(),
            "prefix": sys.prefix,
            "workdir": str(workdir) if git else "",
            "data": str(data) if data is not None else "",
        }
        from submarine_engine.clusters import machine  # noqa: PLC0415 - as needed

        folder = home / "hosts" / machine.host() / "noting"
        make_private(folder)
        write_json(folder / f"{paths.job_id}.json", asked)
        _start(home, folder)


def _start(home: Path, folder: Path) -> None:
    """Start the process that notes, where none does."""
    from submarine_engine.clusters import locks, machine  # noqa: PLC0415 - as needed

    lock = locks.take(folder / _LOCK)
    if lock is None:
        return
    program = "import sys; sys.path[:0] = [sys.argv[1]]; "
    program += "from submarine_engine.provenance import main; main(*sys.argv[2:])"
    words = [str(Path(__file__).parents[1]), str(home), str(folder), str(lock)]
    # An interpreter takes a hundredth of a second of a core: the job's first line goes before.
    later = ["/bin/sh", "-c", f'sleep {_LATER:g}; exec "$@"', "sh"]
    try:
        machine.spawn_detached(
            [*later, sys.executable, "-I", "-S", "-c", program, *words],
            os.environ,
            log=Path(os.devnull),
            keep=[lock],
        )
    finally:
        locks.drop(lock)


def main(home: str, folder: str, lock: str) -> None:
    """Note what `begin` has left, until there is nothing more: the program of that process.

    Parameters
    ----------
    home
        Of the jobs.
    folder
        Where it is told what to note.
    lock
        The descriptor that holds its lock.
    """
    os.nice(10)  # the jobs' own start goes before
    os.umask(0o077)
    from submarine_engine.clusters import locks  # noqa: PLC0415 - of this process alone

    held: int | None = int(lock)
    with suppress(OSError):
        while held is not None:
            _note_all(Path(home), Path(folder))
            locks.drop(held)
            # What was asked for while the lock was held has started no other process.
            held = locks.take(Path(folder) / _LOCK) if _is_asked(Path(folder)) else None


def _note_all(home: Path, folder: Path) -> None:
    """Note for all jobs that are waiting for it, and those that come meanwhile.

    What may take long, their data, is looked at one by one, when nobody waits for a look at git.
    """
    large: list[tuple[Path, dict[str, Any]]] = []
    while (fresh := _take_asked(home, folder)) or large:
        looked: dict[str, tuple[Repository, bytes]] = {}
        for root, told in fresh:
            with suppress(*SPOILT):
                large += _note(root, told, looked)
        if large:
            with suppress(*SPOILT):
                _note_data(*large.pop(0))
        elif _is_asked(folder):  # most are one of several: they share a look
            time.sleep(_LATER)


def _is_asked(folder: Path) -> bool:
    return any(folder.glob("*.json"))


def _take_asked(home: Path, folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return the folders of the jobs to note for, and what is to be noted of each; only once.

    Raises
    ------
    OSError
        One cannot be taken away: it would be noted for ever.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        told = None
        with suppress(*SPOILT):
            # What another process was killed before is another repository by now, maybe.
            if time.time() - path.stat().st_mtime < _TOO_LATE:
                told = read_json(path)
        path.unlink()
        if told is not None and is_job_id(path.stem):
            found.append((home / "jobs" / path.stem, told))
    return found


def _note(
    root: Path, told: dict[str, Any], looked: dict[str, tuple[Repository, bytes]]
) -> list[tuple[Path, dict[str, Any]]]:
    """Note a job's packages and repository; return what is left of it to be looked at.

    `looked` has what git has told of folders since the job was submitted.
    """
    if told["entries"]:
        keep_environment(
            Path(told["kept"]),
            told["entries"],
            told["prefix"],
            root / ENVIRONMENT,
            python=told["python"],
        )
    noted: dict[str, Any] = {"version": VERSION}
    if workdir := told["workdir"]:
        if workdir not in looked:
            looked[workdir] = look_at_repository(workdir, _GIT_PATIENCE)
        repository, diff = looked[workdir]
        noted["git"] = _fields(repository)
        if diff:
            write_aside(root / DIFF, diff)
    if told["data"]:
        return [(root, {**told, "noted": noted})]
    if len(noted) > 1:
        write_json(root / PROVENANCE, noted)
    return []


def _note_data(root: Path, told: dict[str, Any]) -> None:
    data = look_at_data(told["data"], _DATA_PATIENCE)
    write_json(root / PROVENANCE, {**told["noted"], "data": _fields(data)})


def _fields(told: Repository | Data) -> dict[str, Any]:
    return {name: getattr(told, name) for name in told.__slots__}


# Installed packages.


def environment_now() -> Environment:
    """Return the environment of this process."""
    return _look_at_environment(_entries(sys.path), sys.prefix)


def keep_environment(
    kept: Path, entries: Sequence[str], prefix: str, target: Path, *, python: str = ""
) -> None:
    """Look what is installed, and note it for this job and those that come.

    Parameters
    ----------
    kept
        Where all jobs of an environment have it from.
    entries
        The folders of packages.
    prefix
        Where their Python is.
    target
        Where the job is to have it.
    python
        Its version; this one's unless given.

    Raises
    ------
    OSError
        The disk is full, or the job's folder is gone.
    """
    changed = max((_changed_at(entry) for entry in entries), default=0.0)
    told = json.dumps(_look_at_environment(entries, prefix, python).to_json()).encode()
    if time.time() - changed < _SETTLED:
        write_aside(target, told)
        return
    make_private(kept.parent)
    write_aside(kept, told)
    if not _link(kept, target):
        write_aside(target, told)


def _entries(path: Sequence[object]) -> list[str]:
    """Return the folders of Python's path that installers write to."""
    found = dict.fromkeys(one for one in path if isinstance(one, str) and "-packages" in one)
    return [entry for entry in found if os.path.isdir(entry)]  # noqa: PTH112 - at each submission


def _kept_at(home: Path, entries: Sequence[str]) -> Path:
    """Return where an environment is kept, by what tells that something was installed."""
    told: list[object] = [VERSION, sys.executable, platform.python_version()]
    for entry in entries:
        with suppress(OSError):
            found = os.stat(entry)  # noqa: PTH116 - at each submission
            told.append([entry, found.st_ino, found.st_mtime_ns])
    name = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]
    return home / "cache" / "environments" / f"{name}.json"


def _changed_at(entry: str) -> float:
    try:
        return os.stat(entry).st_mtime  # noqa: PTH116 - a text
    except OSError:
        return time.time()


def _link(kept: Path, target: Path) -> bool:
    """Have a file at another place, too; return whether it is there."""
    with suppress(FileExistsError):
        try:
            os.link(kept, target)
        except FileNotFoundError:
            return False
        except OSError:  # a file system without links
            write_aside(target, kept.read_bytes())
    return True


def _look_at_environment(entries: Sequence[str], prefix: str, python: str = "") -> Environment:
    packages = [package for entry in entries for package in _installed(entry)]
    version = python or platform.python_version()
    return Environment(python=version, prefix=prefix, packages=tuple(packages))


def _installed(entry: str) -> Iterator[Package]:
    with suppress(OSError):
        for one in sorted(os.scandir(entry), key=lambda found: found.name):
            name, _, kind = one.name.rpartition(".")
            if kind not in ("dist-info", "egg-info"):
                continue
            name, _, version = name.partition("-")
            record = ""
            with (
                suppress(OSError),
                open(f"{one.path}/RECORD", "rb") as file,  # noqa: PTH123 - hundreds of them
            ):
                record = hashlib.sha256(file.read()).hexdigest()
            yield name, version, record


# The repository.


def _is_root(folder: Path) -> bool:
    return os.path.lexists(f"{folder}/.git")


def look_at_repository(
    folder: str, patience: float, program: str | None = None
) -> tuple[Repository, bytes]:
    """Ask git for what is checked out at a folder, and what was changed since.

    Parameters
    ----------
    folder
        Within the repository.
    patience
        Seconds that each of its answers may take.
    program
        Git; the one on the path unless given.

    Returns
    -------
    Repository
        With `Repository.problem` where git is not there, does not answer, or refuses.
    bytes
        The difference from the commit, a megabyte of it at most.
    """
    git = program or shutil.which("git")
    if git is None:
        return Repository(root=folder, problem="git is not installed"), b""
    words = ["rev-parse", "--show-toplevel", "HEAD", "--abbrev-ref", "HEAD"]
    head = _ask(git, folder, patience, *words)
    lines = head.text.splitlines()
    if head.problem and not lines:
        return Repository(root=folder, problem=head.problem), b""
    if head.problem:  # before the first commit it prints HEAD as it was given
        names = _ask(git, lines[0], patience, *_UNTRACKED)
        return Repository(root=lines[0], untracked=names.names, problem=names.problem), b""
    root, commit, branch = (*lines, "", "")[:3]
    plain = ("--no-ext-diff", "--no-textconv", "--no-color")
    diff = _ask(git, root, patience, "diff", *plain, "HEAD", most=_MOST_DIFF)
    changed = _ask(git, root, patience, "diff", *plain, "--name-only", "-z", "HEAD")
    names = _ask(git, root, patience, *_UNTRACKED)
    return Repository(
        root=root,
        commit=commit,
        branch="" if branch == "HEAD" else branch,
        changed=changed.names,
        untracked=names.names,
        diff=hashlib.sha256(diff.data).hexdigest() if diff.data else "",
        cut=diff.cut,
        problem=next((one.problem for one in (diff, changed, names) if one.problem), ""),
    ), diff.data


@dataclass(frozen=True, slots=True)
class _Answer:
    data: bytes = b""
    cut: bool = False
    problem: str = ""

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")

    @property
    def names(self) -> tuple[str, ...]:
        whole = self.text.split("\0")[:-1]  # the last is empty, or was cut off
        return tuple(whole[:_MOST_NAMES])


def _ask(git: str, folder: str, patience: float, *words: str, most: int = 1 << 18) -> _Answer:
    """Ask git something; what goes wrong is a problem of the answer.

    It asks nobody for a password, takes no lock, and runs no program that a repository names where
    that can be told.
    """
    import selectors  # noqa: PLC0415 - of the process beside
    import subprocess  # noqa: PLC0415 - likewise

    environment = {
        **os.environ,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "LC_ALL": "C",
    }
    quiet = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    try:
        process = subprocess.Popen(  # noqa: S603 - git
            [git, "-C", folder, *quiet, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # what git starts is ended with it
        )
    except OSError as error:
        return _Answer(problem=f"git: {error.strerror or error}")
    assert process.stdout is not None  # noqa: S101 - for the type checker
    assert process.stderr is not None  # noqa: S101 - likewise
    until = time.monotonic() + patience
    out, err = process.stdout.fileno(), process.stderr.fileno()
    told = {out: b"", err: b""}
    late = _Answer(problem=f"git has not answered within {patience:g} s")
    try:
        with selectors.DefaultSelector() as waiting:
            for descriptor in told:
                waiting.register(descriptor, selectors.EVENT_READ)
            while waiting.get_map() and len(told[out]) <= most:
                ready = waiting.select(max(0.0, until - time.monotonic()))
                if not ready:
                    return late
                for key, _ in ready:
                    piece = os.read(key.fd, 1 << 16)
                    # All of it is read, or git would wait; an error's beginning is enough.
                    told[key.fd] += piece if key.fd == out or len(told[err]) < _MOST_ERRORS else b""
                    if not piece:
                        waiting.unregister(key.fd)
        if len(told[out]) > most:
            return _Answer(told[out][:most], cut=True)
        code = process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return late
    finally:
        with suppress(OSError):  # it may be over, with all that it has started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()
    if not code:
        return _Answer(told[out])
    said = " ".join(told[err].decode(errors="replace").split())[:300]
    return _Answer(told[out], problem=f"git: {said or f'it ended with {code}'}")


# Data.


def look_at_data(path: str, patience: float) -> Data:
    """Return what is at a path of this machine: a file, or a folder with all below it.

    Parameters
    ----------
    path
        Absolute.
    patience
        Seconds from which on it is left at that.
    """
    until = time.monotonic() + patience
    names = hashlib.sha256()
    found: list[str] = []
    size, newest, problem = 0, 0.0, ""
    if not os.path.exists(path):  # noqa: PTH110 - a text
        return Data(path=path, problem=_NOT_THERE)
    for one in _files(path):
        if len(found) >= _MOST_FILES or time.monotonic() > until:
            problem = f"only its first {len(found)} files were looked at"
            break
        try:
            told = os.stat(one)  # noqa: PTH116 - many
        except OSError:  # removed meanwhile
            continue
        if not stat.S_ISREG(told.st_mode):  # pipes would have us wait for what they give
            continue
        found.append(one)
        size += told.st_size
        newest = max(newest, told.st_mtime)
        name = os.path.relpath(one, path)
        names.update(
            f"{name}\0{told.st_size}\0{told.st_mtime_ns}\0".encode(errors="surrogateescape")
        )
    content = "" if problem or size > _SMALL else _content(path, found, until)
    return Data(
        path=path,
        files=len(found),
        size=size,
        newest=newest,
        names=names.hexdigest(),
        content=content,
        problem=problem,
    )


def _files(path: str) -> Iterator[str]:
    """Yield the files at a path, in a fixed order."""
    if not os.path.isdir(path):  # noqa: PTH112 - a text
        yield path
        return
    for here, folders, names in os.walk(path):
        folders.sort()
        yield from (f"{here}/{name}" for name in sorted(names))


def _content(path: str, files: Sequence[str], until: float) -> str:
    made = hashlib.sha256()
    left = _SMALL
    for one in files:
        made.update(f"{os.path.relpath(one, path)}\0".encode(errors="surrogateescape"))
        try:
            with open(one, "rb") as file:  # noqa: PTH123 - many
                while piece := file.read(1 << 20):
                    left -= len(piece)
                    if left < 0 or time.monotonic() > until:  # it grows as it is read
                        return ""
                    made.update(piece)
        except OSError:
            return ""
        made.update(b"\0")
    return made.hexdigest()


# Reading it again.


def read_provenance(paths: JobPaths) -> Provenance:
    """Return what a job's folder tells of what it ran with.

    Parameters
    ----------
    paths
        The job. Its code can write there, so nothing of it is taken on trust.
    """
    told = _read(paths.root / PROVENANCE)
    environment = _read(paths.root / ENVIRONMENT)
    found: dict[str, Any] = {}
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        packages = (tuple(map(_text, one)) for one in environment["packages"])
        found["environment"] = Environment(
            python=_text(environment["python"]),
            prefix=_text(environment["prefix"]),
            packages=tuple((name, version, record) for name, version, record in packages),
        )
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        found["git"] = _read_repository(told["git"])
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        data = told["data"]
        found["data"] = Data(
            path=_text(data["path"]),
            files=int(data["files"]),
            size=int(data["size"]),
            newest=float(data["newest"]),
            names=_text(data["names"]),
            content=_text(data["content"]),
            problem=_text(data["problem"]),
        )
    return Provenance(**found)


def _read_repository(told: Mapping[str, Any]) -> Repository:
    return Repository(
        root=_text(told["root"]),
        commit=_text(told["commit"]),
        branch=_text(told["branch"]),
        changed=tuple(map(_text, told["changed"][:_MOST_NAMES])),
        untracked=tuple(map(_text, told["untracked"][:_MOST_NAMES])),
        diff=_text(told["diff"]),
        cut=told["cut"] is True,
        problem=_text(told["problem"]),
    )


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(read_foreign(path, _MOST_TOLD))
        return found if isinstance(found, dict) else {}
    return {}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value[:4096]


# Seeds, which are in the script.


_SEEDING = frozenset(
    {"seed", "manual_seed", "manual_seed_all", "set_seed", "seed_everything", "set_random_seed",
     "PRNGKey", "default_rng", "RandomState", "SeedSequence", "Random"}
)  # fmt: skip
_BY_NAME = frozenset({"seed", "random_state", "random_seed"})
_RANDOM = frozenset({"random", "torch", "tensorflow", "keras", "jax", "sklearn", "xgboost"})


def seeds_in(script: str) -> list[str]:
    """Return the seeds that stand in a script, as it writes them: ``torch.manual_seed(7)``.

    Parameters
    ----------
    script
        Its text. What does not parse has none.
    """
    tree = _parsed(script)
    found: dict[str, None] = {}
    for node in ast.walk(tree) if tree else ():
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        named = [one for one in node.keywords if one.arg in _BY_NAME]
        if called in _SEEDING and (node.args or node.keywords):
            found[_shown(node)] = None
        for one in named:
            if called not in _SEEDING and isinstance(one.value, ast.Constant):
                found[f"{called}({one.arg}={_shown(one.value)})"] = None
    return list(found)


def draws_numbers(script: str) -> bool:
    """Return whether a script names something that draws random numbers.

    Parameters
    ----------
    script
        Its text.
    """
    tree = _parsed(script)
    for node in ast.walk(tree) if tree else ():
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if isinstance(node, ast.Attribute) and node.attr == "random":
            return True
        if _RANDOM & {name.split(".")[0] for name in names}:
            return True
    return False


def _parsed(script: str) -> ast.Module | None:
    try:
        return ast.parse(script)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _shown(node: ast.expr) -> str:
    with suppress(RecursionError, ValueError):
        text = " ".join(ast.unparse(node).split())
        return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004 - a line
    return "…"
