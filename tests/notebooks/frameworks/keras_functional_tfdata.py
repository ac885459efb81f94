# The functional API with two inputs, tf.data pipelines, checkpoints and a schedule.

# %%
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(1)
titles = np.random.rand(64, 6).astype("float32")
tags = np.random.randint(0, 2, (64, 4)).astype("float32")
labels = (titles.sum(1) > 3).astype("float32")[:, None]

# %%
title_in = keras.Input((6,), name="title")
tags_in = keras.Input((4,), name="tags")
x = keras.layers.concatenate([keras.layers.Dense(8, activation="relu")(title_in), tags_in])
out = keras.layers.Dense(1, activation="sigmoid", name="out")(x)
model = keras.Model([title_in, tags_in], out)
schedule = keras.optimizers.schedules.ExponentialDecay(0.05, 10, 0.9)
model.compile(keras.optimizers.RMSprop(schedule), "binary_crossentropy", metrics=["accuracy"])


# %%
def scale(inputs, label):
    return {**inputs, "title": inputs["title"] * 2.0}, label


train_ds = (
    tf.data.Dataset.from_tensor_slices(({"title": titles, "tags": tags}, labels))
    .map(scale)
    .batch(16)
    .prefetch(1)
)
val_ds = tf.data.Dataset.from_tensor_slices(({"title": titles, "tags": tags}, labels)).batch(32)

# %% tags=["heavy"]
history = model.fit(
    train_ds,
    validation_data=val_ds,
    epochs=2,
    verbose=0,
    callbacks=[keras.callbacks.ModelCheckpoint("best.keras", save_best_only=True)],
)
print({k: np.round(v, 5).tolist() for k, v in history.history.items()})
print(keras.models.load_model("best.keras").count_params())
os.remove("best.keras")  # an archive, with the time in it

# %%
loss, accuracy = model.evaluate(val_ds, verbose=0)
for inputs, label in train_ds.take(1):
    print(inputs["title"].shape, label.shape)
round(loss, 5), round(accuracy, 5)
