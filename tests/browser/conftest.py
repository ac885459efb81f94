"""One real JupyterLab and one real Chromium for all tests of a process."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from lab_driver import FLAGS, LIMIT, Lab, Notebook, find_chromium
from playwright.sync_api import Error, sync_playwright

from tests.browser.panels import Jobs, Panel, errors_of


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add to a failure what the page showed."""
    report = yield
    page = item.funcargs.get("page") if call.when == "call" else None
    if report.failed and page is not None:
        picture = item.funcargs["tmp_path"] / "page.png"
        page.screenshot(path=picture)
        report.sections.append((f"page, see {picture}", page.locator("body").inner_text()))
    return report


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()


@pytest.fixture(scope="session")
def bare_lab(tmp_path_factory):
    """Start a JupyterLab without our extension in the page: cards are widgets there."""
    lab = Lab(tmp_path_factory.mktemp("bare"), ours=False)
    yield lab
    lab.stop()


@pytest.fixture(scope="module")  # its event loop runs on in this thread: no other test may find it
def playwright():
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playwright):
    """Return a browser for tests that need more than one user of it."""
    browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def profile(tmp_path_factory):
    """Give the folder of a user's browser, which keeps what it has compiled of JupyterLab's page.

    A page is there in little more than half of the time then.
    """
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def user(playwright, profile):
    """Return that user's browser."""
    user = playwright.chromium.launch_persistent_context(
        profile, executable_path=find_chromium(), args=FLAGS,
        viewport={"width": 1000, "height": 900},
    )  # fmt: skip
    user.set_default_timeout(LIMIT)  # of pages that others open, too
    yield user
    user.close()


@pytest.fixture
def page(user):
    """Give a page; what it and those that it has opened leave in the browser is gone afterwards."""
    there = user.pages
    page = user.new_page()
    page.set_default_timeout(LIMIT)
    yield page
    for one in user.pages:
        if one not in there:
            with suppress(Error):  # a page without an address has no storage
                one.evaluate("() => localStorage.clear()")
            one.close()
    user.clear_cookies()


@pytest.fixture
def notebook(lab, page, request):
    """Return a function that makes a notebook of cells and opens it."""
    name = re.sub(r"\W+", "-", request.node.name)
    yield lambda *sources: Notebook(lab, page, name, list(sources))
    lab.tidy()


@pytest.fixture
def jobs(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")  # as the lab's server has it
    monkeypatch.setenv("SUBMARINE_GRACE", "120")
    jobs = Jobs(lab, tmp_path / "jobs")
    yield jobs
    jobs.end()


@pytest.fixture
def panel(lab, page):
    panel = Panel(lab, page)
    yield panel.open()
    assert panel.errors == []


@pytest.fixture
def errors(page):
    """Return the errors of the page's scripts, as they come."""
    return errors_of(page)


@pytest.fixture
def gate(lab, request):
    """Return the file that a cell of the test waits for."""
    return lab.work / re.sub(r"\W+", "-", f"gate-{request.node.name}")
