"""What runs first in a container, run here as a container would."""

import fcntl
import json
import os
import platform
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from submarine_engine.bundle import Cell, build
from submarine_engine.clusters.yarn import application
from submarine_engine.history import JobPaths
from submarine_runtime.sealing import attempt_key, mark

from tests.jobs import until

KEY = os.urandom(32)
DEVICES = {
    "gpuDeviceInformation": {
        "gpus": [{"minorNumber": n, "uuid": f"GPU-test-{n}"} for n in range(3)]
    },
    "totalGpuDevices": [],
    "assignedGpuDevices": [],
}


class NodeDouble(BaseHTTPRequestHandler):
    """A double of a NodeManager's page of GPUs, and of an HDFS that has one file."""

    def do_GET(self):
        data = self.server.payload
        if data is None:
            assert self.path == "/ws/v1/node/resources/yarn.io%2Fgpu"
            data = json.dumps(self.server.told).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def node():
    server = HTTPServer(("127.0.0.1", 0), NodeDouble)
    server.payload, server.status = None, 200
    server.told = json.loads(json.dumps(DEVICES))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Box:
    """A folder as YARN gives it to a container, and what it starts there."""

    def __init__(self, root, node, name):
        self.work = root / name / "work"
        self.logs = root / name / "logs"
        self.name = name
        self.node = node
        self.by_url = False
        self.results_key = b""
        for folder in (self.work, self.logs):
            folder.mkdir(parents=True)
        self.paths = JobPaths(root / name, "20260101-000000-aaaaa")

    def start(self, script, gpus=0, environment=None, extra=None, python=""):
        build(Cell(number=1, source=script, raw=script), [], {}).write(self.paths.bundle)
        plan = {
            "version": 1, "job_id": self.paths.job_id, "task": "worker-0", "bundle": "",
            "entry": "script.py", "command": None, "args": [], "workdir": None, "outputs": [],
            "env": {}, "results": ".", "environment": environment or {}, "anew": bool(environment),
            "beside": [],
        }  # fmt: skip
        outer = {
            "PATH": os.environ["PATH"], "HOME": "/nowhere", "CONTAINER_ID": self.name,
            "SKEIN_CONTAINER_ID": "worker_3",
            "LOG_DIRS": f"{self.logs},/elsewhere", "NM_HOST": "127.0.0.1",
            "NM_HTTP_PORT": str(self.node.server_port), "SUBMARINE_GPUS": str(gpus),
            "SUBMARINE_RELEASE": python,
            **self.sent(application.pack(self.paths, plan, key=self.results_key)), **(extra or {}),
        }  # fmt: skip
        (self.work / "submarine_runtime.zip").write_bytes(application.RUNTIME)
        (self.work / "submarine.key").write_bytes(KEY)
        command = [sys.executable, "-u", "-c", application.BEGIN]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.work, env=outer, stdout=pipe, stderr=pipe, start_new_session=True
        )

    def sent(self, archive):
        if not self.by_url:
            return application.chunks({}, archive, KEY)
        self.node.payload = archive
        url = f"http://127.0.0.1:{self.node.server_port}/payload?op=OPEN"
        return application.chunks({"SUBMARINE_PAYLOAD_URL": url}, b"", KEY)

    def run(self, script, **options):
        process = self.start(script, **options)
        out, error = process.communicate(timeout=180)
        return process.returncode, out.decode(), error.decode()

    def told(self, name):
        return json.loads((self.logs / name).read_text())


@pytest.fixture
def box(tmp_path, node):
    return lambda name="container_1": Box(tmp_path, node, name)


def test_a_container_marks_what_it_leaves_by_a_key_of_its_own(box):
    one = box()
    one.results_key = os.urandom(32)
    assert one.run("[1, 2]") == (0, "", "")
    data, _, given = (one.logs / "outcome.json").read_bytes().partition(b"\n")
    key = attempt_key(one.results_key, one.paths.job_id, "worker-3", "container_1")
    assert given.decode().strip() == mark("outcome.json", [data], key)
    result = (one.logs / "return.pkl").read_bytes()
    assert json.loads(data)["marks"] == {"return.pkl": mark("return.pkl", [result], key)}
    files = [path for path in one.work.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if one.results_key in path.read_bytes()]


def test_the_script_runs_and_leaves_its_files_flat_in_the_log_folder(box):
    one = box()
    assert one.run("print('hi')\n[1, 2]") == (0, "hi\n", "")
    assert {"started.json", "outcome.json", "return.pkl"} <= {p.name for p in one.logs.iterdir()}
    assert one.told("outcome.json")["result"]["file"] == "return.pkl"


def test_the_environment_of_the_job_is_in_no_file_that_is_shown(box):
    one = box()
    code, out, _ = one.run("import os\nprint(os.environ['TOKEN'])", environment={"TOKEN": "s3cret"})
    assert (code, out) == (0, "s3cret\n")
    assert not any(b"s3cret" in path.read_bytes() for path in one.logs.glob("*.json"))


def test_what_the_interpreter_itself_reads_of_the_environment_counts(box):
    seen = "import sys, time\nprint(sys.flags.hash_randomization, time.strftime('%z'))"
    own = {"PYTHONHASHSEED": "0", "TZ": "UTC-3"}
    assert box().run(seen, environment=own) == (0, "0 +0300\n", "")


@pytest.mark.parametrize("environment", [None, {"NAME": "value"}])
def test_the_script_sees_what_any_script_sees(box, environment):
    one = box()
    _, out, _ = one.run(
        "import os, sys\n"
        "print(sys.argv, __name__, '__spec__' in dir() and __spec__)\n"
        # `logdir.sent` comes from a process beside, a moment before or after this one looks.
        "print(sorted({*os.listdir('.')} - {'logdir.sent'}))\n"
        "print(sys.path[0], sys.path[-1])\n"
        "print(set(sys.path[1:-1]) == set(PLAIN))".replace("PLAIN", repr(plain_path())),
        environment=environment,
    )
    job = one.work / "job"
    beside = [
        "artifacts", "asked", "asked-main", "job", "logdir", "stacks", "submarine.key",
        "submarine_runtime.zip",
    ]  # fmt: skip
    assert out.splitlines() == [
        f"['{job}/bundle/script.py'] __main__ None", str(beside),
        f"{job}/bundle {one.work}/submarine_runtime.zip", "True",
    ]  # fmt: skip


def test_an_error_shows_the_users_own_lines_alone(box):
    one = box()
    lines = ["def f():", "    1 / 0", *(f"a{n} = {n}" for n in range(60)), "f()"]
    code, _, error = one.run("\n".join(lines))
    assert code == 1
    assert "in run_script" not in error
    frames = one.told("outcome.json")["error"]["frames"]
    assert [frame["text"].strip() for frame in frames] == ["f()", "1 / 0"]


def test_an_error_inside_the_runtime_is_no_line_of_the_bundles(box):
    one = box()
    code, _, _ = one.run("from submarine_runtime import progress\nprogress('much')")
    assert code == 1
    files = [frame["file"] for frame in one.told("outcome.json")["error"]["frames"]]
    assert files[0] == "script.py"
    assert set(files[1:]) == {"/submarine_runtime/job.py"}


def test_what_brings_the_payload_hides_no_module_of_the_users(box):
    one = box()
    one.paths.bundle.mkdir(parents=True)
    (one.paths.bundle / "calendar.py").write_text("OURS = True")
    one.by_url = True
    code, out, error = one.run("import calendar\nprint(calendar.OURS)")
    assert (code, out) == (0, "True\n"), error


def plain_path():
    """Return where a script finds modules, its own folder aside."""
    words = [sys.executable, "-c", "import sys; print(sys.path[1:])"]
    outer = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
    return eval(subprocess.check_output(words, env=outer, text=True))  # noqa: S307 - our own list


def test_another_release_of_python_is_refused_at_once(box):
    one = box()
    code, out, error = one.run("print('never')", python="3.1.4")
    assert (code, out) == (1, "")
    assert "the notebook has Python 3.1.4" in error
    assert sys.executable in error
    assert "--environment pack" in error
    assert not (one.logs / "started.json").exists()
    assert box("same").run("1", python=platform.python_version())[0] == 0


def test_the_payload_is_not_in_the_jobs_environment(box):
    code, out, _ = box().run("import os\nprint([k for k in os.environ if 'PAYLOAD' in k])")
    assert (code, out) == (0, "[]\n")


def test_home_is_a_folder_that_can_be_written(box):
    code, out, _ = box().run(
        "from pathlib import Path\nPath.home().joinpath('x').touch()\nprint(1)"
    )
    assert (code, out) == (0, "1\n")


def test_a_task_of_a_role_knows_its_number(box):
    one = box()
    _, out, _ = one.run("import os\nprint(os.environ['SUBMARINE_TASK'])")
    assert out == "worker-3\n"
    assert one.told("task.json")["task"] == "worker-3"


def test_without_gpus_none_can_be_seen(box):
    _, out, _ = box().run("import os\nprint(repr(os.environ['CUDA_VISIBLE_DEVICES']))")
    assert out == "''\n"


def test_gpus_that_the_node_assigned_are_those_seen(box, node):
    node.told["assignedGpuDevices"] = [
        {"minorNumber": 2, "containerId": "container_1"},
        {"minorNumber": 0, "containerId": "container_2"},
    ]
    one = box()
    _, out, _ = one.run("import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])", gpus=1)
    assert out == "GPU-test-2\n"
    assert one.told("started.json")["gpus"] == ["GPU-test-2"]


HOLD = "import os, time\nprint(1, flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)"


def test_containers_of_a_node_that_assigns_none_agree_among_themselves(box, monkeypatch, tmp_path):
    own = {"SUBMARINE_GPU_LEASES": str(tmp_path / "leases")}
    first, second, third = box("c_1"), box("c_2"), box("c_3")
    running = first.start(HOLD, gpus=2, extra=own)
    until((first.logs / "started.json").exists)
    assert second.run("1", gpus=1, extra=own)[0] == 0
    ours, theirs = (one.told("started.json")["gpus"] for one in (first, second))
    assert len(ours) == 2
    assert len(theirs) == 1
    assert not set(ours) & set(theirs)
    (first.work / "go").touch()
    assert running.wait(timeout=180) == 0
    running.communicate()
    assert third.run("1", gpus=3, extra=own)[0] == 0
    assert len(third.told("started.json")["gpus"]) == 3


def test_a_lease_lives_as_long_as_the_job_and_no_longer(box, tmp_path):
    leases = tmp_path / "leases"
    one = box()
    running = one.start(HOLD, gpus=1, extra={"SUBMARINE_GPU_LEASES": str(leases)})
    until((one.logs / "started.json").exists)
    (lease,) = one.told("started.json")["gpus"]
    with (leases / lease).open() as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        running.kill()
        running.communicate()
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("kind", ["open", "link", "foreign"])
def test_a_folder_of_leases_that_others_may_change_is_refused(box, tmp_path, kind):
    leases = tmp_path / "leases"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        leases.symlink_to(tmp_path / "elsewhere")
    else:
        leases.mkdir()
        leases.chmod(0o777)
    if kind == "foreign":
        assert not os.getuid(), "needs root, to be another user: run the tests in a container"
        os.chown(leases, 65534, 65534)
    code, out, error = box().run("print(1)", gpus=1, extra={"SUBMARINE_GPU_LEASES": str(leases)})
    assert (code, out) == (1, "")
    assert "this user alone may write in" in error
    assert list(leases.iterdir()) == []


def test_a_silent_node_is_said_and_does_not_stop_the_job(box, node):
    node.told = "nonsense"
    one = box()
    code, _, error = one.run("1", gpus=1)
    assert code == 0
    assert "does not say which GPUs are ours" in error


SECRETIVE = """\
#!/bin/sh
[ "$*" = "-q -x" ] || exit 1
for n in {numbers}; do echo "<gpu><uuid>GPU-test-$n</uuid>{more}</gpu>"; done
"""


@pytest.fixture
def secretive(node, tmp_path):
    """Give what a container has on a node that wants a ticket, and sees so many GPUs."""

    def make(numbers, more=""):
        node.status = 401
        program = tmp_path / "nvidia-smi"
        program.write_text(SECRETIVE.format(numbers=numbers, more=more))
        program.chmod(0o700)
        leases = str(tmp_path / "leases")
        return {"SUBMARINE_NVIDIA_SMI": str(program), "SUBMARINE_GPU_LEASES": leases}

    return make


def test_containers_of_a_node_that_wants_a_ticket_agree_among_themselves(box, secretive):
    own = secretive("0 1 2")
    first, second = box("c_1"), box("c_2")
    running = first.start(HOLD, gpus=2, extra=own)
    until((first.logs / "started.json").exists)
    seen = "import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'], os.getenv('SUBMARINE_NVIDIA_SMI'))"
    code, out, error = second.run(seen, gpus=1, extra=own)
    ours, theirs = (one.told("started.json")["gpus"] for one in (first, second))
    assert (code, out, error) == (0, f"{theirs[0]} None\n", "")
    assert sorted([*ours, *theirs]) == ["GPU-test-0", "GPU-test-1", "GPU-test-2"]
    (first.work / "go").touch()
    assert running.wait(timeout=180) == 0
    running.communicate()


def test_gpus_that_alone_can_be_seen_are_ours(box, secretive, tmp_path):
    one = box()
    assert one.run("1", gpus=1, extra=secretive("2"))[0] == 0
    assert one.told("started.json")["gpus"] == ["GPU-test-2"]
    assert not (tmp_path / "leases").exists()


@pytest.mark.parametrize(
    ("numbers", "more"),
    [("", ""), ("0", ""), ("0 1 2", "<mig_mode><current_mig>Enabled</current_mig></mig_mode>")],
)
def test_gpus_that_nobody_can_name_are_told(box, secretive, numbers, more):
    one = box()
    code, _, error = one.run("1", gpus=2, extra=secretive(numbers, more))
    assert code == 0
    assert "does not say which GPUs are ours: it answers 'HTTP/1.0 401" in error
    assert one.told("started.json")["gpus"] is None


def test_the_same_bundle_gives_the_same_bytes(tmp_path):
    paths = JobPaths(tmp_path, "20260101-000000-aaaaa")
    build(Cell(number=1, source="x = 1", raw="x = 1"), [], {}).write(paths.bundle)
    assert application.pack(paths, {"a": 1}) == application.pack(paths, {"a": 1})
    assert application.pack(paths, {"a": 1}) != application.pack(paths, {"a": 2})


def test_chunks_fit_one_variable_each():
    pieces = application.chunks({}, os.urandom(application.INLINE_MOST), KEY)
    assert all(len(name) + len(piece) < 128 * 1024 - 1 for name, piece in pieces.items())
