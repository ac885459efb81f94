"""``job run``: code becomes a job, and the job is followed to its end.

The bundle of plain Python files is each as it is, byte for byte, with the modules it imports. A
name that one lacks is said before anything is asked for, as it is for cells.
"""

from __future__ import annotations

import ast
import platform
import shlex
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from tokenize import detect_encoding

from submarine_engine import cache
from submarine_engine.asking import Asker, read_at_terminal
from submarine_engine.bundle.model import Bundle, LineSpan, Manifest
from submarine_engine.bundle.modules import TOTAL_LIMIT, travelling_modules
from submarine_engine.bundle.parts import missing_names
from submarine_engine.cache import Caching
from submarine_engine.cli import desktop
from submarine_engine.cli.output import INTERRUPTED, OK, Output, code_of_job, visible
from submarine_engine.cli.terminal_view import follow, view_of
from submarine_engine.clusters.choice import cluster_for
from submarine_engine.command.parser import Command, job_name, to_command
from submarine_engine.config import load_config
from submarine_engine.errors import (
    BundleError,
    CellSyntaxError,
    CommandError,
    UndefinedNameError,
)
from submarine_engine.future import Job
from submarine_engine.interrupts import Interrupts, noted
from submarine_engine.job import JobSpec, JobState
from submarine_engine.logs import check_task

_MOST_FILES = 2000
_NO_SCRIPT = b"# The launch command runs in place of a script.\n"
_MAKERS = frozenset({"builtins", "__builtins__", "exec", "globals", "locals", "vars", "_convert_"})
"""Who uses these may make names that nobody can read in the file."""


def run(command: Command, output: Output) -> int:
    """Run code as a job; wait for its end unless told to detach.

    Parameters
    ----------
    command
        Has the spec, and may have ``script``: a Python file, or a folder of them; without it the
        launch commands say what runs.
    output
        Where the job is shown, or its id is written; with ``dry_run`` the script.
    """
    values = command.values
    assert command.spec is not None  # noqa: S101 - for the type checker: it is `job run`
    config = load_config({"cluster": values.get("cluster")})
    program = read_program(values.get("script"), command.spec, Path.cwd())
    spec = command.named(program.name)
    which = values.get("logs")
    check_task(which, spec.each_rank_a_task().tasks)
    cluster, spec = cluster_for(str(config.value("cluster")), spec, output.note)
    cluster.tell = output.note
    asks = cluster.asks and not values.get("detach") and not output.json and sys.stdin.isatty()
    spec = replace(spec, asks=asks)
    here = Path.cwd()
    script = values.get("script")
    caching = Caching.of(values, f"{here / script}" if script else f"{here} {spec.name}")
    if values.get("dry_run"):
        if caching:
            for line in cache.explained(cluster, spec, program.bundle, here, caching):
                output.note(visible(line, line=True))
        return _show_plan(cluster.check(spec), program.bundle, script, output)
    with noted(Interrupts()) as interrupts:  # from here on there is a job to cancel
        job = cache.submit(cluster, spec, program.bundle, workdir=here, caching=caching)
        if job.remembered:
            told = f"the result is {job.remembered} ({job.id}); with --refresh it runs again"
            output.note(visible(told, line=True))
        if not values.get("detach"):
            if not job.remembered:
                output.note(f"job {job.id} ({spec.name})")
            return _watch(job, spec.name, which, output, interrupts)
    if output.json:
        output.data({"job": job.id, "name": spec.name, "cluster": cluster.name})
    else:
        output.line(job.id)
    return OK


def _watch(job: Job, name: str, which: str | None, output: Output, interrupts: Interrupts) -> int:
    view, began = view_of(job, name, output, which), time.monotonic()
    interrupted = False

    def cancel() -> bool:
        nonlocal interrupted
        interrupted = True
        view.say("cancelling; once more leaves at once")
        job.cancel("interrupted in the terminal")
        return True

    try:
        status = follow(job, view, interrupts, cancel, asker=Asker(job, read_at_terminal))
    except KeyboardInterrupt:
        output.note(f"left; the job ends by itself: submarine job attach {job.id}")
        return INTERRUPTED
    except BrokenPipeError:
        output.note(f"nobody reads any more; the job goes on: submarine job attach {job.id}")
        raise
    assert status is not None  # noqa: S101 - for the type checker: `cancel` never leaves
    desktop.tell(output, name, status, time.monotonic() - began)
    ended_by_us = interrupted and status.state is JobState.CANCELLED
    return INTERRUPTED if ended_by_us else code_of_job(status)


def _show_plan(spec: JobSpec, bundle: Bundle, script: str | None, output: Output) -> int:
    if output.json:
        output.data(
            {
                "spec": spec.to_json(),
                "hash": bundle.hash,
                "manifest": bundle.manifest.to_json(),
                "script": bundle.source(bundle.manifest.entry),
            }
        )
        return OK
    output.raw("stdout", bundle.source(bundle.manifest.entry).encode())
    output.note(f"would run: submarine {to_command(spec, script)}")
    for name in sorted(bundle.files):
        output.note(f"  {name}  {len(bundle.files[name])} bytes")
    output.note("nothing was asked for (--dry-run)")
    return OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A bundle, and what to call a job of it unless it has a name."""

    bundle: Bundle
    name: str


def read_program(script: str | None, spec: JobSpec, folder: Path) -> Program:
    """Read the files that a command line names.

    Parameters
    ----------
    script
        A Python file, or a folder of them; None leaves it to the launch commands of `spec`.
    folder
        Where relative paths begin.

    Raises
    ------
    CommandError
        Nothing says what to run, or it is no Python file.
    BundleError, CellSyntaxError, UndefinedNameError
        A file cannot be read, does not parse, lacks a name, or is too large.
    """
    if script is None:
        return _of_commands(spec, folder)
    path = folder / Path(script).expanduser()
    if path.is_dir():
        return _of_folder(path, script, spec)
    if path.suffix != ".py":
        raise CommandError(
            f"{script} is not a Python file",
            where="job run",
            fix="name a file that ends in .py, a folder of them, or give --worker_launch_cmd",
        )
    bundle = _bundle(path.parent, {path.name: script}, path.name)
    _check_entry(bundle, script, spec)
    return Program(bundle=bundle, name=job_name(path.stem))


def _of_commands(spec: JobSpec, folder: Path) -> Program:
    commands = [role.command for role in spec.roles if role.command is not None]
    if len(commands) < len(spec.roles):
        raise CommandError(
            "there is nothing to run", where="job run", fix="name a Python file: job run train.py"
        )
    files = {name: name for command in commands for name in _files_in(command, folder)}
    entry = next(iter(files), None)
    first = commands[0].split()[0]
    name = Path(entry).stem if entry else Path(first).name
    return Program(bundle=_bundle(folder, files, entry), name=job_name(name))


def _files_in(command: str, folder: Path) -> Iterator[str]:
    """Yield the Python files below `folder` that a shell command names."""
    try:
        # As a shell parts them: `python a.py; python b.py` names two files.
        words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    except ValueError:  # the shell will say so, in the job's log
        return
    for word in words:
        path = Path(word)
        inside = not path.is_absolute() and ".." not in path.parts
        if path.suffix == ".py" and inside and (folder / path).is_file():
            yield path.as_posix()


def _of_folder(folder: Path, label: str, spec: JobSpec) -> Program:
    files = {name: f"{label.rstrip('/')}/{name}" for name in _python_files(folder)}
    top = [name for name in files if "/" not in name]
    entry = "main.py" if "main.py" in files else top[0] if len(top) == 1 else None
    if entry is None and any(role.command is None for role in spec.roles):
        raise CommandError(
            f"nothing says which file of {label} runs",
            where="job run",
            fix="call it main.py, name the file itself, or give --worker_launch_cmd",
        )
    bundle = _bundle(folder, files, entry or next(iter(files), None))
    if entry is not None:
        _check_entry(bundle, files[entry], spec)
    return Program(bundle=bundle, name=job_name(folder.resolve().name))


def _check_entry(bundle: Bundle, label: str, spec: JobSpec) -> None:
    if any(role.command is None for role in spec.roles):  # else the command says what runs
        _check_names(bundle.source(bundle.manifest.entry).encode(), label)


def _python_files(folder: Path) -> list[str]:
    """Return the ``.py`` files below `folder`; environments, caches and hidden folders aside."""
    found: list[str] = []
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        for path in sorted(here.iterdir()):
            if path.is_dir() and not path.is_symlink() and not _is_foreign(path):
                waiting.append(path)
            elif path.suffix == ".py" and path.is_file() and not path.name.startswith("."):
                found.append(path.relative_to(folder).as_posix())
        if len(found) > _MOST_FILES:
            raise BundleError(
                f"there are more than {_MOST_FILES} Python files",
                where=str(folder),
                fix="name the file that runs: what it imports travels along",
            )
    return sorted(found)


def _is_foreign(folder: Path) -> bool:
    return (
        folder.name.startswith(".")
        or folder.name in ("__pycache__", "node_modules", "site-packages")
        or (folder / "pyvenv.cfg").exists()
    )


def _bundle(root: Path, files: Mapping[str, str], entry: str | None) -> Bundle:
    """Make the bundle of `files` (label by path below `root`) and of what they import."""
    content = {name: _read(root / name, label) for name, label in files.items()}
    sources = [(label, _source(content[name], label)) for name, label in files.items()]
    modules = travelling_modules(sources, root)
    content = {**modules, **content}
    if sum(map(len, content.values())) > TOTAL_LIMIT:
        raise BundleError(
            f"the Python files take more than {TOTAL_LIMIT >> 20} MiB together",
            where=str(root),
            fix="keep data out of .py files, and read it by --input_path",
        )
    manifest = Manifest(
        entry=entry or "script.py",
        python=platform.python_version(),
        lines=tuple(_spans(files, content)),
        modules=tuple(sorted(content.keys() - {entry})),
    )
    return Bundle(files=content or {"script.py": _NO_SCRIPT}, manifest=manifest)


def _spans(files: Mapping[str, str], content: Mapping[str, bytes]) -> Iterable[LineSpan]:
    for name, label in sorted(files.items()):
        yield LineSpan(
            file=name,
            line=1,
            count=content[name].count(b"\n") + 1,
            cell=label,
            cell_id=None,
            cell_number=None,
            cell_line=1,
        )


def _read(path: Path, label: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(
            f"the file cannot be read: {error.strerror}", where=label, fix="see whether it is there"
        ) from error


def _source(content: bytes, label: str) -> str:
    """Return the text of a Python file; what Python cannot read is said before anything runs."""
    try:
        encoding, _ = detect_encoding(BytesIO(content).readline)
        text = content.decode(encoding)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the job's own run shows them
            ast.parse(content, filename=label)
    except SyntaxError as error:
        where = f"{label}, line {error.lineno}" if error.lineno else label
        line = f": {error.text.strip()}" if error.text else ""
        raise CellSyntaxError(f"{error.msg}{line}", where=where, fix="mend that line") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise CellSyntaxError(f"it does not parse: {error}", where=label, fix="mend it") from error
    return text


def _check_names(source: bytes, label: str) -> None:
    """Refuse a file that reads a name which nobody defines.

    Parameters
    ----------
    source
        The file's content, which parses.
    label
        What people call the file.

    Raises
    ------
    UndefinedNameError
        At the line where the first such name is read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the job's own run shows them
        tree = ast.parse(source)
    if any(_makes_names(node) for node in ast.walk(tree)):
        return
    missing = missing_names(tree, {})
    if missing:
        (name, line), *others = missing
        listed = ", ".join(f"`{other}` (line {number})" for other, number in others)
        raise UndefinedNameError(
            f"`{name}` is not defined" + (f"; also missing: {listed}" if others else ""),
            where=f"{label}, line {line}",
            fix="define or import it there; a command is not looked into: --worker_launch_cmd",
        )


def _makes_names(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _MAKERS
    if isinstance(node, ast.Attribute):
        return node.attr in _MAKERS
    return isinstance(node, ast.Import) and any(alias.name in _MAKERS for alias in node.names)
