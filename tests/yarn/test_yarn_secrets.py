"""A secret of a job on YARN is in no file or page that anybody else reads."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
import zlib
from contextlib import suppress
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.clusters.yarn.driver import KeeperFolder
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobSpec, JobState

from tests.hadoop import yarn_cluster
from tests.jobs import follow, until

MARK = "hf_" + "M4rk3dS3cr3t" * 3
PATIENCE = 300.0
SCRIPT = """\
import os, time
with open(__file__.replace("script.py", "values/token")) as file:
    token = file.read()
assert token == os.environ["TOKEN"]
print("on", flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.05)
len(token)
"""
EXPORTED = re.compile(r'^export (SUBMARINE_[A-Z0-9_]+)="(.*)"$', re.MULTILINE)


def forms(data):
    """Return bytes as they are, and what the variables of a start script hold, unpacked."""
    yield data
    found = dict(EXPORTED.findall(data.decode("latin-1")))
    together = "".join(value for name, value in found.items() if name[-1].isdecimal())
    for value in (together, *found.values()):
        with suppress(binascii.Error):
            raw = base64.b64decode(value)
            yield raw
            with suppress(zlib.error):
                yield zlib.decompress(raw)


def holds(data, mark=MARK):
    return any(mark.encode() in form for form in forms(data))


def get(url):
    with build_opener(ProxyHandler({})).open(url, timeout=180) as answer:
        return answer.read()


def below(root):
    """Yield the files below a folder, in which those of other jobs come and go meanwhile."""
    for top, _, names in os.walk(root):
        yield from (path for name in names if (path := Path(top, name)).is_file())


def read(path):
    with suppress(OSError):  # gone meanwhile
        return path.read_bytes()
    return b""


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            yield path.read_bytes().decode("latin-1")


def test_a_secret_is_in_no_start_script_log_folder_or_page(shared_home, on_yarn, tmp_path):
    gate = tmp_path / "gate"
    content = {"script.py": SCRIPT.format(gate=str(gate)).encode(), "values/token": MARK.encode()}
    bundle = Bundle(files=content, manifest=Manifest(entry="script.py", python="3.11"))
    cluster = yarn_cluster(shared_home)
    spec = JobSpec(name="s", notebook="s.ipynb", options={"mode": "warm"}, env={"TOKEN": MARK})
    job_id = cluster.submit(spec, bundle, workdir=tmp_path)
    paths = JobPaths(shared_home, job_id)
    until(paths.task("worker-0").stdout.exists, PATIENCE)
    container, node, _ = read_json(paths.root / "yarn.json")["containers"]["worker-0"]

    data = on_yarn.cluster.layout.node_data(0)
    scripts = [
        path
        for path in below(data / "local" / "usercache")
        if (path.parent.name, path.name) == (container, "launch_container.sh")
    ]
    assert scripts
    assert not any(holds(path.read_bytes()) for path in scripts)
    [key] = {path.resolve() for path in scripts[0].parent.glob("submarine.key")}
    assert not stat.S_IMODE(key.stat().st_mode) & 0o077
    assert key.read_bytes() == KeeperFolder(shared_home, load_hadoop()).read_key()

    here = [path for path in below(data / "logs") if path.parent.name == container]
    assert here
    assert not any(path.name == "launch_container.sh" for path in here)
    top = f"http://{node}/ws/v1/node/containers/{container}"
    pages = [f"{top}/logs", f"{top}/logs/task.json", top, f"http://{node}/node/allContainers"]
    pages += [f"{on_yarn.rm}/ws/v1/cluster/apps", f"{on_yarn.rm}/conf"]
    assert not [page for page in pages if holds(get(page))]
    assert not any(MARK in line for line in command_lines())
    gate.touch()
    story = follow(cluster, job_id, patience=PATIENCE)
    assert story.state is JobState.SUCCEEDED, story.status.reason
    assert not [path for path in below(data / "logs") if holds(read(path))]
