"""Checkpoints of a training loop, and how the next attempt goes on from the last one.

A checkpoint is a folder ``step-000000001200`` with the pickled state and ``checkpoint.json``, that
says how many bytes that is and their sum. It is written aside and renamed, so that it is complete
or not there; one that reads otherwise is passed over for the one before it.

What is kept is the state that the loop gives, and the random states of `random`, numpy and torch as
far as they are loaded: a run that goes on draws the same numbers as one that was never ended.

Whoever ends a job asks first (SIGTERM, `task`). While a loop of steps runs that is only noted: the
step comes to its end, the checkpoint is written, and then the loop is interrupted.
"""

from __future__ import annotations

import os
import sys
import time

from submarine_runtime import lean
from submarine_runtime.lean import standard, suppress

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

_NAME = "step-"
_LOOP = "loop-"
_STATE = "state.pickle"
_NOTE = "checkpoint.json"
_ASIDE = ".part"
_VERSION = 1
_PIECE = 1 << 20
_SERVING = ("ps", "evaluator", "tensorboard")
_FUNCTIONS = (type, type(lambda: None), type(len), type(sys))

_begun = 0  # loops of this process so far


class Loop:
    """The checkpoints of one training loop.

    Parameters
    ----------
    folder
        Where they lie; None keeps none, as outside a job.
    every
        Seconds between two of them at least; 0 keeps each step.

    Raises
    ------
    ValueError
        `folder` is an address, or `every` is no time.
    """

    def __init__(self, folder: str | None, every: float = EVERY) -> None:
        if not every >= 0:
            raise ValueError(f"every={every!r}: give the seconds between two checkpoints")
        if folder is not None and "://" in folder:
            raise ValueError(
                f"checkpoints of a loop are written to a folder, and this job's are to be in "
                f"{folder}: give --checkpoint_path a folder that all nodes see, as file:///shared"
            )
        self.folder = folder
        self.done = 0
        self.wrote = False
        self.every = every
        self._least = 0.0
        self._last = time.monotonic()

    def restore(self, state: object) -> int:
        """Put the newest complete checkpoint into `state`; return how many steps it is after.

        Raises
        ------
        TypeError
            `state` cannot be changed in place, or cannot be pickled.
        PermissionError
            Another user's checkpoints lie there.
        """
        if not _is_filled_in_place(state):
            raise TypeError(
                f"the state is {_kind(state)}, which cannot be changed in place: "
                'give a dict, such as {"model": model, "history": history}'
            )
        if self.folder is None:
            return 0
        _write(_Nowhere(), state)  # what cannot be kept is told before the training
        if _writes():
            _forget_cut(self.folder)
        for step, path in _complete(self.folder):
            kept = _read(path)
            if kept is not None:
                _fill(state, kept["state"], {})
                _set_random_states(kept["random"])
                self.done = step
                break
        self._last = time.monotonic()
        return self.done

    @property
    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._last >= (self.every and max(self.every, self._least))

    def keep(self, state: object) -> bool:
        """Say that a step is done; write a checkpoint if it is time. Tell whether it was.

        Raises
        ------
        KeyboardInterrupt
            The job was asked to end; the checkpoint is written.
        """
        self.done += 1
        due = self.is_due or notice.given
        if due:
            self.write(state)
        if notice.given:
            notice.obey()
        return due and self.folder is not None

    def write(self, state: object) -> None:
        """Write a checkpoint now.

        Raises
        ------
        OSError
            The disk is full, or the folder cannot be written.
        """
        if self.folder is None or not _writes():
            return
        began = time.monotonic()
        target = f"{self.folder}/{_NAME}{self.done:012}"
        if _note_of(target) is None:
            _write_aside(self.folder, target, self.done, state)
            _forget_all_but(self.folder, KEEP)
        self._last, self.wrote = time.monotonic(), True
        self._least = (self._last - began) / _SHARE


class _Notice:
    """Whether somebody has asked the job to end, while a loop comes to the end of its step."""

    def __init__(self) -> None:
        self.given = False
        self._loops = 0
        self._looked_at = self._until = 0.0

    def __enter__(self) -> None:
        self._loops += 1

    def __exit__(self, *_: object) -> None:
        self._loops -= 1

    def take(self) -> bool:
        """Note that somebody asks, unless nobody would look or it is the second time."""
        if self.given or not (self._loops or time.monotonic() < self._until):
            return False
        self.given = True
        return True

    def look_again(self) -> None:
        """Expect the next look of a loop that nothing brackets about as late as this one came."""
        now = time.monotonic()
        gap = now - self._looked_at if self._looked_at else 0.0
        self._looked_at, self._until = now, max(self._until, now + 2 * gap + 1)

    def obey(self) -> None:
        """End the loop as an interrupted cell is ended."""
        self.given = False
        from submarine_runtime.failure import ASKED_TO_END  # noqa: PLC0415 - only where it comes to it

        raise KeyboardInterrupt(ASKED_TO_END)


notice = _Notice()


def steps(
    total: int,
    state: object,
    folder: str | None,
    every: float,
    say: Callable[[float], None],
) -> Iterator[int]:
    """Yield the steps that are left, see `submarine_runtime.job.steps`."""
    if isinstance(total, bool) or not isinstance(total, int) or total < 0:
        raise ValueError(f"steps({total!r}): give how many steps there are, a whole number")
    loop = Loop(place_of_next(folder), every)
    first = loop.restore(state)
    with notice:
        for step in range(first, total):
            yield step
            loop.keep(state)
            say((step + 1) / total)
    # Also of a short rest of a loop: a third attempt is not to go on from what the first has left.
    if total > first and (first or loop.wrote or loop.is_due):
        loop.write(state)  # what comes after the loop may fail, and is tried again without it


_own: Loop | None = None


def own_loop(folder: str | None, *, begins: bool, every: float = EVERY) -> Loop:
    """Return the loop of `submarine_runtime.job.restore` and ``checkpoint``.

    Parameters
    ----------
    begins
        Whether this is the beginning of another one.

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
        notice.look_again()
    return _own


def place_of_next(folder: str | None) -> str | None:
    """Return the folder of the next loop: of several in a script each has its own."""
    global _begun  # noqa: PLW0603 - of the process
    _begun += 1
    return folder if folder is None or _begun == 1 else f"{folder}/{_LOOP}{_begun}"


def latest(folder: str | None) -> str | None:
    """Return the newest complete checkpoint, see `submarine_runtime.job.latest_checkpoint`."""
    if folder is None:
        return None
    places = [folder]
    with suppress(FileNotFoundError):
        places += [f"{folder}/{one}" for one in os.listdir(folder) if one.startswith(_LOOP)]  # noqa: PTH208
    newest = [path for place in places for _, path in list(_complete(place))[:1]]
    return max(newest, key=lambda path: os.stat(path).st_mtime_ns, default=None)  # noqa: PTH116


# The files of a checkpoint.


def _complete(folder: str) -> Iterator[tuple[int, str]]:
    """Yield the steps and folders of the complete checkpoints, the newest first."""
    names = []
    with suppress(FileNotFoundError):
        names = os.listdir(folder)  # noqa: PTH208 - as above
    for name in sorted(names, reverse=True):
        number = name[len(_NAME) :]
        if name.startswith(_NAME) and number.isascii() and number.isdigit():
            path = f"{folder}/{name}"
            with suppress(FileNotFoundError):
                _expect_own(os.stat(path).st_uid, path)  # noqa: PTH116 - as above
            if _note_of(path) is not None:
                yield int(number), path


def _expect_own(owner: int, path: str) -> None:
    """Refuse a checkpoint with what another user has put there: whoever loads a pickle runs it.

    Raises
    ------
    PermissionError
        It is another user's.
    """
    if owner not in (0, os.geteuid()) and owner != _owner_in(os.path.dirname(path)):  # noqa: PTH120 - as above
        raise PermissionError(
            f"{path} belongs to user {owner}, and to load a checkpoint is to run what is in it: "
            "give another --checkpoint_path, or a copy of it where you trust it"
        )


def _owner_in(folder: str) -> int:
    """Return whose the files are that this process makes there.

    A file system may have another name for a user, as NFS has for root.
    """
    probe = f"{folder}/.{_NAME}{os.urandom(6).hex()}"
    try:
        os.mkdir(probe, 0o700)  # noqa: PTH102 - as above
        owner = os.stat(probe).st_uid  # noqa: PTH116 - likewise
        os.rmdir(probe)  # noqa: PTH106 - likewise
    except OSError:
        return -1
    return owner


def _note_of(path: str) -> dict[str, Any] | None:
    """Return what a checkpoint says of itself; None where it is not complete."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        with open(f"{path}/{_NOTE}", encoding="ascii") as file:  # noqa: PTH123 - as above
            told: dict[str, Any] = lean.loads(file.read())
        if told["version"] == _VERSION and os.stat(f"{path}/{_STATE}").st_size == told["size"]:  # noqa: PTH116
            return told
    return None


def _write_aside(folder: str, target: str, step: int, state: object) -> None:
    shutil = standard("shutil", "")
    os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103 - as above
    # Another job may write the same step there, from another machine.
    aside = f"{folder}/.{os.path.basename(target)}.{os.urandom(6).hex()}{_ASIDE}"  # noqa: PTH119 - as above
    lease = -1
    try:
        os.mkdir(aside, 0o700)  # noqa: PTH102 - as above
        with _File(f"{aside}/{_STATE}") as file:
            lease = file.lease()
            _write(file, state)
        told = {"version": _VERSION, "step": step, "size": file.size, "sum": file.sum}
        with _File(f"{aside}/{_NOTE}") as note:
            note.write(lean.dumps(told).encode())
        # One that says otherwise of itself lies there: this one is of the same step.
        shutil.rmtree(target, ignore_errors=True)
        with suppress(OSError):
            os.unlink(target)  # noqa: PTH108 - as above
        try:
            os.rename(aside, target)  # noqa: PTH104 - as above
        except OSError:
            if _note_of(target) is None:
                raise
            shutil.rmtree(aside, ignore_errors=True)  # another job has been faster
        _sync(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    finally:
        if lease >= 0:
            os.close(lease)


def _forget_all_but(folder: str, count: int) -> None:
    for _, path in list(_complete(folder))[count:]:
        # Renamed first: of one that a kill leaves half removed, nobody would see what is left.
        aside = f"{folder}/.{os.path.basename(path)}.{os.urandom(6).hex()}{_ASIDE}"  # noqa: PTH119 - as above
        with suppress(OSError):
            os.rename(path, aside)  # noqa: PTH104 - as above
            standard("shutil", "").rmtree(aside, ignore_errors=True)


def _forget_cut(folder: str) -> None:
    """Remove what a former attempt was killed at."""
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):  # noqa: PTH208 - as above
            path = f"{folder}/{name}"
            if name.startswith(f".{_NAME}") and name.endswith(_ASIDE) and not _is_leased(path):
                standard("shutil", "").rmtree(path, ignore_errors=True)


def _is_leased(aside: str) -> bool:
    """Tell whether somebody writes a checkpoint now: another job of the same path."""
    try:
        descriptor = os.open(f"{aside}/{_STATE}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # just made, and empty: no matter if nobody goes on
        return True
    fcntl = standard("fcntl", "")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        return memoryview(data).nbytes


class _File:
    """A new file that counts and sums what is written, and is on the disk when it is closed."""

    def __init__(self, path: str) -> None:
        self.size = self.sum = 0
        self._crc32 = standard("zlib", "").crc32
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = open(descriptor, "wb")  # noqa: PTH123, SIM115 - closed below

    def __enter__(self) -> _File:  # noqa: PYI034 - typing takes long to import
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def lease(self) -> int:
        """Return a descriptor that says, as long as it is open, that somebody writes here."""
        fcntl = standard("fcntl", "")
        held = os.dup(self._file.fileno())
        with suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return held

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        self.sum = self._crc32(data, self.sum)
        count = self._file.write(data)
        self.size += count
        return count


def _read(path: str) -> dict[str, Any] | None:
    """Return what was kept; None, with a word on stderr, where the disk has lost a part of it."""
    told = _note_of(path)
    crc32, found = standard("zlib", "").crc32, 0
    try:
        with open(f"{path}/{_STATE}", "rb") as file:  # noqa: PTH123 - as above
            _expect_own(os.fstat(file.fileno()).st_uid, path)
            while piece := file.read(_PIECE):
                found = crc32(piece, found)
            if told is not None and found == told["sum"]:
                file.seek(0)
                kept: dict[str, Any] = standard("pickle", "").load(file)
                return kept
    except PermissionError:
        raise
    except OSError as error:
        sys.stderr.write(f"submarine: the checkpoint {path} cannot be read: {error.strerror}\n")
        return None
    sys.stderr.write(f"submarine: the checkpoint {path} is damaged; taking the one before it\n")
    return None


# What is kept of a state, and how it comes back into the loop's own objects.


def _write(file: Any, state: object) -> None:  # noqa: ANN401 - a file
    pickle = standard("pickle", "")

    class Pickler(pickle.Pickler):  # type: ignore[misc, name-defined]
        def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
            for does, give, _ in _WAYS:
                if does(obj):
                    return _Kept, (give(obj),)
            return _reduced(obj) if _is_tensor(obj) else NotImplemented

    try:
        Pickler(file, protocol=5).dump({"state": state, "random": _random_states()})
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(
            f"the state cannot be kept in a checkpoint: {error}; leave out what cannot be pickled"
        ) from error


class _Kept:
    """What a checkpoint holds in place of an object that gives its state itself."""

    def __init__(self, state: object) -> None:
        self.state = state


def _has(*names: str) -> Callable[[object], bool]:
    def has(obj: object) -> bool:
        return not isinstance(obj, type) and all(
            callable(getattr(type(obj), name, None)) for name in names
        )

    return has


def _keras_state(model: Any) -> dict[str, Any]:  # noqa: ANN401 - a model of Keras
    return {"weights": model.get_weights(), "optimizer": [v.numpy() for v in _variables(model)]}


def _set_keras_state(model: Any, state: dict[str, Any]) -> None:  # noqa: ANN401 - likewise
    model.set_weights(state["weights"])
    optimizer = getattr(model, "optimizer", None)
    if state["optimizer"] and optimizer is not None and not getattr(optimizer, "built", True):
        optimizer.build(model.trainable_variables)
    for variable, value in zip(_variables(model), state["optimizer"], strict=False):
        variable.assign(value)


def _variables(model: Any) -> list[Any]:  # noqa: ANN401 - likewise
    """Return the variables of a model's optimizer: a list in Keras 3, a method before."""
    found = getattr(getattr(model, "optimizer", None), "variables", ())
    return list(found() if callable(found) else found)


def _is_random(obj: object) -> bool:
    return type(obj).__module__ == "random" and callable(getattr(type(obj), "setstate", None))


_WAYS: tuple[tuple[Callable[[object], bool], Callable[[Any], Any], Callable[[Any, Any], Any]], ...]
_WAYS = (
    # torch's modules, optimizers and schedulers, and all that do as they do
    (
        _has("state_dict", "load_state_dict"),
        lambda obj: obj.state_dict(),
        lambda obj, state: obj.load_state_dict(state),
    ),
    (_has("get_weights", "set_weights", "fit"), _keras_state, _set_keras_state),
    # torch.Generator, and numpy's RandomState
    (
        _has("get_state", "set_state"),
        lambda obj: obj.get_state(),
        lambda obj, state: obj.set_state(state),
    ),
    (
        _is_random,
        lambda obj: obj.getstate(),
        lambda obj, state: obj.setstate(state),
    ),
    # numpy's Generator
    (
        lambda obj: not isinstance(obj, type) and hasattr(type(obj), "bit_generator"),
        lambda obj: obj.bit_generator.state,
        lambda obj, state: setattr(obj.bit_generator, "state", state),
    ),
)
"""Objects that give their state and take it: which, how they give it, how they take it."""


def _is_filled_in_place(obj: object) -> bool:
    return (
        isinstance(obj, (dict, list))
        or any(does(obj) for does, _, _ in _WAYS)
        or _is_array(obj)
        or (hasattr(obj, "__dict__") and not isinstance(obj, _FUNCTIONS))
    )


def _is_array(obj: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(obj, numpy.ndarray)


def _is_tensor(obj: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def _reduced(tensor: Any) -> Any:  # noqa: ANN401 - a tensor of torch
    """Reduce a tensor to an array of its bytes: torch's own way copies it twice."""
    torch = sys.modules["torch"]
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_quantized
    if not plain or tensor.layout is not torch.strided or tensor.dtype is torch.bool:
        return NotImplemented
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    is_parameter = type(tensor) is torch.nn.Parameter
    kind = str(tensor.dtype).rpartition(".")[2]
    return _tensor, (flat, kind, tuple(tensor.shape), tensor.requires_grad, is_parameter)


def _tensor(flat: Any, kind: str, shape: Any, needs_grad: bool, is_parameter: bool) -> Any:  # noqa: ANN401, FBT001 - as `_reduced` has it
    torch = __import__("torch")
    tensor = torch.from_numpy(flat).view(getattr(torch, kind)).reshape(shape)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad=needs_grad)
    return tensor.requires_grad_() if needs_grad else tensor


def _kind(obj: object) -> str:
    return "nothing" if obj is None else f"of type {type(obj).__qualname__}"


def _fill(obj: Any, kept: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401 - any value
    """Return `obj` with what was kept of it in it; what was kept where `obj` is no such object.

    Parameters
    ----------
    seen
        What became of each object that was kept: an object twice in a state is one afterwards, too.
    """
    if id(kept) not in seen:
        if isinstance(kept, _Kept):
            seen[id(kept)] = _give_back(obj, kept.state)
        elif type(obj) is not type(kept):
            seen[id(kept)] = _refuse(obj) if _holds_kept(kept) else kept
        else:
            fill = next((fill for is_one, fill in _FILLS if is_one(kept)), _fill_object)
            seen[id(kept)] = obj  # before what it holds, which may hold it
            seen[id(kept)] = fill(obj, kept, seen)
    return seen[id(kept)]


def _give_back(obj: Any, state: Any) -> Any:  # noqa: ANN401 - as `_fill`, like those below
    for does, _, take in _WAYS:
        if does(obj):
            take(obj, state)
            return obj
    raise TypeError(f"a checkpoint holds the state of an object that is now {_kind(obj)}")


def _fill_dict(obj: Any, kept: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    filled = {key: _fill(obj.get(key), value, seen) for key, value in kept.items()}
    obj.clear()
    obj.update(filled)
    return obj


def _filled_items(obj: Any, kept: Any, seen: dict[int, Any]) -> list[Any]:  # noqa: ANN401
    olds = [*obj, *[None] * (len(kept) - len(obj))]
    return [_fill(old, value, seen) for old, value in zip(olds, kept, strict=False)]


def _fill_list(obj: Any, kept: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    obj[:] = _filled_items(obj, kept, seen)
    return obj


def _fill_tuple(obj: Any, kept: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    items = _filled_items(obj, kept, seen)
    return type(kept)(*items) if hasattr(kept, "_fields") else type(kept)(items)


def _fill_array(obj: Any, kept: Any, _: dict[int, Any]) -> Any:  # noqa: ANN401
    if obj.shape != kept.shape or obj.dtype != kept.dtype or not obj.flags.writeable:
        return kept
    obj[...] = kept
    return obj


def _fill_tensor(obj: Any, kept: Any, _: dict[int, Any]) -> Any:  # noqa: ANN401
    if obj.shape != kept.shape or obj.dtype != kept.dtype:
        return kept
    with sys.modules["torch"].no_grad():
        obj.copy_(kept)
    return obj


def _fill_object(obj: Any, kept: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    slots = standard("copyreg", "")._slotnames(type(kept))  # noqa: SLF001 - as pickle has it
    if isinstance(kept, _FUNCTIONS) or not (slots or hasattr(kept, "__dict__")):
        return kept
    for name in slots:
        if hasattr(kept, name):
            value = _fill(getattr(obj, name, None), getattr(kept, name), seen)
            object.__setattr__(obj, name, value)
    if hasattr(kept, "__dict__"):
        _fill_dict(vars(obj), vars(kept), seen)
    return obj


_FILLS: tuple[tuple[Callable[[object], bool], Callable[[Any, Any, dict[int, Any]], Any]], ...]
_FILLS = (
    (lambda obj: isinstance(obj, dict), _fill_dict),
    (lambda obj: isinstance(obj, list), _fill_list),
    (lambda obj: isinstance(obj, tuple), _fill_tuple),
    (_is_array, _fill_array),
    (_is_tensor, _fill_tensor),
)


def _holds_kept(value: object, depth: int = 3) -> bool:
    if isinstance(value, _Kept):
        return True
    inside: Any = value.values() if isinstance(value, dict) else value
    if depth and isinstance(value, (dict, list, tuple)):
        return any(_holds_kept(one, depth - 1) for one in inside)
    return False


def _refuse(obj: object) -> Any:  # noqa: ANN401 - as `_fill`
    raise TypeError(
        f"a checkpoint holds what is now {_kind(obj)}: make the same state as the run before, "
        "or give another --checkpoint_path"
    )


# The random states that are nobody's object.


def _random_states() -> dict[str, Any]:
    found: dict[str, Any] = {}
    if random := sys.modules.get("random"):
        found["random"] = random.getstate()
    if numpy := sys.modules.get("numpy.random"):
        found["numpy"] = numpy.get_state()
    if torch := sys.modules.get("torch"):
        found["torch"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            found["torch.cuda"] = torch.cuda.get_rng_state_all()
    return found


def _set_random_states(kept: dict[str, Any]) -> None:
    if state := kept.get("random"):
        standard("random", "").setstate(state)
    if state := kept.get("numpy"):
        __import__("numpy.random")
        sys.modules["numpy.random"].set_state(state)
    if "torch" in kept:
        torch = __import__("torch")
        torch.set_rng_state(kept["torch"])
        states = kept.get("torch.cuda")
        if states and len(states) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(states)


def _writes() -> bool:
    """Tell whether this process writes: of several ranks the first, which all have one state.

    What serves the ranks runs the same script, as TensorFlow has it, and has a state of its own.
    """
    if os.environ.get("SUBMARINE_TASK", "").rpartition("-")[0] in _SERVING:
        return False
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK"))
