"""What people see: a real server's paragraphs in a real browser, while a job runs and after."""

from __future__ import annotations

import re
import urllib.request

import pytest
from lab_driver import LIMIT, chromium
from playwright.sync_api import expect

from tests.jobs import until
from tests.zeppelin.rest import outputs, text

WAITING_JOB = """\
%submarine.run --gpus 1 --name seen
import os, time
print("the first line", flush=True)
while not os.path.exists({file!r}):
    time.sleep(0.02)
print("the last line")
"""
# What would run, were it markup: in the log, in an error, and where a print chooses its form.
HOSTILE = """\
%submarine.run --gpus 0 --name hostile
print("<script>window.hacked = 1</script>")
print("<img src=x onerror='window.hacked = 2'>")
print("%html <img src=x onerror='window.hacked = 3'>")
raise ValueError("<img src=x onerror='window.hacked = 4'>")
"""


@pytest.fixture(scope="module")  # its event loop runs on in this thread: no other test may find it
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(browser, zeppelin, note):
    """Return a function that opens the test's note in a fresh browser window."""
    contexts = []

    def opened(**options):
        contexts.append(browser.new_context(viewport={"width": 1000, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(LIMIT)
        page.goto(f"{zeppelin.url}/?note={note.id}")
        page.wait_for_selector("body[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def opened_new(browser, zeppelin, note):
    """Open the test's note in Zeppelin's new page, in a fresh browser window.

    ``ZEPPELIN_NEXT_PAGE`` may name the folder of Zeppelin's own, as its build has left it.
    """
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    page.goto(f"{zeppelin.url}/next/#/notebook/{note.id}")
    page.wait_for_selector("zeppelin-notebook-paragraph")
    yield page
    context.close()


def paragraph(page, note, number):
    return page.locator(f"[id='{note.ids[number]}']")


def until_there(page, condition):
    """Wait until a page shows something; where RUNNING came late, it was shown what was before."""

    def is_there():
        if condition():
            return True
        page.reload()
        page.wait_for_selector("body[data-ready]")
        page.wait_for_timeout(500)
        return False

    until(is_there)


def test_a_log_grows_in_the_paragraph_below_its_card(note, opened, tmp_path):
    number = note.add(WAITING_JOB.format(file=str(tmp_path / "go")))
    page = opened()
    shown = paragraph(page, note, number)
    note.start(number)
    expect(shown).to_contain_text("the first line", timeout=LIMIT)
    expect(shown.locator(".status")).to_have_text("RUNNING", timeout=LIMIT)
    until_there(page, lambda: shown.locator(".submarine-card[data-state=running]").count() == 1)
    assert "the last line" not in shown.locator(".outputs").inner_text()
    link = shown.locator(".links a").first
    expect(link).to_be_visible(timeout=LIMIT)
    with urllib.request.urlopen(link.get_attribute("href")) as answer:  # noqa: S310 - loopback
        assert answer.status == 200
    (tmp_path / "go").touch()
    expect(shown.locator(".status")).to_have_text("FINISHED", timeout=LIMIT)
    expect(shown.locator(".submarine-card")).to_have_attribute(
        "data-state", "succeeded", timeout=LIMIT
    )
    expect(shown).to_contain_text("the last line", timeout=LIMIT)
    assert shown.locator(".outputs").inner_text().count("the first line") == 1
    # Who opens the note later sees the same.
    later = paragraph(opened(), note, number)
    assert later.locator(".outputs").inner_text() == shown.locator(".outputs").inner_text()


@pytest.mark.long
def test_who_waits_for_a_job_says_so_and_a_command_does_not_wait(note, opened, tmp_path):
    job = note.add(WAITING_JOB.format(file=str(tmp_path / "go")))
    after, command = note.add("%submarine.python\n40 + 2"), note.add("%submarine job list")
    page = opened()
    note.start(job)
    expect(paragraph(page, note, job)).to_contain_text("the first line", timeout=LIMIT)
    note.start(after)
    waits = paragraph(page, note, after).locator(".outputs")
    expect(waits).to_contain_text("comes home first", timeout=LIMIT)
    note.start(command)
    expect(paragraph(page, note, command).locator(".status")).to_have_text(
        "FINISHED", timeout=LIMIT
    )
    expect(paragraph(page, note, command).locator("table.data")).to_contain_text("seen")
    until_there(page, lambda: paragraph(page, note, job).locator(".links a").count() == 1)
    (tmp_path / "go").touch()
    expect(waits).to_have_text("42", timeout=LIMIT)


def test_hostile_text_stays_text(note, opened):
    number = note.add(HOSTILE, "<img src=x onerror='window.hacked = 5'>")
    page = opened()
    note.run(number)
    shown = paragraph(page, note, number)
    expect(shown.locator(".status")).to_have_text("ERROR", timeout=LIMIT)
    for hostile in ("<script>window.hacked = 1</script>", "onerror='window.hacked = 4'>"):
        expect(shown.locator(".outputs")).to_contain_text(hostile, timeout=LIMIT)
    for window in (page, opened()):
        window.wait_for_timeout(300)
        assert window.evaluate("window.hacked") is None
        assert window.locator(".outputs img").count() == 0
    # Zeppelin runs MathJax over markup, which makes links of `\href`: not over ours.
    assert "tex2jax_ignore" in (shown.locator(".submarine-card").get_attribute("class") or "")


@pytest.mark.long
def test_a_card_is_light_on_zeppelins_white_page_under_a_dark_system(note, opened):
    number = note.add("%submarine.run --gpus 0 --name light\n1")
    page = opened(color_scheme="dark")
    note.run(number)
    card = paragraph(page, note, number).locator(".submarine-card")
    expect(card).to_have_attribute("data-state", "succeeded", timeout=LIMIT)
    expect(card).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(card).to_have_css("color", "rgb(31, 35, 40)")
    # What folds says so by its marker, which Zeppelin's own style takes from others.
    expect(card.locator("summary").first).to_have_css("display", "list-item")


# Each display twice, plain and in a job; the picture is one that the inline backend draws.
SHOWS = """
import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import HTML, clear_output, display, update_display
print("gone")
clear_output(wait=True)
print("before")
display(pd.DataFrame({"epoch": [1, 2], "loss": [0.5, 0.25]}))
display(HTML("<b>in bold</b>"))
plt.plot([1, 2])
plt.show()
display("old state", display_id="{0}")
update_display("new state", display_id="{0}")
print("after")
"""


@pytest.mark.long
def test_what_a_job_displays_has_the_forms_of_zeppelin(note, opened):
    plain = note.write("%submarine.python\n" + SHOWS.replace("{0}", "plain"))
    job = note.add("%submarine.run --gpus 0 --name shows\n" + SHOWS.replace("{0}", "job"))
    page = opened()
    ran = note.run(job)
    shown = paragraph(page, note, job)
    expect(shown.locator(".status")).to_have_text("FINISHED", timeout=LIMIT)
    found = [one for one in outputs(ran) if "submarine-card" not in one[1]]
    assert found == outputs(plain)
    kinds = [kind for kind, _ in found]
    assert kinds == ["TEXT", "TABLE", "HTML", "IMG", "TEXT", "TEXT"], found
    expect(shown.locator("table.data")).to_contain_text("0.25", timeout=LIMIT)
    expect(shown.locator(".outputs b", has_text="in bold")).to_be_visible(timeout=LIMIT)
    drawn = "image => image.complete && image.naturalWidth > 100"
    until(lambda: shown.locator("[data-type=IMG] img").evaluate(drawn))  # it is decoded beside
    assert text(ran) == "before\n'new state'\nafter\n"


@pytest.mark.long
def test_a_table_and_a_picture(note, opened):
    made = note.write(
        "%submarine.python\n"
        "import pandas as pd\n"
        "pd.DataFrame({'epoch': [1, 2], 'loss': [0.5, 0.25]})"
    )
    assert "TABLE" in [kind for kind, _ in outputs(made)], text(made)
    page = opened()
    cells = page.locator("table.data td")
    count = 6 if "index" in page.inner_text("table.data") else 4
    expect(cells).to_have_count(count, timeout=LIMIT)
    assert "0.25" in page.inner_text("table.data")


@pytest.mark.long
def test_the_new_page_leads_to_the_log_and_shows_the_result_without_a_reload(
    note, request, tmp_path
):
    number = note.add(WAITING_JOB.format(file=str(tmp_path / "go")))
    page = request.getfixturevalue("opened_new")
    shown, link = page.locator("zeppelin-notebook-paragraph").first, page.locator(".job-link a")
    results = shown.locator("zeppelin-notebook-paragraph-result")
    for run in range(9):
        (tmp_path / "go").unlink(missing_ok=True)
        note.start(number)
        note.wait(number, lambda found: "the first line" in text(found))
        expect(shown.locator(".status").first).to_have_text("RUNNING", timeout=LIMIT)
        # What grows is behind the link: the page has no message that tells of it.
        expect(link).to_have_text(re.compile("Log"), timeout=LIMIT)
        with urllib.request.urlopen(link.get_attribute("href")) as answer:  # noqa: S310 - loopback
            assert answer.status == 200
        # No half of this run stands above what is left of the one before.
        states = results.locator(".submarine-card[data-state=running]")
        is_late = states.count()  # RUNNING was told after what was saved, by Zeppelin
        (tmp_path / "go").touch()
        expect(shown.locator(".status").first).to_have_text("FINISHED", timeout=LIMIT)
        expect(results.nth(1)).to_contain_text("the last line", timeout=LIMIT)
        card = results.first.locator(".submarine-card")
        expect(card).to_have_attribute("data-state", "succeeded", timeout=LIMIT)
        if run and not is_late:
            break
    else:
        pytest.fail("half of a run stood above what is left of the one before, each time")


@pytest.mark.long
def test_the_new_page_shows_what_each_kind_of_paragraph_has_shown(note, request):
    texts = {
        "%submarine.python\n40 + 2": "42",
        "%submarine.python\nimport pandas as pd\npd.DataFrame({'loss': [0.25]})": "0.25",
        "%submarine.sh\necho said by sh": "said by sh",
        "%submarine\ngpus": "GPU",
        "%submarine.python\nraise ValueError('it is wrong')": "it is wrong",
    }
    numbers = [note.add(words) for words in texts]
    page = request.getfixturevalue("opened_new")
    for number, said in zip(numbers, texts.values(), strict=True):
        note.run(number)
        shown = page.locator("zeppelin-notebook-paragraph").nth(number)
        expect(shown.locator("zeppelin-notebook-paragraph-result").first).to_contain_text(
            said, timeout=LIMIT
        )
