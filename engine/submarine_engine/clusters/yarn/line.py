"""The order in which jobs came: those of one master ask it in that order."""

from __future__ import annotations

import threading


class Line:
    """Jobs that have not asked for their containers yet, first come first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, str | None] = {}

    def join(self, job_id: str) -> None:
        """Put a job at the end; nothing where it stands in the line already."""
        with self._lock:
            self._keys.setdefault(job_id, None)

    def name(self, job_id: str, key: str) -> None:
        """Tell which master the job will ask; until then it holds up all that came later."""
        with self._lock:
            if job_id in self._keys:
                self._keys[job_id] = key

    def is_turn(self, job_id: str) -> bool:
        """Return whether no job that came earlier is still to ask the same master."""
        with self._lock:
            mine = self._keys.get(job_id)
            for other, key in self._keys.items():
                if other == job_id:
                    return True
                if key is None or key == mine:
                    return False
            return True

    def before(self, job_id: str) -> int:
        """Return how many jobs that came earlier are still to ask the same master."""
        with self._lock:
            mine, count = self._keys.get(job_id), 0
            for other, key in self._keys.items():
                if other == job_id:
                    return count
                count += key == mine
            return 0

    def leave(self, job_id: str) -> None:
        """Take a job out: it has asked, or never will. Nothing where it is not in the line."""
        with self._lock:
            self._keys.pop(job_id, None)
