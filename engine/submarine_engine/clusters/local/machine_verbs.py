"""What does the work of the verbs ``machine …``, see `verbs`."""

from __future__ import annotations

import os
import time

from submarine_engine.amounts import UNKNOWN, duration
from submarine_engine.cli.output import OK, Output, visible
from submarine_engine.clusters.local.gpus import utilization
from submarine_engine.clusters.local.owner import all_usage, end_job, found_machine
from submarine_engine.clusters.local.shared import GROUP, setup
from submarine_engine.clusters.machine import user_name_of
from submarine_engine.command.parser import Command
from submarine_engine.config import load_config
from submarine_engine.errors import CommandError
from submarine_engine.usage import WORDS, heads

_LONGEST_REASON = 200


def setup_(command: Command, output: Output) -> int:
    """Make the machine a shared one, as `command` says; tell `output`."""
    machine = setup(str(command.values.get("group", GROUP)))
    if output.json:
        output.data({"folder": str(machine.folder), "group": machine.group})
        return OK
    output.line(f"The users in the group {machine.group} share this machine's GPUs now, by")
    output.line(f"  {machine.folder}")
    output.line(f"What they may have: {machine.policy_path}")
    members = ", ".join(machine.members()) or "nobody yet"
    output.note(f"members: {members}; one more: usermod -aG {machine.group} USER")
    return OK


def list_(command: Command, output: Output) -> int:  # noqa: ARG001 - as all verbs
    """List who holds what, and who waits, on `output`; `command` is not looked at."""
    machine = found_machine()
    held, waiting = machine.held(), machine.waiting()
    busy = utilization()
    now = time.time()
    rows = []
    for lease in held:
        is_shown = os.geteuid() in (0, lease.uid)
        job = lease.holder_notes().get("job", "") if is_shown else ""
        facts = {
            "gpu": lease.gpu,
            "user": user_name_of(lease.uid),
            "job": job,
            "since": round(lease.since, 3),
            "busy": busy.get(lease.gpu),
        }
        rows.append(facts)
    if output.json:
        for facts in rows:
            output.data(facts)
        for one in waiting:
            output.data(
                {
                    "waits": user_name_of(one.uid),
                    "jobs": one.jobs,
                    "gpus": one.gpus,
                    "since": one.since,
                }
            )
        return OK
    if held:
        output.table(
            ("job", "gpu", "user", "for", "busy"),
            [
                (
                    str(facts["job"] or UNKNOWN),
                    visible(str(facts["gpu"]), line=True),
                    visible(str(facts["user"]), line=True),
                    duration(now - lease.since),
                    UNKNOWN if facts["busy"] is None else f"{facts['busy']} %",
                )
                for facts, lease in zip(rows, held, strict=True)
            ],
        )
    else:
        output.note("nobody holds a GPU of this machine by a job")
    for one in waiting:
        jobs = f"{one.jobs} job{'s' if one.jobs > 1 else ''}"
        wants = f"{one.gpus} GPU{'s' if one.gpus > 1 else ''}"
        output.note(
            f"{user_name_of(one.uid)} waits with {jobs}, the first for {wants}, "
            f"for {duration(max(0.0, now - one.since))}"
        )
    return OK


def end(command: Command, output: Output) -> int:
    """End the job of the user that `command` names, for the reason that it gives; tell `output`."""
    values = command.values
    reason = visible(str(values.get("reason", "")), line=True).strip()
    if not reason:
        raise CommandError(
            "the user has to be told why",
            where="--reason",
            fix='write it: --reason "the class begins at ten"',
        )
    job, asked = end_job(str(values["user"]), str(values["job"]), reason[:_LONGEST_REASON])
    if output.json:
        output.data({"job": job, "asked": asked})
    else:
        output.line(f"{job} {'asked to end' if asked else 'was over already'}")
    return OK


def usage_(command: Command, output: Output) -> int:
    """Tell on `output` what each user has had, since when `command` says."""
    price = load_config().value("gpu_hour_price")
    found = [one for one in all_usage(command.values.get("since")) if one.jobs]
    found.sort(key=lambda one: (-one.time.held, -one.time.queued, one.of))
    if output.json:
        for one in found:
            output.data(one.to_json(price))
        return OK
    if found:
        output.table(heads("user", price), [tuple(map(visible, one.row(price))) for one in found])
        output.note(WORDS)
    else:
        output.note("no job of this machine's users is on record")
    return OK
