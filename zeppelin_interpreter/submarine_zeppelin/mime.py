"""From what a kernel displays to what Zeppelin can show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from submarine_zeppelin.message import HTML, IMG, TABLE, TEXT, Message
from submarine_zeppelin.plain import plain, sendable

JOB_TYPE = "application/vnd.submarine.job+json"
"""What a job's card says to programs; `submarine_magics.card.mime` writes it."""

LOG_TYPE = "application/vnd.submarine.log+json"
"""Says that text of a job follows, with its ``job_id`` and where the ``full`` log is."""

TABLE_TYPE = "application/vnd.submarine.table+json"
"""A table: ``columns`` and ``rows`` of texts, how many rows there are in ``total``, and the lines
``below`` it."""

MOST_SHOWN = 4_000_000
"""Characters of one output: notes of more than 10 MB do not open in a browser any more."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_PICTURES = {"image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}


def to_messages(bundle: Mapping[str, object]) -> list[Message]:
    """Return what Zeppelin shows of a mimebundle: the richest form that it knows.

    Scripts are never among them: ``application/javascript`` and the views of widgets are left to
    the forms that stand beside them.

    Parameters
    ----------
    bundle
        Data by MIME type, as a kernel sends it; whatever does not make sense is passed over.

    Returns
    -------
    list of Message
        Empty where there is nothing to show.
    """
    for found in (_table(bundle), _picture(bundle), _html(bundle), _text(bundle)):
        if found:
            return [_within_limit(message) for message in found]
    return []


def table_text(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as Zeppelin's ``TABLE``: a line each, cells parted by tabs.

    A cell that begins with ``%html`` would be shown as markup: it gets a space before it.
    """
    return "".join("\t".join(map(_cell, row)) + "\n" for row in rows)


def _cell(value: object) -> str:
    text = re.sub(r"[\t\r\n]+", " ", plain(str(value)))
    return f" {text}" if text.startswith("%") else text


def _table(bundle: Mapping[str, object]) -> list[Message]:
    data = bundle.get(TABLE_TYPE)
    if not isinstance(data, Mapping):
        return []
    columns, rows, total = data.get("columns"), data.get("rows"), data.get("total")
    if not isinstance(columns, list) or not isinstance(rows, list):
        return []
    if not all(isinstance(row, list) for row in rows):
        return []
    found = [Message(TABLE, table_text([columns, *rows]))]
    if isinstance(total, int) and total > len(rows):
        found.append(Message(TEXT, f"the first {len(rows):,} of {total:,} rows\n"))
    if below := _joined(data.get("below")).strip("\n"):
        found.append(Message(TEXT, plain(f"{below}\n")))
    return found


def _picture(bundle: Mapping[str, object]) -> list[Message]:
    if data := _base64(bundle.get("image/png")):
        return [Message(IMG, data)]
    for name, kind in _PICTURES.items():
        if data := _base64(bundle.get(name)):
            return [Message(HTML, f'<img src="data:image/{kind};base64,{data}">')]
    svg = bundle.get("image/svg+xml")
    return [Message(HTML, sendable(_joined(svg)))] if svg else []


def _base64(data: object) -> str:
    text = re.sub(r"\s", "", _joined(data))
    return text if _BASE64.fullmatch(text) else ""


def _html(bundle: Mapping[str, object]) -> list[Message]:
    html = _joined(bundle.get("text/html"))
    return [Message(HTML, sendable(html))] if html else []


def _text(bundle: Mapping[str, object]) -> list[Message]:
    for name in ("text/plain", "text/markdown", "text/latex"):
        if text := _joined(bundle.get(name)):
            return [Message(TEXT, plain(text).rstrip("\n") + "\n")]
    return []


def _joined(data: object) -> str:
    """Return text that may have come as a list of lines."""
    if isinstance(data, list) and all(isinstance(line, str) for line in data):
        return "".join(data)
    return data if isinstance(data, str) else ""


def _within_limit(message: Message) -> Message:
    size = len(message.data)
    if size <= MOST_SHOWN:
        return message
    if message.type == TEXT:
        return Message(
            TEXT, f"{message.data[:MOST_SHOWN]}\n… {size - MOST_SHOWN:,} more left out\n"
        )
    kind = {HTML: "HTML", TABLE: "table", IMG: "picture"}[message.type]
    return Message(TEXT, f"{kind} of {size:,} characters left out: a note shows {MOST_SHOWN:,}\n")
