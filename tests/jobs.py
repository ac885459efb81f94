"""What tests of every cluster share, as `submarine_engine.testing` ships it."""

import socket
from contextlib import ExitStack, closing, contextmanager

from submarine_engine.testing.jobs import *  # noqa: F403 - all of it
from submarine_engine.testing.jobs import _living, _traces  # noqa: F401 - of tests that kill


@contextmanager
def mute_port():
    """Give a port of 127.0.0.2 that answers nothing, as behind a firewall.

    Somebody listens there whose queue is full: the kernel drops what else comes.
    """
    with ExitStack() as stack:
        server = stack.enter_context(closing(socket.socket()))
        server.bind(("127.0.0.2", 0))
        server.listen(0)
        full = False
        while not full:
            one = stack.enter_context(closing(socket.socket()))
            one.settimeout(0.3)
            try:
                one.connect(server.getsockname())
            except TimeoutError:
                full = True
        yield server.getsockname()[1]
