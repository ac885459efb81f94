"""Named servers, and users whose names are escaped in addresses: pages, ports, TensorBoard."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin

import pytest
from lab_driver import LIMIT

from tests.browser.panels import Panel
from tests.hub.hub_site import LEAVES, LabThere, job_of
from tests.hub.test_hub import REFUSED, SERVES
from tests.jobs import until

pytestmark = pytest.mark.long

NAMES = {"a named server": ("alice", "gpu"), "an odd name": ("a.b-c_d@x.org", "")}


@pytest.fixture(scope="module")
def users(place):
    return {name: place.user(name).name for name in ("alice", "a.b-c_d@x.org", "bob")}


@pytest.fixture(scope="module")
def stranger(hub, users):
    return hub.person(users["bob"])


@pytest.fixture(scope="module", params=NAMES.values(), ids=NAMES)
def person(request, hub, users):
    name, server = request.param
    person = hub.person(users[name], server)
    yield person
    person.stop()


@pytest.fixture(scope="module")
def kernel(person):
    kernel = person.notebook()
    kernel.run("%load_ext submarine_magics")
    yield kernel
    kernel.close()


def test_links_of_its_pages_lead_below_the_servers_own_address(person, stranger, kernel):
    kernel.run(LEAVES)
    job = job_of(person, "leaves")
    (shown,) = [one for one in kernel.run("%submarine tensorboard leaves") if "text/html" in one]
    frame = unescape(re.search(r'<iframe src="([^"]+)"', shown["text/html"])[1])
    assert frame.startswith(f"{person.base}submarine/tensorboards/")
    assert "<title>TensorBoard" in person.ask("GET", frame).text
    assert stranger.ask("GET", frame).status_code == REFUSED
    page = person.get(f"submarine/jobs/{job}")
    links = {
        urljoin(f"{person.base}submarine/jobs/{job}", unescape(link))
        for link in re.findall(r'(?:href|src)="([^"#]+)"', page.text)
        if not link.startswith("data:")
    }
    assert any(link.endswith("/output/worker-0/file") for link in links)
    for link in links:
        assert link.startswith(f"{person.base}submarine/"), link
        assert person.ask("GET", link).ok, link
        assert stranger.ask("GET", link).status_code == REFUSED, link


def test_a_port_of_a_job_is_there_and_its_users_alone(person, stranger, kernel):
    kernel.run(SERVES)
    job = job_of(person, "serves")
    log = f"submarine/api/jobs/{job}/logs/worker-0/stdout"
    port = until(lambda: re.search(r"port (\d+)", person.get(log).text))[1]
    place = f"{person.base}submarine/proxy/{job}/{port}/"
    assert person.ask("GET", place).text == place.rstrip("/")
    assert stranger.ask("GET", place).status_code == REFUSED
    person.ask("POST", f"{person.base}submarine/api/jobs/{job}/kill")


def test_the_panel_and_tensorboard_are_seen_there(browser, hub, person, kernel):
    kernel.run(LEAVES)
    job = job_of(person, "leaves")
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    page.goto(f"{hub.url}/hub/login?next={person.base}lab")
    page.fill("#username_input", person.name)
    page.fill("#password_input", hub.password)
    page.click("#login_submit")
    page.wait_for_url(f"{hub.url}{person.base}lab*")
    panel = Panel(LabThere(person), page).open()
    panel.row(job, "succeeded")
    panel.wait_for_free("2/2")
    assert panel.errors == []
    page.goto(f"{hub.url}{person.base}submarine/jobs/{job}/tensorboard/")
    page.locator("line-chart").first.wait_for()
    # A port's page is led to an address with its key, below the same prefix.
    kernel.run(SERVES)
    job = job_of(person, "serves")
    log = f"submarine/api/jobs/{job}/logs/worker-0/stdout"
    port = until(lambda: re.search(r"port (\d+)", person.get(log).text))[1]
    place = f"{person.base}submarine/proxy/{job}/{port}/"
    shown = page.goto(hub.url + place)
    assert re.fullmatch(re.escape(place) + "~[0-9a-f]{64}", shown.text())
    person.ask("POST", f"{person.base}submarine/api/jobs/{job}/kill")
    context.close()
