"""IPython's shell in a job: what it displays becomes frames.

`display_hooks` imports it once the code imports IPython.

It is a real shell with real formatters, so that `display`, the inline backend of matplotlib and
libraries that ask ``get_ipython()`` do as they do in a notebook. It runs no cells, keeps no
history, writes to no profile, and puts nothing among the script's names.
"""

from __future__ import annotations

import os
import sys
from functools import wraps

from submarine_runtime import lean
from submarine_runtime.displays import FIGURES, TABLES, Region, widget_id
from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from submarine_runtime.displays import DisplayWriter

_made: list[Any] = []


def offer(module: ModuleType, frames: DisplayWriter, *, notebook: bool) -> None:
    """Have ``InteractiveShell`` of IPython's own `module` give our shell, made when asked for.

    Parameters
    ----------
    frames
        Where it writes what is displayed.
    notebook
        Whether the shell is to look like a notebook's: libraries ask for that.
    """
    base = module.InteractiveShell
    instance, initialized = base.instance.__func__, base.initialized.__func__

    def make(cls: Any) -> None:  # noqa: ANN401 - a class of IPython's
        if _made or initialized(cls):
            return
        _made.append(None)
        try:
            _made[0] = _shell_class(module, frames, notebook=notebook).instance()
        except Exception:  # noqa: BLE001 - of a release unlike those known: as without a shell
            base.instance, base.initialized = classmethod(instance), classmethod(initialized)

    @wraps(instance)
    def first_instance(cls: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - IPython's
        if cls is base:
            make(cls)
        return instance(cls, *args, **options)

    @wraps(initialized)
    def first_initialized(cls: Any) -> bool:  # noqa: ANN401 - as above
        make(cls)
        return bool(initialized(cls))

    base.instance, base.initialized = classmethod(first_instance), classmethod(first_initialized)


class _Profile:
    """A folder for what releases before IPython 9 keep beside a shell; made where one asks."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @property
    def location(self) -> str:
        os.makedirs(self._folder, 0o700, exist_ok=True)  # noqa: PTH103 - pathlib takes long
        return self._folder


def _publisher_class(base: Any, frames: DisplayWriter) -> Any:  # noqa: ANN401 - IPython's
    class Publisher(base):  # type: ignore[misc]
        def publish(
            self,
            data: dict[str, Any],
            metadata: dict[str, Any] | None = None,
            source: object = None,  # noqa: ARG002 - as IPython has it
            *,
            transient: dict[str, Any] | None = None,
            update: bool = False,
            **_options: Any,  # noqa: ANN401 - as IPython has them
        ) -> None:
            self._validate_data(data, metadata)
            display_id = (transient or {}).get("display_id")
            frames.show(data, metadata, display_id, update=update)

        def clear_output(self, wait: bool = False) -> None:  # noqa: FBT001, FBT002 - IPython's
            frames.clear(wait=wait)

    return Publisher


def _shell_class(module: Any, frames: DisplayWriter, *, notebook: bool) -> Any:  # noqa: ANN401 - IPython's
    publisher = _publisher_class(module.DisplayPublisher, frames)

    class Shell(module.InteractiveShell):  # type: ignore[misc]
        user_ns: dict[str, Any]
        display_pub_class = module.Type(publisher)
        profile_dir = _Profile(f"{frames.folder}/.ipython")

        def __init__(self, **options: Any) -> None:  # noqa: ANN401 - IPython's
            config = sys.modules["traitlets.config"].Config()
            config.HistoryManager.enabled = False
            config.HistoryManager.hist_file = ":memory:"
            if notebook:  # transformers asks for it
                config.IPKernelApp.connection_file = ""
                config.InlineBackend.update(_figure_settings())
            main = sys.modules["__main__"]
            super().__init__(config=config, user_module=main, user_ns=vars(main), **options)

        def init_ipython_dir(self, ipython_dir: str) -> None:
            """Have no folder: nothing is kept."""

        def init_profile_dir(self, profile_dir: object) -> None:
            """Have no profile."""

        def init_display_formatter(self) -> None:
            super().init_display_formatter()
            if os.environ.get(TABLES):
                _tell_tables(self.display_formatter)

        def init_user_ns(self) -> None:
            """Leave the script's names alone."""

        def init_displayhook(self) -> None:
            """Leave them alone here, too: the hook would bind ``_`` and its like."""
            namespace = self.user_ns
            self.user_ns = {}
            super().init_displayhook()
            self.user_ns = namespace

        def init_sys_modules(self) -> None:
            """Leave ``__main__`` as it is: it is the script."""

    # Many a library knows a notebook by this name alone, plotly by the module, too.
    Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell" if notebook else "JobShell"
    Shell.__module__ = "ipykernel.zmqshell" if notebook else __name__
    return Shell


def _tell_tables(display_formatter: Any) -> None:  # noqa: ANN401 - IPython's
    from submarine_runtime import tables  # noqa: PLC0415 - of few front ends

    base: Any = sys.modules["IPython.core.formatters"].JSONFormatter
    formatter = type("TableFormatter", (base,), {"_return_type": dict})(parent=display_formatter)
    formatter.format_type, formatter.print_method = tables.TYPE, "_repr_submarine_table_"
    tables.add_frames(formatter)
    display_formatter.formatters[tables.TYPE] = formatter


def _figure_settings() -> dict[str, Any]:
    with suppress(ValueError, TypeError, KeyError):
        settings: dict[str, Any] = lean.loads(os.environ[FIGURES])
        return {**settings, "figure_formats": set(settings["figure_formats"])}
    return {}


def end_cell() -> None:
    """Do what a notebook does at a cell's end: figures that are open still are shown."""
    if _made and _made[0] is not None:
        _made[0].events.trigger("post_execute")


def show_outputs(module: ModuleType, frames: DisplayWriter) -> None:
    """Let what is shown in an ``Output`` of ipywidgets be the state of its display, as for rich.

    Parameters
    ----------
    module
        That of ipywidgets which has ``Output``.
    frames
        Where the displays are written.
    """
    output = module.Output
    enter, leave = output.__enter__, output.__exit__

    @wraps(enter)
    def enter_region(self: Any) -> Any:  # noqa: ANN401 - ipywidgets'
        if not hasattr(self, "submarine_region"):
            self.submarine_region = Region(widget_id(self.model_id))
        entered = enter(self)
        frames.enter(self.submarine_region)
        return entered

    @wraps(leave)
    def leave_region(self: Any, *error: Any) -> Any:  # noqa: ANN401 - ipywidgets'
        frames.leave()
        return leave(self, *error)

    output.__enter__, output.__exit__ = enter_region, leave_region
