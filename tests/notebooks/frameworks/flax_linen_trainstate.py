# Flax's MNIST example in linen: a TrainState with optax, jitted steps that read nothing global.
# varies: (state\.)?tx\b.*

# %%
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training import train_state

key = jax.random.PRNGKey(0)
x = jax.random.normal(key, (48, 5))
y = (x.sum(axis=1) > 0).astype(jnp.int32)


class MLP(nn.Module):
    hidden: int = 8

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(self.hidden)(x))
        return nn.Dense(2)(x)


# %%
model = MLP()
params = model.init(key, x[:1])["params"]
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(0.05, 20)))
state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)


@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


# %% tags=["heavy"]
losses = []
for epoch in range(4):
    state, loss = train_step(state, x, y)
    losses.append(float(loss))
print(losses[0] > losses[-1], int(state.step))

# %% tags=["heavy"]
for epoch in range(4):
    state, loss = train_step(state, x, y)

# %%
print(int(state.step), float(loss), jax.tree_util.tree_map(jnp.shape, state.params))
state.apply_fn({"params": state.params}, x[:2])
