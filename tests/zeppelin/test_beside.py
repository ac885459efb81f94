"""One shared session of a real Zeppelin: a job, or a long paragraph, holds up nobody else."""

from __future__ import annotations

import re

import pytest
from submarine_engine.records import list_jobs

from tests.jobs import until
from tests.zeppelin.rest import text

JOB = """\
%submarine.run --gpus 1 --name {name}
import os, time
print("it runs", flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.02)
found = {name!r}
found
"""
BUSY = """\
%submarine.python
import os, time
print("it runs", flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.02)
"""


def begin(note, words):
    """Run a new paragraph; return its number once it has shown its first line."""
    number = note.add(words)
    note.start(number)
    note.wait(number, lambda found: "it runs" in text(found))
    return number


def found_job(zeppelin, name):
    """Return the newest job of that name."""
    return next(one for one in list_jobs(zeppelin.jobs_home) if one.name == name)


def test_commands_paragraphs_and_jobs_of_other_notes_run_beside_a_job(client, note, tmp_path):
    go = tmp_path / "go"
    first = begin(note, JOB.format(name="beside-first", go=str(go)))
    other = client.note("another note")
    try:
        listed = other.write("%submarine job list")
        assert listed["status"] == "FINISHED", text(listed)
        assert "beside-first" in str(listed["results"])
        assert text(other.write("%submarine.python\n40 + 2")) == "42\n"
        second = begin(other, JOB.format(name="beside-second", go=str(go)))
        for where, number in ((note, first), (other, second)):
            # Zeppelin's own look, which may be later than the first line.
            where.wait(number, lambda found: found["status"] == "RUNNING")
        go.touch()
        for where, number, name in ((note, first, "first"), (other, second, "second")):
            found = where.wait(number)
            assert found["status"] == "FINISHED", text(found)
            assert text(found).endswith(f"'beside-{name}'\n"), text(found)
            assert text(found).count("it runs") == 1
    finally:
        go.touch()
        other.delete()


def test_what_follows_in_the_note_waits_and_says_so(note, tmp_path):
    go = tmp_path / "go"
    job = begin(note, JOB.format(name="home-first", go=str(go)))
    uses = note.add("%submarine.python\nfound.upper()")
    passes = note.add("%submarine.python(wait=false)\n40 + 2")
    note.start(uses)
    waiting = note.wait(uses, lambda found: "comes home first" in text(found))
    # It has no number where Zeppelin takes more than five seconds to tell it.
    assert re.search(r"waits for (paragraph \d+|a paragraph of this note): what", text(waiting))
    assert note.run(passes)["status"] == "FINISHED"
    go.touch()
    assert note.wait(job)["status"] == "FINISHED"
    found = note.wait(uses)
    assert (found["status"], text(found)) == ("FINISHED", "'HOME-FIRST'\n")


@pytest.mark.long
def test_jobs_of_one_note_run_side_by_side_where_they_do_not_wait(note, tmp_path):
    go = tmp_path / "go"
    first = begin(note, JOB.format(name="side-1", go=str(go)))
    second = begin(note, JOB.format(name="side-2", go=str(go)).replace("run ", "run(wait=false) "))
    note.wait(first, lambda found: found["status"] == "RUNNING")
    go.touch()
    assert {note.wait(number)["status"] for number in (first, second)} == {"FINISHED"}


@pytest.mark.long
def test_a_job_is_cancelled_by_a_command_while_others_wait_for_a_long_paragraph(
    client, note, zeppelin, tmp_path
):
    never, go = tmp_path / "never", tmp_path / "go"
    job = begin(note, JOB.format(name="to-be-cancelled", go=str(never)))
    other = client.note("a busy note")
    try:
        busy = begin(other, BUSY.format(go=str(go)))
        waiting = other.add("%submarine.python\n1")
        other.start(waiting)
        other.wait(waiting, lambda found: re.search("waits for (a )?paragraph", text(found)))
        job_id = found_job(zeppelin, "to-be-cancelled").id
        told = other.write(f"%submarine job cancel {job_id}")
        assert "is being cancelled" in text(told)
        until(lambda: found_job(zeppelin, "to-be-cancelled").state.final)
        # What it leaves behind comes home when the Python of the session is free.
        other.wait(busy, lambda found: found["status"] == "RUNNING")
        other.cancel(waiting)
        # ERROR where its end comes before Zeppelin has noted that it was cancelled.
        assert other.wait(waiting)["status"] in {"ABORT", "ERROR"}
        go.touch()
        assert other.wait(busy)["status"] == "FINISHED"
        found = note.wait(job)
        assert found["status"] == "ERROR"
        assert "cancelled" in text(found)
    finally:
        go.touch()
        other.delete()


@pytest.mark.long
def test_the_link_beside_a_paragraph_outlives_what_its_job_clears(note, tmp_path):
    go = tmp_path / "go"
    words = JOB.format(name="clears", go=str(go)).replace(
        "import os, time", "import os, time\nfrom IPython.display import clear_output\n"
        "print('gone', flush=True)\nclear_output()"
    )  # fmt: skip
    number = begin(note, words)
    (info,) = note.wait(number, lambda found: found.get("runtimeInfos"))["runtimeInfos"].values()
    assert len(info["values"]) == 1, info
    go.touch()
    found = note.wait(number)
    assert "gone" not in text(found)
    assert found["runtimeInfos"]["jobUrl"]["values"] == info["values"]
