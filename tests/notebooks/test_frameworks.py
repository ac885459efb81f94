"""Notebooks of the frameworks themselves, run plain and with their heavy cells as jobs.

They need an environment that has all of them: ``make pytest-frameworks``, as `make test-long` does.
"""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine import Job
from submarine_engine.bundle import Cell, build
from submarine_engine.bundle.capture import Capture
from submarine_engine.clusters import store
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.job import JobState, Resources, Role
from submarine_engine.post_mortem import open_post_mortem

from tests.jobs import spec_of, until
from tests.notebooks import percent
from tests.notebooks.same import told_apart

FOLDER = Path(__file__).parent / "frameworks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_as_if_its_cells_had_run_right_there(path, tmp_path):
    found = told_apart(percent.read(path), tmp_path)
    assert not found, "\n".join(map(str, found))


def test_no_gradient_goes_silently_without_what_another_process_computed():
    import torch

    weight = torch.ones(2, requires_grad=True)
    capture = Capture()
    capture.add("loss", (weight * 3).sum())
    [content] = capture.finish().files.values()
    loss = pickle.loads(content)  # noqa: S301 - of this very test
    assert repr(loss) == "tensor(6., grad_fn=<SumBackward0>)"
    with pytest.raises(RuntimeError, match=r"\(SumBackward0\) came here from another process"):
        (loss + weight.sum()).backward()
    weight.grad = None
    (loss.detach() + weight.sum()).backward()
    assert weight.grad.tolist() == [1, 1]


KILL = """
import os, signal
if step == int(os.environ.get("AT", -1)): os.kill(os.getpid(), signal.SIGKILL)
"""

TORCH = """
import torch
from submarine_runtime import job

torch.manual_seed(1)
net = torch.nn.Sequential(
    torch.nn.Linear(20, 30), torch.nn.BatchNorm1d(30), torch.nn.Dropout(0.3), torch.nn.Linear(30, 2)
)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 100)
drawer = torch.Generator().manual_seed(4)
mean = {name: value.clone() for name, value in net.state_dict().items()}
half = torch.zeros(5, dtype=torch.bfloat16)
state = dict(net=net, opt=opt, schedule=schedule, drawer=drawer, mean=mean, half=half)
first = net[0].weight
for step in job.steps(40, state, every=0):
    exec(KILL)
    x = torch.randn(16, 20, generator=drawer) + torch.randn(1)
    loss = torch.nn.functional.cross_entropy(net(x), (x.sum(1) > 0).long())
    opt.zero_grad(); loss.backward(); opt.step(); schedule.step()
    for name, value in net.state_dict().items(): mean[name] = 0.9 * mean[name] + 0.1 * value
    half += 0.25
assert first is net[0].weight is opt.param_groups[0]["params"][0]
print(step, loss.item(), half.tolist(), [v.double().sum().item() for v in mean.values()])
"""

KERAS = """
import keras
import numpy as np
from submarine_runtime import job

keras.utils.set_random_seed(3)
model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
for step in job.steps(12, {"model": model}, every=0):
    exec(KILL)
    x = np.random.normal(size=(8, 5)).astype("float32")
    model.train_on_batch(x, x.sum(1))
print(step, [w.tolist() for w in model.get_weights()], int(model.optimizer.iterations))
"""


XGBOOST = """
import numpy as np
import xgboost as xgb
from submarine_runtime import job

x = np.random.default_rng(1).normal(size=(200, 5))
data = xgb.DMatrix(x, label=(x.sum(1) > 0).astype(int))
params = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.3, "nthread": 1}
booster = xgb.Booster(params, [data])
for step in job.steps(12, {"booster": booster}, every=0):
    exec(KILL)
    booster.update(data, step)
print(step, booster.num_boosted_rounds(), booster.predict(data).astype(float).sum())
"""

FLAX = """
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training.train_state import TrainState
from submarine_runtime import job

model = nn.Dense(2)
params = model.init(jax.random.PRNGKey(0), jnp.ones((1, 5)))["params"]
chain = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.05))
state = {"train": TrainState.create(apply_fn=model.apply, params=params, tx=chain)}

@jax.jit
def train_step(train, x):
    def loss(params):
        return (train.apply_fn({"params": params}, x) ** 2).mean()
    return train.apply_gradients(grads=jax.grad(loss)(train.params))

for step in job.steps(12, state, every=0):
    exec(KILL)
    state["train"] = train_step(state["train"], jax.random.normal(jax.random.PRNGKey(step), (8, 5)))
train = state["train"]
print(step, int(train.step), jax.tree_util.tree_map(lambda a: a.tolist(), train.params))
"""


PROGRAMS = {"torch": TORCH, "keras": KERAS, "xgboost": XGBOOST, "flax": FLAX}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_killed_training_goes_on_as_if_it_had_not_been(program, run_at):
    whole = run_at(program, "whole")
    assert whole[0] == 0
    for at in (0, 7, 11):
        assert run_at(program, "killed", at) == (-signal.SIGKILL, "")
    assert run_at(program, "killed") == whole


@pytest.fixture
def run_at(tmp_path):
    """Return a function that runs a program, and kills it at a step; one place for checkpoints."""

    def run(program, place, at=-1):
        done = subprocess.run(
            [sys.executable, "-c", f"KILL = {KILL!r}\n{program}"],
            env={
                **os.environ,
                "AT": str(at),
                "SUBMARINE_CHECKPOINT_PATH": str(tmp_path / place),
                "CUDA_VISIBLE_DEVICES": "",
            },
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


# What loops by itself: the framework's own checkpoints, at `job.checkpoint_path()`.

KERAS_FIT = """
import keras
import numpy as np
from submarine_runtime import job

keras.utils.set_random_seed(3)
x = np.random.default_rng(1).normal(size=(64, 5)).astype("float32")
model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")

class Kill(keras.callbacks.Callback):
    def on_epoch_begin(self, step, logs=None):
        seen.append(step)
        exec(KILL, {"step": step})

seen = []
kept = keras.callbacks.BackupAndRestore(job.checkpoint_path())
model.fit(x, x.sum(1), epochs=6, shuffle=False, verbose=0, callbacks=[kept, Kill()])
print(seen[-1], [w.tolist() for w in model.get_weights()], int(model.optimizer.iterations))
with open(job.checkpoint_path() + "-begun", "w") as file: file.write(str(seen[0]))
"""

LIGHTNING = """
import logging, warnings
import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from submarine_runtime import job

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(7)

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(5, 1)
    def training_step(self, batch, index):
        return (self.layer(batch[0]) ** 2).mean()
    def on_train_epoch_start(self):
        seen.append(self.current_epoch)
        exec(KILL, {"step": self.current_epoch})
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)

seen = []
x = torch.utils.data.TensorDataset(torch.rand(64, 5))
kept = ModelCheckpoint(dirpath=job.checkpoint_path(), save_last=True)
trainer = L.Trainer(max_epochs=6, accelerator="cpu", logger=False, callbacks=[kept],
                    enable_progress_bar=False, enable_model_summary=False)
net = Net()
trainer.fit(net, torch.utils.data.DataLoader(x, batch_size=16), ckpt_path="last")
print(seen[-1], trainer.global_step, [p.tolist() for p in net.parameters()])
with open(job.checkpoint_path() + "-begun", "w") as file: file.write(str(seen[0]))
"""

HUGGING_FACE = """
import torch
from submarine_runtime import job
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

set_seed(42)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(5, 1)
    def forward(self, x, labels):
        out = self.layer(x).squeeze(-1)
        return {"loss": ((out - labels) ** 2).mean(), "logits": out}

class Kill(TrainerCallback):
    def on_epoch_begin(self, args, state, control, **more):
        seen.append(round(state.epoch or 0))
        exec(KILL, {"step": seen[-1]})

seen = []
x = torch.rand(64, 5)
data = [{"x": row, "labels": row.sum()} for row in x]
args = TrainingArguments(output_dir=job.checkpoint_path(), save_strategy="epoch",
                         num_train_epochs=6, per_device_train_batch_size=16, use_cpu=True,
                         report_to="none", disable_tqdm=True, logging_strategy="no",
                         dataloader_pin_memory=False)
net = Net()
trainer = Trainer(model=net, args=args, train_dataset=data, callbacks=[Kill()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(job.checkpoint_path()))
print("at", seen[-1], trainer.state.global_step, [p.tolist() for p in net.parameters()])
with open(job.checkpoint_path() + "-begun", "w") as file: file.write(str(seen[0]))
"""

OWN_LOOPS = {"keras": KERAS_FIT, "lightning": LIGHTNING, "huggingface": HUGGING_FACE}


@pytest.mark.parametrize("program", OWN_LOOPS.values(), ids=OWN_LOOPS)
def test_a_framework_goes_on_from_its_own_checkpoint(program, run_at, tmp_path):
    code, whole = run_at(program, "whole")
    assert code == 0
    assert run_at(program, "killed", 4)[0] == -signal.SIGKILL
    code, rest = run_at(program, "killed")
    assert code == 0
    assert (tmp_path / "killed-begun").read_text() == "4"
    assert rest.splitlines()[-1] == whole.splitlines()[-1]


WAITS = """
import torch, time
from submarine_runtime import job
from torch import distributed
distributed.init_process_group("gloo")
print("met", flush=True)

def stay_away():
    while True:
        time.sleep(0.1)

if job.rank == 1:
    stay_away()
distributed.all_reduce(torch.ones(10))
"""


def test_a_rank_that_does_not_join_the_others_is_named(tmp_path):
    cluster = LocalCluster(tmp_path / "home")
    role = Role(count=3, resources=Resources(gpus=0))
    spec = spec_of(roles=(role,), hang_after=3.0)
    bundle = build(Cell(number=4, source=WAITS), [], {})
    job = Job(cluster, cluster.submit(spec, bundle, workdir=tmp_path))
    try:
        odd = ": rank 1: In [4], line 10, in stay_away(): time.sleep(0.1); "
        others = "; ranks 0, 2: In [4], line 14 → all_reduce. It goes on"
        said = []

        def is_told():  # what imports for long may be warned of before
            said.append(job.status())
            text = said[-1].warning
            return said[-1].state.final or (odd in text and others in text)

        until(is_told, 300)
        assert said[-1].state is JobState.RUNNING
    finally:
        job.kill()
        job.wait(180)


OF_TORCH = """
import pandas, torch
import numpy as np
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(784, 10)
    def forward(self, batch):
        hidden = self.layer(batch)
        away = torch.empty(3, device="meta")  # nothing can be copied from there, as after an error
        half = torch.ones(2, 3, dtype=torch.bfloat16).T
        return hidden @ hidden
def train():
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    net.layer(torch.ones(1, 784)).sum().backward()
    optimizer.step()
    view = torch.zeros(300_000_000)[10:20]
    large = torch.zeros(50_000, 784)
    table = pandas.DataFrame({"a": range(3)})
    tall = pandas.DataFrame(np.zeros((2_000_000, 2)))
    return net(torch.ones(32, 784))
train()
"""
OF_KERAS = """
import jax, keras, numpy as np
def train():
    of_jax = jax.numpy.arange(5)
    layer = keras.layers.Dense(3)
    layer.build((None, 2))
    raise ValueError("of keras")
train()
"""


@pytest.fixture
def unhurried(monkeypatch):
    """Give a job time for all of its values, however busy the machine."""
    plan = store.task_plan

    def slow(*args, **options):
        return {**plan(*args, **options), "post_mortem": {"secrets": [], "seconds": 10.0}}

    monkeypatch.setattr(store, "task_plan", slow)


def fail(tmp_path, source):
    """Run a cell that fails; return its error and the locals of its frames by their function."""
    cluster = LocalCluster(tmp_path / "home")
    bundle = build(Cell(number=4, source=source), [], {})
    spec = spec_of(roles=(Role(resources=Resources(gpus=0)),))
    job = Job(cluster, cluster.submit(spec, bundle, workdir=tmp_path))
    assert job.wait(600).state is JobState.FAILED
    found = open_post_mortem(job)
    step, frames = found.traceback(own=True), {}
    while step is not None:
        frames[step.tb_frame.f_code.co_name] = step.tb_frame.f_locals
        step = step.tb_next
    size = (job.cluster.results(job.id) / "results" / "post-mortem.values").stat().st_size
    assert size < 64 << 20
    return found.title, frames


def test_what_the_frames_of_torch_held_is_there_afterwards(tmp_path, unhurried):
    title, frames = fail(tmp_path, OF_TORCH)
    assert "mat1 and mat2 shapes" in title
    inner, outer = frames["forward"], frames["train"]
    assert inner["batch"].shape == (32, 784)
    assert inner["hidden"].shape == (32, 10)
    assert (str(inner["half"].dtype), inner["half"].tolist()) == ("torch.bfloat16", [[1, 1]] * 3)
    assert "not kept" in repr(inner["away"])
    assert inner["self"].layer.weight.requires_grad
    assert outer["optimizer"].state_dict()["state"][0]["step"] == 1
    assert outer["view"].tolist() == [0] * 10
    assert (outer["large"].shape, tuple(outer["large"].head.shape)) == ((50_000, 784), (1, 784))
    assert outer["table"]["a"].tolist() == [0, 1, 2]
    assert (outer["tall"].shape, len(outer["tall"].head)) == ((2_000_000, 2), 100)


def test_what_the_frames_of_keras_and_jax_held_is_there_afterwards(tmp_path, unhurried):
    title, frames = fail(tmp_path, OF_KERAS)
    assert "ValueError: of keras" in title
    assert frames["train"]["of_jax"].tolist() == [0, 1, 2, 3, 4]
    assert "Dense" in repr(frames["train"]["layer"])
