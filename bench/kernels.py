"""A kernel on the cluster: from the request to its first answers, beside Enterprise Gateway.

Jupyter Enterprise Gateway gets an environment of its own, made here: it pins an old
`jupyter_client`.
Its kernels on YARN are started by its `YarnClusterProcessProxy` and its own launcher. What submits
them is skein's command, as in its kernel for Dask; those for Spark would need Spark, and take
longer. Both sides ask for one GPU, and end with the reply to ``1 + 1``. Ours is Jupyter's own
kernel manager, as in JupyterLab; the gateway is asked by its REST and its WebSocket, as JupyterLab
asks it. ``BENCH_GATEWAY=FOLDER`` keeps the gateway's environment there for the next time.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import requests
from jupyter_client.manager import KernelManager
from submarine_engine import list_jobs, open_job
from submarine_engine.clusters.yarn.gpus import gpus_of
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.inside import _listen
from submarine_engine.kernels import write_kernelspec
from submarine_engine.lifecycle import JobStatus
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from bench.peers import own_home
from bench.table import Figure, in_turn
from bench.yarnlogs import on_yarn

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PATIENCE = 300.0
_GOODBYE = 15.0
_GATEWAY = "jupyter_enterprise_gateway==3.3.0"
_PEER = (_GATEWAY, "ipykernel", "skein==0.8.2", "setuptools<81")
_LAUNCHER = "etc/kernel-launchers/python/scripts/launch_ipykernel.py"
"""Where the gateway's source has what runs beside a kernel elsewhere; its wheel has not."""

_SUBMIT = """
import json, os, shlex, subprocess, sys
folder, launcher, *words = sys.argv[1:]
script = shlex.join([sys.executable, launcher, *words])
spec = {
    "name": os.environ["KERNEL_ID"],
    "services": {
        "kernel": {
            "resources": {"memory": "1 GiB", "vcores": 1, "gpus": 1},
            "env": {"PATH": os.environ["PATH"], "HOME": folder},
            "script": script,
        }
    },
}
path = os.path.join(folder, os.environ["KERNEL_ID"] + ".json")
with open(path, "w") as file:
    json.dump(spec, file)
skein = [sys.executable, "-m", "skein.cli", "application", "submit", path]
os.execv(sys.executable, skein)
"""
_PROXY = "enterprise_gateway.services.processproxies.yarn.YarnClusterProcessProxy"
_HADOOPS = ("HADOOP_", "YARN_", "JAVA_")
"""How variables begin that say where Hadoop is."""

_REMOTE = "--RemoteProcessProxy."


class Gateway:
    """A running Enterprise Gateway, on loopback.

    Parameters
    ----------
    folder
        Where all of it lies.
    rm
        The web address of YARN's ResourceManager; None for kernels of this machine alone.
    """

    def __init__(self, folder: Path, rm: str | None) -> None:
        self._folder = folder
        self._home = Path(os.environ.get("BENCH_GATEWAY") or folder).absolute()
        self._python = str(self._home / "gateway" / "bin" / "python")
        if not (self._home / "launch.py").exists():
            self._install()
        self._write_kernels()
        listener = _listen(0)
        self._port: int = listener.getsockname()[1]
        listener.close()
        self._session = requests.Session()
        self._session.trust_env = False
        self._token = secrets.token_hex(16)
        self._session.headers["Authorization"] = f"token {self._token}"
        words = [f"--EnterpriseGatewayApp.port={self._port}", "--EnterpriseGatewayApp.ip=127.0.0.1"]
        words += ["--EnterpriseGatewayApp.port_retries=0"]
        words += [f"--EnterpriseGatewayApp.yarn_endpoint={rm}"] if rm else []
        environment = {
            **os.environ,
            "PATH": f"{Path(self._python).parent}{os.pathsep}{os.environ['PATH']}",
            "JUPYTER_PATH": str(folder / "share"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "EG_AUTH_TOKEN": self._token,
            "EG_RESPONSE_IP": "127.0.0.1",
            "EG_KERNEL_LAUNCH_TIMEOUT": f"{PATIENCE:.0f}",
            "EG_PROHIBITED_UIDS": "",  # a test machine's user is often root
        }
        program = [self._python, "-m", "enterprise_gateway", *words]
        with (folder / "gateway.log").open("wb") as log:
            self._process = subprocess.Popen(program, env=environment, stdout=log, stderr=log)
        self._await()

    def _install(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", self._home / "gateway"], check=True)
        pip = [self._python, "-m", "pip"]
        subprocess.run([*pip, "install", "-q", *_PEER], check=True)
        source = self._home / "source"
        words = ["download", "-q", "--no-deps", "--no-binary", "jupyter_enterprise_gateway"]
        subprocess.run([*pip, *words, "-d", source, _GATEWAY], check=True)
        (archive,) = source.glob("*.tar.gz")
        with tarfile.open(archive) as found:
            name = next(one for one in found.getnames() if one.endswith(_LAUNCHER))
            script = found.extractfile(name)
            assert script is not None
            (self._home / "launch.py").write_bytes(script.read())

    def _write_kernels(self) -> None:
        (self._folder / "submit.py").write_text(_SUBMIT)
        submit, launch = str(self._folder / "submit.py"), str(self._home / "launch.py")
        remote = [
            f"{_REMOTE}{key}={{{key.replace('-', '_')}}}"
            for key in ("kernel-id", "response-address", "public-key", "port-range")
        ]
        yarn = {
            "argv": [
                self._python, submit, str(self._folder), launch, *remote,
                f"{_REMOTE}cluster-type=none",
            ],
            "metadata": {"process_proxy": {"class_name": _PROXY}},
            # The gateway passes on nothing of its own.
            "env": {
                name: value
                for name, value in os.environ.items()
                if name in ("PATH", "HOME", "CLASSPATH") or name.startswith(_HADOOPS)
            },
        }  # fmt: skip
        local = {"argv": [self._python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
        for name, spec in (("yarn", yarn), ("local", local)):
            place = self._folder / "share" / "kernels" / f"gateway-{name}"
            place.mkdir(parents=True)
            told = {"display_name": name, "language": "python", **spec}
            (place / "kernel.json").write_text(json.dumps(told))

    def _await(self) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self._process.poll() is None:
            with suppress(requests.ConnectionError):
                if self._ask("GET", "/api/kernelspecs").ok:
                    return
            time.sleep(0.05)
        raise RuntimeError((self._folder / "gateway.log").read_text()[-2000:])

    def _ask(self, method: str, path: str, **more: Any) -> requests.Response:  # noqa: ANN401 - requests' own
        url = f"http://127.0.0.1:{self._port}{path}"
        return self._session.request(method, url, timeout=PATIENCE, **more)

    def first_reply(self, name: str) -> tuple[float, float, str]:
        """Start a kernel; return the seconds to its information and its first result, and its id.

        Raises
        ------
        RuntimeError
            It does not start.
        """
        begun = time.monotonic()
        environment = {"KERNEL_USERNAME": "bench"}
        told = self._ask("POST", "/api/kernels", json={"name": name, "env": environment})
        if not told.ok:
            raise RuntimeError(f"{told.text}\n{(self._folder / 'gateway.log').read_text()[-2000:]}")
        kernel: str = told.json()["id"]
        known, ran = asyncio.run(self._replies(kernel))
        return known - begun, ran - begun, kernel

    async def _replies(self, kernel: str) -> tuple[float, float]:
        address = f"ws://127.0.0.1:{self._port}/api/kernels/{kernel}/channels"
        headers = {"Authorization": f"token {self._token}"}
        socket = await websocket_connect(HTTPRequest(address, headers=headers))
        try:
            known = await _answered(socket, "kernel_info", {})
            return known, await _answered(socket, "execute", {"code": "1 + 1", "silent": False})
        finally:
            socket.close()

    def delete(self, kernel: str) -> None:
        """Shut a kernel down."""
        self._ask("DELETE", f"/api/kernels/{kernel}").raise_for_status()

    def close(self) -> None:
        """End it, and with it its kernels."""
        self._process.terminate()
        try:
            self._process.wait(_GOODBYE)
        except subprocess.TimeoutExpired:  # it has ended its kernels, and lingers
            self._process.kill()
            self._process.wait()
        self._session.close()


async def _answered(socket: Any, kind: str, content: dict[str, Any]) -> float:  # noqa: ANN401 - tornado's
    """Send a request; return when its reply came."""
    header = {
        "msg_id": uuid4().hex, "msg_type": f"{kind}_request", "session": uuid4().hex,
        "username": "", "version": "5.3", "date": "",
    }  # fmt: skip
    told = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}}
    await socket.write_message(json.dumps({**told, "content": content}))
    while message := await socket.read_message():
        if isinstance(message, str) and json.loads(message)["msg_type"] == f"{kind}_reply":
            return time.monotonic()
    raise RuntimeError("the gateway has closed the connection")


class Started:
    """A kernel of ours that has answered.

    Parameters
    ----------
    name
        Of its kernelspec.
    folder
        Where it runs.
    """

    def __init__(self, name: str, folder: Path) -> None:
        begun = time.monotonic()
        self._manager = KernelManager(kernel_name=name)
        self._manager.start_kernel(cwd=str(folder))
        client = self._manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(PATIENCE)
            self.known = time.monotonic() - begun
            client.execute_interactive("1 + 1", timeout=PATIENCE, output_hook=lambda _: None)
            self.ran = time.monotonic() - begun
        finally:
            client.stop_channels()

    def shut_down(self) -> JobStatus:
        """Shut it down; return how its job has ended."""
        job = open_job(list_jobs(limit=1)[0].id)
        self._manager.shutdown_kernel()
        return job.wait(PATIENCE)


def _kernel(folder: Path, **values: object) -> str:
    """Write the kernelspec of kernels on a cluster; return its name."""
    os.environ["JUPYTER_DATA_DIR"] = str(folder / "ours")
    os.environ["JUPYTER_RUNTIME_DIR"] = str(folder / "ours-runtime")
    return write_kernelspec(values).name


@contextmanager
def _gateway(folder: Path, rm: str | None) -> Iterator[Gateway]:
    gateway = Gateway(folder, rm)
    try:
        yield gateway
    finally:
        gateway.close()


def _until_free(rm: ResourceManager, begun: float) -> float:
    """Wait until the ResourceManager counts no GPU; return the seconds since a moment."""
    while any(
        any(map(gpus_of, rm.containers(app["id"]))) for app in rm.applications(states="RUNNING")
    ):
        time.sleep(0.02)
    return time.monotonic() - begun


def _figures(
    where: str,
    ran: tuple[list[float], list[float]],
    known: tuple[list[float], list[float]],
    target: str = "",
) -> list[Figure]:
    """Return both figures of a start; of what is known the first round is left out here."""
    return [
        Figure(
            what=f"{where}: a kernel is asked for → {what}",
            target=target,
            unit="s",
            ours=ours[-ROUNDS:],
            peers={"Enterprise Gateway": theirs[-ROUNDS:]},
        )
        for what, (ours, theirs) in (("kernel_info_reply", known), ("execute_reply", ran))
    ]


def local(folder: Path) -> list[Figure]:
    """Measure a kernel as a job of this machine beside the gateway's, which is a plain process."""
    with own_home(folder / "home", gpus=1), _gateway(folder, None) as gateway:
        name = _kernel(folder, cluster="local", gpus=1)
        known: tuple[list[float], list[float]] = ([], [])

        def mine() -> float:
            kernel = Started(name, folder)
            kernel.shut_down()
            known[0].append(kernel.known)
            return kernel.ran

        def theirs() -> float:
            info, ran, kernel = gateway.first_reply("gateway-local")
            gateway.delete(kernel)
            known[1].append(info)
            return ran

        ours, others = in_turn(ROUNDS, mine, theirs)
    return _figures("local", (ours, others), known)


_COLD = """
import sys
from pathlib import Path
from bench.kernels import Started
kernel = Started(sys.argv[1], Path.cwd())
kernel.shut_down()
print(kernel.known, kernel.ran)
"""


@contextmanager
def _both(folder: Path) -> Iterator[tuple[ResourceManager, Gateway, str]]:
    """Have YARN, the gateway, and a kernel of ours."""
    with on_yarn(folder):
        os.environ["SUBMARINE_YARN_IDLE"] = (
            "900"  # the gateway's turn takes minutes when all is busy
        )
        rm = ResourceManager(load_hadoop())
        with _gateway(folder, rm.url) as gateway:
            yield rm, gateway, _kernel(folder, cluster="yarn", gpus=1)


def yarn(folder: Path) -> list[Figure]:
    """Measure a warm kernel on YARN, and how soon its GPU is free, beside the gateway's.

    Warm is every kernel of a Jupyter server but its first: they share an application.
    """
    known: tuple[list[float], list[float]] = ([], [])
    freed: tuple[list[float], list[float]] = ([], [])
    with _both(folder) as (rm, gateway, name):

        def mine() -> float:
            kernel = Started(name, folder)
            known[0].append(kernel.known)
            begun = time.monotonic()
            kernel.shut_down()
            freed[0].append(_until_free(rm, begun))
            return kernel.ran

        def theirs() -> float:
            info, ran, kernel = gateway.first_reply("gateway-yarn")
            known[1].append(info)
            begun = time.monotonic()
            gateway.delete(kernel)
            freed[1].append(_until_free(rm, begun))
            return ran

        ours, others = in_turn(ROUNDS, mine, theirs)
    released = Figure(
        what="YARN: a kernel is shut down → its GPU is free",
        target="≤ 5 s",
        unit="s",
        ours=freed[0][-ROUNDS:],
        peers={"Enterprise Gateway": freed[1][-ROUNDS:]},
    )
    return [*_figures("YARN, warm", (ours, others), known, "≤ 0.3"), released]


def cold(folder: Path) -> list[Figure]:
    """Measure the first kernel of a Jupyter server, which starts the application."""
    known: tuple[list[float], list[float]] = ([], [])
    homes = count()
    with _both(folder) as (rm, gateway, name):

        def mine() -> float:
            home = {"SUBMARINE_HOME": str(folder / f"cold-{next(homes)}")}
            program = [sys.executable, "-c", _COLD, name]
            environment = {**os.environ, **home}
            done = subprocess.run(program, env=environment, check=True, stdout=subprocess.PIPE)
            info, ran = map(float, done.stdout.split())
            known[0].append(info)
            return ran

        def theirs() -> float:
            info, ran, kernel = gateway.first_reply("gateway-yarn")
            known[1].append(info)
            gateway.delete(kernel)
            _until_free(rm, 0.0)
            return ran

        ours, others = in_turn(ROUNDS, mine, theirs)
    return _figures("YARN, cold", (ours, others), known)
