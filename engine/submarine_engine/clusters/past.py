"""Jobs that are over, of a cluster that cannot be used here any more: their folders tell all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters.base import Gpu
from submarine_engine.clusters.driver import RecordedCluster
from submarine_engine.errors import ConfigError

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.history import JobPaths
    from submarine_engine.job import JobSpec
    from submarine_engine.lifecycle import JobStatus


class PastCluster(RecordedCluster):
    """What is left of a cluster: the jobs on record.

    Parameters
    ----------
    name
        As the records have it.
    why
        Why the cluster itself cannot be opened; raised for whatever needs it.
    home
        Where jobs are kept, see `default_home`.
    """

    def __init__(self, name: str, why: ConfigError, home: Path | None = None) -> None:
        super().__init__(home)
        self.name = name
        self._why = why

    def attend(self, paths: JobPaths, status: JobStatus) -> bool:  # noqa: ARG002 - as told
        """Return that nothing new will come."""
        return False

    def ring(self, paths: JobPaths, reason: str) -> None:
        """Do nothing: the job is over."""

    def check(self, spec: JobSpec) -> JobSpec:  # noqa: ARG002 - of those that are there
        """Refuse any job."""
        raise self._why

    def submit(self, spec: JobSpec, bundle: Bundle, *, workdir: Path) -> str:  # noqa: ARG002 - likewise
        """Refuse any job."""
        raise self._why

    def gpus(self) -> list[Gpu]:
        """Refuse: nobody knows them."""
        raise self._why

    def log_url(self, job_id: str) -> str | None:  # noqa: ARG002 - of those that are there
        """Return None: its pages are not to be found."""
        return None
