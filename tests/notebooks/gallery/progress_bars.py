# tqdm, clear_output in a loop, carriage returns, both streams.

# %%
import sys

from IPython.display import clear_output
from tqdm import tqdm, trange

done = []

# %% tags=["heavy"]
for i in tqdm(range(4), desc="epochs", ncols=60):
    done.append(i)
for j in trange(2, leave=False):
    pass

# %% tags=["heavy"]
for step in range(3):
    clear_output(wait=True)
    print("step", step)
print("to stderr", file=sys.stderr)
sys.stdout.write("\rloading 1%")
sys.stdout.write("\rloading 99%\n")

# %%
done, i, j, step
