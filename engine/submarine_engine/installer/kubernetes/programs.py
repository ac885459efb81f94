"""Kubernetes' own programs, built once for all clusters of a user from pinned Go modules.

What each module has to be stands in the ``go.sum`` beside the ``go.mod`` of a version; Go refuses
what is another one, wherever it comes from.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.installer.kept import cache_folder, find_maker, make_once

MODULES = Path(__file__).parent / "modules"
_PLUGIN_SOURCE = MODULES / "gpus.go"
DEFAULT_VERSION = "1.36.3"
DEVICE_PLUGIN = "device-plugin"
"""The program that names a node's declared GPUs: ours, of one file, by the same modules."""
PROGRAMS = (
    "kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl",
)  # fmt: skip

_LIMIT = 3600.0  # it took 10 minutes on two busy cores
_TOLD = 5
_NICENESS = 5


def versions() -> list[str]:
    """Return the versions that are pinned here, the oldest first."""
    found = (one.parent.name for one in MODULES.glob("*/go.sum"))
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def check_version(version: str) -> str:
    """Return a version that is pinned.

    Raises
    ------
    CommandError
        It is not; the error names those that are.
    """
    if version not in versions():
        raise CommandError(
            f"Kubernetes {version} is not pinned here",
            where="--kubernetes_version",
            fix=f"write {' or '.join(versions())}",
        )
    return version


def programs_folder(version: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return where the programs of a version are kept, by its modules' sums, there or not.

    Parameters
    ----------
    version
        One of `versions`.
    environment
        Says where caches are; that of this process unless given.
    """
    pinned = b"".join((MODULES / version / name).read_bytes() for name in ("go.mod", "go.sum"))
    digest = hashlib.sha256(pinned).hexdigest()[:16]
    return cache_folder(environment) / "kubernetes" / f"{version}-{digest}"


def device_plugin(version: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return where the device plugin of a version is kept, by what it is made of, there or not.

    Parameters
    ----------
    version
        One of `versions`.
    environment
        Says where caches are; that of this process unless given.
    """
    made_of = (_PLUGIN_SOURCE, MODULES / version / "go.mod", MODULES / version / "go.sum")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in made_of)).hexdigest()[:16]
    folder = f"{DEVICE_PLUGIN}-{version}-{digest}"
    return cache_folder(environment) / "kubernetes" / folder / DEVICE_PLUGIN


def build_programs(
    version: str = DEFAULT_VERSION,
    environment: Mapping[str, str] | None = None,
    *,
    report: Callable[[str], object] = str,
) -> Path:
    """Return the folder with Kubernetes' programs; Go builds them where they are not there yet.

    The device plugin is built with them, and has a folder of its own, see `device_plugin`.
    Whoever comes while another builds waits for it. What an interrupted build left is removed.

    Parameters
    ----------
    version
        One of `versions`.
    environment
        Go's environment; that of this process unless given.
    report
        Is told in words what goes on.

    Raises
    ------
    CommandError
        The version is not pinned.
    ClusterError
        Go is not there, or fails; the message has its own words.
    OSError
        The cache cannot be written.
    """
    environment = dict(os.environ if environment is None else environment)
    folder = programs_folder(check_version(version), environment)
    plugin = device_plugin(version, environment).parent
    if folder.is_dir() and plugin.is_dir():
        return folder
    go = find_maker(
        "go",
        environment,
        f"Go is missing: there is no program `go` on the PATH to build Kubernetes {version}",
        "install Go (https://go.dev/dl), then say it again",
    )

    def build(aside: Path) -> Path:
        report(f"building Kubernetes {version} by Go, once for all clusters (minutes) …")
        made = aside / "programs"
        made.mkdir(mode=0o700)
        packages = (f"k8s.io/kubernetes/cmd/{program}" for program in PROGRAMS)
        _run_go(go, version, environment, "-o", f"{made}{os.sep}", *packages)
        return made

    def build_plugin(aside: Path) -> Path:
        made = aside / "plugin"
        made.mkdir(mode=0o700)
        # Go has the file in the folder of the version's modules, which is not ours to write in.
        place = MODULES / version / DEVICE_PLUGIN / _PLUGIN_SOURCE.name
        overlay = aside / "overlay.json"
        overlay.write_text(json.dumps({"Replace": {str(place): str(_PLUGIN_SOURCE)}}))
        words = ("-overlay", str(overlay), "-o", f"{made}{os.sep}", f"./{DEVICE_PLUGIN}")
        _run_go(go, version, environment, *words)
        return made

    make_once(folder, build)
    make_once(plugin, build_plugin)
    return folder


def _run_go(go: str, version: str, environment: Mapping[str, str], *words: str) -> None:
    flags = ["-mod=readonly", "-trimpath", "-ldflags", _version_flags(version)]
    command = [go, "build", *flags, *words]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Go
            command, cwd=MODULES / version,
            env={**environment, "CGO_ENABLED": "0", "GOWORK": "off"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT, check=False,
            preexec_fn=lambda: os.nice(_NICENESS),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"Go has not built Kubernetes {version} in {_LIMIT / 60:g} minutes",
            fix="see whether this machine reaches a module proxy (`go env GOPROXY`)",
        ) from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        told = "\n".join(lines[-_TOLD:]) or f"it ended with {done.returncode}"
        raise ClusterError(
            f"Go could not build Kubernetes {version}:\n{told}",
            where=str(MODULES / version),
            fix="see whether this machine reaches a module proxy (`go env GOPROXY`) and has that "
            "Go, then say it again",
        )


def _version_flags(version: str) -> str:
    """Return what makes the programs tell their version, as its own release build does."""
    minor = version.split(".")[1]
    told = {"gitVersion": f"v{version}", "gitMajor": "1", "gitMinor": minor}
    flags = [
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in told.items()
    ]
    return " ".join(["-s", "-w", *flags])


__all__ = [
    "DEFAULT_VERSION",
    "build_programs",
    "check_version",
    "device_plugin",
    "programs_folder",
    "versions",
]
