"""What is served under a name: its folder, every file of it named once.

``<home>/servings/<name>/``: ``serving.json`` is what is asked for, ``state.json`` what the front
tells, and a folder for each version of the model has what its replicas run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from submarine_engine.bundle.model import Bundle
from submarine_engine.errors import JobNotFoundError, SubmissionError
from submarine_engine.history import SPOILT, check_home, make_private, read_json, write_json
from submarine_engine.job import JobSpec
from submarine_engine.kept_record import KeptRecord
from submarine_engine.typed_fields import typed_fields

VERSION = 1
FILE = "serving.json"
_BUNDLE = "bundle"
_SPEC = "spec.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """A replica as the front tells of it.

    Parameters
    ----------
    job
        Its job.
    version
        Which version of the model it serves.
    state
        ``queued``, ``starting``, ``ready``, ``failing`` or ``draining``.
    """

    job: str
    version: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontState:
    """What the front tells.

    Parameters
    ----------
    job
        The front's own job.
    serves
        The version that requests are passed on to; 0 for none yet.
    failed
        The version that could not be brought up last; 0 for none.
    failed_job
        The replica's job that says why.
    reason
        Why, in a line.
    replicas
        Those that there are.
    rolls
        The version whose replicas take the GPUs of the former ones one after the other; 0 for none.
    had
        How many replicas of the former version there were as that began.
    held_up
        Why the wanted version is not served yet, in words; empty where nothing but time is missing.
    server
        What the replicas run, one of `replica.SERVERS`; empty until it is known.
    requests, failures
        How many requests were answered, and how many could not be passed on to any replica.
    """

    job: str = ""
    serves: int = 0
    failed: int = 0
    failed_job: str = ""
    reason: str = ""
    replicas: tuple[ReplicaState, ...] = ()
    rolls: int = 0
    had: int = 0
    held_up: str = ""
    server: str = ""
    requests: int = 0
    failures: int = 0

    @property
    def ready(self) -> int:
        """How many replicas answer for the version that is served."""
        return sum(one.state == "ready" and one.version == self.serves for one in self.replicas)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FrontState:
        """Build from what JSON has of it.

        Parameters
        ----------
        data
            As `dataclasses.asdict` gives it.
        """
        given = typed_fields(cls, data)
        told = (typed_fields(ReplicaState, one) for one in given.get("replicas", ()))
        return cls(**{**given, "replicas": tuple(ReplicaState(**one) for one in told)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRecord(KeptRecord):
    """What is asked for.

    Parameters
    ----------
    folder
        The serving's.
    cluster
        Where the replicas run.
    port
        Of this machine's loopback, where the front listens.
    workdir
        Where the replicas' relative paths begin.
    visible
        ``CUDA_VISIBLE_DEVICES`` of who asked: a front without GPUs sees none, its replicas those.
    wanted
        The version of the model that is to be served.
    replicas
        How many replicas of it.
    models
        Where each version came from, in words, by its number.
    servers
        What was asked to serve each version, by its number; empty for what is installed.
    takes
        What a request to the newest may look like, as `submarine_engine.serving.model.takes` tells.
    jobs
        The jobs that have been its front, the newest last.
    """

    FILE: ClassVar[str] = FILE
    VERSION: ClassVar[int] = VERSION
    CALLED: ClassVar[str] = "what is served"
    ABSENT: ClassVar[str] = "nothing is served there, or by another release"
    ANEW: ClassVar[str] = "serve it anew"

    folder: Path
    cluster: str
    port: int
    workdir: str
    visible: str | None = None
    wanted: int = 1
    replicas: int = 1
    models: Mapping[str, str] = field(default_factory=dict)
    servers: Mapping[str, str] = field(default_factory=dict)
    takes: Mapping[str, Any] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What people call it."""
        return self.folder.name

    @property
    def address(self) -> str:
        """Where it answers, on this machine."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def lock(self) -> Path:
        """The lock that its front holds."""
        return self.folder / "front.lock"

    @property
    def job(self) -> str:
        """The job that is its front now; empty where there is none yet."""
        return self.jobs[-1] if self.jobs else ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, without the folder."""
        data = asdict(self)
        del data["folder"]
        return data

    @classmethod
    def from_json(cls, folder: Path, data: Mapping[str, Any]) -> ServingRecord:
        """Build from what `to_json` returned.

        Parameters
        ----------
        folder
            The serving's.
        data
            What `to_json` returned.
        """
        return cls(**{**typed_fields(cls, data), "folder": folder})

    def put(self, version: int, spec: JobSpec, bundle: Bundle) -> None:
        """Keep what the replicas of a version run.

        Parameters
        ----------
        version
            Its number.
        spec
            Of each replica.
        bundle
            What it runs.

        Raises
        ------
        SubmissionError
            It cannot be written.
        """
        folder = self.folder / str(version)
        try:
            make_private(folder)
            bundle.write(folder / _BUNDLE)
            write_json(folder / _SPEC, spec.to_json())
        except (OSError, ValueError) as error:
            raise SubmissionError(
                f"the model cannot be kept: {error}",
                where=str(folder),
                fix="make room there, or let SUBMARINE_HOME name a folder of yours with room",
            ) from error

    def what(self, version: int) -> tuple[JobSpec, Bundle]:
        """Return what the replicas of a version run; raises OSError, ValueError, KeyError."""
        folder = self.folder / str(version)
        spec = read_json(folder / _SPEC)
        if spec is None:
            raise FileNotFoundError(folder / _SPEC)
        return JobSpec.from_json(spec), Bundle.read(folder / _BUNDLE)

    def forget(self, version: int) -> None:
        """Remove what the replicas of a version ran."""
        shutil.rmtree(self.folder / str(version), ignore_errors=True)

    def tell(self, state: FrontState) -> None:
        """Write what the front tells, `state`, in place of what it told before; raises OSError."""
        write_json(self.folder / "state.json", asdict(state))

    def told(self) -> FrontState:
        """Return what the front has told last."""
        with suppress(*SPOILT):
            return FrontState.from_json(read_json(self.folder / "state.json") or {})
        return FrontState()


def servings_of(home: Path) -> Path:
    """Return the folder of all servings of a home."""
    return home / "servings"


def iter_servings(home: Path) -> Iterator[ServingRecord]:
    """Yield what is on record, by name.

    Parameters
    ----------
    home
        Where the jobs are kept.
    """
    check_home(home)
    for path in sorted(servings_of(home).glob(f"*/{FILE}")):
        with suppress(JobNotFoundError):  # of another release, or cut off: no other's business
            yield ServingRecord.read(path.parent)


def find_serving(home: Path, name: str) -> ServingRecord:
    """Return what is served under a name, or by the front of that job id.

    Parameters
    ----------
    home
        Where the jobs are kept.
    name
        As people gave it.

    Raises
    ------
    JobNotFoundError
        Nothing is.
    """
    found = list(iter_servings(home))
    for record in found:
        if name == record.name or name in record.jobs:
            return record
    known = ", ".join(record.name for record in found[:5])
    raise JobNotFoundError(
        f"nothing is served under the name {name!r:.60}",
        fix=f"there is {known}" if known else "serve a model: submarine serve start PATH --name …",
    )


def check_name(name: str) -> None:
    """Refuse what cannot name a serving: it names a job and a folder.

    Raises
    ------
    CommandError
        It cannot.
    """
    JobSpec(name=name)  # it says what a name is
