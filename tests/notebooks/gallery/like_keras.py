"""A stand-in for Keras in plain numpy: layers, `compile`, `fit` with a bar and a `History`."""

import sys

import numpy as np


class Layer:
    def build(self, n_in):
        return n_in


class Dense(Layer):
    def __init__(self, units, activation=None):
        self.units, self.activation = units, activation
        self.kernel = self.bias = None

    def build(self, n_in):
        self.kernel = np.random.uniform(-1, 1, (n_in, self.units)) * np.sqrt(3 / n_in)
        self.bias = np.zeros(self.units)
        return self.units

    def forward(self, x):
        self._x = np.array(x)
        out = x @ self.kernel + self.bias
        self._mask = out > 0 if self.activation == "relu" else np.ones_like(out)
        return out * self._mask

    def backward(self, grad, lr):
        grad = grad * self._mask
        back = grad @ self.kernel.T
        self.kernel -= lr * self._x.T @ grad
        self.bias -= lr * grad.sum(0)
        return back


class Callback:
    model = None

    def on_epoch_end(self, epoch, logs):
        pass


class EarlyStopping(Callback):
    def __init__(self, patience=1):
        self.patience, self.best, self.wait = patience, float("inf"), 0
        self.stopped_epoch = 0

    def on_epoch_end(self, epoch, logs):
        if logs["loss"] < self.best - 1e-3:
            self.best, self.wait = logs["loss"], 0
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True


class History(Callback):
    def __init__(self):
        self.epoch, self.history = [], {}

    def on_epoch_end(self, epoch, logs):
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)


class Model:
    def __init__(self):
        self.stop_training = False

    def compile(self, lr=0.1, loss="mse"):
        self.lr, self.loss = lr, loss

    def _pass(self, x, y, train):
        out = self.call(x)
        grad = 2 * (out - y) / len(x)
        if train:
            for layer in reversed(self.layers):
                grad = layer.backward(grad, self.lr)
        return float(((out - y) ** 2).mean())

    def fit(self, x, y, epochs=1, batch_size=32, callbacks=(), verbose=1):
        self.history = History()
        self.stop_training = False
        every = [self.history, *callbacks]
        for callback in every:
            callback.model = self
        for epoch in range(epochs):
            losses = []
            if verbose:
                print(f"Epoch {epoch + 1}/{epochs}")
            for start in range(0, len(x), batch_size):
                losses.append(
                    self._pass(x[start : start + batch_size], y[start : start + batch_size], True)
                )
                if verbose:
                    sys.stdout.write(
                        f"\r{len(losses)}/{-(-len(x) // batch_size)} - loss: {np.mean(losses):.4f}"
                    )
            if verbose:
                print()
            for callback in every:
                callback.on_epoch_end(epoch, {"loss": float(np.mean(losses))})
            if self.stop_training:
                break
        return self.history

    def evaluate(self, x, y, verbose=0):
        return self._pass(x, y, False)

    def predict(self, x):
        return self.call(x)

    def get_weights(self):
        return [w for layer in self.layers for w in (layer.kernel, layer.bias)]


class Sequential(Model):
    def __init__(self, layers, n_in):
        super().__init__()
        self.layers = list(layers)
        for layer in self.layers:
            n_in = layer.build(n_in)

    def call(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def summary(self):
        for layer in self.layers:
            print(f"{type(layer).__name__:10} {layer.kernel.size + layer.bias.size:6}")
