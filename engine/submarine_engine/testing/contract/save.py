"""The model of a running job, brought to the user's path while training goes on."""

from __future__ import annotations

import json
import threading

import pytest

from submarine_engine.clusters import saving
from submarine_engine.clusters.saving import can_save
from submarine_engine.errors import SaveError
from submarine_engine.job import JobState
from submarine_engine.testing.contract.life import BEFORE, WHOLE
from submarine_engine.testing.jobs import until
from submarine_engine.testing.place import HOLD

TRAIN = """
import os, time
import submarine_runtime

weights, steps = [0.0], 0

@submarine_runtime.on_save
def save(folder):
    (folder / "layers").mkdir()
    (folder / "layers" / "größe.txt").write_text(str(weights))
    (folder / "blob").write_bytes(bytes(range(256)) * 1000)
    before = weights
    while weights is before: time.sleep(0.001)  # training goes on meanwhile

print("training", flush=True)
while not os.path.exists({gate!r}):
    steps += 1
    weights = [float(steps)]
    time.sleep(0.01)
print("done", flush=True)
"all steps"
"""


def train(cluster, script=TRAIN, **options):
    """Begin a training that goes on until its gate is made; return the job and the gate."""
    gate = cluster.folder / "gate"
    job = cluster.submit(script.replace("{gate!r}", repr(str(gate))), **options)
    told = cluster.paths(job).task("worker-0").stdout
    until(lambda: told.exists() and b"training" in told.read_bytes(), 180)
    cluster.until_running(job)
    return job, gate


def test_the_jobs_own_function_saves_while_it_trains(cluster):
    job, gate = train(cluster, gpus=1)
    until(lambda: can_save(cluster.paths(job), job.status()))
    saved = job.save(cluster.folder / "models" / "first")
    assert (saved.by, saved.source, saved.files) == ("hook", "worker-0", 2)
    folder = cluster.folder / "models" / "first"
    assert saved.path == str(folder)
    first = float((folder / "layers" / "größe.txt").read_text().strip("[]"))
    assert (folder / "blob").read_bytes() == bytes(range(256)) * 1000
    assert job.running()
    job.save(cluster.folder / "second")
    assert float((cluster.folder / "second/layers/größe.txt").read_text().strip("[]")) > first
    gate.touch()
    story = cluster.follow(job)
    assert story.state is JobState.SUCCEEDED
    assert story.out == "training\ndone\n"
    assert story.logs["stderr"] == b""
    assert [kind for kind in story.kinds if kind not in BEFORE] == WHOLE
    assert job.result() == "all steps"
    assert not can_save(cluster.paths(job), job.status())
    assert sorted(path.name for path in cluster.folder.iterdir()) == ["gate", "models", "second"]
    with pytest.raises(SaveError, match=r"is over \(succeeded\)"):
        job.save(cluster.folder / "third")


def test_what_the_function_raises_comes_to_who_asked_at_cell_and_line(cluster):
    gate = cluster.folder / "gate"
    job = cluster.submit(
        ["def save(folder):\n    tried = {}\n    return tried['weights of ü']",
         f"import submarine_runtime\nsubmarine_runtime.on_save(save)\n{HOLD.format(str(gate))}5"],
    )  # fmt: skip
    until(lambda: can_save(cluster.paths(job), job.status()), 180)
    for _ in range(2):
        with pytest.raises(SaveError, match="KeyError: 'weights of ü'") as caught:
            job.save(cluster.folder / "model")
        assert caught.value.where == "In [1], line 3, in save(): return tried['weights of ü']"
    assert not (cluster.folder / "model").exists()
    gate.touch()
    story = cluster.follow(job)
    assert (story.state, story.logs["stderr"], job.result()) == (JobState.SUCCEEDED, b"", 5)


def test_a_function_that_hangs_is_told_after_patience_and_harms_nothing(cluster):
    script = TRAIN.replace('(folder / "layers").mkdir()', "while True: time.sleep(0.01)")
    job, gate = train(cluster, script)
    with pytest.raises(SaveError, match="has not returned in time"):
        job.save(cluster.folder / "model", patience=15)  # the job has to hear of it before
    with pytest.raises(SaveError, match="still saves for who asked before"):
        job.save(cluster.folder / "model")
    gate.touch()
    assert cluster.follow(job).state is JobState.SUCCEEDED
    assert not (cluster.folder / "model").exists()


def test_only_one_at_a_time_may_ask(cluster):
    begun, slow = cluster.folder / "begun", cluster.folder / "slow"
    script = TRAIN.replace(
        '(folder / "layers").mkdir()',
        f"(folder / 'layers').mkdir(); open({str(begun)!r}, 'w')\n"
        f"    while not os.path.exists({str(slow)!r}): time.sleep(0.01)",
    )
    job, gate = train(cluster, script)
    came = []
    asker = threading.Thread(target=lambda: came.append(job.save(cluster.folder / "one")))
    asker.start()
    until(begun.exists, 180)
    with pytest.raises(SaveError, match="another save of this job is under way"):
        job.save(cluster.folder / "two")
    slow.touch()
    asker.join(180)
    assert [saved.files for saved in came] == [2]
    assert not (cluster.folder / "two").exists()
    gate.touch()
    assert job.wait(180).state is JobState.SUCCEEDED


def test_a_job_that_ends_meanwhile_says_so(cluster):
    script = TRAIN.replace('(folder / "layers").mkdir()', "open({gate!r}, 'w'); time.sleep(600)")
    job, _ = train(cluster, script)
    with pytest.raises(SaveError, match="the job ended before its model was saved"):
        job.save(cluster.folder / "model")
    assert cluster.follow(job).state is JobState.SUCCEEDED
    assert job.result() == "all steps"
    assert not (cluster.folder / "model").exists()


def test_what_lies_at_the_path_is_left_alone(cluster):
    job, gate = train(cluster)
    there = cluster.folder / "there"
    there.mkdir()
    assert job.save(there).files == 2  # it was empty
    with pytest.raises(SaveError, match="exists"):
        job.save(there)
    with pytest.raises(SaveError, match="cannot be written"):
        job.save("/proc/model")
    with pytest.raises(SaveError, match="cannot be written"):
        job.save(there / "blob" / "model")
    gate.touch()
    assert job.wait(180).state is JobState.SUCCEEDED


def test_without_a_function_the_last_complete_checkpoint_is_copied(cluster, monkeypatch):
    monkeypatch.setattr(saving, "REST", 5.0)  # a busy machine lets the job pause
    kept = cluster.folder / "kept"
    job, gate = train(
        cluster,
        "import os, pathlib, time\n"
        f"kept = pathlib.Path({str(kept)!r})\n"
        "for step in (1, 2):\n"
        "    folder = kept / f'step-{step}'\n    folder.mkdir()\n"
        "    (folder / 'weights').write_text(str(step))\n    time.sleep(0.02)\n"
        "writes = (kept / 'step-3').open('w')\n"
        "print('training', flush=True)\n"
        "while not os.path.exists({gate!r}):\n"
        "    writes.write('half')\n    writes.flush()\n    time.sleep(0.01)",
        checkpoint_path=f"file://{kept}",
    )
    assert can_save(cluster.paths(job), job.status())
    saved = job.save(cluster.folder / "model")
    assert (saved.by, saved.source, saved.files, saved.size) == ("checkpoint", "step-2", 1, 1)
    assert (cluster.folder / "model" / "step-2" / "weights").read_text() == "2"
    gate.touch()
    assert job.wait(180).state is JobState.SUCCEEDED


def test_without_both_it_is_said_what_to_do(cluster):
    job, gate = train(cluster, TRAIN.replace("@submarine_runtime.on_save", ""))
    assert not can_save(cluster.paths(job), job.status())
    with pytest.raises(SaveError, match="gives no way to the model") as caught:
        job.save(cluster.folder / "model")
    assert "submarine_runtime.on_save(save)" in caught.value.fix
    assert "--checkpoint_path" in caught.value.fix
    gate.touch()
    assert job.wait(180).state is JobState.SUCCEEDED


def test_a_job_that_waits_has_no_model_yet(cluster):
    first, gate = cluster.hold(cluster.total())
    cluster.until_running(first)
    job = cluster.submit("1", gpus=1)
    until(lambda: job.status().state is JobState.QUEUED, 180)
    with pytest.raises(SaveError, match="does not run yet"):
        job.save(cluster.folder / "model")
    job.cancel()
    gate.touch()
    assert job.wait(180).state is JobState.CANCELLED
    assert json.loads(cluster.paths(job).record.read_text())["id"] == job.id
