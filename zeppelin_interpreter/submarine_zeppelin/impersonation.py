"""The interpreter as the person who runs the notes: Zeppelin's user impersonation.

Zeppelin's launcher says whom (``-u``), and leaves the rest to the interpreter's own script. So this
process, which runs as Zeppelin's user, makes itself into a command that becomes that person:
``ZEPPELIN_IMPERSONATE_CMD`` where Zeppelin's owner has set it, ``sudo`` else.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import string
import sys
from collections.abc import Mapping, Sequence

from submarine_engine.declared import known_settings
from submarine_engine.errors import ConfigError

COMMAND = "ZEPPELIN_IMPERSONATE_CMD"
"""Zeppelin's own variable: a command that runs what follows it as one more word, by a shell."""

FOLLOW = "--variables-on-stdin"
"""Says that the environment comes by stdin: argument lists are everybody's to read, and whoever
becomes another user lets go of the environment."""

_USER = "ZEPPELIN_IMPERSONATE_USER"
_SUDO = ("sudo", "-n", "-H", "-u")
_CARRIED = re.compile(
    r"PATH|LANG|LC_\w+|TZ|JAVA_HOME|HADOOP_HOME|HADOOP_CONF_DIR|YARN_CONF_DIR|KRB5_CONFIG"
    r"|SUBMARINE_MACHINE_FOLDER"
)
_OF_COMMAND = ("HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK")
"""What the command itself may need: it still runs as Zeppelin's user."""
_OWN = ("home", "user", "notify", "yarn_keytab", "yarn_principal")
"""Settings that are one user's own: Zeppelin's folder of jobs is no other user's, nor is the
address of a channel, which is a secret, nor who Zeppelin itself is to a cluster."""
_MOST = 1 << 16  # what a pipe holds on every kernel before anybody reads


def become(user: str, arguments: Sequence[str]) -> None:
    """Become that user's interpreter, in this process; return where this user is the one.

    Parameters
    ----------
    user
        The name that somebody has logged in to Zeppelin with.
    arguments
        Those of the interpreter.

    Raises
    ------
    ConfigError
        It is no user of this machine, or root; or the command cannot be run.
    """
    own = _account(user)
    if own.pw_uid == os.geteuid():
        return
    carried = carried_variables(os.environ)
    told = json.dumps(carried).encode()
    if len(told) > _MOST:
        raise ConfigError(
            f"Zeppelin's environment is too large for an interpreter of {user}",
            fix=f"shorten {max(carried, key=lambda name: len(carried[name]))}",
        )
    program = [sys.executable, "-m", "submarine_zeppelin", FOLLOW, *without_user(arguments)]
    words = command(user, program, os.environ)
    reader, writer = os.pipe()
    os.write(writer, told)
    os.close(writer)
    os.dup2(reader, 0)
    os.close(reader)
    os.chdir("/")  # Zeppelin's folder may be closed to that user
    own_of = {name: os.environ[name] for name in _OF_COMMAND if name in os.environ}
    try:
        os.execvpe(words[0], words, {**carried, **own_of})  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise ConfigError(
            f"the interpreter cannot be started as {user}: {words[0]}: {error.strerror}",
            where=COMMAND if COMMAND in os.environ else "Zeppelin's user impersonation",
            fix=f"install sudo, or let {COMMAND} in conf/zeppelin-env.sh name another way",
        ) from error


def _account(user: str) -> pwd.struct_passwd:
    try:
        found = pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise ConfigError(
            f"Zeppelin's user {user[:80]!r} is no user of this machine, so no interpreter can run "
            "as that user",
            where="user impersonation",
            fix="make the user here, or switch `User Impersonate` off in the interpreter's setting",
        ) from None
    if found.pw_uid == 0:
        raise ConfigError(
            f"Zeppelin's user {user!r} would run as root",
            where="user impersonation",
            fix="log in to Zeppelin as a user who is not root on this machine",
        )
    return found


def without_user(arguments: Sequence[str]) -> list[str]:
    """Return the interpreter's arguments without whom it is to become."""
    left, words = [], iter(arguments)
    for word in words:
        if word == "-u":
            next(words, None)
        elif not word.startswith("-u"):
            left.append(word)
    return left


def command(user: str, program: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the words that run a program as a user.

    Parameters
    ----------
    user
        A user of this machine.
    program
        What to run.
    environment
        Zeppelin's.

    Raises
    ------
    ConfigError
        What Zeppelin's owner has set is no command.
    """
    told = environment.get(COMMAND, "")
    if not told.strip():
        return [*_SUDO, user, "--", *program]
    try:
        words = shlex.split(told)
    except ValueError as error:
        raise ConfigError(
            f"{COMMAND} is no command: {error}",
            where="conf/zeppelin-env.sh",
            fix=f"for example {COMMAND}='sudo -H -u ${{{_USER}}} bash -c '",
        ) from error
    names = {**environment, _USER: user}
    # A shell reads the last word; the name of the user stands in the others alone, as one of them.
    return [*(string.Template(word).safe_substitute(names) for word in words), shlex.join(program)]


def carried_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of Zeppelin's environment other users' interpreters have: nothing of its own."""
    ours = {
        key.variable for key in known_settings().values() if key.name not in _OWN and not key.secret
    }
    return {
        name: value
        for name, value in environment.items()
        if name in ours or _CARRIED.fullmatch(name)
    }


def take_variables() -> None:
    """Take the environment that `become` has sent, and this user's own home and name.

    Raises
    ------
    ConfigError
        What came is no environment.
    """
    try:
        told = json.loads(os.read(0, _MOST))
        os.environ.update({str(name): str(value) for name, value in told.items()})
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"Zeppelin's variables did not come: {error}",
            where=f"stdin, for {FOLLOW}",
            fix=f"{COMMAND} has to leave stdin open",
        ) from error
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    own = pwd.getpwuid(os.geteuid())
    os.environ.update(HOME=own.pw_dir, USER=own.pw_name, LOGNAME=own.pw_name)
    os.environ.pop("SSH_AUTH_SOCK", None)
