# Udacity's first project: a network of one's own in numpy, losses in a dict, a text that is overwritten.

# %%
import sys

import numpy as np
import pandas as pd


class NeuralNetwork(object):
    def __init__(self, n_in, n_hidden, lr):
        self.w1 = np.random.normal(0, n_in**-0.5, (n_in, n_hidden))
        self.w2 = np.random.normal(0, n_hidden**-0.5, (n_hidden, 1))
        self.lr = lr
        self.activation_function = lambda x: 1 / (1 + np.exp(-x))

    def train(self, X, y):
        hidden = self.activation_function(X @ self.w1)
        error = y[:, None] - hidden @ self.w2
        delta = (error @ self.w2.T) * hidden * (1 - hidden)
        self.w2 += self.lr * hidden.T @ error / len(X)
        self.w1 += self.lr * X.T @ delta / len(X)

    def run(self, X):
        return self.activation_function(X @ self.w1) @ self.w2


def MSE(y, Y):
    return np.mean((y - Y) ** 2)


# %%
np.random.seed(21)
data = pd.DataFrame(np.random.rand(60, 3), columns=["temp", "hum", "wind"])
data["cnt"] = data.temp * 2 - data.wind
for each in ["temp", "hum"]:
    mean, std = data[each].mean(), data[each].std()
    data.loc[:, each] = (data[each] - mean) / std
features, targets = data.drop(columns="cnt"), data["cnt"]

# %% tags=["heavy"]
iterations, learning_rate = 20, 0.5
network = NeuralNetwork(3, 4, learning_rate)
losses = {"train": [], "validation": []}
for ii in range(iterations):
    batch = np.random.choice(features.index, size=16)
    X, y = features.loc[batch].values, targets.loc[batch].values
    network.train(X, y)
    train_loss = MSE(network.run(features.values).T, targets.values)
    sys.stdout.write("\rProgress: {:2.1f}%".format(100 * ii / float(iterations)))
    sys.stdout.flush()
    losses["train"].append(train_loss)

# %%
network.train(X, y)
print(len(losses["train"]), ii, type(network) is NeuralNetwork, network.w2.sum().round(6))
np.random.choice(10, 3)
