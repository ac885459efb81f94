"""The page at a front's own address: a request to try, sent to the model as any other.

It is one file without anything from elsewhere. In the proxy of Jupyter's server it is in a sandbox,
so its addresses are relative and it keeps nothing. An answer is only ever text.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_LONGEST = 4096
"""Numbers of an example, at most."""


def example(server: str, name: str, takes: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return where a request goes, relative to the front's address, and one that is of the form.

    Parameters
    ----------
    server
        What serves, of `submarine_engine.serving.replica.SERVERS`.
    name
        The model's name there.
    takes
        As `submarine_engine.serving.model.takes` tells.
    """
    kept = takes.get("example")
    columns: Sequence[str] = takes.get("columns") or ()
    width = min(int(takes.get("width") or 1), _LONGEST)
    if server == "mlserver":
        inputs = _tensors(kept or {})
        if not inputs:
            kind = _DATATYPES.get(str(takes.get("type")), "FP64")
            zero = 0 if kind.startswith("INT") else 0.0
            shapes = [(one, [1]) for one in columns] or [("x", [1, width])]
            inputs = [_tensor(one, kind, shape, [zero] * shape[-1]) for one, shape in shapes]
        return f"v2/models/{name}/infer", {"inputs": inputs}
    if kept:
        return "invocations", dict(kept)
    if columns:
        rows = {"columns": list(columns), "data": [[0.0] * len(columns)]}
        return "invocations", {"dataframe_split": rows}
    return "invocations", {"inputs": [[0.0] * width]}


_DATATYPES = {"float32": "FP32", "float64": "FP64", "int32": "INT32", "int64": "INT64"}


def _tensors(kept: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return MLflow's form of a request in that of the protocol; empty where it has other forms."""
    try:
        if "dataframe_split" in kept:
            rows = kept["dataframe_split"]["data"]
            columns = zip(kept["dataframe_split"]["columns"], zip(*rows, strict=True), strict=True)
            return [_tensor(str(name), _kind(data), [len(rows)], data) for name, data in columns]
        shape, data = [], kept["inputs"]
        while isinstance(data[0], list):
            shape.append(len(data))
            data = [value for row in data for value in row]
        # Of several dimensions each but the last is counted on the way down.
        shape = [
            now // before for before, now in zip([1, *shape], [*shape, len(data)], strict=True)
        ]
        return [_tensor("x", _kind(data), shape, data)]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return []


def _kind(data: Sequence[Any]) -> str:
    if all(isinstance(one, str) for one in data):
        return "BYTES"
    if all(isinstance(one, int) and not isinstance(one, bool) for one in data):
        return "INT64"
    if all(isinstance(one, (int, float)) for one in data):
        return "FP64"
    raise TypeError(data)


def _tensor(name: str, kind: str, shape: list[int], data: Sequence[Any]) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": kind, "data": list(data)}


def try_page(name: str, server: str, takes: Mapping[str, Any]) -> tuple[str, str]:
    """Return the page, and the policy that it is to be shown under.

    Parameters
    ----------
    name, server, takes
        As for `example`.
    """
    path, body = example(server, name, takes)
    nonce = secrets.token_urlsafe(12)
    page = _PAGE.format(
        name=escape(name),
        path=escape(path),
        body=escape(json.dumps(body)),
        nonce=nonce,
    )
    policy = (
        f"default-src 'none'; connect-src *; script-src 'nonce-{nonce}'; "
        f"style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'"
    )
    return page, policy


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{name}</title>
<style nonce="{nonce}">
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 50em; padding: 0 1em; }}
textarea, pre {{ box-sizing: border-box; width: 100%; font: 13px/1.5 monospace; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
</style>
<h1>{name}</h1>
<form>
<label for="body">A request to <code>{path}</code></label>
<textarea id="body" rows="8" spellcheck="false">{body}</textarea>
<p><button type="submit">Send</button> <span id="told" role="status"></span></p>
</form>
<pre id="answer" tabindex="0" aria-label="The answer"></pre>
<script nonce="{nonce}">
const told = document.getElementById("told"), answer = document.getElementById("answer");
document.querySelector("form").addEventListener("submit", async (event) => {{
  event.preventDefault();
  const began = performance.now();
  told.textContent = "…";
  answer.textContent = "";
  try {{
    const found = await fetch("{path}", {{
      method: "POST",
      headers: {{ "Content-Type": "application/json" }},
      body: document.getElementById("body").value,
    }});
    const text = await found.text();
    told.textContent = `${{found.status}}, ${{Math.round(performance.now() - began)}} ms`;
    answer.textContent = text;
  }} catch (error) {{
    told.textContent = "no answer";
    answer.textContent = String(error);
  }}
}});
</script>
</html>
"""
