# A language model with tied weights, gradients that add up over cells, an average of weights.

# %%
import math

import torch
from torch import nn

torch.manual_seed(2)
text = "the quick brown fox jumps over the lazy dog " * 4
vocab = sorted(set(text))
stoi = {s: i for i, s in enumerate(vocab)}
data = torch.tensor([stoi[c] for c in text])


# %%
class TinyLM(nn.Module):
    def __init__(self, n, dim=16):
        super().__init__()
        self.embedding = nn.Embedding(n, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.Linear(dim, n, bias=False)
        self.decoder.weight = self.embedding.weight
        self.register_buffer("scale", torch.tensor(1 / math.sqrt(dim)))

    def forward(self, x, h=None):
        out, h = self.rnn(self.embedding(x), h)
        return self.decoder(out) * self.scale, h


lm = TinyLM(len(vocab))
encoder = lm.embedding
opt = torch.optim.Adam(
    [{"params": lm.rnn.parameters()}, {"params": [lm.embedding.weight], "lr": 0.02}], lr=0.01
)
scheduler = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=[0.05, 0.05], total_steps=20)
average = torch.optim.swa_utils.AveragedModel(lm)
hidden = torch.zeros(1, 1, 16)
window = data[10:20]

# %% tags=["heavy"]
criterion = nn.CrossEntropyLoss()
for step in range(6):
    i = step * 8
    logits, hidden = lm(data[None, i : i + 8], hidden.detach())
    loss = criterion(logits[0], data[i + 1 : i + 9])
    opt.zero_grad()
    loss.backward()
    opt.step()
    scheduler.step()
    average.update_parameters(lm)
data[10] = 0
print(loss.item())

# %%
lm.decoder.weight is lm.embedding.weight, encoder is lm.embedding, window[0], hidden.shape

# %% tags=["heavy"]
# gradients only: the step is taken at home
criterion(lm(data[None, :8])[0][0], data[1:9]).backward()

# %%
print(lm.embedding.weight.grad.abs().sum(), opt.state[lm.embedding.weight]["step"])
opt.step()
window[1] = 3
data[11], lm.embedding.weight.sum(), average.n_averaged
