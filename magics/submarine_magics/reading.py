"""Asking the person at the cell that runs now, as ``input()`` there does."""

from __future__ import annotations

import getpass
import sys
import threading

from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.asking import read_at_terminal


def can_read(shell: InteractiveShell) -> bool:
    """Return whether the front end that runs the cell in `shell` lets it ask.

    Runners of notebooks do not. A subshell's thread does not get the signals by which a question
    ends that nobody needs to answer any more.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return sys.stdin is not None and sys.stdin.isatty()
    request = kernel.get_parent("shell") or {}
    return bool(request.get("content", {}).get("allow_stdin"))


def read(prompt: str, password: bool) -> str:  # noqa: FBT001 - as `submarine_engine.asking.Read`
    """Ask by `prompt` and return the answer; a `password` is not shown as it is typed."""
    if getattr(get_ipython(), "kernel", None) is None:
        return read_at_terminal(prompt, password)
    # The kernel has put its own functions in the place of these.
    return getpass.getpass(prompt) if password else input(prompt)
