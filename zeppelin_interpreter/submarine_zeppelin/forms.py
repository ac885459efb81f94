"""Dynamic forms in a command line: ``--gpus ${gpus=1}``, ``--queue ${queue=a,a|b}``.

Zeppelin leaves ``${…}`` alone for interpreters of form type NATIVE, so that Python's own dollars
and braces stay what they are; we fill the line's places in by ourselves, and say in the echoed
``gui`` which forms the paragraph has. The JSON is that of Zeppelin's ``GUI`` class.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

_PLACE = re.compile(r"\$\{([^{}\n]*)\}")
_NAME = re.compile(r"[\w .-]{1,80}")


def fill(text: str, gui: str) -> tuple[str, str]:
    """Return a command line with its places filled in, and the ``gui`` with their forms.

    Parameters
    ----------
    text
        Words of a command. ``${name=default}`` is a text field, ``${name=default,a|b}`` a choice;
        a value is one word, whatever is typed into its field. Anything else stays as it is.
    gui
        As Zeppelin sent it.
    """
    state = _read(gui)
    params = state["params"]
    forms: dict[str, Any] = {}

    def value(found: re.Match[str]) -> str:
        form = _form(found[1])
        if form is None:
            return found[0]
        forms[form["name"]] = form
        given = params.get(form["name"], form["defaultValue"])
        params[form["name"]] = given
        return shlex.quote(str(given)) if str(given) else ""

    text = _PLACE.sub(value, text)
    if not forms:
        return text, gui
    return text, json.dumps({**state, "params": params, "forms": {**state["forms"], **forms}})


def _form(place: str) -> dict[str, Any] | None:
    name, equals, rest = place.partition("=")
    name = name.strip()
    if not equals or not _NAME.fullmatch(name):
        return None
    default, comma, choices = rest.partition(",")
    form: dict[str, Any] = {"name": name, "defaultValue": default, "hidden": False}
    if not comma:
        return {"type": "TextBox", **form}
    options = [_choice(choice) for choice in choices.split("|")]
    return {"type": "Select", **form, "options": options}


def _choice(text: str) -> dict[str, str]:
    """Read ``value`` or ``value(what people see)``."""
    found = re.fullmatch(r"([^()]*)\((.*)\)", text)
    return {"value": found[1], "displayName": found[2]} if found else {"value": text}


def _read(gui: str) -> dict[str, Any]:
    try:
        state = json.loads(gui or "{}")
    except ValueError:
        state = {}
    if not isinstance(state, dict):
        state = {}
    for name in ("params", "forms"):
        if not isinstance(state.get(name), dict):
            state[name] = {}
    return state
