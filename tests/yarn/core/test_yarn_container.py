"""What a container left, where what was to bring it to HDFS came too late."""

import json
import os
import resource

import pytest
from submarine_engine.clusters import container as container_module
from submarine_engine.clusters.container import Container
from submarine_engine.clusters.tasks import (
    Ending,
    final_task_state,
    read_outcome,
    returned_event,
)
from submarine_engine.errors import ClusterError
from submarine_engine.events import Moment
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState
from submarine_engine.outcome import read_outcome as read_checked
from submarine_runtime import post_mortem
from submarine_runtime.home import Ending as HowItEnded
from submarine_runtime.outcome import Outcome
from submarine_runtime.sealing import attempt_key


class Brought:
    """A source as of HDFS that has all that will come: the files that it was given."""

    container = "container_1_0001_01_000002"
    live = False
    complete = True

    def __init__(self, **files):
        self.files = {name.replace("_", "."): data for name, data in files.items()}

    def sizes(self):
        return {name: len(data) for name, data in self.files.items()}

    def read(self, name, offset, limit):
        return self.files[name][offset : offset + limit]


@pytest.mark.parametrize(
    ("gathered", "files", "complete"),
    [
        (True, {"stdout": b"all\n"}, False),  # log aggregation was faster: it has the rest
        (True, {"stdout": b"all\n", "exit": b"0\n"}, True),
        (False, {"stdout": b"all\n"}, True),  # killed, and its application goes on
    ],
)
def test_a_container_without_a_last_word(tmp_path, gathered, files, complete):
    container = Container(JobPaths(tmp_path, "20260101-000000-aaaaa"), "worker-0", 0)
    container.see(Brought(**files))
    container.gathered = gathered
    assert container.drain() is complete
    assert container.files.stdout.read_bytes() == b"all\n"
    assert container.exit_status == (0 if "exit" in files else None)


def returned(size):
    """A source with an outcome and a result, of which not more than `size` bytes come."""
    result = {"format": "pickle", "file": "return.pkl", "size": 12}
    outcome = json.dumps({"result": result}).encode()
    files = {"stdout": b"1\n", "outcome.json": outcome, "return.pkl": b"x" * 12}

    class Returned(Brought):
        def read(self, name, offset, limit):
            limit = limit if name != "return.pkl" else max(0, min(limit, size - offset, 5))
            return super().read(name, offset, limit)

    source = Returned()
    source.files = files
    return source


def test_a_result_comes_whole_in_pieces(tmp_path):
    container = Container(JobPaths(tmp_path, "20260101-000000-aaaaa"), "worker-0", 0)
    container.see(returned(12))
    assert container.drain()
    assert (container.files.results / "return.pkl").read_bytes() == b"x" * 12
    assert container.files.outcome.exists()


def test_half_a_result_is_none(tmp_path):
    container = Container(JobPaths(tmp_path, "20260101-000000-aaaaa"), "worker-0", 0)
    container.see(returned(7))
    with pytest.raises(ClusterError, match="has 12 bytes, and only 7 come"):
        container.drain()
    assert list(container.files.results.iterdir()) == []
    assert not container.files.outcome.exists()


KEY = os.urandom(32)


OWNER = {"job_id": "20260101-000000-aaaaa", "task": "worker-0", "container": Brought.container}


def marked(tmp_path, key=KEY, value=None, error=None, **owner):
    """A source with what the runtime writes for a result, marked as the container of `owner`."""
    folder = tmp_path / "node"
    folder.mkdir(parents=True)
    (tmp_path / "key").write_bytes(attempt_key(key, **{**OWNER, **owner}))
    outcome = Outcome(str(folder), "", ".", str(tmp_path / "key"))
    ending = HowItEnded("raised", 1, error) if error else HowItEnded("returned", 0)
    ending.value = None if error else value or {"a": 1}
    assert outcome.write(ending) == ending.exit_code
    source = Brought()
    source.files = {path.name: path.read_bytes() for path in folder.iterdir()}
    source.files["stdout"] = b""
    return source


def brought_home(tmp_path, source):
    """Bring home what a job with the key has left; return its container."""
    paths = JobPaths(tmp_path, "20260101-000000-aaaaa")
    paths.root.mkdir(parents=True)
    paths.results_key.write_bytes(KEY)
    container = Container(paths, "worker-0", 0)
    container.id, container.node = Brought.container, "node7:8042"
    container.see(source)
    container.drain()
    return container


def test_what_the_code_raised_comes_home_where_it_is_the_containers_own(tmp_path):
    source = marked(tmp_path, error=ValueError(1, 2))
    container = brought_home(tmp_path, source)
    raised = container.files.results / "raised.pkl"
    assert raised.read_bytes() == source.files["raised.pkl"]
    assert read_checked(container.files.root).raised
    source.files["raised.pkl"] += b"x"
    other = brought_home(tmp_path / "other", source)
    assert not (other.files.results / "raised.pkl").exists()
    assert "was not written by worker-0" in read_checked(other.files.root).error.message


def test_a_marked_result_comes_home(tmp_path):
    source = marked(tmp_path)
    container = brought_home(tmp_path, source)
    assert (container.files.results / "return.pkl").read_bytes() == source.files["return.pkl"]
    assert read_checked(container.files.root).result.file == "return.pkl"
    outcome = read_outcome(container.files)
    assert "marks" not in outcome
    ending = Ending(0, outcome)
    returned = returned_event("worker-0", ending, Moment.now())
    assert returned.size == len(source.files["return.pkl"])
    assert returned.seconds > 0


def of_another(**owner):
    """Put what another container of the job has left, all of it, into the place of this one's."""

    def swap(source, tmp_path):
        source.files = marked(tmp_path / "other", **owner).files

    return swap


other_key = of_another(key=os.urandom(32))
other_job = of_another(job_id="20260101-000000-bbbbb")
other_task = of_another(task="worker-1")
other_attempt = of_another(container="container_1_0001_01_000003")


def result_of_another(source, tmp_path):
    other = marked(tmp_path / "other", container="container_1_0001_01_000003", value={"a": 2})
    source.files["return.pkl"] = other.files["return.pkl"]


def other_result(source, _):
    source.files["return.pkl"] = source.files["return.pkl"].replace(b"a", b"b")


def other_outcome(source, _):
    source.files["outcome.json"] = source.files["outcome.json"].replace(b"dict", b"list")


def no_mark(source, _):
    source.files["outcome.json"] = source.files["outcome.json"].partition(b"\n")[0]


def no_text(source, _):
    source.files["outcome.json"] = b"\xff\n\xff\n\x00"


@pytest.mark.parametrize(
    "change",
    [
        other_key,
        other_job,
        other_task,
        other_attempt,
        result_of_another,
        other_result,
        other_outcome,
        no_mark,
        no_text,
    ],
)
def test_what_somebody_else_has_written_is_refused_in_words(tmp_path, change):
    source = marked(tmp_path)
    change(source, tmp_path)
    container = brought_home(tmp_path, source)
    assert not container.files.results.exists()
    ending = Ending(0, read_outcome(container.files))
    state, reason = final_task_state(ending, tmp_path, oom_killed=False)
    assert state is JobState.FAILED
    assert reason.startswith("ClusterError: ")
    words = f"as node7:8042 shows it, was not written by worker-0 in {Brought.container}"
    assert words in reason
    assert words in read_checked(container.files.root).error.message


def of_a_follower(tmp_path, source):
    """Bring home what a task has left that is not of rank 0; return what is said of its result."""
    paths = JobPaths(tmp_path, "20260101-000000-aaaaa")
    paths.root.mkdir(parents=True)
    paths.results_key.write_bytes(KEY)
    container = Container(paths, "worker-0", 0)
    container.id, container.node, container.follows = Brought.container, "node7:8042", True
    container.see(source)
    container.drain()
    assert [path.name for path in container.files.results.iterdir()] == []
    told = read_checked(container.files.root).result
    assert told.format == "none"
    assert told.warning.startswith("the result of worker-0 has ")
    return told.warning


def test_a_result_too_large_from_one_rank_is_left_there_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(container_module, "_MOST_OF_OTHERS", 3)
    words = of_a_follower(tmp_path, marked(tmp_path))
    assert "more than 3 come home from rank 0 alone" in words


def test_a_result_of_one_rank_that_finds_no_room_fails_no_job(tmp_path):
    source = marked(tmp_path, value=b"x" * 200_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        words = of_a_follower(tmp_path, source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "did not come home: File too large here" in words


def failed_with_frames(tmp_path):
    """A source with what a task that has failed leaves, its frames too."""
    source = marked(tmp_path, error=ValueError(1))
    folder = tmp_path / "node"
    try:
        held = "the frame's"  # noqa: F841 - looked at below
        raise ValueError(1)  # noqa: TRY301 - likewise
    except ValueError as error:
        post_mortem.keep(error, str(folder), "/nowhere", {}, key=str(tmp_path / "key"))
    for path in folder.glob("post-mortem*"):
        source.files[path.name] = path.read_bytes()
    return source


def test_what_the_frames_held_comes_home_where_it_is_the_containers_own(tmp_path):
    source = failed_with_frames(tmp_path)
    container = brought_home(tmp_path, source)
    kept = read_json(container.files.post_mortem)
    assert kept["frames"][-1]["locals"].keys() >= {"held", "source"}
    values = container.files.results / post_mortem.VALUES
    assert values.read_bytes() == source.files[post_mortem.VALUES]
    for name in (post_mortem.INDEX, post_mortem.VALUES):
        spoilt = dict(source.files)
        source.files[name] = (
            source.files[name].replace(b"held", b"hold").replace(b"frame", b"fr4me")
        )
        other = brought_home(tmp_path / name, source)
        assert not other.files.post_mortem.exists()
        assert not (other.files.results / post_mortem.VALUES).exists()
        assert read_checked(other.files.root).error.message == "1", "how it ended is unharmed"
        source.files = spoilt
