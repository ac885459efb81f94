# fastai: a learner holds the model, the optimizer and callbacks that hold the learner.

# %%
import numpy as np

from like_fastai import Callback, Learner
from like_torch import DataLoader, Linear, ReLU, Sequential, TensorDataset

np.random.seed(6)
x = np.random.randn(40, 3)
y = (x.sum(1) > 0).astype(int)
dls = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)
model = Sequential(Linear(3, 5), ReLU(), Linear(5, 2))


# %%
class Stats(Callback):
    def before_fit(self):
        self.norms = []

    def after_epoch(self):
        self.norms.append(float(np.abs(self.learn.model.parameters()[0].data).sum()))


stats = Stats()
learn = Learner(dls, model, cbs=[stats])

# %% tags=["heavy"]
learn.fit(2)

# %%
print(learn.model is model, stats.learn is learn, learn.cbs[1] is stats, learn.epoch)
print(np.round(stats.norms, 5))

# %% tags=["heavy"]
learn.fit(1)

# %%
learn.epoch, len(stats.norms), learn.opt.param_groups[0]["params"][0] is model.parameters()[0]
