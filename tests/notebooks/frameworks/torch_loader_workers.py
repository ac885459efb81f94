# Data sets with transforms of one's own, loaders with workers, subsets.

# %%
import numpy as np
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, random_split

torch.manual_seed(3)
rng = np.random.default_rng(3)


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for t in self.transforms:
            x = t(x)
        return x


class Points(Dataset):
    def __init__(self, n, transform=None):
        self.x = rng.normal(size=(n, 4)).astype("float32")
        self.y = (self.x.sum(1) > 0).astype("int64")
        self.transform = transform

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.transform(self.x[i]), self.y[i]


# %%
mean = 0.1
transform = Compose([torch.from_numpy, lambda x: x - mean, lambda x: x / 2])
ds = Points(60, transform)
train_ds, valid_ds = random_split(ds, [48, 12], generator=torch.Generator().manual_seed(0))
few = Subset(ds, range(10))
both = ConcatDataset([train_ds, few])


def collate(batch):
    return torch.stack([x for x, _ in batch]), torch.tensor([int(y) for _, y in batch])


loader = DataLoader(both, batch_size=8, num_workers=2, collate_fn=collate)
valid_loader = DataLoader(valid_ds, batch_size=4)
weights = torch.zeros(4, requires_grad=True)

# %% tags=["heavy"]
for epoch in range(2):
    for xb, yb in loader:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(xb @ weights, yb.float())
        loss.backward()
        with torch.no_grad():
            weights -= 0.1 * weights.grad
            weights.grad.zero_()
print(loss.item(), train_ds.dataset is ds, few.dataset is ds)

# %%
accuracy = np.mean([((xb @ weights > 0).long() == yb).float().mean() for xb, yb in valid_loader])
print(accuracy, weights, xb.shape)
ds[0]
