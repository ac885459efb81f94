"""The verbs for those who look after an Apache Zeppelin."""

from __future__ import annotations

from submarine_engine.command import values
from submarine_engine.command.model import TERMINAL, Option, Verb

_TERMINAL = frozenset({TERMINAL})

_HOME = Option(
    name="zeppelin-home",
    kind=values.PATH,
    help="The folder that Zeppelin was unpacked to; ZEPPELIN_HOME unless given.",
)

VERBS = (
    Verb(
        path=("zeppelin", "install"),
        summary="Put the interpreter %submarine into a Zeppelin, or renew it there.",
        details=(
            "Writes interpreter/submarine: the setting and a launch script. A Submarine "
            "interpreter that came with Zeppelin is put aside. Restart Zeppelin afterwards."
        ),
        options=(
            _HOME,
            Option(
                name="python",
                kind=values.PATH,
                help="The Python that notes run on; that of this command unless given.",
            ),
        ),
        surfaces=_TERMINAL,
        examples=("zeppelin install --zeppelin-home /opt/zeppelin",),
    ),
    Verb(
        path=("zeppelin", "uninstall"),
        summary="Take the interpreter out again, and put back what was put aside.",
        options=(_HOME,),
        surfaces=_TERMINAL,
        examples=("zeppelin uninstall --zeppelin-home /opt/zeppelin",),
    ),
    Verb(
        path=("zeppelin", "doctor"),
        summary="Check a Zeppelin's interpreter, with the way out where something is missing.",
        options=(_HOME,),
        surfaces=_TERMINAL,
        examples=("zeppelin doctor --zeppelin-home /opt/zeppelin",),
    ),
)
