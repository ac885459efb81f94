"""A cluster as the contract's tests see it: what `Cluster` and `Job` promise, no more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from submarine_engine import Job
from submarine_engine.bundle import Cell, build
from submarine_engine.clusters import open_cluster
from submarine_engine.history import JobPaths
from submarine_engine.job import JobState, Resources, Role
from submarine_engine.testing.jobs import bundle_of, follow, spec_of, until

PATIENCE = 180.0
"""Seconds: no test waits for them unless something is broken."""

HOLD = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\n"
"""A script that waits for a file."""


class Place:
    """A cluster as a user has it, and the jobs of one test.

    Parameters
    ----------
    name
        The cluster's.
    home
        Where its jobs are kept.
    folder
        The notebook's folder, which the job's machine sees too.
    variants
        Options of jobs that lead to other ways through the cluster: what may differ there is
        tested on each.
    several
        Whether the cluster runs jobs of several tasks.
    largest
        How many GPUs its largest node has; as many as there are unless given.
    """

    def __init__(  # noqa: PLR0913 - what clusters may differ in
        self,
        name: str,
        home: Path,
        folder: Path,
        *,
        variants: Sequence[Mapping[str, Any]] = ({},),
        several: bool = True,
        largest: int | None = None,
    ) -> None:
        self.largest = largest
        self.several = several
        self.variants = variants
        self.name = name
        self.home = home
        self.folder = folder
        self.seam = open_cluster(name)
        self.jobs: list[Job] = []

    def submit(self, script, *, workdir=None, **options):
        """Submit the text of a script, or cells: a list of sources, the last one the main cell.

        Parameters
        ----------
        script
            The script's text, or the cells' sources.
        workdir
            Where it runs; the test's folder unless given.
        **options
            As `submarine_engine.testing.jobs.spec_of` takes them.
        """
        if isinstance(script, str):
            bundle = bundle_of(script)
        else:
            *cells, main = [Cell(number=n, source=text) for n, text in enumerate(script, 1)]
            bundle = build(main, cells, {})
        spec = spec_of(notebook=str(self.folder / "contract.ipynb"), **options)
        job_id = self.seam.submit(spec, bundle, workdir=workdir or self.folder)
        self.jobs.append(Job(self.seam, job_id))
        return self.jobs[-1]

    def follow(self, job, **options):
        """Read the stream of a job to its end, see `submarine_engine.testing.jobs.follow`.

        Parameters
        ----------
        job
            As `submit` returned it.
        **options
            As that function has them.
        """
        return follow(self.seam, job.id, patience=PATIENCE, **options)

    def run(self, script, **options):
        """Submit a job and follow it to its end, see `submit` and `follow`.

        Parameters
        ----------
        script
            As `submit` has it.
        **options
            As `submit` has them.
        """
        return self.follow(self.submit(script, **options))

    def hold(self, gpus):
        """Submit a job that holds GPUs until the file that comes with it is made.

        Parameters
        ----------
        gpus
            How many.
        """
        gate = self.folder / f"gate-{len(self.jobs)}"
        return self.submit(HOLD.format(str(gate)), **self.with_gpus(gpus)), gate

    def with_gpus(self, gpus):
        """Return the options of a job of so many GPUs, of several tasks where no node has them.

        Parameters
        ----------
        gpus
            How many.
        """
        if self.largest is None or gpus <= self.largest:
            return {"gpus": gpus}
        return {"roles": (Role(count=gpus, resources=Resources(gpus=1)),)}

    def until_running(self, job, flag=None):
        """Wait until a job runs, and until its code has made a file.

        Parameters
        ----------
        job
            As `submit` returned it.
        flag
            The file's path; None for no file.
        """
        until(lambda: job.status().state is JobState.RUNNING, PATIENCE)
        if flag is not None:
            until(flag.exists, PATIENCE)

    def paths(self, job):
        """Return the files of a job.

        Parameters
        ----------
        job
            As `submit` returned it.
        """
        return JobPaths(self.home, job.id)

    def total(self):
        """Return how many GPUs the cluster has."""
        return len(self.seam.gpus())

    def holders(self):
        """Return how many GPUs jobs of this test hold, by job."""
        held = [gpu.job_id for gpu in self.seam.gpus()]
        return {job.id: held.count(job.id) for job in self.jobs if job.id in held}

    def in_another_process(self, program, *arguments):
        """Run Python code in a process of its own, and return what it prints.

        Parameters
        ----------
        program
            The code.
        *arguments
            What it finds in ``sys.argv`` from 1 on.
        """
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def clean_up(self):
        """End what is left of the test's jobs."""
        for job in self.jobs:
            if self.paths(job).root.exists() and not job.done():
                job.kill()
        for job in self.jobs:
            if self.paths(job).root.exists():
                job.wait(PATIENCE)
