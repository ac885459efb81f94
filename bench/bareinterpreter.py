"""A Zeppelin interpreter that does nothing: what `bench.zeppelin` measures ours beside.

``python bareinterpreter.py -c HOST -p PORT -i GROUP …``: it registers, and answers every paragraph
at once. Standard for both is the wire of Zeppelin itself (`submarine_zeppelin.wire`).
"""

from __future__ import annotations

import sys
import threading

from submarine_zeppelin.wire import IDL, EventServer, Listener


class Bare:
    """Answers to everything that Zeppelin asks."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def interpret(self, _session: str, _kind: str, _text: str, context: object) -> object:
        """Say that it is done."""
        told = [IDL.RemoteInterpreterResultMessage("TEXT", "2\n")]
        return IDL.RemoteInterpreterResult(
            "SUCCESS", told, context.config, context.gui, context.noteGui
        )

    def shutdown(self) -> None:
        """End."""
        self.over.set()

    def __getattr__(self, name: str) -> object:
        answers = {
            "getFormType": "NATIVE", "getProgress": 0, "getStatus": "RUNNING", "completion": [],
            "resourcePoolGetAll": [],
        }  # fmt: skip
        return lambda *_: answers.get(name)


def main() -> None:
    """Serve until Zeppelin says that it is over."""
    words = sys.argv[1:]
    given = dict(zip(words[::2], words[1::2], strict=False))
    bare = Bare()
    listener = Listener("127.0.0.1", ":")
    listener.serve(bare, lambda: None)
    me = IDL.RegisterInfo("127.0.0.1", listener.port, given["-i"])
    EventServer(given["-c"], int(given["-p"])).call("registerInterpreterProcess", me)
    bare.over.wait()


main()
