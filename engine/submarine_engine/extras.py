"""What to install for what is missing: a command that works as it is printed.

The package's name and an extra are no such thing where no index has it, as for one that was
installed from a folder, a wheel or a repository. What an extra asks for is in the package's own
metadata, and where the package came from is beside it (PEP 610).
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

NAME = "submarine-notebook"
_EXTRA = re.compile(r"""\bextra *== *["']([\w-]+)["']""")


def install_extra(extra: str, python: str = "") -> str:
    """Return the command that installs what an extra of this package asks for.

    Parameters
    ----------
    python
        The Python to install it for; this one unless given.
    """
    wanted = []
    with suppress(ImportError):
        for requirement in _package().requires or ():
            name, _, marker = requirement.partition(";")
            found = _EXTRA.search(marker)
            if found and found[1] == extra:
                wanted.append(re.sub(r"\s", "", name))
    return f"{_pip(python)} install {shlex.join(wanted or [f'{NAME}[{extra}]'])}"


def install_here(extras: str, python: str = "") -> str:
    """Return the command that installs this package, with extras, where it is not yet.

    Parameters
    ----------
    extras
        Their names, parted by commas.
    python
        As for `install_extra`.
    """
    return f"{_pip(python)} install {shlex.quote(_source(extras))}"


def _package() -> Distribution:
    from importlib.metadata import distribution  # noqa: PLC0415 - 0.02 s, for a message

    return distribution(NAME)


def _pip(python: str) -> str:
    return f"{shlex.quote(python or sys.executable)} -m pip"


def _source(extras: str) -> str:
    """Return what `pip install` takes to install this package from where it came from."""
    named = f"{NAME}[{extras}]"
    try:
        told = json.loads(_package().read_text("direct_url.json") or "null")
        url = str(told["url"])
        repository = told.get("vcs_info")
    except (ImportError, ValueError, TypeError, KeyError):
        return named
    if repository:
        return f"{named} @ {repository['vcs']}+{url}@{repository['commit_id']}"
    parts = urlsplit(url)
    return f"{unquote(parts.path)}[{extras}]" if parts.scheme == "file" else f"{named} @ {url}"
