# %%time below and above the magic; top-level await.

# %%
import asyncio

results = []


async def fetch(n):
    await asyncio.sleep(0)
    return n * n


# %% tags=["heavy"]
# %%time
total = sum(range(1000))
results.append(total)

# %% tags=["heavy-below"]
# %%time
results.append(total + 1)
last = results[-1]

# %% tags=["heavy"]
squares = await asyncio.gather(*(fetch(n) for n in range(4)))
print(squares)

# %%
results, last, await fetch(3)
