# Counters and registers of a class, changed by its methods in the job.

# %%
class Net:
    count = 0
    register = {}

    def __init__(self, name):
        Net.count += 1
        type(self).register[name] = self
        self.name = name


first = Net("first")

# %% tags=["heavy"]
second = Net("second")
Net.register["first"].name = "renamed"

# %%
third = Net("third")
print(Net.count, list(Net.register), first.name, Net.register["second"] is second)
