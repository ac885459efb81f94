# A loader's iterator is made in one cell and read in the job; it is made again there.

# %%
import numpy as np

from like_torch import DataLoader, Linear, TensorDataset

np.random.seed(2)
data = TensorDataset(np.arange(12.0).reshape(6, 2), np.arange(6))
loader = DataLoader(data, batch_size=3)
layer = Linear(2, 2)

# %%
batches = iter(loader)

# %% tags=["heavy"]
xb, yb = next(iter(loader))
out = layer(xb)
print(xb.shape, yb)

# %%
xb, yb = next(batches)
print(yb, out.data.shape)
