"""Putting the interpreter into a Zeppelin, taking it out again, and checking that it works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET  # an admin's own file, not a stranger's

from submarine_engine.declared import known_settings
from submarine_engine.errors import ConfigError, UnsupportedError
from submarine_engine.extras import install_here
from submarine_engine.findings import BAD, NOTE, OK, Check
from submarine_engine.history import write_aside
from submarine_engine.settings import Key, format_value

from submarine_zeppelin.impersonation import COMMAND, command
from submarine_zeppelin.peers import is_loopback

# Putting the interpreter into a Zeppelin, and taking it out again.
#
# A Zeppelin finds interpreters by its folders ``interpreter/<name>``. Ours holds a setting and a
# launch script, both written from the templates of this package; the interpreter itself stays where
# Python has it. What of another Submarine interpreter stands there (that in Java came with Zeppelin
# 0.8 to 0.11) is put aside, and put back when ours is taken out.


SETTING, SCRIPT = "interpreter-setting.json", "submarine.sh"

_ELSEWHERE = {"cell_output_limit", "user", "hadoop_conf_dir"}
"""Settings that are no properties: a paragraph has a limit as in every interpreter, Zeppelin says
who the user is, and ``HADOOP_CONF_DIR`` has the name that it has everywhere."""
OLDEST = (0, 10)

_PATIENCE = 60  # seconds: a Python on a network disk that imports three packages for the first time
_TEMPLATES = Path(__file__).parent
_SERVER = re.compile(r"zeppelin-server-(\d+(?:\.\d+)*)[^/]*\.jar")
_QUESTION = "import submarine_zeppelin; print(submarine_zeppelin.__file__)"


@dataclass(frozen=True, slots=True)
class Zeppelin:
    """A Zeppelin's folder (``ZEPPELIN_HOME``) and its release, ``(0, 12, 0)``."""

    home: Path
    release: tuple[int, ...]

    @property
    def folder(self) -> Path:
        """The folder of Submarine's interpreter in it."""
        return self.home / "interpreter" / "submarine"

    @property
    def aside(self) -> Path:
        """Where that of another Submarine interpreter is kept meanwhile; Zeppelin looks not."""
        return self.home / "interpreter-replaced" / "submarine"

    @property
    def is_ours(self) -> bool:
        """Whether what stands in the folder was written by `install`."""
        try:
            return "submarine_zeppelin." in (self.folder / SETTING).read_text(errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return False

    @property
    def told_release(self) -> str:
        """The release as people write it."""
        return ".".join(map(str, self.release))


def find_zeppelin(home: str | Path | None = None) -> Zeppelin:
    """Return the Zeppelin in the folder `home`, by default in that which ``ZEPPELIN_HOME`` names.

    Raises
    ------
    ConfigError
        No folder is named, or it holds no Zeppelin.
    UnsupportedError
        It is too old.
    """
    named = home or os.environ.get("ZEPPELIN_HOME")
    fix = "name the folder that Zeppelin was unpacked to: --zeppelin-home DIR, or ZEPPELIN_HOME"
    if not named:
        raise ConfigError("it is not said where Zeppelin is", fix=fix)
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError("there is no such folder", where=str(folder), fix=fix)
    jars = [found[1] for jar in folder.glob("lib/*.jar") if (found := _SERVER.search(jar.name))]
    if not jars or not (folder / "interpreter").is_dir():
        missing = "interpreter/" if jars else "lib/zeppelin-server-*.jar"
        raise ConfigError(f"this is no Zeppelin: it has no {missing}", where=str(folder), fix=fix)
    zeppelin = Zeppelin(folder, tuple(map(int, jars[0].split("."))))
    if zeppelin.release < OLDEST:
        raise UnsupportedError(
            f"Zeppelin {zeppelin.told_release} uses an older protocol with its interpreters",
            where=str(folder),
            fix="take Zeppelin 0.10 or newer",
        )
    return zeppelin


def install(zeppelin: Zeppelin, python: str | None = None) -> str:
    """Write the setting and the launch script; return the interpreter's Python.

    Parameters
    ----------
    zeppelin
        From `find_zeppelin`.
    python
        The Python that the interpreter and the notes run on, a path or a name on the PATH; this
        process's unless given. It has to have ``submarine-notebook[zeppelin]``.

    Raises
    ------
    ConfigError
        That Python cannot run the interpreter, or the folder cannot be written.
    """
    program = _python(python)
    try:
        if zeppelin.folder.exists() and not zeppelin.is_ours:
            _put_aside(zeppelin)
        zeppelin.folder.mkdir(exist_ok=True)
        script = zeppelin.folder / SCRIPT
        _write(script, _template(SCRIPT).replace("@PYTHON@", shlex.quote(program)), 0o755)
        # Last: it is what Zeppelin finds.
        _write(zeppelin.folder / SETTING, setting(script), 0o644)
    except OSError as error:
        raise _unwritable(error, zeppelin) from error
    return program


def setting(script: Path) -> str:
    """Return the text of ``interpreter-setting.json`` for a launch script.

    Each interpreter names the same one, since Zeppelin takes that of the last. It reads it as a
    command line: a path with a blank is quoted. The settings of notes are properties of the first,
    as they are declared, those of clusters too.
    """
    runner = f'"{script}"' if " " in str(script) else str(script)
    entries = json.loads(_template(SETTING))
    properties = entries[0]["properties"]
    for name, key in known_settings(search=True).items():
        if name not in _ELSEWHERE:
            properties.setdefault(f"submarine.{name}", _property(key))
    for entry in entries:
        entry["runner"] = {"linux": runner}
    return json.dumps(entries, indent=2) + "\n"


def _property(key: Key) -> dict[str, str | None]:
    """Return a setting as Zeppelin's page shows and asks for it."""
    default = key.default()
    empty = "" if default is None else f" Empty: {format_value(key.name, default)}."
    return {
        "envName": None,
        "propertyName": f"submarine.{key.name}",
        "defaultValue": "",
        "description": f"{key.help}{empty}",
        "type": "string",
    }


def uninstall(zeppelin: Zeppelin) -> bool:
    """Take the interpreter out of `zeppelin`; return whether it was there.

    What stood there before is put back.

    Raises
    ------
    ConfigError
        The folder cannot be written.
    """
    there = zeppelin.is_ours
    try:
        if there:
            # First what Zeppelin finds, so that no half of it is found.
            (zeppelin.folder / SETTING).unlink()
            shutil.rmtree(zeppelin.folder)
        if zeppelin.aside.exists() and not zeppelin.folder.exists():
            zeppelin.aside.rename(zeppelin.folder)
            with suppress(OSError):  # somebody keeps more in that folder
                zeppelin.aside.parent.rmdir()
    except OSError as error:
        raise _unwritable(error, zeppelin) from error
    return there


def run_python(program: str) -> str:
    """Return what keeps a Python from running the interpreter, in words; "" where nothing does.

    Parameters
    ----------
    program
        Its path.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the admin's own Python
            [program, "-c", f"{_QUESTION}\nimport thriftpy2, ipykernel, jupyter_client"],
            capture_output=True, text=True, timeout=_PATIENCE, check=False, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run: {error}"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"it ends with {done.returncode}"


def _python(named: str | None) -> str:
    found = shutil.which(os.path.expanduser(named)) if named else sys.executable  # noqa: PTH111
    if not found:
        raise ConfigError(f"there is no Python {named!r}", fix="name one by its path: --python PY")
    program = os.path.abspath(found)  # noqa: PTH100 - a virtual environment's is a link
    if told := run_python(program):
        raise ConfigError(
            f"this Python cannot run the interpreter: {told}",
            where=program,
            fix=f"{install_here('zeppelin', program)}, or name another Python: --python PY",
        )
    return program


def _put_aside(zeppelin: Zeppelin) -> None:
    if zeppelin.aside.exists():  # an older one's place is taken: keep the older, it was the first
        shutil.rmtree(zeppelin.folder)
        return
    zeppelin.aside.parent.mkdir(exist_ok=True)
    zeppelin.folder.rename(zeppelin.aside)


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text()


def _write(path: Path, text: str, mode: int) -> None:
    """Write a file that another user, who runs Zeppelin, has to read."""
    write_aside(path, text.encode())
    path.chmod(mode)


def _unwritable(error: OSError, zeppelin: Zeppelin) -> ConfigError:
    return ConfigError(
        error.strerror or str(error),
        where=str(error.filename or zeppelin.folder),
        fix="run this as the user who owns Zeppelin's folder",
    )


# What `submarine zeppelin doctor` looks at, one finding a line, each with the way out.


NEWEST = (0, 12)

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
        return [*found, Check("interpreter", BAD, what, _again(zeppelin))]
    looks: tuple[Callable[[Zeppelin], Iterator[Check]], ...] = (
        _setting, _script, _lists, _saved, _links, _sessions, _impersonation,
    )  # fmt: skip
    for look in looks:
        found += _outcome(look, zeppelin)
    return found


def _again(zeppelin: Zeppelin) -> str:
    """Return the command that installs the interpreter anew: it can be run as it stands."""
    words = [*_program(), "zeppelin", "install", "--zeppelin-home", str(zeppelin.home)]
    return shlex.join(words)


def _program() -> list[str]:
    """Return how this Python's `submarine` is called; by its name where the PATH leads to it."""
    found = shutil.which("submarine")
    own = Path(sys.executable).parent
    if found and Path(found).parent == own:
        return ["submarine"]
    return [sys.executable, "-m", "submarine_engine.cli"]


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
        yield Check(
            "setting", NOTE, f"{path} is of another release, or was changed", _again(zeppelin)
        )
    else:
        yield Check("setting", OK, str(path))
    if not path.stat().st_mode & stat.S_IROTH:
        yield Check("setting", NOTE, f"only its owner may read {path}", f"chmod a+r '{path}'")


def _script(zeppelin: Zeppelin) -> Iterator[Check]:
    path = zeppelin.folder / SCRIPT
    if not os.access(path, os.R_OK | os.X_OK):
        yield Check("launch script", BAD, f"{path} cannot be run", _again(zeppelin))
        return
    yield Check("launch script", OK, str(path))
    python = _python_of(path)
    told = run_python(python) if python else "the launch script names none"
    if told:
        fix = install_here("zeppelin", python) if python else _again(zeppelin)
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
    try:
        saved = json.loads(_saved_settings(zeppelin).read_text())["interpreterSettings"]
        groups = [each.get("group") for each in saved.values()]
    except (FileNotFoundError, ValueError, KeyError, AttributeError):
        groups = []
    if "submarine" in groups:
        yield Check("Zeppelin's settings", OK, "Zeppelin has found the interpreter")
    else:
        what = "Zeppelin has not found the interpreter yet"
        restart = f"{shlex.quote(str(zeppelin.home / 'bin/zeppelin-daemon.sh'))} restart"
        yield Check("Zeppelin's settings", NOTE, what, restart)


def _links(zeppelin: Zeppelin) -> Iterator[Check]:
    """See whether people at other machines reach the logs of local jobs."""
    host = _site(zeppelin).get("zeppelin.server.addr", "")
    if not host or is_loopback(host):
        return
    if not any(_saved_values(zeppelin, "properties", "submarine.links.listen", "value")):
        what = f"Zeppelin is reached from other machines ({host}), logs of local jobs are not"
        yield Check("links", NOTE, what, "set submarine.links.listen in the interpreter's settings")


def _sessions(zeppelin: Zeppelin) -> Iterator[Check]:
    """See whether a training of one note may hold up all others, by what Zeppelin does itself."""
    options = [one for one in _saved_values(zeppelin, "option") if isinstance(one, dict)]
    # Nothing is what a setting says that nobody has changed, and it means the same.
    if any({one.get("perNote"), one.get("perUser")} <= {None, "", "shared"} for one in options):
        what = (
            "all notes share one session: after a Run all in any of them, Zeppelin has everybody "
            "wait for each paragraph, jobs too, until the interpreter is restarted"
        )
        fix = "in the interpreter's settings: instantiated Per Note, in scoped process"
        yield Check("sessions", NOTE, what, fix)


def _impersonation(zeppelin: Zeppelin) -> Iterator[Check]:
    """See whether an interpreter can become the person who runs the notes, where it is to."""
    options = [one for one in _saved_values(zeppelin, "option") if isinstance(one, dict)]
    if not any(one.get("isUserImpersonate") for one in options):
        return
    title = "user impersonation"
    if not any(one.get("perUser") == "isolated" for one in options):
        what = "users share an interpreter process, so that it runs as Zeppelin's own user"
        yield Check(title, BAD, what, "in the interpreter's settings: Per User, isolated")
    try:
        program = command("nobody", [], os.environ)[0]
    except ConfigError as error:
        yield Check(title, BAD, error.what, error.fix)
    else:
        if not shutil.which(program):
            fix = f"install it, or let {COMMAND} in conf/zeppelin-env.sh name another way"
            yield Check(title, BAD, f"there is no program {program!r}", fix)
    python = _python_of(zeppelin.folder / SCRIPT)
    if closed := _closed_to_others(python):
        fix = f"chmod o+rx '{closed}', or install it with a Python that all users may run"
        yield Check(title, BAD, f"other users cannot run {python}: {closed} is closed", fix)


def _closed_to_others(program: str) -> Path | None:
    """Return what keeps other users from a program; None where nothing does."""
    for path in (Path(program), Path(program).resolve()):
        for one in (*reversed(path.parents), path):
            with suppress(OSError):
                if not one.stat().st_mode & stat.S_IXOTH:
                    return one
    return None


def _saved_values(zeppelin: Zeppelin, *names: str) -> list[object]:
    """Return what Zeppelin's saved settings of the interpreter say there; empty for nothing."""
    try:
        saved = json.loads(_saved_settings(zeppelin).read_text())["interpreterSettings"]
        found = [one for one in saved.values() if one.get("group") == "submarine"]
        for name in names:
            found = [one[name] for one in found]
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return list(found)


def _saved_settings(zeppelin: Zeppelin) -> Path:
    conf = Path(os.environ.get("ZEPPELIN_CONF_DIR") or zeppelin.home / "conf")
    return conf / "interpreter.json"
