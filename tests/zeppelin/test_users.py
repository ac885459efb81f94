"""Two people of one real Zeppelin, in the ways that it binds an interpreter to them."""

from __future__ import annotations

import re

import pytest
from submarine_engine.records import list_jobs

from tests.jobs import until
from tests.zeppelin.rest import Client, text

pytestmark = pytest.mark.long

USERS = {"ada": "one", "bob": "two"}
# It has no number where Zeppelin takes more than five seconds to tell it.
WAITS = "waits for (paragraph 1|a paragraph of this note): what its job"
JOB = """\
%submarine.run --gpus {gpus} --name {name}
import os, time
print("it runs", flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.02)
found = {name!r}
found
"""


@pytest.fixture(scope="module")
def server(zeppelin_of_the_module):
    return zeppelin_of_the_module(users=USERS)


@pytest.fixture
def ada(server):
    return Client(server.url, "ada", "one")


@pytest.fixture
def bob(server):
    return Client(server.url, "bob", "two")


@pytest.fixture
def go(tmp_path):
    """Return the file that all jobs of a test wait for; they end with the test, however it ends."""
    path = tmp_path / "go"
    yield path
    path.touch()


def begin(note, number):
    """Run a paragraph; return it once its job has shown its first line."""
    note.start(number)
    return note.wait(number, lambda found: "it runs" in text(found))


def by_name(server, *names):
    """Return the states of the jobs of these names, sorted by name."""
    found = sorted((job.name, job.state.value) for job in list_jobs(server.jobs_home))
    return [(name, state) for name, state in found if name in names]


def test_scoped_users_train_side_by_side_and_each_has_a_python(server, ada, bob, go):
    ada.configure(option={"perUser": "scoped", "perNote": "shared"})
    notes = ada.note("hers"), bob.note("his")
    for note, user in zip(notes, USERS, strict=True):
        assert note.write(f"%submarine.python\nme = {user!r}")["status"] == "FINISHED"
    numbers = [
        note.add(JOB.format(gpus=1, name=f"of-{user}", go=str(go)))
        for note, user in zip(notes, USERS, strict=True)
    ]
    for note, number in zip(notes, numbers, strict=True):
        begin(note, number)
    # Neither holds up the other's Python, nor the other's commands.
    other = bob.note("his other one")
    assert text(other.write("%submarine.python\nme")) == "'bob'\n"
    assert "of-bob" in str(other.write("%submarine job list")["results"])
    for note, number in zip(notes, numbers, strict=True):
        note.wait(number, lambda found: found["status"] == "RUNNING")
    go.touch()
    for note, number, user in zip(notes, numbers, USERS, strict=True):
        found = note.wait(number)
        assert (found["status"], text(found)) == ("FINISHED", f"it runs\n'of-{user}'\n")
        assert text(note.write("%submarine.python\nfound, me")) == f"('of-{user}', '{user}')\n"


def test_as_many_jobs_of_a_note_run_at_a_time_as_the_setting_says(server, ada, go):
    ada.configure(option={"perUser": "shared", "perNote": "shared"}, submarine__concurrent__max="2")
    try:
        note = ada.note("three at once")
        numbers = [note.add(JOB.format(gpus=1, name=f"at-once-{n}", go=str(go))) for n in range(3)]
        after = note.add("%submarine.python\nfound")
        for number in numbers[:2]:
            begin(note, number)
        note.start(numbers[2])
        note.start(after)
        for number in (numbers[2], after):
            note.wait(number, lambda found: re.search(WAITS, text(found)))
        names = [f"at-once-{n}" for n in range(3)]
        # What its list tells of a job is written after what the paragraph shows.
        until(lambda: by_name(server, *names) == [(name, "running") for name in names[:2]])
        go.touch()
        assert {note.wait(number)["status"] for number in numbers} == {"FINISHED"}
        # What follows has what the last of them left behind.
        assert text(note.wait(after)) == "'at-once-2'\n"
    finally:
        ada.configure(submarine__concurrent__max="")


def test_isolated_users_follow_their_own_job_of_a_shared_paragraph(server, ada, bob, go):
    ada.configure(option={"perUser": "isolated", "perNote": "shared"})
    hers = ada.note("shared")
    number = hers.add(JOB.format(gpus=1, name="shared", go=str(go)))
    begin(hers, number)
    until(lambda: len(server.interpreters()) == 1)
    # Zeppelin lets nobody run a paragraph that runs; it forgets that when it is started anew,
    # while the job goes on.
    server.stop()
    server.start()
    his = Client(server.url, "bob", "two").open(hers.id)
    his.start(number)
    shown = his.wait(number, lambda found: "it runs" in text(found))
    assert "followed on here" not in text(shown), text(shown)
    until(lambda: by_name(server, "shared") == [("shared", "running")] * 2)
    go.touch()
    assert his.wait(number)["status"] == "FINISHED"
    until(lambda: by_name(server, "shared") == [("shared", "succeeded")] * 2)


def test_other_gpus_than_before_are_another_job(server, ada, go):
    ada.configure(option={"perUser": "shared", "perNote": "shared"})
    note = ada.note("changed")
    number = note.add(JOB.format(gpus=1, name="changed", go=str(go)))
    begin(note, number)
    ada.restart()
    until(lambda: note.paragraph(number)["status"] in ("ERROR", "ABORT"))
    # Unchanged, it would be followed on; with more GPUs it is another one.
    note.change(number, JOB.format(gpus=2, name="changed", go=str(go)))
    shown = begin(note, number)
    assert "followed on here" not in text(shown), text(shown)
    until(lambda: by_name(server, "changed") == [("changed", "running")] * 2)
    assert sorted(
        job.spec.gpus if hasattr(job, "spec") else job.gpus
        for job in list_jobs(server.jobs_home) if job.name == "changed"
    ) == [1, 2]  # fmt: skip
    go.touch()
    # The thread of the run before may write its end over that of this one for a moment.
    until(lambda: note.paragraph(number)["status"] == "FINISHED")


def test_run_all_holds_up_no_other_note_where_each_has_a_session(ada, go):
    """Where all notes share one, Zeppelin waits for each paragraph's end from then on."""
    ada.configure(option={"perUser": "shared", "perNote": "scoped"})
    all_of = ada.note("all of it", *(f"%submarine{kind}" for kind in (" gpus", ".python\n1")))
    ada.call("POST", f"/notebook/job/{all_of.id}", {})
    for number in range(2):
        assert all_of.wait(number)["status"] == "FINISHED"
    begin(all_of, all_of.add(JOB.format(gpus=1, name="long", go=str(go))))
    other = ada.note("another one")
    assert "long" in str(other.write("%submarine job list")["results"])
    assert text(other.write("%submarine.python\n40 + 2")) == "42\n"
