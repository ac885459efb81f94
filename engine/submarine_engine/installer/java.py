"""Finding a Java that Hadoop can run on.

Hadoop 3.4.1 runs on Java 8 to 21; on 24 and later every daemon ends at once with "getSubject is not
supported" (JEP 486 took away what its logins stand on).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from submarine_engine.errors import ClusterError

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
