"""``widget.js`` by itself in a real browser, fed with trees by a model as anywidget brings it."""

from __future__ import annotations

import base64
import json

import pytest
from lab_driver import LIMIT
from submarine_engine.amounts import clock
from submarine_engine.bundle import Bundle, Manifest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.events import Moment
from submarine_engine.future import Job
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.lifecycle import JobStatus
from submarine_magics.card import read_record, view
from submarine_magics.card.tree import card_tree, module, script_tree, to_html

SOURCE = module("widget.js")
# The contract of an anywidget model: get, on, off, send.
FAKE_MODEL = """([source, state]) => import(source).then((card) => {
    const listeners = {};
    window.sent = [];
    window.model = {
        get: (name) => state[name],
        on: (name, listener) => (listeners[name] ??= new Set()).add(listener),
        off: (name, listener) => listeners[name]?.delete(listener),
        send: (content) => window.sent.push(content),
        set: (changes) => {
            Object.assign(state, changes);
            for (const name of Object.keys(changes))
                for (const listener of listeners[`change:${name}`] ?? []) listener();
        },
        count: () => Object.values(listeners).reduce((sum, each) => sum + each.size, 0),
    };
    window.clock = card.clock;
    window.end = card.default.render({ model: window.model, el: document.body });
})"""
HOSTILE = [
    "div", {"class": "submarine-card jp-Dialog", "onclick": "hacked()", "style": "position:fixed"},
    [
        ["script", {}, ["window.hacked = true"]],
        ["iframe", {"src": "javascript:parent.hacked = true"}, []],
        ["a", {"href": "javascript:window.hacked = true", "onfocus": "x"}, ["link"]],
        ["span", {"innerHTML": "<b>x</b>"}, ["<img src=x onerror='window.hacked = true'>"]],
    ],
]  # fmt: skip


@pytest.fixture
def page(browser):
    """Give a page whose clock is its own: all pages of one user have the same."""
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    yield page
    context.close()


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Run a real job, whose record the trees are made of."""
    root = tmp_path_factory.mktemp("job")
    cluster = LocalCluster(root / "home")
    bundle = Bundle(
        files={"script.py": b"print('</script><script>x</script>')\n"},
        manifest=Manifest(entry="script.py", python="3"),
    )
    spec = JobSpec(name="live", roles=(Role(resources=Resources(gpus=0)),))
    job = Job(cluster, cluster.submit(spec, bundle, workdir=root))
    assert job.wait(180).state is JobState.SUCCEEDED
    return job


@pytest.fixture
def card(job):
    """Return the job's card as it was `seconds` after its submission."""
    status = job.status()
    running = JobStatus(state=JobState.RUNNING, submitted=status.submitted)

    def card(seconds=5.0, state=running):
        begin = status.submitted
        return view(read_record(job), state, Moment(begin.wall + seconds, begin.mono + seconds))

    return card


@pytest.fixture
def render(page):
    """Return a function that renders a tree in an empty page."""

    def render(tree, **state):
        module = "data:text/javascript;base64," + base64.b64encode(SOURCE.encode()).decode()
        defaults = {"rest": [], "at": 0, "blocking": False, "kernel": "", "cancel": ""}
        page.goto("about:blank")
        page.evaluate(FAKE_MODEL, [module, {**defaults, "tree": tree, **state}])

    return render


def test_no_part_of_a_tree_becomes_markup_or_code(render, page):
    render(HOSTILE)
    assert page.locator("script, iframe, img, b").count() == 0
    assert page.locator(".submarine-card").get_attribute("onclick") is None
    assert page.locator(".submarine-card").get_attribute("style") is None
    assert page.locator(".submarine-card").get_attribute("class") == "submarine-card"
    assert page.locator("a").get_attribute("href") is None
    assert "<img src=x onerror=" in page.locator("body").text_content()
    assert page.evaluate("window.hacked") is None


def test_hostile_changes_are_refused_too(render, page):
    render(["div", {}, [["a", {"href": "https://example.org"}, ["link"]], "", "", ""]])
    assert page.locator("a").get_attribute("href") == "https://example.org"
    page.evaluate("tree => model.set({ tree, at: 1 })", HOSTILE)
    assert page.locator("script, iframe, img, b").count() == 0
    assert "javascript" not in (page.locator("a").get_attribute("href") or "")


def test_what_the_reader_opened_stays_open(render, page, card):
    script = script_tree(card().script, "").to_json()
    render(card_tree(card(), live=True).to_json(), rest=[script])
    page.click("details.smc-script summary")
    page.locator("[data-action=cancel]").focus()
    after = card_tree(card(seconds=9), live=True).to_json()
    page.evaluate("tree => model.set({ tree, at: 1 })", after)
    assert page.locator("details.smc-script").get_attribute("open") is not None
    assert "</script><script>x</script>" in page.locator("pre").text_content()
    assert page.evaluate("document.activeElement.dataset.action") == "cancel"


def test_a_change_gives_what_rendering_anew_gives(render, page, card, job):
    body = "() => document.body.innerHTML"
    trees = [
        card_tree(each, live=True).to_json()
        for each in (card(), card(state=job.status()), card(seconds=80), card(state=job.status()))
    ]
    render(trees[0])
    for tree in trees[1:]:
        page.evaluate("tree => model.set({ tree, at: Date.now() / 1000 })", tree)
    changed = page.evaluate(body)
    render(trees[-1])
    assert changed == page.evaluate(body)


def test_time_goes_on_by_itself(render, page, card):
    page.clock.install(time=1_000_000)
    page.clock.pause_at(1_000_100)
    render(card_tree(card(seconds=58), live=True).to_json(), at=1_000_100)
    assert page.locator(".smc-elapsed").text_content() == "58 s"
    page.clock.run_for(3000)
    assert page.locator(".smc-elapsed").text_content() == "1 min 01 s"


def test_a_kernel_whose_clock_is_wrong_does_no_harm(render, page, card):
    page.clock.install(time=1_000_000)
    page.clock.pause_at(1_000_100)
    tree = card_tree(card(seconds=58), live=True).to_json()
    render(tree, at=1_000_100)
    page.evaluate("tree => model.set({ tree, at: 900_000 })", tree)
    page.clock.run_for(2000)
    assert page.locator(".smc-elapsed").text_content() == "1 min 00 s"


def test_python_and_javascript_tell_time_alike(render, page):
    render(["div", {}, []])
    seconds = [0, 0.99, 1, 59.9, 60, 61, 3599, 3600, 7384, 86_399, 86_400, 1e6]
    assert page.evaluate("seconds => seconds.map(clock)", seconds) == [clock(s) for s in seconds]


def test_the_button_says_at_once_that_it_was_heard(render, page, card):
    render(card_tree(card(), live=True).to_json(), heard=True)
    page.click("button")
    assert page.locator("button").text_content() == "Cancelling…"
    assert page.locator("button").is_disabled()
    assert page.evaluate("sent") == [{"cancel": True}]


def test_where_nothing_can_interrupt_the_button_says_what_to_do(render, page, card):
    render(card_tree(card(), live=True).to_json(), heard=False, blocking=True)
    page.click("button")
    page.wait_for_selector("button:has-text('press the stop button of the cell')")
    assert page.locator("button").is_enabled()


def test_a_closed_view_listens_no_more(render, page, card):
    render(card_tree(card(), live=True).to_json())
    assert page.evaluate("model.count()") > 0
    page.evaluate("end()")
    assert page.evaluate("model.count()") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 900])
def test_the_static_card_fits_and_can_be_read(page, card, job, scheme, width):
    page.set_viewport_size({"width": width, "height": 700})
    page.emulate_media(color_scheme=scheme)
    ground = "#111" if scheme == "dark" else "#fff"
    html = to_html(card(state=job.status()))
    page.set_content(f"<!doctype html><meta charset=utf-8><body style='background:{ground}'>{html}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    poor = page.evaluate(CONTRAST)
    assert json.dumps(poor) == "[]"


# WCAG 2's contrast of every piece of text with the card's ground: at least 4.5.
CONTRAST = """() => {
    const card = document.querySelector(".submarine-card");
    const light = (colour) => {
        const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
            const value = part / 255;
            return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const ground = light(getComputedStyle(card).backgroundColor);
    return [...card.querySelectorAll("*")].filter((node) => {
        const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
        const text = light(getComputedStyle(node).color);
        const ratio = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
        return own && ratio < 4.5;
    }).map((node) => [node.className, node.textContent]);
}"""
