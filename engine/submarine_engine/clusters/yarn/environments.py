"""The Python that a job runs in: ``--environment same | pack | ARCHIVE | PYTHON``.

========================  ========================================================================
``same`` (the default)    this notebook's interpreter, at the same path on every node
``pack``                  a copy of this notebook's environment, in layers (`packing`)
an archive                ``.tar.gz``, ``.tgz``, ``.tar`` or ``.zip``, a local file or ``hdfs://…``,
                          with ``bin/python`` in it, as venv-pack and conda-pack make them
a path to an interpreter  ``/…/bin/python3`` on every node
========================  ========================================================================

With ``--docker_image``, ``same`` means the image's own ``python3``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters.yarn import packing
from submarine_engine.clusters.yarn.sending import Tell, send_archive, send_layers
from submarine_engine.errors import SubmissionError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.hdfs import Hdfs

_OPTION = "--environment"
_SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")
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


def prepare(  # noqa: PLR0913 - each is one thing that it depends on
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
    if wanted == "same":
        if image:
            return Environment(kind="image", python="python3")
        return Environment(kind="same", python=python)
    if wanted == "pack":
        return _packed(_there(hdfs, conf, wanted), tell)
    if wanted.lower().endswith(_SUFFIXES):
        return _archive(wanted, _there(hdfs, conf, wanted), tell)
    if wanted.startswith("/") and Path(wanted).name.startswith("python"):
        return Environment(kind="python", python=wanted)
    fix = f"write {_OPTION} with one of: {_KINDS}"
    if Path(wanted).expanduser().is_dir():
        fix = (
            f"if every node has this folder: {_OPTION} {wanted.rstrip('/')}/bin/python; else make "
            "an archive of it with venv-pack or conda-pack and name that"
        )
    raise SubmissionError(f"{wanted!r} is no environment", where=_OPTION, fix=fix)


def _there(hdfs: Hdfs | None, conf: HadoopConf, wanted: str) -> Hdfs:
    if hdfs is None:
        raise SubmissionError(
            f"{wanted} needs HDFS, and {conf.default_fs} is none that answers WebHDFS",
            where=_OPTION,
            fix=f"let the nodes have the environment: {_OPTION} same, or /path/to/bin/python3",
        )
    return hdfs


def _packed(hdfs: Hdfs, tell: Tell) -> Environment:
    plan = packing.plan()
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
    suffix = next(one for one in _SUFFIXES if wanted.lower().endswith(one))
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
