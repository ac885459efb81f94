"""A main cell that awaits at its top level is a script that any Python runs."""

import ast

import pytest
from submarine_engine.errors import CellSyntaxError

COUNT = """
import asyncio

async def double(value):
    await asyncio.sleep(0)
    return 2 * value

class Numbers:
    def __init__(self, stop):
        self.left = iter(range(stop))

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return next(self.left)
        except StopIteration:
            raise StopAsyncIteration from None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        print("left")
"""


def printed(notebook, formatted, main):
    bundle = notebook.run(COUNT).bundle(main)
    formatted(bundle)
    return notebook.result(bundle)


def test_names_are_globals_and_all_awaits_share_a_loop(notebook, formatted):
    main = """
import asyncio

FACTOR = 2

def show():
    print(first, second, FACTOR)

task = asyncio.create_task(double(4))  # needs the loop that runs
first = await double(1)
loops = {id(asyncio.get_running_loop())}
second: int = await task
loops.add(id(asyncio.get_running_loop()))
show()
print(len(loops), show.__qualname__, double.__module__, "first" in globals())
"""
    assert printed(notebook, formatted, main) == "2 8 2\n1 show __main__ True\n"


def test_loops_contexts_comprehensions_and_handlers_mean_the_same(notebook, formatted):
    main = """
async for number in Numbers(2):
    print(number)
async with Numbers(1) as numbers:
    found = [item async for item in numbers if (last := item) == 0]
print([await double(item) for item in (1, 2)], found, last)
try:
    await double(None)
except TypeError as error:
    print(str(error)[:11], "error" in globals())
print("error" in globals())
text = \"\"\"
 not moved\"\"\"
size: int
del number
print("number" in globals(), text)
"""
    assert printed(notebook, formatted, main) == (
        "0\n1\nleft\n[2, 4] [0] 0\nunsupported True\nFalse\nFalse \n not moved\n"
    )


def test_only_a_cell_that_awaits_becomes_a_function(notebook):
    notebook.run(COUNT)
    assert "async def __main__" not in notebook.bundle("print(asyncio.run(double(1)))").script
    main = "async def own():\n    return await double(1)\nprint(asyncio.run(own()))"
    assert "async def __main__" not in notebook.bundle(main).script


@pytest.mark.parametrize(
    ("main", "last"),
    [
        ("await double(1)", "asyncio.run(__main__())"),
        ("x = await double(1)", "x = asyncio.run(__main__())"),
        ("x, *y = [await double(1)]", "x, y = asyncio.run(__main__())"),
        ("x = await double(1)\ny = 1\ny, x", "y, x = asyncio.run(__main__())"),
        ("await double(1)\ndouble", "asyncio.run(__main__())"),
        ("for i in [await double(1)]:\n    pass", "asyncio.run(__main__())"),
        ("if __name__ == '__main__':\n    z = await double(1)", "z = asyncio.run(__main__())"),
    ],
)
def test_the_close_tells_the_cells_value(notebook, main, last):
    script = notebook.run(COUNT).bundle(main).script
    assert script.endswith(f'\n\n\nif __name__ == "__main__":\n    {last}\n')
    notebook.result(notebook.bundle(main))


def test_lines_that_no_formatter_may_break_stay(notebook, formatted):
    main = f'print("{"x" * 50}", await double({"1" * 4}))'
    assert printed(notebook, formatted, main) == f"{'x' * 50} 2222\n"


def test_asyncio_keeps_its_name_unless_the_notebook_has_another_of_it(notebook):
    notebook.run(COUNT)
    assert notebook.bundle("await double(1)").script.count("import asyncio\n") == 1
    notebook.run("async def one():\n    return 1\nasyncio = 7")
    script = notebook.bundle("print(await one(), asyncio)").script
    assert "import asyncio as _asyncio\n" in script
    assert notebook.result(notebook.bundle("print(await one(), asyncio)")) == "1 7\n"


def test_names_that_are_many_take_lines_of_their_own(notebook, formatted):
    names = [f"name_number_{number}" for number in range(20)]
    main = "".join(f"{name} = await double({at})\n" for at, name in enumerate(names))
    assert printed(notebook, formatted, f"{main}print(name_number_19)") == "38\n"


def test_a_decorator_that_awaits_does_not_lead(notebook):
    main = "def f(x=await double(2)):\n    return x\nprint(f())"
    assert notebook.run(COUNT).result(notebook.bundle(main)) == "4\n"


@pytest.mark.parametrize(
    ("main", "line", "what"),
    [
        ("await double(1)\nfrom math import *", 2, "`from math import *` imports all names"),
        ("await double(1)\nx: (\n    int\n) = 1", 2, "annotates a name"),
        ("def f():\n    await double(1)", 2, "'await' outside async function"),
        ("await double(1)\nreturn 1", 2, "'return' outside function"),
    ],
)
def test_what_no_function_can_hold_is_refused_at_its_line(notebook, main, line, what):
    with pytest.raises(CellSyntaxError) as caught:
        notebook.run(COUNT).bundle(main)
    assert what in caught.value.what
    assert caught.value.where == f"In [2], line {line}"
    assert caught.value.fix


def test_lines_are_those_of_the_cell(notebook):
    bundle = notebook.run(COUNT).bundle("x = 1\n\ny = await double(x)\ny + 1;")
    lines = bundle.script.split("\n")
    places = {lines[i]: bundle.manifest.origin("script.py", i + 1) for i in range(len(lines))}
    assert places["    return y + 1"][1] == 4
    assert places["async def __main__():"] is None
    ast.parse(bundle.script)
