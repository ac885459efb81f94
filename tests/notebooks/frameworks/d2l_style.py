# Dive into Deep Learning: classes that grow from cell to cell, a trainer of one's own.
# varies: warnings

# %%
import inspect

import torch
from torch import nn


def add_to_class(Class):
    """Register functions as methods in created class."""

    def wrapper(obj):
        setattr(Class, obj.__name__, obj)

    return wrapper


class HyperParameters:
    def save_hyperparameters(self, ignore=()):
        frame = inspect.currentframe().f_back
        _, _, _, local_vars = inspect.getargvalues(frame)
        self.hparams = {
            k: v
            for k, v in local_vars.items()
            if k not in {*ignore, "self", "__class__"} and not k.startswith("_")
        }
        for k, v in self.hparams.items():
            setattr(self, k, v)


# %%
class Module(nn.Module, HyperParameters):
    def __init__(self):
        super().__init__()

    def training_step(self, batch):
        return self.loss(self(*batch[:-1]), batch[-1])


class LinearRegression(Module):
    def __init__(self, lr):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.LazyLinear(1)


# %%
@add_to_class(LinearRegression)
def forward(self, X):
    return self.net(X)


@add_to_class(LinearRegression)
def loss(self, y_hat, y):
    fn = nn.MSELoss()
    return fn(y_hat, y)


@add_to_class(LinearRegression)
def configure_optimizers(self):
    return torch.optim.SGD(self.parameters(), self.lr)


# %%
class Trainer(HyperParameters):
    def __init__(self, max_epochs):
        self.save_hyperparameters()


@add_to_class(Trainer)
def fit(self, model, data):
    self.model, self.data = model, data
    self.optim = model.configure_optimizers()
    self.losses = []
    for self.epoch in range(self.max_epochs):
        self.fit_epoch()


@add_to_class(Trainer)
def fit_epoch(self):
    for batch in self.data:
        loss = self.model.training_step(batch)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
    self.losses.append(loss.item())


# %%
torch.manual_seed(0)
w, b = torch.tensor([2.0, -3.4]), 4.2
X = torch.randn(80, 2)
y = (X @ w + b + 0.01 * torch.randn(80)).reshape(-1, 1)
data = [(X[i : i + 16], y[i : i + 16]) for i in range(0, 80, 16)]
model = LinearRegression(lr=0.1)
trainer = Trainer(max_epochs=3)

# %% tags=["heavy"]
trainer.fit(model, data)

# %%
print(trainer.model is model, trainer.losses, trainer.epoch, model.hparams)
model.net.weight.data, model.net.bias.data

# %% tags=["heavy"]
trainer.max_epochs = 2
trainer.fit(model, data)

# %%
w_hat = model.net.weight.data.reshape(w.shape)
w - w_hat
