# Seeds set before, numbers drawn in the job, numbers drawn after it: one sequence.

# %%
import random

import numpy as np

random.seed(123)
np.random.seed(123)
rng = np.random.default_rng(123)
own = random.Random(5)
legacy = np.random.RandomState(5)
first = [random.random(), float(np.random.rand())]

# %% tags=["heavy"]
drawn = [random.random(), float(np.random.rand()), float(rng.random()), own.random(), float(legacy.rand())]
shuffled = list(range(6))
random.shuffle(shuffled)
print(shuffled)

# %%
after = [random.random(), float(np.random.rand()), float(rng.random()), own.random(), float(legacy.rand())]
print(after)

# %% tags=["heavy"]
np.random.seed(1)
again = np.random.rand(3)

# %%
np.random.rand(3)
