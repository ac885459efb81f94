"""``--cluster any``: the first of several clusters on which a job's GPUs are free now, and why.

The choice stands here alone, and is made once: by whoever submits, after the spec is whole and
before anything is on record. `cluster_for` returns a real cluster and the spec with the reason
(`JobSpec.chosen`), which goes on record with the job; from then on nobody asks again, and whoever
opens the job by its record has the cluster's own name. A submitter that is killed before has left
nothing; one that begins anew chooses anew.

* Which: the setting ``any_of``, in its order; unless set, all that the user has, the local one
  first.
* Each is asked in a thread of its own, all at the same time, and has ``any_within`` seconds from
  the beginning: whether it would take the job (`Cluster.check`), and how many GPUs a job like it
  could have now (`Cluster.gpu_room`). What jobs of this home wait for there already is not free:
  two jobs that are submitted one after the other do not take the same GPU.
* The first with room takes the job, as soon as those before it have answered: nobody waits for
  those behind it. One that refuses the job, or does not answer, is passed over with its reason.
* Where nobody has room now, it is the first that would take the job at all. Not the one with the
  shortest wait: no cluster can tell that of a job which it does not have, and the order is the
  user's own word on which one is rather waited for.
* A job of no GPUs goes to the first that takes it; the others are not asked. Where the number is
  left open, a cluster without GPUs would run it without one: it comes after all that have some.
* One that fails in a way that nobody has foreseen is passed over likewise, and its error is named:
  what a cluster of others, or a client that it stands on, may raise is not known here.
* Where all refuse, one error has each one's reason.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from submarine_engine.amounts import count, shortened
from submarine_engine.clusters import ANY, configured_names, open_cluster
from submarine_engine.config import load_config
from submarine_engine.errors import ClusterError, SubmarineError, SubmissionError
from submarine_engine.history import JobPaths, default_home, job_ids, read_json
from submarine_engine.job import JobState

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.job import JobSpec

_LONGEST = 160  # characters of a cluster's reason: all of them stand in one line
_LOOKED_AT = 1000  # jobs on record: those that wait are among the newest
_FIRST = "local"
_WAITS = "no cluster has room now, and this is the first that takes it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a cluster says of a job that it may get.

    Parameters
    ----------
    cluster
        It, opened; None where it refuses the job or does not answer.
    words
        What it says, for people.
    asked
        How many GPUs the job would begin with there.
    room
        How many it could have now; None where the cluster does not tell.
    waiting
        How many others wait for there.
    error
        Why it refuses the job, or does not answer.
    """

    cluster: Cluster | None = None
    words: str
    asked: int = 0
    room: int | None = None
    waiting: int = 0
    error: SubmarineError | None = None

    @property
    def has_room(self) -> bool:
        """Whether the job would begin at once."""
        return self.room is not None and self.room - self.waiting >= self.asked


def candidates() -> tuple[str, ...]:
    """Return the names of the clusters that `ANY` stands for, in the user's order.

    Raises
    ------
    ConfigError
        The configuration cannot be read.
    """
    chosen: tuple[str, ...] | None = load_config().value("any_of")
    return chosen or tuple(sorted(configured_names(), key=lambda name: (name != _FIRST, name)))


def clusters_of(name: str) -> tuple[str, ...]:
    """Return the names of the clusters that a name stands for: its own, or `candidates`.

    Raises
    ------
    ConfigError
        The configuration cannot be read.
    """
    return candidates() if name == ANY else (name,)


def room_of(name: str) -> int | None:
    """Return `Cluster.room` of a cluster by its name; None where it is not chosen yet.

    Raises
    ------
    ConfigError
        No cluster has that name.
    """
    return None if name == ANY else open_cluster(name).room()


def cluster_for(
    name: str, spec: JobSpec, tell: Callable[[str], object] | None = None
) -> tuple[Cluster, JobSpec]:
    """Open the cluster that a job is to go to; where that is `ANY`, choose it.

    Parameters
    ----------
    name
        As `open_cluster` has it, or `ANY`.
    spec
        The job, as `Cluster.submit` will have it.
    tell
        Called with the reason, where there was a choice.

    Returns
    -------
    cluster, spec
        The cluster, and the job with the reason why it is that one.

    Raises
    ------
    ConfigError
        No cluster has that name.
    SubmissionError
        None of several would take the job; the message has each one's reason.
    ClusterError
        Likewise, and some of them do not answer.
    """
    if name != ANY:
        return open_cluster(name), spec
    cluster, words = _choose(candidates(), spec, load_config().value("any_within"))
    if tell is not None:
        tell(f"chosen: {words}")
    return cluster, replace(spec, chosen=words)


def _choose(names: Sequence[str], spec: JobSpec, within: float) -> tuple[Cluster, str]:
    """Return the cluster that takes the job, and the reason."""
    asked: dict[str, Future[Answer]] = {}
    if spec.gpus != 0:
        asked = {name: _ask(name, spec) for name in names}
    until = time.monotonic() + within
    heard: dict[str, Answer] = {}
    for name in names:
        future = asked.get(name) or _ask(name, spec)
        limit = until if name in asked else time.monotonic() + within
        answer = heard[name] = _answer(name, future, limit, within)
        if answer.cluster and (spec.gpus == 0 or (answer.asked and answer.has_room)):
            why = "no GPU asked for" if spec.gpus == 0 else ""
            return answer.cluster, _reason(name, heard, why)
    takes = [name for name, answer in heard.items() if answer.cluster]
    if not takes:
        raise _all_refuse(heard)
    # One without GPUs, where the number of them is open, is for when nobody has any.
    name = next((each for each in takes if heard[each].asked), takes[0])
    why = _WAITS if heard[name].asked else "no cluster that takes it has a GPU"
    found = heard[name].cluster
    assert found is not None  # noqa: S101 - for the type checker: it takes the job
    return found, _reason(name, heard, why)


def _ask(name: str, spec: JobSpec) -> Future[Answer]:
    """Have a thread ask a cluster."""
    future: Future[Answer] = Future()

    def ask() -> None:
        try:
            future.set_result(_ask_cluster(name, spec))
        except BaseException as error:  # noqa: BLE001 - `SystemExit`, a panic: it ends this thread
            future.set_result(_refusal(name, error))

    # A daemon: one that never answers keeps no process from ending.
    threading.Thread(target=ask, name=f"submarine: ask {name}", daemon=True).start()
    return future


def _ask_cluster(name: str, spec: JobSpec) -> Answer:
    """Ask a cluster whether it would take the job, and what is free there."""
    try:
        cluster = open_cluster(name)
        # Without secrets: a keyring may ask a person for each, and does so once, at submission.
        spec = cluster.check(replace(spec, secrets=())).smallest
    except Exception as error:  # noqa: BLE001 - it stops none of the others
        return _refusal(name, error)
    asked = spec.gpus or 0
    if not asked:
        return Answer(cluster=cluster, words="no GPU", room=0)
    try:
        room = cluster.gpu_room(spec)
        waiting = max(_waiting(cluster), room.wanted)
    except Exception as error:  # noqa: BLE001 - it takes jobs, and tells nothing of its GPUs
        words = f"what is free there is not known: {_short(as_ours(name, error))}"
        return Answer(cluster=cluster, words=words, asked=asked)
    words = f"{count(room.free, 'GPU')} free, {asked} asked for"
    if waiting:
        words += f", others wait for {waiting}"
    return Answer(cluster=cluster, words=words, asked=asked, room=room.free, waiting=waiting)


def _answer(name: str, future: Future[Answer], until: float, within: float) -> Answer:
    """Wait for a cluster's answer; return what stands for it where that does not come."""
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except TookTooLong:
        error = ClusterError(f"did not answer within {within:g} s", where=name)
        return _refusal(name, error)


def _refusal(name: str, error: BaseException) -> Answer:
    ours = as_ours(name, error)
    return Answer(words=_short(ours), error=ours)


def as_ours(name: str, error: BaseException) -> SubmarineError:
    """Return what a cluster has raised as an error of ours: it hides none of the others.

    Parameters
    ----------
    name
        The cluster's.
    error
        Whatever it, or a client that it stands on, has raised.
    """
    if isinstance(error, SubmarineError):
        return error
    if isinstance(error, OSError):
        return ClusterError(str(error), where=name)
    try:
        said = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - of a class that nobody here knows
        said = ""
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return ClusterError(
        f"it failed in a way that was not foreseen: {what}",
        where=name,
        fix=f"see all of it by --cluster {name}; it is an error of that cluster or of its client",
    )


def _short(error: SubmarineError) -> str:
    # Clusters say it, and people see it in a terminal: none of it is a control character.
    words = "".join(c if c.isprintable() else "?" for c in " ".join(error.what.split()))
    return shortened(words, _LONGEST)


def _reason(name: str, heard: Mapping[str, Answer], why: str) -> str:
    """Return why it is that cluster: its own words first, then those of who was asked before it."""
    answer = heard[name]
    own = "; ".join(filter(None, (answer.words if answer.asked else "", why)))
    others = [f"{other}: {said.words}" for other, said in heard.items() if other != name]
    return "; ".join([f"{name}: {own}", *others])


def _all_refuse(heard: Mapping[str, Answer]) -> SubmarineError:
    """Return the error of a job that nobody takes."""
    errors = [answer.error for answer in heard.values() if answer.error]
    if len({(type(error), error.what) for error in errors}) == 1:
        return errors[0]  # it is the job's own
    kind = (
        ClusterError if any(isinstance(error, ClusterError) for error in errors)
        else SubmissionError
    )  # fmt: skip
    told = "; ".join(f"{name}: {answer.words}" for name, answer in heard.items())
    return kind(
        f"no cluster can take the job now: {told}",
        where=f"--cluster {ANY}",
        fix=f"ask for less, name one (--cluster {next(iter(heard))} says more), or change which"
        " there are: any_of in the configuration",
    )


def _waiting(cluster: Cluster) -> int:
    """Return for how many GPUs jobs of this home wait on a cluster."""
    gpus, home = 0, default_home()
    for job_id in islice(job_ids(home), _LOOKED_AT):
        with suppress(OSError, ValueError, SubmarineError):  # being made, being deleted, spoilt
            told = read_json(JobPaths(home, job_id).status) or {}
            if told.get("cluster") != cluster.name or told.get("state") != JobState.QUEUED.value:
                continue
            if cluster.status(job_id).state is JobState.QUEUED:  # its notebook may be long gone
                gpus += int(told.get("gpus") or 0)
    return gpus
