"""Arguments and values of calls, pickled on their way: what the script defines goes by its name."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

from submarine_runtime.byvalue import GLOBALS, ByValue
from submarine_runtime.frameworks import reduced

from submarine_engine.bundle.pickling import describe_value, refusal
from submarine_engine.errors import CannotTravelError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_MAIN = "__main__"


class Arguments:
    """Pickles the arguments of calls.

    Parameters
    ----------
    known
        The names of the program that the workers' script defines; None while it is not made yet,
        where `names` gathers what it has to define.

    Attributes
    ----------
    names
        Names of the program that were met.
    """

    def __init__(self, known: Collection[str] | None = None) -> None:
        self._known = known
        self.names: set[str] = set()

    def pack(self, args: Sequence[object], keywords: Mapping[str, object], what: str) -> bytes:
        """Return the arguments of a call, pickled.

        Parameters
        ----------
        args, keywords
            The call's.
        what
            What people call it, for the error.

        Raises
        ------
        CannotTravelError
            They cannot be pickled.
        """
        file = io.BytesIO()
        pickler = _Pickler(file, 5)
        pickler.known, pickler.names = self._known, self.names
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it is our own look that a library would warn of
                pickler.dump((tuple(args), dict(keywords)))
        except Exception as error:
            found = describe_value(pickler.last)
            held = f"it holds {found[0]}" if found else f"{type(error).__name__}: {error}"
            raise CannotTravelError(
                f"the argument cannot travel: {held}",
                where=what,
                fix=found[1] if found else "give a path, and open what is there in the function",
            ) from error
        return file.getvalue()


class _Pickler(ByValue, pickle.Pickler):
    known: Collection[str] | None = None
    names: set[str]
    last: object = None

    @property
    def namespace(self) -> dict[str, Any]:  # type: ignore[override] # it is that of the moment
        return vars(sys.modules[_MAIN])

    def globals_of(self, obj: object) -> tuple[str, ...] | None:
        # What a function reads of the program goes along: the script may not have it.
        found = super().globals_of(obj)
        return None if found == GLOBALS else found

    def persistent_id(self, obj: object) -> tuple[str, ...] | None:
        return self.globals_of(obj) if type(obj) is dict else None

    def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
        self.last = obj
        if not isinstance(obj, (type, types.FunctionType)) and refusal(obj):
            raise TypeError("it must not travel")
        found = reduced(obj)
        return self.by_value(obj) if found is NotImplemented else found

    def by_name(self, obj: Any) -> bool:  # noqa: ANN401 - a function or a class
        if not super().by_name(obj):
            return False
        if obj.__module__ != _MAIN:
            return True
        name = obj.__qualname__.partition(".")[0]
        self.names.add(name)
        return self.known is None or name in self.known


def load(data: bytes) -> Any:  # noqa: ANN401 - the user's own
    """Load a value from `data`, as a worker has pickled it; raises what loading it raises."""
    return _Unpickler(io.BytesIO(data)).load()


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, space: tuple[str, ...]) -> dict[str, Any]:
        return vars(sys.modules[space[1] if space[1:] else _MAIN])

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as pickle has it
        found = super().find_class(module, name)
        return _fill_class if name == "_class_setstate" else found


def _fill_class(kind: type, state: Any) -> type:  # noqa: ANN401 - cloudpickle's own
    """Fill a class that came by value, unless it is the program's own, come back."""
    here: object = sys.modules.get(kind.__module__)
    for step in kind.__qualname__.split("."):
        here = getattr(here, step, None)
    if here is not kind:
        importlib.import_module("cloudpickle.cloudpickle")._class_setstate(kind, state)  # noqa: SLF001 - its own hook
    return kind
