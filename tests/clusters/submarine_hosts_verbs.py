"""A verb of hosts in the terminal."""

from __future__ import annotations

from submarine_engine.command.grammar import Group, Verb
from submarine_engine.command.options import IN_TERMINAL, NAME, Argument


def names(command, output):
    """Write a host's name, or all names."""
    for name in (command.values.get("name"),) if "name" in command.values else ("alpha", "beta"):
        output.line(name)
    return 0


GROUP = Group(
    "hosts",
    "Look after hosts.",
    Verb(
        "hosts names",
        "List the hosts.",
        Argument("name", NAME, "One of them.", required=False),
        surfaces=IN_TERMINAL,
        run="submarine_hosts_verbs:names",
    ),
)
