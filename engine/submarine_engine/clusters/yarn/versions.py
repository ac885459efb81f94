"""Which Python and packages a job finds, and whether what the notebook sends can be loaded there.

Values travel by the standard pickle: a newer Python may write what an older one cannot read, and a
package reads what its own major release wrote. That is found out before a GPU is asked for.
"""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from submarine_engine.clusters.yarn.foreign import told
from submarine_engine.errors import SubmissionError

if TYPE_CHECKING:
    from submarine_engine.bundle.model import CapturedValue

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


def probe_script(packages: Sequence[str] = PACKAGES) -> str:
    """Return a program that prints what `read_probe` reads: run it by ``PYTHON -c``."""
    return _SCRIPT % (tuple(packages), _MARK)


def probe_command(python: str, packages: Sequence[str] = PACKAGES) -> str:
    """Return the shell line for a container without a GPU; `python` is an `Environment`'s."""
    return f"{shlex.quote(python)} -c {shlex.quote(probe_script(packages))}"


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
        f"{python} does not run on the cluster's nodes, which say: {told(said)}",
        where="--environment",
        fix="send this notebook's own environment, --environment pack, or name an interpreter that "
        "every node has: --environment /path/to/bin/python3",
    )


def local_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions in this process's environment, as `read_probe` does."""
    found = {"python": platform.python_version()}
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def needed_versions(values: Iterable[CapturedValue]) -> dict[str, str]:
    """Return the packages whose objects travel as pickles, with the versions that wrote them."""
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
    where: str = "--environment",
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
            where=where,
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
