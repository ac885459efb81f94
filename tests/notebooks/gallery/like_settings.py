"""A module of the notebook's, with the state that such modules have."""

RATE = 1
TABLE = {"rows": [1], "counts": {"calls": 0}}
registry = {}


class Options:
    """Options by attributes."""

    rate = 0.1
    layers = [1]


options = Options()


def add(count):
    """Change what the module holds in each way."""
    global RATE
    RATE += count
    TABLE["rows"].append(count)
    TABLE["counts"]["calls"] += 1
    return RATE


def register(function):
    """Remember a function."""
    registry[function.__name__] = function
    return function
