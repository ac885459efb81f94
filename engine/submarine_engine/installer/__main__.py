"""``python -m submarine_engine.installer``: make ready what every cluster needs, Java and jars.

A machine that runs tests does so first, where a slow repository stands in no test's way.
"""

from __future__ import annotations

import sys

from submarine_engine.errors import SubmarineError
from submarine_engine.installer import realm
from submarine_engine.installer.java import POM, fetch_jars, find_java


def main() -> int:
    """Find Java, fetch the jars; 1 where one of them is not to be had, said by name."""
    try:
        java = find_java()
        for pom in (POM, realm.POM):
            fetch_jars(java, pom=pom, report=lambda text: sys.stderr.write(f"{text}\n"))
    except SubmarineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


sys.exit(main())
