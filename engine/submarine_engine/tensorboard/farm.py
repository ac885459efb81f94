"""One folder that TensorBoard reads: links to wherever jobs keep events, renewed while they run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from submarine_engine.history import make_private
from submarine_engine.tensorboard.found import Source, event_folders


class Farm:
    """A folder of links.

    Parameters
    ----------
    root
        It is made, and emptied.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._links: dict[str, str] = {}
        with suppress(FileNotFoundError):
            shutil.rmtree(root)
        make_private(root)

    def renew(self, sources: Iterable[Source]) -> None:
        """Link every folder of events of `sources` by its run's name; what is gone goes.

        Raises
        ------
        OSError
            The folder cannot be written.
        """
        links = {}
        for source in sources:
            place = Path(source.place)
            for folder in event_folders(place):
                below = folder.relative_to(place).as_posix()
                links[source.name if below == "." else f"{source.name}/{below}"] = str(folder)
        for name in [name for name in self._links if links.get(name) != self._links[name]]:
            self._remove(name)
        for name in sorted(links.keys() - self._links.keys()):
            self._add(name, links[name])

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _add(self, name: str, folder: str) -> None:
        link = self.root / name
        make_private(link.parent)
        with suppress(FileExistsError):
            link.symlink_to(folder)
        self._links[name] = folder

    def _remove(self, name: str) -> None:
        link = self.root / name
        with suppress(FileNotFoundError):
            link.unlink()
        del self._links[name]
        with suppress(OSError):  # others still lie there
            while link.parent != self.root:
                link = link.parent
                link.rmdir()
