# Udacity's style: a pretrained body is frozen, a new head is put on; time is kept in lists.

# %%
import time

import numpy as np

from like_torch import SGD, CrossEntropyLoss, Dropout, Linear, Module, ReLU, Sequential

np.random.seed(7)
images = np.random.rand(60, 12)
labels = (images[:, :6].sum(1) > 3).astype(int)
train_ix, valid_ix = np.split(np.random.permutation(60), [45])


# %%
class Net(Module):
    def __init__(self):
        super().__init__()
        self.features = Sequential(Linear(12, 10), ReLU())
        self.classifier = Linear(10, 5)
        self.drop = Dropout(0.2)

    def forward(self, x):
        return self.classifier(self.drop(self.features(x)))


def accuracy(net, ix):
    net.eval()
    hits = net(images[ix]).argmax(1) == labels[ix]
    net.train()
    return hits.mean()


model = Net()
frozen = [p for p in model.features.parameters()]
for p in frozen:
    p.requires_grad = False

# %%
model.classifier = Linear(10, 2)
criterion = CrossEntropyLoss()
optimizer = SGD(model.classifier.parameters(), lr=0.3)
train_losses, valid_accuracy = [], []
valid_loss_min = np.inf

# %% tags=["heavy"]
start = time.perf_counter()
for epoch in range(1, 5):
    optimizer.zero_grad()
    loss = criterion(model(images[train_ix]), labels[train_ix])
    loss.backward()
    optimizer.step()
    train_losses.append(loss.item())
    valid_accuracy.append(accuracy(model, valid_ix))
    if train_losses[-1] <= valid_loss_min:
        print(f"Validation loss decreased ({valid_loss_min:.6f} --> {train_losses[-1]:.6f}).  Saving model ...")
        np.savez("model_augmented.npz", **model.state_dict())
        valid_loss_min = train_losses[-1]
del start

# %%
with np.load("model_augmented.npz") as saved:
    model.load_state_dict(dict(saved))
print(model.training, len(frozen), [p is q for p, q in zip(frozen, model.features.parameters())])
print(np.round(np.random.rand(2), 6))
