# A default argument that remembers between calls.

# %%
def unique(name, seen={}):
    seen[name] = seen.get(name, 0) + 1
    return f"{name}_{seen[name]}"


unique("a")

# %% tags=["heavy"]
names = [unique("a"), unique("b")]
print(names)

# %%
unique("a"), unique("b")
