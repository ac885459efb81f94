"""Azkaban by its protocol: against its double, and a real server where AZKABAN_URL names one.

A real one is given as ``AZKABAN_URL=http://127.0.0.1:8081 AZKABAN_USER=… AZKABAN_PASSWORD=…``: a
Solo server on this machine, whose jobs run this checkout's Python.
"""

from __future__ import annotations

import io
import os
import socket
import sys
import time
import uuid
import zipfile
from types import SimpleNamespace

import pytest
from submarine_engine.bundle import Cell
from submarine_engine.errors import ClusterError, ConfigError, SubmissionError
from submarine_engine.flows import azkaban
from submarine_engine.flows.azkaban_client import (
    Azkaban,
    ExecutionEvent,
    Login,
    LoginFile,
    plain,
    unescaped,
)
from submarine_engine.flows.model import Flow, Node, Parameter

from tests.flows.azkaban_double import azkaban_double, escape

REAL = os.environ.get("AZKABAN_URL")
CELLS = tuple(Cell(number=at, source="pass", raw="pass") for at in range(1, 5))
FLOW = Flow(
    name="train",
    cells=CELLS,
    parameters=(Parameter(name="day", default="2026-11-22"),),
    nodes=(
        Node(name="load", cells=(1,)),
        Node(name="fit", cells=(2,), after=("load",), retries=1),
        Node(name="report", cells=(3,), after=("fit",)),
        Node(name="always", cells=(4,), after=("report",), condition="all_done"),
    ),
)
# In place of `submarine`: says its words, fails where it is told to, waits where it is told to.
PROGRAM = """\
import pathlib, sys, time
_, behaviour, *words = sys.argv
node = words[3]
while pathlib.Path(__file__).with_name("held").exists():
    time.sleep(0.02)
print(*words, flush=True)
print("<b>&amp; é € \\U0001f600 'q' \\"q\\"", flush=True)
tried = pathlib.Path(f"tried-{node}")
if behaviour == "wait":
    pathlib.Path(tried).touch()
    time.sleep(600)
if behaviour == "first" and node == "fit" and not tried.exists():
    tried.touch()
    sys.exit("fit fails once")
if behaviour == "report" and node == "report":
    sys.exit("report fails")
"""


SERVERS = ["double", *([pytest.param("real", marks=pytest.mark.service)] if REAL else ())]


@pytest.fixture(params=SERVERS)
def server(request, tmp_path):
    """Give an Azkaban: its address, a user, and the double itself where it is one."""
    if request.param == "real":
        user = os.environ.get("AZKABAN_USER", "azkaban")
        password = os.environ.get("AZKABAN_PASSWORD", "azkaban")
        yield SimpleNamespace(url=REAL, user=user, password=password, double=None)
        return
    with azkaban_double(tmp_path / "executions") as double:
        yield SimpleNamespace(
            url=double.url, user="ana", password=double.users["ana"], double=double
        )


@pytest.fixture
def double(tmp_path):
    with azkaban_double(tmp_path / "executions") as found:
        yield found


@pytest.fixture
def client(server, tmp_path):
    return client_of(server.url, server.user, server.password, tmp_path)


def client_of(url, user, password, folder, session="", **more):
    login = Login(url, user, session)
    return Azkaban(login, lambda: password, folder=folder / "asked", **more)


@pytest.fixture
def project(client, tmp_path):
    """Return the name of a new project, which no other test has."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def uploaded(client, project, tmp_path):
    upload(client, project, tmp_path)
    return project


def upload(client, project, folder, flow=FLOW, write=azkaban.write, **more):
    data = write(flow, folder, folder).read_bytes()
    return client.upload(project, data, flow=flow.name, description="a test's", **more)


def program(folder, behaviour):
    """Return the flow parameters by which nodes run `PROGRAM`."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    return {"submarine.command": f"{sys.executable} -I {path} {behaviour}"}


def followed(client, number):
    """Follow an execution to its end; return lines and states by node, and the end."""
    *told, ended = client.follow(number)
    assert all(isinstance(one, ExecutionEvent) for one in told)
    lines, states = {}, {}
    for one in told:
        (states if one.is_state else lines).setdefault(one.node, []).append(one.text)
    return lines, states, ended


def test_a_flow_with_a_failure_and_a_retry_goes_through(client, uploaded, tmp_path):
    given = {**program(tmp_path, "first"), "day": "a day's"}
    number, before = client.execute(uploaded, "train", given)
    assert not before
    lines, states, ended = followed(client, number)
    assert ended.state == "SUCCEEDED"
    assert [(one.name, one.attempt) for one in ended.steps if one.attempt] == [("fit", 1)]
    said = f"flow node flow {{}} --run=azkaban-{number} --param=day=a day's"
    odd = "<b>&amp; é € \U0001f600 'q' \"q\""
    assert lines["load"] == [said.format("load"), odd]
    assert lines["fit"] == [said.format("fit"), odd, "fit fails once", said.format("fit"), odd]
    assert "failed, try 2 follows" in states["fit"]
    assert [state[-1] for state in states.values()] == ["succeeded"] * 4
    assert client.cancel(number) is False


def test_after_a_failure_what_runs_in_any_case_runs_and_the_rest_does_not(
    client, uploaded, tmp_path
):
    number, _ = client.execute(uploaded, "train", program(tmp_path, "report"))
    lines, _, ended = followed(client, number)
    assert ended.state == "SUCCEEDED"  # Azkaban goes by what comes last
    assert {one.name: one.state for one in ended.steps} == {
        "load": "SUCCEEDED", "fit": "SUCCEEDED", "report": "FAILED", "always": "SUCCEEDED",
    }  # fmt: skip
    assert lines["report"][-1] == "report fails"
    assert lines["always"]


def test_a_log_is_read_on_from_where_it_was(client, uploaded, tmp_path, monkeypatch):
    monkeypatch.setattr("submarine_engine.flows.azkaban_client._CHUNK", 37)
    number, _ = client.execute(uploaded, "train", program(tmp_path, "first"))
    lines, _, _ = followed(client, number)
    assert lines["load"][1] == "<b>&amp; é € \U0001f600 'q' \"q\""


def test_flow_1_0_goes_through_likewise(client, project, tmp_path):
    flow = Flow(name="train", cells=CELLS, parameters=FLOW.parameters, nodes=FLOW.nodes[:3])
    upload(client, project, tmp_path, flow, azkaban.write_1)
    number, _ = client.execute(project, "train", {**program(tmp_path, "first"), "day": "x y"})
    lines, _, ended = followed(client, number)
    assert ended.state == "SUCCEEDED"
    assert lines["report"][0] == f"flow node flow report --run=azkaban-{number} --param=day=x y"


def test_a_cancelled_execution_ends_with_its_jobs(client, uploaded, tmp_path):
    number, _ = client.execute(uploaded, "train", program(tmp_path, "wait"))
    told = client.follow(number)
    assert next(one for one in told if not one.is_state).node == "load"  # it runs
    assert client.cancel(number)
    *_, ended = told
    assert ended.state == "KILLED"
    states = {one.name: one.state for one in ended.steps}
    assert states.pop("load") in ("KILLED", "FAILED")
    assert set(states.values()) == {"CANCELLED"}


def test_a_project_that_is_there_gets_a_new_version(client, uploaded, tmp_path):
    assert client.flows(uploaded) == ["train"]
    assert upload(client, uploaded, tmp_path) == "2"
    assert azkaban.read(client.download(uploaded), where="it") == FLOW


def test_flows_of_others_are_not_removed_unasked(client, uploaded, tmp_path):
    other = Flow(name="other", cells=CELLS, nodes=(Node(name="load", cells=(1,)),))
    with pytest.raises(SubmissionError, match="the project holds train too") as caught:
        upload(client, uploaded, tmp_path, other)
    assert "--replace" in caught.value.fix
    assert client.flows(uploaded) == ["train"]
    upload(client, uploaded, tmp_path, other, replace=True)
    assert client.flows(uploaded) == ["other"]


def test_a_zip_that_azkaban_refuses_is_told_in_its_words(client, project):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("flow20.project", "azkaban-flow-version: 2.0\n")
        archive.writestr("train.flow", "nodes:\n- {name: ROOT, type: noop}\n")
    with pytest.raises(SubmissionError, match="ROOT used as a name") as caught:
        client.upload(project, packed.getvalue(), flow="train", description="a test's")
    assert "<br>" not in caught.value.what


def test_a_schedule_is_made_changed_and_removed(client, uploaded):
    assert client.scheduled(uploaded, "train") is None
    client.schedule(uploaded, "train", azkaban.quartz("0 2 * * 1-5"), mail="ops@example.com")
    number, cron = client.scheduled(uploaded, "train")
    assert cron == "0 0 2 ? * 2-6"
    client.schedule(uploaded, "train", azkaban.quartz("0 3 * * *"))
    assert client.scheduled(uploaded, "train") == (number, "0 0 3 ? * *")
    assert client.unschedule(uploaded, "train")
    assert not client.unschedule(uploaded, "train")


def test_a_schedule_that_is_none_is_refused_in_its_words(client, uploaded):
    with pytest.raises(SubmissionError, match="parsed"):
        client.schedule(uploaded, "train", "every night")


def test_what_is_not_there_is_told(client, uploaded):
    assert client.flows(f"{uploaded}x") is None
    for ask in (client.download, lambda name: client.scheduled(name, "train")):
        with pytest.raises(SubmissionError, match="no project"):
            ask(f"{uploaded}x")
    with pytest.raises(SubmissionError, match="Cannot find execution"):
        client.execution(10**8)
    with pytest.raises(SubmissionError, match="cannot be found"):
        client.execute(uploaded, "nothing", {})


def test_a_wrong_password_is_told_without_it(server, tmp_path):
    with pytest.raises(ConfigError, match="does not let") as caught:
        client_of(server.url, server.user, "wrong-pass", tmp_path).log_in()
    assert "wrong-pass" not in str(caught.value)


def test_an_expired_session_is_renewed_once(server, uploaded, tmp_path):
    kept = []
    client = client_of(server.url, server.user, server.password, tmp_path, "long gone",
                       renewed=kept.append)  # fmt: skip
    assert client.flows(uploaded) == ["train"]
    assert [one.user for one in kept] == [server.user]
    client = client_of(server.url, server.user, server.password, tmp_path, "long gone")
    assert upload(client, uploaded, tmp_path) == "2"  # refused in other words than all else
    client = client_of(server.url, server.user, None, tmp_path, "long gone")
    with pytest.raises(ConfigError, match="no password to open one") as caught:
        client.flows(uploaded)
    assert "azkaban login" in caught.value.fix


def test_a_session_that_does_not_last_is_no_loop(double, tmp_path):
    client = client_of(double.url, "ana", "secret of ana", tmp_path,
                       renewed=lambda _: double.end_sessions())  # fmt: skip
    with pytest.raises(ConfigError, match="ends the session at once"):
        client.flows("x")


def test_somebody_elses_project_is_refused(double, tmp_path):
    upload(client_of(double.url, "ana", "secret of ana", tmp_path), "anas", tmp_path)
    ben = client_of(double.url, "ben", "secret of ben", tmp_path)
    with pytest.raises(SubmissionError, match="Permission denied") as caught:
        upload(ben, "anas", tmp_path)
    assert "--project" in caught.value.fix


def test_an_azkaban_that_is_too_old_is_told(double, tmp_path):
    double.knows_flow_2 = False
    client = client_of(double.url, "ana", "secret of ana", tmp_path)
    data = azkaban.write(FLOW, tmp_path, tmp_path)
    with pytest.raises(SubmissionError, match="too old") as caught:
        client.upload("old", data.read_bytes(), flow="train", description="a test's")
    assert "azkaban-1.0" in caught.value.fix


def test_a_lost_answer_does_not_start_it_twice(double, tmp_path):
    client = client_of(double.url, "ana", "secret of ana", tmp_path)
    upload(client, "once", tmp_path)
    double.lose = "executeFlow"
    assert client.execute("once", "train", program(tmp_path, "first")) == (1, True)
    assert len(double.executions) == 1
    assert not list((tmp_path / "asked").iterdir())


def test_who_was_killed_before_the_answer_finds_the_execution_again(double, tmp_path):
    client = client_of(double.url, "ana", "secret of ana", tmp_path)
    upload(client, "once", tmp_path)

    class Killed(BaseException):
        """As SIGKILL: nothing after it runs."""

    real = client._ask

    def ask(path, words, **more):
        answer = real(path, words, **more)
        if words.get("ajax") == "executeFlow":
            raise Killed
        return answer

    client._ask = ask
    with pytest.raises(Killed):
        client.execute("once", "train", program(tmp_path, "wait"))
    again = client_of(double.url, "ana", "secret of ana", tmp_path)
    assert again.execute("once", "train", program(tmp_path, "wait")) == (1, True)
    assert again.execute("once", "train", program(tmp_path, "first")) == (2, False)


def test_no_secret_is_in_an_address(double, tmp_path):
    client = client_of(double.url, "ana", "secret of ana", tmp_path)
    upload(client, "seen", tmp_path)
    client.download("seen")
    assert len(double.seen) > 5
    for _, path, _ in double.seen:
        assert client.login.session not in path
        assert "secret" not in path
    assert client.login.session not in repr(client.login)


def test_the_login_is_kept_for_its_owner_alone(tmp_path):
    file = LoginFile(tmp_path / "home")
    assert file.read() is None
    login = Login("https://a.example", "ana", "the session")
    file.write(login)
    assert file.read() == login
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    file.path.write_text("{}")
    assert file.read() is None


def test_nobody_there_and_somebody_else_there_are_told(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match="does not answer"):
            client_of(f"http://127.0.0.1:{port}", "ana", "x", tmp_path).log_in()


@pytest.mark.parametrize(
    "url", ["", "azkaban", "ftp://a", "http://", "http://ana:x@a", "http://a?x=1", "http://a:x"]
)
def test_what_is_no_address_is_refused(url, tmp_path):
    with pytest.raises(ConfigError) as caught:
        client_of(url, "ana", "x", tmp_path)
    assert "ana:x" not in str(caught.value)


def test_a_flow_whose_last_node_fails_has_failed(client, project, tmp_path):
    flow = Flow(name="train", cells=CELLS, nodes=FLOW.nodes[:3])
    upload(client, project, tmp_path, flow)
    number, _ = client.execute(project, "train", program(tmp_path, "report"))
    _, states, ended = followed(client, number)
    assert ended.state == "FAILED"
    assert states["report"][-1] == "failed"


@pytest.mark.parametrize("name", ["", "1x", "a b", "a/b", "ä", "x" * 65])
def test_what_names_no_project_is_refused(client, name):
    with pytest.raises(ConfigError, match="cannot name a project"):
        client.upload(name, b"", flow="x", description="a test's")


@pytest.mark.parametrize(
    "text", ["", "a<b>&\"'", "ünï €", "\U0001f600\U0001f600 &amp; &#12;", "\x80\x9f"]
)
def test_logs_are_unescaped_to_what_they_were(text):
    assert unescaped(escape(text)) == text


def test_messages_lose_their_html():
    assert plain("a<br><br>b &lt;x&gt;\n c<br>") == "a b <x> c"


@pytest.mark.parametrize("broken", ["execution", "log"])
def test_a_server_that_does_not_answer_for_a_while_costs_no_line(
    client, uploaded, tmp_path, monkeypatch, broken
):
    held = tmp_path / "held"
    held.touch()
    number, _ = client.execute(uploaded, "train", program(tmp_path, "first"))
    ask, asked = getattr(client, broken), []

    def answer(*words):
        asked.append(words)
        if len(asked) > 1:  # else it may be over before it is asked for
            held.unlink(missing_ok=True)
        if len(asked) in {2, 5, 6}:
            raise ClusterError("Azkaban does not answer")
        return ask(*words)

    with monkeypatch.context() as patched:
        patched.setattr(client, broken, answer)
        lines, _, ended = followed(client, number)
    assert (lines, ended.state) == (followed(client, number)[0], "SUCCEEDED")
    assert len(asked) > 1


def test_a_log_that_never_comes_is_told_after_a_while(client, uploaded, tmp_path, monkeypatch):
    def answer(*_):
        raise ClusterError("Azkaban does not answer")

    number, _ = client.execute(uploaded, "train", program(tmp_path, "first"))
    monkeypatch.setattr(client, "log", answer)
    monkeypatch.setattr("submarine_engine.flows.azkaban_client._SILENT", 1.0)
    with pytest.raises(ClusterError, match="does not answer"):
        [*client.follow(number)]


def test_one_that_does_not_answer_at_all_is_told_at_once(client, monkeypatch):
    def answer(number):
        raise ClusterError("Azkaban does not answer")

    monkeypatch.setattr(client, "execution", answer)
    with pytest.raises(ClusterError, match="does not answer"):
        next(client.follow(1))


def test_waiting_is_up_to_the_caller(client, uploaded, tmp_path):
    waited = []
    held = tmp_path / "held"
    held.touch()

    def wait(seconds):
        waited.append(seconds)
        held.unlink(missing_ok=True)  # else it may be over before it is waited for
        time.sleep(0.05)

    number, _ = client.execute(uploaded, "train", program(tmp_path, "first"))
    *_, ended = client.follow(number, wait=wait)
    assert ended.state == "SUCCEEDED"
    assert set(waited) == {0.5}
