"""What a TensorBoard is to show: jobs, all jobs, folders; and the id that this makes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from submarine_engine.errors import CommandError
from submarine_engine.history import find_job, shown_user

MOST_JOBS = 200
"""Jobs that one TensorBoard shows; of all jobs, the newest that wrote events."""

_MOST_FOLDERS = 20
_LONGEST = 4096
_REMOTE = ("hdfs", "webhdfs")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a TensorBoard shows.

    Parameters
    ----------
    jobs
        Ids, sorted.
    everything
        All jobs of the user, those to come too.
    folders
        Absolute folders of this machine, or ``hdfs://`` and ``webhdfs://`` addresses.
    user
        Whose jobs, where several people share a home; None for all.
    """

    jobs: tuple[str, ...] = ()
    everything: bool = False
    folders: tuple[str, ...] = ()
    user: str | None = None

    @property
    def id(self) -> str:
        """The TensorBoard's id: the same for the same content."""
        content = json.dumps([self.jobs, self.everything, self.folders, self.user])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def words(self) -> str:
        """What it shows, for people."""
        told = ["all jobs"] if self.everything else list(self.jobs)
        return ", ".join([*told, *self.folders])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "jobs": list(self.jobs),
            "all": self.everything,
            "folders": list(self.folders),
            "user": self.user,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Wanted:
        """Build from what `to_json` returned."""
        return cls(tuple(data["jobs"]), data["all"], tuple(data["folders"]), data["user"])


def wanted(
    home: Path,
    jobs: Sequence[str] = (),
    *,
    everything: bool = False,
    folders: Sequence[str] = (),
    begin: Path | None = None,
) -> Wanted:
    """Check what is asked for; all jobs where nothing is.

    Parameters
    ----------
    jobs
        As people name them: id, end of the id, or name.
    begin
        Where relative folders begin; the current folder unless given.

    Raises
    ------
    JobNotFoundError
        There is no such job, or it is another user's.
    CommandError
        A folder is not there, or too many are named.
    """
    if jobs and everything:
        raise CommandError("--all and jobs contradict each other", fix="leave one out")
    if len(jobs) > MOST_JOBS or len(folders) > _MOST_FOLDERS:
        raise CommandError(
            f"one TensorBoard shows at most {MOST_JOBS} jobs and {_MOST_FOLDERS} folders",
            where="tensorboard",
            fix="name fewer, or take --all",
        )
    user = shown_user()
    found = sorted({find_job(home, job, user).job_id for job in jobs})
    places = sorted({_folder(text, begin or Path.cwd()) for text in folders})
    everything = everything or not (found or places)
    return Wanted(tuple(found), everything, tuple(places), user)


def _folder(text: str, begin: Path) -> str:
    scheme = urlsplit(text).scheme if "://" in text else ""
    if not text or len(text) > _LONGEST or any(char < " " for char in text):
        raise CommandError(f"{text[:100]!r} is no folder", where="--logdir", fix="name a folder")
    if scheme in _REMOTE:
        if "," in text:
            raise CommandError(
                "an address with a comma cannot be told to TensorBoard",
                where="--logdir",
                fix="name the folder above it",
            )
        return text.rstrip("/")
    if scheme not in ("", "file"):
        raise CommandError(
            f"TensorBoard reads files of this machine and of HDFS here, not {scheme}://",
            where="--logdir",
            fix="name a folder, or an address hdfs://…",
        )
    path = begin / Path(text.removeprefix("file://")).expanduser()
    if not path.is_dir():
        raise CommandError(
            f"there is no folder {path}",
            where="--logdir",
            fix="name the folder that the job writes its events to, or a job",
        )
    return str(path.absolute())
