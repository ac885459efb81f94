"""A notebook's flow by the commands that people type: to Azkaban's double, run there, and back."""

from __future__ import annotations

import json
import secrets
import sys
import zipfile

import pytest
from submarine_engine.bundle import Bundle
from submarine_engine.errors import ClusterError
from submarine_engine.flows import azkaban
from submarine_engine.flows.azkaban_client import Azkaban
from submarine_engine.flows.model import Flow
from submarine_engine.flows.notebook import read_notebook

from tests.flows.azkaban_double import azkaban_double
from tests.flows.conftest import notebook

SUBMARINE = f"{sys.executable} -m submarine_engine.cli"
JOB = "%%submarine --gpus 0 --name "

FAILS_ONCE = """\
import pathlib
flag = pathlib.Path({!r})
if not flag.exists():
    flag.touch()
    raise OSError('not yet')
print('fitted', data)"""


@pytest.fixture
def double(tmp_path, monkeypatch):
    with azkaban_double(tmp_path / "executions") as found:
        monkeypatch.setenv("AZKABAN_URL", found.url)
        monkeypatch.setenv("AZKABAN_USER", "ana")
        monkeypatch.setenv("AZKABAN_PASSWORD", found.users["ana"])
        monkeypatch.chdir(tmp_path)
        yield found


@pytest.fixture
def cells(tmp_path):
    """Return a notebook's cells: the second job fails in its first try."""
    flag = tmp_path / "flag"
    return (
        ("day = 'today'", ["parameters"]),
        JOB + "load\ndata = [len(day)]\nprint('loaded', day)",
        (
            FAILS_ONCE.format(str(flag)),
            ["submarine:--gpus=0 --name=fit"],
        ),
    )


def test_a_notebook_runs_in_azkaban_with_a_failure_and_a_retry(double, call, cells, tmp_path):
    notebook(tmp_path / "train.ipynb", *cells)
    words = ("--to", "azkaban", "--schedule", "0 2 * * *", "--retries", "1")
    code, out, err = call("flow", "build", "train.ipynb", *words)
    assert code == 0, err
    assert out == "train.flow/train-azkaban.zip\n"

    code, out, err = call("azkaban", "upload", "train.flow")
    assert code == 0, err
    assert "project train has version 1" in out
    assert "0 0 2 ? * *" in out
    assert [one["cronExpression"] for one in double.schedules.values()] == ["0 0 2 ? * *"]

    given = ("--submarine", SUBMARINE, "--param", "day=some day")
    code, out, err = call("azkaban", "run", "train", *given)
    assert code == 0, out + err
    assert "load | loaded some day" in out
    assert "train.ipynb, In [3], line 5: OSError: not yet" in out
    assert "fit | fitted [8]" in out
    assert "fit: failed, try 2 follows" in err
    assert "fit: succeeded" in err
    # What ran is, hash for hash, what was built.
    run = double.folder / "1" / "flow"
    ran, built = Flow.read(run), Flow.read(tmp_path / "train.flow")
    assert ran == built
    digest = built.node("load").bundle
    assert digest
    assert Bundle.read(run / "bundles" / digest).hash == digest

    code, out, _ = call("azkaban", "status", "1", "--json")
    told = json.loads(out)
    assert told["state"] == "SUCCEEDED"
    assert {one["node"]: one["attempt"] for one in told["nodes"]} == {"load": 0, "fit": 1}
    assert call("azkaban", "attach", "1")[0] == 0
    assert call("azkaban", "cancel", "1")[0] == 1
    assert "off the schedule" in call("azkaban", "unschedule", "train")[1]
    assert "was on none" in call("azkaban", "unschedule", "train")[1]


def test_after_a_failure_a_node_that_runs_in_any_case_runs(double, call, tmp_path):
    notebook(
        tmp_path / "train.ipynb",
        JOB + "fit\nraise ValueError('no')",
        JOB + "report --after fit\nprint('reported')",
        JOB + "clean --after report --condition all_done\nprint('cleaned')",
    )
    code, _, err = call("flow", "build", "train.ipynb", "--to", "azkaban")
    assert code == 0, err
    assert call("azkaban", "upload", "train.flow")[0] == 0
    _, out, err = call("azkaban", "run", "train", "--submarine", SUBMARINE)
    assert "train.ipynb, In [1], line 2: ValueError: no" in out
    assert "clean | cleaned" in out
    assert "reported" not in out
    for state in ("fit: failed", "report: cancelled", "clean: succeeded"):
        assert state in err


def test_an_uploaded_flow_comes_back_as_the_same_notebook(double, call, cells, tmp_path):
    built = notebook(tmp_path / "train.ipynb", *cells)
    call("flow", "build", "train.ipynb", "--to", "azkaban")
    assert call("azkaban", "upload", "train.flow/train-azkaban.zip", "--project", "nightly")[0] == 0
    for number, source in enumerate(("nightly", "train.flow/train-azkaban.zip", "train.flow")):
        target = tmp_path / f"back-{number}.ipynb"
        code, out, err = call("flow", "open", source, "--output", target)
        assert code == 0, err
        assert out == f"{target}\n"
        once, again = read_notebook(built).cells, read_notebook(target).cells
        assert [one.cell for one in again] == [one.cell for one in once]
        assert [one.parameters for one in again] == [one.parameters for one in once]
        assert [(one.options or "").replace("=", " ") for one in again] == [
            (one.options or "").replace("=", " ") for one in once
        ]
    code, _, err = call("flow", "open", "train.flow", "--output", target)
    assert code != 0
    assert "there is a file of that name" in err


def test_what_cannot_go_is_refused_before_anything_is_asked_for(double, call, cells, tmp_path):
    notebook(tmp_path / "train.ipynb", *cells)
    call("flow", "build", "train.ipynb", "--to", "azkaban")
    call("azkaban", "upload", "train.flow")
    for words, what in (
        (("--param", 'day="x"'), "end the word"),
        (("--param", "day=$(1+1)"), "evaluates"),
        (("--param", "day=\U0001f600"), "U+FFFF"),
        (("--param", "nothing=1"), "no parameter 'nothing'"),
        (("--param", "day=1", "--param", "day=2"), "given twice"),
    ):
        code, _, err = call("azkaban", "run", "train", *words)
        assert code == 64
        assert what in err
    assert not double.executions


def test_scheduled_runs_have_the_values_and_the_mail_that_were_given(double, call, cells, tmp_path):
    notebook(tmp_path / "train.ipynb", *cells)
    more = ("--schedule", "0 2 * * *", "--mail", "ana@example.com, bo@example.com")
    assert call("flow", "build", "train.ipynb", *more)[0] == 0
    code, _, err = call("azkaban", "upload", "train.flow", "--param", "day=sunday")
    assert code == 0, err
    [one] = double.schedules.values()
    assert one["words"]["flowOverride[day]"] == "sunday"
    assert one["words"]["failureEmails"] == "ana@example.com,bo@example.com"
    call("flow", "build", "train.ipynb")
    code, _, err = call("azkaban", "upload", "train.flow", "--param", "day=sunday")
    assert code == 64
    assert "the flow names no schedule" in err


def test_a_schedule_that_azkaban_cannot_have_is_refused_before_the_upload(
    double, call, cells, tmp_path
):
    notebook(tmp_path / "train.ipynb", *cells)
    call("flow", "build", "train.ipynb", "--schedule", "0 0 1 * 1")
    code, _, err = call("azkaban", "upload", "train.flow")
    assert code != 0
    assert "Azkaban has either" in err
    assert not double.projects


def test_a_schedule_that_the_flow_no_longer_names_is_told(double, call, cells, tmp_path):
    notebook(tmp_path / "train.ipynb", *cells)
    call("flow", "build", "train.ipynb", "--schedule", "0 2 * * *")
    call("azkaban", "upload", "train.flow")
    call("flow", "build", "train.ipynb")
    code, _, err = call("azkaban", "upload", "train.flow")
    assert code == 0
    assert "submarine azkaban unschedule train" in err


def test_who_is_not_known_is_told_how_to_log_in(call, tmp_path, monkeypatch):
    for name in ("AZKABAN_URL", "AZKABAN_USER", "AZKABAN_PASSWORD", "AZKABAN_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)
    code, _, err = call("azkaban", "status", "1")
    assert code == 78
    assert "azkaban login URL --user NAME" in err
    code, _, err = call("azkaban", "login", "http://127.0.0.1:9", "--user", "ana")
    assert code == 78
    assert "there is no password" in err


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_that_http_is_not_encrypted_is_told_before_the_password_is_sent(
    double, call, monkeypatch, more
):
    told = []

    def send(self, *words):
        told.append(sys.stderr.buffer.getvalue())
        raise ClusterError("not sent")

    monkeypatch.setattr(Azkaban, "_send", send)
    call("azkaban", "login", double.url, *more)
    call("azkaban", "login", "http://azkaban.example:8081", *more)
    monkeypatch.setenv("AZKABAN_URL", "http://azkaban.example:8081")
    call("azkaban", "status", "1", *more)  # which logs in by itself
    here, far, unasked = told
    assert here == b""
    assert b"http:// is not encrypted" in far
    assert b"http:// is not encrypted" in unasked


def test_a_login_is_kept_and_its_password_comes_from_a_file_of_ones_own(
    double, call, tmp_path, monkeypatch
):
    monkeypatch.delenv("AZKABAN_PASSWORD")
    path = tmp_path / "password"
    path.write_text(double.users["ana"] + "\n")
    path.chmod(0o644)
    monkeypatch.setenv("AZKABAN_PASSWORD_FILE", str(path))
    code, _, err = call("azkaban", "login")
    assert code == 78
    assert f"chmod 600 {path}" in err
    path.chmod(0o600)
    code, out, _ = call("azkaban", "login")
    assert (code, out) == (0, f"ana is logged in at {double.url}\n")
    for name in ("AZKABAN_URL", "AZKABAN_USER", "AZKABAN_PASSWORD_FILE"):
        monkeypatch.delenv(name)
    assert "Cannot find execution" in call("azkaban", "status", "7")[2]  # in the kept session
    double.end_sessions()
    code, _, err = call("azkaban", "status", "7")
    assert code == 78
    assert "there is no password" in err


def test_the_zip_of_flow_1_0_is_written_by_an_option(call, cells, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook(tmp_path / "train.ipynb", *cells)
    code, out, err = call("flow", "build", "train.ipynb", "--to", "azkaban-1.0")
    assert code == 0, err
    with zipfile.ZipFile(out.strip()) as archive:
        assert "train.job" in archive.namelist()
    path = tmp_path / out.strip()
    assert azkaban.read(path.read_bytes(), where="it") == Flow.read(tmp_path / "train.flow")


def test_of_a_folder_goes_up_what_it_was_built_for_last(double, call, cells, tmp_path):
    notebook(tmp_path / "train.ipynb", *cells)
    double.knows_flow_2 = False
    assert call("flow", "build", "train.ipynb")[0] == 0
    code, _, err = call("azkaban", "upload", "train.flow")
    assert code != 0
    assert "too old for 2.0" in err
    # What the error tells to do leads out, by the folder and by the zip.
    assert "upload the zip that this writes" in err
    assert call("flow", "build", "train.ipynb", "--to", "azkaban-1.0")[0] == 0
    for named in ("train.flow", "train.flow/train-azkaban-1.0.zip", "train.flow"):
        code, out, err = call("azkaban", "upload", named)
        assert code == 0, out + err
    double.knows_flow_2 = True
    assert call("flow", "build", "train.ipynb", "--to", "azkaban")[0] == 0
    assert call("azkaban", "upload", "train.flow")[0] == 0
    assert b"flow20.project" in double.projects["train"]["zip"]


def test_of_an_address_goes_up_what_was_written_beside_the_notebook(double, call, cells, tmp_path):
    notebook(tmp_path / "train.ipynb", *cells)
    folder = f"memory:///flows-{secrets.token_hex(4)}/train.flow"
    words = ("--output", folder, "--to", "azkaban-1.0")
    code, _, err = call("flow", "build", "train.ipynb", *words)
    assert code == 0, err
    double.knows_flow_2 = False
    code, out, err = call("azkaban", "upload", folder)
    assert code == 0, out + err
