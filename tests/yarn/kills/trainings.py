"""Trainings of several tasks to be killed: digits, by each framework, in steps that tests can see.

A script of `SCRIPTS` runs in each task of a job, and alone in a plain process: there it is what the
job's result is held to. It writes a line for each step into a folder of the test, and what it has
learnt at its end.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from typing import NamedTuple

from submarine_engine import Job
from submarine_engine.clusters.store import read_events
from submarine_engine.events import Retried
from submarine_engine.job import Resources, Role

from tests.jobs import bundle_of, spec_of, until

from .ground import Running, kill

STEPS = 24
HELD = 10
"""The step at which the victim waits in the first attempt, while the others wait for it."""

PATIENCE = 420.0
"""Seconds: four processes import TensorFlow on a busy machine, twice."""

_SHARED = """
import os
import pickle
import time
from pathlib import Path

os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", OMP_NUM_THREADS="1", JAX_PLATFORMS="cpu")

import numpy as np
from sklearn.datasets import load_digits
from submarine_runtime import checkpoints, job

PLACE, VICTIM, STEPS, HELD = {settings!r}
digits = load_digits()
pixels = (digits.data / 16).astype("float32")[:1792]
labels = digits.target.astype("int64")[:1792]
first = np.random.default_rng(0)
begin = {{
    "hidden": first.normal(0, 0.1, (64, 32)).astype("float32"),
    "last": first.normal(0, 0.1, (32, 10)).astype("float32"),
}}
me = job.task() or "worker-0"


def mark(step):
    # One line a step, while its file is whole; the victim waits to be killed.
    with open(f"{{PLACE}}/{{me}}.{{job.attempt}}", "a") as file:
        file.write(f"{{step}} {{os.getpid()}} {{time.time()}}\\n")
    if step == HELD and me == VICTIM and job.attempt == 1:
        while not os.path.exists(f"{{PLACE}}/go") and not (
            os.path.exists(f"{{PLACE}}/go-asked") and checkpoints.notice.given
        ):
            time.sleep(0.02)


def rows(step):
    # What all ranks take in this step, and of that what is this one's.
    batch = np.random.default_rng(step).permutation(len(pixels))[:256]
    return batch, batch[job.rank :: job.world_size]


def learnt(value):
    if job.rank == 0:
        with open(f"{{PLACE}}/learnt.new", "wb") as file:
            pickle.dump(value, file)
        os.replace(f"{{PLACE}}/learnt.new", f"{{PLACE}}/learnt")
    return value
"""

_TORCH = """
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
together = model
if job.world_size > 1:
    distributed.init_process_group("gloo")
    together = DistributedDataParallel(model)
for step in job.steps(STEPS, {"model": model, "optimizer": optimizer}, every=0):
    mark(step)
    batch = torch.randperm(1792)[:256][job.rank :: job.world_size]
    scores = together(torch.tensor(pixels)[batch])
    loss = nn.functional.cross_entropy(scores, torch.tensor(labels)[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if job.world_size > 1:
    distributed.destroy_process_group()
learnt([value.detach().numpy() for value in model.parameters()])
"""

_JAX = """
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

if job.world_size > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("rows",))
spread, everywhere = (NamedSharding(mesh, PartitionSpec(*one)) for one in (["rows"], []))


def loss(weights, x, y):
    scores = jax.nn.log_softmax(jax.nn.relu(x @ weights["hidden"]) @ weights["last"])
    return -jnp.mean(jnp.take_along_axis(scores, y[:, None], 1))


@jax.jit
def update(weights, x, y):
    return jax.tree.map(lambda w, slope: w - 0.5 * slope, weights, jax.grad(loss)(weights, x, y))


state = {"weights": begin}
for step in job.steps(STEPS, state, every=0):
    mark(step)
    _, mine = rows(step)
    x = jax.make_array_from_process_local_data(spread, pixels[mine])
    y = jax.make_array_from_process_local_data(spread, labels[mine])
    weights = {
        name: jax.make_array_from_process_local_data(everywhere, value)
        for name, value in state["weights"].items()
    }
    after = update(weights, x, y)
    state["weights"] = {name: np.array(v.addressable_data(0)) for name, v in after.items()}
learnt(list(state["weights"].values()))
"""

_XGBOOST = """
from contextlib import nullcontext

import xgboost

several = job.world_size > 1
parameters = {"objective": "multi:softprob", "num_class": 10, "max_depth": 3, "nthread": 1}
mine = slice(job.rank, None, job.world_size)
with xgboost.collective.CommunicatorContext(**job.xgboost()) if several else nullcontext():
    matrix = xgboost.DMatrix(pixels[mine], labels[mine])
    booster = xgboost.Booster(parameters, [matrix])
    for step in job.steps(STEPS, {"booster": booster}, every=0):
        mark(step)
        booster.update(matrix, step)
learnt([booster.predict(xgboost.DMatrix(pixels))])
"""

_TF_WORKERS = """
import tensorflow as tf

several = job.world_size > 1
tf.config.threading.set_intra_op_parallelism_threads(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy() if several else tf.distribute.get_strategy()
with strategy.scope():
    hidden, last = (tf.Variable(begin[name]) for name in ("hidden", "last"))


def one(x, y):
    with tf.GradientTape() as tape:
        scores = tf.nn.relu(x @ hidden) @ last
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, scores))
    slopes = tape.gradient(loss, [hidden, last])
    slopes = tf.distribute.get_replica_context().all_reduce("mean", slopes)
    hidden.assign_sub(0.5 * slopes[0])
    last.assign_sub(0.5 * slopes[1])


@tf.function
def update(x, y):
    strategy.run(one, args=(x, y))


state = {"hidden": begin["hidden"], "last": begin["last"]}
for step in job.steps(STEPS, state, every=0):
    mark(step)
    hidden.assign(state["hidden"])
    last.assign(state["last"])
    _, mine = rows(step)
    update(tf.constant(pixels[mine]), tf.constant(labels[mine]))
    state.update(hidden=hidden.numpy(), last=last.numpy())
learnt([state["hidden"], state["last"]])
"""

_TF_PS = """
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
several = "TF_CONFIG" in os.environ
if several:
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if job.role in ("worker", "ps") and several:
    mark(-1)
    server = tf.distribute.Server(
        cluster.cluster_spec(), job_name=job.role, task_index=job.index, protocol="grpc"
    )
    server.join()
strategy = tf.distribute.get_strategy()
if several:
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    hidden, last = (tf.Variable(begin[name]) for name in ("hidden", "last"))
    done = tf.Variable(0, dtype=tf.int64)
kept = tf.train.CheckpointManager(
    tf.train.Checkpoint(hidden=hidden, last=last, done=done), job.checkpoint_path() or PLACE, 2
)
kept.restore_or_initialize()


@tf.function
def update():
    def one():
        with tf.GradientTape() as tape:
            scores = tf.nn.relu(tf.constant(pixels) @ hidden) @ last
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant(labels), scores)
            loss = tf.reduce_mean(loss)
        slopes = tape.gradient(loss, [hidden, last])
        hidden.assign_sub(0.25 * slopes[0])
        last.assign_sub(0.25 * slopes[1])

    strategy.run(one)


for step in range(int(done.numpy()), STEPS):
    mark(step)
    for _ in range(4):
        coordinator.schedule(update) if several else update()
    if several:
        coordinator.join()
    done.assign_add(1)
    kept.save()
learnt([hidden.numpy(), last.numpy()])
"""

SCRIPTS = {
    "torch": _TORCH,
    "jax": _JAX,
    "xgboost": _XGBOOST,
    "tf-workers": _TF_WORKERS,
    "tf-ps": _TF_PS,
}


class Marked(NamedTuple):
    """A step that a task has begun."""

    step: int
    pid: int
    at: float


class Training(Running):
    """A job of a test that trains in several tasks.

    Parameters
    ----------
    framework
        Which of `SCRIPTS`.
    victim
        The task that waits at step `HELD` of the first attempt; empty for none.
    options
        Of the job.
    """

    def __init__(self, ground, framework, victim="", roles=None, gpus=1, **options) -> None:
        self.name = options.get("name", framework)
        self.place = ground.folder / f"training-{len(ground.jobs)}"
        self.place.mkdir()
        each = Resources(gpus=gpus, memory=1536, vcores=1)
        counts = roles or {"worker": 2}
        spec = spec_of(
            roles=tuple(
                Role(name=name, count=count, resources=replace(each, gpus=gpus * (name != "ps")))
                for name, count in counts.items()
            ),
            notebook=str(ground.folder.parent / "trainings.ipynb"),
            options={"mode": options.pop("mode", "warm")},
            **options,
        )
        script = script_of(framework, self.place, victim)
        job_id = ground.seam.submit(spec, bundle_of(script), workdir=ground.folder)
        super().__init__(ground, Job(ground.seam, job_id), self.place)
        ground.jobs.append(self)

    def marks(self, task, attempt=1):
        """Return the steps that a task has begun in an attempt."""
        path = self.place / f"{task}.{attempt}"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        fields = (line.split() for line in lines)
        return [Marked(int(step), int(pid), float(at)) for step, pid, at in fields]

    def until_at(self, task, step, attempt=1):
        """Wait until a task has begun a step, and return its mark."""

        def there():
            found = [mark for mark in self.marks(task, attempt) if mark.step >= step]
            status = self.job.status()
            assert found or not status.state.final, status.reason
            return found

        return until(there, PATIENCE)[0]

    def until_over(self):
        """Wait for the end, and return how it was."""
        return self.job.wait(PATIENCE)

    @property
    def learnt(self):
        return pickle.loads((self.place / "learnt").read_bytes())  # noqa: S301 - of this very test

    @property
    def told(self):
        """What the job was begun again for."""
        events = read_events(self.ground.paths(self).events)[0]
        return [event for event, _ in events if isinstance(event, Retried)]

    def node_of(self, task):
        """Return the daemon of the node that runs a task."""
        return self.ground.node_at(self.noted["containers"][task][1])

    def kill_node(self, task, attempt=1):
        """Kill the node of a task, and all tasks that run there; return when."""
        node = self.node_of(task)
        node.kill()
        at = time.time()
        for name in self.noted["containers"]:
            if self.node_of(name).name == node.name and (marks := self.marks(name, attempt)):
                kill(marks[-1].pid)
        return node, at


def script_of(framework, place, victim=""):
    shared = _SHARED.format(settings=(str(place), victim, STEPS, HELD))
    return shared + SCRIPTS[framework]


def train_alone(framework, place):
    """Train in a plain process, and return what it has learnt."""
    place.mkdir()
    script = place / "script.py"
    script.write_text(script_of(framework, place))
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SUBMARINE_")}
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**clean, "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return pickle.loads((place / "learnt").read_bytes())  # noqa: S301 - of this very test
