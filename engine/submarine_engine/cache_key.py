"""What the result of a job depends on, part by part: the key under which it is remembered.

A wrong hit is the worst that remembered results can do, so whatever may change a result counts
unless it is argued here that it cannot; that something counts needlessly costs a run.

* Of Python files the syntax tree counts, docstrings with it: comments, blank lines and layout
  change no tree, and nothing that runs but what reads its own source.
* Values count by the bytes that travel. The order of a dict and which objects are the same one are
  of the value: what comes home names objects by their number in those very bytes.
* Which cells they come from, by number and line, is told and does not count.
* Files count by content: what ``--input_path`` names, and what the code, a value, an argument or a
  variable names in one text or path. A text with parts that are not known yet, as
  ``f"data/{day}.csv"``, is a pattern, as ``data/*.csv`` is.
* All installed packages count, since any may be imported by another, and the code of those that
  are used from their source folder.
* Of the environment all variables count but those of a session, unless the code names them.
* The job's name, queue, time limit, retries and the like say how it runs, and not what it gives.
"""

from __future__ import annotations

import ast
import glob
import hashlib
import itertools
import json
import os
import pickletools
import platform
import re
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from submarine_engine.amounts import count
from submarine_engine.bundle.model import pieces_of
from submarine_engine.bundle.secrets import has_secret_name, looks_secret
from submarine_engine.config import load_config
from submarine_engine.declared import declared
from submarine_engine.errors import CommandError, UnsupportedError
from submarine_engine.history import default_home, read_json, write_json
from submarine_engine.job import FLOW_MARK
from submarine_engine.secret_values import secret_variables

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.job import JobSpec

_SESSION = re.compile(
    # Of the notebook, which jobs do not get, and our own, whose settings count as such.
    r"JPY_.*|PYDEVD.*|IPYKERNEL_.*|JUPYTERHUB_.*|SUBMARINE_.*|ZEPPELIN_.*|PYTEST_.*|"
    # Of a login and its terminal.
    r"SSH_.*|XDG_SESSION.*|XDG_SEAT.*|XDG_VTNR|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS|GPG_.*|"
    r"TERM.*|COLORTERM|COLUMNS|LINES|WINDOWID|DISPLAY|WAYLAND_DISPLAY|TMUX.*|STY|SHLVL|_|PWD|"
    r"OLDPWD|PS1|PROMPT_COMMAND|VSCODE_.*|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_.*|MAKE.*|MFLAGS|"
    # Set by libraries for the process that has imported them.
    r"KMP_INIT_AT_FORK|KMP_DUPLICATE_LIB_OK|CUDA_MODULE_LOADING|TF2_BEHAVIOR"
)
_HOW = frozenset(
    {"version", "name", "roles", "queue", "tensorboard", "quicklinks", "env", "secrets", "retries",
     "time_limit", "hang_after", "idle", "notebook", "options", "asks", "input_path",
     "checkpoint_path", "post_mortem", "notify", "chosen", "workers_on"}
)  # fmt: skip
"""Fields of a spec that say how a job runs, or have parts of their own here."""

_LONGEST_PATH = 1024
_MOST_FILES = 20_000
_MOST_CODES = 20_000
_MUCH = 256 << 20
_SETTLED = 2.0
"""Seconds after a change from which on a file's times tell that it was not changed again."""
_CODE = (".py", ".so", ".pyd", ".pth", ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg")
"""What a package's source folder is made of: its code, and what packages read of their own."""
_OPEN = re.compile(r"(?:%(?:\(\w+\))?[-#0 +]*[\d.]*[a-zA-Z]|\{[^{}]*\}|\0)+")
"""A part of a text that is filled in later."""
_BETWEEN = re.compile(r"[\s\"'`=,;<>|&()]+")
"""What stands between the words of a command."""
_ARRAY_OF_TEXTS = re.compile(r"[<>|=]?([US])(\d{1,4})")
_LONGEST_LINES = 16 * _LONGEST_PATH
_LISTS = frozenset({"listdir", "scandir", "iterdir", "walk", "glob", "iglob", "rglob"})
_HERE = frozenset({"getcwd", "cwd", "Path"})
"""What gives the folder that the code runs in, called without anything."""
_ALL_HERE = frozenset({".", "./", "*", "**", "*.*", "**/*"})
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_LISTING = frozenset({".txt", ".csv", ".tsv", ".lst"})
_NAMING = _LISTING | {
    ".py",
    ".sh",
    ".bash",
    ".mk",
    ".json",
    ".jsonl",
    ".yaml",
    ".yml",
    ".toml",
    ".ini",
    ".cfg",
    ".conf",
}
"""Files that may name other files: scripts, settings, lists."""
_LONGEST_NAMING = 64 << 10
_MOST_FOLLOWED = 500
_MAPPED = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ .w.s [0-9a-f]+ [0-9a-f:]+ (\d+)", re.MULTILINE)
_WORDS = re.compile(r"[\s\"'`=,;<>|&()\[\]{}:]+")
_NUMBER = re.compile(r"[-+.\deE_]*")
_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that a result depends on.

    Parameters
    ----------
    kind
        ``definition``, ``value``, ``option``, ``variable``, ``file``, ``package`` and so on.
    name
        Which one of its kind.
    digest
        Of its content.
    shown
        The content itself where it is short and no secret.
    where
        The cell and line that it comes from; no part of the key.
    """

    kind: str
    name: str
    digest: str
    shown: str = ""
    where: str = ""

    def to_json(self) -> list[str]:
        """Return the JSON form."""
        return [self.kind, self.name, self.digest, self.shown, self.where]

    @classmethod
    def from_json(cls, data: Sequence[str]) -> Part:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What `to_json` returned.

        Raises
        ------
        ValueError
            It is nothing of the kind.
        """
        if len(data) != len(cls.__slots__) or not all(isinstance(one, str) for one in data):
            raise ValueError(f"no part of a key: {data!r}")
        kind, name, digest, shown, where = data
        return cls(kind=kind, name=name, digest=digest, shown=shown, where=where)

    @property
    def words(self) -> str:
        """What it is, for people."""
        named = f" `{self.name}`" if self.kind in ("definition", "value", "statement") else ""
        plain = {"variable": f"environment variable {self.name}", "setting": f"setting {self.name}",
                 "option": f"--{self.name}", "file": f"file {self.name}", "package": self.name,
                 "folder": f"folder {self.name}", "files": f"files {self.name}",
                 "sources": f"code in {self.name}",
                 "module": f"module {self.name}", "python": self.name,
                 "notebook": "what of the notebook the cell binds"}  # fmt: skip
        return plain.get(self.kind, f"{self.kind}{named}")


@dataclass(frozen=True)
class Key:
    """All that a result depends on."""

    parts: tuple[Part, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all parts, in hexadecimal."""
        told = [[part.kind, part.name, part.digest] for part in self.parts]
        return _digest(json.dumps(told).encode())

    def summary(self) -> Iterator[str]:
        """Yield what it is made of, for people: single things by name, the others counted."""
        counted = {"variable": "environment variable", "package": "installed package",
                   "setting": "setting", "option": "option"}  # fmt: skip
        numbers: dict[str, int] = {}
        for part in self.parts:
            if part.kind in counted:
                numbers[part.kind] = numbers.get(part.kind, 0) + 1
            else:
                shown = f" = {part.shown}" if part.shown else ""
                where = f" ({part.where})" if part.where else ""
                yield f"{'all of the code' if part.kind == 'code' else part.words}{shown}{where}"
        yield ", ".join(count(number, counted[kind]) for kind, number in numbers.items())

    def changes(self, former: Iterable[Part]) -> list[str]:
        """Return in words what is another than in `former`, the parts of another key.

        Parameters
        ----------
        former
            Of the earlier run.
        """
        before, now = _numbered(former), _numbered(self.parts)
        found = [
            _changed(before.get(place), part)
            for place, part in now.items()
            if place not in before or before[place].digest != part.digest
        ]
        found += [f"{part.words} is not needed any more" for place, part in before.items()
                  if place not in now]  # fmt: skip
        # The tree as a whole differs wherever a part of it does.
        told = [one for one in found if one != _ORDER]
        return told or [_ORDER]


def _numbered(parts: Iterable[Part]) -> dict[tuple[str, str, int], Part]:
    """Return parts by kind and name; a name may be bound twice, a package be in two folders."""
    found: dict[tuple[str, str, int], Part] = {}
    for part in parts:
        number = next(n for n in itertools.count() if (part.kind, part.name, n) not in found)
        found[part.kind, part.name, number] = part
    return found


_ORDER = "the order of the definitions changed"


def _changed(before: Part | None, now: Part) -> str:
    if now.kind == "code":
        return _ORDER
    where = f" ({now.where})" if now.where else ""
    if before is None:
        return f"{now.words} is new{where}"
    if before.shown and now.shown and before.shown != now.shown:
        return f"{now.words}: {before.shown} → {now.shown}{where}"
    if now.kind == "package":
        return f"{now.words} {now.shown} was installed again"
    return f"{now.words} changed{where}"


class FileDigests:
    """Digests of files' contents, kept by their times and sizes: a large file is read once.

    Parameters
    ----------
    path
        Where they are kept; what cannot be read there is computed anew.
    tell
        Called with a sentence where there is much to be read.
    """

    def __init__(self, path: Path, tell: Callable[[str], object] | None = None) -> None:
        self._path = path
        self._tell = tell
        self._known: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            found = read_json(path) or {}
            self._known = found if isinstance(found, dict) else {}
        self._new = False
        self._read = 0

    def of(self, path: str) -> str:
        """Return the digest of a file's content.

        Parameters
        ----------
        path
            Absolute.

        Raises
        ------
        OSError
            It cannot be read.
        """
        with open(path, "rb") as file:  # noqa: PTH123 - up to twenty thousand of them
            told = os.fstat(file.fileno())
            stamp = [told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns]
            mapped = told.st_ino in self._mapped
            known = None if mapped else self._known.get(path)
            if isinstance(known, list) and known[:-1] == stamp and isinstance(known[-1], str):
                return known[-1]
            made = hashlib.sha256()
            while piece := file.read(1 << 20):
                made.update(piece)
                self._read += len(piece)
                if self._read > _MUCH and self._tell:
                    self._tell(f"reading {path} to see whether it has changed …")
                    self._tell = None
        # A file that changes now may change again without that its times tell.
        if not mapped and time.time() - max(told.st_mtime, told.st_ctime) > _SETTLED:
            self._known[path] = [*stamp, made.hexdigest()]
            self._new = True
        return made.hexdigest()

    @cached_property
    def _mapped(self) -> frozenset[int]:
        """The files, by inode, that this process has in its memory to write to.

        What it writes there, as by numpy's memmap, changes a file's times later, or never.
        """
        with suppress(OSError), open("/proc/self/maps", "rb") as file:  # noqa: PTH123 - once a key
            return frozenset(int(found) for found in _MAPPED.findall(file.read()))
        return frozenset()

    def keep(self) -> None:
        """Write down what was computed, the newest of it.

        Raises
        ------
        OSError
            The disk is full.
        """
        if self._new:
            newest = list(self._known.items())[-2 * _MOST_FILES :]
            write_json(self._path, dict(newest))
            self._new = False


def key_of(  # noqa: PLR0913 - as `Cluster.submit`, each by its name
    cluster: Cluster,
    spec: JobSpec,
    bundle: Bundle,
    *,
    workdir: Path,
    digests: FileDigests,
    salt: bytes,
) -> Key:
    """Return what the result of a job depends on.

    Parameters
    ----------
    cluster, spec, bundle, workdir
        As `Cluster.submit` is given them.
    digests
        What is known of files.
    salt
        With which values of variables are hashed: they may be secrets.

    Raises
    ------
    CommandError
        The job has a checkpoint path: what is there decides what it does, and the job writes it.
    UnsupportedError
        Its input is somewhere that nobody here can look at.
    SubmissionError
        A secret has no value.
    """
    if spec.checkpoint_path:
        raise CommandError(
            "--cache and --checkpoint_path contradict each other: what is in that folder decides "
            "what the job does, and the job changes it",
            where=f"--checkpoint_path {spec.checkpoint_path}",
            fix="leave one out",
        )
    code = _Code(bundle)
    return Key(
        (
            *code.parts(),
            *_values(bundle),
            *_spec(spec),
            *_variables(spec, code.text, salt),
            *_cluster(cluster, spec, workdir, digests),
            *_inputs(cluster, spec, workdir, digests),
            *_named(
                code.texts | _texts_in_values(bundle) | _texts_asked(spec, code), workdir, digests
            ),
            *([_listed(workdir, digests)] if code.lists_here else ()),
            *_python(workdir),
            _notebook(bundle),
        )
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# Code and values.


class _Code:
    """The Python files of a bundle, parsed once."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.texts: set[str] = set()
        """The texts that stand in the code."""
        self.text = ""
        """All of the code."""
        self._calls: set[str] = set()
        self._bare: set[str] = set()
        self._trees: dict[str, ast.Module | None] = {}
        for path in bundle.files:
            if path.endswith(".py") and not path.startswith("cloudpickle/"):
                self._trees[path] = self._parse(path)

    def _parse(self, path: str) -> ast.Module | None:
        content = b"".join(pieces_of(self._bundle.files[path]))
        self.text += content.decode(errors="replace")
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # its bytes count
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self.texts.add(node.value)
            elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
                self.texts.add(os.fsdecode(node.value[:_LONGEST_LINES]))
            elif isinstance(node, ast.JoinedStr) or (
                isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
            ):
                self.texts.add(_OPEN.sub("*", _pattern(node)))
            elif isinstance(node, ast.Call):
                called = node.func
                name = getattr(called, "attr", getattr(called, "id", ""))
                self._calls.add(name)
                if not (node.args or node.keywords):
                    self._bare.add(name)
        return tree

    @property
    def lists_here(self) -> bool:
        """Whether it may go through the folder that it runs in, whose name it need not say."""
        here = bool(self._bare & _HERE) or bool(self.texts & _ALL_HERE)
        return bool(self._bare & {"listdir", "scandir"}) or (here and bool(self._calls & _LISTS))

    def parts(self) -> Iterator[Part]:
        entry = self._bundle.manifest.entry
        for path in sorted(self._bundle.files):
            if path.startswith("values/"):
                continue
            tree = self._trees.get(path)
            dumps = _dumps(tree) if tree else None
            if dumps is None:
                made = hashlib.sha256()
                for piece in pieces_of(self._bundle.files[path]):
                    made.update(piece)
                whole = made.hexdigest()
            else:
                whole = _digest("\n".join(dumps).encode())
            yield Part(kind="code" if path == entry else "module", name=path, digest=whole)
            if path == entry and tree and dumps is not None:
                yield from self._of_entry(tree, dumps)

    def _of_entry(self, tree: ast.Module, dumps: Sequence[str]) -> Iterator[Part]:
        imports: list[str] = []
        own: list[str] = []
        for node, dump in zip(tree.body, dumps, strict=True):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imports.append(dump)
            elif isinstance(node, ast.If) and "'__main__'" in dump:
                own.append(dump)
            else:
                yield self._of_node(node, dump)
        yield Part(kind="imports", name="", digest=_digest("\n".join(imports).encode()))
        yield Part(kind="the cell's own code", name="", digest=_digest("\n".join(own).encode()))

    def _of_node(self, node: ast.stmt, dump: str) -> Part:
        digest = _digest(dump.encode())
        where = self._where(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return Part(kind="definition", name=node.name, digest=digest, where=where)
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            shown = _cut(ast.unparse(node.value))
            if has_secret_name(target.id) or looks_secret(shown.strip("\"'")):
                shown = ""
            return Part(kind="value", name=target.id, digest=digest, shown=shown, where=where)
        return Part(kind="statement", name=_cut(ast.unparse(node)), digest=digest, where=where)

    def _where(self, node: ast.stmt) -> str:
        manifest = self._bundle.manifest
        found = manifest.origin(manifest.entry, node.lineno)
        return f"{found[0].cell}, line {found[1]}" if found else ""


def _pattern(node: ast.expr) -> str:
    """Return a text that is put together, with NUL for each part that is not known."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "\0"
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_piece, node.values))
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts.append(_piece(node.right))
        node = node.left
    return "".join([_piece(node), *reversed(parts)])


def _piece(node: ast.expr) -> str:
    return _pattern(node) if isinstance(node, (ast.Constant, ast.JoinedStr)) else "\0"


def _dumps(tree: ast.Module) -> list[str] | None:
    """Return each statement's tree as text; None where Python cannot write one."""
    try:
        return [ast.dump(node) for node in tree.body]
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        return None


def _cut(text: str) -> str:
    line = text.replace("\n", " ")
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _values(bundle: Bundle) -> Iterator[Part]:
    said = {value.name: value for value in bundle.manifest.values}
    named = {load.path: load.names for load in bundle.manifest.loads}
    for path in sorted(bundle.files):
        if not path.startswith("values/"):
            continue
        made = hashlib.sha256()
        for piece in pieces_of(bundle.files[path]):
            made.update(piece)
        # A file of large blocks beside a value's own is called after that one.
        names = named.get(path) or (path.removeprefix("values/"),)
        cells = dict.fromkeys(said[name].cell for name in names if name in said)
        yield Part(
            kind="value",
            name=", ".join(names),
            digest=made.hexdigest(),
            where=", ".join(filter(None, cells)),
        )


def _texts_in_values(bundle: Bundle) -> set[str]:
    """Return the texts and paths in the values, of each file of them as far as it is short."""
    found: set[str] = set()
    for path, content in bundle.files.items():
        if path.startswith("values/") and isinstance(content, bytes):
            with suppress(ValueError, IndexError):  # a file of blocks is no pickle
                found |= _texts(content)
    return found


def _texts(pickled: bytes) -> set[str]:
    found: set[str] = set()
    memo: list[str | None] = []
    blocks: list[bytes] = []
    path: list[str] | None = None
    last: str | None = None
    for code, argument, _ in itertools.islice(pickletools.genops(pickled), _MOST_CODES):
        if code.name == "MEMOIZE":
            memo.append(last)
            continue
        last = None
        if isinstance(argument, str):
            last = argument
        elif isinstance(argument, (bytes, bytearray)):
            blocks.append(bytes(argument))
        elif code.name in ("BINGET", "LONG_BINGET") and isinstance(argument, int):
            last = memo[argument]
        if last is not None:
            found.add(last)
            if last in ("PosixPath", "WindowsPath"):
                path = []
            elif path is not None:
                path.append(last)
        elif code.name == "REDUCE" and path:
            found.add(os.path.join(*path))  # noqa: PTH118 - parts of a text
            path = None
    return found | _texts_in_arrays(found, blocks)


def _texts_in_arrays(texts: Iterable[str], blocks: Iterable[bytes]) -> set[str]:
    """Return the texts of numpy's arrays of texts, which are blocks of one width each."""
    found: set[str] = set()
    widths = {told.groups() for told in map(_ARRAY_OF_TEXTS.fullmatch, texts) if told}
    for kind, number in sorted(widths):
        code, size = ("utf-32", 4 * int(number)) if kind == "U" else ("utf-8", int(number))
        for block in blocks:
            if not size or len(block) % size:
                continue
            for at in range(0, min(len(block), size * _MOST_CODES), size):
                with suppress(UnicodeDecodeError):  # of another array
                    found.add(block[at : at + size].decode(f"{code}-le" if kind == "U" else code))
    return {text.rstrip("\0") for text in found}


def _texts_asked(spec: JobSpec, code: _Code) -> set[str]:
    """Return arguments and commands, and what is in the variables that the code names."""
    given = {**os.environ, **spec.env}
    named = {*spec.env, *(name for name in given if name in code.texts)}
    plain = [name for name in named if not _SESSION.fullmatch(name) and not has_secret_name(name)]
    found = {given[name] for name in plain if name not in spec.secrets}
    for role in spec.roles:
        found |= {*role.args, *_BETWEEN.split(role.command or "")}
    return found | {text.partition("=")[2] for text in found if "=" in text}


def _notebook(bundle: Bundle) -> Part:
    # Which names the notebook has besides is looked at when a result is found: see `cache`. Which
    # values are written out the script says itself, but for those that modules hold.
    told = bundle.manifest.home() or {}
    held = [name for name in told.get("literals", ()) if "." in name]
    told = {**told, "shadows": [], "literals": held}
    return Part(kind="notebook", name="", digest=_digest(json.dumps(told, sort_keys=True).encode()))


# What is asked for.


def _plain(kind: str, name: str, value: object) -> Part:
    text = json.dumps(value, sort_keys=True, default=str)
    plain = value is None or isinstance(value, (bool, int, float, str))
    shown = "not given" if value is None else text.strip('"') if plain else ""
    return Part(kind=kind, name=name, digest=_digest(text.encode()), shown=_cut(shown))


_OF_WORKERS = {
    "count": "num_workers",
    "command": "worker_launch_cmd",
    "vcores": "cpus",
    "args": "arguments",
    "least": "num_workers, at least",
}


def _spec(spec: JobSpec) -> Iterator[Part]:
    for role in spec.roles:
        told = role.to_json()
        resources = told.pop("resources")
        for name, value in {**told, **resources}.items():
            of_workers = _OF_WORKERS.get(name, name)
            called = of_workers if role.name == "worker" else f"{role.name}_{name}"
            yield _plain("option", called, value)
    for name, value in spec.to_json().items():
        if name not in _HOW:
            yield _plain("option", name, value)


def _variables(spec: JobSpec, code: str, salt: bytes) -> Iterator[Part]:
    given = {**os.environ, **spec.env, **secret_variables(spec)}
    # It is another one in each run of a flow, and counts where the code names it.
    asked = {*spec.env, *spec.secrets} - {FLOW_MARK}
    for name, value in sorted(given.items()):
        if name not in asked and _SESSION.fullmatch(name) and name not in code:
            continue
        made = hashlib.blake2b(os.fsencode(value), key=salt, digest_size=32)
        yield Part(kind="variable", name=name, digest=made.hexdigest())


def _cluster(
    cluster: Cluster, spec: JobSpec, workdir: Path, digests: FileDigests
) -> Iterator[Part]:
    yield _plain("setting", "cluster", cluster.name)
    said = declared().get(cluster.name) or declared(search=True).get(cluster.name)
    config = load_config()
    yield _plain("setting", "user", config.value("user"))
    if said is None:
        return
    for key in said.settings:
        yield _plain("setting", key.name, config.value(key.name))
    for option in said.options:
        value = spec.options.get(option.name)
        if not option.passed_over:
            yield _plain("option", option.name, value)
        if option.kind == "path" and value and (path := workdir / str(value)).exists():
            yield _content(str(path), str(value), digests)  # an archive of its environment


# Files.


def _inputs(cluster: Cluster, spec: JobSpec, workdir: Path, digests: FileDigests) -> Iterator[Part]:
    yield _plain("folder", "that the job runs in", str(workdir))
    if not spec.input_path:
        return
    yield _plain("option", "input_path", spec.input_path)
    # A cluster of a backend asks that one; it says so itself where it has none.
    path = getattr(cluster, "backend", cluster).machine_path(spec.input_path, "--input_path")
    if path is None:
        raise UnsupportedError(
            f"nobody here can tell whether {spec.input_path} has changed",
            where="--input_path",
            fix="leave --cache out, or name an input of this machine",
        )
    yield _content(str(workdir / path), spec.input_path, digests)


def _named(texts: Iterable[str], workdir: Path, digests: FileDigests) -> Iterator[Part]:
    """Yield the files and folders that texts name, each alone or as words of it.

    A script or a short list that is named names more: what it imports, what stands in it.
    """
    here = str(workdir)
    above = {here, os.path.expanduser("~"), "/", "/tmp", tempfile.gettempdir()}  # noqa: PTH111, S108 - as text
    above |= {*map(str, workdir.parents)}
    todo = [(here, one) for one in sorted({one for text in texts for one in _candidates(text)})]
    if any("-m" in _BETWEEN.split(text) for text in texts):
        todo += [(here, one) for text in sorted(texts) for one in _modules(_BETWEEN.split(text))]
    seen = set(above)
    follow = _MOST_FOLLOWED
    for folder, text in todo:  # it grows
        path = os.path.normpath(os.path.join(folder, os.path.expanduser(text)))  # noqa: PTH111, PTH118 - a thousand
        if path in seen:
            continue
        seen.add(path)
        if os.path.exists(path):  # noqa: PTH110 - likewise
            yield _content(path, text, digests)
            if follow and (more := _names_in(path)):
                follow -= 1
                todo += [(base, one) for one in more for base in (os.path.dirname(path), here)]  # noqa: PTH120 - a text
        elif pattern := _globbed(path, above):
            matching = glob.iglob(pattern, recursive=True)  # noqa: PTH207 - of a whole path
            made = hashlib.sha256()
            for one in sorted(itertools.islice(matching, _MOST_FILES)):
                told = _content(one, one, digests).digest if one not in above else ""
                made.update(f"{one}\0{told}\0".encode(errors="surrogateescape"))
            yield Part(kind="files", name=text, digest=made.hexdigest())


def _candidates(text: str) -> Iterator[str]:
    """Yield what may be a path: a text, what a ``file:`` address leads to, a command's words."""
    if not text or "\0" in text or len(text) > _LONGEST_LINES:
        return
    if len(text) <= _LONGEST_PATH and "\n" not in text:
        yield text
        if text.startswith("file:"):
            yield unquote(urlsplit(text).path)
    words = _BETWEEN.split(text)
    if len(words) > 1:
        # A word of a sentence is no file's name for it.
        yield from (one for one in words if len(one) <= _LONGEST_PATH and {*one} & {*"./"})


def _modules(names: Iterable[str]) -> list[str]:
    """Return the files that modules of these names may be."""
    paths = [name.replace(".", "/") for name in names if _DOTTED.fullmatch(name)]
    ends = (".py", "/__init__.py", "/__main__.py")
    return [f"{path}{end}" for path in paths for end in ends]


def _names_in(path: str) -> list[str]:
    """Return what a named file may name: of a script its imports and texts, else its words."""
    kind = os.path.splitext(path)[1].lower()  # noqa: PTH122 - a text
    if kind not in _NAMING and not path.endswith(("Makefile", "makefile")):
        return []
    try:
        # Pipes and devices would have us wait for what they give.
        if not os.path.isfile(path) or os.path.getsize(path) > _LONGEST_NAMING:  # noqa: PTH113, PTH202 - a text
            return []
        with open(path, "rb") as file:  # noqa: PTH123 - a text
            content = file.read(_LONGEST_NAMING)
        if kind == ".py":
            return sorted(_names_in_code(ast.parse(content)))
        words = {*_WORDS.split(content.decode())}
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    found = {one for one in words if 0 < len(one) <= _LONGEST_PATH and not _NUMBER.fullmatch(one)}
    if kind in _LISTING:
        return sorted(one for one in found if {*one} & {*"./"})
    return sorted({*found, *_modules(found)} if "-m" in words else found)


def _names_in_code(tree: ast.Module) -> set[str]:
    """Return what a script may read besides itself: texts in it, and files of its imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {*_candidates(node.value)}
        elif isinstance(node, (ast.JoinedStr, ast.BinOp)):
            found |= {*_candidates(_OPEN.sub("*", _pattern(node)))}
        elif isinstance(node, ast.Import):
            found |= {*_modules(one.name for one in node.names)}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            inner = [f"{base}.{one.name}" if base else one.name for one in node.names]
            up = "../" * max(0, node.level - 1)
            found |= {f"{up}{path}" for path in _modules([base, *inner])}
    return found


def _listed(workdir: Path, digests: FileDigests) -> Part:
    """Return the folder that the job runs in, but for notebooks, and what is hidden or our own."""
    made = hashlib.sha256()
    jobs = str(default_home())
    for at, path in enumerate(_files(str(workdir))):
        name = os.path.relpath(path, workdir)
        own = path == jobs or path.startswith(f"{jobs}/")
        if (
            own
            or name.endswith(".ipynb")
            or any(one.startswith((".", "__")) for one in name.split("/"))
        ):
            continue
        told = _of_file(path, digests) if at < _MOST_FILES else ""
        made.update(f"{name}\0{told}\0".encode(errors="surrogateescape"))
        if at > 2 * _MOST_FILES:
            break
    return Part(kind="files", name="beside the notebook", digest=made.hexdigest())


def _globbed(path: str, above: Collection[str]) -> str:
    """Return the pattern that a path is; empty where it is none, or one of nearly everything."""
    pattern = _OPEN.sub("*", path)
    if not glob.has_magic(pattern):
        return ""
    parts = pattern.split("/")
    first = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    # A folder of all kinds of things counts for what is named in it.
    told = "".join(parts[first:]) if parts[first] == "**" else parts[first]
    alone = ("/".join(parts[:first]) or "/") in above and len(re.findall(r"\w", told)) < 2  # noqa: PLR2004 - no name
    return "" if alone else pattern


def _content(path: str, name: str, digests: FileDigests) -> Part:
    """Return a file or a folder by what it holds; what cannot be read by that it cannot."""
    if not os.path.isdir(path):  # noqa: PTH112 - a text
        return Part(kind="file", name=name, digest=_of_file(path, digests))
    made = hashlib.sha256()
    for at, found in enumerate(_files(path)):
        # Of a huge folder its first files count by content, the others by times and sizes.
        told = _of_file(found, digests) if at < _MOST_FILES else _stamp(found)
        made.update(f"{os.path.relpath(found, path)}\0{told}\0".encode(errors="surrogateescape"))
    return Part(kind="folder", name=name, digest=made.hexdigest())


def _of_file(path: str, digests: FileDigests) -> str:
    try:
        # Pipes and devices would have us wait for what they give.
        return digests.of(path) if os.path.isfile(path) else "no file"  # noqa: PTH113 - a text
    except OSError as error:
        return f"unreadable: {error.errno}"


def _stamp(path: str) -> str:
    try:
        told = os.stat(path)  # noqa: PTH116 - a text
    except OSError:
        return "gone"
    # The time of the change besides: that of the content can be set back.
    return f"{told.st_size} {told.st_mtime_ns} {told.st_ctime_ns} {told.st_ino}"


def _files(folder: str, suffixes: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield what is below a folder in a fixed order, also by way of links.

    Of code, that is the files of these suffixes, without environments and caches.
    """
    jobs = str(default_home())
    seen = set()
    for at, (here, folders, names) in enumerate(os.walk(folder, followlinks=True)):
        with suppress(OSError):
            told = os.stat(here)  # noqa: PTH116 - a text
            if (told.st_dev, told.st_ino) in seen:  # a link that leads back
                folders[:] = []
                continue
            seen.add((told.st_dev, told.st_ino))
        if suffixes:
            if at > _MOST_FILES:  # to be counted as if they were files
                yield from [here] * _MOST_FILES
            folders[:] = [one for one in folders if _may_have_code(here, one)]
            if "pyvenv.cfg" in names or here == jobs:
                folders[:] = []
                continue
        folders.sort()
        for name in sorted(names if suffixes else [*names, *folders]):
            if not suffixes or name.endswith(suffixes):
                yield f"{here}/{name}"


def _may_have_code(here: str, name: str) -> bool:
    if name.startswith((".", "__", "node_modules")):
        return False
    path = f"{here}/{name}"
    # A package that is linked is imported; other links lead to data.
    return not os.path.islink(path) or os.path.exists(f"{path}/__init__.py")  # noqa: PTH110, PTH114 - texts


# Python and its packages.


def _python(workdir: Path) -> Iterator[Part]:
    version = f"{platform.python_implementation()} {platform.python_version()}"
    yield _plain("python", "Python", f"{version}, {platform.machine()}")
    yield _plain("python", "the environment", sys.prefix)
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    # What the code imports from beside the notebook, or the program, travels with it.
    own = {"", str(workdir), *([os.path.dirname(os.path.abspath(program))] if program else [])}  # noqa: PTH100, PTH120 - a text
    paths = sysconfig.get_paths()
    standard = (paths["stdlib"], paths["platstdlib"])
    folders: dict[str, None] = {}
    for entry in dict.fromkeys(one for one in sys.path if isinstance(one, str) and one not in own):
        if os.path.isfile(entry):  # noqa: PTH113 - a text; a zip of modules
            yield Part(kind="sources", name=entry, digest=_stamp(entry))
        elif "-packages" in entry:
            yield from _installed(entry, folders)
            yield _loose(entry)
        elif os.path.isdir(entry) and not entry.startswith(standard):  # noqa: PTH112 - likewise
            yield from _installed(entry, folders)
            folders[entry] = None
    for folder in folders:
        yield _sources(folder)


def _sources(folder: str) -> Part:
    """Return the code of a folder, whose files no installer has put there."""
    made = hashlib.sha256()
    for at, path in enumerate(_files(folder, _CODE)):
        if at > _MOST_FILES:
            raise UnsupportedError(
                f"there is more code in {folder}, which is on Python's path, than can be looked "
                "through for changes",
                where="--cache",
                fix="leave --cache out, or put the code into a folder of its own",
            )
        made.update(f"{path}\0{_stamp(path)}\0".encode(errors="surrogateescape"))
    return Part(kind="sources", name=folder, digest=made.hexdigest())


def _loose(entry: str) -> Part:
    """Return the modules that lie in a folder of packages by themselves."""
    made = hashlib.sha256()
    with suppress(OSError):
        for one in sorted(os.scandir(entry), key=lambda found: found.name):
            if one.name.endswith((".py", ".so", ".pth")):
                made.update(f"{one.name}\0{_stamp(one.path)}\0".encode(errors="surrogateescape"))
    return Part(kind="sources", name=entry, digest=made.hexdigest())


def _distributions(entry: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError):
        yield from (
            one for one in os.scandir(entry) if one.name.endswith((".dist-info", ".egg-info"))
        )


def _installed(entry: str, folders: dict[str, None]) -> Iterator[Part]:
    """Yield the packages of one folder; note in `folders` where those lie that are in none."""
    for one in sorted(_distributions(entry), key=lambda found: found.name):
        name, _, version = one.name.rpartition(".")[0].partition("-")
        yield Part(
            kind="package",
            name=name,
            # Installed anew under the same version, it may be another one.
            digest=_digest(f"{entry} {one.name} {_stamp(one.path)}".encode()),
            shown=version,
        )
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            with open(f"{one.path}/direct_url.json", "rb") as file:  # noqa: PTH123 - one a package
                told = json.loads(file.read())
            if told.get("dir_info", {}).get("editable"):
                folders[unquote(urlsplit(str(told["url"])).path)] = None
