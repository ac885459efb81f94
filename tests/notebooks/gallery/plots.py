# Pictures: plt.show in the middle, a figure open at the end, a figure drawn on in the next cell.

# %%
# %matplotlib inline
import matplotlib.pyplot as plt
import numpy as np

t = np.linspace(0, 1, 20)

# %% tags=["heavy"]
print("before")
plt.plot(t, t**2)
plt.title("squares")
plt.show()
print("between")
fig, axes = plt.subplots(1, 2, figsize=(4, 2))
axes[0].hist(t, bins=4)
axes[1].imshow(np.outer(t, t))
ys = np.sin(t)

# %%
print(axes.shape, fig.axes[0] is axes[0], plt.get_fignums())
plt.plot(t, ys);
