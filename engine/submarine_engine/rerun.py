"""The very same run once more: a job's bundle and options again, as a new job from the start.

What was changed since, the notebook and files beside it, does not matter: the bundle is the earlier
job's, byte for byte, and is refused where it is not. What does matter and cannot be had again is
told: installed packages and data that are others now.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.amounts import count
from submarine_engine.bundle.model import Bundle, pieces_of
from submarine_engine.clusters.choice import cluster_for
from submarine_engine.errors import CommandError, JobError
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.job import JobSpec
from submarine_engine.pool.folder import PoolFolder
from submarine_engine.provenance import (
    Data,
    Environment,
    draws_numbers,
    environment_now,
    look_at_data,
    read_provenance,
    seeds_in,
)

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster

_PATIENCE = 3.0  # seconds: a person waits for the rerun; after that it is said to be unknown
_NAMED = 4
_FRESH = "run its cell or its command again"


def rerun(  # noqa: PLR0913 - each by its name
    job_id: str,
    change: Callable[[JobSpec], JobSpec],
    *,
    cluster: Cluster | str,
    notebook: bool = False,
    tell: Callable[[str], object],
    say_choice: Callable[[str], object] | None = None,
) -> tuple[Cluster, str]:
    """Run what a job ran once more, from the start; return where, and the id of the new job.

    Parameters
    ----------
    job_id
        The earlier one, however it ended, or is going on.
    change
        Gives what the new one is to be, of what the earlier one was.
    cluster
        Where, or its name; of the same home as the earlier one's.
    notebook
        Whether it is the earlier one's notebook that asks.
    tell
        Called with a sentence for each thing that is another now.
    say_choice
        Called with the reason where the cluster is any of several.

    Raises
    ------
    JobError
        Its bundle is gone or was changed, or it cannot be run by itself.
    CommandError
        An option is not possible, or the new one would go on from the earlier one's checkpoints.
    SubmissionError, ClusterError
        The cluster refuses the new one; a secret has no value.
    """
    paths = paths_of(cluster, job_id)
    record = read_record(paths)
    former = JobSpec.from_json(record["spec"])
    _refuse_what_is_no_job_of_its_own(paths, former)
    bundle = read_bundle(paths, record)
    made, here = bundle.manifest.python, platform.python_version()
    if made.split(".")[:2] != here.split(".")[:2]:
        raise JobError(
            f"its values were written by Python {made}, and this is {here}",
            job_id=job_id,
            fix="run it again from the environment that it was made in",
        )
    # Nobody waits at the new one's cell, and from a terminal no notebook at all.
    asker = former.notebook if notebook else None
    plain = replace(former, checkpoint_path=None, asks=False, notebook=asker, chosen=None)
    spec = change(plain)
    if former.checkpoint_path and not spec.checkpoint_path:
        raise CommandError(
            f"the job {job_id} has kept checkpoints in {former.checkpoint_path}, from which a"
            " second run would go on",
            where="job rerun",
            fix="give it a folder of its own: --checkpoint_path NEW; to go on: submarine job retry "
            f"{job_id}",
        )
    if isinstance(cluster, str):
        cluster, spec = cluster_for(cluster, spec, say_choice)
        cluster.tell = tell
    workdir = Path(record["workdir"])
    if cluster.tasks_here and not workdir.is_dir():
        raise JobError(
            f"the folder that it ran in is gone: {workdir}", job_id=job_id, fix="make it again"
        )
    for line in changed_since(paths, cluster, spec, workdir, bundle):
        tell(line)
    return cluster, cluster.rerun(job_id, spec, bundle, workdir=workdir)


def with_options(spec: JobSpec, options: Mapping[str, object]) -> JobSpec:
    """Return a job's spec with what `submit`'s keywords say otherwise.

    They are read as the options of ``job rerun``, so that both mean the same.

    Parameters
    ----------
    spec
        What it was.
    options
        By name: a text, a number, True for a switch; several as a list or a mapping.

    Raises
    ------
    CommandError
        One is not known, or not possible.
    """
    words = ["job", "rerun", "again"]
    for name, value in options.items():
        if name in ("logs", "detach"):
            raise CommandError(f"{name} says nothing of the job", where="rerun", fix="leave it out")
        if value is None:
            continue
        option = f"--{'num_workers' if name == 'workers' else name}"
        if name == "workers" and isinstance(value, (tuple, list)):
            value = ":".join(map(str, value))  # noqa: PLW2901 - as the grammar has it
        if isinstance(value, bool):
            words += [option, str(value).lower()]
        elif isinstance(value, Mapping):
            words += [f"{option}={key}={text}" for key, text in value.items()]
        else:
            several = value if isinstance(value, (tuple, list)) else (value,)
            words += [f"{option}={one}" for one in several]
    from submarine_engine.command.parser import overridden, parse  # noqa: PLC0415 - loads click

    return overridden(spec, parse(words).values)


def paths_of(cluster: object, job_id: str) -> JobPaths:
    """Return the files of the job `job_id` of `cluster`; in the user's home where it has none."""
    return JobPaths(getattr(cluster, "home", None) or default_home(), job_id)


def read_record(paths: JobPaths) -> Mapping[str, Any]:
    """Return the record of the job at `paths`.

    Raises
    ------
    JobError
        It is gone, or spoilt.
    """
    try:
        record = read_json(paths.record)
    except (OSError, ValueError) as error:
        raise JobError(
            f"its record cannot be read: {error}", job_id=paths.job_id, fix=_FRESH
        ) from error
    if record is None:
        raise JobError("its record is gone", job_id=paths.job_id, fix=_FRESH)
    return record


def read_bundle(paths: JobPaths, record: Mapping[str, Any]) -> Bundle:
    """Return the bundle that a job was submitted with, and nothing that was added to its folder.

    Parameters
    ----------
    paths
        The job's files.
    record
        Of the job, which has the bundle's hash.

    Raises
    ------
    JobError
        It is gone, or not what it was.
    """
    try:
        manifest = read_json(paths.bundle / "manifest.json") or {}  # what is none is no bundle's
        bundle = Bundle.read(paths.bundle)
    except (OSError, ValueError, KeyError, TypeError) as error:
        gone = not paths.bundle.is_dir()
        what = "its script and values are gone" if gone else f"its script cannot be read: {error}"
        raise JobError(what, job_id=paths.job_id, fix=_FRESH) from error
    # Python writes `__pycache__` beside modules, and a launch command what it likes.
    told = bundle.manifest
    own = {told.entry, *told.modules, *(span.file for span in told.lines)}
    kept = [path for path in bundle.files if "__pycache__/" not in f"/{path}"]
    named = [path for path in kept if path in own or path.startswith(("values/", "cloudpickle/"))]
    for paths_of_it in (kept, named):
        files = {path: bundle.files[path] for path in paths_of_it}
        if _hash(files, manifest) == record.get("bundle_hash"):
            return replace(bundle, files=files, _hash=[])
    raise JobError(
        "its script or values have been changed since it ran",
        job_id=paths.job_id,
        where=str(paths.bundle),
        fix=_FRESH,
    )


def _hash(files: Mapping[str, Any], manifest: object) -> str:
    """Return `Bundle.hash` as the release had it that wrote the manifest."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path}\0{len(files[path])}\0".encode())
        for piece in pieces_of(files[path]):
            digest.update(piece)
    digest.update(json.dumps(manifest, sort_keys=True).encode())
    return digest.hexdigest()


def _refuse_what_is_no_job_of_its_own(paths: JobPaths, spec: JobSpec) -> None:
    if spec.parent:
        raise JobError(
            f"it runs calls of job {spec.parent}, and has none of its own",
            job_id=paths.job_id,
            fix="run the cell or the program again that made that one",
        )
    if PoolFolder.of_job(paths.root.parents[1], paths.job_id) is not None:
        # Its calls and trials are on record beside it, and it would find them done.
        raise JobError(
            "it runs a sweep or a map, which goes on where it was and never begins anew",
            job_id=paths.job_id,
            fix=f"run its cell or its program again; to go on: submarine job retry {paths.job_id}",
        )


# What is another now.


def changed_since(
    paths: JobPaths, cluster: Cluster, spec: JobSpec, workdir: Path, bundle: Bundle
) -> Iterator[str]:
    """Yield in words what of a job's surroundings is another than when it ran.

    Parameters
    ----------
    paths
        The earlier job.
    cluster, spec, workdir, bundle
        Of the new one.
    """
    told = read_provenance(paths)
    if told.environment is None:
        yield f"which packages job {paths.job_id} ran with is not on record"
    elif changes := packages_changed(told.environment, environment_now()):
        yield f"other packages than for job {paths.job_id}: {listed(changes)}"
    if told.data is not None and spec.input_path:
        path = getattr(cluster, "backend", cluster).machine_path(spec.input_path, "--input_path")
        if path is not None and str(workdir / path) == told.data.path:
            now = look_at_data(told.data.path, _PATIENCE)
            if not (told.data.whole and now.whole):
                yield f"whether its data has changed is not known: {told.data.path} is too much"
            elif not told.data.same(now):
                yield f"other data than for job {paths.job_id}: {data_words(told.data, now)}"
    if not bundle.manifest.random and draws_numbers(bundle.script) and not seeds_in(bundle.script):
        yield "no seed is in its script: what it draws at random comes out otherwise"


def packages_changed(before: Environment, now: Environment) -> list[str]:
    """Return in words how two environments differ: other versions first.

    Parameters
    ----------
    before, now
        The two.
    """
    old, new = before.by_name(), now.by_name()
    versions = [f"Python {before.python} → {now.python}"] if before.python != now.python else []
    versions += [
        f"{name} {old[name][0]} → {new[name][0]}"
        for name in old
        if name in new and old[name][0] != new[name][0]
    ]
    gone = [f"{name} {version} is gone" for name, (version, _) in old.items() if name not in new]
    more = [f"{name} {version} is new" for name, (version, _) in new.items() if name not in old]
    # Each environment has records of its own: scripts name its Python.
    same_place = before.prefix == now.prefix
    again = [
        f"{name} {version} was installed again"
        for name, (version, record) in old.items()
        if same_place and name in new and new[name][0] == version and new[name][1] != record
    ]
    return [*versions, *gone, *again, *more]


def listed(words: list[str]) -> str:
    """Return the first few of some words, and how many more there are."""
    more = len(words) - _NAMED
    return ", ".join(words[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def data_words(before: Data, now: Data) -> str:
    """Return in words how data differs.

    Parameters
    ----------
    before, now
        The two, which differ.
    """
    if now.problem and not now.files:
        return f"{now.path}: {now.problem}"
    if before.path != now.path:
        return f"{before.path} → {now.path}"
    if (before.files, before.size) == (now.files, now.size):
        return f"{now.path} has the same size and another content"
    sizes = f"{count(before.files, 'file')}, {before.size} bytes"
    return f"{now.path}: {sizes} → {count(now.files, 'file')}, {now.size} bytes"
