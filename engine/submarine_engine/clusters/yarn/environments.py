"""The Python that a job runs in: ``--environment same | pack | ARCHIVE | PYTHON``, or Docker.

Before a job starts, its interpreter is asked which packages it finds, so that what the notebook
sends can be loaded there.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters import layers
from submarine_engine.clusters.environment import ARCHIVES, environment_kind
from submarine_engine.clusters.yarn.hadoop_json import clean_line
from submarine_engine.clusters.yarn.uploads import Tell, send_archive, send_layers
from submarine_engine.errors import SubmissionError, UnsupportedError

if TYPE_CHECKING:
    from submarine_engine.bundle.model import CapturedValue
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.hdfs import Hdfs


# Which Python and packages a job finds, and whether what the notebook sends can be loaded there.
#
# Values travel by the standard pickle: a newer Python may write what an older one cannot read, and
# a package reads what its own major release wrote. That is found out before a GPU is asked for.


PACKAGES = ("numpy", "pandas", "scikit-learn", "scipy", "torch", "jax", "tensorflow")
"""Distributions whose objects notebooks send most often."""

_MODULES = {"sklearn": "scikit-learn"}
_MARK = "SUBMARINE-PROBE "
_SCRIPT = """
import json, platform, sys
from importlib import metadata
found = {"python": platform.python_version(), "executable": sys.executable}
for name in %r:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(%r + json.dumps(found), flush=True)
"""


@dataclass(frozen=True, slots=True)
class _Row:
    what: str
    here: str
    there: str


def probe_command(python: str) -> str:
    """Return the shell line for a container without a GPU; `python` is an `Environment`'s.

    What it prints is for `read_probe`.
    """
    return f"{shlex.quote(python)} -c {shlex.quote(_SCRIPT % (PACKAGES, _MARK))}"


def read_probe(text: str, python: str = "python") -> dict[str, str]:
    """Return the versions that a probe has printed: ``python``, ``executable`` and packages.

    Parameters
    ----------
    text
        All that the probe's container wrote.
    python
        What was run, for the error.

    Raises
    ------
    SubmissionError
        The interpreter does not run there; with what was printed instead.
    """
    for line in text.splitlines():
        if line.startswith(_MARK):
            try:
                found = json.loads(line[len(_MARK) :])
                return {str(name): str(version) for name, version in found.items()}
            except (ValueError, AttributeError):
                break
    said = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing")
    raise SubmissionError(
        f"{python} does not run on the cluster's nodes, which say: {clean_line(said)}",
        where="--environment",
        fix="send this notebook's own environment, --environment pack, or name an interpreter that "
        "every node has: --environment /path/to/bin/python3",
    )


def local_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions in this process's environment, as `read_probe` does.

    Parameters
    ----------
    packages
        Distributions to look for; those that are not installed are left out.
    """
    found = {"python": platform.python_version()}
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def needed_versions(values: Iterable[CapturedValue]) -> dict[str, str]:
    """Return the packages whose objects travel as pickles, with the versions that wrote them.

    Parameters
    ----------
    values
        All that the notebook sends; those that travel as literals need no package.
    """
    modules = {value.type.partition(".")[0] for value in values if value.how != "literal"}
    found = local_versions(_MODULES.get(module, module) for module in sorted(modules))
    del found["python"]
    return found


def check_versions(
    manifest_python: str,
    remote_python: str,
    *,
    needed: Mapping[str, str] | None = None,
    found: Mapping[str, str] | None = None,
) -> None:
    """Refuse a job whose values or syntax the other Python could not read.

    Parameters
    ----------
    manifest_python, remote_python
        Versions: of the notebook, and of the containers. Their minor releases must be the same.
    needed
        What `needed_versions` tells: each must be there, of the same major release (the same minor
        one below 1.0).
    found
        Versions in the containers.

    Raises
    ------
    SubmissionError
        With a table of what differs: here and there.
    """
    rows = []
    if _series(manifest_python, 2) != _series(remote_python, 2):
        rows.append(_Row("Python", manifest_python, remote_python))
    for name, here in (needed or {}).items():
        there = (found or {}).get(name)
        if there is None:
            rows.append(_Row(name, here, "not there"))
        elif _line_of(here) != _line_of(there):
            rows.append(_Row(name, here, there))
    if rows:
        raise SubmissionError(
            "what the notebook sends cannot be loaded in the job's environment:\n" + _table(rows),
            where="--environment",
            fix="send this notebook's own environment: --environment pack; or start the notebook "
            "with the versions of the cluster",
        )


def _line_of(version: str) -> tuple[str, ...]:
    major = _series(version, 1)
    return _series(version, 2) if major == ("0",) else major


def _series(version: str, parts: int) -> tuple[str, ...]:
    return tuple(version.split(".")[:parts])


def _table(rows: Sequence[_Row]) -> str:
    lines = [_Row("", "this notebook", "the job"), *rows]
    what = max(len(row.what) for row in lines)
    here = max(len(row.here) for row in lines)
    return "\n".join(
        f"  {row.what:{what}}  {row.here:{here}}  {row.there}".rstrip() for row in lines
    )


# Containers in a Docker image: what YARN's Docker runtime is asked for, by environment.


# The pattern of Hadoop's own DockerLinuxContainerRuntime, which refuses after the GPU is granted.
_IMAGE = re.compile(
    r"(([a-zA-Z0-9.-]+)(:[0-9]+)?/)?([a-z0-9_./-]+)(:[a-zA-Z0-9_][\w.-]{0,127})?"
    r"(@sha256:[0-9a-f]{64})?"
)
_LONGEST = 255
_MOUNT = re.compile(
    r"(/[^:\x00,]*):(/[^:\x00,]*)(:(?:r[ow])(?:\+(?:r?(?:shared|slave|private)))?)?"
)

# As every Docker cluster of YARN has it: without them, the user has no name in the container.
_ACCOUNTS = ("/etc/passwd:/etc/passwd:ro", "/etc/group:/etc/group:ro")


def docker_environment(image: str, mounts: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment that makes YARN start a container from `image`.

    Variables of Hadoop's "Launching Applications Using Docker Containers".

    Parameters
    ----------
    image
        ``[registry[:port]/]name[:tag][@sha256:…]``.
    mounts
        ``SOURCE:DESTINATION[:ro|rw]``, absolute paths; besides the node's accounts. The cluster
        admits only those that its administrator allows.

    Raises
    ------
    UnsupportedError
        The image or a mount is not written as YARN reads it.
    """
    if len(image) > _LONGEST or not _IMAGE.fullmatch(image):
        raise UnsupportedError(
            f"{image!r} cannot name an image",
            where="--docker_image",
            fix="write [REGISTRY/]NAME[:TAG], the name in lower case",
        )
    for mount in mounts:
        if not _MOUNT.fullmatch(mount):
            raise UnsupportedError(
                f"{mount!r} is no mount", where="mounts", fix="write /SOURCE:/DESTINATION[:ro|rw]"
            )
    modes = [mount if mount.count(":") > 1 else f"{mount}:ro" for mount in mounts]
    return {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": image,
        "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": ",".join(dict.fromkeys((*_ACCOUNTS, *modes))),
    }


# The Python that a job runs in: ``--environment same | pack | ARCHIVE | PYTHON``.
#
# ========================  ========================================================================
# ``same`` (the default)    this notebook's interpreter, at the same path on every node
# ``pack``                  a copy of this notebook's environment, in layers (`layers`)
# an archive                ``.tar.gz``, ``.tgz``, ``.tar`` or ``.zip``, a local file or
#   ``hdfs://…``,
#                           with ``bin/python`` in it, as venv-pack and conda-pack make them
# a path to an interpreter  ``/…/bin/python3`` on every node
# ========================  ========================================================================
#
# With ``--docker_image``, ``same`` means the image's own ``python3``.


_OPTION = "--environment"
_KINDS = "same, pack, an archive (.tar.gz, .zip; local or hdfs://…) or /path/to/bin/python3"
_FOLDER = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where a job's Python comes from.

    Parameters
    ----------
    kind
        ``same``, ``pack``, ``archive``, ``python`` or ``image``.
    python
        The program: absolute, relative to the container's working directory, or for an image a
        name that its ``PATH`` finds. No shell reads it.
    archives
        What YARN unpacks beside the container: address in HDFS (``hdfs://…``) by folder.
    versions
        Of Python and packages, where they are known without a probe; else empty.
    notes
        What the user should know, each a sentence.
    sent
        Bytes that were uploaded for it just now.
    """

    kind: str
    python: str
    archives: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sent: int = 0

    @property
    def key(self) -> str:
        """Hash of what a container has to be started with: part of an application's shape."""
        parts = [self.kind, self.python, sorted(self.archives.items())]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @property
    def probed(self) -> bool:
        """Whether its versions have to be asked for in a container (`versions.probe_command`)."""
        return not self.versions


def prepare_environment(  # noqa: PLR0913 - each is one thing that it depends on
    wanted: str | None,
    conf: HadoopConf,
    hdfs: Hdfs | None,
    *,
    python: str = sys.executable,
    image: str | None = None,
    tell: Tell = lambda _text: None,
) -> Environment:
    """Make an environment ready, before anything is asked of YARN.

    Parameters
    ----------
    wanted
        What ``--environment`` says; None for ``same``.
    conf
        The cluster's; named in errors.
    hdfs
        The user's HDFS; None where there is none, and then only what lies on the nodes can be used.
    python
        The notebook's interpreter.
    image
        The containers' Docker image, if any.
    tell
        Called with a sentence whenever there is something to say of a long step.

    Raises
    ------
    SubmissionError
        There is no such environment, or HDFS refuses it.
    """
    wanted = (wanted or "same").strip()
    kind = environment_kind(wanted, _KINDS, "every node")
    if kind == "pack":
        return _packed(_there(hdfs, conf, wanted), tell)
    if kind == "archive":
        return _archive(wanted, _there(hdfs, conf, wanted), tell)
    if kind == "python":
        return Environment(kind="python", python=wanted)
    if image:
        return Environment(kind="image", python="python3")
    return Environment(kind="same", python=python)


def _there(hdfs: Hdfs | None, conf: HadoopConf, wanted: str) -> Hdfs:
    if hdfs is None:
        raise SubmissionError(
            f"{wanted} needs HDFS, and {conf.default_fs} is none that answers WebHDFS",
            where=_OPTION,
            fix=f"let the nodes have the environment: {_OPTION} same, or /path/to/bin/python3",
        )
    return hdfs


def _packed(hdfs: Hdfs, tell: Tell) -> Environment:
    plan = layers.plan_layers()
    sent = send_layers(hdfs, plan.layers, tell)
    paths = {layer.folder: path for layer, (path, _) in zip(plan.layers, sent, strict=True)}
    return Environment(
        kind="pack",
        python=plan.python,
        archives={folder: hdfs.uri(path) for folder, path in paths.items()},
        versions=plan.versions,
        notes=plan.notes,
        sent=sum(size for _, size in sent),
    )


def _archive(wanted: str, hdfs: Hdfs, tell: Tell) -> Environment:
    suffix = next(one for one in ARCHIVES if wanted.lower().endswith(one))
    sent = 0
    if "://" in wanted:
        if wanted.startswith(f"{hdfs.url}/") and not hdfs.exists(wanted):
            raise SubmissionError(
                "there is no such archive", where=wanted, fix="check the path: hdfs dfs -ls"
            )
        address = wanted
    else:
        file = Path(wanted).expanduser()
        if not file.is_file():
            raise SubmissionError(
                "there is no such archive", where=str(file), fix="check the path, or make it"
            )
        path, sent = send_archive(hdfs, file, suffix, tell)
        address = hdfs.uri(path)
    return Environment(
        kind="archive",
        python=f"{_FOLDER}/bin/python",
        archives={_FOLDER: address},
        sent=sent,
    )
