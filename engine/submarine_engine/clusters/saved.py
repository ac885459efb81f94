"""What is told of a model that was saved while its job runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A model that was saved while its job runs.

    Parameters
    ----------
    path
        The folder that holds its files now: of this machine, or ``hdfs://…``.
    by
        ``hook``: the function that the training code gave to `submarine_runtime.on_save`;
        ``checkpoint``: the last checkpoint was copied.
    source
        The task whose function it was, or the name of the checkpoint.
    files, size
        How many files, and their bytes.
    """

    path: str
    by: str
    source: str
    files: int
    size: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)

    @property
    def words(self) -> str:
        """What was saved, in words."""
        what = f"by the code of {self.source}"
        if self.by == "checkpoint":
            what = f"a copy of the checkpoint {self.source}"
        return f"{what}: {self.files} file{'s' * (self.files != 1)}, {self.size:,} bytes"
