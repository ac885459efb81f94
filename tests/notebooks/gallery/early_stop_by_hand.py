# An interrupt that the cell handles: it has succeeded, and goes on to its end.
# says: cancelling job .*

# %%
import time

steps, model = [], {"w": 0}

# %% tags=["heavy", "interrupt"]
stopped = False
try:
    for epoch in range(10_000):
        if not steps:
            steps.append("begun")
            model["w"] = 7
            print("training", flush=True)
        time.sleep(0.01)
except KeyboardInterrupt:
    stopped = True
    print("stopped early")
del epoch
done = "yes"

# %%
print(stopped, done, model, steps)
