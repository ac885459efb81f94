"""Jobs of paragraphs in a kernel of a Zeppelin session: cards, text, errors, users."""

from __future__ import annotations

from tests.zeppelin.noted import Paragraph, clean, home, kernel, newest, run, text

__all__ = ["home", "kernel", "run"]  # fixtures


def test_a_job_of_the_paragraph_itself_with_card_text_and_value(run, home):
    define, job, use = run(
        Paragraph(
            "def", "def train(n):\n    print('%html <script>alert(1)</script>')\n    return n * 2"
        ),
        Paragraph("job", "--gpus 0 --name twice\nresult = train(21)", "run"),
        Paragraph("use", "result"),
    )
    assert define == []
    assert job[0].type == "HTML"
    assert "twice" in job[0].data
    assert "<script" not in job[0].data
    assert [message.type for message in job].count("HTML") == 1
    assert "%html <script>alert(1)</script>\n" in text(job)
    assert text(use).strip() == "42"
    record, manifest, script = newest(home)
    assert record["spec"]["notebook"] == "lab/Digits (2ABC)"
    assert "paragraph 1" in {span.cell for span in manifest.lines}
    assert "paragraph 1" in script


def test_a_job_of_commands_alone_needs_no_part(run, home):
    clean(run)
    words = "job run --num_workers 1 --worker_launch_cmd 'echo it ran'"
    (found,) = run(Paragraph("alone", words, "submarine"))
    assert "it ran\n" in text(found)
    record, _, _ = newest(home)
    assert record["spec"]["roles"][0]["command"] == "echo it ran"
    (refused,) = run(Paragraph("without", "job run --num_workers 1", "submarine"))
    assert "there is no part to run" in text(refused)


def test_an_unnamed_job_is_called_after_the_note(run, home):
    run(Paragraph("job", "1 + 1", "run", properties={"gpus": "0"}))
    record, _, _ = newest(home)
    assert record["spec"]["name"] == "Digits"


def test_an_error_of_a_job_names_the_paragraph(run):
    _, found = run(
        Paragraph("def", "def train():\n    raise ValueError('%html <b>no</b>')", title="Train it"),
        Paragraph("job", "--gpus 0\ntrain()", "run", title="Go"),
    )
    assert "paragraph Train it" in text(found)
    assert "ValueError: %html <b>no</b>" in text(found)
    assert "In [" not in text(found)


def test_a_log_that_a_plain_paragraph_asks_for_is_text(run):
    code = "--gpus 0 --name evil\nprint('%html <script>theirs</script>')"
    show = "print('%html <b>mine</b>')\n%submarine job logs evil"
    _, found = run(Paragraph("a", code, "run"), Paragraph("b", show, properties={"part": "false"}))
    assert [(message.type, message.data) for message in found] == [
        ("HTML", "<b>mine</b>\n"),
        ("TEXT", "%html <script>theirs</script>\n"),
    ]


def test_a_long_log_keeps_to_the_limit_and_names_where_all_of_it_is(run):
    code = "--gpus 0\nfor n in range(20000):\n    print(n, 'x' * 1000)"
    [found] = run(Paragraph("job", code, "run"))
    shown = text(found)
    assert len(shown) < 110_000
    assert "full log: http://127.0.0.1" in shown
    assert "\n19999 " in shown


def test_two_users_see_only_their_own_jobs(run, home):
    run(Paragraph("a", "--gpus 0 --name of-ada\n1", "run", user="ada"))
    run(Paragraph("b", "--gpus 0 --name of-bob\n1", "run", user="bob"))
    listing = "job list"
    [adas] = run(Paragraph("l", listing, "submarine", user="ada"))
    [bobs] = run(Paragraph("l", listing, "submarine", user="bob"))
    assert adas[0].type == bobs[0].type == "TABLE"
    assert "of-ada" in adas[0].data
    assert "of-ada" not in bobs[0].data
    [denied] = run(Paragraph("l", "job show of-ada", "submarine", user="bob"))
    assert "no job 'of-ada' is on record" in text(denied)
    [everything] = run(Paragraph("l", listing, "submarine"))
    assert "of-ada" in everything[0].data


def test_commands_show_each_what_they_return(run):
    [found] = run(Paragraph("p", "gpus\nhelp job run", "submarine"))
    assert [message.type for message in found] == ["TABLE", "TEXT"]
    assert "--worker_launch_cmd" in text(found)


def test_the_dashboard_shows_the_jobs_of_this_note(run):
    note = {"note_name": "With one job"}
    run(Paragraph("a", "--gpus 0 --name not-here\n1", "run"))
    run(Paragraph("a", "--gpus 0 --name here\n1", "run", **note))
    [found] = run(Paragraph("p", "DASHBOARD", "submarine", **note))
    tables = [message.data for message in found if message.type == "TABLE"]
    assert [row.split("\t")[1] for row in tables[0].splitlines()] == ["NAME", "here"]
    assert tables[1].startswith("GPU\t")


def test_stopping_the_jobs_of_a_note_that_has_none(run):
    [found] = run(Paragraph("p", "JOB_STOP", "submarine", note_name="Without any"))
    assert "no job of this note is running" in text(found)


def test_stopping_the_jobs_of_this_note_alone(run):
    other = Paragraph("o", "import time\ntime.sleep(600)", "run", note_id="2DEF")
    other.properties = {"gpus": "0", "detach": "true", "name": "other"}
    mine = Paragraph("o", other.text, "run", properties={**other.properties, "name": "mine"})
    run(other)
    run(mine)
    [found] = run(Paragraph("p", "JOB_STOP", "submarine"))
    assert text(found).count("is being cancelled") == 1
    run(Paragraph("w", "job wait mine", "submarine"))
    [listing] = run(Paragraph("l", "job list", "submarine"))
    states = {row.split("\t")[1]: row.split("\t")[2] for row in listing[0].data.split("\n") if row}
    assert states["mine"] == "cancelled"
    assert states["other"] != "cancelled"
    run(Paragraph("k", "job kill other", "submarine"))


def test_shell_in_the_process_of_the_note(run):
    [found] = run(Paragraph("p", "echo hello\necho %html '<b>'", "sh"))
    assert found[-1].type == "TEXT"
    assert text(found) == "hello\n%html <b>\n"
    [found] = run(Paragraph("p", "exit 3", "sh"))
    assert "3" in text(found)


def test_a_heading_cannot_break_the_script(run, home):
    evil = "x\nimport os; os.abort()\n\x1b[31m"
    run(
        Paragraph("def", "def train():\n    return 1", title=evil),
        Paragraph("job", "--gpus 0\ntrain()", "run", title=evil),
    )
    _, _, script = newest(home)
    assert "\nimport os" not in script


def test_what_a_job_shows_has_zeppelins_own_types(run):
    cell = (
        "import pandas as pd\nimport matplotlib.pyplot as plt\n"
        "from IPython.display import HTML, clear_output\n"
        "print('gone')\nclear_output(wait=True)\n"
        "print('text')\n"
        "display(pd.DataFrame({'a': [1, 2], 'b': ['x', '%html <i>y</i>']}))\n"
        "display(HTML('<b>bold</b>'))\n"
        "plt.plot([1, 2])\nplt.show()\n"
        "handle = display(HTML('first'), display_id=True)\nhandle.update(HTML('second'))\n"
    )
    plain, job = run(
        Paragraph("plain", cell, properties={"part": "false"}),
        Paragraph("job", f"--gpus 0\n{cell}", "run"),
    )
    assert [message.type for message in plain] == ["TEXT", "TABLE", "HTML", "IMG", "HTML"]
    card, *shown = job
    assert card.type == "HTML"
    assert shown == plain
    assert shown[1].data == "a\tb\n1\tx\n2\t %html <i>y</i>\n"


def test_a_known_result_is_given_to_its_user_alone(run, home):
    clean(run)
    code = "import os\nluck = os.urandom(4).hex()\nprint('luck', luck)"

    def asked(user, properties):
        given = {"gpus": "0", "name": "known", **properties}
        told, luck = run(
            Paragraph("known", code, "run", user=user, properties=given),
            Paragraph("use", "print(luck)", user=user, properties={"part": "false"}),
        )
        return text(told), text(luck).strip()

    first, luck = asked("ada", {"cache": "true"})
    again, same = asked("ada", {"cache": "true"})
    assert luck == same
    assert f"luck {luck}" in again
    assert "the result is from " not in first
    said = [message.data for message in run(Paragraph("list", "cache list", "submarine"))[0]]
    assert "known" in "".join(said)
    other, different = asked("bob", {"cache": "true"})
    assert different != luck
    assert luck not in other
    assert asked("ada", {"cache": "true", "refresh": "true"})[1] != luck
