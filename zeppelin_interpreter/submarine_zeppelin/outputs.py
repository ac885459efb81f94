"""A paragraph's outputs as they grow: from a kernel's messages to Zeppelin's, in its limit."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from submarine_engine import errors
from submarine_engine.logs import BarFolder, Tail

# What a paragraph shows: messages of a type, and who takes them on their way to Zeppelin.


TEXT = "TEXT"
HTML = "HTML"
TABLE = "TABLE"
IMG = "IMG"

LIMIT = 102_400
"""Bytes of text in a paragraph, as Zeppelin has it: ``zeppelin.interpreter.output.limit``."""


@dataclass(frozen=True, slots=True)
class Message:
    """One of a paragraph's outputs.

    Parameters
    ----------
    type
        One of Zeppelin's: ``TEXT``, ``HTML``, ``TABLE`` (tabs and lines) or ``IMG`` (PNG, base64).
    """

    type: str
    data: str


class Sink(Protocol):
    """Is told each change of a paragraph's outputs; its methods neither wait nor raise.

    Indices count the messages from 0. A message begins with `update`.
    """

    def append(self, index: int, text: str) -> None:
        """Add `text` to message `index`, which is of type ``TEXT``."""

    def update(self, index: int, type: str, data: str) -> None:  # noqa: A002 - Zeppelin's word
        """Begin message `index`, or replace all of it, by `data` of `type`, see `Message`."""

    def update_all(self, messages: Sequence[Message]) -> None:
        """Replace all messages; there may be fewer than before."""


# Text as a paragraph shows it: no colours, no control characters, nothing that cannot be sent.


# ECMA-48: CSI and its letter, OSC and its end, and the short ones of two characters.
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
)
# What may still become one of them: nobody's escape is longer than this.
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]{0,256}\x1b?|[ -/]*)\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def plain_text(text: str) -> str:
    r"""Return `text` as it may be shown and sent: of control characters only ``\t \n \r`` stay."""
    text = _CONTROL.sub("", _ESCAPE.sub("", text)) if _CONTROL.search(text) else text
    return sendable(text)


def sendable(text: str) -> str:
    """Return `text` without halves of surrogate pairs, which UTF-8 has no place for."""
    return text.encode("utf-8", "replace").decode()


class PlainStream:
    """`plain_text` for text that comes in pieces: an escape may be split over them."""

    def __init__(self) -> None:
        self._begun = ""

    def feed(self, text: str) -> str:
        """Return what can be shown of the next piece, `text`, and of what was held back before."""
        text = self._begun + text
        begun = _BEGUN.search(text, max(0, len(text) - 260))
        self._begun = begun[0] if begun and len(begun[0]) <= 260 else ""  # noqa: PLR2004 - as above
        return plain_text(text[: len(text) - len(self._begun)])


# Our own messages in the words of Zeppelin's people.


_OURS = frozenset(
    name
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, errors.SubmarineError)
) - {"JobFailedError"}
"""Errors whose text is ours: that of a job that failed is its code's."""

_WORDS = (
    (re.compile(r"\bcell(s?)\b"), r"paragraph\1"),
    (re.compile(r"\bbefore the notebook starts\b"), "before Zeppelin starts"),
    (re.compile(r"%%submarine\.(?=\w)"), "%submarine."),
    (re.compile(r"%%submarine\b"), "%submarine.run"),
)


def zeppelins_words(text: str) -> str:
    """Return `text` of ours as Zeppelin's people say it: a cell is a paragraph to them."""
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    return text


# From what a kernel displays to what Zeppelin can show.


JOB_TYPE = "application/vnd.submarine.job+json"
"""What a job's card says to programs; `submarine_magics.card.display` writes it."""

LOG_TYPE = "application/vnd.submarine.log+json"
"""Says that text of a job follows, with its ``job_id`` and where the ``full`` log is."""

LEFT_TYPE = "application/vnd.submarine.left+json"
"""Says that the kernel leaves its ``job_id`` to the paragraph, whether its value is ``shown`` when
it comes home, and its ``origin``."""

USE_TYPE = "application/vnd.submarine.use+json"
"""Says that jobs of the kernel go to another ``cluster`` from now on."""

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
    text = re.sub(r"[\t\r\n]+", " ", plain_text(str(value)))
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
    if below := _joined_text(data.get("below")).strip("\n"):
        found.append(Message(TEXT, plain_text(f"{below}\n")))
    return found


def _picture(bundle: Mapping[str, object]) -> list[Message]:
    if data := _base64(bundle.get("image/png")):
        return [Message(IMG, data)]
    for name, kind in _PICTURES.items():
        if data := _base64(bundle.get(name)):
            return [Message(HTML, f'<img src="data:image/{kind};base64,{data}">')]
    svg = bundle.get("image/svg+xml")
    return [Message(HTML, sendable(_joined_text(svg)))] if svg else []


def _base64(data: object) -> str:
    text = re.sub(r"\s", "", _joined_text(data))
    return text if _BASE64.fullmatch(text) else ""


def _html(bundle: Mapping[str, object]) -> list[Message]:
    html = _joined_text(bundle.get("text/html"))
    return [Message(HTML, sendable(html))] if html else []


def _text(bundle: Mapping[str, object]) -> list[Message]:
    for name in ("text/plain", "text/markdown", "text/latex"):
        if text := _joined_text(bundle.get(name)):
            return [Message(TEXT, plain_text(text).rstrip("\n") + "\n")]
    return []


def _joined_text(data: object) -> str:
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


# The prefixes by which a paragraph's own prints choose how they are shown: ``%html``, ``%table``.
#
# They mean what they mean to Zeppelin's other interpreters: at the beginning of a line, until the
# next of them; within a table only after an empty line. ``%angular`` is text: it would run code of
# the note in the browser of every reader.


_TYPES = {"%html": HTML, "%img": IMG, "%table": TABLE, "%text": TEXT}
_PREFIX = re.compile(rf"({'|'.join(_TYPES)})(?:[ \t]|(?=\n))", re.IGNORECASE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")

Piece = tuple[str | None, str]
"""A type that begins here, None where the text goes on as before; and the text."""


class Prefixes:
    """Finds prefixes in text that comes in pieces."""

    def __init__(self) -> None:
        self._type = TEXT
        self._held = ""
        self._at_start = True
        self._after_empty = True

    def feed(self, text: str) -> list[Piece]:
        """Return what the next piece of text gives; the beginning of a prefix is held back."""
        text, self._held = self._held + text, ""
        if "%" not in text:
            return self._goes_on(text)
        found: list[Piece] = []
        for line in _LINE.findall(text):
            if self._at_start and _begun(line):
                self._held = line
                break
            found += self._line(line)
        return _joined_pieces(found)

    def finish(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return held

    def _goes_on(self, text: str) -> list[Piece]:
        if text:
            last_but_one = text[-2:-1] or ("\n" if self._at_start else "")
            self._after_empty = text[-1] == "\n" and last_but_one == "\n"
            self._at_start = text[-1] == "\n"
        return [(None, text)]

    def _line(self, line: str) -> list[Piece]:
        prefix = _PREFIX.match(line) if self._at_start else None
        if prefix is None or (self._type == TABLE and not self._after_empty):
            return self._goes_on(line)
        self._type = _TYPES[prefix[1].lower()]
        rest = line[prefix.end() :].removeprefix("\n")
        self._goes_on(line)
        return [(self._type, rest)]


def _begun(line: str) -> bool:
    """Return whether a line that has not ended may still become a prefix."""
    return line[-1] not in " \t\n" and any(word.startswith(line.lower()) for word in _TYPES)


def _joined_pieces(pieces: list[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for begins, text in pieces:
        if begins is None and joined:
            joined[-1] = joined[-1][0], joined[-1][1] + text
        else:
            joined.append((begins, text))
    return joined


# The text of a paragraph within its limit: the first part as it comes, then the last lines.


_EVERY = 0.2  # seconds: each update sends the last part again, see `_LIVE_SIZE`
_LIVE_SIZE = 8_000
"""Characters of the last part while the paragraph runs: five updates a second stay a trickle."""
_LEAST_TAIL = 200


class Budget:
    """The bytes that all the texts of a paragraph may take together.

    Parameters
    ----------
    limit
        Bytes; half of them for what comes first, the rest for the last lines.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._left = limit // 2
        self._tails = 0

    def split(self, text: str) -> tuple[str, str]:
        """Take of `text` what there is room for, up to a line's end; return it, and the rest."""
        size = _wire_size(text)
        if size <= self._left:
            self._left -= size
            return text, ""
        most = len(text) * self._left // size  # by the mean: some characters take more bytes
        self._left = 0
        most = text.rfind("\n", 0, most) + 1 or most
        return text[:most], text[most:]

    def give_back(self, text: str) -> None:
        """Take `text` out of the account: it is overwritten."""
        self._left += _wire_size(text)

    def tail(self) -> Tail:
        """Make a tail; each next one is half as long, so that all of them keep to the limit."""
        self._tails += 1
        return Tail(max(_LEAST_TAIL, self.limit // 4 >> (self._tails - 1)))


class OutputBuffer:
    """One stretch of text.

    Parameters
    ----------
    budget
        Of the paragraph; what this one keeps is taken from it.
    where
        What to say where lines are left out.
    """

    def __init__(self, budget: Budget, where: str) -> None:
        self.where = where
        self.stale = False
        self._budget = budget
        self._plain = PlainStream()
        self._bars = BarFolder()
        self._head = ""
        self._tail: Tail | None = None
        self._due = 0.0

    def add(self, text: str) -> str | None:
        """Take the next text.

        Returns
        -------
        str or None
            What is to be appended; None where more than the end has changed (see `stale`).
        """
        text = self._bars.feed(self._plain.feed(text))
        if self._tail is None:
            over = text.startswith("\r")
            if over:
                kept = self._head.rfind("\n") + 1
                self._budget.give_back(self._head[kept:])
                self._head, text = self._head[:kept], BarFolder().feed(text[1:])
            head, text = self._budget.split(text)
            self._head += head
            if not text:
                self.stale = self.stale or over
                return None if over else head
            self._tail = self._budget.tail()
        self._tail.add(text)
        self.stale = True
        return None

    def due(self) -> bool:
        """Return whether the block is to be shown anew; it is not then until it changes again."""
        now = time.monotonic()
        if not self.stale or now < self._due:
            return False
        self.stale, self._due = False, now + _EVERY
        return True

    def text(self, *, live: bool = False) -> str:
        """Return the block; `live`, while the paragraph runs, only little of its last part."""
        if self._tail is None:
            return self._head
        elided, last = self._tail.last(_LIVE_SIZE if live else None)
        lines = f"{elided:,} line{'' if elided == 1 else 's'} left out{' so far' if live else ''}"
        gap = "" if not self._head or self._head.endswith("\n") else "\n"
        return f"{self._head}{gap}… {lines}; {self.where}\n\n{last}"


def _wire_size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


# A paragraph's outputs as they grow, kept within Zeppelin's limit.


_MOST_ITEMS = 500
_JOB_ID = re.compile(r"[\w.-]{1,100}")


class _DisplayItem:
    """What was displayed: messages that change only as a whole."""

    def __init__(self, messages: Sequence[Message], display_id: str | None = None) -> None:
        self.messages = list(messages)
        self.display_id = display_id


class _Printed:
    """What was printed below ``%html`` or ``%table``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.data = ""


_Item = OutputBuffer | _DisplayItem | _Printed


class Outputs:
    """Makes a paragraph's messages of what its kernel sends.

    Parameters
    ----------
    sink
        Told of each change.
    limit
        Bytes of text that the paragraph keeps: of more, the first and the last lines.
    prefixes
        Whether lines of stdout that begin with ``%html``, ``%table``, ``%img`` or ``%text`` say
        how what follows is shown. It ends with the first text of a job, which is text always.
    """

    def __init__(self, sink: Sink, limit: int = LIMIT, *, prefixes: bool = False) -> None:
        self._sink = sink
        self._budget = Budget(max(limit, 0))
        self._prefixes = Prefixes() if prefixes else None
        self._items: list[_Item] = []
        self._room = MOST_SHOWN
        self._clear = False
        self._where = f"a paragraph shows {limit:,} bytes (zeppelin.interpreter.output.limit)"

    def stream(self, name: str, text: str) -> None:
        """Take `text` that was written to `name`, ``stdout`` or ``stderr``."""
        if not text:
            return
        self._clear_if_waiting()
        if self._prefixes is None or name != "stdout":
            self._add_text(text)
            return
        for kind, piece in self._prefixes.feed(text):
            if kind is not None:
                self._begin(kind)
            if piece:
                self._add(piece)

    def say(self, text: str) -> None:
        """Show the line `text` of our own."""
        self._clear_if_waiting()
        self._add_text(f"{text}\n")

    def display(self, bundle: Mapping[str, object], display_id: str | None = None) -> None:
        """Take something displayed, or a result.

        Parameters
        ----------
        bundle
            Its forms by MIME type.
        display_id
            By what `update` finds it; None where it stays as it is.
        """
        self._look_for_job(bundle)
        if messages := to_messages(bundle):
            self._clear_if_waiting()
            self._new(_DisplayItem(self._affordable(messages), display_id))

    def update(self, bundle: Mapping[str, object], display_id: str) -> None:
        """Take `bundle`, a new state of what was displayed as `display_id`, wherever it stands."""
        self._look_for_job(bundle)
        messages = to_messages(bundle)
        for item in self._items:
            if isinstance(item, _DisplayItem) and item.display_id == display_id:
                self._room += _message_size(item.messages)
                self._change(item, self._affordable(messages))

    def clear(self, wait: bool = False) -> None:  # noqa: FBT001, FBT002 - as the kernel says it
        """Take everything away, with `wait` only as something new comes."""
        self._clear = wait
        if not wait:
            self._items, self._room = [], MOST_SHOWN
            self._budget = Budget(self._budget.limit)
            self._sink.update_all([])

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Take an error as the kernel shows it.

        Parameters
        ----------
        ename, evalue
            Its type and message, shown where there is no traceback.
        traceback
            The lines of it, with colours.
        """
        text = plain_text("\n".join(traceback) or f"{ename}: {evalue}").rstrip("\n")
        text = zeppelins_words(text) if ename in _OURS else text
        if len(text) > self._budget.limit:
            half = self._budget.limit // 2
            text = f"{text[:half]}\n…\n{text[len(text) - half :]}"
        self._clear_if_waiting()
        self._new(_DisplayItem([Message(TEXT, f"{text}\n")]))

    def tick(self) -> None:
        """Show what was held back, if its time has come; call this all the while."""
        for item in self._items:
            if isinstance(item, OutputBuffer) and item.due():
                self._sink.update(self._index(item), TEXT, item.text(live=True))

    def messages(self) -> list[Message]:
        """Return all that the paragraph shows; held back is nothing any more."""
        if self._prefixes is not None and (held := self._prefixes.finish()):
            self._add(held)
        return self._all()

    # What changes

    def _all(self) -> list[Message]:
        return [message for item in self._items for message in _messages(item)]

    def _clear_if_waiting(self) -> None:
        if self._clear:
            self.clear()

    def _look_for_job(self, bundle: Mapping[str, object]) -> None:
        for name in (JOB_TYPE, LOG_TYPE):
            data = bundle.get(name)
            if not isinstance(data, Mapping):
                continue
            if self._prefixes is not None and (held := self._prefixes.finish()):
                self._add(held)
            self._prefixes = None
            job_id, full = data.get("job_id"), data.get("full")
            if isinstance(full, str) and full:
                self._where = f"full log: {sendable(full)}"
            elif (
                isinstance(job_id, str) and _JOB_ID.fullmatch(job_id) and "log:" not in self._where
            ):
                self._where = f"full log: %submarine job logs {job_id}"

    def _add(self, text: str) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, _Printed):
            self._add_printed(last, text)
        else:
            self._add_text(text)

    def _add_text(self, text: str) -> None:
        if not self._items or not isinstance(self._items[-1], OutputBuffer):
            self._new(OutputBuffer(self._budget, self._where))
        block = self._items[-1]
        if not isinstance(block, OutputBuffer):  # there are too many outputs already
            return
        block.where = self._where
        more = block.add(text)
        if more:
            self._sink.append(self._index(block), more)
        elif block.due():
            self._sink.update(self._index(block), TEXT, block.text(live=True))

    def _add_printed(self, item: _Printed, text: str) -> None:
        text, rest = self._budget.split(sendable(text))
        if text:
            item.data += text
            self._sink.update(self._index(item), item.kind, item.data)
        if rest:
            self._begin(TEXT)
            self._add_text(rest)

    def _begin(self, kind: str) -> None:
        self._new(OutputBuffer(self._budget, self._where) if kind == TEXT else _Printed(kind))

    def _new(self, item: _Item) -> None:
        if len(self._items) > _MOST_ITEMS:
            return
        if len(self._items) == _MOST_ITEMS:
            item = _DisplayItem(
                [Message(TEXT, f"… more than {_MOST_ITEMS} outputs are left out\n")]
            )
        self._items.append(item)
        first = self._index(item)
        for offset, message in enumerate(_messages(item)):
            self._sink.update(first + offset, message.type, message.data)

    def _change(self, item: _DisplayItem, messages: Sequence[Message]) -> None:
        former, item.messages = item.messages, list(messages)
        if len(former) != len(messages):
            self._sink.update_all(self._all())
            return
        first = self._index(item)
        for offset, (old, new) in enumerate(zip(former, messages, strict=True)):
            if old != new:
                self._sink.update(first + offset, new.type, new.data)

    def _affordable(self, messages: Sequence[Message]) -> list[Message]:
        size = _message_size(messages)
        if size > self._room:
            what = f"an output of {size:,} characters is left out"
            messages = [Message(TEXT, f"{what}: those of a paragraph may take {MOST_SHOWN:,}\n")]
        self._room -= _message_size(messages)
        return list(messages)

    def _index(self, item: _Item) -> int:
        before = self._items[: self._items.index(item)]
        return sum(
            len(other.messages) if isinstance(other, _DisplayItem) else 1 for other in before
        )


def _messages(item: _Item) -> list[Message]:
    if isinstance(item, _DisplayItem):
        return item.messages
    if isinstance(item, _Printed):
        return [Message(item.kind, _whole(item))]
    return [Message(TEXT, item.text())]


def _whole(item: _Printed) -> str:
    return item.data.strip() if item.kind not in (HTML, TABLE) else item.data


def _message_size(messages: Sequence[Message]) -> int:
    return sum(len(message.data) for message in messages)
