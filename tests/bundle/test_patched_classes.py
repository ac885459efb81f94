"""Classes that an import has patched are patched in the job as well, before values are loaded."""

import functools
import sys
import textwrap
import types

import pytest
from submarine_engine.bundle.pickling import patching

MODULES = {
    "learning": """
        class Learner:
            def __init__(self, rate):
                self.rate = rate
            def fit(self):
                return self.rate
    """,
    "schedules": """
        import contextlib
        from learning import Learner

        def fit_one_cycle(self):
            with self.quiet():
                return self.rate * 10

        @contextlib.contextmanager
        def quiet(self):
            yield

        Learner.fit_one_cycle = fit_one_cycle
        Learner.quiet = quiet
    """,
}


@pytest.fixture
def patched(notebook, monkeypatch):
    """Give a notebook two modules, of which the second patches a class of the first."""
    for name, source in MODULES.items():
        (notebook.folder / f"{name}.py").write_text(textwrap.dedent(source))
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(notebook.folder))
    yield notebook
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("made", ["learn = Learner(4)", "learn = functools.partial(Learner, 4)()"])
def test_what_an_import_added_to_a_class_is_there_in_the_job(patched, made):
    patched.run(f"import functools\nfrom learning import *\nfrom schedules import *\n{made}")
    bundle = patched.bundle("print(learn.fit_one_cycle())", root=patched.folder)
    assert "import schedules\n" in bundle.script
    assert bundle.script.index("import schedules") < bundle.script.index("learn = load_values(")
    assert {"learning.py", "schedules.py"} <= set(bundle.files)
    assert patched.result(bundle) == "40\n"


def test_classes_of_the_notebook_bring_the_patches_of_their_bases(patched):
    patched.run("from learning import *\nfrom schedules import *\nclass Mine(Learner): pass")
    patched.run("learn = Mine(2)")
    bundle = patched.bundle("print(learn.fit_one_cycle())", root=patched.folder)
    assert patched.result(bundle) == "20\n"


def test_a_module_that_the_cell_imports_is_not_imported_twice(patched):
    patched.run("import schedules\nfrom learning import Learner\nlearn = Learner(1)")
    bundle = patched.bundle("import schedules\nlearn.fit_one_cycle()", root=patched.folder)
    assert bundle.script.count("import schedules") == 1


def test_a_class_that_says_it_is_from_where_it_is_shown_is_not_patched(monkeypatch):
    inner = types.ModuleType("package.inner")
    monkeypatch.setitem(sys.modules, "package.inner", inner)
    exec("class Array:\n    def sum(self): ...\n    def mean(self): ...", vars(inner))  # noqa: S102
    inner.Array.__module__ = "package"
    assert list(patching(inner.Array)) == []


def test_what_is_built_in_and_what_wraps_itself_is_looked_at_once():
    class Own:
        def method(self): ...

    Own.method.__wrapped__ = Own.method
    Own.again = functools.wraps(Own.method)(lambda _: None)
    assert list(patching(Own)) == []
    assert list(patching(dict)) == []
