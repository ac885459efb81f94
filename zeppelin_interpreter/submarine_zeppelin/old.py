"""The commands of Zeppelin's former Submarine interpreter, and what they are called now."""

from __future__ import annotations

import re

NEW = {
    "DASHBOARD": ("note dashboard",),
    "USAGE": ("help",),
    "JOB_RUN": ("job run",),
    "JOB_STOP": ("note stop",),
    "JOB_LIST": ("job list",),
    "JOB_SHOW": ("job show",),
    "CLEAN_RUNTIME_CACHE": ("note clean",),
    "TENSORBOARD_RUN": ("tensorboard",),
    "TENSORBOARD_STOP": ("tensorboard --stop",),
}
"""The lines that each of them means now."""

WORDS = {
    "DASHBOARD": "DASHBOARD is now `%submarine job list` and `%submarine gpus`",
    "USAGE": "USAGE is now `%submarine help`",
    "JOB_RUN": "JOB_RUN is now `%submarine job run`, or %submarine.run with the code itself",
    "JOB_STOP": "JOB_STOP is now `%submarine job cancel JOB`; it cancels this note's jobs",
    "JOB_LIST": "JOB_LIST is now `%submarine job list`",
    "JOB_SHOW": "JOB_SHOW is now `%submarine job show JOB`; without one it lists this note's jobs",
    "CLEAN_RUNTIME_CACHE": "CLEAN_RUNTIME_CACHE forgets this note's parts: run their paragraphs "
    "again; jobs that are over stay on record",
    "TENSORBOARD_RUN": "TENSORBOARD_RUN is now `%submarine tensorboard`: over all jobs, or those "
    "that it names",
    "TENSORBOARD_STOP": "TENSORBOARD_STOP is now `%submarine tensorboard --stop`",
}

NAMES = tuple(NEW)


_SAME = {"TENSORBOARD_START": "TENSORBOARD_RUN"}
_TWO_WORDS = re.compile(r"(JOB|TENSORBOARD)[ _-]+([A-Z]+)(?=\s|\Z)")
_YARN_JAR = re.compile(r"(?:\S*/)?(?:yarn|hadoop)\s+jar\s+\S+\.jar\s+(?:[\w.$]+\s+)?(?=job\s)")
_TYPED = re.compile(
    r"""'[^']*'|"[^"]*"  # as they are
    | (?P<dash>(?<!\S)[\u2010-\u2015]{1,2}-?(?=[A-Za-z]))
    | [\u201c\u201e\u201f](?P<double>[^"\u201c-\u201f]*)[\u201c\u201d\u201f]
    | [\u2018\u201a\u201b](?P<single>[^'\u2018-\u201b]*)[\u2018\u2019\u201b]""",
    re.VERBOSE,
)

TYPED = 'dashes and quotes of a text processor are read as -- and "'


def typed(line: str) -> str:
    """Return a line as it was before a web page or a text processor set it in type.

    What stands in straight quotes is meant as it is.
    """

    def plain(found: re.Match[str]) -> str:
        if found["dash"]:
            return "--"
        if found["double"] is not None:
            return f'"{found["double"]}"'
        return f"'{found['single']}'" if found["single"] is not None else found[0]

    return _TYPED.sub(plain, line)


def modern(line: str) -> tuple[str, str] | None:
    """Return what an old command means now, and a word on the new name; None for other lines."""
    if found := _YARN_JAR.match(line):
        rest = line[found.end() :]
        return rest, "`yarn jar … job run` is now `%submarine job run`; what follows is the same"
    line = _TWO_WORDS.sub(r"\1_\2", line.strip(), count=1)
    first, _, rest = line.partition(" ")
    name = first.upper().replace("-", "_")
    name = _SAME.get(name, name)
    if name not in NEW:
        return None
    [command] = NEW[name]
    if name == "JOB_STOP" and rest.strip():
        command = "job cancel"
    if name == "JOB_SHOW" and not rest.strip():
        command = "note dashboard"
    return f"{command} {rest}".strip(), WORDS[name]
