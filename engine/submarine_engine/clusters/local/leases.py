"""GPU leases: one locked file a GPU.

A lease is the lock on the GPU's file. The descriptor is inherited by the job's supervisor and by
the task, so the GPU falls free when the last of them is gone, killed with -9 or not. Nothing has
to be cleaned up, and what the file says is only for people.

Leases are taken and looked at under the queue's lock, which keeps two takers apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from submarine_engine.clusters import locks
from submarine_engine.history import make_private

_LONGEST_LABEL = 200


class Holder(NamedTuple):
    """Who holds a GPU, as the lease's file tells; both empty where it cannot be read."""

    job_id: str
    name: str

    def __str__(self) -> str:
        return f"{self.name!r} (…{self.job_id[-5:]})" if self.job_id else "another process"


class Leases:
    """The leases of one machine.

    Parameters
    ----------
    folder
        Where the files are; made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(
        self,
        pool: Sequence[str],
        count: int,
        holder: Holder,
        is_over: Callable[[str], bool] = lambda _: True,
    ) -> dict[str, int] | None:
        """Take `count` GPUs of `pool`, all or none.

        Parameters
        ----------
        is_over
            Asked with the id of the job that held a GPU before: whether nothing of it is left that
            could still use that GPU. The lock alone does not tell, since a process may have closed
            its descriptors.

        Returns
        -------
        dict or None
            Locked descriptors by GPU id; None where too few are free.
        """
        make_private(self._folder)
        taken: dict[str, int] = {}
        for gpu in pool:
            if len(taken) == count:
                break
            descriptor = locks.take(self._folder / gpu)
            if descriptor is None:
                continue
            former = os.pread(descriptor, _LONGEST_LABEL, 0).decode(errors="replace")
            if former and not is_over(former.partition(" ")[0]):
                locks.drop(descriptor)
                continue
            taken[gpu] = descriptor
        if len(taken) < count:
            release(taken)
            return None
        label = f"{holder.job_id} {holder.name}"[:_LONGEST_LABEL].encode()
        for descriptor in taken.values():
            # A full disk costs the label, never the lease.
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, label, 0)
        return taken

    def holders(self, pool: Sequence[str]) -> dict[str, Holder | None]:
        """Return who holds each GPU of `pool`; None where it is free."""
        return {gpu: self._holder(self._folder / gpu) for gpu in pool}

    def _holder(self, path: Path) -> Holder | None:
        if locks.is_free(path):
            return None
        try:
            job_id, _, name = path.read_text(errors="replace").partition(" ")
        except OSError:
            return Holder("", "")
        return Holder(job_id, name)


def release(leases: dict[str, int]) -> None:
    """Close the descriptors; the GPUs are free where no other process has inherited them."""
    while leases:
        locks.drop(leases.popitem()[1])
