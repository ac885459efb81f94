"""Writes checkpoints of a training loop, and lets the next attempt go on from the last one.

Training code calls it by `submarine_runtime.job`: ``steps``, ``restore``, ``checkpoint``. Kept are
the state that the loop gives, and the random states of `random`, numpy and torch as far as they are
loaded (`checkpoint_state`): a run that goes on draws the same numbers as one that was never ended.
The files are those of `checkpoint_files`.

Of several ranks the first writes the state, which is the same in all, and each its own random
states beside it (`checkpoint_ranks`).

Whoever ends a job asks first (SIGTERM, `task`). While a loop of steps runs that is only noted: the
step comes to its end, the checkpoint is written, and then the loop is interrupted.
"""

from __future__ import annotations

import os
import sys
import time

from submarine_runtime import checkpoint_files as files
from submarine_runtime import checkpoint_ranks, checkpoint_state, progress_file
from submarine_runtime.checkpoint_files import warn
from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

EVERY = 60.0
"""Seconds between two checkpoints, unless they are given."""

KEEP = 2
"""Checkpoints that stay: the last may be what a disk lost, and then the one before it counts."""

_SHARE = 0.05
"""Part of the time that checkpoints may take; large states are kept less often than asked for."""

_PAUSE = 10.0
"""Seconds after which one that could not be written is tried again, at the soonest."""

_MARGIN = 1.5  # the next step or write may be slower than those that were measured

_LOOP = "loop-"
_SERVING = ("ps", "evaluator", "tensorboard")

_begun = 0  # loops of this process so far


class _Pending:
    """A checkpoint of several ranks whose parts are not all there.

    Parameters
    ----------
    file
        The state's; while it is not let go of, nobody takes this for what a kill has left.
    """

    def __init__(self, step: int, aside: str, file: files.NewFile) -> None:
        self.step = step
        self.aside = aside
        self.file = file
        self.until = time.monotonic() + checkpoint_ranks.PATIENCE


class Loop:
    """The checkpoints of one training loop.

    Parameters
    ----------
    folder
        Where they lie; None keeps none, as outside a job.
    every
        Seconds between two of them at least; 0 keeps each step.
    total
        How many steps there are, where that is known.

    Raises
    ------
    ValueError
        `folder` is an address that this runtime cannot write to, or `every` is no time.
    """

    def __init__(
        self, folder: str | None, every: float = EVERY, *, total: int | None = None
    ) -> None:
        if not every >= 0:
            raise ValueError(f"every={every!r}: give the seconds between two checkpoints")
        self.keeps = folder is not None
        if not self.keeps and "SUBMARINE_JOB_ID" in os.environ:
            raise ValueError(
                "this job has no folder for checkpoints: give --checkpoint_path one that all nodes "
                "see, as file:///shared/run"
            )
        self.storage = _storage(folder or "")
        self.done = 0
        self.wrote = False
        self.every = every
        self._total = total
        self._ranks = None
        if self.keeps and _is_trained_here():
            self._ranks = checkpoint_ranks.of_this_process(self.storage)
        self._pending: _Pending | None = None
        self._has_own = False
        self._least = self._pause = 0.0
        self._step = 0.0  # seconds that one takes
        self._last = self._stepped = time.monotonic()

    @property
    def needs(self) -> float:
        """Seconds from a notice to the checkpoint, by how long both took so far; 0 for none.

        Alone the step comes to its end; several ranks end after one that all can still hear of.
        """
        if not self.keeps or not self._step:
            return 0.0
        steps, talks = (1, 1.0) if self._ranks is None else (3, 5.0)
        return _MARGIN * (steps * self._step + self._least * _SHARE) + talks

    def _note_step(self) -> None:
        """Note how long a step took: a long one, such as a validation, for a while."""
        progress_file.note_step()
        now = time.monotonic()
        self._step = max(now - self._stepped, 0.9 * self._step)

    def restore(self, state: object, own: object = None) -> int:
        """Put the newest complete checkpoint into `state`; return how many steps it is after.

        Parameters
        ----------
        state
            All that the steps change; it is changed in place.
        own
            What each rank has for itself; None for nothing.

        Raises
        ------
        TypeError
            `state` cannot be changed in place, or cannot be pickled; or it is another one than
            that of the checkpoint.
        ValueError
            A later release has written there, or another number of ranks had something of its own.
        OSError
            The folder cannot be read or written; `PermissionError` where another user's lie there.
        """
        self._has_own = own is not None
        # What cannot be kept is told before the training.
        checkpoint_state.expect_keepable(state)
        if own is not None:
            checkpoint_state.expect_keepable(own)
        if not self.keeps:
            return 0
        if _writes():
            _prepare(self.storage)
        files.expect_known(self.storage)
        if (found := self._newest()) is not None:
            self._take(found, state, own)
        self.storage.tidy()
        self._last = self._stepped = time.monotonic()
        return self.done

    def _newest(self) -> str | None:
        """Return the name of the checkpoint to begin from, the same for all ranks."""
        ranks, storage = self._ranks, self.storage
        if ranks is not None:
            ranks.enter()
            if ranks.rank != 0:
                if ranks.wait("begin") and ranks.begin is not None:
                    name = ranks.begin["begin"]
                    return None if name is None else str(name)
                warn("rank 0 has begun no loop of steps: this rank keeps no checkpoints")
                self._ranks = None
        if _writes():
            files.forget_cut(storage)
        sound = (name for _, name in files.complete(storage) if files.is_sound(storage, name))
        found = next(sound, None)
        if ranks is not None and ranks.rank == 0:
            ranks.say(must=True, begin=found)
        return found

    def _take(self, name: str, state: object, own: object) -> None:
        storage, rank, count = self.storage, 0, 1
        if self._ranks is not None:
            rank, count = self._ranks.rank, self._ranks.count
        told = files.note_of(storage, name)
        if told is None:
            raise OSError(f"the checkpoint {storage.where}/{name} is gone: is the path in use?")
        kept = files.load(storage, name, files.STATE)
        _expect_same(state, own, kept, f"{storage.where}/{name}")
        if own is not None and len(told["files"]) != count:
            raise ValueError(
                f"the checkpoint {storage.where}/{name} holds what {len(told['files'])} ranks had "
                f"of their own, and now there are {count}: begin with as many (--num_workers "
                f"{len(told['files'])}), or give another --checkpoint_path"
            )
        seen: dict[int, Any] = {}
        checkpoint_state.fill(state, kept["state"], seen)
        part = files.part_of(rank)
        if rank == 0:
            mine = kept
        elif part in told["files"]:
            mine, seen = files.load(storage, name, part), {}
            checkpoint_state.set_states(checkpoint_state.generators_in(state), mine["generators"])
        else:  # there are more ranks than before
            seed = (told["files"][files.STATE][1] + rank) % 2**32
            checkpoint_state.seed_all(checkpoint_state.generators_in(state), seed)
            mine = {"random": {}}
        if own is not None:
            checkpoint_state.fill(own, mine["own"], seen)
        checkpoint_state.set_random_states(mine["random"])
        self.done = told["step"]
        if rank == 0 and told.get("job") not in ("", os.environ.get("SUBMARINE_JOB_ID", "")):
            warn(self._begins(f"job {told.get('job')}, kept in {storage.where}"))

    def _begins(self, whose: str) -> str:
        """Say what another job's checkpoint leaves to do."""
        # Whoever changed the code and ran the cell again is to see why nothing was trained.
        if self._total is not None and self.done >= self._total:
            return (
                f"no step is left to do: {self.done} were done by {whose}; to begin anew, give "
                "another --checkpoint_path, or remove that one"
            )
        return f"goes on with step {self.done}, after those of {whose}"

    @property
    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        least = self.every and max(self.every, self._least)
        return time.monotonic() - self._last >= max(least, self._pause)

    def keep(self, state: object, own: object = None, *, must: bool = False) -> bool:
        """Say that a step is done; write a checkpoint if it is time. Tell whether it was.

        Parameters
        ----------
        state, own
            As `restore` has them.
        must
            Write one now, or raise.

        Raises
        ------
        KeyboardInterrupt
            The job was asked to end; the checkpoint is written.
        OSError
            It must be written, and cannot be.
        """
        self.done += 1
        self._note_step()
        try:
            return self._keep(state, own, must=must)
        finally:
            self._stepped = time.monotonic()
            progress_file.note_needs(self.needs)

    def _keep(self, state: object, own: object, *, must: bool) -> bool:
        if self._ranks is not None:
            return self._keep_together(self._ranks, state, own, must=must)
        due = must or self.is_due or notice.given
        wrote = due and self.write(state, own, must=must)
        if notice.given:
            notice.obey(self.done)
        return wrote

    def finish(self, first: int, state: object, own: object) -> None:
        """Write a checkpoint after the last step: what comes after the loop may fail.

        Parameters
        ----------
        first
            The step that this run has begun at.
        state, own
            As `restore` has them.

        Raises
        ------
        KeyboardInterrupt
            The job was asked to end meanwhile; the checkpoint is written.
        """
        # Also of a short rest of a loop: a third attempt is not to go on from what the first has
        # left.
        wanted = bool(first or self.wrote or self.is_due or notice.given)
        if self._ranks is not None:
            self._finish_together(self._ranks, state, own, wanted=wanted)
        elif wanted:
            self.write(state, own)
        if notice.given:  # it came after the last step
            notice.obey(self.done)

    def write(self, state: object, own: object = None, *, must: bool = False) -> bool:
        """Write a checkpoint now; tell whether there is one of this step.

        Training goes on without it where it cannot be written, with a word in the log.

        Parameters
        ----------
        state, own
            As `restore` has them.
        must
            Raise where it cannot be written.

        Raises
        ------
        OSError
            It must be written, and the disk is full, or the folder cannot be written.
        """
        if not self.keeps or not _writes():
            return False
        if files.note_of(self.storage, files.name_of(self.done)) is None:
            aside = files.aside_of(self.done)
            return self._try(lambda: self._write_alone(aside, state, own), aside, must=must)
        self._last, self.wrote = time.monotonic(), True
        return True

    def _write_alone(self, aside: str, state: object, own: object) -> None:
        file = self._write_state(aside, state, own)
        self._complete(aside, {files.STATE: [file.size, file.sum]})

    def _write_state(self, aside: str, state: object, own: object) -> files.NewFile:
        """Write what the first rank writes; the file's lock is held until it is let go of."""
        storage = self.storage
        storage.make(aside)
        with storage.new(f"{aside}/{files.STATE}") as file:
            random = checkpoint_state.random_states()
            checkpoint_state.write(file, {"state": state, "own": own, "random": random})
        return file

    def _complete(self, aside: str, written: dict[str, list[int]]) -> None:
        storage = self.storage
        step = self.done if self._pending is None else self._pending.step
        files.write_note(storage, aside, step, written)
        files.put_in_place(storage, aside, files.name_of(step))
        files.forget_all_but(storage, KEEP)
        # What each rank has of its own fits no other number of ranks.
        progress_file.note_kept(for_any=not self._has_own)

    def _try(self, write: Callable[[], object], aside: str, *, must: bool) -> bool:
        """Write something of a checkpoint; say in the log why there is none where it fails."""
        began = time.monotonic()
        try:
            write()
        except OSError as error:
            self._drop(aside)
            self._pause = _PAUSE
            words = self._words_of(error)
            if must:
                raise _with_words(error, words) from error
            warn(f"{words}; the training goes on, and the last checkpoint stays as it is")
            return False
        except BaseException:
            self._drop(aside)
            raise
        else:
            self.wrote, self._pause = True, 0.0
            self._least = (time.monotonic() - began) / _SHARE
            return True
        finally:
            self._last = time.monotonic()

    def _drop(self, aside: str) -> None:
        if aside:
            with suppress(OSError):
                self.storage.remove(aside)

    def _words_of(self, error: OSError) -> str:
        storage = self.storage
        return (
            f"no checkpoint after step {self.done}: {storage.where}: {error.strerror or error} "
            f"(free: {storage.free()})"
        )

    # Of several ranks: rank 0 says after which step, each other adds a part, rank 0 has it count.

    def _keep_together(
        self, ranks: checkpoint_ranks.Ranks, state: object, own: object, *, must: bool
    ) -> bool:
        ranks.step(self.done, now=notice.given)
        if notice.given:
            ranks.ask()
        if ranks.rank == 0:
            if self._pending is not None:
                self._complete_pending(ranks, waits=False)
            wanted = notice.given or ranks.is_asked
            due = bool(self.every) and self.is_due and self._pending is None
            if not ranks.calls and (due or wanted):
                ranks.call(self.done, self._total, stop=wanted)
        stop = ranks.calls.get(self.done)
        wrote = False
        if must or not self.every or stop is not None:
            waits = must or not self.every or bool(stop)
            wrote = self._write_together(ranks, state, own, waits=waits, must=must)
        if stop:
            if ranks.rank != 0:  # who ends before the first is through would have it ended, too
                ranks.wait_over(self.done)
            notice.obey(self.done)
        return wrote

    def _write_together(
        self,
        ranks: checkpoint_ranks.Ranks,
        state: object,
        own: object,
        *,
        waits: bool,
        must: bool = False,
    ) -> bool:
        aside = files.aside_of(self.done, ranks.key)
        if ranks.rank != 0:
            return self._try(lambda: self._add_part(ranks, aside, state, own), "", must=must)
        if self._pending is not None:
            self._complete_pending(ranks, waits=True)

        def write() -> None:
            self._pending = _Pending(self.done, aside, self._write_state(aside, state, own))

        wrote = self._try(write, aside, must=must)
        if wrote and waits:
            wrote = self._complete_pending(ranks, waits=True)
            if must and not wrote:
                raise OSError(f"no checkpoint after step {self.done}: another rank wrote no part")
        if not wrote:
            ranks.say(over=self.done)
        return wrote

    def _add_part(
        self, ranks: checkpoint_ranks.Ranks, aside: str, state: object, own: object
    ) -> None:
        storage = self.storage
        generators = checkpoint_state.states_of(checkpoint_state.generators_in(state))
        random = checkpoint_state.random_states()
        try:
            storage.make(aside)
            with storage.new(f"{aside}/{files.part_of(ranks.rank)}") as file:
                checkpoint_state.write(
                    file, {"own": own, "random": random, "generators": generators}
                )
        except BaseException:
            with suppress(OSError):
                ranks.add(self.done, None)
            raise
        ranks.add(self.done, (file.size, file.sum))

    def _complete_pending(self, ranks: checkpoint_ranks.Ranks, *, waits: bool) -> bool:
        """Give the pending checkpoint its name once all parts are there; tell whether it has it."""
        pending, storage = self._pending, self.storage
        assert pending is not None  # noqa: S101 - who calls has looked
        while True:
            parts = ranks.parts(pending.step)
            missing = set(range(1, ranks.count)) - set(parts) - ranks.without
            if not missing:
                break
            if time.monotonic() > pending.until:
                absent = missing & ranks.absent()
                if absent != missing:
                    break
                ranks.without |= absent
                warn(f"checkpoints are kept without ranks {_list(absent)}, which run no such loop")
            elif not waits:
                return False
            else:
                time.sleep(storage.wait)
        bad = missing | {rank for rank, part in parts.items() if part is None}
        done = not bad and self._try(
            lambda: self._complete(
                pending.aside,
                {
                    files.STATE: [pending.file.size, pending.file.sum],
                    **{files.part_of(rank): part for rank, part in parts.items() if part},
                },
            ),
            pending.aside,
            must=False,
        )
        if bad:
            warn(f"no checkpoint after step {pending.step}: no part of ranks {_list(bad)}")
            self._drop(pending.aside)
        self._pending = None
        ranks.say(over=pending.step)
        return done

    def _finish_together(
        self, ranks: checkpoint_ranks.Ranks, state: object, own: object, *, wanted: bool
    ) -> None:
        if ranks.rank == 0:
            there = self._pending is not None and self._pending.step == self.done
            if self._pending is not None:
                there = self._complete_pending(ranks, waits=True) and there
            name = files.name_of(self.done)
            there = there or files.note_of(self.storage, name) is not None
            ranks.say(end=wanted and not there)
            if wanted and not there:
                self._write_together(ranks, state, own, waits=True)
        elif ranks.wait("end") and ranks.end:
            self._write_together(ranks, state, own, waits=True)


def _list(ranks: set[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))


def _prepare(storage: files.Folder) -> None:
    """Make the folder; find out before the training whether it can be written.

    Raises
    ------
    OSError
        It cannot.
    """
    fix = "give --checkpoint_path a folder that this job may write"
    probe = f".probe-{os.urandom(6).hex()}"
    try:
        storage.make("")
        storage.make(probe)
        storage.remove(probe)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(f"{storage.where} is no folder: {fix}") from None
    except OSError as error:
        words = f"no checkpoints can be written to {storage.where}: {error.strerror or error}"
        raise _with_words(error, f"{words}: {fix}") from error


def _with_words(error: OSError, words: str) -> OSError:
    return OSError(words) if error.errno is None else OSError(error.errno, words)


def _expect_same(state: object, own: object, kept: dict[str, Any], where: str) -> None:
    """Refuse the checkpoint of another training.

    Raises
    ------
    TypeError
        It holds less than this training's state.
    """
    fix = "make the same state as the run before, or give another --checkpoint_path"
    if (own is None) != (kept["own"] is None):
        verb = "nothing" if kept["own"] is None else "something"
        raise TypeError(f"the checkpoint {where} holds {verb} of each rank's own: {fix}")
    there = kept["state"]
    if isinstance(state, dict) and isinstance(there, dict) and (lacks := set(state) - set(there)):
        names = ", ".join(sorted(map(repr, lacks)))
        raise TypeError(f"the checkpoint {where} holds no {names}: {fix}")


class _Notice:
    """Whether somebody has asked the job to end, while a loop comes to the end of its step.

    `given` until the loop is there, `obeyed` from then on.
    """

    def __init__(self) -> None:
        self.given = False
        self.obeyed = False
        self._loops = 0
        self._looked_at = self._until = 0.0

    def __enter__(self) -> None:
        self._loops += 1

    def __exit__(self, *_: object) -> None:
        self._loops -= 1

    @property
    def looked_at(self) -> bool:
        """Whether a loop will look: one that keeps checkpoints, after its step."""
        return bool(self._loops) or time.monotonic() < self._until

    def take(self) -> bool:
        """Note that somebody asks, unless nobody would look or it is the second time."""
        if self.given or not self.looked_at:
            return False
        self.given = True
        return True

    def expect_next_check(self) -> None:
        """Expect the next look of a loop that nothing brackets about as late as this one came."""
        now = time.monotonic()
        gap = now - self._looked_at if self._looked_at else 0.0
        self._looked_at, self._until = now, max(self._until, now + 2 * gap + 1)

    def obey(self, done: int) -> None:
        """End the loop after so many steps as an interrupted cell is ended; say why in the log."""
        self.given, self.obeyed = False, True
        from submarine_runtime import notices  # noqa: PLC0415 - only where it comes to it

        told = notices.current()
        why = f": {told.reason}" if told and told.reason else ""
        with suppress(OSError, ValueError):  # a full disk, or a stream that the code has closed
            sys.stderr.write(f"submarine: asked to end{why}; checkpoint after step {done}\n")
        raise KeyboardInterrupt(notices.ASKED_TO_END)


notice = _Notice()


def steps(
    total: int,
    state: object,
    own: object,
    folder: str | None,
    every: float,
) -> Iterator[int]:
    """Yield the steps that are left.

    Parameters
    ----------
    total, state, own, every
        As `submarine_runtime.job.steps` has them.
    folder
        Where the job's checkpoints lie; None for nowhere.

    Raises
    ------
    TypeError, ValueError, OSError
        As `submarine_runtime.job.steps` does.
    """
    if isinstance(total, bool) or not isinstance(total, int) or total < 0:
        raise ValueError(f"steps({total!r}): give how many steps there are, a whole number")
    loop = Loop(place_of_next(folder), every, total=total)
    first = loop.restore(state, own)
    with notice:
        for step in range(first, total):
            yield step
            loop.keep(state, own)
            if not progress_file.is_told():
                progress_file.say((step + 1) / total, "", by_code=False)
        if total > first:
            loop.finish(first, state, own)


_own: Loop | None = None


def own_loop(folder: str | None, *, begins: bool, every: float = EVERY) -> Loop:
    """Return the loop of `submarine_runtime.job.restore` and ``checkpoint``.

    Parameters
    ----------
    folder
        Where the job's checkpoints lie; None for nowhere.
    begins
        Whether this is the beginning of another one.
    every
        Seconds between two checkpoints.

    Raises
    ------
    RuntimeError
        None has begun.
    """
    global _own  # noqa: PLW0603 - of the process
    if begins:
        _own = Loop(place_of_next(folder), every)
    elif _own is None:
        raise RuntimeError(
            "checkpoint() before restore(): begin the loop at `done = job.restore(state)`"
        )
    else:
        _own.every = every
        notice.expect_next_check()
    return _own


def forget() -> None:
    """Begin as a new process would: the next loop is the first one of another trial."""
    global _begun, _own
    _begun, _own = 0, None
    notice.given = False


def place_of_next(folder: str | None) -> str | None:
    """Return the folder of the next loop: of several in a script each has its own.

    Parameters
    ----------
    folder
        Where the job's checkpoints lie; None for nowhere.
    """
    global _begun  # noqa: PLW0603 - of the process
    _begun += 1
    return folder if folder is None or _begun == 1 else f"{folder}/{_LOOP}{_begun}"


def latest(folder: str | None) -> str | None:
    """Return the newest complete checkpoint, see `submarine_runtime.job.latest_checkpoint`.

    Parameters
    ----------
    folder
        Where the job's checkpoints lie; None for nowhere.
    """
    if folder is None:
        return None
    found = []
    for loop in ["", *(f"/{name}" for name in _storage(folder).names() if name.startswith(_LOOP))]:
        storage = _storage(f"{folder}{loop}")
        for _, name in list(files.complete(storage))[:1]:
            if told := files.note_of(storage, name):
                found.append((told["time"], f"{storage.where}/{name}"))
    return max(found)[1] if found else None


def _storage(folder: str) -> files.Folder:
    is_address = "://" in folder
    if folder.startswith("/") or not (is_address or "SUBMARINE_HDFS" in os.environ):
        return files.Folder(folder)
    if is_address and not folder.startswith("hdfs://"):
        raise ValueError(
            f"no checkpoints can be kept in {folder}: give --checkpoint_path a folder that all "
            "nodes see (file:///shared/run), or one of the cluster's HDFS (hdfs:///user/me/run)"
        )
    # A path that begins nowhere would be lost with the container.
    from submarine_runtime.checkpoint_hdfs import HdfsFolder  # noqa: PLC0415 - of such jobs alone

    return HdfsFolder(folder)


def _is_trained_here() -> bool:
    """Tell whether this task trains: what serves it runs the same script, as TensorFlow has it."""
    return os.environ.get("SUBMARINE_TASK", "").rpartition("-")[0] not in _SERVING


def _writes() -> bool:
    """Tell whether this process writes: of several ranks the first, which all have one state."""
    first = all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK"))
    return first and _is_trained_here()
