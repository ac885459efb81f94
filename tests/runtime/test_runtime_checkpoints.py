"""``job.steps()``: what is kept, how the next attempt goes on, what each kind of end leaves."""

import errno
import gc
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from functools import partial

import pytest
from submarine_runtime import checkpoint_files, checkpoints, job

from tests.runtime.conftest import Task, wait_for

TRAIN = """
import os, random, signal, sys
from dataclasses import dataclass, field
import numpy as np
from submarine_runtime import job

random.seed(3)
np.random.seed(4)
weights = np.zeros(50)
view = weights[:10]
drawer = np.random.default_rng(5)

@dataclass
class Trainer:
    momentum: list = field(default_factory=lambda: [0.0] * 50)
    best: float = float("inf")

trainer = Trainer()
alias = trainer.momentum
state = {"weights": weights, "trainer": trainer, "drawer": drawer, "history": []}
history = state["history"]

for step in job.steps(40, state, every=0):
    print("step", step)
    noise = np.random.normal(size=50) + drawer.normal(size=50) + random.random()
    trainer.momentum[:] = [0.9 * m + float(n) for m, n in zip(trainer.momentum, noise)]
    weights -= 0.1 * np.array(trainer.momentum)
    trainer.best = min(trainer.best, float(np.abs(weights).sum()))
    history.append(float(weights.sum()))

assert alias is trainer.momentum and view.base is weights and history is state["history"]
assert np.array_equal(view, weights[:10])
result = [weights.tobytes().hex(), trainer.best, trainer.momentum, history, random.random()]
result
"""


@pytest.fixture
def attempts(tmp_path, start_task):
    """Start tasks of one checkpoint path, one after the other."""
    place = tmp_path / "checkpoints"

    def attempt(script, **more):
        more["env"] = {"SUBMARINE_CHECKPOINT_PATH": str(place), **more.pop("env", {})}
        return start_task(script, **more)

    attempt.place = place
    return attempt


def step_folders(place):
    return sorted(path.name for path in place.glob("step-*"))


def of_steps(task):
    *lines, _ = task.stdout.split("\n")  # its last one may be half written
    return [int(line.split()[1]) for line in lines if line.startswith("step ")]


@pytest.fixture
def start_task(tmp_path):
    """Return a function that starts a task in a folder of its own."""
    begun = []

    def start(script, **more):
        root = tmp_path / f"attempt-{len(begun)}"
        root.mkdir(mode=0o700)
        begun.append(Task(root))
        return begun[-1].start(script, **more)

    yield start
    for task in begun:
        task.end()


@pytest.fixture
def whole(start_task):
    """The result of the run that nobody ends."""
    task = start_task(TRAIN)
    assert task.wait() == 0, task.stderr
    assert of_steps(task) == list(range(40))
    return task.value


def test_outside_a_job_it_counts_and_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("SUBMARINE_CHECKPOINT_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    state = {"done": 0}
    for step in job.steps(3, state):
        state["done"] += step
    assert state == {"done": 3}
    assert job.restore(state) == 0
    assert not job.checkpoint(state, every=0)
    assert job.latest_checkpoint() is None
    assert list(tmp_path.iterdir()) == []


# Each place where a checkpoint is a little further on the disk than before.
POINTS = {
    "before the folder": "os.mkdir",
    "before its content": "checkpoint_files.NewFile.__enter__",
    "content unsynced": "os.fsync",
    "before the rename": "os.rename",
    "before the old one goes": "checkpoint_files.forget_all_but",
}

KILLED_AT = """
import os, signal
from submarine_runtime import checkpoint_files
left = [int(os.environ["AT"])]
def kill(real):
    def called(*args, **more):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **more)
    return called
owner, _, name = os.environ["POINT"].rpartition(".")
owner = eval(owner)
setattr(owner, name, kill(getattr(owner, name)))
"""


@pytest.mark.sampled
@pytest.mark.parametrize("at", [1, 7])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_each_point_of_a_checkpoint_changes_nothing(attempts, whole, point, at):
    first = attempts(KILLED_AT + TRAIN, env={"POINT": POINTS[point], "AT": str(at)})
    assert first.wait() == -signal.SIGKILL, first.stderr
    done = of_steps(first) or [0]
    latest = checkpoints.latest(str(attempts.place))
    second = attempts(TRAIN)
    assert second.wait() == 0, second.stderr
    assert second.value == whole
    assert of_steps(second)[-1] == 39
    # At most the step whose checkpoint was cut is made once more.
    assert of_steps(second)[0] in (done[-1], done[-1] + 1)
    assert (latest is None) == (of_steps(second)[0] == 0)
    assert {path.name[:5] for path in attempts.place.iterdir()} == {"step-"}


def _is_so_far(task, many):
    return len(of_steps(task)) >= many or task.process.poll() is not None


def _with_random_kills(attempts, whole, seed, kills):
    chance = random.Random(seed)  # noqa: S311 - no secret
    for _ in range(kills):
        task, many = attempts(TRAIN), chance.randrange(1, 6)
        wait_for(partial(_is_so_far, task, many))
        task.process.kill()
        task.wait()
    last = attempts(TRAIN)
    assert last.wait() == 0, last.stderr
    assert last.value == whole


def test_kills_at_random_end_in_the_same_weights(attempts, whole):
    _with_random_kills(attempts, whole, seed=1, kills=4)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_a_hundred_kills_at_random_end_in_the_same_weights(attempts, whole, seed):
    _with_random_kills(attempts, whole, seed=seed, kills=5)


def test_whoever_is_asked_to_end_finishes_the_step_and_keeps_it(attempts, whole):
    asked = TRAIN.replace(
        'print("step", step)',
        'print("step", step)\n    if step == 12: os.kill(os.getpid(), signal.SIGTERM)',
    ).replace("every=0", "every=3600")
    first = attempts(asked)
    assert first.wait() == 130
    assert of_steps(first) == list(range(13))
    assert step_folders(attempts.place) == ["step-000000000013"]
    assert "Traceback" not in first.stderr
    rest = TRAIN.replace("every=0", "every=3600")
    second = attempts(rest)
    assert second.wait() == 0, second.stderr
    assert of_steps(second) == list(range(13, 40))
    assert second.value == whole
    third = attempts(rest)
    assert third.wait() == 0, third.stderr
    assert of_steps(third) == []
    assert third.value == whole


def test_whoever_asks_while_the_last_checkpoint_is_written_is_heard(attempts):
    script = """
    import os, signal
    from submarine_runtime import checkpoint_files, job
    real, step = checkpoint_files.write_note, None
    def write_note(*args):
        if step == 2: os.kill(os.getpid(), signal.SIGTERM)
        real(*args)
    checkpoint_files.write_note = write_note
    for step in job.steps(STEPS, {"a": 1}, every=EVERY): print("step", step)
    print("through")
    """
    assert attempts(script.replace("STEPS", "2").replace("EVERY", "0")).wait() == 0
    task = attempts(script.replace("STEPS", "3").replace("EVERY", "3600"))
    assert task.wait() == 130
    assert "through" not in task.stdout
    assert "asked to end; checkpoint after step 3" in task.stderr
    assert step_folders(attempts.place)[-1] == "step-000000000003"


def test_whoever_asks_twice_is_not_kept_waiting(attempts):
    task = attempts(
        """
        import time
        from submarine_runtime import job
        for step in job.steps(2, {"a": 1}):
            assert job.notice is None
            print("step", step)
            while job.notice is None: time.sleep(0.05)
            print("heard")
            while True: time.sleep(0.05)
        """
    )
    wait_for(lambda: of_steps(task))
    task.process.send_signal(signal.SIGTERM)
    task.said("heard")  # two signals that come together are one
    task.process.send_signal(signal.SIGTERM)
    assert task.wait() == 130


def test_after_the_loop_a_job_ends_at_once(attempts):
    task = attempts(
        """
        import time
        from submarine_runtime import job
        for step in job.steps(2, {"a": 1}): pass
        try:
            for step in job.steps(2, {"a": 1}): raise ValueError
        except ValueError:
            pass
        for step in job.steps(2, {"a": 1}): break
        print("step", 0)
        while True: time.sleep(0.05)
        """
    )
    wait_for(lambda: of_steps(task))
    task.process.send_signal(signal.SIGTERM)
    assert task.wait() == 130


def test_a_loop_of_ones_own(attempts):
    script = """
    import os, signal
    from submarine_runtime import checkpoints, job
    state = {"losses": []}
    done = job.restore(state)
    print("begins at", done)
    for epoch in range(done, 6):
        print("step", epoch)
        state["losses"].append(epoch)
        if epoch == int(os.environ.get("AT", "-1")):
            checkpoints.notice._until = float("inf")  # on a busy machine this line may be late
            os.kill(os.getpid(), signal.SIGTERM)
        job.checkpoint(state)
    state["losses"]
    """
    first = attempts(script, env={"AT": "3"})
    assert first.wait() == 130
    second = attempts(script)
    assert second.wait() == 0, second.stderr
    assert "begins at 4" in second.stdout
    assert second.value == [0, 1, 2, 3, 4, 5]


def test_two_loops_have_a_place_each(attempts):
    script = """
    from submarine_runtime import job
    first, second = {"n": 0}, {"n": 0}
    for step in job.steps(5, first, every=0): first["n"] += 1
    for step in job.steps(7, second, every=0): second["n"] += 1
    print(job.latest_checkpoint())
    [first["n"], second["n"]]
    """
    for _ in range(2):
        task = attempts(script)
        assert task.wait() == 0, task.stderr
        assert task.value == [5, 7]
    assert task.stdout.strip() == str(attempts.place / "loop-2" / "step-000000000007")


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_it(attempts, whole):
    assert attempts(TRAIN).wait() == 0
    newest = attempts.place / step_folders(attempts.place)[-1]
    content = bytearray((newest / "state.pickle").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "state.pickle").write_bytes(content)
    task = attempts(TRAIN)
    assert task.wait() == 0
    assert task.value == whole
    assert of_steps(task) == [39]
    assert f"{newest} is damaged; taking the one before it" in task.stderr


@pytest.mark.parametrize(
    "note", [b"", b"{", b"[]", b'{"version": 9}', b"[" * 5000, json.dumps({"version": 1}).encode()]
)
def test_what_says_nothing_of_itself_is_no_checkpoint(tmp_path, note):
    folder = tmp_path / "step-000000000001"
    folder.mkdir()
    (folder / "state.pickle").write_bytes(b"x")
    (folder / "checkpoint.json").write_bytes(note)
    assert checkpoints.latest(str(tmp_path)) is None


@pytest.mark.parametrize("call", ["read", "names"])
def test_a_checkpoint_that_cannot_be_read_is_told_of(tmp_path, monkeypatch, capsys, call):
    loop = checkpoints.Loop(str(tmp_path), every=0)
    loop.restore({})
    assert all(loop.keep({}) for _ in range(2))
    real = getattr(checkpoint_files.Folder, call)

    def failing(self, name=""):
        if name.startswith("step-000000000002"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(self, name)

    monkeypatch.setattr(checkpoint_files.Folder, call, failing)
    (tmp_path / "step-000000000003").touch()  # what is none is not worth a word
    (tmp_path / "step-000000000004").mkdir()
    assert checkpoints.Loop(str(tmp_path)).restore({}) == 1
    newest = tmp_path / "step-000000000002"
    words = f"the checkpoint {newest} cannot be read: Input/output error"
    assert capsys.readouterr().err == f"submarine: {words}\n"


FULL = """
import os
from submarine_runtime import checkpoint_files, job
real, step = os.fsync, -1
def fsync(descriptor):
    if 2 < step < 6: raise OSError(28, "No space left on device")
    real(descriptor)
os.fsync = fsync
"""


def test_on_a_full_disk_the_training_goes_on(attempts):
    task = attempts(f"{FULL}for step in job.steps(9, {{'a': 1}}, every=0): print('step', step)")
    assert task.wait() == 0
    assert of_steps(task) == list(range(9))
    words = f"no checkpoint after step 4: {attempts.place}: No space left on device (free: "
    assert words in task.stderr
    assert "the training goes on, and the last checkpoint stays as it is" in task.stderr
    # Not tried again at each step.
    assert task.stderr.count("No space left") == 1
    assert step_folders(attempts.place)[0] == "step-000000000003"
    assert not list(attempts.place.glob(".*"))


def test_a_checkpoint_that_must_be_written_raises(attempts):
    task = attempts(
        f"""{FULL}
state = {{"a": 1}}
job.restore(state)
assert job.checkpoint(state, every=3600, must=True)
step = 4
job.checkpoint(state, every=3600)
job.checkpoint(state, must=True)
"""
    )
    assert task.wait() == 1
    assert "OSError: [Errno 28] no checkpoint after step 3" in task.stderr
    assert step_folders(attempts.place) == ["step-000000000001"]
    assert not list(attempts.place.glob(".*"))


def test_a_path_that_is_a_file_or_is_closed_is_refused_before_the_first_step(attempts):
    script = "from submarine_runtime import job\nfor step in job.steps(3, {}): print('step', step)"
    attempts.place.touch()
    task = attempts(script)
    assert task.wait() == 1
    words = "is no folder: give --checkpoint_path a folder that this job may write"
    assert f"NotADirectoryError: {attempts.place} {words}" in task.stderr
    attempts.place.unlink()
    refusing = "import os\nreal = os.mkdir\ndef mkdir(path, *more, **others):\n"
    refusing += "    if 'probe' in path: raise PermissionError(13, 'Permission denied')\n"
    refusing += "    real(path, *more, **others)\nos.mkdir = mkdir\n"
    task = attempts(refusing + script)
    assert task.wait() == 1
    assert f"no checkpoints can be written to {attempts.place}: Permission denied" in task.stderr
    assert of_steps(task) == []


def test_checkpoints_of_a_later_release_are_left_alone(attempts):
    folder = attempts.place / "step-000000000009"
    folder.mkdir(parents=True)
    (folder / "checkpoint.json").write_text('{"version": 9}')
    task = attempts("from submarine_runtime import job\nfor _ in job.steps(3, {}, every=0): 0")
    assert task.wait() == 1
    assert "was written by a later release (format 9, this one knows 1)" in task.stderr
    assert step_folders(attempts.place) == [folder.name]


def test_the_checkpoint_of_another_training_is_refused(attempts):
    script = "from submarine_runtime import job\nfor _ in job.steps(3, STATE, every=0): 0"
    assert attempts(script.replace("STATE", "{'a': 1, 'b': 2}")).wait() == 0
    task = attempts(script.replace("STATE", "{'a': 1, 'model': [0.0]}"))
    assert task.wait() == 1
    assert "holds no 'model': make the same state as the run before, or give" in task.stderr
    assert attempts(script.replace("STATE", "{'a': 1}")).wait() == 0


def test_the_log_says_whose_checkpoint_it_is(attempts):
    script = "from submarine_runtime import job\nfor _ in job.steps(3, {}, every=0): 0"
    assert attempts(script, env={"SUBMARINE_JOB_ID": "first"}).wait() == 0
    again = attempts(script, env={"SUBMARINE_JOB_ID": "first"})
    assert again.wait() == 0
    assert not again.stderr
    more = attempts(script.replace("3", "5"), env={"SUBMARINE_JOB_ID": "second"})
    assert more.wait() == 0
    whose = f"job first, kept in {attempts.place}"
    assert more.stderr == f"submarine: goes on with step 3, after those of {whose}\n"


def test_the_log_says_that_nothing_is_left_to_train(attempts):
    script = "from submarine_runtime import job\nfor _ in job.steps(3, {}, every=0): 0"
    assert attempts(script, env={"SUBMARINE_JOB_ID": "first"}).wait() == 0
    task = attempts(script, env={"SUBMARINE_JOB_ID": "second"})
    assert task.wait() == 0
    assert task.stderr == (
        f"submarine: no step is left to do: 3 were done by job first, kept in {attempts.place}; "
        "to begin anew, give another --checkpoint_path, or remove that one\n"
    )


@pytest.mark.parametrize("part", ["", "state.pickle"])
def test_a_checkpoint_of_another_user_is_not_loaded(attempts, monkeypatch, part):
    assert attempts(TRAIN).wait() == 0
    newest = attempts.place / step_folders(attempts.place)[-1]
    if os.geteuid() == 0:
        os.chown(newest / part, 65534, 65534)
    else:  # the other way round: these are the files of a stranger
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
        monkeypatch.setattr(checkpoint_files.Folder, "_own_name", lambda _: 65534)
    with pytest.raises(PermissionError, match="give another --checkpoint_path"):
        checkpoints.Loop(str(attempts.place)).restore({})


def test_a_checkpoint_of_another_user_that_appears_meanwhile_costs_none_of_ours(
    tmp_path, monkeypatch
):
    loop = checkpoints.Loop(str(tmp_path), every=0)
    loop.restore({})
    assert loop.keep({})
    theirs = "step-000000000999"
    shutil.copytree(tmp_path / step_folders(tmp_path)[0], tmp_path / theirs)
    real = checkpoint_files.Folder.expect_own

    def expect_own(self, name):
        if name == theirs:
            raise PermissionError("it belongs to another user")
        real(self, name)

    monkeypatch.setattr(checkpoint_files.Folder, "expect_own", expect_own)
    assert all(loop.keep({}, must=True) for _ in range(3))
    assert step_folders(tmp_path) == ["step-000000000003", "step-000000000004", theirs]
    with pytest.raises(PermissionError, match="another user"):  # whoever names the path is told
        checkpoints.Loop(str(tmp_path)).restore({})
    with pytest.raises(PermissionError, match="another user"):
        checkpoints.latest(str(tmp_path))


def test_a_file_that_cannot_be_made_is_one_error(tmp_path, monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: ignored.append(one.exc_type))
    with pytest.raises(FileNotFoundError):
        checkpoint_files.Folder(str(tmp_path)).new("gone/state.pickle")
    gc.collect()
    assert AttributeError not in ignored


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have a file of a stranger's")
def test_one_that_is_put_back_while_it_is_looked_at_is_not_loaded(attempts, monkeypatch):
    assert attempts(TRAIN).wait() == 0
    newest = attempts.place / step_folders(attempts.place)[-1]
    ours, real = newest.stat(), os.stat
    os.chown(newest / "state.pickle", 65534, 65534)

    def stat(path, *words, **options):
        found = real(path, *words, **options)
        if str(path).endswith("state.pickle"):  # who looks by name sees ours again
            found = os.stat_result((*found[:4], ours.st_uid, ours.st_gid, *found[6:]))
        return found

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(PermissionError, match="give another --checkpoint_path"):
        checkpoints.Loop(str(attempts.place)).restore({})


def test_what_ranks_say_goes_through_no_link(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    (tmp_path / "said").symlink_to(precious)
    folder = checkpoint_files.Folder(str(tmp_path))
    with pytest.raises(OSError, match="symbolic links"):
        folder.tell("said", "theirs")
    with pytest.raises(OSError, match="symbolic links"):
        folder.hear("said")
    assert precious.read_text() == "mine\n"


def _socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero"), _socket],
    ids=["a pipe", "a folder", "a file without end", "a socket"],
)
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path, make):
    folder = checkpoint_files.Folder(str(tmp_path))
    make(tmp_path / "it")
    for ask in (folder.read, folder.opened):
        with pytest.raises(OSError, match=r"no regular file: remove it, or give another .*/it'"):
            ask("it")
    if not (tmp_path / "it").is_symlink():  # these go through no link at all
        for ask in (folder.hear, partial(folder.tell, line="here")):
            with pytest.raises(OSError, match=r"no regular file: .*/it'"):
                ask("it")


@pytest.mark.timeout(300)  # it trains first
def test_a_checkpoint_with_a_pipe_in_it_is_passed_over(attempts):
    assert attempts(TRAIN).wait() == 0
    *_, before, newest = step_folders(attempts.place)
    storage = checkpoint_files.Folder(str(attempts.place))
    for part in (checkpoint_files.STATE, checkpoint_files.NOTE):
        (attempts.place / newest / part).unlink()
        os.mkfifo(attempts.place / newest / part)
        checkpoint_files.expect_known(storage)
        assert next(iter(checkpoint_files.complete(storage)))[1] == before
    aside = attempts.place / checkpoint_files.aside_of(50)
    aside.mkdir()
    os.mkfifo(aside / checkpoint_files.STATE)
    assert not storage.is_cut(aside.name)  # somebody may have made it just now


def test_a_checkpoint_that_has_just_begun_is_not_cut(tmp_path):
    aside = tmp_path / checkpoint_files.aside_of(50)
    aside.mkdir()
    storage = checkpoint_files.Folder(str(tmp_path))
    file = storage.new(f"{aside.name}/{checkpoint_files.STATE}")
    assert not storage.is_cut(aside.name)
    with file:
        file.write(b"state")
    del file
    assert storage.is_cut(aside.name)


def test_files_of_a_file_system_that_knows_a_user_by_another_name_are_its_own(
    attempts, monkeypatch
):
    assert (
        attempts("from submarine_runtime import job\nfor _ in job.steps(2, {}, every=0): 0").wait()
        == 0
    )
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert checkpoints.Loop(str(attempts.place)).restore({}) == 2
    assert not list(attempts.place.glob(".*"))


def test_two_jobs_of_one_path_do_not_end_each_other(attempts):
    writing = """
    import os, time
    from submarine_runtime import checkpoint_files, checkpoint_state, job
    real = checkpoint_state.write
    def write(file, state):
        real(file, state)
        if isinstance(file, checkpoint_files.NewFile):
            print("writing", flush=True)
            while not os.path.exists(os.environ["GATE"]): time.sleep(0.02)
    checkpoint_state.write = write
    for step in job.steps(1, {"a": 1}, every=0): pass
    """
    gate = attempts.place.with_name("gate")
    slow = attempts(writing, env={"GATE": str(gate)})
    wait_for(lambda: "writing" in slow.stdout)
    fast = attempts("from submarine_runtime import job\nfor _ in job.steps(1, {}, every=0): 0")
    assert fast.wait() == 0, fast.stderr
    gate.touch()
    assert slow.wait() == 0, slow.stderr
    assert [path.name for path in attempts.place.iterdir()] == ["step-000000000001"]


@pytest.mark.parametrize(
    ("make", "what"),
    [("write_text", "x"), ("symlink_to", "/no/such"), ("symlink_to", "step-000000000001")],
    ids=["a file", "a link to nothing", "a link to itself"],
)
def test_what_is_no_checkpoint_is_not_in_the_way_of_one(attempts, make, what):
    attempts.place.mkdir()
    getattr(attempts.place / "step-000000000001", make)(what)
    task = attempts("from submarine_runtime import job\nfor _ in job.steps(1, {}, every=0): 0")
    assert task.wait() == 0, task.stderr
    assert checkpoints.latest(str(attempts.place)).endswith("step-000000000001")


def test_a_kill_while_an_old_one_goes_leaves_nothing_of_it(attempts):
    killed = """
    import os, shutil, signal
    from submarine_runtime import job
    real = shutil.rmtree
    def rmtree(path, **more):
        if os.path.exists(f"{path}/checkpoint.json"):
            os.unlink(f"{path}/checkpoint.json")
            os.kill(os.getpid(), signal.SIGKILL)
        real(path, **more)
    shutil.rmtree = rmtree
    for _ in job.steps(9, {}, every=0): pass
    """
    assert attempts(killed).wait() == -signal.SIGKILL
    task = attempts("from submarine_runtime import job\nfor _ in job.steps(4, {}, every=0): 0")
    assert task.wait() == 0, task.stderr
    assert sorted(path.name for path in attempts.place.iterdir()) == [
        "step-000000000003",
        "step-000000000004",
    ]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("None", "the state is nothing, which cannot be changed in place"),
        ("3.5", "the state is of type float"),
        ("(1, 2)", "the state is of type tuple"),
        ("print", "the state is of type builtin_function_or_method"),
        ('{"f": lambda: 1}', "the state cannot be kept in a checkpoint"),
        ('{"f": open(__file__)}', "the state cannot be kept in a checkpoint"),
    ],
)
def test_what_cannot_be_kept_is_told_before_the_first_step(attempts, state, words):
    script = (
        "from submarine_runtime import job\nfor step in job.steps(3, STATE): print('step', step)"
    )
    task = attempts(script.replace("STATE", state))
    assert task.wait() == 1
    assert words in task.stderr
    assert of_steps(task) == []


def test_another_state_than_that_of_the_checkpoint_is_refused(attempts):
    script = """
    import random
    from submarine_runtime import job
    state = {"drawer": random.Random(1)}
    for step in job.steps(3, state, every=0): pass
    """
    assert attempts(script).wait() == 0
    task = attempts(script.replace("random.Random(1)", "[1]"))
    assert task.wait() == 1
    assert "a checkpoint holds the state of an object that is now of type list" in task.stderr


@pytest.mark.parametrize("total", [-1, 2.5, True, "3"])
def test_steps_that_cannot_be_counted(total):
    with pytest.raises(ValueError, match="give how many steps there are"):
        next(job.steps(total, {}))


def test_a_path_that_is_no_folder_is_refused(monkeypatch):
    monkeypatch.setenv("SUBMARINE_CHECKPOINT_PATH", "hdfs://nn:8020/kept")
    with pytest.raises(ValueError, match="give --checkpoint_path a folder"):
        next(job.steps(3, {}))
    with pytest.raises(ValueError, match="give --checkpoint_path a folder"):
        job.latest_checkpoint()


def test_a_checkpoint_before_a_beginning_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", "from submarine_runtime import job; job.checkpoint({})"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "begin the loop at `done = job.restore(state)`" in done.stderr


def test_files_are_their_owners_and_the_last_two_stay(attempts):
    task = attempts(TRAIN)
    assert task.wait() == 0
    assert step_folders(attempts.place) == ["step-000000000039", "step-000000000040"]
    for folder in attempts.place.iterdir():
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "env", [{"RANK": "1"}, {"SUBMARINE_TASK": "ps-0"}, {"SUBMARINE_TASK": "evaluator-0"}]
)
def test_of_several_ranks_the_first_writes(attempts, env):
    script = "from submarine_runtime import job\nfor step in job.steps(3, {}, every=0): pass"
    assert attempts(script, env=env).wait() == 0
    assert not attempts.place.exists()


def test_the_loop_says_how_far_it_is_unless_the_code_does(attempts):
    script = """
    from submarine_runtime import job
    for step in job.steps(4, {}):
        TOLD
    """
    task = attempts(script.replace("TOLD", "pass"))
    assert task.wait() == 0
    assert json.loads((task.folder / "progress.json").read_text())["fraction"] == 1
    told = script.replace("TOLD", "job.progress(0.3, 'mine')").replace("steps(4", "steps(8")
    task = attempts(told)
    assert task.wait() == 0
    told = json.loads((task.folder / "progress.json").read_text())
    assert (told["fraction"], told["message"]) == (0.3, "mine")


def test_the_folder_is_there_for_whoever_writes_to_it(monkeypatch, tmp_path):
    monkeypatch.setenv("SUBMARINE_CHECKPOINT_PATH", str(tmp_path / "a" / "b"))
    assert job.checkpoint_path() == str(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    for path in ("hdfs://nn:8020/kept", str(tmp_path / "file")):
        monkeypatch.setenv("SUBMARINE_CHECKPOINT_PATH", path)
        assert job.checkpoint_path() == path


def test_a_job_without_a_folder_says_what_to_give(monkeypatch):
    monkeypatch.delenv("SUBMARINE_CHECKPOINT_PATH", raising=False)
    monkeypatch.setenv("SUBMARINE_JOB_ID", "a-job")
    with pytest.raises(ValueError, match="no folder for checkpoints: give --checkpoint_path one"):
        next(job.steps(3, {}))
