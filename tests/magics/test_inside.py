"""``%submarine job exec``: what it shows is kept, so secrets are masked, wherever they are cut."""

from __future__ import annotations

import pytest
from submarine_engine import open_job, submit
from submarine_engine.command import NOTEBOOK, parse
from submarine_engine.errors import CommandError
from submarine_magics.inside import _Stream, run_inside

TOKEN = "hf_" + "M4rk3dS3cr3t" * 2


def stay():
    import time

    time.sleep(600)


def exec_(*words):
    run_inside(parse(["job", "exec", "holds", *words], surface=NOTEBOOK))


def test_a_program_writes_into_the_cell_with_secrets_masked(monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    job = submit(stay, name="holds", secret=["HF_TOKEN"])
    exec_("--", "sh", "-c", f'echo "is ü {TOKEN}."; printenv HF_TOKEN >&2; exit 3')
    shown = capsys.readouterr()
    mask = "<secret HF_TOKEN>".ljust(len(TOKEN), "*")
    assert shown.out == f"is ü {mask}.\n"
    assert shown.err == f"{mask}\nsh has ended with exit code 3\n"
    data = f"ü{TOKEN}{TOKEN}ü\n".encode()
    for cut in range(1, len(data)):
        stream = _Stream("stdout", job.id)
        stream.write(data[:cut])
        stream.write(data[cut:])
        stream.write(b"", last=True)
        assert capsys.readouterr().out == f"ü{mask}{mask}ü\n"
    exec_("--", "true")
    assert capsys.readouterr() == ("", "")
    with pytest.raises(CommandError, match="the command is missing"):
        exec_()
    open_job("holds").kill()
    open_job("holds").wait(180)
