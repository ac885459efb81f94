"""What a failed job has kept, once somebody or something has spoilt its files."""

from __future__ import annotations

import json
import os

import pytest
from submarine_engine import post_mortem
from submarine_engine.future import Job
from submarine_engine.job import JobState, Resources, Role
from submarine_engine.post_mortem import _core, open_post_mortem

from tests.jobs import until

FAILS = """
# Else there is no time for all values on a busy machine.
import submarine_runtime.post_mortem as kept
kept._LONGEST = kept._LONGEST_OF_HEAVY = 500
class Net: pass
def step(batch):
    net = Net()
    net.x = [1, {"a": (2, 3)}]
    try:
        int("x")
    except ValueError as error:
        raise KeyError(batch) from error
rate = 0.5
step([1, 2])
"""


def shown(job):
    """Look at all of it, as people and programs do."""
    found = open_post_mortem(job)
    json.dumps(found.to_json())
    assert found.tracebacks()
    return list(found.lines())


def test_files_that_are_cut_off_or_spoilt_never_keep_the_rest_from_view(local):
    job = Job(local.cluster, local.submit(FAILS))
    assert job.wait(180).reason == "KeyError: [1, 2]"
    results = local.paths(job.id).task("worker-0").results
    files = results / "post-mortem.json", results / "post-mortem.values"
    whole = [path.read_bytes() for path in files]
    assert "      net = <Net: x=[1, {'a': (2, 3)}]>" in shown(job)
    for number, path in enumerate(files):
        data = whole[number]
        ends = {0, 1, len(data) // 2, len(data) - 1, *range(0, len(data), 40)}
        spoilt = [data[:end] for end in ends]
        spoilt += [data[:at] + b"\xff" + data[at + 1 :] for at in range(0, len(data), 20)]
        for other in spoilt:
            path.write_bytes(other)
            assert "KeyError" in shown(job)[0]
        path.write_bytes(data)
    told = json.loads(whole[0])
    for field, lie in (
        ("version", 2), ("values", {}), ("globals", []), ("frames", 3), ("chain", {"a": 1}),
        ("skipped", "x"), ("values", [{"type": "x", "at": 10**30, "size": 10**30}] * 30),
        ("values", [{"type": "x", "at": 0, "size": 1 << 62}] * 30),
    ):  # fmt: skip
        files[0].write_text(json.dumps(told | {field: lie}))
        assert "KeyError" in shown(job)[0]
    for lie in (b"[]", b"3", b"[" * 100_000, b'{"version": 1' + b"0" * 5000 + b"}"):
        files[0].write_bytes(lie)
        assert "cannot be read" in " ".join(shown(job)[:2])


def test_a_core_is_named_where_the_machine_keeps_one(tmp_path):
    old, core = tmp_path / "core.1", tmp_path / "core.4711"
    old.write_bytes(b"of another job")
    os.utime(old, (1000, 1000))
    (tmp_path / "core.d").mkdir()
    (tmp_path / "core.link").symlink_to(old)
    assert not _core("core.%p\n", tmp_path, 2000.0)
    core.write_bytes(b"ELF")
    os.utime(core, (3000, 3000))
    (tmp_path / "core.link").unlink()
    for pattern in ("core\n", "core.%p", f"{tmp_path}/core.%p", "c%%.%e"):
        assert (str(core) in _core(pattern, tmp_path, 2000.0)) is (pattern != "c%%.%e")
    program = "|/usr/share/apport/apport %p %s"
    assert _core(program, tmp_path, 0) == " (this machine hands cores to apport)"


def test_where_a_job_crashed_its_core_is_told(local, tmp_path, monkeypatch):
    pattern = tmp_path / "pattern"
    pattern.write_text("|/sbin/keeper %p")
    monkeypatch.setattr(post_mortem, "_CORE_PATTERN", pattern)
    job = Job(local.cluster, local.submit("import ctypes\nctypes.string_at(0)"))
    assert job.wait(180).state is JobState.FAILED
    found = open_post_mortem(job)
    assert "crashed in native code (this machine hands cores to keeper)" in found.missing
    assert "string_at" in [frame.function for frame in found.frames]


HOLDS = """
import ctypes, os, time
from submarine_runtime import job
flag = os.environ["FLAG"]
def hold(batch):
    ctypes.PyDLL(None).system(f"touch {flag}; exec sleep 600".encode())
if job.rank == 0:
    hold([1])
while not os.path.exists(flag):  # its shell runs: the lock is held
    time.sleep(0.02)
raise ValueError("of the other one")
"""


@pytest.mark.long
def test_who_stands_in_native_code_with_pythons_lock_has_its_stack_at_cell_and_line(
    local, tmp_path
):
    roles = (Role(count=2, resources=Resources(gpus=0)),)
    flag = tmp_path / "f"

    def told():
        flag.unlink(missing_ok=True)
        job = Job(local.cluster, local.submit(HOLDS, roles=roles, env={"FLAG": str(flag)}))
        status = job.wait(180)
        assert (status.state, status.failed_task) == (JobState.FAILED, "worker-1")
        found = open_post_mortem(job, "worker-0")
        assert "what the frames held was not kept" in found.missing
        return found if found.frames else None

    found = until(told)  # it has a second to tell where it stands, too short on a busy machine
    assert [frame.function for frame in found.frames if frame.own] == ["<module>", "hold"]
    assert not found.values
