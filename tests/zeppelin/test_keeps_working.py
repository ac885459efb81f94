"""A real Zeppelin is stopped, killed and started again under jobs; none is lost, or run twice."""

from __future__ import annotations

import os
import signal
import urllib.request

import pytest
from submarine_engine.history import JobPaths, job_ids, read_json
from submarine_engine.records import list_jobs

from tests.jobs import until
from tests.zeppelin.rest import Client, outputs, text
from tests.zeppelin.server import free_port

pytestmark = pytest.mark.long

JOB = """\
%submarine.run --gpus 1 --name {name}
import os, time
print("the first line", flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.02)
print("the last line")
"""
RECOVERY = {
    "zeppelin.recovery.storage.class": (
        "org.apache.zeppelin.interpreter.recovery.LocalRecoveryStorage"
    ),
}


def states(server):
    """Return the states of the jobs by their summaries, each written a moment after its events."""
    return [job.state.value for job in list_jobs(server.jobs_home)]


def begin(note, tmp_path, name="first"):
    """Run a job in a new paragraph of the note; return its number once its log has begun."""
    number = note.add(JOB.format(name=name, go=str(tmp_path / "go")))
    note.start(number)
    note.wait(number, lambda found: "the first line" in text(found))
    return number


def finish(note, number, tmp_path):
    (tmp_path / "go").touch()
    found = note.wait(number)
    assert found["status"] == "FINISHED", found
    assert text(found).count("the first line") == 1
    assert "the last line" in text(found)


def the_link(note, number):
    """Return the link beside a paragraph: one, for Zeppelin makes a menu of several."""
    found = note.wait(number, lambda found: found.get("runtimeInfos"))
    (info,) = found["runtimeInfos"].values()
    (value,) = info["values"]
    with urllib.request.urlopen(value["jobUrl"]) as page:  # noqa: S310 - loopback
        assert page.status == 200
    return value["jobUrl"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_zeppelin_that_ends_under_a_job(zeppelin_of_its_own, tmp_path, how):
    server = zeppelin_of_its_own(environment={"SUBMARINE_LOCAL_GPUS": "2"})
    note = Client(server.url).note("a note")
    number = begin(note, tmp_path)
    getattr(server, how)()
    until(lambda: states(server) == ["running"])
    server.start()
    note = Client(server.url).open(note.id)
    # What was shown is still there, and the paragraph run again follows the same job.
    if how == "stop":
        # Zeppelin's own words stand there where Python was gone before it could answer.
        shown = text(note.paragraph(number))
        assert "the first line" in shown or "Exception" in shown
    note.start(number)
    note.wait(number, lambda found: "is followed on here" in text(found))
    note.wait(number, lambda found: "the first line" in text(found))
    the_link(note, number)
    finish(note, number, tmp_path)
    until(lambda: states(server) == ["succeeded"])
    again = note.run(number)
    assert again["status"] == "FINISHED", again
    until(lambda: states(server) == ["succeeded", "succeeded"])


def test_an_interpreter_that_is_killed_under_a_job(zeppelin_of_its_own, tmp_path):
    server = zeppelin_of_its_own(environment={"SUBMARINE_LOCAL_GPUS": "2"})
    client = Client(server.url)
    note = client.note("a note")
    number = begin(note, tmp_path)
    (interpreter,) = server.interpreters()
    os.kill(interpreter, signal.SIGKILL)
    assert note.wait(number)["status"] == "ERROR"
    until(lambda: states(server) == ["running"])
    client.restart()
    note.start(number)
    note.wait(number, lambda found: "is followed on here" in text(found))
    finish(note, number, tmp_path)
    until(lambda: states(server) == ["succeeded"])


def test_cancel_frees_gpus_and_jobs_of_a_note_follow_one_another(client, note, zeppelin, tmp_path):
    before = set(job_ids(zeppelin.jobs_home))
    number = begin(note, tmp_path, "cancelled")
    note.cancel(number)
    # ERROR where its end comes before Zeppelin has noted that it was cancelled.
    assert note.wait(number)["status"] in {"ABORT", "ERROR"}
    number = begin(note, tmp_path, "after")
    finish(note, number, tmp_path)
    new = set(job_ids(zeppelin.jobs_home)) - before

    def ended():
        found = [read_json(JobPaths(zeppelin.jobs_home, job_id).status) for job_id in new]
        return sorted((one["name"], one["state"]) for one in found)

    until(lambda: ended() == [("after", "succeeded"), ("cancelled", "cancelled")])


def test_users_of_scoped_notes_see_their_own_jobs(zeppelin_of_its_own, tmp_path):
    server = zeppelin_of_its_own(users={"ada": "one", "bob": "two"})
    ada, bob = Client(server.url, "ada", "one"), Client(server.url, "bob", "two")
    ada.configure(option={"perUser": "scoped", "perNote": "shared"})
    (tmp_path / "go").touch()
    job = JOB.format(name="hers", go=str(tmp_path / "go"))
    assert ada.note("hers").write(job)["status"] == "FINISHED"
    (job_id,) = job_ids(server.jobs_home)
    assert job_id in str(ada.note("list of hers").write("%submarine job list")["results"])
    assert job_id not in str(bob.note("list of his").write("%submarine job list")["results"])
    found = bob.note("kill").write(f"%submarine job show {job_id}")
    assert found["status"] == "ERROR", found


def test_a_recovered_interpreter_goes_on_with_its_paragraph(zeppelin_of_its_own, tmp_path):
    site = {**RECOVERY, "zeppelin.recovery.dir": str(tmp_path / "recovery")}
    server = zeppelin_of_its_own(site=site)
    note = Client(server.url).note("a note")
    number = begin(note, tmp_path)
    link = the_link(note, number)
    before = server.interpreters()
    server.stop()
    assert server.interpreters() == before
    server.start()
    note = Client(server.url).open(note.id)
    assert the_link(note, number) == link
    finish(note, number, tmp_path)
    assert server.interpreters() == before
    until(lambda: states(server) == ["succeeded"])


def test_links_lead_to_where_browsers_are_and_come_back(zeppelin_of_its_own):
    server, port = zeppelin_of_its_own(), free_port()
    client = Client(server.url)
    client.configure(
        submarine__links__listen=f"127.0.0.1:{port}",
        submarine__links__url=f"http://localhost:{port}",
    )
    note = client.note("a note")
    number = note.add("%submarine.run --gpus 0 --name linked\n1")
    assert note.run(number)["status"] == "FINISHED"
    link = the_link(note, number)
    assert link.startswith(f"http://localhost:{port}/")
    card = next(data for _, data in outputs(note.paragraph(number)) if "submarine-card" in data)
    assert link in card
    # What a note has kept works again once an interpreter is there.
    client.restart()
    until(lambda: not server.interpreters())
    assert note.write("%submarine.python\n1")["status"] == "FINISHED"

    def opens():
        try:
            with urllib.request.urlopen(link) as page:  # noqa: S310 - loopback
                return page.status == 200
        except OSError:
            return False

    until(opens)


def test_zeppelin_itself_aborts_the_run_after_a_cancel_that_hit_nothing(client, note, zeppelin):
    """What the soak takes for Zeppelin's own is: no interpreter is there that could do it."""
    number = note.add("%submarine.python\n40 + 2")
    assert note.run(number)["status"] == "FINISHED"
    client.restart()
    until(lambda: not zeppelin.interpreters())
    note.cancel(number)
    assert note.run(number)["status"] == "ABORT"
    assert not zeppelin.interpreters()
    assert text(note.run(number)) == "42\n"
