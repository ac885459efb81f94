"""One real JupyterLab and one real Chromium for all tests of a process."""

from __future__ import annotations

import re

import pytest
from lab_driver import LIMIT, Lab, Notebook, chromium

from tests.browser.panels import Jobs, Panel


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
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    yield page
    context.close()


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
    """Collect the errors of the page's scripts."""
    found = []
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


@pytest.fixture
def gate(lab, request):
    """Return the file that a cell of the test waits for."""
    return lab.work / re.sub(r"\W+", "-", f"gate-{request.node.name}")
