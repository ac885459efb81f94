"""Python files beside the notebook travel; installed ones and what lies elsewhere do not."""

import importlib
import math
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
from pathlib import Path

import pytest
from submarine_engine.bundle import modules
from submarine_engine.bundle.modules import travelling_modules
from submarine_engine.bundle.own_modules import OwnModules
from submarine_engine.errors import BundleError, CellSyntaxError


@pytest.fixture
def beside(tmp_path):
    """Write files beside the notebook, and return which of them travel with some code."""
    root = tmp_path / "notebooks"
    root.mkdir()

    def travel(source, files, **options):
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(content))
        found = travelling_modules([("In [1]", textwrap.dedent(source))], root, **options)
        assert all((root / name).read_bytes() == content for name, content in found.items())
        return list(found)

    travel.root = root
    return travel


def test_imports_are_followed_from_file_to_file(beside):
    files = {
        "helpers.py": "def load():\n    import deeper",
        "deeper.py": "try:\n    from last import x as y\nexcept ImportError: pass",
        "last.py": "",
        "unused.py": "",
    }
    assert beside("import numpy, helpers as h", files) == ["deeper.py", "helpers.py", "last.py"]


def test_files_that_are_run_travel_with_what_they_import(beside):
    files = {
        "tools.py": "import helpers\nrunpy.run_path('lib/more.py')",
        "helpers.py": "",
        "lib/more.py": "from last import x",
        "last.py": "",
        "unused.py": "",
    }
    source = "import runpy\nrunpy.run_path('./tools.py', run_name='__main__')\n"
    found = beside(source, files)
    assert found == ["helpers.py", "last.py", "lib/more.py", "tools.py"]
    contents = {name: text.encode() for name, text in files.items()}
    ran = modules.ran_by_path(
        {"script.py": source.encode(), **contents, "values/x.pkl": b"run_path"}
    )
    assert ran == ["lib/more.py", "tools.py"]


@pytest.mark.parametrize("path", ["../out.py", "gone.py", "link.py", "1"])
def test_files_elsewhere_that_are_run_are_left_where_they_are(beside, path):
    (beside.root.parent / "out.py").write_text("")
    (beside.root / "link.py").symlink_to("../out.py")
    assert beside(f"import runpy\nrunpy.run_path({path!r})\nrunpy.run_path(1)", {}) == []
    assert modules.ran_by_path({"a.py": b"run_path('", "b.py": b"run_path(x)"}) == []


@pytest.mark.parametrize(
    "source",
    [
        "import nets",
        "import nets.layers.dense as d",
        "from nets import layers",
        "from nets.layers import *",
        "import importlib\nm = importlib.import_module('nets.layers')",
        "m = __import__('nets')",
    ],
)
def test_a_package_travels_whole(beside, source):
    files = {
        "nets/__init__.py": "",
        "nets/data.csv": "1,2",
        "nets/layers/__init__.py": "",
        "nets/layers/dense.py": "",
        "nets/__pycache__/x.py": "",
        "nets/.hidden/x.py": "",
        "other/__init__.py": "",
    }
    python = ["nets/__init__.py", "nets/layers/__init__.py", "nets/layers/dense.py"]
    assert beside(source, files) == python


def test_relative_imports_are_followed(beside):
    files = {
        "nets/__init__.py": "from .model import Net",
        "nets/model.py": "from . import layers\nfrom .layers.dense import D",
        "nets/layers/__init__.py": "",
        "nets/layers/dense.py": "from ...nets import model\nimport shared",
        "shared.py": "",
    }
    assert beside("import nets", files) == sorted(files)


def test_a_folder_without_init_is_a_package_too(beside):
    files = {"utils/text.py": "", "utils/more/x.py": "", "plots.py": "", "plots/x.py": ""}
    assert beside("from utils import text\nimport plots", files) == [
        "plots.py",
        "utils/more/x.py",
        "utils/text.py",
    ]


def test_a_package_comes_before_a_file_of_its_name(beside):
    assert beside("import a", {"a.py": "", "a/__init__.py": ""}) == ["a/__init__.py"]


def test_installed_packages_stay_where_they_are(beside):
    # A folder called like one is what Python takes last of all.
    files = {"sklearn/notes.py": "", "site-packages/x.py": ""}
    assert beside("import sklearn, numpy.linalg, json, os.path", files) == []


def test_what_lies_beside_the_notebook_hides_what_is_installed(beside):
    assert beside("import sklearn", {"sklearn.py": "import numpy"}) == ["sklearn.py"]


def test_what_python_has_loaded_before_the_notebook_stays(beside):
    files = {"sys.py": "", "json.py": "", "queue.py": "", "this.py": ""}
    assert "queue" in sys.modules
    assert "this" not in sys.modules
    assert beside("import sys, json, queue\nimport this", files) == ["this.py"]


def test_a_virtual_environment_below_the_notebook_stays(beside):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", beside.root / "env"], check=True)
    version = sysconfig.get_python_version()
    inside = f"env/lib/python{version}/site-packages"
    files = {f"{inside}/deep.py": "", "pkg/__init__.py": "", "pkg/venv/pyvenv.cfg": ""}
    files["pkg/venv/lib/x.py"] = ""
    source = f"import env, env.lib, pkg\nimport env.lib.python{version.replace('.', '')}"
    assert beside(source, files) == ["pkg/__init__.py"]


def test_nothing_outside_the_notebooks_folder_travels(beside, tmp_path):
    (tmp_path / "outside.py").write_text("")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    assert beside("from .. import outside\nimport outside\nfrom ..package import x", {}) == []
    (beside.root / "linked.py").symlink_to(tmp_path / "outside.py")
    (beside.root / "package").symlink_to(tmp_path / "package")
    for name in ("linked", "package"):
        with pytest.raises(BundleError, match="leads out of the notebook's folder") as caught:
            beside(f"import {name}", {})
        assert "copy it beside the notebook" in caught.value.fix


def test_links_within_the_folder_travel_as_files(beside):
    files = {"shared/text.py": "import other", "other.py": ""}
    beside("", files)
    (beside.root / "text.py").symlink_to("shared/text.py")
    (beside.root / "pkg").mkdir()
    (beside.root / "pkg" / "__init__.py").write_text("")
    (beside.root / "pkg" / "again").symlink_to(beside.root / "pkg")
    (beside.root / "pkg" / "out.py").symlink_to("/etc/hostname")
    assert beside("import text, pkg", {}) == ["other.py", "pkg/__init__.py", "text.py"]


def test_broken_links_are_refused(beside):
    (beside.root / "gone.py").symlink_to("nowhere.py")
    with pytest.raises(BundleError, match=r"gone\.py is a link that leads nowhere"):
        beside("import gone", {})


def test_a_syntax_error_in_a_file_is_shown_at_file_and_line(beside):
    with pytest.raises(CellSyntaxError) as caught:
        beside("import helpers", {"helpers.py": "x = 1\ndef f(:\n"})
    assert caught.value.where == "helpers.py, line 2"
    assert "def f(:" in caught.value.what
    # Nobody imports it: nobody minds.
    assert beside("import fine", {"fine.py": ""}) == ["fine.py"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x = 1\0"])
def test_a_file_that_is_no_text_is_refused(beside, content):
    (beside.root / "data.py").write_bytes(content)
    with pytest.raises(CellSyntaxError) as caught:
        beside("import data", {})
    assert caught.value.where.startswith("data.py")


def test_compiled_modules_are_refused(beside):
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    with pytest.raises(BundleError, match="is compiled for this machine"):
        beside("import fast", {f"fast{suffix}": "", "fast.py": ""})


def test_huge_files_are_refused(beside, monkeypatch):
    monkeypatch.setattr(modules, "FILE_LIMIT", 100)
    with pytest.raises(BundleError, match=r"table\.py has 201 bytes"):
        beside("import table", {"table.py": "#" * 201})
    monkeypatch.setattr(modules, "TOTAL_LIMIT", 150)
    with pytest.raises(BundleError, match="more than may travel"):
        beside("import a, b", {"a.py": "#" * 80, "b.py": "#" * 80})


def test_unreadable_files_are_refused(beside):
    # In a process of its own: the superuser reads everything.
    beside("", {"secret.py": ""})
    (beside.root / "secret.py").chmod(0)
    code = (
        "import os, sys, pathlib\n"
        "from submarine_engine.bundle.modules import travelling_modules\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "os.chdir(root)\n"
        "if os.getuid() == 0: os.seteuid(65534)\n"
        "try: travelling_modules([('In [1]', 'import secret')], pathlib.Path('.'))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    temporary = Path(tempfile.gettempdir()).resolve()
    for folder in (beside.root, *beside.root.resolve().parents):
        if temporary in folder.parents:  # pytest keeps its folders to their owner
            folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, beside.root], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("BundleError"), done
    assert "secret.py cannot be read: Permission denied" in done.stdout


def test_scripts_that_a_command_runs_travel_with_what_they_import(beside):
    files = {"train.py": "import helpers", "helpers.py": ""}
    assert beside("", files, scripts=["train.py"]) == ["helpers.py", "train.py"]


@pytest.fixture
def config(notebook, monkeypatch):
    """Import a module beside the notebook."""
    (notebook.folder / "my_config.py").write_text(
        "EPOCHS = 1\nRATE = 0.1\nHANDLER = None\n\n\ndef epochs():\n    return EPOCHS\n"
    )
    monkeypatch.syspath_prepend(notebook.folder)
    yield notebook.run("import my_config")
    sys.modules.pop("my_config", None)


def test_what_cells_set_on_a_module_is_set_in_the_job(config):
    config.run("my_config.EPOCHS = 5").run("wanted = 7\nmy_config.EPOCHS = wanted")
    config.run("def epochs():\n    return my_config.epochs()")
    bundle = config.bundle("print(epochs(), my_config.RATE)", root=config.folder)
    assert "my_config.EPOCHS = 7\n" in bundle.script
    assert config.result(bundle) == "7 0.1\n"


def test_of_a_module_that_was_edited_what_no_cell_has_set_is_that_of_its_file(config):
    file = config.folder / "my_config.py"
    file.write_text(file.read_text().replace("RATE = 0.1", "RATE = 0.2"))
    config.run("my_config.EPOCHS = 5")
    bundle = config.bundle("print(my_config.EPOCHS, my_config.RATE)", root=config.folder)
    assert config.result(bundle) == "5 0.2\n"


def test_what_is_no_literal_is_set_in_the_job_too(config, monkeypatch):
    monkeypatch.setattr(math, "tau", math.tau)
    config.run("import math\nmy_config.HANDLER = lambda: 1\nmath.tau = 6")
    bundle = config.bundle("print(my_config.HANDLER(), math.tau > 6)", root=config.folder)
    assert config.result(bundle) == "1 False\n"


def test_what_was_edited_since_the_notebook_imported_it_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    own, names = OwnModules(), ["edited_module", "same_module"]
    files = [f"{name}.py" for name in names]
    for name, file in zip(names, files, strict=True):
        (tmp_path / file).write_text("x = 1\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    edited, _ = map(importlib.import_module, names)
    assert own.edited(files) == []
    (tmp_path / files[0]).write_text("x = 'another one'\n")
    assert own.edited(files) == files[:1]
    assert edited.x == 1
    importlib.reload(edited)
    assert (own.edited(files), edited.x) == ([], "another one")
    (tmp_path / files[1]).unlink()  # nothing of it travels
    assert own.edited(files) == []
    for name in names:
        monkeypatch.delitem(sys.modules, name)
