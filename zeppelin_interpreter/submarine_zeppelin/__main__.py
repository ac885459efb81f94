"""The interpreter process: ``python -m submarine_zeppelin -c HOST -p PORT -r RANGE -i GROUP …``.

Zeppelin starts it by the launch script. Started by hand without ``-c`` and ``-p`` it is what
Zeppelin calls an existing process: it listens on ``-r PORT:PORT`` and waits for Zeppelin.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time

from submarine_engine.errors import SubmarineError

from submarine_zeppelin import service as logfile
from submarine_zeppelin.impersonation import FOLLOW, become, take_variables
from submarine_zeppelin.peers import Callers
from submarine_zeppelin.service import Service
from submarine_zeppelin.wire import IDL, Events, Listener, address_towards, log

_LOOK = 2.0  # seconds: each look is a connection to Zeppelin, and nobody waits for it
_PATIENCE = 120.0
"""Seconds without Zeppelin after which the process ends: one that was killed cannot say so, and one
that recovers its interpreters is back sooner."""


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the `arguments` of Zeppelin's launcher; what other launchers say more is passed over."""
    parser = argparse.ArgumentParser("submarine_zeppelin", description=__doc__)
    parser.add_argument("-c", dest="host", default="", help="where Zeppelin's event server is")
    parser.add_argument("-p", dest="port", type=int, default=0, help="the event server's port")
    parser.add_argument("-r", dest="ports", default=":", help="the ports to listen on, FIRST:LAST")
    parser.add_argument("-i", dest="group", default="", help="the id of the interpreter group")
    parser.add_argument(
        "--zeppelin-user", default="", help="whom Zeppelin runs as, where that is another user"
    )
    parser.add_argument("-u", dest="user", default="", help="whom to run as, see impersonation")
    parser.add_argument(FOLLOW, dest="follow", action="store_true", help=argparse.SUPPRESS)
    for unused in "dlg":
        parser.add_argument(f"-{unused}", help=argparse.SUPPRESS)
    return parser.parse_known_args(arguments)[0]


def main(arguments: list[str]) -> int:
    """Serve Zeppelin, as `arguments` say, until it is over or gone; return an exit code."""
    told = read_arguments(arguments)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # In a thread: this one may hold the event's own lock as the signal comes.
        signal.signal(number, lambda *_: threading.Thread(target=over.set, daemon=True).start())
    try:
        if told.user:
            become(told.user, arguments)
        if told.follow:
            take_variables()
        callers = Callers(told.zeppelin_user)
        events = Events(told.group, callers)
        service = Service(events, over.set)
        host = address_towards(told.host, told.port) if told.host else "127.0.0.1"
        listener = Listener(host, told.ports)
        if told.host:
            events.connect(told.host, told.port)
        listener.serve(service, service.answered, callers.refusal)
        if told.host:
            me = IDL.RegisterInfo(listener.host, listener.port, told.group)
            assert events.server is not None  # noqa: S101 - connected just now
            events.server.call("registerInterpreterProcess", me)
            logfile.begin_log(told.group)
        else:
            log(f"waits for Zeppelin on {listener.host}, port {listener.port}")
    except (SubmarineError, OSError) as error:
        log(str(error))
        return 1
    wait_for_end(events, over, told.host != "")
    listener.close()
    service.shutdown()
    return 0


def wait_for_end(events: Events, over: threading.Event, launched: bool) -> None:  # noqa: FBT001
    """Return when the process is to end.

    Parameters
    ----------
    events
        Which know where Zeppelin is.
    over
        Set when Zeppelin, or a signal, says that it is over.
    launched
        Whether Zeppelin has started it, so that it ends where Zeppelin is gone.
    """
    seen = time.monotonic()
    while not over.wait(_LOOK):
        server = events.server
        if not launched or server is None:
            continue
        try:
            address_towards(*server.address)
            seen = time.monotonic()
        except OSError:
            if time.monotonic() - seen > _PATIENCE:
                log("Zeppelin is gone; jobs go on")
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
