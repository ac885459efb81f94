# JAX and optax: pure functions, jit, parameters rebound by each step.

# %%
import jax
import jax.numpy as jnp
import optax

key = jax.random.PRNGKey(0)
X = jax.random.normal(key, (32, 3))
y = X @ jnp.array([1.0, -1.0, 2.0])


# %%
def init(key):
    k1, k2 = jax.random.split(key)
    return {"w": jax.random.normal(k1, (3,)), "b": jnp.zeros(())}


def loss_fn(params, X, y):
    return jnp.mean((X @ params["w"] + params["b"] - y) ** 2)


optimizer = optax.adam(0.1)
params = init(key)
opt_state = optimizer.init(params)


@jax.jit
def step(params, opt_state):
    loss, grads = jax.value_and_grad(loss_fn)(params, X, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


# %% tags=["heavy"]
losses = []
for i in range(5):
    params, opt_state, loss = step(params, opt_state)
    losses.append(float(loss))
print("loss", round(losses[-1], 4))

# %%
params, opt_state, loss = step(params, opt_state)
key, sub = jax.random.split(key)
len(losses), round(float(loss), 4), jax.tree.map(jnp.shape, params)
