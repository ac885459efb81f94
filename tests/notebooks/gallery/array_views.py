# Arrays that are views of one another: a row, a reshaped one, halves of a split.

# %%
import numpy as np

grid = np.zeros((3, 3))
row = grid[1]
flat = grid.reshape(-1)
halves = np.split(np.arange(6.0), 2)

# %% tags=["heavy"]
grid[:] = 7
row[0] = -1
flat[-1] = 9
halves[0] += 1
column = grid[:, 2]

# %%
column[0] = 5
row[1] = 4
print(grid.tolist(), flat.tolist(), np.shares_memory(grid, flat), halves)
