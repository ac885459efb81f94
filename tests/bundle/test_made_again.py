"""What cannot travel is made again in the job by its statement, where nothing is lost by that."""

import json

import pytest
from submarine_engine.bundle import Manifest
from submarine_engine.errors import CannotTravelError


def test_a_generator_is_made_again_and_the_manifest_says_so(notebook):
    notebook.run("data = [1, 2, 3]\ndouble = (2 * x for x in data)")
    bundle = notebook.bundle("print(list(double))")
    assert notebook.result(bundle) == "[2, 4, 6]\n"
    assert bundle.manifest.made_again == "made again in the job: `double` (In [1])"
    assert [made.type for made in bundle.manifest.again] == ["generator"]
    assert Manifest.from_json(json.loads(json.dumps(bundle.manifest.to_json()))) == bundle.manifest


def test_nothing_is_said_where_nothing_is_made_again(notebook):
    notebook.run("data = [1, 2, 3]")
    assert notebook.bundle("print(data)").manifest.made_again == ""


def test_what_was_made_in_several_steps_is_made_again_in_these_steps(notebook):
    notebook.run("ds = (x for x in range(4))").run("ds = (x + 1 for x in ds)")
    notebook.run("def batches(ds):\n    for x in ds:\n        yield [x]")
    notebook.run("ds = batches(ds)")
    bundle = notebook.bundle("print(list(ds))")
    assert notebook.result(bundle) == "[[1], [2], [3], [4]]\n"


def test_files_open_for_reading_are_opened_again(notebook):
    path = notebook.folder / "data.txt"
    path.write_text("a\nb\n")
    notebook.run(f"path = {str(path)!r}\nfile = open(path)")
    try:
        assert notebook.job("print(file.read().split())") == "['a', 'b']\n"
    finally:
        notebook.namespace["file"].close()


def test_files_open_for_writing_are_refused_untouched(notebook):
    path = notebook.folder / "data.txt"
    notebook.run(f"file = open({str(path)!r}, 'w')\nfile.write('kept')\nfile.flush()")
    with pytest.raises(CannotTravelError, match="open file"):
        notebook.bundle("file.write('more')")
    notebook.namespace["file"].close()
    assert path.read_text() == "kept"


def test_databases_on_disk_are_opened_again_and_those_in_memory_refused(notebook):
    path = notebook.folder / "data.db"
    notebook.run(f"import sqlite3\ndb = sqlite3.connect({str(path)!r})")
    notebook.run("db.execute('create table t (x)')\ndb.execute('insert into t values (7)')")
    notebook.run("db.commit()\nheld = sqlite3.connect(':memory:')")
    assert notebook.job("print(db.execute('select x from t').fetchall())") == "[(7,)]\n"
    with pytest.raises(CannotTravelError, match="database connection"):
        notebook.bundle("print(held)")
    notebook.namespace["db"].close()
    notebook.namespace["held"].close()


def test_pools_of_threads_are_made_again(notebook):
    notebook.run("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)")
    assert notebook.job("print(list(pool.map(abs, [-1])))") == "[1]\n"


def test_objects_with_state_are_never_made_again(notebook):
    notebook.run(
        "class Model:\n"
        "    def __init__(self): self.weights = [0]; self.log = (x for x in ())\n"
        "    def __call__(self): return self.weights"
    )
    notebook.run("model = Model()\nmodel.weights[0] = 7")
    with pytest.raises(CannotTravelError) as caught:
        notebook.bundle("print(model())")
    assert "`model.log` is a generator" in caught.value.what
    assert caught.value.where == "In [2], line 1"


def test_containers_are_never_made_again(notebook):
    notebook.run("runs = []\nruns.append(x for x in range(3))")
    with pytest.raises(CannotTravelError, match=r"runs\[0\]"):
        notebook.bundle("print(runs)")


def test_what_made_it_has_to_travel_as_well(notebook):
    notebook.run("class Source:\n    def __init__(self): self.g = (1 for _ in ())")
    notebook.run("source = Source()").run("rows = (source for _ in range(2))")
    with pytest.raises(CannotTravelError, match=r"`source\.g` is a generator"):
        notebook.bundle("print(rows)")


def test_all_that_cannot_travel_is_told_in_one_message(notebook):
    notebook.run("import threading\nlock = threading.Lock()\nlock.acquire()")
    notebook.run("# rows\nrows = [(x for x in range(3))]")
    with pytest.raises(CannotTravelError) as caught:
        notebook.bundle("print(lock, rows)")
    text = str(caught.value)
    assert text.startswith("2 values cannot travel:\n")
    assert "  In [1], line 2: `lock` is a lock" in text
    assert "  In [2], line 2: `rows[0]` is a generator" in text
    assert text.count("→") == 2


def test_figures_with_what_was_drawn_travel(notebook):
    notebook.run("import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt")
    notebook.run("fig, ax = plt.subplots()\nax.plot([1, 2], [3, 4])")
    bundle = notebook.bundle("print(len(fig.axes[0].lines), fig.axes[0] is ax)")
    assert bundle.manifest.again == ()
    assert notebook.result(bundle) == "1 True\n"


def test_what_may_hold_something_is_made_again_only_where_nothing_touched_it(notebook):
    notebook.run("view = memoryview(bytearray(3))")
    assert notebook.bundle("print(view[0])").manifest.made_again.endswith("`view` (In [1])")
    notebook.run("view[0] = 7\nprint(view)")
    with pytest.raises(CannotTravelError, match="view on memory"):
        notebook.bundle("print(view[0])")
