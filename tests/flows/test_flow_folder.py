"""A flow's folder in a storage: the same flow as on a path, and one process at a time."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import fsspec
import pytest
from submarine_engine.cli.azkaban import _archive
from submarine_engine.clusters.addresses import FsspecStorage, open_storage
from submarine_engine.errors import (
    ConfigError,
    FlowError,
    SubmarineError,
    SubmissionError,
    UnsupportedError,
)
from submarine_engine.flows import azkaban, leases
from submarine_engine.flows.build import build_flow
from submarine_engine.flows.current import current_flow
from submarine_engine.flows.folder import create_json, place_of, write_json
from submarine_engine.flows.leases import LeaseLostError, is_held, take, take_left
from submarine_engine.flows.model import Flow, FlowPaths
from submarine_engine.flows.records import NodePaths, NodeState, read_record, write_record
from submarine_engine.flows.runner import cancel_run, reset_failed, runs_of, status_of
from submarine_engine.records import list_jobs
from submarine_jupyter.flows import _path, card_of
from submarine_magics.card.flows import FLOW_TYPE, flow_bundle, view_flow

from tests.flows.conftest import TRAIN, notebook

ALL = ("cell-3", "fit", "other", "score", "cell-7")


@pytest.fixture
def address(monkeypatch):
    """Return an address in fsspec's memory, which lasts as long as this process.

    One call at a time: it looks and then makes, where a storage does both at once.
    """
    calls = threading.RLock()

    def one_at_a_time(plain):
        def alone(*given, **more):
            with calls:
                return plain(*given, **more)

        return alone

    for name in ("create", "entry", "get", "list", "read", "remove", "write"):
        monkeypatch.setattr(FsspecStorage, name, one_at_a_time(getattr(FsspecStorage, name)))
    return f"memory:///flows-{secrets.token_hex(4)}/train.flow"


@pytest.fixture
def quick(monkeypatch):
    """Let a holder that gives no sign be dead soon."""
    monkeypatch.setattr(leases, "EXPIRES", 0.5)
    monkeypatch.setattr(leases, "_BEAT", 0.05)
    monkeypatch.setattr(leases, "_NAP", 0.05)


@pytest.fixture
def napping(monkeypatch):
    """Let no time go by for who waits for a lock but its naps, however busy the machine."""
    now = SimpleNamespace(value=0.0)

    def sleep(seconds):
        now.value += seconds

    clock = SimpleNamespace(monotonic=lambda: now.value, time=time.time, sleep=sleep)
    monkeypatch.setattr(leases, "time", clock)
    return now


def elsewhere(address, number=1, **said):
    """Write a turn of a process of another machine; return the lock's place."""
    place = place_of(address) / "lock"
    said = {"host": "worker-9", "processes": "another", "pid": 1, "start": 0, "beat": 0, **said}
    write_json(place / f"{number:08}", said)
    return place


def test_a_flow_at_an_address_runs_as_one_on_a_path(call, tmp_path, address):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    (tmp_path / "beside.py").write_text("ONE = 1\n")
    code, out, err = call("flow", "build", path, "--output", address)
    assert code == 0, err
    assert out.strip() == address
    here = build_flow(path, tmp_path / "here.flow")
    assert Flow.read(place_of(address)) == here  # hash for hash
    outs = [call("flow", "node", address, name, "--run", "r") for name in ALL]
    assert [code for code, *_ in outs] == [0] * 5, outs
    assert outs[1][1] == "fitted 8.0\n"
    assert outs[4][1] == "score is 12.82842712474619\n"
    jobs = len(list_jobs())
    assert "has succeeded before" in call("flow", "node", address, "fit", "--run", "r")[2]
    assert len(list_jobs()) == jobs
    status = status_of(place_of(address), "r")
    assert status.over
    assert not status.driven
    assert runs_of(place_of(address)) == ["r"]
    assert "score" in call("flow", "status", address)[1]
    assert "● fit" in call("flow", "show", address)[1]


def test_a_module_beside_the_notebook_travels(call, tmp_path, address):
    (tmp_path / "beside.py").write_text("ONE = 41\n")
    cells = ("import beside", "%%submarine --gpus 0 --name a\nx = [beside.ONE + 1]",
             "%%submarine --gpus 0 --name b\nprint(x, beside.ONE)")  # fmt: skip
    path = notebook(tmp_path / "train.ipynb", *cells)
    assert call("flow", "build", path, "--output", address)[0] == 0
    (tmp_path / "beside.py").unlink()
    assert call("flow", "node", address, "a", "--run", "r")[0] == 0
    assert call("flow", "node", address, "b", "--run", "r")[1] == "[42] 41\n"


def test_its_card_in_a_cell_and_in_jupyterlab(call, tmp_path, address):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    assert call("flow", "build", path, "--output", address)[0] == 0
    assert call("flow", "node", address, "cell-3", "--run", "r")[0] == 0
    place = place_of(address)
    shown = flow_bundle(view_flow(current_flow(place), status_of(place, "r")))
    assert shown[FLOW_TYPE]["folder"] == str(place)
    assert "data" in shown["text/plain"]
    card = card_of(place_of(_path(address, {"server_root_dir": str(tmp_path)})))
    assert (card["folder"], card["run"]) == (str(place), "r")
    assert _path("train.flow", {"server_root_dir": str(tmp_path)}) == str(tmp_path / "train.flow")


def test_schedulers_files_name_the_address(call, tmp_path, address):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    code, out, err = call("flow", "build", path, "--output", address, "--to", "airflow")
    assert code == 0, err
    assert out.strip() == str(tmp_path / "train.py")
    text = (tmp_path / "train.py").read_text()
    assert f'FOLDER = "{place_of(address)}"' in text
    assert not (tmp_path / ".airflowignore").exists()
    code, out, err = call("flow", "build", path, "--output", address, "--to", "azkaban")
    assert code == 0, err
    made = fsspec.filesystem("zip", fo=out.strip())
    assert f'submarine.folder: "{place_of(address)}"' in made.cat_file("train.flow").decode()
    assert made.exists("flow/flow.json")
    digest = Flow.read(place_of(address)).node("cell-3").bundle
    assert made.exists(f"flow/bundles/{digest}/script.py")


def test_a_flow_at_an_address_goes_to_azkaban_and_back_to_a_notebook(call, tmp_path, address):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    assert call("flow", "build", path, "--output", address)[0] == 0
    data, named = _archive(address)
    assert azkaban.read(data, where=named) == Flow.read(place_of(address))
    assert list(tmp_path.glob("*.zip")) == []
    again = tmp_path / "again.ipynb"
    code, _, err = call("flow", "open", address, "--output", again)
    assert code == 0, err
    cells = [["".join(one["source"]) for one in json.loads(file.read_text())["cells"]]
             for file in (path, again)]  # fmt: skip
    assert cells[0] == cells[1]


def test_a_bundle_that_was_changed_in_the_storage_is_refused(call, tmp_path, address):
    path = notebook(tmp_path / "train.ipynb", "%%submarine --gpus 0 --name a\nprint(1)")
    assert call("flow", "build", path, "--output", address)[0] == 0
    paths = FlowPaths(place_of(address))
    script = paths.bundle(Flow.read(paths.folder).node("a").bundle) / "script.py"
    script.storage.write(script.path, b"print(2)\n")
    code, out, err = call("flow", "node", address, "a", "--run", "r")
    assert (code, out) == (1, "")
    assert "its bundle has changed since the flow was built" in err
    assert not list_jobs()


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("s3://key:hunter2@bucket/x.flow", "holds a password"),
        ("memory://a/../b", "names no folder below"),
        ("memory://", "names no folder below"),
        ("memory://a/b?token=1", "holds a ?"),
        ("memory://a/\nb", "control character"),
        ("nobodys://a/b", "cannot be opened"),
        ("zip://a/b", ""),
    ],
)
def test_what_is_no_address_for_a_flow_is_refused(call, tmp_path, address, what):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    code, out, err = call("flow", "build", path, "--output", address)
    assert code not in (0, None)
    assert out == ""
    assert what in err
    assert "hunter2" not in err
    assert "Traceback" not in err


def test_a_storage_that_makes_files_twice_is_refused():
    with pytest.raises(UnsupportedError, match="has no exclusive create"):
        FsspecStorage(fsspec.filesystem("file"), "file")
    with pytest.raises(ConfigError):
        open_storage("memory://a/../b")


def test_a_folder_that_is_a_file_is_refused(call, tmp_path, address):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    place = place_of(address)
    place.storage.write(place.path, b"mine")
    code, _, err = call("flow", "build", path, "--output", address)
    assert code not in (0, None)
    assert "it is a file, and no folder" in err
    assert place.read_bytes() == b"mine"
    (tmp_path / "file").write_text("mine")
    assert "it is a file" in call("flow", "build", path, "--output", tmp_path / "file")[2]


@pytest.mark.parametrize("where", ["here", "there"])
def test_of_two_builds_at_once_one_is_refused(call, tmp_path, address, where):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    folder = str(tmp_path / "train.flow") if where == "here" else address
    assert call("flow", "build", path, "--output", folder)[0] == 0
    lock = take(FlowPaths(place_of(folder)).building)
    code, _, err = call("flow", "build", path, "--output", folder)
    assert code not in (0, None)
    assert "another build of a flow writes this folder" in err
    lock.drop()
    assert call("flow", "build", path, "--output", folder)[0] == 0


def test_of_many_that_make_a_file_or_take_a_lock_one_has(address, quick, monkeypatch):
    # A busy machine may let all of these threads wait for as long as `quick` has a sign last.
    monkeypatch.setattr(leases, "EXPIRES", 30.0)
    place, have = place_of(address), []

    def make():
        have.append(create_json(place / "run.json", {"by": threading.get_ident()}))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert have.count(None) == 1
    assert len({one["by"] for one in have if one}) == 1
    inside, most, rounds = 0, 0, []

    def alone():
        nonlocal inside, most
        for _ in range(5):
            lock = take(place / "lock", wait=60)
            inside += 1
            most = max(most, inside)
            time.sleep(0.001)
            inside -= 1
            rounds.append(lock)
            lock.drop()

    threads = [threading.Thread(target=alone) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert len(rounds) == 20
    assert len(place.storage.list((place / "lock").path)) == 1


def test_a_holder_that_gives_signs_keeps_its_lock(address, quick, monkeypatch):
    signs, write = [], leases._Turns.write

    def counted(*given):
        write(*given)
        signs.append(None)

    def now():
        return len(signs) * leases._BEAT

    # On a busy machine the holder may be late: no time goes by without its signs.
    monkeypatch.setattr(leases._Turns, "write", counted)
    clock = SimpleNamespace(monotonic=now, time=now, sleep=time.sleep)
    monkeypatch.setattr(leases, "time", clock)
    place = place_of(address) / "lock"
    lock = take(place)
    assert is_held(place)
    assert take(place) is None
    assert take(place, wait=1.0) is None  # twice as long as one without a sign has
    lock.check()
    lock.drop()
    assert not is_held(place)
    after = take(place)
    assert after is not None
    after.drop()


def test_a_waiter_that_is_stopped_for_long_takes_nothing_from_who_lives(
    address, napping, monkeypatch
):
    place, reads = elsewhere(address), []
    read = leases._Turns.read

    def stopped(turns, number):
        said = read(turns, number)
        reads.append(said)
        if len(reads) == 2:  # here, and meanwhile the holder has given a sign
            napping.value += 2 * leases.EXPIRES
            elsewhere(address, beat=1)
        return said

    monkeypatch.setattr(leases._Turns, "read", stopped)
    assert take(place, wait=2.5 * leases.EXPIRES) is None
    assert len(reads) > 2


def test_a_holder_elsewhere_without_a_sign_is_dead_and_finds_out(address, quick):
    place = elsewhere(address, at=time.time() + 3600)  # its clock is an hour ahead
    assert take(place) is None
    lock = take(place, wait=60)
    assert lock is not None
    lock.check()
    elsewhere(address, number=9)  # who was stopped goes on, and finds that it was taken over
    with pytest.raises(LeaseLostError, match="taken over"):
        lock.check()
    lock.drop()
    assert [one.name for one in place.storage.list(place.path)] == ["00000002", "00000009"]


def test_what_a_holder_that_died_elsewhere_has_left_is_taken_though_nobody_waits(address, napping):
    place = elsewhere(address, at=time.time() - 3600)
    assert take(place) is None  # its clock may be wrong
    lock = take_left(place)
    assert lock is not None
    assert take_left(place) is None
    lock.drop()


def test_a_build_whose_machine_died_keeps_nobody_from_building(call, tmp_path, address, napping):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    assert call("flow", "build", path, "--output", address)[0] == 0
    building = FlowPaths(place_of(address)).building
    left = {"host": "worker-9", "processes": "another", "pid": 1, "start": 0, "beat": 0}
    write_json(building / f"{9:08}", {**left, "at": time.time() - 3600})
    code, _, err = call("flow", "build", path, "--output", address)
    assert code == 0, err


def test_a_holder_of_this_machine_that_is_gone_is_dead_at_once(address):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    me = leases._me()
    place = elsewhere(address, processes=me["processes"], pid=gone.pid, start=1)
    assert not is_held(place)
    lock = take(place)
    assert lock is not None
    lock.drop()
    # A process of another one's number, which began at another time, is not the holder.
    other = elsewhere(address + "2", processes=me["processes"], pid=os.getpid(), start=1)
    assert take(other) is not None


def test_a_turn_that_cannot_be_read_is_held_until_it_expires(address, quick):
    place = place_of(address) / "lock"
    place.storage.write((place / "00000001").path, b"{")
    assert take(place) is None
    assert take(place, wait=60) is not None


def begun(address, state=NodeState.RUNNING, **more):
    """Write down that a node was begun by another home; return its record."""
    paths = FlowPaths(place_of(address))
    flow = Flow.read(paths.folder)
    create_json(paths.run("r") / "run.json",
                {"run": "r", "parameters": {}, "given": {}, "created": time.time()})  # fmt: skip
    record = read_record(paths, "r", flow.nodes[0].name)
    more = {"state": state, "attempt": 1, "home": "another", "host": "worker-9", **more}
    record = type(record)(**{**record.to_json(), **more})
    return write_record(paths, "r", flow.nodes[0].name, record)


def test_a_try_of_a_home_that_is_not_here_is_not_asked_for_twice(call, tmp_path, address):
    path = notebook(tmp_path / "train.ipynb", "%%submarine --gpus 0 --name a\nprint(1)")
    assert call("flow", "build", path, "--output", address)[0] == 0
    begun(address, bundle="0" * 64, started=time.time())
    code, out, err = call("flow", "node", address, "a", "--run", "r", "--attempt", "2")
    assert (code, out) == (1, "")
    assert "was begun on worker-9" in err
    assert "may still run" in err
    assert not list_jobs()
    paths = FlowPaths(place_of(address))
    assert read_record(paths, "r", "a").state is NodeState.RUNNING
    # Its machine is gone for good: whoever knows says so.
    assert cancel_run(paths.folder, "r")
    assert read_record(paths, "r", "a").state is NodeState.CANCELLED
    assert reset_failed(paths.folder, "r") == ["a"]
    assert call("flow", "node", address, "a", "--run", "r")[:2] == (0, "1\n")
    assert read_record(paths, "r", "a").attempt == 2


def test_a_try_that_had_asked_for_nothing_goes_on_anywhere(call, tmp_path, address):
    path = notebook(tmp_path / "train.ipynb", "%%submarine --gpus 0 --name a\nprint(1)")
    assert call("flow", "build", path, "--output", address)[0] == 0
    begun(address, started=time.time())
    assert call("flow", "node", address, "a", "--run", "r")[:2] == (0, "1\n")


@pytest.mark.parametrize("refused", [ConnectionError("nobody listens"),
                                     SubmissionError("safe mode: nobody listens")])  # fmt: skip
def test_a_storage_that_stops_answering_leaves_the_node_to_whoever_comes_next(
    call, tmp_path, address, monkeypatch, refused
):
    side = tmp_path / "side"
    note = f"with open({str(side)!r}, 'a') as file:\n    file.write('ran')"
    path = notebook(tmp_path / "train.ipynb", f"%%submarine --gpus 0 --name a\n{note}")
    assert call("flow", "build", path, "--output", address)[0] == 0
    pipe, broken = type(place_of(address).storage._files).pipe_file, []

    def refuse(self, path, value, mode="overwrite", **options):
        if not broken and path.endswith("record.json") and json.loads(value)["job"]:
            broken.append(path)
            raise refused
        return pipe(self, path, value, mode, **options)

    with monkeypatch.context() as patched:
        patched.setattr(type(place_of(address).storage._files), "pipe_file", refuse)
        code, _, err = call("flow", "node", address, "a", "--run", "r")
    assert code == 1
    assert "nobody listens" in err
    assert broken
    record = read_record(FlowPaths(place_of(address)), "r", "a")
    assert record.state is NodeState.RUNNING
    assert call("flow", "node", address, "a", "--run", "r")[0] == 0
    assert side.read_text() == "ran"
    assert len(list_jobs()) == 1


def test_a_cancelled_node_ends_its_job(call, tmp_path, address):
    path = notebook(
        tmp_path / "train.ipynb",
        "import time",
        f"%%submarine --gpus 0 --name a\nopen({str(tmp_path / 'begun')!r}, 'w').close()\n"
        "time.sleep(600)",
    )
    assert call("flow", "build", path, "--output", address)[0] == 0

    def cancel():
        limit = time.monotonic() + 180
        while not (tmp_path / "begun").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        cancel_run(place_of(address), "r")

    thread = threading.Thread(target=cancel)
    thread.start()
    code, *_ = call("flow", "node", address, "a", "--run", "r")
    thread.join()
    assert code == 1
    assert read_record(FlowPaths(place_of(address)), "r", "a").state is NodeState.CANCELLED
    assert list_jobs()[0].state.value == "cancelled"


def test_a_storage_without_its_words_is_told(monkeypatch, address):
    def refuse(*_, **__):
        raise PermissionError("you may not")

    place = place_of(address)
    monkeypatch.setattr(type(place.storage._files), "pipe_file", refuse)
    with pytest.raises(SubmarineError, match="you may not") as caught:
        write_json(place, {})
    assert caught.value.fix
    assert str(place) in str(caught.value)


def test_nothing_is_written_where_the_notebook_cannot_become_a_flow(tmp_path, address):
    path = notebook(tmp_path / "train.ipynb", "%%submarine --gpus 0 --name a\nprint(gone)")
    with pytest.raises(FlowError, match="gone"):
        build_flow(path, place_of(address))
    assert not place_of(address).exists()
    assert NodePaths(place_of(address)).record.storage.list("/nowhere") == []
