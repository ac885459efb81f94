"""What a real job leaves in the folder of its artifacts, asked of the job and of the terminal."""

from __future__ import annotations

import json
import os
import textwrap

import pytest
from submarine_engine.artifacts import copy_artifacts, open_artifact
from submarine_engine.cli import main
from submarine_engine.errors import CommandError
from submarine_engine.future import Job
from submarine_engine.job import JobState, Resources, Role

SCRIPT = """
import os, pathlib
out = pathlib.Path(os.environ["SUBMARINE_OUTPUT_PATH"])
(out / "plots").mkdir()
(out / "plots" / "loss.txt").write_text("0.5")
(out / "model.pt").write_bytes(b"weights" * 1000)
"""


def test_a_job_tells_what_it_has_left_and_the_terminal_copies_it(local, monkeypatch, capsys):
    job = Job(local.cluster, local.submit(SCRIPT))
    job.wait(120)
    found = job.artifacts()
    assert [(one.name, one.size) for one in found] == [("model.pt", 7000), ("plots/loss.txt", 3)]
    assert found[1].path.read_text() == "0.5"
    monkeypatch.setenv("SUBMARINE_HOME", str(local.home))
    assert main(["job", "artifacts", job.id, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["artifacts"]] == ["model.pt", "plots/loss.txt"]
    assert main(["job", "artifacts", job.id]) == 0
    said = capsys.readouterr()
    assert "plots/loss.txt" in said.out
    assert "2 files, 7.0 kB" in said.out + said.err
    target = local.folder / "models" / "one"
    assert main(["job", "artifacts", job.id, "--to", str(target)]) == 0
    assert (target / "plots" / "loss.txt").read_text() == "0.5"
    capsys.readouterr()
    assert main(["job", "artifacts", job.id, "--to", str(target)]) != 0
    assert "2 files would be replaced" in capsys.readouterr().err


@pytest.mark.parametrize(
    "end", ["raise ValueError('over')", "os._exit(3)", "os.kill(os.getpid(), 9)"]
)
def test_a_job_that_failed_has_left_them_too(local, end):
    job = Job(local.cluster, local.submit(f"{SCRIPT}\n{end}"))
    assert job.wait(120).state is JobState.FAILED
    assert [one.name for one in job.artifacts()] == ["model.pt", "plots/loss.txt"]


def test_ranks_are_apart_though_they_write_the_same_name(local):
    roles = (Role(resources=Resources(gpus=0), count=2),)
    job = Job(local.cluster, local.submit(SCRIPT, roles=roles))
    job.wait(120)
    assert [one.name for one in job.artifacts()] == [
        "worker-0/model.pt", "worker-0/plots/loss.txt",
        "worker-1/model.pt", "worker-1/plots/loss.txt",
    ]  # fmt: skip
    target = local.folder / "both"
    copy_artifacts(local.paths(job.id), job.artifacts(), target)
    assert (target / "worker-1" / "plots" / "loss.txt").read_text() == "0.5"


def test_the_last_attempt_counts(local):
    """What the first one has left is gone, a folder that nobody may write in with it."""
    script = """
    import os, pathlib
    out = pathlib.Path(os.environ["SUBMARINE_OUTPUT_PATH"])
    if os.environ["SUBMARINE_ATTEMPT"] == "1":
        (out / "kept").mkdir()
        (out / "kept" / "first").touch()
        (out / "kept").chmod(0o500)
        raise ValueError("once more")
    (out / "second").touch()
    """
    job = Job(local.cluster, local.submit(textwrap.dedent(script), retries=1))
    assert job.wait(120).state is JobState.SUCCEEDED
    assert [one.name for one in job.artifacts()] == ["second"]


HOSTILE = """
import os, pathlib
os.chdir(os.environ["SUBMARINE_OUTPUT_PATH"])
os.symlink("/etc/passwd", "link")
os.symlink("/etc", "folder")
os.mkfifo("pipe")
for name in b"a\\nb", b"\\x1b[31mred", b"not \\xff utf-8", b"n" * 255:
    with open(name, "wb") as file: file.write(name)
"""


def test_what_is_hostile_is_shown_as_it_is_and_leads_nowhere(local, monkeypatch, capsys):
    job = Job(local.cluster, local.submit(HOSTILE))
    job.wait(120)
    found = local.cluster.artifacts(job.id)
    names = sorted(os.fsencode(one.name) for one in found.files)
    assert names == [b"\x1b[31mred", b"a\nb", b"n" * 255, b"not \xff utf-8"]
    assert found.left == {"a link": 2, "no file (a pipe, a socket, a device)": 1}
    monkeypatch.setenv("SUBMARINE_HOME", str(local.home))
    assert main(["job", "artifacts", job.id]) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out
    assert "a b" in said.out
    assert "left out: 2 (a link)" in said.out + said.err
    paths = local.paths(job.id)
    for name in "link", "folder/passwd", "pipe", "../stdout", "/etc/passwd", "", "no", "a\0b":
        with pytest.raises(OSError):  # noqa: PT011 - which one is the kernel's
            os.close(open_artifact(paths, "worker-0", name))
    copied = copy_artifacts(paths, found.files, local.folder / "copies")
    assert sorted(os.fsencode(path.name) for path in copied) == names


def test_nothing_is_copied_where_something_would_be_replaced(local):
    job = Job(local.cluster, local.submit(SCRIPT))
    job.wait(120)
    target = local.folder / "there"
    target.mkdir()
    (target / "model.pt").symlink_to("nowhere")
    with pytest.raises(CommandError, match=r"1 file would be replaced, first '.*model.pt'"):
        copy_artifacts(local.paths(job.id), job.artifacts(), target)
    assert not (target / "plots").exists()


def test_the_cluster_sets_the_folder_and_a_job_that_leaves_nothing_says_so(
    local, monkeypatch, capsys
):
    job = Job(local.cluster, local.submit("import os; print(os.environ['SUBMARINE_OUTPUT_PATH'])"))
    job.wait(120)
    assert job.artifacts() == []
    monkeypatch.setenv("SUBMARINE_HOME", str(local.home))
    assert main(["job", "artifacts", job.id]) == 0
    said = capsys.readouterr()
    assert "no artifacts: the job's code leaves them in the folder" in said.out + said.err
    log = local.paths(job.id).task("worker-0").stdout.read_text().strip()
    assert log == str(local.paths(job.id).task("worker-0").artifacts)
