"""The code that runs inside a job's container: standard library only.

Training code may use four things of it, which do nothing outside a job:

>>> from submarine_runtime import job, on_save, progress, report
>>> progress(0.5, "half-way")
>>> job.checkpoint_path()
>>> @on_save
... def save(folder):
...     (folder / "weights.txt").write_text("0.1 0.2")
>>> report(0, loss=0.12)

The way through, see ``docs/architecture.md``: ``__main__`` (on YARN: `container`) → `task` →
`task` (or a shell command) → `outcome` → `leave`. What is imported before the user's first line
is kept to what is built into the interpreter, since that line waits for it.
"""

from submarine_runtime.job import progress
from submarine_runtime.saving import on_save

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from submarine_runtime.reports import report

__all__ = ["job", "on_save", "progress", "report"]


def __getattr__(name: str) -> object:
    if name != "report":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from submarine_runtime.reports import report  # noqa: PLC0415 - only trials need it

    return report
