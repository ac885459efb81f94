"""What a browser would show of all that a paragraph's sink was told."""

from __future__ import annotations

import pytest
from submarine_zeppelin.outputs import Message


class Shown:
    """What a browser would show of all that the sink was told."""

    def __init__(self):
        self.messages: list[Message] = []
        self.calls = 0

    def append(self, index, text):
        self.calls += 1
        assert self.messages[index].type == "TEXT"
        self.messages[index] = Message("TEXT", self.messages[index].data + text)

    def update(self, index, type, data):  # noqa: A002 - as in Sink
        self.calls += 1
        self.messages[index : index + 1] = [Message(type, data)]

    def update_all(self, messages):
        self.calls += 1
        self.messages = list(messages)


@pytest.fixture
def shown():
    return Shown()


def texts(outputs):
    return [(message.type, message.data) for message in outputs.messages()]
