"""Pickles what pickle itself would lose: tensors, optimizers, exceptions of well-known packages.

Both sides use it, the notebook's (`submarine_engine.bundle.pickling`) and the job's (`home`).
Tensors keep their gradients, their hooks and the memory that they share, and go through the host's
memory from one GPU to another; optimizers keep their hooks; what a package has once for its whole
process stays that of the process. No package is imported here: where it is not loaded, there are
none of its objects.
"""

from __future__ import annotations

import functools
import operator
import pickle
import sys
import warnings
import weakref

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
    from typing import Any

_OF_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE

ROOTS = ("torch", "accelerate", "keras", "tensorflow", "lightgbm", "fastcore")
"""Packages whose objects are meant: without one of them there is nothing to do."""


def reduced(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Return how to pickle `obj`; ``NotImplemented`` where pickle knows by itself."""
    kind: Any = type(obj)
    reducer: Any = _of(kind, "reduce")
    return NotImplemented if reducer is None else reducer(obj)


def state_of(obj: Any) -> tuple[str, Any] | None:  # noqa: ANN401 - each kind has its own
    """Return what `obj` holds now, and how the original takes it in; None for all else."""
    kind: Any = type(obj)
    state = _of(kind, "state")
    return None if state is None else state(obj)


@functools.lru_cache(maxsize=1024)
def _of(kind: Hashable, what: str) -> Callable[[Any], Any] | None:
    table = _REDUCERS if what == "reduce" else _STATES
    for base in kind.__mro__:  # type: ignore[attr-defined]  # lru_cache takes what is hashable
        found = table.get(f"{base.__module__}.{base.__qualname__}")
        if found:
            return found
    return _past_new if what == "reduce" and _has_a_new(kind) else None


def _has_a_new(kind: Any) -> bool:  # noqa: ANN401 - a class
    """Return whether a class of the notebook makes its objects itself, and pickle by what it does.

    To load one would be to make one more: its counter would count it.
    """

    def first(*names: str) -> Any:  # noqa: ANN401 - likewise
        return next(base for base in kind.__mro__ if any(name in vars(base) for name in names))

    ways = ("__reduce__", "__reduce_ex__"), ("__getnewargs__", "__getnewargs_ex__", "__new__")
    if (
        vars(first("__new__")).get("__module__") != "__main__"
        or first(*ways[0]).__flags__ & _OF_PYTHON
    ):
        return False
    return not any(name in vars(first(*ways[1])) for name in ways[1][:2])


def _past_new(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    found = obj.__reduce_ex__(5)
    if getattr(found[0], "__name__", "") != "__newobj__":
        return NotImplemented
    return make_object, *found[1:]


def make_object(kind: Any, *args: object) -> Any:  # noqa: ANN401 - a class, and one of it
    """Return an object of `kind`, made of `args` as Python's own class above it does."""
    python = next(base for base in kind.__mro__ if not base.__flags__ & _OF_PYTHON)
    return python.__new__(kind, *args)


class Made:
    """Is pickled as a call, made where the pickle is loaded: a step in making an object.

    Parameters
    ----------
    function, *args
        What is called there, and with what.
    """

    def __init__(self, function: Callable[..., object], *args: object) -> None:
        self._call = function, args

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Be loaded as what the call gives."""
        return self._call


class _Content:
    """Is pickled as a storage's content alone: the storage itself is on the other side."""

    def __init__(self, storage: Any) -> None:  # noqa: ANN401 - of torch
        self._storage = storage

    def __reduce__(self) -> Any:  # noqa: ANN401 - as pickle's reducers
        found = _storage(self._storage)
        return self._storage.__reduce__() if found is NotImplemented else found


# torch


def _tensor(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce a tensor with its gradient and hooks; a graph that led to it cannot be carried."""
    graph, plain = graph_of(obj), obj
    beside = _attached(obj)
    if graph:
        plain = obj.detach()
        beside = {**{name: held for name, held in vars(obj).items() if held is not None}, **beside}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that hooks were left out: they are not
        found = plain.__reduce_ex__(5)
    if graph:
        return *found, (graph, beside), None, None, take_computed
    if not beside:
        return found
    torch: Any = sys.modules["torch"]
    return *found, beside, None, None, torch._utils._set_obj_state  # noqa: SLF001 - as torch does


def _attached(obj: Any) -> dict[str, Any]:  # noqa: ANN401 - a tensor
    """Return what hangs on a tensor, and is no part of torch's own pickles."""
    held = obj.grad if obj.is_leaf or obj.retains_grad else None
    found = {"grad": held, "_backward_hooks": obj._backward_hooks}  # noqa: SLF001 - torch has no other way
    return {name: held for name, held in found.items() if held is not None}


def graph_of(obj: Any) -> str:  # noqa: ANN401 - a tensor
    """Return what torch calls the operation that computed the tensor `obj`; empty if none did."""
    node = obj.grad_fn
    if node is None:
        return ""
    name = type(node).__name__
    return node.name().rpartition("::")[2] if name == "CppFunction" else name


def take_computed(obj: Any, state: tuple[str, dict[str, Any]]) -> None:  # noqa: ANN401 - a tensor
    """Fill a tensor that operations computed, which are not here.

    Parameters
    ----------
    obj
        The tensor; it has its values already.
    state
        The operation as `graph_of` names it, and by name all else that the tensor has.
    """
    graph, beside = state
    cut_off(obj, graph)
    if "grad" in beside:
        obj.retain_grad()
    sys.modules["torch"]._utils._set_obj_state(obj, beside)  # noqa: SLF001 - as torch does


def cut_off(obj: Any, graph: str) -> None:  # noqa: ANN401 - a tensor
    """Let a tensor have a graph that cannot be gone through.

    Its values can be used as ever; only who asks for gradients through it is told, where a tensor
    without a graph would leave out its part of them and say nothing.

    Parameters
    ----------
    obj
        The tensor.
    graph
        The operation that computed it, as `graph_of` names it.
    """
    torch: Any = sys.modules["torch"]
    words = (
        f"a tensor of shape {tuple(obj.shape)} ({graph}) came here from another process, without "
        "the operations that computed it: no gradient goes through it. "
        "Compute it in the cell that calls backward(), or use its .detach()"
    )

    class Computed(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, value: Any, _: Any) -> Any:  # noqa: ANN401 - as torch has it
            ctx.mark_dirty(value)
            return value

        @staticmethod
        def backward(_ctx: Any, *_: Any) -> Any:  # noqa: ANN401 - as torch has it
            raise RuntimeError(words)

    node = Computed._backward_cls  # noqa: SLF001 - a tensor is shown with the name of its class
    node.__name__, node.from_elsewhere = graph, True
    with torch.enable_grad():
        Computed.apply(obj, torch.empty(0, device="cpu", requires_grad=True))


def _storage(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce a tensor's memory as one block; that of a GPU goes to the GPU that there is."""
    torch: Any = sys.modules["torch"]
    kind = obj.device.type
    if kind not in ("cpu", "cuda") or not _with_numpy():
        return NotImplemented
    here = obj if kind == "cpu" else obj.cpu()
    if here.nbytes():
        block = pickle.PickleBuffer(bytes_in(here))
        view = Made(functools.partial(torch.frombuffer, dtype=torch.uint8), block)
        made: tuple[Any, ...] = torch.Tensor.untyped_storage, (view,)
    else:
        made = torch.UntypedStorage, (0,)
    if kind == "cpu":
        return made
    there = Made(operator.getitem, ("cpu", "cuda"), Made(torch.cuda.is_available))
    move = functools.partial(torch.UntypedStorage.to, device=there)
    return move, (Made(made[0], *made[1]),)


def bytes_in(storage: Any) -> Any:  # noqa: ANN401 - of torch; an array of numpy
    """Return the memory of a storage in the host's memory, byte by byte and without a copy."""
    torch: Any = sys.modules["torch"]
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage).numpy()


def _typed_storage(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce the name that torch's pickles have for a storage and its type of numbers."""
    kind: Any = type(obj)
    held = {"wrap_storage": obj._untyped_storage, "dtype": obj.dtype, "_internal": True}  # noqa: SLF001 - as torch
    return functools.partial(kind, **held), ()


def _optimizer(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce an optimizer with its hooks, and with a scheduler's watch on its steps."""
    state = {**vars(obj), **obj.__getstate__()}
    if hasattr(state.get("step"), "_wrapped_by_lr_sched"):
        state["step"] = None  # it holds the optimizer weakly: made again where it is loaded
    return (*obj.__reduce_ex__(5)[:2], state, None, None, take_optimizer)


def take_optimizer(obj: Any, state: dict[str, Any]) -> None:  # noqa: ANN401 - of torch
    """Fill an optimizer, new or the notebook's own.

    Parameters
    ----------
    obj
        The optimizer.
    state
        Its attributes by name; ``step`` is None where a scheduler watches its steps.
    """
    watched = "step" in state and state.pop("step") is None
    obj.__setstate__(state)
    if watched and not hasattr(obj.step, "_wrapped_by_lr_sched"):
        obj.step = _watched(weakref.ref(obj), obj.step.__func__)


def _watched(optimizer: Callable[[], Any], function: Any) -> Any:  # noqa: ANN401 - a method
    """Return a step that notes that it was called, for schedulers to look at."""

    @functools.wraps(function)
    def step(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the optimizer's own
        owner = optimizer()
        owner._opt_called = True  # noqa: SLF001 - as torch's schedulers do
        return function.__get__(owner, type(owner))(*args, **options)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # noqa: SLF001 - likewise
    return step


def _with_state(obj: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:  # noqa: ANN401
    found = obj.__reduce_ex__(5)
    if not isinstance(found, tuple) or len(found) < 3 or not isinstance(found[2], dict):  # noqa: PLR2004 - (make, arguments, state, …)
        return NotImplemented
    return *found[:2], change(found[2]), *found[3:]


def _state_of_tensor(obj: Any) -> tuple[str, Any]:  # noqa: ANN401 - of torch
    attributes = {name: held for name, held in vars(obj).items() if held is not None}
    as_it_came = getattr(type(obj.grad_fn), "from_elsewhere", False)
    graph = None if as_it_came else graph_of(obj)
    return "tensor", (
        obj.detach(), obj.requires_grad and obj.is_leaf, attributes, _attached(obj), graph,
    )  # fmt: skip


@functools.cache
def _with_numpy() -> bool:
    """Return whether torch can show its memory: it can be installed without numpy."""
    try:
        sys.modules["torch"].empty(0, device="cpu").numpy()
    except RuntimeError:
        return False
    return True


def _state_of_storage(obj: Any) -> tuple[str, Any]:  # noqa: ANN401 - of torch
    there = obj.device.type in ("cpu", "cuda")
    return ("storage", _Content(obj)) if there else ("", None)


def _stateless(_obj: object) -> tuple[str, Any]:
    """Return that an object has nothing of its own: the notebook's stays as it is."""
    return "", None


# Lightning, accelerate


def _lightning_module(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce a module with its trainer, which Lightning leaves out for its own checkpoints."""
    trainer = vars(obj).get("_trainer")
    if trainer is None:
        return NotImplemented
    return _with_state(obj, lambda state: {**state, "_trainer": trainer})


def _shared(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce one of accelerate's states, which all instances of a class in a process share."""
    return shared, (type(obj),), dict(vars(obj)), None, None, take_shared


def shared(kind: Any) -> Any:  # noqa: ANN401 - a class of accelerate
    """Return an instance of `kind` that shares its state with all others."""
    obj = object.__new__(kind)
    obj.__dict__ = kind._shared_state  # noqa: SLF001 - as its own __init__ does
    return obj


def take_shared(obj: Any, state: Mapping[str, Any]) -> None:  # noqa: ANN401 - as above
    """Fill the shared state; one process computes where it can, unless it is told the CPU.

    Parameters
    ----------
    obj
        Any instance that shares the state.
    state
        Attributes by name, as they were where it comes from.
    """
    vars(obj).update(state)
    torch: Any = sys.modules["torch"]
    device = state.get("device")
    if getattr(device, "type", "") in ("cpu", "cuda") and state.get("num_processes") == 1:
        cuda = not state.get("_cpu") and torch.cuda.is_available()
        if cuda != (device.type == "cuda"):  # type: ignore[union-attr]
            vars(obj)["device"] = torch.device("cuda", 0) if cuda else torch.device("cpu")


# Keras, TensorFlow


def _keras(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce a model, layer, metric or optimizer as the object that it is.

    Keras' own pickles are archives: made anew from a configuration, they would part from all that
    the notebook has of the object, and a class of the notebook would not be found again.
    """
    state = {name: held for name, held in vars(obj).items() if name not in _MADE_WITH_IT}
    state.update((name, None) for name in _COMPILED if name in state)
    if "_trainable_variables_indices" in state:
        state["_trainable_variables_indices"] = Indices(obj)
    if "_nodes_by_depth" in state and "_nodes" in state:
        state["_nodes"] = Nodes(obj)
    return _new, (type(obj),), state, None, None, take_attributes


_MADE_WITH_IT = ("build", "quantize")
_COMPILED = ("train_function", "test_function", "predict_function")


def _new(kind: Any) -> Any:  # noqa: ANN401 - a class, and what it makes
    return kind.__new__(kind)


def take_attributes(obj: Any, state: Mapping[str, Any]) -> None:  # noqa: ANN401 - the user's own
    """Set attributes where they are kept, past what a class does when one is set.

    Parameters
    ----------
    obj
        What is to have them.
    state
        The attributes by name.
    """
    vars(obj).update(state)


def _tracked(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce a list, dict or set that tells a tracker what is put into it."""
    plain = next(base for base in (list, dict, set) if isinstance(obj, base))
    return _new, (type(obj),), (plain(obj), obj.tracker), None, None, take_tracked


def take_tracked(obj: Any, state: tuple[Any, Any]) -> None:  # noqa: ANN401 - as above
    """Fill a tracked list, dict or set; what is in it is tracked already.

    Parameters
    ----------
    obj
        The list, dict or set.
    state
        A plain one with what is to be in it, and its tracker.
    """
    items, tracker = state
    obj.tracker = None
    obj.clear()
    obj.extend(items) if isinstance(obj, list) else obj.update(items)
    obj.tracker = tracker


def _tracker(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce a tracker without the addresses of what it has seen: here they mean nothing."""
    state = {name: held for name, held in vars(obj).items() if name != "stored_ids"}
    return _new, (type(obj),), state, None, None, take_tracker


def take_tracker(obj: Any, state: Mapping[str, Any]) -> None:  # noqa: ANN401 - of Keras
    """Fill a tracker, and let it look into its lists, which may still be filled.

    Parameters
    ----------
    obj
        The tracker.
    state
        Its attributes by name, without ``stored_ids``.
    """
    vars(obj).update(state)
    obj.stored_ids = {name: Addresses(obj, name) for name in obj.config}


class Addresses:
    """The addresses of what a tracker keeps in one of its lists, as a set has them.

    Parameters
    ----------
    tracker
        Keras's own.
    name
        Of the list, in the tracker's ``config``.
    """

    def __init__(self, tracker: Any, name: str) -> None:  # noqa: ANN401 - of Keras
        self._of = tracker, name

    def __iter__(self) -> Iterator[int]:
        tracker, name = self._of
        return map(id, tracker.config[name][1])

    def __contains__(self, address: object) -> bool:
        return any(address == one for one in self)

    def __len__(self) -> int:
        tracker, name = self._of
        return len(tracker.config[name][1])

    def add(self, address: int) -> None:
        """Do nothing for `address`: what is in the list is in here."""

    remove = discard = add


class Indices:
    """The place of each variable of an optimizer, by what its process calls the variable."""

    def __init__(self, optimizer: Any) -> None:  # noqa: ANN401 - of Keras
        self._optimizer = optimizer

    def _all(self) -> dict[Any, int]:
        optimizer = self._optimizer
        variables = optimizer._trainable_variables  # noqa: SLF001 - Keras has no other way
        return {optimizer._var_key(one): at for at, one in enumerate(variables)}  # noqa: SLF001 - likewise

    def __getitem__(self, key: Any) -> int:  # noqa: ANN401 - an address or a name
        return self._all()[key]

    def __setitem__(self, key: Any, place: int) -> None:  # noqa: ANN401 - as above
        """Do nothing: what is among the variables is in here."""

    def __contains__(self, key: object) -> bool:
        return key in self._all()

    def __len__(self) -> int:
        return len(self._all())


class Nodes:
    """What a model calls the nodes of its graph: by the addresses of their operations."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - of Keras
        self._model = model

    def __iter__(self) -> Iterator[str]:
        for nodes in self._model._nodes_by_depth.values():  # noqa: SLF001 - Keras has no other way
            for node in nodes:
                operation = node.operation
                yield f"{id(operation)}_ib-{operation._inbound_nodes.index(node)}"  # noqa: SLF001 - likewise

    def __contains__(self, key: object) -> bool:
        return any(key == one for one in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _wrapped_list(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    return list, (), None, iter(list(obj))


def _wrapped_dict(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    return dict, (), None, None, iter(list(obj.items()))


def _strategy(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce the strategy that there is where there is none."""
    return sys.modules[type(obj).__module__].get_strategy, ()


def _state_of_variable(obj: Any) -> tuple[str, Any]:  # noqa: ANN401 - of TensorFlow
    return "variable", obj.numpy()


# fastai


def _stateful(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce an object with all that it holds: its own pickles leave out what it has recorded."""
    return _new, (type(obj),), dict(vars(obj)), None, None, take_attributes


# LightGBM


def _state_of_dataset(obj: Any) -> tuple[str, Any]:  # noqa: ANN401 - of LightGBM
    """Return what was set on a data set: that of the notebook has the data, and bins it anew."""
    state = {name: held for name, held in vars(obj).items() if name in _SET_ON_DATASETS}
    return "some", (state, None, None, None)


_SET_ON_DATASETS = ("label", "weight", "group", "init_score", "position")


# pandas


def link_frames(objects: Iterable[object]) -> None:
    """Have frames, series and indexes that share memory know it: who writes copies first.

    pandas keeps that beside the memory, and does not pickle it. Without it what writes to a frame
    would change the columns that were taken from it.

    Parameters
    ----------
    objects
        Some are frames, or the blocks of frames; the rest is passed over.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not _copies_on_write(pandas):
        return
    block_type = pandas.core.internals.blocks.Block
    links: dict[int, Any] = {}
    for obj in objects:
        if issubclass(type(obj), (pandas.DataFrame, pandas.Series)):
            holders = list(getattr(getattr(obj, "_mgr", None), "blocks", ()))
        elif issubclass(type(obj), (block_type, pandas.Index)):
            holders = [obj]
        else:
            continue
        for holder in holders:
            _link(holder, links, is_index=not issubclass(type(holder), block_type))


def shared_arrays(objects: Iterable[object]) -> Iterator[tuple[int, Any]]:
    """Yield the ids of arrays that frames share until one is written to, each with its block.

    Parameters
    ----------
    objects
        Some are blocks of frames; the rest is passed over.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not _copies_on_write(pandas):
        return
    for obj in objects:
        if issubclass(type(obj), pandas.core.internals.blocks.Block) and obj.refs.has_reference():  # type: ignore[attr-defined]
            for array in _arrays_of(obj.values):  # type: ignore[attr-defined]
                yield id(array), obj


def unshared(block: Any) -> Iterator[tuple[object, object]]:  # noqa: ANN401 - of pandas
    """Give a block memory of its own; yield its arrays as they were and as they are."""
    before, block.values = block.values, block.values.copy()
    block.refs = type(block.refs)(block)
    yield from zip(_arrays_of(before), _arrays_of(block.values), strict=True)


def give_own(block: Any, owned: Mapping[int, tuple[object, object]]) -> None:  # noqa: ANN401 - anything
    """Let a block hold what `unshared` made, by the ids of what it made it of.

    Parameters
    ----------
    block
        Of a frame; anything else is left as it is.
    owned
        An array as it was, and as `unshared` made it, by the id of the former.
    """
    internals = getattr(sys.modules.get("pandas.core.internals"), "blocks", None)
    if internals is not None and issubclass(type(block), internals.Block):
        block.values = owned.get(id(block.values), (None, block.values))[1]


def _arrays_of(values: Any) -> list[Any]:  # noqa: ANN401 - arrays of numpy and pandas
    """Return an array and those that it is made of."""
    parts = [getattr(values, name, None) for name in ("_data", "_mask", "_ndarray")]
    kind = sys.modules["numpy"].ndarray
    return [values, *(part for part in parts if type(part) is kind)]


def _copies_on_write(pandas: Any) -> bool:  # noqa: ANN401 - the module
    """Return whether this pandas does: from 3 on always, in 2 where it is set to."""
    asked = getattr(pandas._config, "using_copy_on_write", None)  # noqa: SLF001 - as pandas asks
    return bool(asked()) if asked else int(pandas.__version__.partition(".")[0]) > 2  # noqa: PLR2004


def _link(holder: Any, links: dict[int, Any], *, is_index: bool) -> None:  # noqa: ANN401 - a block, an index
    memory = _memory_of_holder(holder._data if is_index else holder.values)  # noqa: SLF001
    name = "_references" if is_index else "refs"
    if memory is None or not hasattr(holder, name):  # pandas 1 copies, or shares without a word
        return
    refs = links.setdefault(id(memory), getattr(holder, name))
    if refs is None:
        del links[id(memory)]
    elif refs is not getattr(holder, name):
        setattr(holder, name, refs)
        (refs.add_index_reference if is_index else refs.add_reference)(holder)


def _memory_of_holder(values: Any) -> Any:  # noqa: ANN401 - arrays of numpy and pandas
    """Return the array of numpy that has the memory; None where it is elsewhere."""
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    for name in ("_data", "_ndarray"):
        if type(values) is not kind:
            values = getattr(values, name, values)
    if kind is None or type(values) is not kind:
        return None
    while type(values.base) is kind:
        values = values.base
    return values


# Exceptions


def _exception(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Reduce an exception with its cause, which pickle leaves out, and past its own constructor.

    That may take other arguments than those that it has handed on to `Exception`.
    """
    found = obj.__reduce_ex__(5)
    kind = type(obj)
    if not isinstance(found, tuple) or len(found) > 3:  # noqa: PLR2004 - as pickle has it
        return NotImplemented
    made, args, attributes = (*found, vars(obj))[:3]
    beside = obj.__cause__, obj.__context__, obj.__suppress_context__
    by = next(base for base in kind.__mro__ if "__reduce__" in vars(base))
    if made is kind and not by.__flags__ & _OF_PYTHON:
        made, args = make_exception, (kind, args)
    return made, args, (obj.args, attributes, beside), None, None, take_exception


def make_exception(kind: Any, args: tuple[object, ...]) -> Any:  # noqa: ANN401 - a class of them
    """Return an exception of `kind`, made of `args` as Python's own class above it does."""
    obj = kind.__new__(kind, *args)
    python = next(base for base in kind.__mro__ if not base.__flags__ & _OF_PYTHON)
    python.__init__(obj, *args)
    return obj


def take_exception(obj: Any, state: tuple[Any, ...]) -> None:  # noqa: ANN401 - an exception
    """Give an exception its arguments, attributes, cause and context.

    Parameters
    ----------
    obj
        The exception.
    state
        The arguments, the attributes by name, and cause, context and whether that is hidden.
    """
    obj.args, attributes, (obj.__cause__, obj.__context__, suppressed) = state
    obj.__suppress_context__ = suppressed
    vars(obj).clear()
    if attributes:
        obj.__setstate__(attributes)


_REDUCERS: dict[str, Callable[[Any], Any]] = {
    "builtins.BaseException": _exception,
    "torch.Tensor": _tensor,
    "torch.storage.UntypedStorage": _storage,
    "torch.storage.TypedStorage": _typed_storage,
    "torch.optim.optimizer.Optimizer": _optimizer,
    "lightning.pytorch.core.module.LightningModule": _lightning_module,
    "pytorch_lightning.core.module.LightningModule": _lightning_module,
    "accelerate.state.PartialState": _shared,
    "accelerate.state.AcceleratorState": _shared,
    "accelerate.state.GradientState": _shared,
    "keras.src.saving.keras_saveable.KerasSaveable": _keras,
    "keras.src.optimizers.base_optimizer.BaseOptimizer": _keras,
    "fastcore.basics.Stateful": _stateful,
    "keras.src.utils.tracking.Tracker": _tracker,
    "keras.src.utils.tracking.TrackedList": _tracked,
    "keras.src.utils.tracking.TrackedDict": _tracked,
    "keras.src.utils.tracking.TrackedOrderedDict": _tracked,
    "keras.src.utils.tracking.TrackedSet": _tracked,
    "tensorflow.python.trackable.data_structures.ListWrapper": _wrapped_list,
    "tensorflow.python.trackable.data_structures._DictWrapper": _wrapped_dict,
    "tensorflow.python.distribute.distribute_lib._DefaultDistributionStrategy": _strategy,
}
_STATES: dict[str, Callable[[Any], tuple[str, Any]]] = {
    "torch.Tensor": _state_of_tensor,
    "torch.storage.UntypedStorage": _state_of_storage,
    "torch._dynamo.eval_frame.OptimizedModule": _stateless,
    "tensorflow.python.ops.variables.Variable": _state_of_variable,
    "lightgbm.basic.Dataset": _state_of_dataset,
    "tensorflow.python.distribute.distribute_lib._DefaultDistributionStrategy": _stateless,
}
