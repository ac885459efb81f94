"""A marked secret is in no byte that anybody else, or a reader of the notebook, can see."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.clusters.local import zygotes
from submarine_engine.history import job_ids

from tests.jobs import until
from tests.kernels import start
from tests.server.conftest import Server

MARK = "hf_" + "M4rk3dS3cr3t" * 3
MASK = "<secret MARKED>".ljust(len(MARK), "*")
# Counts as heavy, whatever it imports: then a process is kept that has imported it.
HEAVY = "import submarine_runtime.imported_modules as imported; imported.HEAVY = 0\n"
NOBODY = 65534
LOOK = """
import os, sys
os.setgid({uid}); os.setuid({uid})
mark, seen, held = sys.stdin.read().encode(), 0, []
files = [f"/proc/{{pid}}/{{name}}" for pid in os.listdir("/proc") if pid.isdecimal()
         for name in ("cmdline", "environ") if int(pid) != os.getpid()]
files += [os.path.join(top, name) for top, _, names in os.walk(sys.argv[1]) for name in names]
for file in files:
    try:
        data = open(file, "rb").read() if not os.path.exists(file) or os.path.isfile(file) else b""
    except OSError:
        continue
    seen += 1
    held += [file] if mark in data else []
print(seen, held)
"""


def let_others_in(folder):
    """Let all users into a test's folder: the modes of our own are to hold, not pytest's."""
    top = Path(tempfile.gettempdir())
    for each in (folder, *folder.parents):
        if each.is_relative_to(top) and each != top:
            each.chmod(0o755)


def seen_by_another(home, mark=MARK):
    """Return what holds the secret of all that another user of the machine can read."""
    if os.getuid():
        pytest.fail("needs root, to be another user: run the tests in a container")
    command = [sys.executable, "-c", LOOK.format(uid=NOBODY), str(home)]
    # By a pipe: another test that looks at the same time would find an argument.
    done = subprocess.run(command, input=mark, capture_output=True, text=True, check=True, cwd="/")
    seen, _, held = done.stdout.partition(" ")
    assert int(seen) > 1
    return held.strip()


def holding_the_mark(folder):
    """Return the files that hold the secret; what is gone meanwhile, as a job writes, has none."""
    found = []
    for top, _, names in os.walk(folder):
        for path in (Path(top, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and MARK.encode() in path.read_bytes():
                    found.append(path)
    return found


def answers_of(folder, home, job_id):
    """Return what Jupyter's server says of a job, on every route."""
    folder.mkdir()
    server = Server(folder, home)
    try:
        api = f"/api/jobs/{job_id}"
        log, output = f"{api}/logs/worker-0/stdout", f"{api}/output/worker-0"
        pages = [f"/jobs/{job_id}", "/api/overview", "/api/jobs", api, f"{api}/card", log]
        pages += [f"{api}/script", f"{api}/manifest", f"{log}/lines", f"{log}/file"]
        pages += [f"{log}/search?text={MARK[:9]}", f"{output}/lines", f"{output}/file"]
        return [server.get(page) for page in pages]
    finally:
        server.stop()


@pytest.mark.service
def test_a_secret_of_the_notebook_stays_one(driven, tmp_path):
    let_others_in(tmp_path)
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
    (tmp_path / "open").write_text(MARK)
    (tmp_path / "open").chmod(0o644)
    assert seen_by_another(tmp_path) == f"['{tmp_path / 'open'}']"  # it does look
    (tmp_path / "open").unlink()
    assert seen_by_another(tmp_path) == "[]"
    gate.touch()
    messages += [*come, *kernel.collect(sent).messages]
    assert kernel.value("lengths") == str([len(MARK)] * 3)
    assert MARK not in json.dumps(messages, default=str)
    (job_id,) = job_ids(tmp_path)
    job = tmp_path / "jobs" / job_id
    until(lambda: not (job / "reserve").exists())

    holding = holding_the_mark(tmp_path)
    assert {path.parent.name for path in holding} <= {"values", "results"}, holding
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}
    assert "<secret, str, 39 chars>" in (job / "bundle" / "manifest.json").read_text()
    assert seen_by_another(tmp_path) == "[]"

    answers = answers_of(tmp_path / "server", tmp_path, job_id)
    assert {answer.status_code for answer in answers} == {200}
    assert [answer.url for answer in answers if MARK in answer.text] == []


@pytest.mark.service
@pytest.mark.parametrize("isolation", ["fresh", pytest.param("shared", marks=pytest.mark.long)])
def test_a_secret_that_a_job_is_given_stays_one(driven, tmp_path, isolation):
    let_others_in(tmp_path)
    gate = tmp_path / "gate"
    kernel = driven(env={"MARKED": MARK, "SUBMARINE_IMPORTS_AHEAD": "true"})
    if isolation == "shared":  # the next is forked from a process that has the same environment
        kernel.run("from submarine_engine.clusters.local import zygotes; zygotes._PATIENCE = 180.0")
        kernel.run(f"%%submarine --gpus 0 --secret MARKED\n{HEAVY}import decimal")
        until(lambda: list(tmp_path.glob("hosts/*/zygotes/*/socket")))
    before = set(job_ids(tmp_path))
    sent, come = start(
        kernel,
        f"%%submarine --gpus 0 --secret MARKED --isolation {isolation} -o length\n"
        "import os, sys, time\nlength = len(os.environ['MARKED'])\n"
        "print('decimal' in sys.modules, flush=True)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
        "print(os.environ['MARKED'])\n"
        "raise RuntimeError('not with ' + os.environ['MARKED'])",
    )
    assert seen_by_another(tmp_path) == "[]"
    assert holding_the_mark(tmp_path) == []
    gate.touch()
    ended = kernel.collect(sent)
    messages = [*come, *ended.messages]
    assert kernel.value("length") == str(len(MARK))
    messages += kernel.run("%submarine").messages
    assert MARK not in json.dumps([messages, ended.reply], default=str)
    [first] = [m["content"]["text"] for m in come if m["msg_type"] == "stream"]
    assert first.startswith(str(isolation == "shared"))
    assert MASK in ended.stream("stdout")
    assert MASK in ended.error
    (job_id,) = set(job_ids(tmp_path)) - before
    until(lambda: not (tmp_path / "jobs" / job_id / "reserve").exists())

    holding = holding_the_mark(tmp_path)
    # The code's own words: its log, and the error that it raised, in words and as an object.
    said = {"stdout", "stderr", "outcome.json", "home.pkl"}
    assert {path.name for path in holding} <= said, holding
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}
    assert seen_by_another(tmp_path) == "[]"
    answers = answers_of(tmp_path / "server", tmp_path, job_id)
    assert {answer.status_code for answer in answers} == {200}
    assert [answer.url for answer in answers if MARK in answer.text] == []
    assert any(MASK in answer.text for answer in answers)
    found = [answer.json() for answer in answers if "search" in answer.url]
    assert [one["lines"] for one in found] == [[]]
    command = [sys.executable, "-m", "submarine_engine.cli"]
    environment = {**os.environ, "SUBMARINE_HOME": str(tmp_path)}
    for words in (["job", "list"], ["job", "show", job_id], ["job", "logs", job_id]):
        done = subprocess.run(
            [*command, *words], capture_output=True, text=True, check=False, env=environment
        )
        assert done.stdout
        assert MARK not in done.stdout + done.stderr
    for folder in tmp_path.glob("hosts/*/zygotes/*"):
        zygotes.end(folder)
