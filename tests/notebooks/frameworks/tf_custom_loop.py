# TensorFlow's quickstart for experts: a loop by hand with a tape, variables, a tf.function.

# %%
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import tensorflow as tf

tf.random.set_seed(3)
X = tf.random.normal((64, 3))
y = tf.reduce_sum(X, axis=1, keepdims=True)
w = tf.Variable(tf.zeros((3, 1)), name="w")
b = tf.Variable(0.0, name="b")
step = tf.Variable(0, dtype=tf.int64)
params = [w, b]
dataset = tf.data.Dataset.from_tensor_slices((X, y)).shuffle(64, seed=1).batch(16)

# %%
loss_object = tf.keras.losses.MeanSquaredError()
train_loss = tf.keras.metrics.Mean(name="train_loss")


@tf.function
def train_step(xb, yb):
    with tf.GradientTape() as tape:
        loss = loss_object(yb, xb @ w + b)
    grads = tape.gradient(loss, params)
    for p, g in zip(params, grads):
        p.assign_sub(0.1 * g)
    step.assign_add(1)
    train_loss(loss)


# %% tags=["heavy"]
for epoch in range(3):
    for xb, yb in dataset:
        train_step(xb, yb)
last = train_loss.result()

# %%
print(params[0] is w, int(step), w.numpy().round(4).tolist(), round(float(b), 5))
print(round(float(train_loss.result()), 5), xb.shape)
tf.reduce_mean((X @ w + b - y) ** 2).numpy().round(5)
