"""Pages at a JupyterHub in a real browser, of who has logged in by its form.

JupyterHub wants its XSRF token with whatever a page asks for by a script, which a page that is not
of JupyterLab does not know.
"""

from __future__ import annotations

import json
import re

import pytest
from lab_driver import LIMIT

from tests.browser.panels import Panel
from tests.browser.test_lab_port import SERVES
from tests.hub.hub_site import LEAVES, LabThere, job_of
from tests.jobs import until

pytestmark = pytest.mark.long


@pytest.fixture
def page(browser, hub, alice):
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    page.goto(f"{hub.url}/hub/login")
    page.fill("#username_input", alice.name)
    page.fill("#password_input", hub.password)
    page.click("#login_submit")
    page.wait_for_url(f"{hub.url}{alice.base}lab*")
    yield page
    context.close()


def test_the_panel_shows_jobs_below_the_prefix(page, alice, alices):
    alices.run(LEAVES)
    job = job_of(alice, "leaves")
    panel = Panel(LabThere(alice), page).open()
    panel.row(job, "succeeded")
    panel.wait_for_free("2/2")
    assert panel.errors == []


def test_tensorboard_draws_what_a_job_has_written(page, hub, alice, alices):
    alices.run(LEAVES)
    page.goto(f"{hub.url}{alice.base}submarine/jobs/{job_of(alice, 'leaves')}/tensorboard/")
    page.locator("line-chart").first.wait_for()
    page.get_by_text("loss").first.wait_for()


def test_a_port_s_page_asks_for_its_own_data_and_gets_nothing_of_jupyter_s(
    page, hub, alice, alices
):
    alices.run(f"%%submarine --name page --detach\n{SERVES}")
    job = job_of(alice, "page")
    log = f"submarine/api/jobs/{job}/logs/worker-0/stdout"
    port = until(lambda: re.search(r"\d+", alice.get(log).text))[0]
    page.goto(f"{hub.url}{alice.base}submarine/proxy/{job}/{port}/")
    page.wait_for_selector("output")
    found = json.loads(page.inner_text("output"))
    assert (found["own"], found["put"], found["socket"]) == ("known: yes", '"put"', "socket")
    assert found["origin"] == "null"
    for secret in ("cookie", "jupyter", "jobs"):
        assert found[secret] == "refused"
    alice.ask("POST", f"{alice.base}submarine/api/jobs/{job}/kill")
