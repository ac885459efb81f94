"""A cluster that is far away: lines that fall silent, proxies, logins that run out meanwhile."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.clusters import layers
from submarine_engine.clusters.kubernetes.client import Kubernetes
from submarine_engine.errors import ClusterError
from submarine_engine.installer.kubernetes.files import NAMESPACE
from submarine_engine.job import JobState
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import until

from tests.kubernetes.conftest import CLOUD_LOGIN, logged_in_by
from tests.yarn.environments.conftest import install

pytestmark = pytest.mark.long

PATIENCE = 300.0
MEGABYTE = 1_000_000
ROLE = Path(__file__).parents[2] / "docs/kubernetes-role.yaml"
TICKS = """\
import os, time
number = 0
while not os.path.exists({gate!r}):
    print(number, flush=True)
    open({flag!r}, 'w').write(str(number))
    number += 1
    time.sleep(0.1)
number
"""


class Line:
    """What stands between here and a cluster: it forgets connections, or hangs up.

    Parameters
    ----------
    port
        The API server's.
    name
        What the cluster is called by those who ask it, an HTTP proxy, to connect.
    """

    def __init__(self, port, name=""):
        self.port, self.name = port, name
        self.connects, self.sent, self.cut_at = 0, 0, None
        self.silent, self.pairs = set(), {}
        self.server = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with suppress(OSError):
            while True:
                near, _ = self.server.accept()
                threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        with suppress(OSError):
            if self.name:
                asked = b""
                while b"\r\n\r\n" not in asked:
                    asked += near.recv(1)
                assert asked.startswith(f"CONNECT {self.name}:443 ".encode()), asked
                self.connects += 1
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            far = socket.create_connection(("127.0.0.1", self.port))
            self.pairs[near] = far
            threading.Thread(target=self.pump, args=(near, far, near, near), daemon=True).start()
            self.pump(near, near, far, far)

    def pump(self, key, source, target, other):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if source is key:
                    self.sent += len(data)
                    if self.cut_at is not None and self.sent > self.cut_at:
                        self.cut_at = None
                        self.cut()
                        return
                if key not in self.silent:  # else it goes nowhere, and nobody is told
                    target.sendall(data)
        if key not in self.silent:
            for end in (source, target, other):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def fall_silent(self):
        """Forget all connections, as a router does: whoever is at an end hears nothing."""
        self.silent |= set(self.pairs)

    def cut(self):
        """Hang up on all connections."""
        for pair in list(self.pairs.items()):
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.cut()
        for pair in self.pairs.items():
            for end in pair:
                end.close()


def kubectl(kubernetes, *words):
    """Run ``kubectl`` as who runs the cluster; return what it says."""
    program = kubernetes.layout.bin / "kubectl"
    asked = [program, "--kubeconfig", kubernetes.kubeconfig, *words]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def config_of(kubernetes, path, *, server=None, user=None, **cluster):
    """Write the cluster's kubeconfig with another address, or another user."""
    config = json.loads(kubernetes.kubeconfig.read_text())
    found = config["clusters"][0]["cluster"]
    found.update(cluster)
    found["server"] = server or found["server"]
    if user is not None:
        config["users"] = [{"name": "ana", "user": user}]
        config["contexts"][0]["context"]["user"] = "ana"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


@pytest.fixture
def line(kubernetes, kubernetes_home, tmp_path, monkeypatch):
    """Have all that jobs here ask go by a line that can be broken."""
    line = Line(kubernetes.plan.port)
    path = config_of(
        kubernetes, tmp_path / "far-kubeconfig", server=f"https://127.0.0.1:{line.own_port}"
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    yield line
    line.close()


@pytest.fixture
def place(kubernetes_home, kubernetes_folder):
    places = []

    def make():
        places.append(Place("kubernetes", kubernetes_home, kubernetes_folder))
        return places[-1]

    yield make
    for place in places:
        place.clean_up()


def ticking(place, **options):
    flag, gate = place.folder / "runs", place.folder / "gate"
    job = place.submit(TICKS.format(flag=str(flag), gate=str(gate)), **options)
    place.until_running(job, flag)
    return job, flag, gate


def goes_on(place, job, flag):
    """Wait until what a job writes from now on has come here."""
    wanted = int(flag.read_text() or 0) + 10
    log = place.paths(job).task("worker-0").stdout
    until(lambda: log.exists() and f"\n{wanted}\n" in log.read_text(), PATIENCE)


def check_whole(place, job):
    story = place.follow(job)
    assert story.state is JobState.SUCCEEDED, story.status.reason
    assert {task.attempt for task in story.status.tasks} == {1}
    assert story.out.split() == [str(number) for number in range(job.result(60))]


@pytest.mark.parametrize("how", ["fall_silent", "cut"])
def test_a_line_that_breaks_loses_nothing_of_a_job(line, place, how):
    there = place()
    job, flag, gate = ticking(there)
    getattr(line, how)()
    goes_on(there, job, flag)
    getattr(line, how)()
    gate.touch()
    check_whole(there, job)


def test_an_environment_goes_on_where_the_line_broke(line, place, tmp_path, monkeypatch):
    site = tmp_path / "venv/lib/python3/site-packages"
    site.mkdir(parents=True)
    monkeypatch.setattr(layers, "sites", lambda: [site])
    install(site, "packed", files={"packed.py": "value = 1", "data": os.urandom(60 * MEGABYTE)})
    for name in ("PYTHON", "VOLUMES"):
        monkeypatch.delenv(f"SUBMARINE_KUBERNETES_{name}")
    there = place()
    line.cut_at = 50 * MEGABYTE
    job = there.submit("import packed\npacked.value", environment="pack")
    assert job.result(PATIENCE) == 1
    assert line.cut_at is None
    launch = json.loads((there.paths(job).root / "launch.json").read_text())
    size = sum(layer["size"] for layer in launch["layers"])
    assert size > 60 * MEGABYTE
    # What was on its way is sent twice; all of it would be 50 MB.
    assert line.sent < size + 25 * MEGABYTE


@pytest.fixture(params=["variable", "kubeconfig"])
def proxy(request, kubernetes, kubernetes_home, tmp_path, monkeypatch):
    """Have the cluster behind a proxy, whom the environment or the kubeconfig names."""
    name = f"by-{request.param}.invalid"  # each has a keeper of its own
    proxy = Line(kubernetes.plan.port, name)
    url = f"http://127.0.0.1:{proxy.own_port}"
    more = {"proxy-url": url} if request.param == "kubeconfig" else {}
    path = config_of(
        kubernetes, tmp_path / "behind-proxy", server=f"https://{name}:443",
        **{"tls-server-name": "127.0.0.1"}, **more,
    )  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(path))
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "variable":
        monkeypatch.setenv("HTTPS_PROXY", url)
    yield proxy
    proxy.close()


def test_a_cluster_behind_a_proxy_is_reached_and_pods_know_nothing_of_it(proxy, place):
    there = place()
    job = there.submit("import os\nprint(sorted(n for n in os.environ if 'proxy' in n.lower()))")
    story = there.follow(job)
    assert story.state is JobState.SUCCEEDED, story.status.reason
    assert story.out == "[]\n"
    assert proxy.connects >= 3  # questions, and programs in the pod


@pytest.fixture
def ana(kubernetes, kubernetes_home):
    """Give what makes tokens of a user with the smallest role, and what takes them back."""
    kubectl(kubernetes, "apply", "-f", str(ROLE))
    kubectl(kubernetes, "create", "serviceaccount", "ana")
    bound = ["--role=submarine", f"--serviceaccount={NAMESPACE}:ana"]
    kubectl(kubernetes, "create", "rolebinding", "ana", *bound)
    made = []

    def token():
        name = f"session-{len(made)}"
        made.append(name)
        kubectl(kubernetes, "create", "secret", "generic", name)
        holds = ["--bound-object-kind=Secret", f"--bound-object-name={name}"]
        return kubectl(kubernetes, "create", "token", "ana", *holds).strip()

    def end(name):
        kubectl(kubernetes, "delete", "secret", name, "--ignore-not-found")

    def may():
        asked = ("list", "events", f"--as=system:serviceaccount:{NAMESPACE}:ana")
        with suppress(AssertionError):  # "no" is an error of kubectl's
            return kubectl(kubernetes, "auth", "can-i", *asked)
        return None

    until(may)  # the server hears of a binding a moment later
    yield token, end
    for name in made:
        end(name)
    kubectl(kubernetes, "delete", "rolebinding/ana", "serviceaccount/ana")


@pytest.fixture
def plugin(tmp_path):
    """Give a credential plugin, which gives the token of a file beside it."""
    plugin = tmp_path / "cloud-login"
    plugin.write_text(CLOUD_LOGIN.format(python=sys.executable, folder=str(tmp_path)))
    plugin.chmod(0o755)
    return plugin


def is_refused(config):
    """Return whether the server knows nobody by a kubeconfig any more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(config))
        try:
            Kubernetes().pods("a=b")
        except ClusterError as error:
            return "expired" in error.what
    return False


def test_a_login_that_runs_out_while_a_job_runs_is_renewed_by_its_plugin(
    kubernetes, line, ana, place, plugin
):
    token, end = ana
    tmp_path = plugin.parent
    (tmp_path / "token").write_text(first := token())
    far = f"https://127.0.0.1:{line.own_port}"
    config_of(kubernetes, Path(os.environ["KUBECONFIG"]), user=logged_in_by(plugin), server=far)
    there = place()
    job, flag, gate = ticking(there)
    (tmp_path / "token").write_text(token())
    end("session-0")
    old = config_of(kubernetes, tmp_path / "old", user={"token": first})
    until(lambda: is_refused(old), PATIENCE)  # the server believes a token for some seconds more
    line.cut()
    goes_on(there, job, flag)
    gate.touch()
    check_whole(there, job)


def test_a_token_that_ends_while_a_job_runs_lets_it_run_on_until_there_is_another(
    kubernetes, line, ana, place
):
    token, end = ana
    config, far = Path(os.environ["KUBECONFIG"]), f"https://127.0.0.1:{line.own_port}"
    config_of(kubernetes, config, user={"token": token()}, server=far)
    there = place()
    job, flag, gate = ticking(there, gpus=1)
    end("session-0")
    until(lambda: is_refused(config), PATIENCE)  # as above
    line.cut()  # a connection into a pod outlives the token that it was opened with
    until(lambda: "it runs on" in job.status().warning, PATIENCE)
    assert "expired" in job.status().warning
    assert not job.done()
    config_of(kubernetes, config, user={"token": token()}, server=far)
    goes_on(there, job, flag)
    until(lambda: job.status().warning == "", PATIENCE)
    gate.touch()
    check_whole(there, job)
