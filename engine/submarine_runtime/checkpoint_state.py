"""Takes the state of a training's objects for a checkpoint, and puts it back into the same objects.

`checkpoints` uses it. What has a ``state_dict`` gives its state and takes it; arrays, tensors,
dicts, lists and objects are filled in place; anything else is put into what holds it. Besides it
keeps the random states that are nobody's object: those of `random`, numpy and torch.
"""

from __future__ import annotations

import sys

from submarine_runtime.lean import standard

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    _Way = tuple[Callable[[object], bool], Callable[[Any], Any], Callable[[Any, Any], Any]]

_FUNCTIONS = (type, type(lambda: None), type(len), type(sys))


class Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Return how many bytes `data` has."""
        return memoryview(data).nbytes


def write(file: Any, kept: dict[str, Any]) -> None:  # noqa: ANN401 - a file
    """Pickle `kept`, what a checkpoint keeps, into the open `file`.

    Raises
    ------
    TypeError
        Something in it cannot be kept.
    """
    pickle = standard("pickle", "")

    class Pickler(pickle.Pickler):  # type: ignore[misc, name-defined]
        def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
            for does, give, _ in _WAYS:
                if does(obj):
                    return _Kept, (give(obj),)
            return _reduced(obj) if _is_tensor(obj) else NotImplemented

    try:
        Pickler(file, protocol=5).dump(kept)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(
            f"the state cannot be kept in a checkpoint: {error}; leave out what cannot be pickled"
        ) from error


def expect_keepable(state: object) -> None:
    """Refuse what no checkpoint can bring back.

    Raises
    ------
    TypeError
        `state` cannot be changed in place, or cannot be pickled.
    """
    if not _is_filled_in_place(state):
        raise TypeError(
            f"the state is {_kind(state)}, which cannot be changed in place: "
            'give a dict, such as {"model": model, "history": history}'
        )
    write(Nowhere(), {"state": state})


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


def _set_booster(booster: Any, state: dict[str, Any]) -> None:  # noqa: ANN401 - of XGBoost
    # Its own `load_model` forgets what the booster was told to train with.
    booster.__del__()
    booster.__setstate__(state)


def _variables(model: Any) -> list[Any]:  # noqa: ANN401 - likewise
    """Return the variables of a model's optimizer: a list in Keras 3, a method before."""
    found = getattr(getattr(model, "optimizer", None), "variables", ())
    return list(found() if callable(found) else found)


def _is_random(obj: object) -> bool:
    return type(obj).__module__ == "random" and callable(getattr(type(obj), "setstate", None))


_GENERATORS: tuple[_Way, ...] = (
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
"""Generators of random numbers, of which each rank has its own."""


def _flax() -> Any:  # noqa: ANN401 - a module
    return sys.modules["flax.serialization"]


_WAYS: tuple[_Way, ...] = (
    # torch's modules, optimizers and schedulers, and all that do as they do
    (
        _has("state_dict", "load_state_dict"),
        lambda obj: obj.state_dict(),
        lambda obj, state: obj.load_state_dict(state),
    ),
    (_has("get_weights", "set_weights", "fit"), _keras_state, _set_keras_state),
    # XGBoost's Booster is a handle: filled as an object, two would own the same memory
    (_has("save_raw", "load_model", "update"), lambda obj: obj.__getstate__(), _set_booster),
    # flax's dataclasses, such as TrainState: the functions in them stay those of the script
    (
        lambda obj: not isinstance(obj, type) and hasattr(type(obj), "_flax_dataclass"),
        lambda obj: _flax().to_state_dict(obj),
        lambda obj, state: obj.__dict__.update(_flax().from_state_dict(obj, state).__dict__),
    ),
    *_GENERATORS,
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


def fill(obj: Any, kept: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401 - any value
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
            fill_in = next((how for is_one, how in _FILLS if is_one(kept)), _fill_object)
            seen[id(kept)] = obj  # before what it holds, which may hold it
            seen[id(kept)] = fill_in(obj, kept, seen)
    return seen[id(kept)]


def _give_back(obj: Any, state: Any) -> Any:  # noqa: ANN401 - as `fill`, like those below
    for does, _, take in _WAYS:
        if does(obj):
            take(obj, state)
            return obj
    raise TypeError(f"a checkpoint holds the state of an object that is now {_kind(obj)}")


def _fill_dict(obj: Any, kept: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    filled = {key: fill(obj.get(key), value, seen) for key, value in kept.items()}
    obj.clear()
    obj.update(filled)
    return obj


def _filled_items(obj: Any, kept: Any, seen: dict[int, Any]) -> list[Any]:  # noqa: ANN401
    olds = [*obj, *[None] * (len(kept) - len(obj))]
    return [fill(old, value, seen) for old, value in zip(olds, kept, strict=False)]


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
            value = fill(getattr(obj, name, None), getattr(kept, name), seen)
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


def _refuse(obj: object) -> Any:  # noqa: ANN401 - as `fill`
    raise TypeError(
        f"a checkpoint holds what is now {_kind(obj)}: make the same state as the run before, "
        "or give another --checkpoint_path"
    )


# The generators of random numbers that a state holds: ranks that share all else draw others.


def generators_in(state: object) -> list[Any]:
    """Return the generators of random numbers in a state, always in the same order."""
    pickle = standard("pickle", "")
    found: list[Any] = []

    class Finder(pickle.Pickler):  # type: ignore[misc, name-defined]
        def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
            if any(does(obj) for does, _, _ in _GENERATORS):
                found.append(obj)
            elif not (
                any(does(obj) for does, _, _ in _WAYS)
                or _is_tensor(obj)
                or (not isinstance(obj, type) and hasattr(type(obj), "__array__"))
            ):
                return NotImplemented
            return _nothing, ()

    Finder(Nowhere(), protocol=5).dump(state)
    return found


def _nothing() -> None:
    """Stand for what is not looked into."""


def states_of(generators: list[Any]) -> list[Any]:
    """Return what the generators are to be set to."""
    return [next(give(one) for does, give, _ in _GENERATORS if does(one)) for one in generators]


def set_states(generators: list[Any], states: list[Any]) -> None:
    """Put `states`, as `states_of` has returned them, back into the same `generators`."""
    for one, state in zip(generators, states, strict=False):
        next(take for does, _, take in _GENERATORS if does(one))(one, state)


def seed_all(generators: list[Any], seed: int) -> None:
    """Let generators, and those that are nobody's object, begin with numbers of their own.

    Parameters
    ----------
    seed
        Below 2**32.
    """
    for number, one in enumerate(generators, 1):
        own = (seed + number) % 2**32
        if hasattr(type(one), "bit_generator"):
            one.bit_generator.state = type(one.bit_generator)(own).state
        elif hasattr(type(one), "manual_seed"):
            one.manual_seed(own)
        elif hasattr(type(one), "seed"):
            one.seed(own)
    standard("random", "").seed(seed)
    if numpy := sys.modules.get("numpy.random"):
        numpy.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


# The random states that are nobody's object.


def random_states() -> dict[str, Any]:
    """Return those of the modules that are loaded."""
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


def set_random_states(kept: dict[str, Any]) -> None:
    """Put back `kept`, which `random_states` has returned."""
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
