"""What is set by name on a module or a class of a library, there and back."""

import sys
from pathlib import Path

import pytest


@pytest.fixture
def library(notebook, monkeypatch, tmp_path):
    """Install a library, which is not the notebook's own, and have it forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    source = (
        "flag = 0\ndef count(x):\n    return len(x)\nclass Net:\n    rate = 1\nbackend = None\n"
    )
    (folder / "a_library.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))
    yield notebook
    sys.modules.pop("a_library", None)


def test_what_a_job_sets(library):
    library.run("import a_library")
    library.job(
        """
        import a_library as lib
        lib.flag += 2
        lib.rows = rows = [1]
        setattr(lib, "other", "b")
        def patch():
            import a_library
            from a_library import Net
            Net.rate = 5
            a_library.count = lambda x: -1
        patch()
        del lib.backend
        """
    )
    module = sys.modules["a_library"]
    assert (module.flag, module.other, module.Net.rate, module.count("ab")) == (2, "b", 5, -1)
    assert module.rows is library["rows"]
    assert not hasattr(module, "backend")


def test_what_the_notebook_has_set(library):
    library.run("import a_library as lib\nlib.flag = 3\nsetattr(lib, 'rows', [1])")
    library.run("def quiet(x):\n    lib.flag += 1\n    return 0")
    library.run("lib.count = quiet\nlib.Net.rate = 7")
    library.run("import functools\nlib.again = functools.partial(print, end='')")
    library.job(
        """
        found = lib.count("ab"), lib.flag, list(lib.rows), lib.Net.rate, lib.again.keywords
        lib.rows.append(2)
        """
    )
    module = sys.modules["a_library"]
    assert library["found"] == (0, 4, [1], 7, {"end": ""})
    assert (module.flag, module.rows, module.count) == (4, [1, 2], library["quiet"])


def test_what_the_notebook_has_set_between_imports(library):
    for number in range(3):
        library.run(f"import a_library as lib\nlib.at_{number} = {number}\nlen(lib.__name__)")
        library.run("import a_library as lib\nfrom a_library import Net")
    library.run("Net.rate, lib.flag = 7, 8\nfrom a_library import Net")
    library.job("found = lib.at_0, lib.at_1, lib.at_2, Net.rate, lib.flag")
    assert library["found"] == (0, 1, 2, 7, 8)


def test_what_cannot_travel_is_named(library, capsys):
    library.run("import a_library as lib, socket\nlib.backend = socket.socket()")
    library.job("print(lib.flag)")
    said = capsys.readouterr().err
    assert "not in the job, for it cannot leave this process: `lib.backend` (socket.socket)" in said
    library.job("lib.flag = socket.socket()")
    assert "stayed in the job: `a_library.flag` (socket.socket: " in capsys.readouterr().err
    library.run("lib.backend.close()")
    assert sys.modules["a_library"].flag == 0


def test_a_job_that_puts_back_what_the_notebook_has_replaced_says_so(library, capsys):
    library.run("import a_library as lib\nkept = lib.count\nlib.count = max")
    library.job("lib.count = kept\nfound = lib.count('abc')")
    assert library["found"] == 3
    assert "`a_library.count`" in capsys.readouterr().err


PROPERTIES = """
import sys, types
class Properties(types.ModuleType):
    on = property(lambda self: vars(self)["_on"], lambda self, on: vars(self).update(_on=on))
_on = False
sys.modules[__name__].__class__ = Properties
"""


def test_a_module_s_property_is_set_as_such(library):
    Path(sys.path[0], "a_library.py").write_text(PROPERTIES)  # as torch.backends.cudnn is
    library.run("import a_library")
    library.job("a_library.on = True")
    assert sys.modules["a_library"].on is True


def test_what_a_cell_only_reads_is_not_looked_at(library):
    library.run("import a_library, os, sys")
    manifest = library.job("print(a_library.flag)\nsys.ps1 = 'a'\nx = a_library.Net()", "--dry-run")
    assert "flag =" not in manifest.data
