"""Runs code as whoever it is started as: a JSON text of Python a line in, what came of it out.

Out: ``{"result": …}`` with what the code has put into ``result``; or ``{"error": NAME}``, and its
text.
"""

from __future__ import annotations

import json
import sys

names: dict[str, object] = {}
for line in sys.stdin:
    names["result"] = None
    try:
        exec(json.loads(line), names)  # noqa: S102 - the test's own
        told = {"result": names["result"]}
    except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
        told = {"error": type(error).__name__, "text": str(error)}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
