"""``job run`` and ``job attach``: code becomes a job, and the job is followed to its end."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from submarine_engine.asking import Asker, read_at_terminal
from submarine_engine.bundle.model import Bundle
from submarine_engine.cli import exits
from submarine_engine.cli.output import Output
from submarine_engine.cli.program import read_program
from submarine_engine.cli.watch import Interrupts, counted_interrupts, follow, view_of
from submarine_engine.clusters import open_cluster
from submarine_engine.command.parser import Command
from submarine_engine.command.spec import to_command
from submarine_engine.config import load_config
from submarine_engine.future import Job
from submarine_engine.job import JobSpec, JobState
from submarine_engine.records import open_job, record_of


def run(command: Command, output: Output) -> int:
    """Run code as a job; wait for its end unless told to detach."""
    values = command.values
    assert command.spec is not None  # noqa: S101 - for the type checker: it is `job run`
    config = load_config({"cluster": values.get("cluster")})
    program = read_program(values.get("script"), command.spec, Path.cwd())
    cluster = open_cluster(str(config.value("cluster")))
    cluster.tell = output.note
    asks = cluster.asks and not values.get("detach") and not output.json and sys.stdin.isatty()
    spec = replace(command.named(program.name), asks=asks)
    if values.get("dry_run"):
        return _show_plan(cluster.check(spec), program.bundle, values.get("script"), output)
    with counted_interrupts() as interrupts:  # from here on there is a job to cancel
        job = Job(cluster, cluster.submit(spec, program.bundle, workdir=Path.cwd()))
        if not values.get("detach"):
            output.note(f"job {job.id} ({spec.name})")
            return _watch(job, spec.name, output, interrupts)
    if output.json:
        output.data({"job": job.id, "name": spec.name, "cluster": cluster.name})
    else:
        output.line(job.id)
    return exits.OK


def _watch(job: Job, name: str, output: Output, interrupts: Interrupts) -> int:
    view = view_of(job, name, output)
    interrupted = False

    def cancel() -> bool:
        nonlocal interrupted
        interrupted = True
        view.say("cancelling; once more leaves at once")
        job.cancel("interrupted in the terminal")
        return True

    try:
        status = follow(job, view, interrupts, cancel, asker=Asker(job, read_at_terminal))
    except KeyboardInterrupt:
        output.note(f"left; the job ends by itself: submarine job attach {job.id}")
        return exits.INTERRUPTED
    except BrokenPipeError:
        output.note(f"nobody reads any more; the job goes on: submarine job attach {job.id}")
        raise
    assert status is not None  # noqa: S101 - for the type checker: `cancel` never leaves
    ended_by_us = interrupted and status.state is JobState.CANCELLED
    return exits.INTERRUPTED if ended_by_us else exits.code_of_job(status)


def attach(command: Command, output: Output) -> int:
    """Follow a job from its first byte; Ctrl-C leaves, the job goes on."""
    job = open_job(command.values["job"])
    offset = command.values.get("offset", 0)
    view = view_of(job, str(record_of(job.id).get("spec", {}).get("name", job.id)), output)

    def leave() -> bool:
        view.say(f"left; the job goes on: submarine job attach {job.id}")
        return False

    with counted_interrupts() as interrupts:
        status = follow(job, view, interrupts, leave, offset)
    return exits.INTERRUPTED if status is None else exits.code_of_job(status)


def _show_plan(spec: JobSpec, bundle: Bundle, script: str | None, output: Output) -> int:
    if output.json:
        output.data(
            {
                "spec": spec.to_json(),
                "hash": bundle.hash,
                "manifest": bundle.manifest.to_json(),
                "script": bundle.source(bundle.manifest.entry),
            }
        )
        return exits.OK
    output.raw("stdout", bundle.source(bundle.manifest.entry).encode())
    output.note(f"would run: submarine {to_command(spec, script)}")
    for name in sorted(bundle.files):
        output.note(f"  {name}  {len(bundle.files[name])} bytes")
    output.note("nothing was asked for (--dry-run)")
    return exits.OK
