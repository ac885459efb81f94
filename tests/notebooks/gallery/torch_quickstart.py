# PyTorch's quickstart: a model and an optimizer share parameters; the loop's cell is run twice.

# %%
import numpy as np

import like_torch as torch
from like_torch import CrossEntropyLoss, DataLoader, Linear, ReLU, Sequential, TensorDataset

np.random.seed(0)
X = np.random.randn(120, 4)
y = (X[:, 0] + X[:, 1] > 0).astype(int)
loader = DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True)

# %%
model = Sequential(Linear(4, 8), ReLU(), Linear(8, 2))
loss_fn = CrossEntropyLoss()
opt = torch.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []

# %% tags=["heavy"]
for epoch in range(3):
    for xb, yb in loader:
        opt.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        opt.step()
    losses.append(loss.item())
    print(f"epoch {epoch} loss {losses[-1]:.6f}")

# %% tags=["heavy"]
for epoch in range(3, 6):
    for xb, yb in loader:
        opt.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        opt.step()
    losses.append(loss.item())
    print(f"epoch {epoch} loss {losses[-1]:.6f}")

# %%
opt.zero_grad()
loss_fn(model(X), y).backward()
opt.step()
accuracy = float((model(X).argmax(1) == y).mean())
print(accuracy, len(losses), opt.param_groups[0]["params"][0] is model.parameters()[0])
