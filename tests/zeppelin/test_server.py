"""The Zeppelin that tests stand on: a real one, which knows our interpreter and leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs import until
from tests.zeppelin.rest import Client, text


def test_a_real_server_knows_the_interpreter(client):
    assert client.call("GET", "/version")["version"].startswith("0.10")
    setting = client.setting()
    assert [i["name"] for i in setting["interpreterGroup"]] == ["submarine", "python", "run", "sh"]


def test_notes_and_the_websocket(client, note):
    number = note.add("%md nothing", "a title")
    with client.socket() as socket:
        found = socket.watch(note)
    assert found["paragraphs"][number]["title"] == "a title"
    assert note.paragraph(number)["status"] == "READY"


@pytest.mark.long
def test_users_log_in_and_nothing_of_a_killed_server_is_left(zeppelin_of_its_own):
    server = zeppelin_of_its_own(users={"ada": "one", "bob": "two"})
    ada = Client(server.url, "ada", "one")
    assert ada.ticket["principal"] == "ada"
    note = ada.note("hers")
    server.kill()
    server.start()
    again = Client(server.url, "bob", "two")
    assert note.id in [found["id"] for found in again.call("GET", "/notebook")]
    server.close()
    until(lambda: not Path(f"/proc/{server.pid}").exists())
    assert text({}) == ""
