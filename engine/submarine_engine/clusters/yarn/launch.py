"""What a keeper has to know of a job's submitter: ``launch.json``."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.bundle.modules import ran_by_path
from submarine_engine.clusters.processes import stat
from submarine_engine.clusters.yarn import uploads
from submarine_engine.clusters.yarn.environments import Environment, prepare
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.sending import Tell, send_large
from submarine_engine.clusters.yarn.versions import check_versions, local_versions, needed_versions
from submarine_engine.config import load_config

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.job import JobSpec

_ON_THE_NODES = (None, "same")


def make_launch(conf: HadoopConf, spec: JobSpec, bundle: Bundle, tell: Tell) -> dict[str, Any]:
    """Make a job's environment ready, and return the content of ``launch.json``.

    What people should know of the environment comes as a warning; what takes long is told.

    Raises
    ------
    SubmissionError
        There is no such environment, HDFS refuses it, or its Python is another one.
    """
    environment = _prepare(conf, spec, tell)
    launch = _common(spec, environment)
    needed = needed_versions(bundle.manifest.values)
    if not environment.probed:
        here, there = launch["here"], environment.versions
        check_versions(here, there.get("python", here), needed=needed, found=there)
    for note in environment.notes:
        warnings.warn(note, stacklevel=2)
    entry, home = bundle.manifest.entry, bundle.manifest.home()
    beside = ran_by_path(bundle.files)
    return {**launch, "needed": needed, "entry": entry, "home": home, "beside": beside}


def send_values(conf: HadoopConf, bundle: Path, tell: Tell) -> dict[str, str]:
    """Bring what is large in a job's bundle to HDFS, once for all jobs that have the same.

    Without HDFS all of a bundle has to travel with the request, and the keeper says where that is
    too much.

    Parameters
    ----------
    bundle
        Its folder, written.

    Returns
    -------
    dict
        The SHA-256 of each such file, by its path in the bundle.

    Raises
    ------
    SubmissionError
        HDFS refuses.
    """
    files = sorted(path for path in bundle.rglob("*") if path.is_file())
    large = [path for path in files if path.stat().st_size >= uploads.LARGE]
    hdfs = open_hdfs(conf) if large else None
    if hdfs is None:
        return {}
    with closing(hdfs):
        return send_large(hdfs, bundle, large, tell)


def environment_launch(conf: HadoopConf, spec: JobSpec) -> dict[str, Any]:
    """Return what an application of such jobs has to know, before there is one; raises likewise."""
    return _common(spec, _prepare(conf, spec, lambda _text: None))


def _common(spec: JobSpec, environment: Environment) -> dict[str, Any]:
    me = stat(os.getpid())
    return {
        "version": 1,
        "python": environment.python,
        "archives": dict(environment.archives),
        "environment": environment.key,
        "probed": environment.probed and environment.kind != "image",
        "here": local_versions(())["python"],
        "grace": load_config().value("grace"),
        "session": [os.getpid(), me.start] if spec.notebook and me else None,
    }


def _prepare(conf: HadoopConf, spec: JobSpec, tell: Tell) -> Environment:
    python = load_config().value("yarn_python") or sys.executable
    hdfs = None if spec.environment in _ON_THE_NODES else open_hdfs(conf)
    with closing(hdfs) if hdfs is not None else nullcontext():
        image = spec.docker_image
        return prepare(spec.environment, conf, hdfs, python=python, image=image, tell=tell)
