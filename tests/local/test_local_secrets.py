"""`--secret NAME`: the job has its value, and nothing that is kept or shown has."""

from __future__ import annotations

import base64
import os
import subprocess
import sys

import pytest
from submarine_engine import launch
from submarine_engine.clusters.saving import can_save
from submarine_engine.command import parse, to_command
from submarine_engine.errors import (
    CommandError,
    JobFailedError,
    SaveError,
    SubmissionError,
    UnsupportedError,
)
from submarine_engine.future import Job
from submarine_engine.job import JobSpec, JobState
from submarine_engine.logs import Renderer, follow

from tests.jobs import until

TOKEN = "hf_" + "M4rk3dS3cr3t" * 2
MASK = "<secret HF_TOKEN>".ljust(len(TOKEN), "*")

# Speaks what `keyring` does: one function, of a service and a name.
KEYRING = "def get_password(service, name):\n    return {('submarine', 'KEPT'): 'from-the-keyring'}"


def holding(home):
    files = (path for path in home.rglob("*") if path.is_file())
    return {path.name for path in files if TOKEN.encode() in path.read_bytes()}


def test_the_job_has_it_and_no_record_does(local, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    gate = tmp_path / "gate"
    job_id = local.submit(
        "import base64, os, time\n"
        "print(base64.b64encode(os.environ['HF_TOKEN'].encode()).decode(), flush=True)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)",
        secrets=("HF_TOKEN",),
    )
    local.until_noted(job_id, "running")  # no file is about to be renamed
    assert holding(local.home) == set()
    arguments = [command for command in local.processes().values() if TOKEN in str(command)]
    assert arguments == []
    gate.touch()
    story = local.follow(job_id)
    assert base64.b64decode(story.out).decode() == TOKEN
    assert '"secrets": ["HF_TOKEN"]' in local.paths(job_id).record.read_text()
    local.until_noted(job_id, "succeeded")
    assert holding(local.home) == set()


def test_it_comes_from_the_keyring_where_one_is_installed(local, monkeypatch, tmp_path):
    (tmp_path / "keyring.py").write_text(KEYRING + "[service, name]")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    story = local.run("import os; print(len(os.environ['KEPT']))", secrets=("KEPT",))
    assert story.out == "16\n"
    with pytest.raises(SubmissionError, match="no value is known for ABSENT"):
        local.submit("pass", secrets=("ABSENT",))  # the stand-in raises, as a locked one does


def test_all_that_have_no_value_are_named_before_anything_is_on_record(local, monkeypatch):
    monkeypatch.setenv("EMPTY", "")
    with pytest.raises(SubmissionError, match="EMPTY, ABSENT") as raised:
        local.submit("pass", secrets=("EMPTY", "ABSENT"))
    assert raised.value.where == "--secret"
    assert "keyring set submarine EMPTY" in raised.value.fix
    assert not (local.home / "jobs").exists()


def test_one_that_the_cluster_sets_is_refused(local, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(UnsupportedError, match="CUDA_VISIBLE_DEVICES") as raised:
        local.submit("pass", secrets=("CUDA_VISIBLE_DEVICES",))
    assert raised.value.where == "--secret"


def test_a_value_by_mistake_is_refused_and_not_repeated():
    with pytest.raises(CommandError, match="no name of an environment variable") as raised:
        JobSpec(secrets=(f"HF_TOKEN={TOKEN}",))
    assert TOKEN not in str(raised.value)
    with pytest.raises(CommandError, match="by --secret and by --env"):
        JobSpec(secrets=("A",), env={"A": "b"})
    with pytest.raises(CommandError, match="A is given twice"):
        parse("job run --secret A --secret A x.py")


def test_it_is_an_option_of_every_way_in(tmp_path):
    spec = parse("job run --secret A --secret B x.py").spec
    assert spec.secrets == ("A", "B")
    assert parse(to_command(spec)).spec == spec
    assert JobSpec.from_json({k: v for k, v in spec.to_json().items() if k != "secrets"}) == (
        JobSpec(name=spec.name, roles=spec.roles)
    )
    with pytest.raises(CommandError, match="secret is no list of names"):
        launch(print, secret=3)


def test_launch_gives_one_to_a_function(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os\nfrom submarine_engine import launch\n"
        "def known():\n    print(os.environ['HF_TOKEN'], flush=True)\n"
        "    return len(os.environ['HF_TOKEN'])\n"
        "if __name__ == '__main__': print(launch(known, secret='HF_TOKEN', gpus=0))\n"
    )
    environment = {**os.environ, "HF_TOKEN": TOKEN, "SUBMARINE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{MASK}\n{len(TOKEN)}\n"


class Shown(Renderer):
    """Keeps what is shown."""

    def __init__(self):
        self.shown = ""

    def text(self, task, stream, text):  # noqa: ARG002 - as the seam gives it
        self.shown += text


@pytest.mark.parametrize("limit", [1, 7, 1 << 20])
def test_a_log_shows_its_name_wherever_it_is_cut(local, monkeypatch, limit):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    story = local.follow(
        local.submit(
            "import os, time\ntoken = os.environ['HF_TOKEN'].encode()\n"
            "os.write(1, b'it is ' + token[:10])\ntime.sleep(0.3)\n"
            "os.write(1, token[10:] + b', yes\\n' + token)\n"
            "os.system('echo $HF_TOKEN >&2')",
            secrets=("HF_TOKEN",),
        ),
        limit=limit,
    )
    assert story.out == f"it is {MASK}, yes\n{MASK}"
    assert story.logs["stderr"].decode() == f"{MASK}\n"


def test_what_fails_with_it_says_its_name(local, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    job_id = local.submit(
        "import os\nraise ValueError('no access with ' + os.environ['HF_TOKEN'])",
        secrets=("HF_TOKEN",),
    )
    story = local.follow(job_id)
    assert story.status.reason == f"ValueError: no access with {MASK}"
    with pytest.raises(JobFailedError) as raised:
        Job(local.cluster, job_id).result()
    assert MASK in str(raised.value)
    assert TOKEN not in str(raised.value) + "".join(map(repr, raised.value.trace.frames))
    shown = Shown()
    follow(Job(local.cluster, job_id), shown)
    assert MASK in shown.shown
    assert TOKEN not in shown.shown
    local.until_noted(job_id, "failed")  # the last file that is written, aside and renamed
    # The code's own words, and the error as it raised it, for the owner alone.
    assert holding(local.home) == {"outcome.json", "raised.pkl", "stderr"}


def test_what_is_shown_waits_for_no_rest_of_a_secret(local, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    story = local.run(
        "import os, submarine_runtime.displays\n"
        "from IPython.display import display\n"
        "print(os.environ['HF_TOKEN'][:8], end='', flush=True)\n"
        "display(os.environ['HF_TOKEN'])",
        secrets=("HF_TOKEN",),
    )
    assert story.state is JobState.SUCCEEDED
    assert story.out == TOKEN[:8]
    [shown] = story.displays
    assert MASK in str(shown.data)
    assert TOKEN not in str(shown)


def test_a_model_that_cannot_be_saved_says_no_secret(local, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    job_id = local.submit(
        "import os, pathlib, time, submarine_runtime\n"
        "@submarine_runtime.on_save\n"
        "def save(folder): raise OSError('no upload with ' + os.environ['HF_TOKEN'])\n"
        "while not pathlib.Path('over').exists(): time.sleep(0.01)",
        secrets=("HF_TOKEN",),
    )
    job = Job(local.cluster, job_id)
    until(lambda: can_save(local.paths(job_id), job.status()))
    with pytest.raises(SaveError, match="no upload with <secret HF_TOKEN>") as raised:
        job.save(tmp_path / "model")
    assert TOKEN not in str(raised.value)
    (tmp_path / "over").touch()
    assert local.follow(job_id).state is JobState.SUCCEEDED
