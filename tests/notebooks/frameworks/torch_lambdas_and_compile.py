# Modules that hold lambdas, `torch.compile`, hooks, and the best state kept by hand.
# varies: warnings

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)


class Lambda(nn.Module):
    def __init__(self, func):
        super().__init__()
        self.func = func

    def forward(self, x):
        return self.func(x)


# %%
model = nn.Sequential(
    Lambda(lambda x: x.view(-1, 1, 8, 8)),
    nn.Conv2d(1, 4, kernel_size=3, stride=2, padding=1),
    nn.BatchNorm2d(4),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    Lambda(lambda x: x.view(x.size(0), -1)),
    nn.Linear(4, 3),
)
compiled = torch.compile(model, backend="eager")
seen = []
handle = model[1].register_forward_hook(lambda module, args, out: seen.append(len(out)))
opt = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.01)
xs, ys = torch.randn(64, 64), torch.randint(0, 3, (64,))
best, best_loss = None, float("inf")

# %% tags=["heavy"]
for epoch in range(4):
    opt.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(xs), ys)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if loss.item() < best_loss:
        best, best_loss = copy.deepcopy(model.state_dict()), loss.item()

# %%
print(len(seen), best_loss, compiled._orig_mod is model)
model.load_state_dict(best)

# %% tags=["heavy"]
compiled.eval()
with torch.no_grad():
    logits = compiled(xs)
print(logits.sum())

# %%
handle.remove()
model.train()
logits.argmax(1).bincount(), model[2].running_mean
