# Classes that count and convert in `__new__`, decorated methods, classes in classes, exceptions.

# %%
import functools
import textwrap
import weakref


def counted(f):
    @functools.wraps(f)
    def run(*args):
        run.calls += 1
        return f(*args)

    run.calls = 0
    return run


class Shape:
    made = 0

    class Style:
        colours = 1

    def __new__(cls, *args):
        Shape.made += 1
        return super().__new__(cls)

    def __init__(self, side):
        self.side = side
        self.up = None

    @counted
    def area(self):
        return self.side**2


class Celsius(float):
    def __new__(cls, fahrenheit):
        return super().__new__(cls, (fahrenheit - 32) * 5 / 9)


class Stopped(Exception):
    def __init__(self, step, *, best):
        self.step, self.best = step, best


shape, other, boiling = Shape(2), Shape(3), Celsius(212)
other.up = weakref.ref(shape)
model_a, model_b = {"w": 1}, {"w": 2}
shape.area()

# %% tags=["heavy"]
third = Shape(4)
areas = shape.area(), third.area(), float(boiling), other.up().side
Shape.Style.colours += 1
textwrap.my_flag = [Shape.made]
try:
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise Stopped(3, best=[1]) from error
except Stopped as error:
    kept = error
models = {name: value["w"] for name, value in globals().items() if name.startswith("model_")}
print(areas, models)

# %%
print(Shape.made, Shape.area.calls, Shape.Style.colours, textwrap.my_flag, other.up() is shape)
print(kept.step, kept.best, repr(kept.__cause__))

# %% tags=["heavy"]
kept.best.append(2)
textwrap.my_flag.append(Shape.area.calls)

# %%
print(kept.best, textwrap.my_flag)
