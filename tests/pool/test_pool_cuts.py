"""A pool's files cut off at any byte, damaged, or without room: never another call's value."""

import json
import os
import resource

import pytest
from submarine_engine.clusters import locks
from submarine_engine.errors import ConfigError, ResultError, SubmissionError
from submarine_engine.history import new_job_id
from submarine_engine.pool.calls import Call, End
from submarine_engine.pool.folder import PoolFolder, remove_left
from submarine_engine.pool.inputs import Giver
from submarine_engine.pool.journal import Follower, Journal
from submarine_runtime.call_frames import Reader, append, frame

from tests.pool.programs import Program
from tests.pool.test_pool_kills import Run, home  # noqa: F401 - a fixture


@pytest.fixture
def small_files():
    """Let no file of this process grow beyond four kilobytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def folder(tmp_path):
    found = PoolFolder(tmp_path / "pools" / new_job_id())
    found.root.mkdir(parents=True)
    return found


def value(index):
    return bytes([65 + index]) * (10 + index)


def written(folder, first=0, count=6):
    """Write a record of calls of which all but the last two have ended."""
    journal = Journal(folder)
    for index in range(first, first + count):
        noted = journal.call(Call(index, value(index), f"{index}"))
        journal.given(noted, worker="w")
        journal.began(noted, "host")
        if index < first + count - 2:
            journal.ended(noted, End(outcome="value", payload=value(index)))
    journal.close()


def seen(folder):
    """Return the values of the calls that have one, each as it was given; None for a lost one."""
    follower = Follower(folder)
    lines = [line for line in follower.read() if line["kind"] == "ended"]
    ends = {line["index"]: follower.end(line) for line in lines}
    for index, end in ends.items():
        assert end.outcome == "lost" or end.payload == value(index), (index, end)
    return {index: end.succeeded for index, end in ends.items()}


@pytest.mark.parametrize("name", ["calls", "arguments", "values"])
def test_files_that_are_cut_off_at_any_byte_keep_what_stands_before(folder, name):
    written(folder)
    files = {one: getattr(folder, one).read_bytes() for one in ("calls", "arguments", "values")}
    for size in range(0, len(files[name]), 5 if name == "calls" else 1):
        for one, data in files.items():
            getattr(folder, one).write_bytes(data[:size] if one == name else data)
        before = seen(folder)
        journal = Journal(folder)
        for index, noted in journal.record.open.items():
            assert noted.cut or noted.call.arguments == value(index)
        after = {index: journal.end(line) for index, line in journal.record.ended.items()}
        assert {index: end.succeeded for index, end in after.items()} == before
        journal.close()
        if size % 3 == 0:  # what comes later may lie where something has been
            first = max(journal.record.calls, default=-1) + 1
            written(folder, first, 3)
            later = seen(folder)
            assert {index: later[index] for index in before} == before
            assert later[first]


@pytest.mark.parametrize(
    "line",
    [
        b"null", b"[]", b"3", b'{"kind": 1}', b'{"kind": "call"}', b'{"kind": "other"}', b"\xff",
        b'{"kind": "ended", "index": "0", "try": 1}', b"[" * 100_000,
        b'{"kind": "given", "index": 77, "try": 1, "worker": "w"}',
        b'{"kind": "call", "index": 9, "label": "", "batch": 1, "at": -1, "size": 4}',
    ],
    ids=lambda line: line[:40],
)  # fmt: skip
def test_a_damaged_record_is_said_in_words_to_whoever_takes_over(folder, line):
    written(folder)
    data = folder.calls.read_bytes()
    folder.calls.write_bytes(line + b"\n" + data)
    with pytest.raises(ResultError, match=r"is damaged.*calls\.jsonl|calls\.jsonl.*is damaged"):
        Journal(folder)


def test_a_record_that_is_damaged_meanwhile_is_told_by_every_future(tmp_path):
    Program(tmp_path, PROGRAM).run(
        """
        def hold(flag):
            while not os.path.exists(flag):
                time.sleep(0.01)

        with Executor(max_workers=1, gpus=0) as ex:
            futures = [ex.submit(hold, os.environ["FLAG"]) for _ in range(2)]
            while not futures[0].running():
                time.sleep(0.01)
            (record,) = Path(os.environ["SUBMARINE_HOME"]).glob("pools/*/calls.jsonl")
            with record.open("ab") as file:
                file.write(b"null\\n")
            try:
                futures[0].exception(120)
                futures.append(ex.submit(hold, os.environ["FLAG"]))
                errors = [future.exception(120) for future in futures]
            finally:
                Path(os.environ["FLAG"]).touch()
        print([type(error).__name__ for error in errors], errors[2])
    """,
        "['ResultError', 'ResultError', 'ResultError']",
        "the record of the calls is damaged",
        FLAG=str(tmp_path / "flag"),
    )


def test_what_has_no_room_leaves_nothing_and_the_next_is_read(folder, small_files):
    giver = Giver(folder)
    giver.give(Call(0, b"x" * 3000))
    with pytest.raises(SubmissionError, match="cannot be written: File too large"):
        giver.give(Call(1, b"y" * 3000))
    giver.give(Call(1, b"z"))
    giver.close()
    frames = list(Reader(str(folder.inputs)).read())
    assert [(head["kind"], data[:1]) for head, data in frames] == [
        ("call", b"x"), ("call", b"z"), ("done", b""),
    ]  # fmt: skip
    journal = Journal(folder)
    noted = journal.call(Call(0, b"a" * 3000))
    with pytest.raises(OSError, match="too large"):
        journal.call(Call(1, b"b" * 3000))
    journal.given(noted, worker="w")
    with pytest.raises(OSError, match="too large"):
        journal.ended(noted, End(outcome="value", payload=b"c" * 5000))
    journal.ended(noted, End(outcome="value", payload=b"d"))
    journal.close()
    assert Journal(folder).end(Journal(folder).record.ended[0]).payload == b"d"


def test_what_a_pipe_does_not_take_is_said():
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        append(writing, frame({"kind": "x"}))
    os.close(writing)


def test_inputs_that_are_cut_off_are_said_when_all_others_have_ended(tmp_path, home):  # noqa: F811
    run = Run(tmp_path, 5, calls=5)
    run.folder.inputs.write_bytes(run.folder.inputs.read_bytes()[:-60])
    with pytest.raises(AssertionError, match="inputs are gone: their file is cut off"):
        run.control()
    ended = [line["index"] for line in run.lines() if line["kind"] == "ended"]
    assert 2 <= len(ended) < 5
    assert "cut off" in json.dumps(run.lines()[-1])


@pytest.mark.long
def test_a_record_that_lost_its_end_ends_each_call_all_the_same(tmp_path, home):  # noqa: F811
    run = Run(tmp_path, 60)
    assert run.control("journal ended", "after", "40") == -9
    data = run.folder.calls.read_bytes()
    run.folder.calls.write_bytes(data[: len(data) - 1500])
    arguments = run.folder.arguments.read_bytes()
    run.folder.arguments.write_bytes(arguments[:-20])
    assert run.control() == 0
    ends = {line["index"]: line for line in run.lines() if line["kind"] == "ended"}
    assert set(ends) == set(range(60))
    assert all(line["outcome"] in ("value", "error", "lost") for line in ends.values())


@pytest.mark.parametrize("what", ["another user's", "open to others", "a link"])
def test_a_pool_that_somebody_else_may_change_is_not_read(folder, monkeypatch, what):
    folder.plan.write_text('{"version": 1, "source": "os:system"}')
    folder.root.chmod(0o700)
    folder.home.chmod(0o700)
    assert folder.read()["source"] == "os:system"
    if what == "open to others":
        folder.root.chmod(0o777)
    elif what == "a link":
        folder.root.rename(folder.home / "elsewhere")
        folder.root.symlink_to(folder.home / "elsewhere")
    else:
        monkeypatch.setattr("submarine_engine.pool.folder.check_home", lambda _: None)
        monkeypatch.setattr(os, "getuid", lambda: folder.home.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="not this user's alone"):
        folder.read()


def test_pools_whose_jobs_were_removed_go_after_a_day(tmp_path):
    """Not those that another one's values are in, that are young, or that somebody holds."""
    jobs = tmp_path / "jobs"

    def made(what, job="", **plan):
        folder = PoolFolder(tmp_path / "pools" / new_job_id())
        folder.root.mkdir(parents=True)
        folder.plan.write_text(json.dumps(plan))
        if job:
            folder.note_job(job)
        (folder.root / "what").write_text(what)
        if what != "young":
            os.utime(folder.root, (1, 1))
        return folder

    (jobs / "there").mkdir(parents=True)
    made("removed", "gone")
    made("never had a job")
    damaged = made("damaged", "gone")
    damaged.job.write_text("[")
    os.utime(damaged.root, (1, 1))
    made("young", "gone")
    former = made("former", "gone")
    made("again", "there", former=former.root.name)
    sweep = made("sweep", "gone")
    (sweep.root / "sweep.json").write_text('{"jobs": ["gone", "there"]}')
    os.utime(sweep.root, (1, 1))
    held = made("held", "gone")
    lock = locks.take(held.giver)
    os.utime(held.root, (1, 1))
    (tmp_path / "pools" / "a folder of mine").mkdir()
    remove_left(tmp_path)
    left = {path.read_text() for path in tmp_path.glob("pools/*/what")}
    assert left == {"young", "former", "again", "sweep", "held"}
    locks.drop(lock)
    remove_left(tmp_path)  # it was looked at today
    assert held.root.exists()
    (tmp_path / "pools" / "looked").unlink()
    remove_left(tmp_path)
    assert not held.root.exists()
    assert (tmp_path / "pools" / "a folder of mine").exists()


PROGRAM = """
    import os, time
    from pathlib import Path

    from submarine_engine import Executor, map
    from submarine_engine.errors import SubmissionError
    from submarine_engine.pool import inputs

    def double(n):
        return n * 2

    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    if __name__ == "__main__":
        plain = inputs.append
"""


def test_without_room_a_call_is_refused_and_those_before_it_end(tmp_path):
    Program(tmp_path, PROGRAM).run("""
        with Executor(max_workers=1, gpus=0) as ex:
            first = ex.submit(double, 1)
            inputs.append = full
            try:
                ex.submit(double, 2)
            except SubmissionError as error:
                assert "No space left" in str(error), error
            else:
                raise AssertionError
            inputs.append = plain
            assert ex.submit(double, 3).result() == 6
            assert first.result() == 2

        def numbers():
            yield from range(70)
            inputs.append = full
            yield from range(70, 200)

        found = map(double, numbers(), gpus=0, max_workers=1)
        got, refused = [], 0
        while True:
            try:
                got.append(next(found))
            except StopIteration:
                break
            except SubmissionError:
                refused += 1
        assert refused == 1, refused
        assert got == [2 * n for n in range(70)], got
    """)


def test_a_map_that_was_given_up_goes_on_by_a_retry_of_its_job(tmp_path):
    head = """
        import os
        from pathlib import Path
        from submarine_engine import map, open_map

        def double(n):
            if not Path(os.environ["SIDE"]).exists():
                raise ValueError(n)
            return n * 2

        if __name__ == "__main__":
    """
    Program(tmp_path, head).run(
        """
        found = map(double, range(2, 5), gpus=0, max_workers=1, give_up=1, name="doubles")
        try:
            found.wait()
        except Exception as error:
            assert "2" in str(error), error
        else:
            raise AssertionError
        Path(os.environ["SIDE"]).touch()
        found.job.wait()
        found.job.retry()
        assert open_map("doubles").wait().results() == {1: 6, 2: 8}
        """,
        SIDE=str(tmp_path / "side"),
    )
