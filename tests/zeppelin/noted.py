"""A kernel of a Zeppelin session, real, driven by what the interpreter would send."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from submarine_engine.bundle.model import Manifest
from submarine_engine.history import JobPaths, job_ids, read_json
from submarine_zeppelin.commands import metadata, translate
from submarine_zeppelin.outputs import Outputs

from tests.kernels import Driven


@dataclass
class Paragraph:
    id: str
    text: str
    interpreter: str = "python"
    title: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    note_id: str = "2ABC"
    note_name: str = "lab/Digits"
    user: str = "anonymous"


class Nobody:
    def append(self, index, text):
        pass

    def update(self, index, type, data):  # noqa: A002 - as in Sink
        pass

    def update_all(self, messages):
        pass


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("zeppelin")


@pytest.fixture(scope="module")
def kernel(home):
    environment = {"IPYTHONDIR": str(home / "ipython"), "SUBMARINE_CELL_OUTPUT_LIMIT": "100000"}
    kernel = Driven(str(home), "ipykernel_launcher", environment)
    ran = kernel.run("%load_ext submarine_zeppelin.kernelside")
    assert ran.reply["status"] == "ok", ran.text
    yield kernel
    kernel.stop()


@pytest.fixture
def run(kernel):
    """Run paragraphs one after another; each gives its messages."""

    def run(*paragraphs, order=()):
        found = []
        for paragraph in paragraphs:
            # The kernel follows jobs itself here, as it does within a paragraph of several lines.
            action = replace(translate(paragraph, {}), leaves=False)
            outputs = Outputs(Nobody(), prefixes=action.prefixes)
            for line in action.say:
                outputs.say(line)
            ids = order or [one.id for one in paragraphs]
            sent = kernel.send(action.code, metadata(action, paragraph, ids))
            for message in kernel.collect(sent).messages:
                content = message["content"]
                display_id = content.get("transient", {}).get("display_id")
                if message["msg_type"] == "stream":
                    outputs.stream(content["name"], content["text"])
                elif message["msg_type"] in ("display_data", "execute_result"):
                    outputs.display(content["data"], display_id)
                elif message["msg_type"] == "update_display_data":
                    outputs.update(content["data"], display_id)
                elif message["msg_type"] == "clear_output":
                    outputs.clear(content["wait"])
                elif message["msg_type"] == "error":
                    outputs.error(content["ename"], content["evalue"], content["traceback"])
            found.append(outputs.messages())
        return found

    return run


def text(messages):
    return "".join(message.data for message in messages if message.type == "TEXT")


def clean(run):
    run(Paragraph("clean", "CLEAN_RUNTIME_CACHE", "submarine"))


def newest(home):
    """Return the record, the manifest and the script of the newest job."""
    found = [JobPaths(home, job_id) for job_id in job_ids(home)]
    paths = max(found, key=lambda paths: read_json(paths.record)["created"])
    manifest = Manifest.from_json(json.loads((paths.bundle / "manifest.json").read_bytes()))
    return read_json(paths.record), manifest, (paths.bundle / manifest.entry).read_text()
