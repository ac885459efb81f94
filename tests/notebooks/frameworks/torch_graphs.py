# Losses that one cell computes and others log, features whose gradient is kept, running sums.

# %%
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
x = torch.randn(8, 3)
loss = model(x).pow(2).mean()
running = torch.zeros(())
log = [loss]

# %% tags=["heavy"]
print(loss, round(loss.item(), 5))
running += loss
log.append(loss)
features = model(x)
features.retain_grad()
features.sum().backward()
with torch.no_grad():
    best = min(loss, running)

# %%
print(loss, log[1] is log[0], loss.grad_fn is not None)
print(running, running.requires_grad, running.is_leaf)
print(features.grad.shape, features.retains_grad, features.grad.sum())
print(float(features.detach().mean()) == float(features.mean()))

# %%
model.zero_grad()
loss.backward()
print(model.weight.grad)

# %% tags=["heavy"]
running.detach_()
running += 1
features = features * 2

# %%
print(running, running.requires_grad, features[0])
