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
from submarine_engine.bundle.capture import Capture

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


@pytest.mark.parametrize("program", [TORCH, KERAS], ids=["torch", "keras"])
def test_a_killed_training_goes_on_as_if_it_had_not_been(program, tmp_path):
    def run(place, at=-1):
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

    whole = run("whole")
    assert whole[0] == 0
    for at in (0, 7, 11):
        assert run("killed", at) == (-signal.SIGKILL, "")
    assert run("killed") == whole
