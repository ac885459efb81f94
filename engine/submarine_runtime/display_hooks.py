"""Hooks into the imports of IPython, matplotlib and tqdm, so that what they show becomes frames.

`task` begins and ends it. Nothing is imported here that the code does not import itself.
"""

from __future__ import annotations

import os
import sys

from submarine_runtime.displays import INLINE, DisplayWriter
from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


class _Then:
    """Loads a module by its own loader, and calls a function with it then."""

    def __init__(self, loader: Any, then: Callable[[ModuleType], None]) -> None:  # noqa: ANN401
        self._loader = loader
        self._then = then

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever loaders have
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:  # noqa: ANN401 - as importlib has them
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then(module)


class _ImportHooks:
    """A finder in `sys.meta_path`: it calls a function once a module that shows things is there."""

    def __init__(self, frames: DisplayWriter, *, notebook: bool) -> None:
        self.frames = frames
        self.notebook = notebook
        self._then: dict[str, Callable[[ModuleType], None]] = {
            "IPython.core.interactiveshell": self._shell,
        }
        if notebook:
            self._then["tqdm.notebook"] = self._bars
            self._then["tqdm.asyncio"] = self._lines
            self._then["ipywidgets.widgets.widget_output"] = self._outputs
            self._then["matplotlib"] = _nothing

    def then(self, name: str, do: Callable[[ModuleType], None]) -> None:
        """Have `do` called with the module `name` once it is imported."""
        self._then[name] = do

    def begin(self) -> None:
        """Watch from now on; what is imported already is seen to at once."""
        if self.notebook and (matplotlib := sys.modules.get("matplotlib")):
            _check_backend()
            matplotlib.rcParams["backend"] = os.environ["MPLBACKEND"]
            # It looks for the shell once, as it is imported.
            sys.modules.pop("matplotlib_inline.backend_inline", None)
        for name in list(self._then):
            if name in sys.modules:
                self._then.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def add(self, name: str, then: Callable[[ModuleType], None]) -> None:
        """Call `then` with one more module as soon as it is imported."""
        before = self._then.get(name, _nothing)

        def both(module: ModuleType) -> None:
            before(module)
            then(module)

        self._then[name] = then if before is _nothing else both

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ANN401
        """Let the others find a module, and have it loaded with what comes after."""
        if name not in self._then:
            return None
        then = self._then.pop(name)
        if name == "matplotlib" and self.notebook:
            _check_backend()
        if then is _nothing:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Then(spec.loader, then)
                return spec
        return None

    def _shell(self, module: ModuleType) -> None:
        from submarine_runtime import shell  # noqa: PLC0415 - only with IPython

        shell.offer(module, self.frames, notebook=self.notebook)

    def _bars(self, module: ModuleType) -> None:
        from submarine_runtime import bars  # noqa: PLC0415 - only with tqdm

        bars.show_bars(module, self.frames)

    def _lines(self, module: ModuleType) -> None:
        from submarine_runtime import bars  # noqa: PLC0415 - as above

        bars.show_lines(module, self.frames)

    def _outputs(self, module: ModuleType) -> None:
        from submarine_runtime import shell  # noqa: PLC0415 - as above

        shell.show_outputs(module, self.frames)


def _nothing(_module: ModuleType) -> None:
    pass


def _check_backend() -> None:
    """Draw without a notebook where what draws into one is not installed here."""
    from importlib.util import find_spec  # noqa: PLC0415 - before matplotlib, which imports it

    if os.environ.get("MPLBACKEND") == INLINE:
        found: object = None
        with suppress(ImportError, ValueError):
            found = find_spec("IPython") and find_spec("matplotlib_inline")
        if not found:
            os.environ["MPLBACKEND"] = "Agg"


def _get_ipython() -> Any:  # noqa: ANN401 - IPython's
    """Return the shell, as the builtin of that name does in a notebook."""
    return __import__("IPython").get_ipython()


_active: list[_ImportHooks] = []


def _let_ask(hooks: _ImportHooks) -> None:
    """Have the builtin ``input`` and ``getpass.getpass`` ask who waits for the task."""
    import builtins  # noqa: PLC0415 - built in

    owner = os.getpid()
    made: dict[None, Any] = {}

    def questions() -> Any:  # noqa: ANN401 - of a module that is imported late
        if None not in made:
            from submarine_runtime.asking import Questions  # noqa: PLC0415 - only who asks needs it

            made.setdefault(None, Questions(hooks.frames, owner))
        return made[None]

    def input(prompt: object = "", /) -> Any:  # noqa: A001, ANN401 - in the place of that one
        return questions().ask(str(prompt), password=False)

    def getpass(prompt: str = "Password: ", stream: object = None, **_options: object) -> Any:  # noqa: ANN401, ARG001 - as getpass has them
        return questions().ask(str(prompt), password=True)

    vars(builtins)["input"] = input
    hooks.then("getpass", lambda module: vars(module).update(getpass=getpass))


def begin(folder: str, *, asks: bool = False) -> None:
    """Take what the user's code shows from now on into the task's `folder`.

    Parameters
    ----------
    asks
        Whether somebody waits for the task who may be asked.
    """
    hooks = _ImportHooks(DisplayWriter(folder), notebook=os.environ.get("MPLBACKEND") == INLINE)
    if asks:
        _let_ask(hooks)
    hooks.begin()
    _active[:] = [hooks]
    if hooks.notebook:
        import builtins  # noqa: PLC0415 - built in

        # Libraries ask so whether they are in a notebook, rich for one.
        _get_ipython.__name__ = _get_ipython.__qualname__ = "get_ipython"
        vars(builtins)["get_ipython"] = _get_ipython


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call `then` with the module `name` as soon as it is imported."""
    for hooks in _active:
        hooks.add(name, then)


def finish() -> bool:
    """Show what the code's end leaves to be shown; return whether there was anything to do."""
    if not _active:
        return False
    hooks = _active.pop()
    with suppress(BaseException):  # foreign code draws here
        shell = sys.modules.get("submarine_runtime.shell")
        if shell is None:
            return False
        hooks.frames.last = True
        shell.end_cell()
        hooks.frames.finish()
        return True
    return False
