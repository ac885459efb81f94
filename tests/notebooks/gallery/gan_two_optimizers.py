# Two networks, two optimizers, fixed noise, samples kept over epochs in a list of arrays.

# %%
import numpy as np

from like_torch import SGD, Linear, MSELoss, ReLU, Sequential, Tensor

np.random.seed(11)
G = Sequential(Linear(2, 6), ReLU(), Linear(6, 1))
D = Sequential(Linear(1, 6), ReLU(), Linear(6, 1))
opt_g, opt_d = SGD(G.parameters(), 0.05), SGD(D.parameters(), 0.05)
fixed_z = np.random.randn(4, 2)
samples, losses = [], []
nets = {"G": G, "D": D}
nets["both"] = [G, D]

# %% tags=["heavy"]
criterion = MSELoss()
for epoch in range(3):
    real = np.random.normal(3, 0.1, (8, 1))
    opt_d.zero_grad()
    d_loss = criterion(D(real), np.ones((8, 1)))
    d_loss.backward()
    fake = G(np.random.randn(8, 2)).detach()
    criterion(D(fake), np.zeros((8, 1))).backward()
    opt_d.step()
    opt_g.zero_grad()
    g_loss = criterion(D(G(np.random.randn(8, 2))), np.ones((8, 1)))
    g_loss.backward()
    opt_g.step()
    losses.append((d_loss.item(), g_loss.item()))
    samples.append(G(fixed_z).numpy())

# %%
print(nets["both"][0] is G, nets["D"] is D, len(samples), np.round(losses[-1], 5))
opt_g.step()
np.allclose(G(fixed_z).numpy(), samples[-1])
