"""What is secret to a pool's workers is in nothing that the pool shows, or keeps of its calls."""

import pytest

from tests.pool.programs import Program

PROGRAM = """
    import io, os, subprocess, sys
    from pathlib import Path

    from submarine_engine import list_jobs, map, open_job
    from submarine_engine.errors import SubmarineError
    from submarine_engine.pool.folder import PoolFolder

    api_key = "sk-" + "C4ptur3d" * 3

    def fails(word):
        print("with", os.environ["MY_TOKEN"], api_key)
        raise ValueError(f"no good: {os.environ['MY_TOKEN']} {api_key}")

    def train(rate):
        raise ValueError(f"no good: {os.environ['MY_TOKEN']} {api_key}")

    def shown(job):
        command = [sys.executable, "-m", "submarine_engine.cli", "job", "logs", job]
        return subprocess.run(command, capture_output=True, text=True).stdout

    def check(pool, jobs, told, *files):
        for secret in (os.environ["MY_TOKEN"], api_key):
            for name in files:
                assert secret.encode() not in (pool / name).read_bytes(), name
            for job in jobs:
                assert secret not in shown(job), job
            for text in told:
                assert secret not in text, text
        assert any("<secret MY_TOKEN>" in text and "<secret api_key>" in text for text in told)

    if __name__ == "__main__":
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "hf_" + "M4rk3dS3cr3t" * 2)
    return Program(tmp_path, PROGRAM)


@pytest.mark.long
def test_a_map_masks_secrets_in_its_record_its_logs_and_its_errors(program):
    program.run("""
        token = os.environ["MY_TOKEN"]
        found = map(fails, [token, "b"], gpus=0, max_workers=1, secret=["MY_TOKEN"]).wait()
        workers = [error.job_id for error in found.failed.values()]
        told = [str(error) for error in found.failed.values()]
        told += [repr(error.args) for error in found.failed.values()]
        logs = [shown(job) for job in (found.job.id, *workers)]
        assert all("no good" in text or "with" in text for text in logs), logs
        check(found._folder.root, [found.job.id, *workers], told, "calls.jsonl", "pool.json")
        again = found.retry_failed().wait()
        told = [str(error) for error in again.failed.values()]
        check(again._folder.root, [again.job.id], told, "calls.jsonl")
    """)


def test_a_map_whose_secret_has_no_value_is_refused_before_anything_is_asked_for(program):
    program.run("""
        try:
            map(fails, ["a"], gpus=0, secret=["ABSENT"])
        except SubmarineError as error:
            assert "no value is known for ABSENT" in str(error), error
        else:
            raise AssertionError
        assert list_jobs() == []
    """)


def test_a_sweep_masks_secrets_in_its_study_and_its_table(program):
    program.run("""
        from submarine_engine import sweep
        found = sweep(train, "rate=[1,2]", minimize="loss", gpus=0, secret="MY_TOKEN",
                      trials=2, wait=False, first_failures=9)
        found.job.wait()
        told = [trial.error for trial in found.failed]
        assert len(told) == 2, told
        told.append(str(found.table()))
        check(found._folder, [found.job.id], told, "calls.jsonl", "study.log")
    """)
