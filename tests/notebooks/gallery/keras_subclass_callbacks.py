# A model of one's own class, callbacks with state, early stopping.

# %%
import numpy as np
import like_keras as keras
from like_keras import Callback, Dense, EarlyStopping

rng = np.random.RandomState(8)
X = rng.rand(64, 2)
y = X.sum(1, keepdims=True)
np.random.seed(8)


# %%
class Wide(keras.Model):
    def __init__(self, units):
        super().__init__()
        self.hidden = Dense(units, activation="relu")
        self.out = Dense(1)
        self.layers = [self.hidden, self.out]
        n = 2
        for layer in self.layers:
            n = layer.build(n)

    def call(self, x):
        return self.out.forward(self.hidden.forward(x))


class Best(Callback):
    def __init__(self):
        self.losses = []
        self.weights = None

    def on_epoch_end(self, epoch, logs):
        self.losses.append(logs["loss"])
        if logs["loss"] == min(self.losses):
            self.weights = [w.copy() for w in self.model.get_weights()]


# %%
model = Wide(6)
model.compile(lr=0.05)
best, stop = Best(), EarlyStopping(patience=2)

# %% tags=["heavy"]
history = model.fit(X, y, epochs=15, callbacks=[best, stop], verbose=0)

# %%
print(len(best.losses), stop.stopped_epoch, best.model is model, stop.model is model)
for w, kept in zip(model.get_weights(), best.weights):
    w[...] = kept
print(round(model.evaluate(X, y), 8), type(model).__name__)
