# What cannot leave the job stays there and is named; the rest comes home.
# stays: stream, worker

# %%
import threading

numbers = [1, 2, 3]

# %% tags=["heavy"]
stream = (n * n for n in numbers)
next(stream)
lock = threading.Lock()
worker = threading.Thread(target=print)
total = sum(numbers)
numbers.append(total)
holder = {"total": total}

# %%
total, numbers, holder
