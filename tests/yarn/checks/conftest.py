"""A stand-in for a ResourceManager that answers with what real ones have answered.

The documents are of Hadoop 3.4.1, recorded over HTTP, without the fields that nobody reads:
``held-back`` (applications wait for their masters; a stopped queue, one with an access list, node
labels), ``busy`` (all GPUs held), ``fair`` and ``fifo`` (the other schedulers), ``without-gpus``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from submarine_engine.clusters.yarn.hadoop import HadoopConf, load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager

DOCUMENTS = Path(__file__).with_name("documents")
ROOT = "/ws/v1/cluster"
REFUSED = {"RemoteException": {"exception": "ForbiddenException", "message": "no, says the RM"}}


class RecordedManager:
    """Answers by path: a document, bytes as they are, or a status and a document.

    A function in place of an answer is called before it, and gives it.
    """

    def __init__(self, documents: dict[str, object], conf: Path) -> None:
        self.documents = documents
        self.late = 0  # seconds that its clock is behind
        self.folder = conf
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.configure()
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def configure(self, **more: str) -> HadoopConf:
        """Write a configuration that names this manager; ``__`` in a name stands for a dot."""
        known = {
            "yarn.resourcemanager.webapp.address": self.address,
            "fs.defaultFS": "viewfs://local",
            **{key.replace("__", ".").replace("_", "-"): value for key, value in more.items()},
        }
        properties = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in known.items()
        )
        self.folder.mkdir(exist_ok=True)
        (self.folder / "yarn-site.xml").write_text(f"<configuration>{properties}</configuration>")
        return self.conf

    @property
    def conf(self) -> HadoopConf:
        return load_hadoop({"HADOOP_CONF_DIR": str(self.folder)})

    @property
    def rm(self) -> ResourceManager:
        return ResourceManager(self.conf)

    def nodes(self) -> list[dict]:
        return self.documents[f"{ROOT}/nodes"]["nodes"]["node"]

    def queue(self, name: str) -> dict:
        def find(info):
            if info["queueName"] == name:
                return info
            below = info.get("queues", {}).get("queue", [])
            return next(filter(None, map(find, below)), None)

        return find(self.documents[f"{ROOT}/scheduler"]["scheduler"]["schedulerInfo"])

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, bytes]:
        found = self.documents.get(path, self._application(path))
        if callable(found):
            found = found(query)
        status = 200
        if isinstance(found, tuple):
            status, found = found
        if found is None:
            status, found = 404, REFUSED
        return status, found if isinstance(found, bytes) else json.dumps(found).encode()

    def _application(self, path: str) -> object:
        if not path.startswith(f"{ROOT}/apps/") or path.count("/") != 5:
            return None
        found = self.documents[f"{ROOT}/apps"]["apps"]["app"]
        return next(({"app": app} for app in found if path.endswith(app["id"])), None)


def _handler(manager: RecordedManager) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            path = parts.path if parts.path in manager.documents else unquote(parts.path)
            status, body = manager.answer(path, parse_qs(parts.query))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp=None):
            return super().date_time_string((timestamp or time.time()) - manager.late)

        def log_message(self, *args):
            pass

    return Handler


@pytest.fixture
def recorded(tmp_path) -> Iterator[Callable[[str], RecordedManager]]:
    """Give managers by the name of a recording; their documents may be changed."""
    started: list[RecordedManager] = []

    def start(name: str) -> RecordedManager:
        documents = json.loads((DOCUMENTS / f"{name}.json").read_text())
        started.append(RecordedManager(documents, tmp_path / f"{name}-{len(started)}"))
        return started[-1]

    yield start
    for manager in started:
        manager.server.shutdown()
        manager.server.server_close()


@pytest.fixture
def submitted(on_yarn):
    """Give a function that submits an application whose one container holds GPUs; all end here."""
    import skein

    with skein.Client() as client:
        started: list[str] = []

        def submit(*, queue: str, gpus: int, tags: set[str]) -> str:
            small = {"memory": 256, "vcores": 1}
            service = skein.Service(
                instances=1, resources=skein.Resources(gpus=gpus, **small), script="sleep 600"
            )
            spec = skein.ApplicationSpec(
                name="holds-gpus",
                queue=queue,
                tags=tags,
                master=skein.Master(resources=skein.Resources(**small)),
                services={"holder": service},
            )
            started.append(client.submit(spec))
            return started[-1]

        yield submit
        for app_id in started:
            client.kill_application(app_id)
        rm = ResourceManager(load_hadoop())
        until(lambda: all(rm.application(one)["state"] == "KILLED" for one in started))


@pytest.fixture(name="until")
def _until() -> Callable[..., object]:
    return until


def until(condition: Callable[[], object], limit: float = 120.0) -> object:
    """Wait until a condition holds, and return what it gave."""
    end = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)
    return found
