# The course's first chapters: a Learner made in one cell, fitted in the next, and read after it.
# varies: learn\.progress\..*
# varies: learn\.recorder\.(start_epoch|log\.items)
# once: \n<style>\n    progress \{ .*</style>\n
# (Clock times, of the bar too; the style of the bar.)

# %%
from fastai.data.all import *
from fastai.callback.core import *
from fastai.learner import *
from fastai.metrics import *
from fastai.optimizer import *
from fastai.callback.schedule import *
from fastai.callback.tracker import *
from fastai.torch_core import *
from torch import nn

set_seed(3, reproducible=True)
rows = torch.rand(160, 6)
answers = (rows.sum(1) > 3).long()
train, valid = list(zip(rows[:128], answers[:128])), list(zip(rows[128:], answers[128:]))
dls = DataLoaders(DataLoader(train, bs=16, shuffle=True), DataLoader(valid, bs=32))

# %%
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))


class Norms(Callback):
    def before_fit(self):
        self.seen = []

    def after_batch(self):
        if self.training:
            self.seen.append(self.learn.model[0].weight.norm().item())


norms = Norms()
learn = Learner(dls, net, loss_func=nn.CrossEntropyLoss(), metrics=accuracy, cbs=[norms], path=Path("."))

# %% tags=["heavy"]
learn.fit_one_cycle(3, 1e-2)

# %%
print(learn.model is net, learn.norms is norms, len(norms.seen), learn.recorder.metric_names)
print([[round(x, 5) for x in row[:3]] for row in learn.recorder.values])
L(learn.recorder.losses).map(lambda loss: round(loss.item(), 5))

# %% tags=["heavy"]
learn.fit(1, 1e-3, cbs=SaveModelCallback(monitor="accuracy", fname="best"))
learn.unfreeze()
preds, targs = learn.get_preds()

# %%
print(Path("models/best.pth").exists(), round(accuracy(preds, targs).item(), 4))
learn.validate()
