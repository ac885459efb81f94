# A search over settings: results as objects of a dataclass, the best by identity, a heap, a cache.

# %%
import heapq
import itertools
import math
from dataclasses import dataclass, field


@dataclass(order=True)
class Trial:
    value: float
    params: dict = field(compare=False)


cache = {}
trials = []
best = None


def objective(params):
    key = tuple(sorted(params.items()))
    if key not in cache:
        cache[key] = (params["lr"] - 0.1) ** 2 + math.log(params["depth"])
    return cache[key]


# %% tags=["heavy"]
for lr, depth in itertools.product((0.01, 0.1, 0.3), (1, 2)):
    trial = Trial(objective({"lr": lr, "depth": depth}), {"lr": lr, "depth": depth})
    heapq.heappush(trials, trial)
    if best is None or trial < best:
        best = trial
best

# %%
print(best is trials[0], trial in trials, len(cache), lr, depth)
objective({"lr": 0.1, "depth": 1})
len(cache), heapq.heappop(trials) is best
