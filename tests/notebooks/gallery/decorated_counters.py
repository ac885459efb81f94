# A decorator that counts calls in the function's own attribute, as timers and caches do.

# %%
from functools import wraps


def logged(function):
    @wraps(function)
    def inner(*args):
        inner.calls += 1
        return function(*args)

    inner.calls = 0
    return inner


@logged
def old(x):
    return x + 1


# %% tags=["heavy"]
@logged
def new(x):
    return 2 * x


print(old(1), new(2), new(3))

# %%
old(1), new(1)
print(old.calls, new.calls)
