# Imports, functions, classes of all kinds are written in the job's cell and used in the next.

# %%
start = 3

# %% tags=["heavy"]
import math
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache, partial, wraps
from statistics import mean as average

Point = namedtuple("Point", "x y")
LIMIT = 2 * start


class Color(Enum):
    RED = 1
    BLUE = "b"


@dataclass(order=True)
class Run:
    name: str
    scores: list = field(default_factory=list)

    @property
    def best(self):
        return max(self.scores)


def logged(function):
    """A decorator."""

    @wraps(function)
    def inner(*args):
        return function(*args)

    inner.kind = "logged"
    return inner


@logged
def area(r):
    return math.pi * r**2


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


double = lambda x: 2 * x
cube = partial(pow, exp=3)
run = Run("first", [area(1), area(start)])
p, color = Point(1, 2), Color.BLUE
print(fib(20), area.kind)

# %%
run.scores.append(area(LIMIT))
print(run.best, area.kind, double(p.y), cube(2), color is Color.BLUE, isinstance(run, Run))
print(average([1, 2]), Run("a") < Run("b"), p._asdict(), fib(5))
