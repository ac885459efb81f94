"""Walks through the frames of a failed job by pdb's own commands.

The frames are those of `submarine_engine.post_mortem`: nothing runs in them any more. What is
assigned stays in the session.
"""

from __future__ import annotations

import pdb  # noqa: T100 - what this is for
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from submarine_engine.post_mortem import in_time, shown

if TYPE_CHECKING:
    from submarine_engine.post_mortem import PostMortem

_OVER = "the job is over: u and d move between its frames, p shows a value, q leaves"
_RUNNING = (
    "step", "next", "continue", "return", "until", "jump", "run", "restart", "break", "tbreak",
    "clear", "condition", "ignore", "commands", "enable", "disable", "debug", "retval",
    "s", "n", "c", "cont", "r", "unt", "j", "b", "cl", "rv",
)  # fmt: skip
"""pdb's commands about a program that runs."""


def debugger_class(base: type[pdb.Pdb] = pdb.Pdb) -> type[pdb.Pdb]:
    """Return a debugger for the frames of a job.

    Parameters
    ----------
    base
        The debugger that the front end has: pdb's, or IPython's.
    """

    def over(self: pdb.Pdb, _: str) -> None:
        self.error(_OVER)

    def setup(self: Any, frame: Any, traceback: Any) -> None:  # noqa: ANN401 - as bdb has them
        base.setup(self, frame, traceback)
        own = [at for at, (one, _) in enumerate(self.stack) if _kept(one) and _kept(one).own]
        if own and own[-1] != self.curindex:  # what a library does further in has no names
            self.curindex = own[-1]
            self.curframe = self.stack[self.curindex][0]
            self.curframe_locals = self.curframe.f_locals
            self.lineno = None

    def arguments(self: Any, _: str) -> None:  # noqa: ANN401 - as above
        """Show the arguments of the function."""
        kept = _kept(self.curframe)
        for name in kept.arguments if kept else ():
            held = self.curframe.f_locals
            text = shown(held[name], 2000) if name in held else "*** undefined ***"
            self.message(f"{name} = {text}")

    def exceptions(self: Any, number: str) -> None:  # noqa: ANN401 - as above
        """exceptions [number]

        List what caused the error, the error itself last, or look at the frames of one of them.
        """  # noqa: D400, D403 - as pdb's help has it
        chain = self.chain
        if not number:
            for at, (words, _) in enumerate(chain):
                self.message(f"{'>' if at == self.chosen else ' '} {at} {words}")
        elif number.isdecimal() and int(number) < len(chain) and chain[int(number)][1]:
            self.chosen = int(number)
            setup(self, None, chain[self.chosen][1])
            self.print_stack_entry(self.stack[self.curindex])
        else:
            self.error("name one of the list that has frames: exceptions")

    own: dict[str, Any] = {f"do_{name}": over for name in _RUNNING if hasattr(base, f"do_{name}")}
    own.update(setup=setup, do_args=arguments, do_a=arguments, do_exceptions=exceptions)
    own.update(chain=(), chosen=0, **_patient(base))
    return type("JobDebugger", (base,), own)


def debug(found: PostMortem, debugger: pdb.Pdb) -> None:
    """Let somebody look through the frames.

    Parameters
    ----------
    found
        The frames, and what stands before them.
    debugger
        Of a `debugger_class`.
    """
    debugger.message(found.title)
    if found.missing:
        debugger.message(found.missing)
    for words, _ in found.chain:
        debugger.message(words)
    traceback = found.traceback()
    if traceback is not None:
        its: Any = debugger
        its.chain = found.tracebacks()
        its.chosen = len(its.chain) - 1
        debugger.reset()
        debugger.interaction(None, traceback)


def _patient(base: Any) -> dict[str, Any]:  # noqa: ANN401 - a class of pdb's, with what is its own
    """Return the methods by which a debugger shows a value, for values that hang."""

    def print_value(self: Any, words: str, look: Callable[[Any], str]) -> None:  # noqa: ANN401 - likewise
        base._msg_val_func(self, words, partial(in_time, look))  # noqa: SLF001 - of `p` and `pp`

    def show(self: Any, value: object) -> None:  # noqa: ANN401 - likewise
        if value is not None:
            self.message(in_time(repr, value))

    def looks_like(self: Any, *words: Any) -> _Text:  # noqa: ANN401 - likewise
        return _Text(in_time(repr, base._getval_except(self, *words)))  # noqa: SLF001 - of `display`

    return {"_msg_val_func": print_value, "displayhook": show, "_getval_except": looks_like}


class _Text(str):
    """What a value looks like, as a value that looks so."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _kept(frame: Any) -> Any:  # noqa: ANN401 - a frame of Python's own, and one as it was kept
    return getattr(frame.f_globals, "kept", None)
