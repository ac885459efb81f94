# PyTorch's quickstart: data loaders, a class of one's own, train and test functions, epochs.

# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(160, 1, 6, 6)
y = (X.mean(dim=(1, 2, 3)) > 0).long()
train_dataloader = DataLoader(TensorDataset(X[:128], y[:128]), batch_size=32, shuffle=True)
test_dataloader = DataLoader(TensorDataset(X[128:], y[128:]), batch_size=32)

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(36, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2)
        )

    def forward(self, x):
        return self.linear_relu_stack(self.flatten(x))


model = NeuralNetwork().to(device)
print(model)

# %%
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


# %%
def train(dataloader, model, loss_fn, optimizer):
    model.train()
    for batch, (X, y) in enumerate(dataloader):
        pred = model(X.to(device))
        loss = loss_fn(pred, y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss


def test(dataloader, model, loss_fn):
    model.eval()
    with torch.no_grad():
        return sum(loss_fn(model(X), y).item() for X, y in dataloader) / len(dataloader)


# %% tags=["heavy"]
losses = []
for t in range(3):
    last_loss = train(train_dataloader, model, loss_fn, optimizer)
    losses.append(test(test_dataloader, model, loss_fn))
    scheduler.step()
    print(f"Epoch {t + 1}: {losses[-1]:.6f}, lr {scheduler.get_last_lr()}")

# %% tags=["heavy"]
for t in range(3, 6):
    train(train_dataloader, model, loss_fn, optimizer)
    losses.append(test(test_dataloader, model, loss_fn))
    scheduler.step()

# %%
model.eval()
first = next(iter(model.parameters()))
print(losses, optimizer.param_groups[0]["params"][0] is first, scheduler.optimizer is optimizer)
pred = model(X[:5]).argmax(1)
pred, last_loss.detach()
