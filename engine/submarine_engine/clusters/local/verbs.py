"""The verbs ``machine …``: a machine whose GPUs several users share."""

from __future__ import annotations

from submarine_engine.command.grammar import Group, Verb
from submarine_engine.command.options import (
    IN_TERMINAL,
    JOB,
    NAME,
    SECONDS,
    Argument,
    Option,
)

_HANDLERS = "submarine_engine.clusters.local.machine_verbs"

GROUP = Group("machine", "Share one machine's GPUs among its users.",
    Verb("machine setup",
        "Make this a machine whose users share its GPUs in one queue; for root.",
        Option("group", NAME, "Whose members may have GPUs; gpus unless given."),
        details="Makes /var/lib/submarine: who holds which GPU, who waits, and policy.toml, which "
            "says what users may have. Once more, it mends owner and mode, and keeps the policy. "
            "Jobs that run go on.",
        examples=("machine setup", "machine setup --group researchers"),
        surfaces=IN_TERMINAL, run=f"{_HANDLERS}:setup_"),
    Verb("machine list",
        "List who holds this machine's GPUs, since when, how busy they are, and who waits.",
        details="Root sees the ids of all jobs, everybody else those of their own.",
        examples=("machine list", "machine list --json"),
        surfaces=IN_TERMINAL, run=f"{_HANDLERS}:list_"),
    Verb("machine end", "Ask somebody's job to end, with a reason that its user reads; for root.",
        Argument("user", NAME, "Whose job it is."),
        Argument("job", JOB, "The job: its id, the end of its id, or its name."),
        Option("reason", NAME, "Why, for its user: in the log, on the card, in `job show`."),
        examples=('machine end alice 7xqfa --reason "the class begins at ten"',),
        surfaces=IN_TERMINAL, run=f"{_HANDLERS}:end"),
    Verb("machine usage", "Tell what each user of this machine has had; for root.",
        Option("since", SECONDS, "Jobs submitted that long ago at most: 30d. All unless given."),
        details="As `usage --by user` tells it of one user's own jobs.",
        examples=("machine usage --since 7d",),
        surfaces=IN_TERMINAL, run=f"{_HANDLERS}:usage_"),
)  # fmt: skip
