# Keras models made by subclassing, with a train_step and a layer of one's own.

# %%
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(2)
x = np.random.rand(80, 4).astype("float32")
y = x.sum(1, keepdims=True)


# %%
class Linear(keras.layers.Layer):
    def __init__(self, units=4, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        self.w = self.add_weight(shape=(input_shape[-1], self.units), initializer="glorot_uniform")
        self.b = self.add_weight(shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        return keras.ops.matmul(inputs, self.w) + self.b


class CustomModel(keras.Model):
    def __init__(self, hidden):
        super().__init__()
        self.hidden = Linear(hidden)
        self.head = Linear(1)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.steps = 0

    def call(self, inputs):
        return self.head(keras.activations.relu(self.hidden(inputs)))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean((self(x, training=True) - y) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    @property
    def metrics(self):
        return [self.loss_tracker]


class Stop(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(round(logs["loss"], 5))


# %%
model = CustomModel(8)
model.compile(optimizer="adam")
hidden = model.hidden
stop = Stop()

# %% tags=["heavy"]
history = model.fit(x, y, epochs=2, batch_size=20, verbose=0, callbacks=[stop])
print(history.history["loss"][-1] < 10)

# %%
print(model.hidden is hidden, type(model) is CustomModel, stop.seen, stop.model is model)
print(len(model.weights), int(model.optimizer.iterations))
model(x[:2]).numpy().round(4)

# %% tags=["heavy"]
model.fit(x, y, epochs=2, batch_size=20, verbose=0, callbacks=[stop])

# %%
print(len(stop.seen), int(model.optimizer.iterations))
model.predict(x[:2], verbose=0).round(4)
