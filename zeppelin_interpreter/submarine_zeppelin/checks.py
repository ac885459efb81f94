"""What `submarine zeppelin doctor` looks at, one finding a line, each with the way out."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET  # an admin's own file, not a stranger's

from submarine_engine.doctor import BAD, NOTE, OK, Check

from submarine_zeppelin.install import SCRIPT, SETTING, Zeppelin, run_python, setting

NEWEST = (0, 12)

_AGAIN = "submarine zeppelin install"
_LISTS = ("zeppelin.interpreter.include", "zeppelin.interpreter.exclude")


def checks(zeppelin: Zeppelin) -> list[Check]:
    """Check everything; never raises for what it finds.

    Parameters
    ----------
    zeppelin
        From `submarine_zeppelin.install.find_zeppelin`.
    """
    found = [_release(zeppelin)]
    if not zeppelin.is_ours:
        other = " (another Submarine interpreter is)" if zeppelin.folder.exists() else ""
        what = f"it is not in {zeppelin.folder}{other}"
        return [*found, Check("interpreter", BAD, what, f"{_AGAIN} --zeppelin-home …")]
    looks: tuple[Callable[[Zeppelin], Iterator[Check]], ...] = (
        _setting, _script, _lists, _saved,
    )  # fmt: skip
    for look in looks:
        found += _outcome(look, zeppelin)
    return found


def _outcome(look: Callable[[Zeppelin], Iterator[Check]], zeppelin: Zeppelin) -> list[Check]:
    try:
        return list(look(zeppelin))
    except OSError as error:
        return [Check(look.__name__.strip("_"), BAD, str(error), "run it as Zeppelin's user")]


def _release(zeppelin: Zeppelin) -> Check:
    told = f"{zeppelin.told_release} in {zeppelin.home}"
    if zeppelin.release[:2] > NEWEST:
        newest = ".".join(map(str, NEWEST))
        return Check("Zeppelin", NOTE, f"{told}, newer than what this release knows ({newest})")
    return Check("Zeppelin", OK, told)


def _setting(zeppelin: Zeppelin) -> Iterator[Check]:
    path = zeppelin.folder / SETTING
    if path.read_text() != setting(zeppelin.folder / SCRIPT):
        yield Check("setting", NOTE, f"{path} is of another release, or was changed", _AGAIN)
    else:
        yield Check("setting", OK, str(path))
    if not path.stat().st_mode & stat.S_IROTH:
        yield Check("setting", NOTE, f"only its owner may read {path}", f"chmod a+r '{path}'")


def _script(zeppelin: Zeppelin) -> Iterator[Check]:
    path = zeppelin.folder / SCRIPT
    if not os.access(path, os.R_OK | os.X_OK):
        yield Check("launch script", BAD, f"{path} cannot be run", _AGAIN)
        return
    yield Check("launch script", OK, str(path))
    python = _python_of(path)
    told = run_python(python) if python else "the launch script names none"
    if told:
        fix = f"{python} -m pip install 'submarine-notebook[zeppelin]'" if python else _AGAIN
        yield Check("Python of the notes", BAD, f"{python}: {told}", fix)
    else:
        yield Check("Python of the notes", OK, python)


def _python_of(script: Path) -> str:
    """Return the Python that a launch script starts; "" where it starts none."""
    with suppress(ValueError):
        for line in script.read_text(errors="replace").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["exec"] and len(words) > 1:
                return words[1]
    return ""


def _lists(zeppelin: Zeppelin) -> Iterator[Check]:
    """See whether Zeppelin is told to leave interpreters out."""
    site = _site(zeppelin)
    include, exclude = (site.get(name, "").split(",") for name in _LISTS)
    if any(include) and "submarine" not in include:
        yield Check("site", BAD, f"{_LISTS[0]} leaves submarine out", "add it in zeppelin-site.xml")
    elif not any(include) and "submarine" in exclude:
        yield Check("site", BAD, f"{_LISTS[1]} names submarine", "remove it in zeppelin-site.xml")


def _site(zeppelin: Zeppelin) -> dict[str, str]:
    """Return the properties of ``zeppelin-site.xml``; none where there is no such file."""
    conf = Path(os.environ.get("ZEPPELIN_CONF_DIR") or zeppelin.home / "conf")
    try:
        root = ET.parse(conf / "zeppelin-site.xml").getroot()  # noqa: S314 - as above
    except (FileNotFoundError, ET.ParseError):
        return {}
    return {
        (found.findtext("name") or "").strip(): (found.findtext("value") or "").strip()
        for found in root.iter("property")
    }


def _saved(zeppelin: Zeppelin) -> Iterator[Check]:
    """See whether Zeppelin has found the interpreter since it was installed."""
    conf = Path(os.environ.get("ZEPPELIN_CONF_DIR") or zeppelin.home / "conf")
    try:
        saved = json.loads((conf / "interpreter.json").read_text())["interpreterSettings"]
        groups = [each.get("group") for each in saved.values()]
    except (FileNotFoundError, ValueError, KeyError, AttributeError):
        groups = []
    if "submarine" in groups:
        yield Check("Zeppelin's settings", OK, "Zeppelin has found the interpreter")
    else:
        what = "Zeppelin has not found the interpreter yet"
        yield Check("Zeppelin's settings", NOTE, what, "restart Zeppelin")
