"""What a job needs on this machine, checked: one finding a line, each with the way out."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from submarine_engine import __version__
from submarine_engine.clusters import ANY, cluster_kind, cluster_names
from submarine_engine.clusters.choice import as_ours, candidates
from submarine_engine.command.values import did_you_mean
from submarine_engine.config import DEFAULT, Config, load_config
from submarine_engine.declared import known_settings
from submarine_engine.errors import ConfigError, SubmarineError
from submarine_engine.extras import install_extra
from submarine_engine.findings import BAD, NOTE, OK, Check
from submarine_engine.history import check_home
from submarine_engine.job import JobState
from submarine_engine.records import list_jobs
from submarine_engine.settings import format_value

_LITTLE_ROOM = 1 << 30
_NO_ROOM = 100 << 20
_LOOKED_AT = 1000
_NOTEBOOK_PARTS = ("ipykernel", "ipywidgets", "anywidget")


def doctor(overrides: Mapping[str, object] | None = None) -> list[Check]:
    """Check everything; never raises for what it finds.

    Parameters
    ----------
    overrides
        Settings given by options, see `load_config`.
    """
    found = [_python(), _shell_python()]
    try:
        config = load_config(overrides, search=True)
    except SubmarineError as error:
        return [*found, Check("configuration", BAD, _error_words(error), error.fix)]
    found += [Check("configuration", OK, _file(config)), *_settings(config), *_strangers()]
    checks: tuple[Callable[[Config], Iterator[Check]], ...] = (
        _home, _room, _cluster, _jobs_cluster, _notebook, _jobs,
    )  # fmt: skip
    for check in checks:
        found += _outcome(check, config)
    return found


def _outcome(check: Callable[[Config], Iterator[Check]], config: Config) -> list[Check]:
    title = check.__name__.strip("_").replace("_", " ").replace("jobs cluster", "cluster")
    try:
        return list(check(config))
    except SubmarineError as error:
        return [Check(title, BAD, _error_words(error), error.fix)]
    except OSError as error:
        return [Check(title, BAD, str(error))]


def _error_words(error: SubmarineError) -> str:
    return f"{error.where}: {error.what}" if error.where else error.what


def _python() -> Check:
    return Check(
        "Python",
        OK,
        f"{platform.python_version()} at {sys.executable}; submarine-notebook {__version__}",
    )


def _shell_python() -> Check:
    found = shutil.which("python")
    if found:
        return Check("python in launch commands", OK, found)
    return Check(
        "python in launch commands",
        NOTE,
        "there is no program `python` on the PATH for --worker_launch_cmd",
        f"activate the environment, or write {sys.executable} in the command",
    )


def _file(config: Config) -> str:
    return f"{config.path}" if config.path.exists() else f"no file at {config.path}: defaults"


def _settings(config: Config) -> Iterator[Check]:
    chosen = [name for name in config if config.origin(name) != DEFAULT]
    for name in chosen:
        value = format_value(name, config.value(name))
        yield Check(f"setting {name}", OK, f"{value} (from {config.origin(name)})")
    others = len(list(config)) - len(chosen)
    yield Check("settings", OK, f"{others} have their defaults: submarine config show")


def _strangers() -> Iterator[Check]:
    """Find variables that look like settings and are none."""
    known = {
        "SUBMARINE_CONFIG",
        "SUBMARINE_MACHINE_FOLDER",
        *(key.variable for key in known_settings(search=True).values()),
    }
    for name in sorted(os.environ):
        if name.startswith("SUBMARINE_") and name not in known:
            hint = did_you_mean(name, known)
            if hint:
                yield Check("environment", NOTE, f"{name} sets nothing", hint.strip())


def _home(config: Config) -> Iterator[Check]:
    home = Path(config.value("home"))
    if not home.exists():
        parent = _there(home)
        if os.access(parent, os.W_OK | os.X_OK):
            yield Check("home folder", OK, f"{home} will be made by the first job")
        else:
            yield Check("home folder", BAD, f"{parent} cannot be written", _other_home())
        return
    mode = home.stat()
    if not home.is_dir() or not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield Check("home folder", BAD, f"{home} is no folder of yours", _other_home())
        return
    try:
        check_home(home)
    except ConfigError as error:
        yield Check("home folder", BAD, f"{home}: {error.what}", error.fix)
        return
    if stat.S_IMODE(mode.st_mode) & 0o077:
        yield Check("home folder", NOTE, f"others may look into {home}", f"chmod 700 '{home}'")
    else:
        yield Check("home folder", OK, f"{home} is writable and private")


def _other_home() -> str:
    return "let SUBMARINE_HOME name a folder of yours"


def _there(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())


def _room(config: Config) -> Iterator[Check]:
    home = Path(config.value("home"))
    free = shutil.disk_usage(_there(home)).free
    verdict = BAD if free < _NO_ROOM else NOTE if free < _LITTLE_ROOM else OK
    fix = "" if verdict == OK else f"make room, or {_other_home()} on another disk"
    yield Check("disk", verdict, f"{free / (1 << 30):.1f} GiB free below {_there(home)}", fix)


def _cluster(config: Config) -> Iterator[Check]:
    name = str(config.value("cluster"))
    told = f"{name} ({config.origin('cluster')})"
    if name == ANY:
        told += f": the first of {', '.join(candidates())} whose GPUs are free"
    elif name not in cluster_names():
        cluster_kind(name)  # says which there are
    yield Check("cluster", OK, told)


def _jobs_cluster(config: Config) -> Iterator[Check]:
    name = str(config.value("cluster"))
    if name == ANY:
        for each in candidates():
            yield from _checks_of(each, config)
    elif name in cluster_names():
        try:
            yield from cluster_kind(name).checks(config)
        except Exception as error:  # noqa: BLE001 - what comes after it is checked all the same
            ours = as_ours(name, error)
            yield Check("cluster", BAD, _error_words(ours), ours.fix)


def _checks_of(name: str, config: Config) -> Iterator[Check]:
    """Yield what one of several clusters has to say; one that is away is passed over by jobs."""
    try:
        for found in cluster_kind(name).checks(config):
            verdict = NOTE if found.verdict == BAD else found.verdict
            yield Check(f"{name}: {found.title}", verdict, found.what, found.fix)
    except Exception as error:  # noqa: BLE001 - it stops none of the others
        ours = as_ours(name, error)
        yield Check(name, NOTE, _error_words(ours), ours.fix)


def _notebook(config: Config) -> Iterator[Check]:  # noqa: ARG001 - as all checks
    versions = {part: _version(part) for part in _NOTEBOOK_PARTS}
    missing = [part for part, found in versions.items() if found is None]
    if missing:
        yield Check(
            "notebook",
            NOTE,
            f"{', '.join(missing)} not installed: no magics or job card here",
            install_extra("jupyter"),
        )
    else:
        yield Check("notebook", OK, ", ".join(f"{part} {v}" for part, v in versions.items()))


def _version(part: str) -> str | None:
    try:
        return version(part)
    except PackageNotFoundError:
        return None


def _jobs(config: Config) -> Iterator[Check]:
    jobs = list_jobs(Path(config.value("home")), _LOOKED_AT)
    lost = [job.id for job in jobs if job.state is JobState.LOST]
    alive = [job for job in jobs if not job.state.final]
    yield Check("jobs", OK, f"{len(jobs)} on record, {len(alive)} not over")
    if lost:
        yield Check(
            "lost jobs",
            NOTE,
            f"{len(lost)} lost their supervisor (killed, or the machine went down)",
            f"see `submarine job show {lost[0]}`",
        )
