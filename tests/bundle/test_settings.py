"""What a notebook has set for all of its cells holds in the job."""

import os
import random
import sys

import numpy as np
import pytest


@pytest.fixture
def kept(monkeypatch):
    """Leave the settings of this process as they were."""
    states = random.getstate(), np.random.get_state(), np.get_printoptions()  # noqa: NPY002
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    yield monkeypatch
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    np.set_printoptions(**states[2])
    for name in set(sys.modules) - modules:
        if name.startswith("travelling_"):
            del sys.modules[name]


def test_a_notebook_that_sets_nothing_has_no_such_section(notebook):
    notebook.run("import numpy as np\nimport warnings\nx = np.arange(300)")
    assert "Settings" not in notebook.bundle("print(x.sum())").script


@pytest.mark.usefixtures("kept")
def test_seeded_numbers_go_on_where_the_notebook_has_them(notebook):
    notebook.run("import random\nimport numpy as np\nrandom.seed(1)\nnp.random.seed(2)")
    notebook.run("random.random(), np.random.rand()")
    bundle = notebook.bundle("print(random.random(), np.random.rand())")
    assert "# %% Settings of the notebook\nrandom.setstate(" in bundle.script
    assert notebook.result(bundle) == f"{random.random()} {np.random.rand()}\n"  # noqa: NPY002, S311


@pytest.mark.usefixtures("kept")
def test_a_name_of_the_notebook_is_not_taken_for_a_random_state(notebook):
    notebook.run(
        "from random import random, seed\nimport random as r\nr.seed(1)\nimport random as r"
    )
    notebook.run("random_states = 3\nimport random as r\nr.seed(4)\nfrom random import random")
    notebook.run("# random.seed(4)")
    expected = notebook.job("print(random_states, random())")
    assert expected == f"3 {random.random()}\n"  # noqa: S311


@pytest.mark.usefixtures("kept")
def test_options_of_libraries_that_the_script_uses_are_set(notebook, formatted):
    notebook.run("import numpy as np\nimport pandas as pd\nimport warnings")
    notebook.run("np.set_printoptions(precision=2)\nwarnings.filterwarnings('ignore', 'old')")
    notebook.run("pd.set_option('display.max_rows', 7)")
    bundle = notebook.bundle("warnings.warn('old one')\nprint(np.array([1 / 3]))")
    assert notebook.result(bundle) == "[0.33]\n"
    assert "warnings.filterwarnings('ignore', 'old')" in bundle.script
    assert "pandas" not in bundle.script
    spans = {span.cell for span in bundle.manifest.lines}
    assert spans == {"In [1]", "In [2]", "In [4]"}


def test_settings_by_another_name_and_of_a_computed_value(notebook):
    notebook.run("import matplotlib\nmatplotlib.use('agg')\nfrom matplotlib import pyplot as plt")
    notebook.run("size = (3, 2)\nplt.rcParams['figure.figsize'] = size")
    notebook.run("import logging\nlogging.getLogger('a.b').setLevel(logging.ERROR)")
    try:
        assert notebook.job(
            "print(plt.rcParams['figure.figsize'], logging.getLogger('a.b').level)"
        ) == ("[3.0, 2.0] 40\n")
    finally:
        notebook.run("matplotlib.rcdefaults()\nmatplotlib.use('agg')")


def test_a_setting_whose_making_is_gone_is_left_out(notebook):
    notebook.run("import warnings\nkind = DeprecationWarning")
    notebook.run("warnings.simplefilter('default', kind)\ndel kind")
    assert notebook.job("print(1)") == "1\n"


def test_variables_that_cells_set_are_set_but_no_secrets(notebook, monkeypatch):
    for name in ("TRAVEL_MODE", "TRAVEL_API_KEY", "CUDA_VISIBLE_DEVICES", "TRAVEL_OTHER"):
        monkeypatch.setenv(name, "before")
    notebook.run(
        "import os\nos.environ['TRAVEL_MODE'] = 'a \"b\"'\n"
        "os.environ['TRAVEL_API_KEY'] = 'hidden-one'\n"
        "os.environ['CUDA_VISIBLE_DEVICES'] = '7'"
    )
    bundle = notebook.bundle("import os\nprint(os.environ['TRAVEL_MODE'])")
    os.environ["TRAVEL_MODE"] = "else"
    assert notebook.result(bundle) == 'a "b"\n'
    assert "hidden-one" not in bundle.script
    assert "CUDA" not in bundle.script
    assert "TRAVEL_OTHER" not in bundle.script
    assert bundle.script.index("environ") < bundle.script.index("%% Imports")


def test_modules_from_paths_that_were_added_travel(notebook, kept):
    source = notebook.folder / "src"
    source.mkdir()
    (source / "travelling_one.py").write_text(
        "import travelling_two\nvalue = travelling_two.value\n"
    )
    (source / "travelling_two.py").write_text("value = 5\n")
    notebook.run(f"import sys\nsys.path.append({str(source)!r})\nimport travelling_one")
    root = notebook.folder / "notebooks"
    root.mkdir()
    bundle = notebook.bundle("print(travelling_one.value)", root=root)
    assert {"travelling_one.py", "travelling_two.py"} <= set(bundle.files)
    assert f'sys.path.append("{source}")' in bundle.script
    source.rename(notebook.folder / "elsewhere")
    assert notebook.result(bundle) == "5\n"


def test_what_the_environment_holds_is_set_below_imports_from_the_future(notebook, monkeypatch):
    monkeypatch.setenv("ZED", "before")
    notebook.run("import os\nos.environ['ZED'] = 'of the notebook'")
    notebook.run("from __future__ import annotations")
    code = "def f(x: Undefined): return os.environ['ZED']\nprint(f(1))"
    assert notebook.job(code) == "of the notebook\n"
