"""Webhooks of real jobs: told by a process of its own, which nothing waits for."""

from __future__ import annotations

import os
import signal

import pytest
from submarine_engine.cli import main
from submarine_engine.clusters import outbox
from submarine_engine.history import read_json
from submarine_engine.job import JobState

from tests.jobs import until
from tests.webhook import receiver

PATH = "/services/aVerySecretToken"


@pytest.fixture
def webhook(monkeypatch):
    monkeypatch.setenv("SUBMARINE_NOTIFY_PRIVATE", "true")
    with receiver() as server:
        yield server


def noted(local, job_id):
    return (read_json(local.paths(job_id).root / outbox.NOTIFIED) or {}).get("state")


def test_a_job_is_over_and_its_gpu_free_while_its_webhook_hangs(
    local, declare_gpus, webhook, monkeypatch, capsys
):
    declare_gpus(1)
    webhook.answers_now.clear()
    monkeypatch.setenv("CHAT", webhook.url + PATH)
    first = local.submit("import os; print(os.environ['CHAT'])", gpus=1, notify="CHAT")
    until(lambda: webhook.got)
    assert local.state(first) is JobState.SUCCEEDED
    assert local.run("1", gpus=1).state is JobState.SUCCEEDED  # which waits for the GPU
    log = local.follow(first).logs["stdout"]
    assert b"secret notify" in log
    assert b"aVerySecret" not in log
    assert noted(local, first) == "sending"
    assert any("notify.py" in command for command in local.processes().values())
    assert not any("aVerySecret" in command for command in local.processes().values())
    webhook.answers_now.set()
    until(lambda: noted(local, first) == "sent")
    assert main(["job", "show", first]) == 0
    shown = capsys.readouterr().out
    assert f"{webhook.url.removeprefix('http://')} (sent)" in shown
    assert "aVerySecret" not in shown
    path, _, told = webhook.got[0]
    assert path == PATH
    assert (told["id"], told["state"], told["log"]) == (first, "succeeded", None)
    assert told["gpu_seconds"]["held"] >= told["gpu_seconds"]["busy"] > 0


def test_one_that_is_cancelled_in_the_queue_is_told_and_one_whose_supervisor_was_killed(
    local, declare_gpus, webhook
):
    declare_gpus(1)
    started = local.folder / "started"
    script = f"import pathlib, time\npathlib.Path({str(started)!r}).touch()\ntime.sleep(600)"
    running = local.submit(script, gpus=1, notify=webhook.url)
    local.until_running(running, started)
    waiting = local.submit("1", gpus=1, notify=webhook.url)
    local.cluster.cancel(waiting, "enough")
    until(lambda: noted(local, waiting) == "sent")
    os.kill(local.supervisor(running), signal.SIGKILL)
    until(lambda: local.state(running).final)
    until(lambda: noted(local, running) == "sent")
    told = {told["id"]: (told["state"], told["reason"]) for _, _, told in webhook.got}
    assert told[waiting] == ("cancelled", "enough")
    assert told[running][0] == "lost"
