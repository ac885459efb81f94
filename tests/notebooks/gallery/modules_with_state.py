# A module of the notebook's is called in the cell of its import, in jobs, and through another one.

# %%
import like_settings as settings

settings.add(5)
settings.options.rate = 0.7


@settings.register
def two():
    return 2


# %% tags=["heavy"]
found = (
    settings.RATE,
    list(settings.TABLE["rows"]),
    settings.options.rate,
    settings.registry["two"](),
)
settings.add(1)


@settings.register
def three():
    return 3


print(found)

# %%
import like_user_of_settings as user

rows, counts = settings.TABLE["rows"], settings.TABLE["counts"]
settings.add(2)

# %% tags=["heavy"]
before = user.told()
settings.add(3)
settings.Options.layers.append(2)
print(before, user.told(), rows, counts)

# %%
settings.add(4)
print(rows is settings.TABLE["rows"], rows, counts, settings.RATE, user.told())
print(sorted(settings.registry), settings.registry["three"] is three, settings.Options.layers)
