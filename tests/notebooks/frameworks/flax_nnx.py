# Flax NNX: modules with state in place, an optimizer over them, dropout streams.

# %%
import jax
import jax.numpy as jnp
import optax
from flax import nnx

x = jax.random.normal(jax.random.key(1), (32, 4))
y = x.sum(axis=1, keepdims=True)


class Model(nnx.Module):
    def __init__(self, din, dmid, dout, rngs: nnx.Rngs):
        self.linear = nnx.Linear(din, dmid, rngs=rngs)
        self.bn = nnx.BatchNorm(dmid, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.linear_out = nnx.Linear(dmid, dout, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.dropout(self.bn(self.linear(x))))
        return self.linear_out(x)


# %%
model = Model(4, 8, 1, rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(0.01), wrt=nnx.Param)
metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))
linear = model.linear


@nnx.jit
def train_step(model, optimizer, metrics, x, y):
    def loss_fn(model):
        return ((model(x) - y) ** 2).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    metrics.update(loss=loss)
    optimizer.update(model, grads)
    return loss


# %% tags=["heavy"]
history = []
for _ in range(4):
    history.append(float(train_step(model, optimizer, metrics, x, y)))
print(history[0] > history[-1])

# %%
print(model.linear is linear, int(optimizer.step[...]), float(metrics.compute()["loss"]))
model.eval()
model(x[:2])

# %% tags=["heavy"]
model.train()
for _ in range(2):
    history.append(float(train_step(model, optimizer, metrics, x, y)))

# %%
print(len(history), int(optimizer.step[...]))
linear.kernel[...].sum()
