"""A page that a job serves, in a real browser: its own port answers it, and Jupyter does not."""

from __future__ import annotations

import json

from submarine_engine.clusters.local import LocalCluster
from submarine_engine.history import JobPaths

from tests.browser.panels import Panel
from tests.jobs import LIMIT, bundle_of, spec_of, until

SERVES = """
import asyncio
from tornado import web, websocket

PAGE = '<title>own</title><script type="module" src="static/more.js"></script>'
MORE = '''
const or = (ask) => Promise.resolve().then(ask).catch(() => "refused");
const said = new Promise((told, failed) => {
  const socket = new WebSocket(new URL("echo", location.href.replace(/^http/, "ws")));
  socket.onopen = () => socket.send("socket");
  socket.onmessage = (event) => told(event.data);
  socket.onerror = failed;
});
const send = { method: "PUT", headers: { "Content-Type": "application/json" }, body: '"put"' };
const take = (asked) => or(async () => (await (await asked).text()).slice(0, 40));
const found = {
  origin: window.origin,
  own: await take(fetch("data")),
  put: await take(fetch("data", send)),
  socket: await or(() => said),
  cookie: await or(() => document.cookie),
  jupyter: await take(fetch("/api/status", { credentials: "include" })),
  jobs: await take(fetch("/submarine/api/jobs", { credentials: "include" })),
};
const shown = document.createElement("output");
shown.textContent = JSON.stringify(found);
document.body.append(shown);
'''

class Page(web.RequestHandler):
    def get(self):
        self.set_header("Set-Cookie", "known=yes; HttpOnly")
        self.write(PAGE)

class More(web.RequestHandler):
    def get(self):
        self.set_header("Content-Type", "text/javascript")
        self.write(MORE)

class Data(web.RequestHandler):
    def get(self):
        self.write("known: " + str(self.get_cookie("known")))
    def put(self):
        self.write(self.request.body)

class Echo(websocket.WebSocketHandler):
    def on_message(self, message):
        self.write_message(message)

async def main():
    app = web.Application(
        [("/", Page), ("/static/more.js", More), ("/data", Data), ("/echo", Echo)]
    )
    server = app.listen(0, "127.0.0.1")
    print(next(iter(server._sockets.values())).getsockname()[1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_page_of_a_job_works_and_is_a_stranger_to_jupyter(lab, page, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")  # as the lab's server has it
    monkeypatch.setenv("SUBMARINE_GRACE", "120")
    cluster = LocalCluster(lab.home)
    job = cluster.submit(spec_of(name="serves"), bundle_of(SERVES), workdir=tmp_path)
    try:
        log = JobPaths(lab.home, job).task("worker-0").stdout
        port = until(lambda: log.exists() and log.read_text().strip())
        panel = Panel(lab, page).open()
        panel.row(job, "running").click()
        panel.button("open-port").click()
        page.locator(".jp-Dialog input").fill("web")
        page.keyboard.press("Enter")
        page.get_by_text("web is no port").first.wait_for()
        panel.button("open-port").click()
        page.locator(".jp-Dialog input").fill(port)
        with page.context.expect_page() as opened:
            page.keyboard.press("Enter")
        served = opened.value
        served.set_default_timeout(LIMIT * 1000)
        found = json.loads(served.locator("output").text_content())
        assert found == {
            "origin": "null",
            "own": "known: yes",
            "put": '"put"',
            "socket": "socket",
            "cookie": "refused",
            "jupyter": "refused",
            "jobs": "refused",
        }
        assert "known" not in {cookie["name"] for cookie in page.context.cookies()}
    finally:
        cluster.kill(job)
        until(lambda: cluster.status(job).state.final)
    served.reload()
    served.get_by_text("the job is over (cancelled)").wait_for()
    assert panel.errors == []
