"""What a task says is the word of a stranger; what it is told is the same for the same hellos."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.clusters.exchange import (
    LARGEST,
    CallCarrier,
    Hello,
    WrongHelloError,
    answer,
    exchange_files,
    read_hello,
)
from submarine_engine.errors import ClusterError
from submarine_engine.job import JobSpec, Role
from submarine_runtime.call_frames import CALLS, PART, TAKEN, Reader, frame, part, take_in
from submarine_runtime.exchange import ANSWER, HELLO, TaskPlace
from submarine_runtime.rendezvous import variables

JOB = "20250101-000000-abcde"
SAID = {
    "version": 1, "job_id": JOB, "task": "worker-1", "attempt": 1, "host": "node-7.example",
    "network": "boot/1", "ports": [40001, 40002, 40003, 40004], "pid": 7,
}  # fmt: skip


def read(**changed):
    return read_hello(json.dumps({**SAID, **changed}).encode(), JOB, "worker-1")


def test_a_hello_is_read():
    assert read() == Hello("node-7.example", "boot/1", (40001, 40002, 40003, 40004))
    assert read(host="fe80::1", more="is passed over").host == "fe80::1"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"task": "worker-0"}, "another task, job or release"),
        ({"job_id": "20250101-000000-zzzzz"}, "another task, job or release"),
        ({"attempt": 2}, "another task, job or release"),
        ({"version": 9}, "another task, job or release"),
        ({"task": ["worker-1"]}, "another task, job or release"),
        ({"host": ""}, "invalid host"),
        ({"host": "a" * 300}, "invalid host"),
        ({"host": "a\nMASTER_ADDR=evil"}, "invalid host"),
        ({"host": "$(reboot)"}, "invalid host"),
        ({"host": 7}, "invalid host"),
        ({"network": "x" * 300}, "invalid host"),
        ({"ports": [1, 2, 3]}, "invalid ports"),
        ({"ports": [1, 2, 3, 65536]}, "invalid ports"),
        ({"ports": [1, 2, 3, 0]}, "invalid ports"),
        ({"ports": [1, 2, 3, True]}, "invalid ports"),
        ({"ports": "123"}, "invalid ports"),
        ({"network": "x" * LARGEST}, "more than 65,536 bytes"),
    ],
)
def test_a_hello_that_lies_is_none(changed, words):
    with pytest.raises(WrongHelloError, match=words):
        read(**changed)


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_hello_or_a_word_of_ours(data):
    with pytest.raises(WrongHelloError):
        read_hello(data, JOB, "worker-1")


@pytest.mark.parametrize("text", ["[]", "null", "{}", "7", "[" * 50_000, '{"version": 1'])
def test_json_that_is_no_hello(text):
    with pytest.raises(WrongHelloError, match="no hello"):
        read_hello(text.encode(), JOB, "worker-1")


def test_in_a_folder_nothing_is_read_through_a_link_or_from_what_is_no_file(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of somebody else")
    task = tmp_path / "task"
    task.mkdir()
    assert exchange_files(task, {}) == {}
    (task / HELLO).symlink_to(secret)
    assert exchange_files(task, {}) == {HELLO: b""}
    (task / HELLO).unlink()
    os.mkfifo(task / HELLO)
    assert exchange_files(task, {}) == {HELLO: b""}
    (task / HELLO).unlink()
    (task / HELLO).mkdir()
    assert exchange_files(task, {}) == {HELLO: b""}
    (task / HELLO).rmdir()
    (task / HELLO).write_bytes(b"x" * (10 * LARGEST))
    assert len(exchange_files(task, {})[HELLO]) == LARGEST + 1


def test_an_answer_replaces_whatever_lies_there(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("mine")
    task = tmp_path / "task"
    task.mkdir()
    (task / ANSWER).symlink_to(kept)
    exchange_files(task, {ANSWER: b"1"})
    assert (kept.read_text(), (task / ANSWER).read_bytes()) == ("mine", b"1")
    assert (task / ANSWER).stat().st_mode & 0o777 == 0o600
    with pytest.raises(ClusterError, match="cannot be written"):
        exchange_files(tmp_path / "gone", {ANSWER: b"1"})


class Task:
    """A task elsewhere, which is not always reached."""

    def __init__(self, folder):
        self.folder = folder
        self.silent = 0
        self.messages = []
        folder.mkdir()

    def exchange(self, messages):
        if self.silent:
            self.silent -= 1
            raise ClusterError("it does not answer")
        self.messages += [told[CALLS] for told in messages.values() if CALLS in told]
        return {"worker-0": exchange_files(self.folder, messages.get("worker-0", {}))}

    def frames(self):
        return list(Reader(str(self.folder / CALLS)).read())


def bring(carrier):
    for _ in range(50):
        with suppress(ClusterError):
            if not carrier.step():
                return


def test_calls_are_brought_in_order_once_and_whole_alone(tmp_path):
    task, path = Task(tmp_path / "there"), tmp_path / CALLS
    carrier = CallCarrier(path, "worker-0", task.exchange)
    bring(carrier)
    assert task.messages == []  # nobody has written anything
    calls = [frame({"kind": "call", "index": n}, os.urandom(n * PART // 2)) for n in range(5)]
    for number, data in enumerate(calls):
        task.silent = number % 2
        with path.open("ab") as file:
            file.write(data + calls[0][:7])  # and the half of another one
        bring(carrier)
        assert [head["index"] for head, _ in task.frames()] == list(range(number + 1))
        os.truncate(path, path.stat().st_size - 7)  # the controller after that one
    assert b"".join(calls) == (task.folder / CALLS).read_bytes()
    assert max(map(len, task.messages)) < PART + 20
    count = len(task.messages)
    bring(carrier)
    assert len(task.messages) == count
    # A driver after this one begins anew, and hears at once how far the task is.
    with path.open("ab") as file:
        file.write(calls[1])
    bring(CallCarrier(path, "worker-0", task.exchange))
    assert len(task.messages) == count + 2
    assert b"".join([*calls, calls[1]]) == (task.folder / CALLS).read_bytes()


def test_a_task_that_lies_about_its_calls_gets_no_more_than_there_are(tmp_path):
    path = tmp_path / CALLS
    path.write_bytes(frame({"kind": "end"}))
    for lie in (b"-1", b"x", b"9" * 400, b"", b"99999"):
        said = []

        def exchange(messages, lie=lie, said=said):
            said.append(messages)
            return {"worker-0": {TAKEN: lie}}

        bring(CallCarrier(path, "worker-0", exchange))
        assert [list(messages) for messages in said] == [["worker-0"]]


def test_a_part_that_comes_twice_or_too_early_is_written_once(tmp_path):
    path = str(tmp_path / CALLS)
    assert take_in(path, part(0, b"abc")) == 3
    assert take_in(path, part(0, b"abcde")) == 5
    assert take_in(path, part(1, b"bc")) == 5
    assert take_in(path, part(9, b"later")) == 5
    assert take_in(path, part(-2, b"before")) == 5
    assert (tmp_path / CALLS).read_bytes() == b"abcde"
    with pytest.raises(ValueError, match="invalid literal"):
        take_in(path, b"nonsense")


def spec(**counts):
    return JobSpec(roles=tuple(Role(name=name, count=count) for name, count in counts.items()))


def hellos(spec, networks=("a",)):
    return {
        task: Hello(f"host-{n}", networks[n % len(networks)], (100 + n, 200 + n, 300 + n, 400 + n))
        for n, task in enumerate(spec.tasks)
    }


def test_a_chief_comes_first_and_servers_have_no_rank():
    asked = spec(ps=1, worker=2, evaluator=1, chief=1)
    told = json.loads(answer(asked, hellos(asked, "ab")))
    ranks = {task: one["rank"] for task, one in told["tasks"].items()}
    assert ranks == {
        "ps-0": None, "worker-0": 1, "worker-1": 2, "evaluator-0": None, "chief-0": 0,
    }  # fmt: skip
    found = variables(told["tasks"], "worker-1")
    assert found["MASTER_ADDR"] == "host-4"
    assert (found["MASTER_PORT"], found["RANK"], found["WORLD_SIZE"]) == ("104", "2", "3")
    assert found["JAX_COORDINATOR_ADDRESS"] == "host-4:304"
    assert json.loads(found["TF_CONFIG"]) == {
        "cluster": {
            "chief": ["host-4:204"], "worker": ["host-1:201", "host-2:202"], "ps": ["host-0:200"],
        },
        "task": {"type": "worker", "index": 1},
    }  # fmt: skip
    place = TaskPlace(told["tasks"], "evaluator-0", 1)
    assert (place.rank, place.world_size, place.is_chief) == (-1, 3, False)
    assert place.hosts == ("host-4", "host-1", "host-2")


def test_tasks_of_one_machine_meet_on_it():
    asked = spec(worker=2)
    for networks, host in ((("a",), "127.0.0.1"), (("a", "b"), "host-0"), (("",), "host-0")):
        told = json.loads(answer(asked, hellos(asked, networks)))
        assert variables(told["tasks"], "worker-1")["MASTER_ADDR"] == host


def test_an_address_of_version_six_stands_in_brackets():
    tasks = {
        "worker-0": {"role": "worker", "index": 0, "rank": 0, "host": "::1", "ports": [1, 2, 3, 4]}
    }
    found = variables(tasks, "worker-0")
    assert (found["MASTER_ADDR"], found["JAX_COORDINATOR_ADDRESS"]) == ("::1", "[::1]:3")
