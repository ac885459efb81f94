"""Zeppelin's REST pages and its websocket, as its own web UI uses them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.cookiejar import CookieJar
from typing import Any

import websocket

LIMIT = 180.0
OVER = ("FINISHED", "ERROR", "ABORT")


class Client:
    """One person's browser, as far as REST goes; logs in where a name is given."""

    def __init__(self, url: str, user: str = "", password: str = "") -> None:
        self.url = url
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        self.ticket = {"principal": "anonymous", "ticket": "anonymous", "roles": "[]"}
        if user:
            form = urllib.parse.urlencode({"userName": user, "password": password}).encode()
            self.ticket = self._open("POST", "/login", form)["body"]

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the ``body`` of an answer; an `AssertionError` says what went wrong."""
        data = None if body is None else json.dumps(body).encode()
        return self._open(method, path, data, "application/json").get("body")

    def _open(self, method: str, path: str, data: bytes | None, kind: str = "") -> Any:
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.url}/api{path}", data=data, method=method
        )
        if kind:
            request.add_header("Content-Type", kind)
        try:
            with self._opener.open(request, timeout=LIMIT) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:2000]
            raise AssertionError(f"{method} {path}: {error}: {said}") from error

    def note(self, name: str, *paragraphs: str | tuple[str, str]) -> Note:
        """Make a note; a paragraph is its text, or a pair of title and text."""
        told = [
            {"text": p} if isinstance(p, str) else {"title": p[0], "text": p[1]} for p in paragraphs
        ]
        return Note(self, self.call("POST", "/notebook", {"name": name, "paragraphs": told}))

    def open(self, note_id: str) -> Note:
        """Return a note that is there."""
        return Note(self, note_id)

    def import_note(self, exported: str) -> Note:
        """Import an exported note, as JSON."""
        return Note(self, self.call("POST", "/notebook/import", json.loads(exported)))

    def setting(self) -> dict[str, Any]:
        """Return the setting of Submarine's interpreter."""
        return next(s for s in self.call("GET", "/interpreter/setting") if s["name"] == "submarine")

    def configure(self, *, option: Mapping[str, Any] | None = None, **properties: str) -> None:
        """Change options and properties (``__`` means ``.``) of the setting; restarts it."""
        setting = self.setting()
        for name, value in properties.items():
            key = name.replace("__", ".")
            setting["properties"][key] = {"name": key, "value": value, "type": "string"}
        setting["option"].update(option or {})
        self.call("PUT", f"/interpreter/setting/{setting['id']}", setting)

    def restart(self, note: Note | None = None) -> None:
        """Restart Submarine's interpreter, for all notes or, where it is not shared, for one."""
        body = {"noteId": note.id} if note else None
        self.call("PUT", f"/interpreter/setting/restart/{self.setting()['id']}", body)

    @contextmanager
    def socket(self) -> Iterator[Socket]:
        """Open a websocket as this person."""
        opened = Socket(self.url, self.ticket)
        try:
            yield opened
        finally:
            opened.close()


class Note:
    """A note; its paragraphs by their number from 0."""

    def __init__(self, client: Client, note_id: str) -> None:
        self.client, self.id = client, note_id

    @property
    def ids(self) -> list[str]:
        """Ids of the paragraphs, in order."""
        return [p["id"] for p in self.client.call("GET", f"/notebook/{self.id}")["paragraphs"]]

    def add(self, text: str, title: str = "") -> int:
        """Add a paragraph; return its number."""
        body = {"text": text, **({"title": title} if title else {})}
        self.client.call("POST", f"/notebook/{self.id}/paragraph", body)
        return len(self.ids) - 1

    def change(self, number: int, text: str) -> None:
        """Write another text into a paragraph."""
        self.client.call("PUT", f"/notebook/{self.id}/paragraph/{self.ids[number]}", {"text": text})

    def paragraph(self, number: int) -> dict[str, Any]:
        """Return a paragraph as the server has it: status, progress, results, runtimeInfos."""
        return self.client.call("GET", f"/notebook/{self.id}/paragraph/{self.ids[number]}")

    def start(self, number: int) -> None:
        """Run a paragraph; don't wait for it."""
        self.client.call("POST", f"/notebook/job/{self.id}/{self.ids[number]}", {})

    def cancel(self, number: int) -> None:
        """Cancel a paragraph."""
        self.client.call("DELETE", f"/notebook/job/{self.id}/{self.ids[number]}")

    def wait(
        self, number: int, condition: Callable[[dict[str, Any]], Any] | None = None
    ) -> dict[str, Any]:
        """Return a paragraph when it is over, or when the condition holds for it."""
        end = time.monotonic() + LIMIT
        while True:
            found = self.paragraph(number)
            if condition and condition(found):
                return found
            if not condition and found["status"] in OVER:
                return self.paragraph(number)  # its status is read last: the rest may be older
            assert time.monotonic() < end, f"not so after {LIMIT} s: {found}"
            time.sleep(0.05)

    def run(self, number: int) -> dict[str, Any]:
        """Run a paragraph to its end; return it."""
        self.start(number)
        return self.wait(number)

    def write(self, text: str, title: str = "") -> dict[str, Any]:
        """Add a paragraph and run it to its end; return it."""
        return self.run(self.add(text, title))

    def delete(self) -> None:
        """Remove the note."""
        self.client.call("DELETE", f"/notebook/{self.id}")


def outputs(paragraph: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a paragraph's outputs: type (``TEXT``, ``HTML`` …) and data."""
    found = paragraph.get("results") or {}
    return [(message["type"], message["data"]) for message in found.get("msg", ())]


def text(paragraph: Mapping[str, Any]) -> str:
    """Return what a paragraph shows as plain text."""
    return "".join(data for kind, data in outputs(paragraph) if kind == "TEXT")


class Socket:
    """Zeppelin's websocket: messages out, and all that came in."""

    def __init__(self, url: str, ticket: Mapping[str, str]) -> None:
        self._ticket = dict(ticket)
        self._socket = websocket.create_connection(
            url.replace("http", "ws", 1) + "/ws", timeout=LIMIT, http_no_proxy=["127.0.0.1"]
        )
        self.messages: list[dict[str, Any]] = []

    def send(self, op: str, **data: object) -> None:
        """Send one message."""
        self._socket.send(json.dumps({"op": op, "data": data, **self._ticket}))

    def next(self) -> dict[str, Any]:
        """Return the next message: ``op`` and ``data``."""
        message: dict[str, Any] = json.loads(self._socket.recv())
        self.messages.append(message)
        return message

    def until(self, op: str, condition: Callable[[Any], Any] = bool) -> Any:
        """Return the data of the next message of this kind for which the condition holds."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            message = self.next()
            if message["op"] == op and condition(message.get("data")):
                return message["data"]
        raise AssertionError(f"no {op} after {LIMIT} s")

    def watch(self, note: Note) -> Any:
        """Open a note, so that its paragraphs' changes come; return it as the server has it."""
        self.send("GET_NOTE", id=note.id)
        return self.until("NOTE")["note"]

    def close(self) -> None:
        """Close the connection."""
        with suppress(websocket.WebSocketException, OSError):
            self._socket.close()
