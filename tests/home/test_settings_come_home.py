"""What a job's cell sets for libraries is set in the notebook, wherever in the cell it is set."""

import decimal
import importlib
import logging
import sys
import warnings

import pytest
from submarine_runtime import settings


@pytest.fixture(autouse=True)
def kept():
    """Leave the settings of this process as they were."""
    modules = ["decimal", "logging", "matplotlib", "numpy", "pandas", "sklearn", "sys", "warnings"]
    for name in modules:
        importlib.import_module(name)

    before = {name: settings.read(sys.modules[name]) for name in modules}
    filters, handlers = list(warnings.filters), list(logging.getLogger().handlers)
    yield
    for name, found in before.items():
        if name not in ("warnings", "logging"):
            settings.put(name, dict(found))
    warnings.filters[:] = filters
    root = logging.getLogger()
    root.setLevel(before["logging"]["level "])
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)


def test_options_of_libraries(notebook):
    import matplotlib as mpl
    import numpy as np
    import pandas as pd
    import sklearn

    notebook.run("import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt")
    notebook.job(
        """
        from sklearn import set_config
        rows = 7
        def set_up():
            pd.set_option("display.max_rows", rows)
        set_up()
        if rows:
            np.set_printoptions(precision=3, suppress=True)
        np.seterr(divide="ignore")
        plt.style.use("ggplot")
        plt.rcParams["lines.linewidth"] = 7.5
        set_config(enable_metadata_routing=True)
        import decimal
        decimal.getcontext().prec = 11
        """
    )
    assert pd.get_option("display.max_rows") == 7
    assert np.get_printoptions()["precision"] == 3
    assert np.get_printoptions()["threshold"] == 1000
    assert np.geterr()["divide"] == "ignore"
    assert mpl.rcParams["axes.facecolor"] == "#E5E5E5"
    assert mpl.rcParams["lines.linewidth"] == 7.5
    assert sklearn.get_config()["enable_metadata_routing"]
    assert decimal.getcontext().prec == 11


def test_what_the_cell_does_not_set_stays_as_the_notebook_has_it(notebook):
    import numpy as np

    # The job does not know of it: no statement of a cell has set it.
    np.set_printoptions(edgeitems=9)
    notebook.job("import numpy as np\nnp.set_printoptions(precision=2)")
    assert np.get_printoptions()["edgeitems"] == 9
    assert np.get_printoptions()["precision"] == 2


def test_a_failing_cell_has_set_what_it_came_to(notebook):
    import numpy as np

    notebook.run("import numpy as np")
    with pytest.raises(ZeroDivisionError):
        notebook.job("np.set_printoptions(precision=2)\n1 / 0\nnp.set_printoptions(precision=3)")
    assert np.get_printoptions()["precision"] == 2


def test_warnings_and_logging(notebook, capsys):
    theirs = ("ignore", None, BytesWarning, None, 0)
    warnings.filters.insert(0, theirs)
    notebook.job(
        """
        import logging, warnings
        warnings.filterwarnings("error", message="old")
        warnings.simplefilter("ignore", FutureWarning)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
        logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
        logging.getLogger("of.mine").setLevel(logging.ERROR)
        """
    )
    assert [rule[:1] + rule[2:3] for rule in warnings.filters[:2]] == [
        ("ignore", FutureWarning),
        ("error", Warning),
    ]
    assert warnings.filters[2] == theirs
    with pytest.raises(UserWarning):
        warnings.warn("old way", UserWarning, stacklevel=1)
    capsys.readouterr()
    assert logging.getLogger().level == logging.INFO
    assert logging.getLogger("of.mine").level == logging.ERROR
    [handler] = [one for one in logging.getLogger().handlers if type(one) is logging.StreamHandler]
    record = logging.LogRecord("n", logging.INFO, "", 0, "said", (), None)
    assert handler.format(record) == "INFO: said"


def test_filters_that_were_reset(notebook):
    notebook.job("import warnings\nwarnings.resetwarnings()\nwarnings.simplefilter('always')")
    assert [rule[0] for rule in warnings.filters] == ["always"]


def test_a_cell_that_sets_nothing_sends_no_settings(notebook, tmp_path):
    notebook.run("import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt")
    notebook.job("import logging, warnings, decimal\nx = pd.DataFrame({'a': np.arange(3)})")
    [outcome] = tmp_path.glob("home/jobs/*/tasks/*/outcome.json")
    assert '"settings"' not in outcome.read_text()


def test_what_a_library_does_not_take_is_passed_over():
    settings.put("numpy", {"none_such": 1})
    settings.put("none_such", {"x": 1})


def test_what_a_cell_sets_and_names_a_secret_is_in_no_script(notebook, monkeypatch, tmp_path):
    monkeypatch.setenv("PLAIN", "")
    notebook.run("import os\nos.environ['PLAIN'] = 'like-any-other'\nmine = os.environ['PLAIN']")
    notebook.job("found = [len(mine), len(os.environ['PLAIN'])]", "--secret PLAIN")
    assert notebook["found"] == [14, 14]
    scripts = [path.read_text() for path in tmp_path.glob("home/jobs/*/bundle/*") if path.is_file()]
    assert len(scripts) >= 2
    assert not [text for text in scripts if "like-any-other" in text]
