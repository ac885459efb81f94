"""Every byte that another user of the machine or of the cluster can read, while a job has a secret.

The secret is one of ``--secret NAME``, and a value that the cell has captured. Another user reads
files, lists of processes, HDFS, and the pages of ResourceManager and NodeManager; root besides
reads argument lists, start scripts and records, which hold none either.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import deque
from contextlib import suppress
from urllib.error import HTTPError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest
from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobSpec, JobState, Resources, Role

from tests.hadoop import yarn_cluster
from tests.jobs import follow, until
from tests.kernel.test_secret_scan import let_others_in, seen_by_another
from tests.yarn.test_yarn_secrets import PATIENCE, below, command_lines, holds, read

# Marks of its own: the job of `test_yarn_secrets` may run beside, with its mark in its variables.
MARK = "hf_" + "Sc4nn3dS3cr3t" * 3
GIVEN = MARK[:3] + "G1v3nS3cr3t" * 3
SEEN = "what anybody may read"
SCRIPT = """\
import os, time
with open(__file__.replace("script.py", "values/token")) as file:
    token = file.read()
given = os.environ["MARKED"]
print({seen!r}, flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.05)
len(token), len(given)
"""
LINK = re.compile(rb"""href=["']([^"'#]+)""", re.IGNORECASE)
APPLICATION = re.compile(r"(?:application|appattempt|container)_(?:e\d+_)?(\d+_\d+)")
MOST_PAGES = 400
OPENER = build_opener(ProxyHandler({}))


def leaks(data):
    return holds(data, MARK) or GIVEN.encode() in data


def get(url):
    """Return what a page shows to a stranger; nothing where it is refused."""
    asked = url + ("&" if "?" in url else "?") + "user.name=nobody"
    with suppress(HTTPError), OPENER.open(asked, timeout=180) as answer:
        return answer.read()
    return b""


def pages(app_id, *starts):
    """Yield each page that is linked from the first ones, on the same servers, with its content.

    Those of other applications are left out: the cluster is shared, and has many.
    """
    ours = {app_id.partition("_")[2]}
    hosts = {urlsplit(start).netloc for start in starts}
    left, seen = deque(starts), set(starts)
    while left and len(seen) < MOST_PAGES:
        page = left.popleft()
        content = get(page)
        yield page, content
        for link in LINK.findall(content):
            url = urljoin(page, link.decode()).partition("#")[0]
            of_it = ours.issuperset(APPLICATION.findall(url))
            if urlsplit(url).netloc in hosts and url not in seen and of_it and "static/" not in url:
                seen.add(url)
                left.append(url)


def in_hdfs(namenode, path="/"):
    """Yield each file of HDFS that a stranger may read, with its content."""
    top = f"{namenode}/webhdfs/v1"
    listed = get(f"{top}{quote(path)}?op=LISTSTATUS") or b'{"FileStatuses": {"FileStatus": []}}'
    for found in json.loads(listed)["FileStatuses"]["FileStatus"]:
        here = f"{path.rstrip('/')}/{found['pathSuffix']}"
        if found["type"] == "DIRECTORY":
            yield from in_hdfs(namenode, here)
        else:
            yield here, get(f"{top}{quote(here)}?op=OPEN")


def modes(root):
    """Yield the mode of each file below a folder."""
    for path in below(root):
        with suppress(OSError):  # gone meanwhile
            yield stat.S_IMODE(path.stat().st_mode)


def read_as_nobody(mark, folders):
    """Return what holds the mark of all that another user of this machine can read."""
    held = [seen_by_another(folder, mark) for folder in folders]
    return [found for found in held if found != "[]"]


@pytest.mark.parametrize(
    "how",
    [
        "warm",
        pytest.param("cold", marks=pytest.mark.long),
        pytest.param("warm, by HDFS", marks=pytest.mark.long),
    ],
)
def test_another_user_reads_no_secret(shared_home, on_yarn, tmp_path, monkeypatch, how):
    gate = tmp_path / "gate"
    files = {
        "script.py": SCRIPT.format(gate=str(gate), seen=SEEN).encode(),
        "values/token": MARK.encode(),
    }
    if "HDFS" in how:  # too much for variables
        files["values/noise"] = os.urandom(1 << 19)
    manifest = Manifest(entry="script.py", python="3.11")
    cluster = yarn_cluster(shared_home)
    role = Role(name="worker", count=1, resources=Resources(gpus=0))  # others count GPUs meanwhile
    mode = {"mode": how[:4]}
    spec = JobSpec(name="s", roles=(role,), notebook="s.ipynb", options=mode, secrets=("MARKED",))
    with monkeypatch.context() as given:
        given.setenv("MARKED", GIVEN)
        job_id = cluster.submit(spec, Bundle(files=files, manifest=manifest), workdir=tmp_path)
    paths = JobPaths(shared_home, job_id)
    until(lambda: cluster.status(job_id).state is JobState.RUNNING, PATIENCE)
    until(paths.task("worker-0").stdout.exists, PATIENCE)

    layout = on_yarn.cluster.layout
    let_others_in(tmp_path)
    let_others_in(shared_home)
    let_others_in(layout.root.parent)
    noted = read_json(paths.root / "yarn.json")
    container, node, _ = noted["containers"]["worker-0"]
    starts = [
        f"http://{node}/node/allContainers",
        f"http://{node}/ws/v1/node/containers/{container}/logs",
        f"http://{node}/ws/v1/node/containers",
        f"http://{node}/node/containerlogs/{container}/root/",
        f"http://{node}/logs/",
        f"http://{node}/conf",
        f"{on_yarn.rm}/cluster/app/{noted['app_id']}",
        f"{on_yarn.rm}/ws/v1/cluster/apps/{noted['app_id']}",
        f"{on_yarn.rm}/logs/",
        f"{on_yarn.rm}/conf",
    ]

    (tmp_path / "open").write_text(SEEN)
    (tmp_path / "open").chmod(0o644)

    def scan():
        assert read_as_nobody(SEEN, [tmp_path]) == [f"['{tmp_path / 'open'}']"]  # it does look
        for mark in (MARK, GIVEN):
            assert read_as_nobody(mark, [shared_home, layout.root, tmp_path]) == []
        assert [path for path, content in in_hdfs(on_yarn.namenode) if leaks(content)] == []
        shown = dict(pages(noted["app_id"], *starts))
        assert [page for page, content in shown.items() if leaks(content)] == []
        # What is root's own here, and holds none all the same.
        assert not any(MARK in line or GIVEN in line for line in command_lines())
        held = {path.name for path in below(paths.root) if leaks(read(path))}
        assert held <= {"token", "secret-values.json"}
        assert set(modes(paths.root)) == {0o600}
        assert [path for path in below(shared_home / "yarn") if leaks(read(path))] == []
        assert {path.name for path in below(layout.root) if leaks(read(path))} <= {"token"}
        return shown.values()

    try:
        assert any(SEEN.encode() in content for content in scan())  # it does look there
    finally:
        gate.touch()
    story = follow(cluster, job_id, patience=PATIENCE)
    assert story.state is JobState.SUCCEEDED, story.status.reason
    scan()
    assert not (paths.root / "secret-values.json").exists()
