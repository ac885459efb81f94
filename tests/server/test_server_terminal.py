"""A terminal inside a running job, through Jupyter's own."""

from __future__ import annotations

import asyncio
import json

import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.jobs import until
from tests.server.conftest import TOKEN

STAYS = "import time\ntime.sleep(600)\n"
WITH = (
    '--ServerApp.jpserver_extensions={"submarine_jupyter": True, "jupyter_server_terminals": True}'
)


async def said(url, typed, wanted):
    headers = {"Authorization": f"token {TOKEN}"}
    connection = await websocket_connect(HTTPRequest(url, headers=headers))
    await connection.write_message(json.dumps(["stdin", typed]))
    text = ""
    while wanted not in text:
        kind, *content = json.loads(await asyncio.wait_for(connection.read_message(), 180))
        text += str(content[0]) if kind == "stdout" else ""
    connection.close()
    return text


@pytest.mark.long
def test_a_terminal_of_jupyters_leads_into_the_job(start_server, submit):
    server = start_server(WITH)
    job = submit(STAYS, name="stays")
    until(lambda: server.get(f"/api/jobs/{job}").json()["state"] == "running")
    answer = server.post(f"/api/jobs/{job}/terminal", json={})
    assert answer.status_code == 200, answer.text
    base = f"ws://127.0.0.1:{server.port}/terminals/websocket/{answer.json()['name']}"
    typed = "echo said:$SUBMARINE_JOB_ID:$((20 + 1))\r"
    asyncio.run(said(base, typed, f"said:{job}:21"))
    server.post(f"/api/jobs/{job}/kill", json={})
    until(lambda: server.get(f"/api/jobs/{job}").json()["state"] == "cancelled")
    answer = server.post(f"/api/jobs/{job}/terminal", json={})
    assert (answer.status_code, "is over (cancelled)" in answer.json()["what"]) == (409, True)


def test_a_server_without_terminals_says_so(server, submit):
    job = submit(STAYS)
    until(lambda: server.get(f"/api/jobs/{job}").json()["state"] == "running")
    answer = server.post(f"/api/jobs/{job}/terminal", json={})
    assert answer.json()["what"] == "this server has no terminals"
    assert f"submarine job shell {job}" in answer.json()["fix"]
    server.post(f"/api/jobs/{job}/kill", json={})
