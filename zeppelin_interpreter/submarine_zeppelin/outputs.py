"""A paragraph's outputs as they grow, kept within Zeppelin's limit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from submarine_zeppelin.block import Block, Budget
from submarine_zeppelin.message import HTML, LIMIT, TABLE, TEXT, Message, Sink
from submarine_zeppelin.mime import JOB_TYPE, LOG_TYPE, MOST_SHOWN, to_messages
from submarine_zeppelin.plain import plain, sendable
from submarine_zeppelin.prefixes import Prefixes

__all__ = ["LIMIT", "Message", "Outputs", "Sink"]

_MOST_ITEMS = 500
_JOB_ID = re.compile(r"[\w.-]{1,100}")


class _Shown:
    """What was displayed: messages that change only as a whole."""

    def __init__(self, messages: Sequence[Message], display_id: str | None = None) -> None:
        self.messages = list(messages)
        self.display_id = display_id


class _Printed:
    """What was printed below ``%html`` or ``%table``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.data = ""


_Item = Block | _Shown | _Printed


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
        """Take what was written to ``stdout`` or ``stderr``."""
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
        """Show a line of our own."""
        self._clear_if_waiting()
        self._add_text(f"{text}\n")

    def display(self, bundle: Mapping[str, object], display_id: str | None = None) -> None:
        """Take something displayed, or a result."""
        self._look_for_job(bundle)
        if messages := to_messages(bundle):
            self._clear_if_waiting()
            self._new(_Shown(self._affordable(messages), display_id))

    def update(self, bundle: Mapping[str, object], display_id: str) -> None:
        """Take a new state of what was displayed under that id, wherever it stands."""
        self._look_for_job(bundle)
        messages = to_messages(bundle)
        for item in self._items:
            if isinstance(item, _Shown) and item.display_id == display_id:
                self._room += _size(item.messages)
                self._change(item, self._affordable(messages))

    def clear(self, wait: bool = False) -> None:  # noqa: FBT001, FBT002 - as the kernel says it
        """Take everything away, with `wait` only as something new comes."""
        self._clear = wait
        if not wait:
            self._items, self._room = [], MOST_SHOWN
            self._budget = Budget(self._budget.limit)
            self._sink.update_all([])

    def error(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Take an error as the kernel shows it."""
        text = plain("\n".join(traceback) or f"{ename}: {evalue}").rstrip("\n")
        if len(text) > self._budget.limit:
            half = self._budget.limit // 2
            text = f"{text[:half]}\n…\n{text[-half:]}"
        self._clear_if_waiting()
        self._new(_Shown([Message(TEXT, f"{text}\n")]))

    def tick(self) -> None:
        """Show what was held back, if its time has come; call this all the while."""
        for item in self._items:
            if isinstance(item, Block) and item.due():
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
        if not self._items or not isinstance(self._items[-1], Block):
            self._new(Block(self._budget, self._where))
        block = self._items[-1]
        if not isinstance(block, Block):  # there are too many outputs already
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
        self._new(Block(self._budget, self._where) if kind == TEXT else _Printed(kind))

    def _new(self, item: _Item) -> None:
        if len(self._items) > _MOST_ITEMS:
            return
        if len(self._items) == _MOST_ITEMS:
            item = _Shown([Message(TEXT, f"… more than {_MOST_ITEMS} outputs are left out\n")])
        self._items.append(item)
        first = self._index(item)
        for offset, message in enumerate(_messages(item)):
            self._sink.update(first + offset, message.type, message.data)

    def _change(self, item: _Shown, messages: Sequence[Message]) -> None:
        former, item.messages = item.messages, list(messages)
        if len(former) != len(messages):
            self._sink.update_all(self._all())
            return
        first = self._index(item)
        for offset, (old, new) in enumerate(zip(former, messages, strict=True)):
            if old != new:
                self._sink.update(first + offset, new.type, new.data)

    def _affordable(self, messages: Sequence[Message]) -> list[Message]:
        size = _size(messages)
        if size > self._room:
            what = f"an output of {size:,} characters is left out"
            messages = [Message(TEXT, f"{what}: those of a paragraph may take {MOST_SHOWN:,}\n")]
        self._room -= _size(messages)
        return list(messages)

    def _index(self, item: _Item) -> int:
        before = self._items[: self._items.index(item)]
        return sum(len(other.messages) if isinstance(other, _Shown) else 1 for other in before)


def _messages(item: _Item) -> list[Message]:
    if isinstance(item, _Shown):
        return item.messages
    if isinstance(item, _Printed):
        return [Message(item.kind, _whole(item))]
    return [Message(TEXT, item.text())]


def _whole(item: _Printed) -> str:
    return item.data.strip() if item.kind not in (HTML, TABLE) else item.data


def _size(messages: Sequence[Message]) -> int:
    return sum(len(message.data) for message in messages)
