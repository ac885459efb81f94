"""Several ranks on YARN, from the request to their code, beside tf-yarn, TonY and skein's command.

tf-yarn gets an environment of its own, made here, without TensorFlow: its part for any code
(``tf_yarn.distributed``) needs none. The interpreter is told to it as one that the nodes have, as
ours is, so that it packs and sends no environment; that would take it a minute more. Its client
looks at the application every 10 s; it is not waited for.

TonY is on no registry. ``BENCH_TONY`` names its jar, which docs/figures.md says how to build;
without one it is left out. skein's command, with containers that tell each other by files where
they are, is the least that such a peer takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import skein
from submarine_engine import Cell, Job, JobSpec, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster

from bench.table import Figure, in_turn
from bench.yarnlogs import on_yarn

RANKS = 4
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PATIENCE = 180.0
TONY = os.environ.get("BENCH_TONY", "")
"""The path of TonY's jar."""

_IN = """
import time
now = time.monotonic()
import os
tick = os.sysconf("SC_CLK_TCK")
began = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19]) / tick
aside = f"{os.environ['BENCH_FOLDER']}.{os.environ['RANK']}"
open(aside, "w").write(f"{now} {began}")
os.rename(aside, f"{os.environ['BENCH_FOLDER']}/{os.environ['RANK']}")
"""
"""Notes when it runs, and when its process began: both by the clock since the machine's start."""

_MEET = """
import os, sys, time
folder, ranks = sys.argv[1], int(sys.argv[2])
open(f"{folder}/at-{os.environ['SKEIN_CONTAINER_ID']}", "w").write(os.uname().nodename)
while len([name for name in os.listdir(folder) if name.startswith("at-")]) < ranks:
    time.sleep(0.02)
now = time.monotonic()
aside = f"{folder}.{os.environ['SKEIN_CONTAINER_ID']}"
open(aside, "w").write(f"{now} {now}")
os.rename(aside, f"{folder}/in-{os.environ['SKEIN_CONTAINER_ID']}")
"""

_TF_YARN = ("cluster-pack==0.3.19", "setuptools<81", "tensorboard", "grpcio<2", "protobuf<8")
_TF_CLIENT = """
import sys
from cluster_pack.packaging import PythonEnvDescription
from tf_yarn import client
from tf_yarn.distributed.client import run_on_yarn
from tf_yarn.topologies import NodeLabel, TaskSpec

folder, ranks = sys.argv[1], int(sys.argv[2])
here = PythonEnvDescription(__file__, sys.executable, "environment", False)
client._setup_pyenvs = lambda _: dict.fromkeys(NodeLabel, here)

def train(local_rank):
    import os, time
    from tf_yarn.distributed.task import get_task
    rank = get_task(local_rank).task_id
    now = time.monotonic()
    open(f"{folder}.{rank}", "w").write(f"{now} {now}")
    os.rename(f"{folder}.{rank}", f"{folder}/in-{rank}")

workers = TaskSpec(memory="512 MiB", vcores=1, instances=ranks)
run_on_yarn(train, {"worker": workers}, pyenv_zip_path="")
"""

_TONY_RANK = """
import time
now = time.monotonic()
import os, sys
me = f"{os.environ['JOB_NAME']}-{os.environ['TASK_INDEX']}"
open(f"{sys.argv[1]}.{me}", "w").write(f"{now} {now}")
os.rename(f"{sys.argv[1]}.{me}", f"{sys.argv[1]}/in-{me}")
"""


def _inside(told: Path, prefix: str) -> list[tuple[float, float]]:
    """Wait for what all ranks have noted; return it."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        paths = [path for path in told.iterdir() if path.name.startswith(prefix)]
        if len(paths) == RANKS:
            found = [path.read_text().split() for path in paths]
            return [(float(now), float(began)) for now, began in found]
        time.sleep(0.005)
    raise RuntimeError(f"the ranks have noted nothing in {told}")


class Ground:
    """Where the ranks of all rounds note when they are in their code.

    Parameters
    ----------
    folder
        Theirs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self.gates: list[float] = []
        """Last process begun → all in their code, of ours."""

    def _told(self) -> Path:
        made = self._folder / f"told-{next(self._numbers)}"
        made.mkdir()
        return made

    def ours(self, mode: str) -> float:
        """Submit as a notebook's cell is."""
        place = self._told()
        bundle = build(Cell(number=1, source=_IN), [], {})
        roles = (Role(count=RANKS, resources=Resources(gpus=0, memory=512)),)
        spec = JobSpec(
            name="bench",
            roles=roles,
            notebook="bench.ipynb",
            options={"mode": mode},
            env={"BENCH_FOLDER": str(place)},
        )
        cluster = open_cluster("yarn")
        begun = time.monotonic()
        job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
        found = _inside(place, "")
        job.wait()
        last = max(now for now, _ in found)
        self.gates.append(last - max(began for _, began in found))
        return last - begun

    def command(self) -> float:
        """Submit by skein's command."""
        place = self._told()
        program = self._folder / "meet.py"
        program.write_text(_MEET)
        service = skein.Service(
            instances=RANKS,
            resources=skein.Resources(memory="512 MiB", vcores=1),
            script=f"exec {sys.executable} {program} {place} {RANKS}",
        )
        spec = self._folder / f"{place.name}.yaml"
        spec.write_text(skein.ApplicationSpec(name="meet", services={"w": service}).to_yaml())
        words = [sys.executable, "-m", "skein.cli", "application", "submit", str(spec)]
        begun = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return max(now for now, _ in _inside(place, "in-")) - begun

    def tf_yarn(self) -> Callable[[], float]:
        """Install tf-yarn; return what submits by a program of its."""
        python = str(self._folder / "peer/bin/python")
        subprocess.run([sys.executable, "-m", "venv", self._folder / "peer"], check=True)
        pip = [python, "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "skein>=0.8.2,<0.9", *_TF_YARN], check=True)
        subprocess.run([*pip, "--no-deps", "tf-yarn==0.7.0"], check=True)
        program = self._folder / "tf_client.py"
        program.write_text(_TF_CLIENT)

        def submit() -> float:
            place = self._told()
            words = [python, str(program), str(place), str(RANKS)]
            begun = time.monotonic()
            with subprocess.Popen(
                words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as client:
                try:
                    return max(now for now, _ in _inside(place, "in-")) - begun
                finally:
                    client.kill()

        return submit

    def tony(self) -> float:
        """Submit by TonY's command, which waits for the job's end."""
        place = self._told()
        source = self._folder / f"{place.name}-source"
        source.mkdir()
        (source / "rank.py").write_text(_TONY_RANK)
        classes = subprocess.run(
            ["yarn", "classpath", "--glob"], capture_output=True, text=True, check=True
        )
        settings = {
            "worker.instances": str(RANKS),
            "worker.memory": "512m",
            "worker.gpus": "0",
            "ps.instances": "0",
            "am.memory": "512m",
            "task.executor.jvm.opts": "-Xmx256m",
            "application.framework": "pytorch",
            "application.security.enabled": "false",
            "history.intermediate": "/tmp/tony-history/intermediate",  # noqa: S108 - in HDFS
            "history.finished": "/tmp/tony-history/finished",  # noqa: S108 - likewise
        }
        conf = [
            word for name, value in settings.items() for word in ("--conf", f"tony.{name}={value}")
        ]
        words = [
            "java", "-Xmx256m", "-cp", f"{TONY}:{classes.stdout.strip()}",
            "com.linkedin.tony.cli.ClusterSubmitter", "--executes", "rank.py",
            "--task_params", str(place), "--src_dir", str(source),
            "--python_binary_path", sys.executable, *conf,
        ]  # fmt: skip
        begun = time.monotonic()
        subprocess.run(words, cwd=self._folder, capture_output=True, check=True)
        return max(now for now, _ in _inside(place, "in-")) - begun


def gang(folder: Path) -> list[Figure]:
    """Measure request → all ranks in their code, and last process begun → all in their code."""
    ground = Ground(folder)
    with on_yarn(folder):
        # Between two of ours the peers take minutes; a notebook's master is kept as long, too.
        os.environ["SUBMARINE_YARN_IDLE"] = "1800"
        peers = {
            "skein's command, containers that meet by files": ground.command,
            "tf-yarn 0.7.0": ground.tf_yarn(),
            **({"TonY 0.5.3": ground.tony} if TONY else {}),
        }
        ours = (lambda: ground.ours("cold"), lambda: ground.ours("warm"))
        *theirs, cold, warm = in_turn(ROUNDS, *peers.values(), *ours)
    beside = dict(zip(peers, theirs, strict=True))
    figures = [
        Figure(
            what=f"YARN: {RANKS} ranks, request → all in their code, {mode}",
            target="≤ 0.3 of tf-yarn, TonY",
            unit="s",
            ours=mine,
            peers=beside,
        )
        for mode, mine in (("warm", warm), ("cold", cold))
    ]
    gates = ground.gates[2:]  # as with the rest, a first round is not counted
    gate = Figure(
        what="last process begun → all in their code",
        target="≤ heartbeat + 0.5 s",
        unit="s",
        ours=gates,
        peers={"a heartbeat (0.2 s) and 0.5 s": [0.7] * len(gates)},
    )
    return [*figures, gate]
