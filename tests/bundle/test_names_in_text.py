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


@pytest.mark.parametrize(
    "code",
    [
        "found = [k for k in globals() if k.startswith('model_')]",
        "found = [k for k in dir() if k.startswith('model_')]",
        "found = [k for k, v in vars().items() if k.startswith('model_')]",
        "found = [k for k in sorted(locals()) if k.startswith('model_')]",
        "found = []\nfor k in list(globals()):\n    found += [k] * k.startswith('model_')",
        "space = globals()\nfound = [k for k in space if k.startswith('model_')]",
        "found = [k for i in 'ab' if (k := f'model_{i}') in globals()]",
        "found = [k for i in 'ab' if globals().get(k := f'model_{i}') is not None]",
        "found = matching()",
    ],
)
def test_all_names_travel_where_a_cell_goes_through_them(notebook, code):
    notebook.run("model_a, model_b = [n * n for n in range(3)], {'w': len('ab')}")
    notebook.run("def matching():\n    return [k for k in globals() if k.startswith('model_')]")
    bundle = notebook.bundle(f"{code}\nprint(sorted(found), model_a and globals()['model_b'])")
    assert notebook.result(bundle) == "['model_a', 'model_b'] {'w': 2}\n"


@pytest.mark.parametrize(
    "code",
    [
        "print(globals()['small'])",
        "def f(x):\n    return [k for k in dir() if k], sorted(locals())\nprint(f(small))",
        "print(eval('small', globals()))",
        "print(dir(small))",
    ],
)
def test_they_stay_where_none_does(notebook, code):
    notebook.run("small, large = len('a'), list(range(999))")
    assert "large" not in notebook.bundle(code).script


def test_what_cannot_travel_of_all_names_is_named(notebook, tmp_path):
    notebook.run("import threading\nlock = threading.Condition()\nmodel_a = [n for n in range(3)]")
    notebook.run(f"log = open({str(tmp_path / 'log')!r}, 'w')\ncopy = (log, 1)")
    told = []
    bundle = notebook.bundle("print(sorted(k for k in globals() if '_a' in k))", tell=told.append)
    notebook.run("log.close()")
    [line] = told
    assert line.startswith("the cell goes through all names; not among them: ")
    assert "`log` (_io.TextIOWrapper)" in line
    assert "`copy` (tuple)" in line
    assert "model_a" in notebook.result(bundle)


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
