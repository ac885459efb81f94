# The training loop in a function of an earlier cell; the best weights are kept beside the model.

# %%
import copy

import numpy as np

from like_torch import MSELoss, Linear, Module, SGD, StepLR

rng = np.random.default_rng(3)
X = rng.normal(size=(64, 3))
Y = X @ np.array([[1.0], [-2.0], [0.5]]) + 0.1


# %%
class Regressor(Module):
    """One layer, with a counter of its calls."""

    def __init__(self, n):
        super().__init__()
        self.fc = Linear(n, 1)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return self.fc(x)


np.random.seed(1)
net = Regressor(3)
optimizer = SGD(net.parameters(), lr=0.05)
scheduler = StepLR(optimizer, step_size=5, gamma=0.5)
best_net = net
models = {"net": net, "optimizer": optimizer}


# %%
def train(model, epochs):
    best, weights = float("inf"), None
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = MSELoss()(model(X), Y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if loss.item() < best:
            best, weights = loss.item(), copy.deepcopy(model.state_dict())
    return best, weights


# %% tags=["heavy"]
best_loss, best_weights = train(net, epochs=12)
print(round(best_loss, 6))

# %%
print(best_net is net, models["net"] is net, scheduler.optimizer is optimizer)
print(net.steps, scheduler.last_epoch, optimizer.param_groups[0]["lr"])
net.load_state_dict(best_weights)
best_net.fc.bias.data.round(6)

# %% tags=["heavy"]
second = Regressor(3)
second.load_state_dict(net.state_dict())
train(net, epochs=2)

# %%
type(second) is Regressor, net.steps
