"""The OpenAPI document: made of the routes, and of the views that the answers are."""

from __future__ import annotations

import re
from typing import Any

from submarine_jupyter.parts import Extra
from submarine_jupyter.routes import BASE, END, PATTERNS, Route, all_routes
from submarine_jupyter.schemas import schemas


def openapi(extras: tuple[Extra, ...]) -> dict[str, Any]:
    """Return the OpenAPI document.

    Parameters
    ----------
    extras
        The modules that add routes.
    """
    paths: dict[str, Any] = {}
    for route in all_routes(extras):
        paths.setdefault(BASE + route.path, {})[route.method] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Submarine notebooks", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization"}
            },
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True,
         "schema": {"type": "string", "pattern": f"^(?:{PATTERNS[name]}){END}"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]  # fmt: skip
    for name, number in (route.numbers or {}).items():
        schema = {"type": "integer", "minimum": number.least, "maximum": number.most}
        parameters.append(
            {"name": name, "in": "query", "schema": {**schema, "default": number.default}}
        )
    for name, text in (route.texts or {}).items():
        required = bool(text.get("minLength"))
        parameters.append({"name": name, "in": "query", "required": required, "schema": text})
    if route.path.endswith("/events"):
        text = {"type": "string"}
        parameters.append({"name": "Last-Event-ID", "in": "header", "schema": text})
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    reply = {"schema": route.reply} if route.reply else {}
    found: dict[str, Any] = {
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "as said", "content": {route.kind: reply}},
            "default": {"description": "what, where and the fix", "content": error},
        },
    }
    if route.body is not None:
        found["requestBody"] = {"content": {"application/json": {"schema": route.body}}}
    return found
