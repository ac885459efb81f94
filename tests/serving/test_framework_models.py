"""Models of PyTorch, Keras and XGBoost, served for real: `make pytest-frameworks` has these."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from submarine_engine.errors import UnsupportedError
from submarine_engine.serving.launching import servings, wait

from tests.kernels import Driven
from tests.serving.conftest import ask

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(900)]

TORCH = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(5, 7), torch.nn.Linear(7, 2)
    def forward(self, x):
        return self.two(torch.relu(self.one(x)))
torch.manual_seed(1)
model = Net().eval()
with torch.no_grad():
    said = model(torch.tensor(x, dtype=torch.float32)).tolist()
"""
KERAS = """
import os
os.environ["KERAS_BACKEND"] = "{backend}"
import keras
import numpy as np
keras.utils.set_random_seed(3)
model = keras.Sequential([
    keras.Input((5,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)
])
said = model.predict(np.array(x, "float32"), verbose=0).tolist()
del os.environ["KERAS_BACKEND"]  # the model itself says which it needs
"""
BOOSTER = """
import numpy as np
import xgboost
rows = np.random.default_rng(1).normal(size=(200, 5))
data = xgboost.DMatrix(rows, label=(rows.sum(1) > 0).astype(int))
model = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 5)
said = model.predict(xgboost.DMatrix(np.array(x))).tolist()
"""
CLASSIFIER = """
import numpy as np
import xgboost
rows = np.random.default_rng(1).normal(size=(200, 5))
model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(rows, (rows.sum(1) > 0).astype(int))
said = model.predict(np.array(x)).tolist()
"""
MODELS = {
    "torch": TORCH,
    "keras-jax": KERAS.format(backend="jax"),
    "keras-torch": KERAS.format(backend="torch"),
    "booster": BOOSTER,
    "classifier": CLASSIFIER,
}
NEEDS = {"torch": "torch", "keras-jax": "keras", "keras-torch": "keras"}
X = [[0.5, -1.0, 2.0, 0.0, 1.5], [1.0, 0.25, -0.5, 3.0, -2.0], [0.0, 0.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_notebook_says_over_the_wire_what_it_says_there(home, name):
    if not find_spec(NEEDS.get(name, "xgboost")):
        pytest.skip("it is not installed: make pytest-frameworks")
    home.mkdir(mode=0o700)
    kernel = Driven(str(home))
    try:
        ran = kernel.run(f"x = {X}\n{MODELS[name]}")
        assert ran.reply["status"] == "ok", ran.error
        served = kernel.run(f"%submarine serve model --name {name} --server mlflow --detach")
        assert served.reply["status"] == "ok", served.error + served.stream("stderr")
        said = json.loads(str(kernel.value("said")))
    finally:
        kernel.stop()
    (one,) = servings()
    wait(one.record)  # such a package takes its time to be imported
    status, told = ask(one.record.address, {"inputs": X})
    assert status == 200, told
    found = np.array(told["predictions"])
    assert found.shape == np.array(said).shape
    np.testing.assert_allclose(found, said, rtol=1e-6)
    # The form of a request that is shown to try it has as many numbers as the model takes.
    assert one.record.takes.get("width") == (None if name == "torch" else 5)
    wrong = ask(one.record.address, {"inputs": [["no number"]]})
    assert wrong.status >= 400


KEEPS = """
import sys
from pathlib import Path
import numpy as np
exec(sys.argv[1])
from submarine_engine.serving.model import saved
import shutil
with saved(model) as folder:
    shutil.copytree(folder, sys.argv[2])
"""
LOADS = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[2]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from submarine_engine.serving.replica import load
try:
    load(sys.argv[1], "mlflow")
except Exception as error:
    print(f"{type(error).__name__}\\n{error}")
"""


@pytest.mark.parametrize(
    ("name", "missing"),
    [("torch", "torch"), ("keras-jax", "keras"), ("keras-jax", "jax"), ("booster", "xgboost")],
)
def test_what_a_model_needs_is_said_where_the_replica_lacks_it(tmp_path, name, missing):
    if not find_spec(missing):
        pytest.skip("it is not installed: make pytest-frameworks")
    path = str(tmp_path / "model")
    python = [sys.executable, "-W", "ignore", "-c"]
    subprocess.run([*python, KEEPS, f"x = {X}\n{MODELS[name]}", path], check=True)
    plain = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
    found = subprocess.run(
        [*python, LOADS, path, missing], capture_output=True, text=True, check=True, env=plain
    )
    kind, _, told = found.stdout.partition("\n")
    assert kind == UnsupportedError.__name__, found.stdout + found.stderr
    assert f"the model needs the package {missing}, which the job's Python does not have" in told
    assert f"pip install {missing}" in told
