"""The code that runs inside a job's container: standard library only.

Training code may use three things of it, which do nothing outside a job:

>>> from submarine_runtime import job, on_save, progress
>>> progress(0.5, "half-way")
>>> job.checkpoint_path()
>>> @on_save
... def save(folder):
...     (folder / "weights.txt").write_text("0.1 0.2")

The way through, see ``docs/architecture.md``: ``__main__`` (on YARN: `container`) → `task` →
`task` (or a shell command) → `outcome` → `leave`. What is imported before the user's first line
is kept to what is built into the interpreter, since that line waits for it.
"""

from submarine_runtime.job import progress
from submarine_runtime.saving import on_save

__all__ = ["job", "on_save", "progress"]
