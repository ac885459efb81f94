"""``python -m submarine_engine.installer``: make ready what every cluster needs, Java and jars.

``python -m submarine_engine.installer kubernetes [VERSION…]``: Kubernetes' own programs. A machine
that runs tests does so first, where a slow repository stands in no test's way.
"""

from __future__ import annotations

import sys

from submarine_engine.errors import CommandError, SubmarineError
from submarine_engine.installer import realm
from submarine_engine.installer.java import POM, fetch_jars, find_java
from submarine_engine.installer.kubernetes.programs import (
    DEFAULT_VERSION,
    build_programs,
    check_version,
)


def main(words: list[str]) -> int:
    """Find Java, fetch the jars, or build a Kubernetes; 1 where that cannot be, said by name.

    Parameters
    ----------
    words
        What stands behind the module's name: nothing for Java and the jars; ``kubernetes``, and
        versions of it, the default one where there is none.
    """
    try:
        match words:
            case []:
                java = find_java()
                for pom in (POM, realm.POM):
                    fetch_jars(java, pom=pom, report=_tell)
            case ["kubernetes", *wanted]:
                for version in wanted or [DEFAULT_VERSION]:
                    check_version(version)
                for version in wanted or [DEFAULT_VERSION]:
                    build_programs(version, report=_tell)
            case _:
                raise CommandError(
                    f"it knows no {' '.join(words)!r}",
                    fix="write nothing, or kubernetes [VERSION…]",
                )
    except SubmarineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
