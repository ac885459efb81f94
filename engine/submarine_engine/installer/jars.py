"""Hadoop's jars, fetched by Maven from the pom of this package, once for all clusters of a user.

Another pom's jars are fetched in the same way.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from submarine_engine.errors import ClusterError
from submarine_engine.installer.java import Java

POM = Path(__file__).parent / "hadoop" / "pom.xml"

_LIMIT = 1800
_TOLD = 5


def jars_folder(environment: Mapping[str, str] | None = None, pom: Path = POM) -> Path:
    """Return where the jars of a pom are kept, by its folder's name and its hash, there or not."""
    environment = os.environ if environment is None else environment
    cache = Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute()
    return cache / "submarine" / pom.parent.name / hashlib.sha256(pom.read_bytes()).hexdigest()[:16]


def fetch_jars(
    java: Java,
    environment: Mapping[str, str] | None = None,
    *,
    pom: Path = POM,
    report: Callable[[str], object] = str,
) -> Path:
    """Return the folder with a pom's jars; Maven fetches them where it is not there yet.

    Whoever comes while another fetches waits for it. What an interrupted fetch left is removed.

    Parameters
    ----------
    java
        What Maven runs on.
    environment
        Maven's environment; that of this process unless given.
    pom
        Names the artifacts; its folder's name says whose they are. Hadoop's unless given.
    report
        Is told in words what goes on.

    Raises
    ------
    ClusterError
        Maven is not there, or fails; the message has its own words.
    OSError
        The cache cannot be written.
    """
    environment = dict(os.environ if environment is None else environment)
    folder = jars_folder(environment, pom)
    whose = f"{pom.parent.name.capitalize()}'s"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn", path=environment.get("PATH", ""))
    if maven is None:
        raise ClusterError(
            f"Maven is missing: there is no program `mvn` on the PATH to fetch {whose} jars with",
            fix="install it (on Debian as root: apt-get install maven)",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent):
        if not folder.is_dir():
            report(f"fetching {whose} jars by Maven, once for all clusters …")
            for left in folder.parent.glob("fetching-*"):
                shutil.rmtree(left)
            aside = Path(tempfile.mkdtemp(prefix="fetching-", dir=folder.parent))
            try:
                _run_maven(maven, pom, whose, aside, _maven_environment(java, environment))
                (aside / "jars").rename(folder)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder however long another has it: a fetch may take minutes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _maven_environment(java: Java, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Maven goes through the proxy that everybody else does.

    It reads no ``https_proxy``, but what Java calls that. ``~/.m2/settings.xml`` stands above.
    """
    options = [environment.get("MAVEN_OPTS", "")]
    for scheme in ("http", "https"):
        proxy = urlsplit(environment.get(f"{scheme}_proxy") or "")
        if proxy.hostname:
            options.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            options.append(f"-D{scheme}.proxyPort={proxy.port or 80}")
    maven_opts = " ".join(filter(None, options))
    return {**environment, "JAVA_HOME": str(java.home), "MAVEN_OPTS": maven_opts}


def _run_maven(
    maven: str, pom: Path, whose: str, aside: Path, environment: Mapping[str, str]
) -> None:
    shutil.copyfile(pom, aside / "pom.xml")
    command = [
        maven, "--batch-mode", "--quiet", "--strict-checksums", "--file", str(aside / "pom.xml"),
        "dependency:copy-dependencies", "-DincludeScope=runtime",
        f"-DoutputDirectory={aside / 'jars'}",
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Maven
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_LIMIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"Maven has not fetched {whose} jars in {_LIMIT // 60} minutes",
            fix="see whether this machine reaches a Maven repository",
        ) from error
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("[ERROR]")] or lines
        told = "\n".join(errors[:_TOLD]) or f"it ended with {done.returncode}"
        raise ClusterError(
            f"Maven could not fetch {whose} jars:\n{told}",
            fix="see whether this machine reaches a Maven repository (~/.m2/settings.xml names "
            "mirrors and proxies), then say it again",
        )
