"""The doctor's look at this machine: programs, packages and variables on the way to YARN."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from submarine_engine.clusters import locks
from submarine_engine.clusters.yarn.folder import KeeperFolder
from submarine_engine.clusters.yarn.foreign import told
from submarine_engine.clusters.yarn.hadoop import HadoopConf
from submarine_engine.doctor import BAD, NOTE, OK, Check
from submarine_engine.installer.java import NEWEST, OLDEST

_PROGRAM_TIMEOUT = 15.0
_LONGEST_VARIABLE = 128 << 10  # MAX_ARG_STRLEN of Linux, execve(2)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_RELEASE = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL = "pip install 'submarine-notebook[yarn]'"


def yarn_command(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check that ``yarn classpath --glob`` answers: skein starts its driver with that."""
    title, fix = "yarn command", "put Hadoop's bin folder on the PATH"
    program = shutil.which("yarn", path=environ.get("PATH", ""))
    if program is None:
        yield Check(title, BAD, "there is no program `yarn` on the PATH", fix)
        return
    done = _run([program, "classpath", "--glob"], environ)
    if isinstance(done, str):
        yield Check(title, BAD, f"`{program} classpath --glob` {done}", fix)
    elif done.returncode:
        said = told(done.stderr or done.stdout, 200)
        yield Check(title, BAD, f"`{program} classpath --glob` fails: {said}", "see what it says")
    elif ".jar" not in done.stdout:
        said = told(done.stdout, 80) or "nothing"
        yield Check(title, BAD, f"`{program} classpath --glob` names no jars, but {said}", fix)
    elif len(done.stdout.encode()) >= _LONGEST_VARIABLE:
        size = f"{len(done.stdout) >> 10} KiB"
        what = f"its class path of {size} is longer than Linux lets a variable be"
        yield Check(title, BAD, what, "let a `yarn` of your own name fewer jars")
    else:
        yield Check(title, OK, f"{program}, {done.stdout.count('.jar')} jars on its class path")


def java(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check the Java that skein's driver would be started with."""
    fix = f"let JAVA_HOME name a Java {OLDEST} to {NEWEST}"
    home = environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH", ""))
    if program is None:
        yield Check("Java", BAD, "JAVA_HOME is not set, and no `java` is on the PATH", fix)
        return
    done = _run([program, "-version"], environ)
    if isinstance(done, str):
        yield Check("Java", BAD, f"{program} {done}", fix)
        return
    release = _RELEASE.search(done.stderr + done.stdout)
    if release is None or done.returncode:
        said = told(done.stderr or done.stdout, 120) or "nothing"
        yield Check("Java", BAD, f"{program} does not tell its version, but {said}", fix)
        return
    number = int(release[1])
    verdict = OK if OLDEST <= number <= NEWEST else BAD
    what = f"{number} at {program}" + ("" if verdict == OK else ", on which Hadoop does not run")
    yield Check("Java", verdict, what, "" if verdict == OK else fix)


def _run(command: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str] | str:
    """Run a program; return what it did, or in words why it did not."""
    try:
        return subprocess.run(  # noqa: S603 - the user's own Hadoop and Java, no shell
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROGRAM_TIMEOUT,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return f"does not end in {_PROGRAM_TIMEOUT:g} s"
    except OSError as error:
        return f"cannot be started: {error.strerror}"


def skein() -> Iterator[Check]:
    """Check that skein and what it needs is installed."""
    missing = [name for name in ("skein", "grpc", "requests", "fsspec") if find_spec(name) is None]
    if missing:
        yield Check("skein", BAD, f"{', '.join(missing)} not installed", _INSTALL)
        return
    try:
        release = version("skein")
    except PackageNotFoundError:
        release = "of unknown version"
    yield Check("skein", OK, release)


def keeper(home: Path, conf: HadoopConf) -> Iterator[Check]:
    """Check whether jobs of this home find a keeper and skein's driver running."""
    folder = KeeperFolder(home, conf)
    if locks.is_free(folder.lock):
        what = f"none runs; the next job starts one at {folder.root}"
    else:
        count = len(folder.open_jobs())
        what = f"runs at {folder.root}, for {count} {'job' if count == 1 else 'jobs'}"
    yield Check("keeper", OK, what)
    yield Check("skein's driver", OK, _driver(folder.skein / "driver"))


def _driver(record: Path) -> str:
    try:
        data = json.loads(record.read_bytes())
        os.kill(int(data["pid"]), 0)
        return f"runs at {told(data['address'], 60)} (process {int(data['pid'])})"
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return "none runs; the next job starts one (2 to 8 s)"


def proxies(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check for proxies that would take gRPC's calls to this very machine."""
    found = [
        key for name in _PROXIES for key in (name, name.upper()) if environ.get(key, "").strip()
    ]
    direct = f"{environ.get('no_proxy', '')},{environ.get('NO_PROXY', '')}".replace(" ", ",")
    spared = {"127.0.0.1", "localhost", "*"} & set(direct.split(","))
    if not found:
        yield Check("proxy variables", OK, "none set")
    elif spared:
        yield Check("proxy variables", OK, f"{', '.join(found)} set, but not for this machine")
    else:
        yield Check(
            "proxy variables",
            NOTE,
            f"{', '.join(found)} set: Submarine leaves it out on its way to the cluster, skein's "
            "own commands ask it for 127.0.0.1",
            "export no_proxy=localhost,127.0.0.1",
        )


def identity(conf: HadoopConf, environ: Mapping[str, str]) -> Iterator[Check]:
    """Check who the cluster takes the user for: a name, or a Kerberos ticket."""
    if not conf.kerberos:
        yield Check("user", OK, f"{conf.user} (no Kerberos)")
        return
    title = "Kerberos"
    if find_spec("requests_gssapi") is None:
        what = "requests-gssapi is not installed, and the cluster's pages ask for it"
        yield Check(title, BAD, what, "pip install requests-gssapi")
    program = shutil.which("klist", path=environ.get("PATH", ""))
    if program is None:
        what = "there is no program `klist` on the PATH to look for a ticket with"
        yield Check(title, NOTE, what, "install Kerberos' programs (krb5-user)")
        return
    done = _run([program, "-s"], environ)
    if isinstance(done, str):
        yield Check(title, NOTE, f"`{program} -s` {done}", "see whether `klist` works")
    elif done.returncode:
        yield Check(title, BAD, "there is no valid ticket", "kinit")
    else:
        yield Check(title, OK, f"{conf.user} has a valid ticket")
