"""Schemas of the answers, made of the dataclasses that they are."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number"}


def schemas() -> dict[str, Any]:
    """Return the schemas of all answers, by name."""
    from submarine_engine.clusters.base import Gpu, GpuShare  # noqa: PLC0415 - asked for once
    from submarine_magics.card.model import CardView  # noqa: PLC0415 - brings IPython

    return {
        "Error": _object(dict.fromkeys(("what", "where", "fix"), _TEXT)),
        "Card": _card(of_type(CardView)),
        "Overview": _overview(of_type(Gpu), of_type(GpuShare)),
        "Lines": _object({"total": _COUNT, "size": _COUNT, "start": _COUNT, "lines": _list(_TEXT)}),
        "OutputLines": _object(
            {
                **dict.fromkeys(("total", "size", "start"), _COUNT),
                "lines": _list(_TEXT),
                "streams": _list({"enum": [0, 1]}),
                "times": _list(_or_null(_NUMBER)),
            }
        ),
        "Shown": _object(
            {
                "displays": _list(_object({"offset": _COUNT, "line": _COUNT})),
                "left_out": _COUNT,
            }
        ),
        "Display": _object({"data": {"type": "object"}, "metadata": {"type": "object"}}),
        "Found": _object({"lines": _list(_COUNT), "next": _or_null(_COUNT)}),
    }


def of_type(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a type as annotations have it
    """Return the schema of a dataclass, or of what its fields may be.

    Raises
    ------
    TypeError
        There is no schema for it.
    """
    origin = get_origin(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [of_type(one) for one in get_args(kind)]}
    if origin is tuple:
        first, *rest = get_args(kind)
        if rest == [...]:
            return _list(of_type(first))
        size = 1 + len(rest)
        return {**_list(of_type(first)), "minItems": size, "maxItems": size}
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return _object({field.name: of_type(hints[field.name]) for field in fields(kind)})
    raise TypeError(kind)


def _card(view: dict[str, Any]) -> dict[str, Any]:
    frame = _object(
        {**dict.fromkeys(("cell", "cell_id", "function", "text"), _TEXT), "line": _COUNT}
    )
    failure = _object({"type": _TEXT, "message": _TEXT, "frames": _list(frame)})
    log = _object({"task": _TEXT, "stream": {"enum": ["stdout", "stderr"]}, "size": _COUNT})
    output = _object({"task": _TEXT, "shown": _COUNT, "began": _or_null(_NUMBER)})
    more = {
        "now": _NUMBER,
        "running": {"type": "boolean"},
        "failure": _or_null(failure),
        "logs": _list(log),
        "outputs": _list(output),
    }
    return _object({**view["properties"], **more})


def _overview(gpu: dict[str, Any], share: dict[str, Any]) -> dict[str, Any]:
    cluster = _object(
        {
            "name": _TEXT,
            "error": _TEXT,
            "total": _COUNT,
            "free": _COUNT,
            "shares": _list(share),
            "gpus": _list(gpu),
        }
    )
    texts = ("id", "cluster", "name", "state", "reason", "notebook", "cell", "cell_id")
    numbers = ("created", "finished", "progress")
    job = _object(
        {
            **dict.fromkeys(texts, _TEXT),
            **{key: _or_null(_NUMBER) for key in numbers},
            "gpus": _COUNT,
        }
    )
    return _object({"now": _NUMBER, "clusters": _list(cluster), "jobs": _list(job)})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}
