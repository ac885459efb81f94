# Forests on numpy's global random state, seeded at the top of the notebook.

# %%
import random

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import shuffle

random.seed(9)
np.random.seed(9)
X = np.random.rand(60, 4)
y = (X[:, 0] > 0.5) * 1
models = {}

# %% tags=["heavy"]
X, y = shuffle(X, y)
for n in (2, 4):
    models[n] = RandomForestClassifier(n_estimators=n).fit(X, y)
    print(n, random.random(), np.random.rand())
forest = models[4]

# %%
print(random.random(), np.random.rand(), forest is models[4])
forest.feature_importances_.round(6), random.sample(range(100), 3)
