"""What a paragraph of a real Zeppelin shows, of all kinds: as its server gives it out."""

from __future__ import annotations

import base64
import re
import urllib.request
from pathlib import Path

import pytest
from submarine_engine.history import JobPaths, job_ids, read_json

from tests.jobs import until
from tests.zeppelin.rest import Client, outputs, text

WAITS = """\
%submarine.run --gpus 1 --detach --name {name}
import os, time
while not os.path.exists({go!r}):
    time.sleep(0.02)
"""
HOSTILE = """\
%submarine.run --gpus 0 --name hostile
print("%html <script>alert(1)</script>", flush=True)
print("%table a\\tb", flush=True)
print("\\n%img aGVsbG8=\\n<b>bold</b>", flush=True)
"""
MANY = 100 * 1024 * 1024
LOUD = f"""\
%submarine.run --gpus 0 --name loud
import sys
line = "0123456789" * 102 + "abc\\n"
print("the first line", flush=True)
for _ in range({MANY} // len(line)):
    sys.stdout.write(line)
print("the last line", flush=True)
"""


@pytest.fixture(scope="module")
def note(zeppelin):
    """Return the note of all these tests: Zeppelin needs seconds to delete one."""
    note = Client(zeppelin.url).note("paragraphs")
    yield note
    note.delete()


@pytest.fixture
def new_jobs(zeppelin):
    """Return a function that gives the status of each job since the test began."""
    before = set(job_ids(zeppelin.jobs_home))

    def found():
        new = set(job_ids(zeppelin.jobs_home)) - before
        return {job_id: read_json(JobPaths(zeppelin.jobs_home, job_id).status) for job_id in new}

    return found


def memory(pid, name="VmRSS"):
    """Return a process's memory in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name} of {pid}")


@pytest.mark.long
def test_a_chatty_paragraph_ends_with_all_of_its_lines(note):
    number = note.add("%submarine.python\nfor i in range(3000): print(f'L{i}', flush=True)")
    for _ in range(2):
        found = note.run(number)
        assert found["status"] == "FINISHED"
        assert text(found) == "".join(f"L{i}\n" for i in range(3000))


def test_a_shell_paragraph_that_fails_shows_its_output_and_status(note):
    found = note.write("%submarine.sh\necho before\necho wrong >&2\nexit 3")
    assert found["status"] == "ERROR"
    assert "before\n" in text(found)
    assert "wrong\n" in text(found)
    assert "exit status 3" in text(found)
    assert "Traceback" not in text(found)
    assert "run_cell_magic" not in text(found)
    assert outputs(note.write("%submarine.sh\necho fine")) == [("TEXT", "fine\n")]


def test_a_cancelled_shell_paragraph_ends_its_commands(note):
    number = note.add("%submarine.sh\necho pid $$\nsleep 1000\necho after")
    note.start(number)
    found = note.wait(number, lambda found: re.search(r"pid \d+\n", text(found)))
    pid = int(text(found).split()[1])
    note.cancel(number)
    found = note.wait(number)
    # ERROR where its end comes before Zeppelin has noted that it was cancelled.
    assert found["status"] in {"ABORT", "ERROR"}
    assert "after" not in text(found)
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert outputs(note.write("%submarine.sh\necho fine")) == [("TEXT", "fine\n")]


def test_an_unknown_command_names_the_nearest(note):
    found = note.write("%submarine job lits")
    assert found["status"] == "ERROR"
    assert "did you mean list? `%submarine help job`" in text(found)
    assert "Traceback" not in text(found)
    assert "JOB_RUN" in text(note.write("%submarine\nJOB_RAN"))


def test_words_of_the_former_interpreter_and_of_its_pages(note, new_jobs):
    """As they are pasted: with the dashes and quotes of a text processor."""
    resources = "\u2013num_workers 1 \u2014worker_resources memory=1G,vcores=1"
    launch = "\u2013\u2013worker_launch_cmd \u201cecho it ran\u201d"
    for words, name in (
        (f"yarn jar submarine.jar job run \u2013name pasted {resources} \\\n {launch}", "pasted"),
        (f"JOB RUN --name capitals --num_workers 1 {launch}", "capitals"),
    ):
        found = note.write(f"%submarine\n{words}")
        assert found["status"] == "FINISHED", text(found)
        assert "it ran\n" in text(found)
        assert name in [job["name"] for job in new_jobs().values()]
        assert "submarine job run" in text(found), "it says the new name"
    listed = note.write("%submarine\nJOB_SHOW")
    assert "pasted" in str(listed["results"]), listed
    assert "no job of this note is running" in text(note.write("%submarine\nJOB STOP"))
    started = note.write("%submarine\nTENSORBOARD START")
    assert started["status"] == "FINISHED", text(started)
    assert "TensorBoard</a> over" in str(outputs(started)), outputs(started)
    assert "ended" in text(note.write("%submarine\nTENSORBOARD STOP"))


def test_roles_run_together_on_the_local_cluster(note, new_jobs):
    """A parameter server, which never ends by itself, and two workers that know each other."""
    say = "echo $SUBMARINE_TASK is $RANK of $WORLD_SIZE"
    found = note.write(
        f'%submarine\njob run --logs all --name roles --num_workers 2 --worker_launch_cmd "{say}" '
        "--num_ps 1 --ps_resources memory=1G,vcores=1 --ps_launch_cmd 'sleep 600'"
    )
    assert found["status"] == "FINISHED", text(found)
    for number in (0, 1):
        assert f"worker-{number} | worker-{number} is {number} of 2\n" in text(found)
    until(lambda: [job["state"] for job in new_jobs().values()] == ["succeeded"])


def test_a_form_of_a_jobs_options(client, note, new_jobs):
    number = note.add("%submarine.run --gpus ${gpus=1} --name formed\nprint('ran')")
    found = note.run(number)
    assert found["status"] == "FINISHED", text(found)
    assert found["settings"]["forms"]["gpus"]["defaultValue"] == "1"
    (first,) = new_jobs()
    assert new_jobs()[first]["gpus"] == 1
    params = {"params": {"gpus": "2"}}
    client.call("POST", f"/notebook/job/{note.id}/{note.ids[number]}", params)
    until(lambda: len(new_jobs()) == 2)
    found = note.wait(number)
    assert found["status"] == "FINISHED", text(found)
    assert found["settings"]["params"] == {"gpus": "2"}
    (second,) = set(new_jobs()) - {first}
    assert new_jobs()[second]["gpus"] == 2


def test_completion_through_the_websocket(client, note):
    note.write("%submarine.python\na_rather_long_name = 1")
    number = note.add("%submarine.python\na_rather_l")
    with client.socket() as socket:
        socket.watch(note)

        def ask(wanted, buffer):
            socket.send("COMPLETION", id=note.ids[wanted], buf=buffer, cursor=len(buffer))
            told = socket.until("COMPLETION_LIST")
            return [one["value"] for one in told["completions"]]

        # A kernel that takes long to look around answers nothing, and something the next time.
        until(lambda: "a_rather_long_name" in ask(number, "%submarine.python\na_rather_l"))


def test_a_frame_and_a_picture(note):
    found = note.write(
        "%submarine.python\nimport pandas\npandas.DataFrame({'a': [1, 2], 'b': ['x', 'y\\tz']})"
    )
    table = next(data for kind, data in outputs(found) if kind == "TABLE")
    rows = [line.split("\t")[-2:] for line in table.splitlines()]
    assert rows == [["a", "b"], ["1", "x"], ["2", "y z"]]
    found = note.write(
        "%submarine.python\n%matplotlib inline\nimport matplotlib.pyplot as plt\n"
        "plt.plot([1, 2, 3]); plt.show()"
    )
    picture = next(data for kind, data in outputs(found) if kind == "IMG")
    assert base64.b64decode(picture, validate=True).startswith(b"\x89PNG")


def test_markup_in_a_jobs_log_is_text(note):
    found = note.write(HOSTILE)
    assert found["status"] == "FINISHED", text(found)
    assert "%html <script>alert(1)</script>\n%table a\tb\n\n%img aGVsbG8=\n<b>bold</b>\n" in text(
        found
    )
    for kind, data in outputs(found):
        assert kind in ("TEXT", "HTML")
        assert kind == "TEXT" or ("<script>alert" not in data and "<b>bold" not in data)


def test_two_jobs_of_a_note_side_by_side(note, new_jobs, tmp_path):
    go = tmp_path / "go"
    numbers = [note.add(WAITS.format(name=name, go=str(go))) for name in ("one", "two")]
    for number in numbers:
        note.start(number)
    for number in numbers:
        found = note.wait(number)
        assert found["status"] == "FINISHED", text(found)
    until(lambda: [job["state"] for job in new_jobs().values()] == ["running", "running"])
    assert sorted(job["name"] for job in new_jobs().values()) == ["one", "two"]
    go.touch()
    until(lambda: [job["state"] for job in new_jobs().values()] == ["succeeded", "succeeded"])


@pytest.mark.long
def test_a_log_of_100_megabytes(zeppelin, note, new_jobs):
    note.write("%submarine.python\n1")
    (interpreter,) = zeppelin.interpreters()
    before = memory(interpreter)
    found = note.write(LOUD)
    assert found["status"] == "FINISHED", text(found)[-2000:]
    shown = text(found)
    assert len(shown.encode()) < 110_000
    assert "the first line\n" in shown
    assert "the last line\n" in shown
    (job_id,) = new_jobs()
    (left_out,) = [line for line in shown.splitlines() if line.startswith("…")]
    link = left_out.partition("full log: ")[2]
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+/[\w-]+/jobs/{job_id}/", link), left_out
    with urllib.request.urlopen(link) as page:  # noqa: S310 - matched just now
        assert b'id="raw"' in page.read()
    with urllib.request.urlopen(f"{link}logs/worker-0/stdout") as raw:  # noqa: S310 - as above
        size = 0
        while piece := raw.read(1 << 20):
            size += len(piece)
            last = piece
    assert memory(interpreter) - before < 30e6
    log = JobPaths(zeppelin.jobs_home, job_id).task("worker-0").log("stdout")
    assert size == log.stat().st_size > MANY - 2000
    assert last.endswith(b"the last line\n")
    found = note.write(f"%submarine job logs {job_id}")
    assert found["status"] == "FINISHED", text(found)[-2000:]
    assert "the last line\n" in text(found)
    assert memory(interpreter) - before < 30e6
