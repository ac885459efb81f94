"""What only hosts know: loaded for help and completion, where the backend itself is not."""

from __future__ import annotations

from submarine_engine.declared import Declared
from submarine_engine.job import HOW_GROUP, OptionInfo
from submarine_engine.settings import Key, read_period

DECLARED = Declared(
    verbs="submarine_hosts_verbs:GROUP",
    options=(
        OptionInfo(
            name="host",
            kind="name",
            help="The host to run on.",
            group=HOW_GROUP,
            choices=("alpha", "beta"),
        ),
    ),
    settings=(
        Key(
            name="hosts_patience",
            help="Seconds that a host may take to answer.",
            default=lambda: 5.0,
            read=read_period,
            example='"10s"',
        ),
    ),
)
