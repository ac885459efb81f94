"""Variables that code names in text: ``globals()["df"]``, ``eval("df")``, ``@limit`` of pandas."""

import pytest


@pytest.mark.parametrize(
    "code",
    [
        'print(globals()["data"])',
        'print(globals().get("data"))',
        'print(vars()["data"])',
        'print(locals()["data"])',
        'print(eval("data"))',
        'print(eval("sum(n for n in data) and data"))',
        'exec("print(data)")',
        'exec("copy = list(data)")\nprint(copy)',
        'def show():\n    return eval("data")\nprint(show())',
        'def show():\n    return globals()["data"]\nprint(show())',
        'print("data" in globals() and globals()["data"])',
        'for name in ["data"]:\n    print(globals()[name])',
        'name = "data"\nprint(eval(name))',
        'method = "copy"\nprint(eval(f"data.{method}()"))',
        'import timeit\ntimeit.timeit("print(data)", globals=globals(), number=1)',
        'print("{data}".format(**globals()))',
        'print("{data}".format_map(globals()))',
        'space = globals()\nprint(space["data"])',
        'space = dict(globals())\nexec("print(data)", space)',
        'for name, value in list(globals().items()):\n    if name == "data":\n        print(value)',
        'exec("data += []")\nprint(eval("data"))',
    ],
)
def test_it_travels(notebook, code):
    notebook.run("data = [n * n for n in range(3)]")
    assert notebook.result(notebook.bundle(code)) == "[0, 1, 4]\n"


def test_names_of_a_query(notebook):
    notebook.run("import pandas as pd\nlimit = len('ab')\nlow = len('')")
    notebook.run("df = pd.DataFrame({'x': [1, 2, 3]})")
    bundle = notebook.bundle("print(len(df.query('x >= @limit')), len(df.query(f'x > @low')))")
    assert notebook.result(bundle) == "2 3\n"


def test_a_name_of_a_function_s_own_is_no_variable_of_the_notebook(notebook):
    notebook.run("data = [n * n for n in range(3)]")
    bundle = notebook.bundle(
        "def f(data):\n    return eval('data')\nprint(f(5), locals().get('z'))"
    )
    assert "values" not in "".join(bundle.files)
    assert "data = " not in bundle.script
    assert notebook.result(bundle) == "5 None\n"


def test_what_computed_code_binds_is_not_missing(notebook):
    bundle = notebook.bundle(
        "exec(f'found = {1 + 1}')\nglobals().update(more=3)\nprint(found, more)"
    )
    assert notebook.result(bundle) == "2 3\n"
