# Names bound in every way a cell can: unpacking, loops, with, walrus, except, star, annotation, del.

# %%
old, gone = [1], "x"
values = [4, 5, 6]

# %% tags=["heavy"]
a, (b, *rest) = 1, (2, 3, 4)
for i, value in enumerate(values):
    pass
if (n := len(values)) > 2:
    big = True
with open("notes.txt", "w") as out:
    out.write("hello")
del out
try:
    1 / 0
except ZeroDivisionError as error:
    message = str(error)
x: int = 5
x += n
old = old + [2]
squares = [v * v for v in values]
first = second = {}
_private = "kept"
del gone
n

# %%
print(a, b, rest, i, value, big, message, x, old, squares, first is second, _private)
print("gone" in globals(), "out" in globals(), open("notes.txt").read())
