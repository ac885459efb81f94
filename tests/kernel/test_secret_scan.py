"""A marked secret is in no byte that anybody else, or a reader of the notebook, can see."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest
from submarine_engine.history import job_ids

from tests.jobs import until
from tests.kernels import start
from tests.server.conftest import Server

MARK = "hf_" + "M4rk3dS3cr3t" * 3
NOBODY = 65534
LOOK = """
import os, sys
os.setgid({uid}); os.setuid({uid})
mark, seen, held = sys.argv[1].encode(), 0, []
files = [f"/proc/{{pid}}/{{name}}" for pid in os.listdir("/proc") if pid.isdecimal()
         for name in ("cmdline", "environ") if int(pid) != os.getpid()]
files += [os.path.join(top, name) for top, _, names in os.walk(sys.argv[2]) for name in names]
for file in files:
    try:
        data = open(file, "rb").read() if not os.path.exists(file) or os.path.isfile(file) else b""
    except OSError:
        continue
    seen += 1
    held += [file] if mark in data else []
print(seen, held)
"""


def seen_by_another(home):
    """Return what holds the secret of all that another user of the machine can read."""
    if os.getuid():
        pytest.fail("needs root, to be another user: run the tests in a container")
    command = [sys.executable, "-c", LOOK.format(uid=NOBODY), MARK, str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    seen, _, held = done.stdout.partition(" ")
    assert int(seen) > 1
    return held.strip()


@pytest.mark.service
def test_a_secret_of_the_notebook_stays_one(driven, tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # the modes of our own folders are to hold, not pytest's
    gate = tmp_path / "gate"
    kernel = driven(env={"HF_TOKEN": MARK})
    messages = kernel.run("import os, time; token = os.environ['HF_TOKEN']").messages
    messages += kernel.run("config = {'to': [token]}\ndef known(t=token): return len(t)").messages
    sent, come = start(
        kernel,
        "%%submarine --gpus 0 -o lengths\nprint('on', flush=True)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
        "lengths = [len(token), len(config['to'][0]), known()]\n",
    )
    assert seen_by_another(tmp_path) == "[]"
    gate.touch()
    messages += [*come, *kernel.collect(sent).messages]
    assert kernel.value("lengths") == str([len(MARK)] * 3)
    assert MARK not in json.dumps(messages, default=str)
    (job_id,) = job_ids(tmp_path)
    job = tmp_path / "jobs" / job_id
    until(lambda: not (job / "reserve").exists())

    holding = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and MARK.encode() in path.read_bytes()
    ]
    assert {path.parent.name for path in holding} <= {"values", "results"}, holding
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}
    assert "<secret, str, 39 chars>" in (job / "bundle" / "manifest.json").read_text()
    assert seen_by_another(tmp_path) == "[]"

    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder, tmp_path)
    try:
        api = f"/api/jobs/{job_id}"
        pages = [f"/jobs/{job_id}", "/api/overview", "/api/jobs", api, f"{api}/card"]
        pages += [f"{api}/script", f"{api}/manifest", f"{api}/logs/worker-0/stdout"]
        answers = [server.get(page) for page in pages]
    finally:
        server.stop()
    assert [answer.status_code for answer in answers] == [200] * len(pages)
    assert [answer.url for answer in answers if MARK in answer.text] == []
