"""Finds which options of libraries (pandas, numpy, …) a cell has set, for the notebook to set them.

`home` reads them before and after the cell. A statement that sets something may stand in a function
or in a branch. So what is sent back is not the statement but what holds at the end and did not at
the cell's beginning.
"""

from __future__ import annotations

import sys

from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Read = Callable[[Any], dict[str, Any]]
    Put = Callable[[Any, dict[str, Any]], None]

_MISSING = object()


class Settings:
    """Knows what libraries were set to when a cell began.

    Parameters
    ----------
    watch
        Calls a function with a module right after it is imported, by its name.
    """

    def __init__(self, watch: Callable[[str, Callable[[Any], None]], None]) -> None:
        self._before: dict[str, dict[str, Any]] = {}
        for name in SOURCES:
            module = sys.modules.get(name)
            if module is not None:
                self._note(module)
            else:
                watch(name, self._note)

    def _note(self, module: Any) -> None:  # noqa: ANN401 - a module
        self._before[module.__name__] = read(module)

    def changed(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each library of which something was set, with all that was."""
        for name, before in self._before.items():
            now = read(sys.modules.get(name))
            if name == "warnings":
                changes = _filters_added(before, now)
            else:
                changes = {
                    key: value
                    for key, value in now.items()
                    if _differ(before.get(key, _MISSING), value)
                }
            if changes:
                yield name, changes


def read(module: Any) -> dict[str, Any]:  # noqa: ANN401 - a module
    """Return what the library `module` is set to; nothing where its version has it otherwise."""
    with suppress(Exception):
        return SOURCES[module.__name__][0](module)
    return {}


def put(name: str, changes: dict[str, Any]) -> None:
    """Set for the library `name` what was set in a job, as far as it can be here.

    Parameters
    ----------
    changes
        By option, as of `Settings.changed`; some may be taken out of it.
    """
    if name not in SOURCES:
        return
    import warnings  # noqa: PLC0415 - only at home

    with suppress(Exception):
        module = __import__(name)
        if name in ("logging", "warnings"):  # these set what is put back below
            SOURCES[name][1](module, changes)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the job has shown them
            SOURCES[name][1](module, changes)


def _differ(left: object, right: object) -> bool:
    try:
        return type(left) is not type(right) or bool(left != right)
    except Exception:  # noqa: BLE001 - a foreign __ne__ raises what it likes
        return left is not right


# What each library has


def _numpy(numpy: Any) -> dict[str, Any]:  # noqa: ANN401 - a module, here and below
    return {**numpy.get_printoptions(), "errors": numpy.geterr()}


def _put_numpy(numpy: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    numpy.seterr(**changes.pop("errors", {}))
    numpy.set_printoptions(**changes)


def _pandas(pandas: Any) -> dict[str, Any]:  # noqa: ANN401
    found: dict[str, Any] = {}
    # Not by get_option, which warns of what is old.
    todo = [("", pandas._config.config._global_config)]  # noqa: SLF001
    while todo:
        above, options = todo.pop()
        for key, value in options.items():
            if isinstance(value, dict):
                todo.append((f"{above}{key}.", value))
            else:
                found[above + key] = value
    return found


def _put_pandas(pandas: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    for key, value in changes.items():
        with suppress(Exception):  # another version has other options
            pandas.set_option(key, value)


def _matplotlib(matplotlib: Any) -> dict[str, Any]:  # noqa: ANN401
    # To ask for the backend by its key makes matplotlib choose one. As it is chosen in the job, it
    # turns the interactive mode on there: neither is what the cell has set.
    found = dict(dict.items(matplotlib.rcParams))
    return {
        key: value for key, value in found.items() if not key.startswith(("backend", "interactive"))
    }


def _put_matplotlib(matplotlib: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    matplotlib.rcParams.update(changes)


_PRINTED = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")


def _torch(torch: Any) -> dict[str, Any]:  # noqa: ANN401
    options = vars(torch._tensor_str.PRINT_OPTS)  # noqa: SLF001 - nothing else tells
    return {
        "set_default_dtype": torch.get_default_dtype(),
        "set_grad_enabled": torch.is_grad_enabled(),
        "use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "set_float32_matmul_precision": torch.get_float32_matmul_precision(),
        "set_printoptions": {key: options[key] for key in _PRINTED},
    }


def _put_torch(torch: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    torch.set_printoptions(**changes.pop("set_printoptions", {}))
    for function, value in changes.items():
        getattr(torch, function)(value)


def _sklearn(sklearn: Any) -> dict[str, Any]:  # noqa: ANN401
    return dict(sklearn.get_config())


def _put_sklearn(sklearn: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    sklearn.set_config(**changes)


def _jax(jax: Any) -> dict[str, Any]:  # noqa: ANN401
    return dict(jax.config.values)


def _put_jax(jax: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    for key, value in changes.items():
        jax.config.update(key, value)


def _keras(keras: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "set_floatx": keras.config.floatx(),
        "set_image_data_format": keras.config.image_data_format(),
        "set_dtype_policy": keras.config.dtype_policy().name,
    }


def _put_keras(keras: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    for function, value in changes.items():
        getattr(keras.config, function)(value)


def _decimal(decimal: Any) -> dict[str, Any]:  # noqa: ANN401
    context = decimal.getcontext()
    return {key: getattr(context, key) for key in ("prec", "rounding", "Emin", "Emax")}


def _put_decimal(decimal: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    for key, value in changes.items():
        setattr(decimal.getcontext(), key, value)


def _sys(_sys: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"setrecursionlimit": sys.getrecursionlimit()}


def _put_sys(_sys: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    sys.setrecursionlimit(changes["setrecursionlimit"])


def _warnings(warnings: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"filters": list(warnings.filters)}


def _filters_added(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return the filters that were put before the others, and whether those are gone.

    With each whether it was there before. One that was not may be a library's, which the job has
    imported and the notebook long ago: there it keeps its place.
    """
    old, new = before.get("filters", []), now.get("filters", [])
    if old == new:
        return {}
    for count in range(len(new) + 1):
        if new[count:] == [rule for rule in old if rule not in new[:count]]:
            return {"added": [(rule, rule in old) for rule in new[:count]], "reset": False}
    return {"added": [(rule, True) for rule in new], "reset": True}


def _put_warnings(warnings: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    if changes["reset"]:
        warnings.resetwarnings()
    for rule, moved in reversed(changes["added"]):
        if moved or rule not in warnings.filters:
            while rule in warnings.filters:
                warnings.filters.remove(rule)
            warnings.filters.insert(0, rule)
    # Python remembers which warnings it has shown until it is told that the filters are others.
    for name in ("_filters_mutated", "_filters_mutated_lock_held"):
        with suppress(Exception):
            getattr(warnings, name)()
            return


def _logging(logging: Any) -> dict[str, Any]:  # noqa: ANN401
    root = logging.getLogger()
    levels = {
        f"level {name}": logger.level
        for name, logger in list(root.manager.loggerDict.items())
        if getattr(logger, "level", 0)
    }
    return {
        "level ": root.level,
        **levels,
        "disable": root.manager.disable,
        "capture": logging._warnings_showwarning is not None,  # noqa: SLF001 - nothing else tells
        "handlers": list(map(_handler, root.handlers)),
    }


def _handler(handler: Any) -> tuple[Any, ...]:  # noqa: ANN401 - one of logging's
    """Return what makes a handler of the standard kinds again."""
    logging: Any = sys.modules["logging"]
    how: tuple[Any, ...] = ()
    if type(handler) is logging.FileHandler:
        how = "file", handler.baseFilename, handler.encoding
    elif type(handler) is logging.StreamHandler:
        how = ("stdout" if handler.stream in (sys.stdout, sys.__stdout__) else "stderr",)
    formatter = handler.formatter
    # pylint's names: what a formatter was made of.
    made = formatter and (type(formatter), formatter._fmt, formatter.datefmt)  # noqa: SLF001
    return how, handler.level, made, type(getattr(formatter, "_style", None)).__name__


_STYLES = {"PercentStyle": "%", "StrFormatStyle": "{", "StringTemplateStyle": "$"}


def _put_logging(logging: Any, changes: dict[str, Any]) -> None:  # noqa: ANN401
    root = logging.getLogger()
    for key, level in changes.items():
        if key.startswith("level "):
            logging.getLogger(key.removeprefix("level ") or None).setLevel(level)
    if "disable" in changes:
        logging.disable(changes["disable"])
    if "capture" in changes:
        logging.captureWarnings(changes["capture"])
    if "handlers" in changes:
        here = {_handler(one): one for one in root.handlers}
        for told, handler in here.items():
            if told[0] and told not in changes["handlers"]:
                root.removeHandler(handler)
        for told in changes["handlers"]:
            if told[0] and told not in here:
                root.addHandler(_made(logging, *told))


def _made(logging: Any, how: Any, level: int, formatter: Any, style: str) -> Any:  # noqa: ANN401
    kind, *place = how
    if kind == "file":
        handler = logging.FileHandler(place[0], encoding=place[1])
    else:
        handler = logging.StreamHandler(getattr(sys, kind))
    handler.setLevel(level)
    if formatter:
        made, text, dates = formatter
        handler.setFormatter(made(text, dates, _STYLES.get(style, "%")))
    return handler


SOURCES: dict[str, tuple[Read, Put]] = {
    "decimal": (_decimal, _put_decimal),
    "jax": (_jax, _put_jax),
    "keras": (_keras, _put_keras),
    "logging": (_logging, _put_logging),
    "matplotlib": (_matplotlib, _put_matplotlib),
    "numpy": (_numpy, _put_numpy),
    "pandas": (_pandas, _put_pandas),
    "sklearn": (_sklearn, _put_sklearn),
    "sys": (_sys, _put_sys),
    "torch": (_torch, _put_torch),
    "warnings": (_warnings, _put_warnings),
}
"""By a library's name: what reads its options, and what sets some of them."""
