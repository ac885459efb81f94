"""A Java that Hadoop can run on, and Hadoop's jars, fetched by Maven once for all clusters."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from submarine_engine.errors import ClusterError
from submarine_engine.installer.kept import cache_folder, find_maker, make_once

# Finding a Java that Hadoop can run on.
#
# Hadoop 3.4.1 runs on Java 8 to 21; on 24 and later every daemon ends at once with "getSubject is
# not supported" (JEP 486 took away what its logins stand on).


OLDEST, NEWEST = 8, 21
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/*j[dr][ke]*",
    "~/.jdks/*",
    "~/.sdkman/candidates/java/*",
)

_MODULES_CAME = 9
_RELEASE = re.compile(r'^JAVA_VERSION="?([\d._]+)', re.MULTILINE)
_SPOKEN = re.compile(r'version "?([\d._]+)')
_OPENED = ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.io")
_EXPORTED = ("sun.net.dns", "sun.net.util")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its folder (``JAVA_HOME``) and its feature release, 17 for 17.0.15."""

    home: Path
    version: int

    @property
    def program(self) -> Path:
        """The program `java`."""
        return self.home / "bin/java"

    @property
    def fits(self) -> bool:
        """Whether Hadoop runs on it."""
        return OLDEST <= self.version <= NEWEST

    def flags(self) -> list[str]:
        """Return the options that Hadoop's own code needs on this release."""
        if self.version < _MODULES_CAME:
            return []
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        return opens + [f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in _EXPORTED]


def find_java(
    environment: Mapping[str, str] | None = None, places: Sequence[str] = USUAL_PLACES
) -> Java:
    """Return the first Java that Hadoop can run on: of ``JAVA_HOME``, the PATH, the usual places.

    Parameters
    ----------
    environment
        Where ``JAVA_HOME`` and ``PATH`` are looked up; that of this process unless given.
    places
        Patterns of folders to look into after those; the newest release there comes first.

    Raises
    ------
    ClusterError
        There is none; the message names those that do not fit.
    """
    seen: list[Java] = []
    for home in _homes(os.environ if environment is None else environment, places):
        if any(home == java.home for java in seen):
            continue
        version = _version(home)
        if version is None:
            continue
        java = Java(home, version)
        if java.fits:
            return java
        seen.append(java)
    told = ", ".join(f"Java {java.version} ({java.home})" for java in seen)
    raise ClusterError(
        f"Hadoop needs Java {OLDEST} to {NEWEST}, and there is "
        + (f"only {told}" if told else "no Java"),
        where="JAVA_HOME, PATH, /usr/lib/jvm",
        fix="install one (on Debian as root: apt-get install default-jre-headless), "
        "or let JAVA_HOME name it",
    )


def _homes(environment: Mapping[str, str], places: Sequence[str]) -> Iterator[Path]:
    if named := environment.get("JAVA_HOME"):
        yield Path(named).expanduser().resolve()
    if program := shutil.which("java", path=environment.get("PATH", "")):
        yield _home_of(Path(program))
    found: list[Path] = []
    for place in places:
        path = Path(place).expanduser()
        # The last parts may be patterns: `glob` wants them apart from the folder they are in.
        found += [home.resolve() for home in path.parent.glob(path.name)]
    yield from sorted(set(found), key=lambda home: (-(_version(home) or 0), home))


def _home_of(program: Path) -> Path:
    home = program.resolve().parent.parent
    # Java 8 has a second `java` in the folder `jre` of the first.
    return home.parent if home.name == "jre" else home


def _version(home: Path) -> int | None:
    """Return the feature release of the Java in a folder; None where there is none that runs."""
    program = home / "bin/java"
    if not os.access(program, os.X_OK) or program.is_dir():
        return None
    with suppress(OSError, UnicodeDecodeError):
        if found := _RELEASE.search((home / "release").read_text()):
            return _feature(found[1])
    try:
        # A JVM needs about one of these seconds; a broken one must not hold up `cluster up`.
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    spoken = _SPOKEN.search(done.stderr)
    return _feature(spoken[1]) if spoken else None


def _feature(version: str) -> int:
    """Return 17 for ``17.0.15``, 8 for ``1.8.0_412``."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


# Hadoop's jars, fetched by Maven from the pom of this package, once for all clusters of a user.
#
# Another pom's jars are fetched in the same way. What each jar has to be stands beside its pom, as
# ``sha256sum`` writes it: a repository, a mirror or a cache that has something else is refused.


POM = Path(__file__).parent / "hadoop" / "pom.xml"
SUMS = "SHA256SUMS"

_LIMIT = 1800  # seconds: Maven fetches 90 MB, over a slow line as well; it has no limit of its own
_TOLD = 5
_PIECE = 1 << 20
_FOREIGN = (
    "see which repository or mirror Maven asks (~/.m2/settings.xml): it has other files of these "
    "names than Maven Central; nothing of them was kept"
)


def jars_folder(environment: Mapping[str, str] | None = None, pom: Path = POM) -> Path:
    """Return where the jars of a pom are kept, by its folder's name and its hash, there or not.

    Parameters
    ----------
    environment
        Says where caches are; that of this process unless given.
    pom
        Hadoop's unless given.
    """
    return (
        cache_folder(environment)
        / pom.parent.name
        / hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    )


def fetch_jars(
    java: Java,
    environment: Mapping[str, str] | None = None,
    *,
    pom: Path = POM,
    report: Callable[[str], object] = str,
) -> Path:
    """Return the folder with a pom's jars; Maven fetches them where it is not there yet.

    Whoever comes while another fetches waits for it. What an interrupted fetch left is removed. The
    jars are looked at each time: none is used that is not the one whose SHA-256 stands beside the
    pom.

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
        Maven is not there, or fails; the message has its own words. A jar is not the one that it
        has to be.
    OSError
        The cache cannot be written.
    """
    environment = dict(os.environ if environment is None else environment)
    folder = jars_folder(environment, pom)
    whose = f"{pom.parent.name.capitalize()}'s"
    if folder.is_dir():
        _check_jars(folder, pom, f"remove that folder: {whose} jars are fetched anew then")
        return folder
    maven = find_maker(
        "mvn",
        environment,
        f"Maven is missing: there is no program `mvn` on the PATH to fetch {whose} jars with",
        "install it (on Debian as root: apt-get install maven)",
    )

    def fetch(aside: Path) -> Path:
        report(f"fetching {whose} jars by Maven, once for all clusters …")
        _run_maven(maven, pom, whose, aside, _maven_environment(java, environment))
        _check_jars(aside / "jars", pom, _FOREIGN)
        return aside / "jars"

    make_once(folder, fetch)
    return folder


def _check_jars(folder: Path, pom: Path, fix: str) -> None:
    """Refuse jars that are not those whose sums stand beside the pom, and names beside them."""
    wanted = dict(line.split()[::-1] for line in pom.with_name(SUMS).read_text().splitlines())
    found = {}
    for jar in folder.iterdir():
        with jar.open("rb") as file:
            digest = hashlib.sha256()
            while piece := file.read(_PIECE):
                digest.update(piece)
        found[jar.name] = digest.hexdigest()
    wrong = sorted(dict(wanted.items() ^ found.items()))
    if wrong:
        more = f" and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
        raise ClusterError(
            f"not the jars that this release was tried with: {', '.join(wrong[:_TOLD])}{more}",
            where=str(folder),
            fix=fix,
        )


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
