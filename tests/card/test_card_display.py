"""The card in a kernel without a browser, in a terminal, and in a plain program."""

from __future__ import annotations

import re
import subprocess
import sys
from textwrap import dedent
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient
from submarine_magics.card import display, widget

from tests.kernels import OF_A_RUNNER, TRIES

pytestmark = pytest.mark.service

WIDGET = "application/vnd.jupyter.widget-view+json"
JOB = "application/vnd.submarine.job+json"

SUBMIT = """
    import threading
    import time
    from dataclasses import replace
    from pathlib import Path
    from submarine_engine.bundle import Bundle, Manifest
    from submarine_engine.clusters.local import LocalCluster
    from submarine_engine.future import Job
    from submarine_engine.job import JobSpec, JobState, Resources, Role
    from submarine_engine.lifecycle import JobStatus
    from submarine_magics.card import JobCard, mimebundle

    def submit(script):
        cluster = LocalCluster()
        bundle = Bundle(files={"script.py": script.encode()},
                        manifest=Manifest(entry="script.py", python="3"))
        spec = JobSpec(name="shown", roles=(Role(resources=Resources(gpus=0)),))
        return Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
"""
WATCH = """
    def watch(job, **options):
        card = JobCard(job, **options)
        card.display(JobStatus())  # not over, however fast the job is
        while not (status := job.status()).state.final:
            card.update(status)
            if card._shown and card._shown.state is JobState.RUNNING:
                Path("shown").touch()
            time.sleep(0.01)
        card.close(status)
"""


CELLS = {
    "succeeds": "watch(submit('1 + 1'), origin='In [3]')",
    "fails": "watch(submit('raise ValueError(\"<b>no</b>\")'))",
    "over": "job = submit('1'); _ = job.wait(180); JobCard(job).display()",
    "busy": """
        job = submit('import time; time.sleep(600)')
        card, status = JobCard(job, blocking=True), job.status()
        card.display(status)
        begin = time.monotonic()
        for number in range(2000):
            card.update(replace(status, reason=str(number)))
        took = time.monotonic() - begin
        while card._status is not card._shown:
            card.tick()
        job.kill()
        card.close(job.wait(180))
        print(took)
    """,
    "flooded": """
        from submarine_magics import frontend as pace
        from submarine_magics.card import display
        display._AGAIN_AFTER = 0.05
        pace.shared = pace.Pace(clock=lambda: 0.0)  # what went stays lately, however slow the job
        pace.shared.take(900_000)
        watch(submit('1'))
        [each.join() for each in threading.enumerate() if isinstance(each, threading.Timer)]
        pace.shared = pace.Pace()
    """,
    "left": """
        job = submit('import time; time.sleep(600)')
        card = JobCard(job, blocking=True)
        card.display()
        card.leave()
        job.kill()
    """,
    "follows": """
        job = submit('import time; time.sleep(1)')
        card = JobCard(job)
        card.display()
        card.follow()
        job.wait(180)
        [each.join() for each in threading.enumerate() if each.name == f"submarine-card-{job.id}"]
    """,
    "message": """
        job = submit('import time; time.sleep(600)')
        card = JobCard(job)
        card.display()
        for message in (None, {}, {"cancel": "yes"}, [1], {"cancel": True}):
            card._widget._handle_custom_msg(message, [])
            print(job.status().cancelling, card._widget.heard)
        card.close(job.wait(180))
    """,
    "long": """
        import gc, json, weakref
        job = submit("x = 1 # a long line\\n" * 3000)
        card = JobCard(job)
        card.display(JobStatus())
        whole = len(json.dumps(card._widget.rest))
        card.close(job.wait(180))
        live, kept = card._widget, weakref.ref(card)
        del card
        gc.collect()
        print(whole > 10_000, len(json.dumps(live.rest)) < 4000, kept() is None, bool(live.comm))
        print(*[part[1]["class"] for part in live.rest])
    """,
    "sweeps": """
        from submarine_engine.history import JobPaths
        from submarine_engine.sweeps.summary import Summary
        from submarine_magics.card import display as shows
        shows._LIVE_EVERY = 0.0
        shows.read_curves = lambda *_: ()  # they come when they come
        shows.read_started = lambda *_: None
        job = submit('import time; time.sleep(600)')
        folder = JobPaths(job.cluster.home, job.id).task("worker-0").root
        while job.status().state is not JobState.RUNNING:
            time.sleep(0.05)
        card = JobCard(job)
        card.display()
        plain = card._widget.at
        card.tick()
        print(card._widget.at == plain)  # nothing is new
        for number in (3, 4):
            told = (("complete", number),)
            found = Summary(objectives=(("loss", "minimize"),), params=(), total=9, states=told)
            found.write(folder)
            card.tick()  # of a job whose own state is what it was
            print(f"{number}-complete" in str(card._widget.tree).replace(" ", "-"))
            drawn = card._widget.at
            card.tick()
            print(card._widget.at == drawn)
        job.kill()
        card.close(job.wait(180))
    """,
    "bundle": "job = submit('1'); _ = job.wait(180); print(*mimebundle(job))",
}


NO_CARD = {"bundle"}


class Client(NotebookClient):
    """Keeps the messages that a front end would have got, by the cell that they belong to."""

    def process_message(self, msg, cell, cell_index):
        self.__dict__.setdefault("seen", []).append((cell_index, msg))
        return super().process_message(msg, cell, cell_index)


class Ran:
    """A cell that was run: its outputs as they would be saved, and the messages it sent."""

    def __init__(self, client, index):
        self.outputs = client.nb.cells[index].outputs
        self._messages = [msg for at, msg in client.seen if at == index]

    @property
    def card(self):
        (card,) = [output.data for output in self.outputs if JOB in output.get("data", {})]
        return card

    @property
    def printed(self):
        return "".join(output.text for output in self.outputs if "text" in output).split()

    def sent(self, kind):
        return [msg["content"] for msg in self._messages if msg["msg_type"] == kind]


def run(folder, sources):
    """Run cells in a kernel of their own, with jobs in `folder`."""
    first = f"""
        import os
        os.environ["SUBMARINE_HOME"] = {str(folder / "home")!r}
        os.environ["JPY_SESSION_NAME"] = "a server's, so that somebody may see widgets"
    """
    cells = [nbformat.v4.new_code_cell(dedent(each)) for each in (first, SUBMIT, WATCH, *sources)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    where = {"metadata": {"path": str(folder)}}
    for left in reversed(range(TRIES)):
        client = Client(notebook, **OF_A_RUNNER, resources=where)
        try:
            client.execute()
            break
        except RuntimeError as error:
            if not left or "died before replying" not in str(error):  # no cell has run by then
                raise
    return [Ran(client, index) for index in range(3, len(cells))]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return dict(zip(CELLS, run(tmp_path_factory.mktemp("cells"), CELLS.values()), strict=True))


def test_a_saved_notebook_holds_the_last_state_without_the_widget(ran):
    card = ran["succeeds"].card
    assert set(card) == {JOB, "text/html", "text/plain"}
    assert (card[JOB]["state"], card[JOB]["name"]) == ("succeeded", "shown")
    assert card["text/plain"].startswith("✓ shown: succeeded, ")
    assert "In [3]" in card["text/html"]
    assert "submarine job logs" in card["text/html"]
    (first,) = ran["succeeds"].sent("display_data")
    assert WIDGET in first["data"]


def test_what_a_sweep_finds_is_shown_as_it_is_told(ran):
    assert ran["sweeps"].printed == ["True"] * 5
    assert "4 complete of 9" in ran["sweeps"].card["text/plain"]


def test_a_failed_job_s_card_tells_of_it(ran):
    card = ran["fails"].card
    assert card[JOB]["state"] == "failed"
    assert "✕ shown: failed" in card["text/plain"]
    assert "<b>no</b>" not in card["text/html"]


def test_a_job_that_is_over_is_shown_without_a_widget(ran):
    assert ran["over"].card[JOB]["state"] == "succeeded"
    assert ran["over"].sent("comm_open") == []


def test_many_changes_are_few_messages_and_the_last_one_arrives(ran):
    states = [content["data"].get("state", {}) for content in ran["busy"].sent("comm_msg")]
    updates = [state for state in states if "at" in state]
    assert len(updates) <= 3 + float(ran["busy"].printed[-1]) / 0.25
    assert updates[-1]["tree"][1]["data-state"] == "cancelled"
    assert updates[-1]["blocking"] is False
    assert ran["busy"].card[JOB]["state"] == "cancelled"


def test_after_a_flood_the_last_state_is_sent_again(ran):
    def last_words(cell):
        updates = ran[cell].sent("update_display_data")
        return [content["data"][JOB]["state"] for content in updates]

    assert last_words("succeeds") == ["succeeded"]
    assert last_words("flooded") == ["succeeded", "succeeded"]


@pytest.mark.long
def test_a_card_that_was_left_says_how_to_see_on(ran):
    card = ran["left"].card
    assert WIDGET not in card
    assert re.search(r"as of [\d-]+ \d\d:\d\d\. No longer followed here", card["text/html"])
    assert f"%submarine job attach {card[JOB]['job_id']}" in card["text/html"]


def test_the_style_is_saved_once(ran):
    cards = [each.card["text/html"] for name, each in ran.items() if name not in NO_CARD]
    assert [html.count("<style>") for html in cards] == [1] + [0] * (len(cards) - 1)


def test_a_cell_that_is_run_again_brings_the_style_again(monkeypatch):
    cells = iter(["a", "b", "a", "b", None])
    kernel = SimpleNamespace(get_parent=lambda _: {"metadata": {"cellId": next(cells)}})
    monkeypatch.setattr(display, "get_ipython", lambda: SimpleNamespace(kernel=kernel))
    monkeypatch.setattr(display, "_styled", [])
    assert [display.wants_style() for _ in range(5)] == [True, False, True, False, False]


def test_a_card_follows_its_job_by_itself(ran):
    assert ran["follows"].card[JOB]["state"] == "succeeded"


def test_the_message_of_the_button_cancels(ran):
    assert ran["message"].printed[:8] == ["False"] * 8
    assert ran["message"].printed[-1] == "True"
    assert ran["message"].card[JOB]["state"] == "cancelled"


def test_a_job_s_mimebundle_is_its_static_card(ran):
    assert ran["bundle"].printed == [JOB, "text/html", "text/plain"]


def test_the_widget_of_a_job_that_is_over_holds_little_and_is_still_there(ran):
    """A page that was reloaded knows the widget alone: closed, it would take its card away."""
    assert ran["long"].printed == ["True"] * 4 + ["smc-script", "smc-foot"]
    assert ran["long"].sent("comm_close") == []


def test_without_anywidget_the_static_card_is_kept_up_to_date_and_says_so_once(tmp_path):
    _, first, second = run(
        tmp_path,
        [
            "import sys; sys.modules['anywidget'] = None",
            """
            until_shown = "while not os.path.exists('shown'): time.sleep(0.02)"
            watch(submit("import os, time\\n" + until_shown))
            """,
            "watch(submit('1'))",
        ],
    )
    assert (first.card[JOB]["state"], second.card[JOB]["state"]) == ("succeeded", "succeeded")
    assert "install anywidget" in first.card["text/html"]
    assert "install anywidget" not in second.card["text/html"]
    assert first.sent("comm_open") == []
    states = [content["data"][JOB]["state"] for content in first.sent("update_display_data")]
    assert "running" in states


def test_the_kernel_id_is_in_the_name_of_jupyter_s_connection_file(monkeypatch):
    known = "0a1b2c3d-0000-1111-2222-333344445555"
    for file, found in ((f"/x/kernel-{known}.json", known), ("/x/kernel-1234.json", "")):
        monkeypatch.setattr(widget, "get_connection_file", lambda file=file: file)
        assert widget.kernel_id() == found
    monkeypatch.undo()
    assert widget.kernel_id() == ""  # this process is no kernel


def program(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", dedent(SUBMIT) + dedent(WATCH) + dedent(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_outside_ipython_nothing_is_shown():
    assert program("watch(submit('1'))") == []


def test_in_a_terminal_the_text_is_shown_once_at_the_end():
    lines = program(
        """
        from IPython.core.interactiveshell import InteractiveShell
        InteractiveShell.instance()
        watch(submit('1'))
        """
    )
    assert lines[0].startswith("✓ shown: succeeded")
    assert sum("shown: " in line for line in lines) == 1


def test_a_record_that_cannot_be_read_is_no_error():
    broken = """
        from submarine_magics.card import read_record
        from submarine_engine.history import JobPaths
        job = submit('1')
        job.wait(180)
        paths = JobPaths(job.cluster.home, job.id)
        paths.record.chmod(0o600)
        for text in ("", "[]", '{"spec": 3}', '{"spec": {"version": 99}}'):
            paths.record.write_text(text)
            print(read_record(job).spec.name)
        (paths.bundle / "manifest.json").write_text('{"entry": "../record.json"}')
        print(read_record(job).script_name == "")
    """
    assert program(broken) == ["job"] * 4 + ["True"]
