"""Likewise with the frameworks that are there: `make pytest-frameworks` has all of them."""

from importlib.util import find_spec

import pytest

from tests.notebooks.reruns import run_again

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(900)]

DATA = """
x = np.random.normal(size=(256, 20)).astype("float32") * scale
y = (x.sum(1) > 0).astype("int64")
seed = of_the_notebook.draw()
"""

TORCH = """
import torch
torch.manual_seed(seed)
data = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
net = torch.nn.Sequential(
    torch.nn.Linear(20, of_the_notebook.WIDTH), torch.nn.Dropout(0.3), torch.nn.ReLU(),
    torch.nn.Linear(of_the_notebook.WIDTH, 2),
)
opt = torch.optim.Adam(net.parameters())
for epoch in range(3):
    for rows, labels in torch.utils.data.DataLoader(data, batch_size=32, shuffle=True):
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(rows), labels).backward()
        opt.step()
trained = [value.detach().numpy().tobytes() for value in net.state_dict().values()]
"""

KERAS = """
import keras
keras.utils.set_random_seed(seed)
net = keras.Sequential([
    keras.Input((20,)), keras.layers.Dense(of_the_notebook.WIDTH, activation="relu"),
    keras.layers.Dropout(0.3), keras.layers.Dense(2, activation="softmax"),
])
net.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
net.fit(x, y, epochs=3, verbose=0)
trained = [value.tobytes() for value in net.get_weights()]
"""

FLAX = """
import jax, optax
from flax import linen as nn
key, drawn = jax.random.split(jax.random.PRNGKey(seed))
net = nn.Sequential([nn.Dense(of_the_notebook.WIDTH), nn.relu, nn.Dense(2)])
held = net.init(key, x)
opt = optax.adam(1e-2)
kept = opt.init(held)
@jax.jit
def step(held, kept, rows, labels):
    def loss(held):
        told = optax.softmax_cross_entropy_with_integer_labels(net.apply(held, rows), labels)
        return told.mean()
    changes, kept = opt.update(jax.grad(loss)(held), kept)
    return optax.apply_updates(held, changes), kept
for at in range(20):
    chosen = jax.random.choice(jax.random.fold_in(drawn, at), len(x), (32,))
    held, kept = step(held, kept, x[chosen], y[chosen])
trained = [np.asarray(value).tobytes() for value in jax.tree_util.tree_leaves(held)]
"""

XGBOOST = """
import xgboost
params = {"objective": "binary:logistic", "max_depth": of_the_notebook.WIDTH, "seed": seed,
          "subsample": 0.5, "colsample_bytree": 0.5}
trained = bytes(xgboost.train(params, xgboost.DMatrix(x, label=y), 10).save_raw("ubj"))
"""

LIGHTGBM = """
import lightgbm
params = {"objective": "binary", "num_leaves": of_the_notebook.WIDTH, "seed": seed, "verbose": -1,
          "bagging_fraction": 0.5, "bagging_freq": 1, "deterministic": True, "force_row_wise": True}
trained = lightgbm.train(params, lightgbm.Dataset(x, y), 10).model_to_string()
"""

PROGRAMS = {"torch": TORCH, "keras": KERAS, "flax": FLAX, "xgboost": XGBOOST, "lightgbm": LIGHTGBM}
THERE = {name: program for name, program in PROGRAMS.items() if find_spec(name)}


@pytest.mark.parametrize("program", THERE.values(), ids=THERE)
def test_a_training_run_once_more_gives_the_same_bytes(program, tmp_path):
    first, again, other = run_again(tmp_path, DATA + program)
    assert again == first
    assert other != first
