"""Checkpoints of several ranks: each draws its own numbers, and goes on drawing them."""

import json
import os
import random
import resource
import signal
from functools import partial

import pytest
from submarine_runtime.checkpoint_files import Folder
from submarine_runtime.checkpoint_ranks import Ranks

from tests.runtime.conftest import Task, wait_for

# Ranks that share their weights and draw numbers of their own; `total` is their collective.
TRAIN = """
import os, random, signal, sys, time
import numpy as np
from submarine_runtime import checkpoint_ranks, job

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
random.seed(rank)
np.random.seed(rank)
drawer = np.random.default_rng(rank + 7)
weights = np.zeros(8)
state = {"weights": weights, "drawer": drawer, "history": []}
shard = {"moments": [0.0] * 4}

def total(step, value):
    there = os.environ["MEETING"]
    with open(f"{there}/.{step}-{rank}", "w") as file: file.write(repr(value))
    os.rename(f"{there}/.{step}-{rank}", f"{there}/{step}-{rank}")
    values = []
    for one in range(size):
        while not os.path.exists(f"{there}/{step}-{one}"): time.sleep(0.001)
        values.append(float(open(f"{there}/{step}-{one}").read()))
    return sum(values)

def train(step):
    print("step", step)
    noise = random.random() + np.random.normal() + drawer.normal()
    shard["moments"][:] = [0.9 * one + noise for one in shard["moments"]]
    weights[:] = weights + total(step, noise) * np.arange(8)
    state["history"].append(float(weights.sum()))

EVERY, STEPS = float(os.environ.get("EVERY", "0")), int(os.environ.get("STEPS", "20"))
"""
LOOP = f"""{TRAIN}
for step in job.steps(STEPS, state, own=shard, every=EVERY):
    train(step)
[weights.tobytes().hex(), state["history"], shard, float(drawer.normal()), random.random()]
"""


class Gang:
    """Ranks of one job, started together."""

    def __init__(self, folder, script, count, number, **env):
        self.tasks = []
        meeting = folder / f"meeting-{number}"
        meeting.mkdir()
        for rank in range(count):
            root = folder / f"attempt-{number}-{rank}"
            root.mkdir(mode=0o700)
            hello = {"rank": rank, "role": "worker", "index": rank, "host": "h", "ports": []}
            answer = {"version": 1, "attempt": number, "tasks": {f"worker-{rank}": hello}}
            task = Task(root)
            (task.folder / "answer.json").write_text(json.dumps(answer))
            task.start(
                script,
                env={
                    "RANK": str(rank),
                    "WORLD_SIZE": str(count),
                    "MEETING": str(meeting),
                    "SUBMARINE_TASK": f"worker-{rank}",
                    "SUBMARINE_JOB_ID": "the-job",
                    "SUBMARINE_CHECKPOINT_PATH": str(folder / "kept"),
                    **env,
                },
            )
            self.tasks.append(task)

    def wait(self):
        return [task.wait() for task in self.tasks]

    def steps(self, rank):
        *lines, _ = self.tasks[rank].stdout.split("\n")  # its last one may be half written
        return [int(line.split()[1]) for line in lines if line.startswith("step ")]

    def kill(self):
        for task in self.tasks:
            task.process.kill()
        self.wait()

    def is_at(self, step):
        ended = any(task.process.poll() is not None for task in self.tasks)
        return ended or all(step in self.steps(rank) for rank in range(len(self.tasks)))

    @property
    def values(self):
        return [task.value for task in self.tasks]


@pytest.fixture
def gang(tmp_path):
    """Start gangs one after the other; the folder ``kept`` is common to all of them."""
    begun = []

    def start(script=LOOP, count=2, **env):
        begun.append(Gang(tmp_path, script, count, len(begun) + 1, **env))
        return begun[-1]

    start.kept = tmp_path / "kept"
    yield start
    for one in begun:
        for task in one.tasks:
            task.end()


@pytest.fixture
def whole(gang, tmp_path):
    """What the ranks end with if nobody ends them."""
    one = gang(SUBMARINE_CHECKPOINT_PATH=str(tmp_path / "elsewhere"))
    assert one.wait() == [0, 0], [task.stderr for task in one.tasks]
    assert one.values[0][2:] != one.values[1][2:]
    return one.values


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("step-"))


def test_killed_ranks_go_on_with_the_numbers_of_their_own(gang, whole):
    chance = random.Random(1)  # noqa: S311 - no secret
    for _ in range(3):
        one, step = gang(), chance.randrange(20)
        wait_for(partial(one.is_at, step))
        one.kill()
    last = gang()
    assert last.wait() == [0, 0], [task.stderr for task in last.tasks]
    assert last.values == whole
    assert last.steps(0) == last.steps(1)
    assert {path.name for path in (gang.kept / names(gang.kept)[-1]).iterdir()} == {
        "state.pickle",
        "rank-1.pickle",
        "checkpoint.json",
    }


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_kills_of_one_rank_at_random_end_in_the_same_weights(gang, whole, seed):
    chance = random.Random(seed)  # noqa: S311 - no secret
    for _ in range(4):
        one, step = gang(), chance.randrange(20)
        wait_for(partial(one.is_at, step))
        one.tasks[chance.randrange(2)].process.kill()
        one.kill()
    last = gang()
    assert last.wait() == [0, 0], [task.stderr for task in last.tasks]
    assert last.values == whole


def test_a_checkpoint_counts_once_all_parts_are_there(gang, whole):
    """Rank 1 dies before it has written its part of the checkpoint after the tenth step."""
    dying = LOOP.replace(
        "EVERY, STEPS =",
        """
from submarine_runtime import checkpoint_state
real = checkpoint_state.write
def write(file, kept):
    if rank == 1 and "generators" in kept and step == 9: os.kill(os.getpid(), signal.SIGKILL)
    real(file, kept)
checkpoint_state.write = write
EVERY, STEPS =""",
    )
    first = gang(dying)
    assert first.tasks[1].wait() == -signal.SIGKILL
    first.kill()
    assert names(gang.kept)[-1] == "step-000000000009"
    second = gang()
    assert second.wait() == [0, 0]
    assert second.steps(1)[0] == 9
    assert second.values == whole
    assert [path.name for path in gang.kept.iterdir() if ".part" in path.name] == []


def test_nobody_waits_for_a_checkpoint_that_is_due(gang, whole):
    """A step is announced, each rank adds its part as it comes there."""
    # Who kills it may come late: the last step does not end.
    slow = LOOP.replace(
        'print("step", step)',
        """print("step", step); time.sleep(0.05)
    while step == 19: time.sleep(0.01)""",
    )
    first = gang(slow, EVERY="0.3")
    wait_for(lambda: gang.kept.exists() and (names(gang.kept) or first.is_at(19)))
    first.kill()
    kept = int(names(gang.kept)[-1].partition("-")[2])
    assert 0 < kept < 20
    second = gang(EVERY="3600")
    assert second.wait() == [0, 0], [task.stderr for task in second.tasks]
    assert second.steps(0)[0] == second.steps(1)[0] == kept
    assert second.values == whole
    # The whole loop ran in a second attempt: what comes after it may fail.
    assert names(gang.kept)[-1] == "step-000000000020"


@pytest.mark.parametrize("asked", [[0], [1], [0, 1]])
def test_all_end_after_the_same_step_whoever_was_asked(gang, whole, asked, tmp_path):
    slow = LOOP.replace(
        'print("step", step)',
        """print("step", step)
    while step == 3 and not os.path.exists(os.environ["GATE"]): time.sleep(0.01)
    time.sleep(0.02)""",
    )
    gate = tmp_path / "gate"
    first = gang(slow, EVERY="3600", GATE=str(gate))
    wait_for(lambda: first.is_at(3))
    for rank in asked:
        first.tasks[rank].process.send_signal(signal.SIGTERM)
    gate.touch()
    assert first.wait() == [130, 130], [task.stderr for task in first.tasks]
    done = first.steps(0)[-1] + 1
    assert first.steps(1)[-1] + 1 == done < 20
    assert names(gang.kept) == [f"step-{done:012}"]
    second = gang(EVERY="3600")
    assert second.wait() == [0, 0]
    assert second.steps(0)[0] == done
    assert second.values == whole


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_ranks_goes_on(gang, count):
    script = LOOP.replace("own=shard, ", "")
    first = gang(script, STEPS="5")
    assert first.wait() == [0, 0]
    second = gang(script, count=count, STEPS="8")
    assert second.wait() == [0] * count, [task.stderr for task in second.tasks]
    assert {tuple(second.steps(rank)) for rank in range(count)} == {(5, 6, 7)}
    # Each draws numbers of its own, and so does the new one.
    assert len({value[3] for value in second.values}) == count
    assert len({value[4] for value in second.values}) == count
    if count == 3:
        again = gang(script, count=count, STEPS="8")
        assert again.wait() == [0] * count
        assert [value[3:] for value in again.values] == [value[3:] for value in second.values]


def test_what_ranks_have_of_their_own_needs_as_many_ranks(gang):
    assert gang(STEPS="3").wait() == [0, 0]
    other = gang(count=1, STEPS="3")
    assert other.wait() == [1]
    words = "holds what 2 ranks had of their own, and now there are 1: begin with as many"
    assert words in other.tasks[0].stderr
    none = gang(LOOP.replace("own=shard, ", ""), STEPS="3")
    assert none.wait() == [1, 1]
    assert "holds something of each rank's own" in none.tasks[1].stderr


def test_a_damaged_part_has_all_ranks_begin_from_the_one_before(gang, whole):
    first = gang()
    assert first.wait() == [0, 0]
    newest = gang.kept / names(gang.kept)[-1]
    content = bytearray((newest / "rank-1.pickle").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "rank-1.pickle").write_bytes(content)
    second = gang()
    assert second.wait() == [0, 0]
    assert second.steps(0) == second.steps(1) == [19]
    assert second.values == whole
    assert f"{newest} is damaged; taking the one before it" in second.tasks[0].stderr


def test_ranks_that_run_no_loop_are_not_waited_for_for_ever(gang):
    script = TRAIN.replace("job\n", "job\ncheckpoint_ranks.PATIENCE = 0.5\n", 1)
    script += "if rank == 0:\n    for step in job.steps(3, {}, every=0): print('step', step)"
    one = gang(script)
    assert one.wait() == [0, 0], one.tasks[0].stderr
    assert names(gang.kept) == ["step-000000000002", "step-000000000003"]
    assert one.tasks[0].stderr.count("kept without ranks 1, which run no such loop") == 1
    other = gang(script.replace("rank == 0", "rank == 1"))
    assert other.wait() == [0, 0], other.tasks[1].stderr
    assert "rank 0 has begun no loop of steps" in other.tasks[1].stderr


def test_a_part_that_cannot_be_written_leaves_the_last_checkpoint(gang):
    full = LOOP.replace(
        "EVERY, STEPS =",
        """
real = os.fsync
def fsync(descriptor):
    if rank == 1 and step == 3: raise OSError(28, "No space left on device")
    real(descriptor)
os.fsync = fsync
EVERY, STEPS =""",
    )
    one = gang(full, STEPS="4")
    assert one.wait() == [0, 0]
    assert names(gang.kept) == ["step-000000000002", "step-000000000003"]
    assert "no checkpoint after step 4: no part of ranks 1" in one.tasks[0].stderr
    assert "No space left on device" in one.tasks[1].stderr
    must = full.replace(
        "for step in job.steps(STEPS, state, own=shard, every=EVERY):\n",
        "job.restore(state)\nfor step in range(5):\n",
    )
    must = must.replace(
        "    train(step)\n[", "    train(step)\n    job.checkpoint(state, must=True)\n["
    )
    two = gang(must, SUBMARINE_CHECKPOINT_PATH=str(gang.kept.with_name("other")))
    assert two.wait() == [1, 1]
    assert "OSError: no checkpoint after step 4: another rank wrote no part" in two.tasks[0].stderr


def test_nothing_is_left_of_what_ranks_said_once_a_later_attempt_begins(gang):
    for _ in range(3):
        assert gang(STEPS="3").wait() == [0, 0]
    assert len(list(gang.kept.glob(".ranks-*"))) == 1


@pytest.fixture
def ranks(tmp_path):
    return [Ranks(Folder(str(tmp_path)), rank, 2, "the-job.1.0") for rank in range(2)]


@pytest.fixture
def file_size():
    """Let no file of this process grow beyond a size, as a full disk would: in midst of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size=before[0]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    limit()


def test_what_a_full_disk_cuts_is_no_word_of_a_rank(ranks, file_size):
    first, other = ranks
    first.enter()
    other.enter()
    file_size(12)
    with pytest.raises(OSError, match="No space left"):
        other.add(100, (1234, 5678))
    assert not first.say(at=100, stop=True)
    file_size()
    other.add(100, None)
    first.say(at=200, stop=False)
    assert first.parts(100) == {1: None}
    other.read_plan()
    assert other.calls == {200: False}


@pytest.mark.parametrize("line", ["he100 12 34", "100 12", "100 12 34 56", "100 1x 2", "x failed"])
def test_a_spoilt_line_tells_of_no_part(ranks, line):
    first, other = ranks
    first.enter()
    other.enter()
    first._storage.tell(".ranks-the-job.1.0/1", line)
    assert first.parts(100) == {}
    other.add(100, (12, 34))
    assert first.parts(100) == {1: [12, 34]}


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a folder of another user")
@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_agree_in_no_folder_of_another_user(ranks, tmp_path, rank):
    there = tmp_path / ".ranks-the-job.1.0"
    there.mkdir(0o777)
    os.chown(there, 65534, 65534)
    with pytest.raises(PermissionError, match="belongs to user 65534"):
        ranks[rank].enter()
    assert list(there.iterdir()) == []
