"""The commands of Zeppelin's former Submarine interpreter, and what they are called now."""

from __future__ import annotations

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
    "JOB_SHOW": "JOB_SHOW is now `%submarine job show JOB`",
    "CLEAN_RUNTIME_CACHE": "CLEAN_RUNTIME_CACHE forgets this note's parts: run their paragraphs "
    "again; jobs that are over stay on record",
    "TENSORBOARD_RUN": "TENSORBOARD_RUN is now `%submarine tensorboard`: over all jobs, or those "
    "that it names",
    "TENSORBOARD_STOP": "TENSORBOARD_STOP is now `%submarine tensorboard --stop`",
}

NAMES = tuple(NEW)


def modern(line: str) -> tuple[str, str] | None:
    """Return what an old command means now, and a word on the new name; None for other lines."""
    first, _, rest = line.strip().partition(" ")
    name = first.upper().replace("-", "_")
    if name not in NEW:
        return None
    [command] = NEW[name]
    if name == "JOB_STOP" and rest.strip():
        command = "job cancel"
    return f"{command} {rest}".strip(), WORDS[name]
