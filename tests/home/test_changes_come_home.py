"""What a job's cell changes in place is changed in the notebook's own objects."""

from pathlib import Path

import pandas as pd
import pytest


def test_containers_are_changed_in_place(notebook):
    notebook.run(
        """
        numbers = list(range(200))
        alias = numbers
        table = {"numbers": numbers, "gone": 1}
        seen = {1, 2}
        raw = bytearray(b"abc" * 100)
        small = [1]
        nested = {"lr": [0.1]}
        inner = nested["lr"]
        """
    )
    notebook.job(
        """
        numbers.append("end")
        del table["gone"]
        table["new"] = numbers
        seen.add(3)
        raw[:3] = b"xyz"
        small.append(2)
        nested["lr"].append(0.2)
        """
    )
    assert notebook["numbers"][-1] == "end"
    assert notebook["alias"] is notebook["numbers"]
    assert list(notebook["table"]) == ["numbers", "new"]
    assert notebook["table"]["new"] is notebook["numbers"]
    assert notebook["seen"] == {1, 2, 3}
    assert notebook["raw"][:3] == b"xyz"
    assert notebook["small"] == [1, 2]
    assert notebook["inner"] == [0.1, 0.2]
    assert notebook["nested"]["lr"] is notebook["inner"]


def test_objects_are_changed_in_place_and_stay_tied(notebook):
    notebook.run(
        """
        class Parameter:
            def __init__(self, value):
                self.value = value
        class Model:
            def __init__(self):
                self.weights = [Parameter(1.0), Parameter(2.0)]
                self.temporary = True
        class Optimizer:
            def __init__(self, parameters):
                self.parameters = parameters
                self.steps = 0
            def step(self):
                self.steps += 1
                for parameter in self.parameters:
                    parameter.value -= 0.5
        model = Model()
        best = model
        models = {"net": model}
        optimizer = Optimizer(model.weights)
        before = id(model), id(model.weights), id(model.weights[0])
        """
    )
    for _ in range(2):  # a rerun goes on from there
        notebook.job("optimizer.step()\nmodel.trained = True\nmodel.__dict__.pop('temporary', 0)")
    model = notebook["model"]
    assert [parameter.value for parameter in model.weights] == [0.0, 1.0]
    assert (id(model), id(model.weights), id(model.weights[0])) == notebook["before"]
    assert notebook["best"] is model
    assert notebook["models"]["net"] is model
    assert notebook["optimizer"].parameters is model.weights
    assert notebook["optimizer"].steps == 2
    assert model.trained
    assert not hasattr(model, "temporary")


def test_arrays_are_changed_in_place_with_their_views(notebook):
    notebook.run("import numpy as np\nx = np.zeros((100, 100))\nrow = x[3]\nkeep = {'x': x}")
    notebook.job("x[3] = 7\nx.sort()\ny = x.sum()")
    assert notebook["y"] == 700
    assert (notebook["row"] == 7).all()
    assert notebook["keep"]["x"] is notebook["x"]


def test_frames_are_changed_in_place(notebook):
    notebook.run("import pandas as pd\ndf = pd.DataFrame({'a': [3, 1, 2]})\nalias = df")
    notebook.job("df['b'] = df['a'] * 2\ndf.sort_values('a', inplace=True)\nmean = df['b'].mean()")
    assert notebook["alias"] is notebook["df"]
    assert list(notebook["df"].columns) == ["a", "b"]
    assert list(notebook["df"]["b"]) == [2, 4, 6]
    assert notebook["mean"] == 4


def test_a_fitted_estimator_is_the_notebooks_own(notebook):
    notebook.run(
        """
        import numpy as np
        from sklearn.linear_model import LinearRegression
        X, y = np.arange(10.0).reshape(-1, 1), np.arange(10.0) * 2
        model = LinearRegression()
        same = model
        """
    )
    notebook.job("model.fit(X, y)")
    assert notebook["same"] is notebook["model"]
    assert notebook["model"].coef_[0] == pytest.approx(2)


def test_attributes_of_classes_and_functions_come_home(notebook):
    notebook.run(
        """
        class Net:
            count = 0
            registry = {}
            def __init__(self):
                Net.count += 1
        def called():
            called.times = getattr(called, "times", 0) + 1
        """
    )
    notebook.job("nets = [Net(), Net()]\ncalled()\nNet.forward = lambda self: 5")
    assert notebook["Net"].count == 2
    assert notebook["called"].times == 1
    assert notebook.run("nets[0].forward()") == 5


def test_standard_containers(notebook):
    notebook.run(
        """
        from collections import Counter, OrderedDict, defaultdict, deque
        import array
        c, o, d, q = Counter("a"), OrderedDict(a=1), defaultdict(list), deque([1, 2], 3)
        a = array.array("d", range(300))
        ids = [id(one) for one in (c, o, d, q, a)]
        """
    )
    notebook.job(
        "c.update('ab'); o['b'] = 2; o.move_to_end('a'); d['x'].append(1); q += [3, 4]; a[0] = 9"
    )
    assert notebook["ids"] == [id(notebook[name]) for name in "codqa"]
    assert dict(notebook["c"]) == {"a": 2, "b": 1}
    assert list(notebook["o"]) == ["b", "a"]
    assert notebook["d"] == {"x": [1]}
    assert list(notebook["q"]) == [2, 3, 4]
    assert notebook["a"][0] == 9


def test_what_did_not_change_does_not_travel(notebook, tmp_path):
    notebook.run("rows = [{'n': n} for n in range(1000)]")
    notebook.job("total = sum(row['n'] for row in rows)")
    assert notebook["total"] == 499500
    [home] = tmp_path.glob("home/jobs/*/tasks/*/results/home.pkl")
    assert home.stat().st_size < 100


def test_an_unpicklable_attribute_stays_and_the_rest_comes(notebook, capsys):
    notebook.run("class Run:\n    pass\nrun = Run()\nrun.notes = []")
    notebook.job("run.stream = (i for i in [1])\nrun.notes.append('kept')\nrun.step = 4")
    assert notebook["run"].notes == ["kept"]
    assert notebook["run"].step == 4
    assert not hasattr(notebook["run"], "stream")
    assert "stream" in capsys.readouterr().err


def test_a_changed_object_whose_state_cannot_be_taken_is_named(notebook, capsys):
    notebook.run(
        """
        class Connected:
            def __init__(self, steps):
                self.steps = steps
            def __reduce__(self):
                if self.steps:
                    raise RuntimeError("busy")
                return Connected, (self.steps,)
        run, notes = Connected(0), []
        """
    )
    notebook.job("run.steps = 4\nnotes.append(run.steps)")
    assert notebook["run"].steps == 0
    assert notebook["notes"] == [4]
    said = capsys.readouterr().err
    assert "stayed in the job: `changes of run` (__main__.Connected: RuntimeError: busy)" in said


def test_what_classes_and_functions_hold_goes_and_comes(notebook):
    notebook.run(
        """
        class Account:
            opened = 0
            register = {}
            def __init__(self, owner):
                Account.opened += 1
                Account.register[owner] = self
        register = Account.register
        first = Account("ann")
        def objective(x, *, seen={}):
            objective.calls = getattr(objective, "calls", 0) + 1
            return seen.setdefault(x, x * x)
        objective(1)
        def counter():
            n = 0
            def up():
                nonlocal n
                n += 1
                return n
            return up, lambda: n
        up, peek = counter()
        """
    )
    notebook.job("second = Account('bob')\nobjective(2)\nup(); up()")
    account = notebook["Account"]
    assert account.opened == 2
    assert account.register is notebook["register"]
    assert account.register == {"ann": notebook["first"], "bob": notebook["second"]}
    assert notebook["objective"].calls == 2
    assert notebook["objective"].__kwdefaults__ == {"seen": {1: 1, 2: 4}}
    assert notebook.run("peek()") == 2


def test_what_the_cells_own_definitions_hold_comes_home(notebook):
    notebook.job(
        """
        import functools
        def counted(function):
            calls = []
            @functools.wraps(function)
            def inner(*args):
                inner.times += 1
                calls.append(args)
                return function(*args)
            inner.times = 0
            inner.calls = calls
            return inner
        @counted
        def area(x):
            return x * x
        class Net:
            made = 0
            def __init__(self):
                Net.made += 1
        area(3)
        net = Net()
        """
    )
    assert notebook["area"].times == 1
    assert notebook["Net"].made == 1
    assert notebook.run("area(2)") == 4
    assert notebook["area"].times == 2
    assert type(notebook["net"]) is notebook["Net"]


def test_random_states_come_home(notebook):
    import random

    notebook.run("import random\nimport numpy as np\nrandom.seed(1)\nnp.random.seed(2)")
    notebook.job("a = random.random(), np.random.rand()")
    notebook.run("b = random.random(), np.random.rand()")
    plain = random.Random(1)  # noqa: S311 - the numbers are to be the same
    assert [notebook["a"][0], notebook["b"][0]] == [plain.random(), plain.random()]
    import numpy as np

    legacy = np.random.RandomState(2)
    assert [notebook["a"][1], notebook["b"][1]] == [legacy.rand(), legacy.rand()]


def test_generators_of_ones_own_go_on(notebook, capsys):
    notebook.run(
        """
        import random
        import numpy as np
        g, r, old = np.random.default_rng(5), random.Random(5), np.random.RandomState(5)
        same = g
        """
    )
    notebook.job("a = g.random(), r.random(), old.rand()")
    notebook.run("b = g.random(), r.random(), old.rand()")
    notebook.run("g, r, old = np.random.default_rng(5), random.Random(5), np.random.RandomState(5)")
    notebook.run("c = [(g.random(), r.random(), old.rand()) for _ in range(2)]")
    assert [notebook["a"], notebook["b"]] == notebook["c"]
    assert capsys.readouterr().err == ""


def test_the_process_is_set_as_the_cell_set_it(notebook, monkeypatch, tmp_path):
    import os
    import sys

    monkeypatch.setenv("PROOF_GONE", "1")
    monkeypatch.setenv("PROOF_MODE", "before")
    monkeypatch.setattr(sys, "path", list(sys.path))
    notebook.job(
        """
        import os, sys
        os.environ["PROOF_MODE"] = "after"
        del os.environ["PROOF_GONE"]
        os.mkdir("below")
        sys.path.append("below")
        os.chdir("below")
        """
    )
    assert os.environ["PROOF_MODE"] == "after"
    assert "PROOF_GONE" not in os.environ
    assert Path.cwd() == tmp_path / "notes" / "below"
    assert sys.path[-1] == "below"


def test_a_closed_file_is_no_news(notebook, capsys):
    notebook.job("with open('notes.txt', 'w') as out:\n    out.write('x')\nsize = 1")
    assert notebook["out"].closed
    assert notebook["out"].name == "notes.txt"
    assert capsys.readouterr().err == ""


def test_views_share_memory_there_and_here(notebook):
    notebook.run(
        """
        import numpy as np
        grid = np.zeros((3, 3))
        row, column = grid[1], grid[:, 2]
        whole = np.arange(200_000.0)
        train, test = whole[:150_000], whole[150_000:]
        """
    )
    notebook.job(
        "grid[:] = 7\nrow[0] = -1\nnew = grid[2]\ntest[:] = 1\nown = np.zeros(4)\npart = own[2:]"
    )
    assert notebook["grid"].tolist() == [[7, 7, 7], [-1, 7, 7], [7, 7, 7]]
    assert notebook["row"].tolist() == [-1, 7, 7]
    assert notebook["whole"][-1] == 1
    notebook.run("new[0] = 5\npart[:] = 3\nrow[1] = 2")
    assert notebook["grid"].tolist() == [[7, 7, 7], [-1, 2, 7], [5, 7, 7]]
    assert notebook["own"].tolist() == [0, 0, 3, 3]
    assert notebook["column"].tolist() == [7, 7, 7]


def test_of_large_arrays_those_that_changed_come_home(notebook, tmp_path):
    notebook.run(
        """
        import numpy as np
        class Trainer:
            pass
        trainer = Trainer()
        trainer.data = np.ones((300, 1000))
        trainer.weights = np.zeros(20_000)
        weights = trainer.weights
        """
    )
    notebook.job("trainer.weights += 1\ntrainer.step = 1")
    assert notebook["weights"].sum() == 20_000
    assert notebook["trainer"].step == 1
    assert notebook["trainer"].data.sum() == 300_000
    [home] = tmp_path.glob("home/jobs/*/tasks/*/results/home.pkl")
    assert home.stat().st_size < 200_000


def test_tuples_that_hold_what_changed_stay_the_same_objects(notebook):
    notebook.run(
        """
        import numpy as np
        from collections import namedtuple
        class Model:
            steps = 0
        Trained = namedtuple("Trained", "model losses")
        model = Model()
        pair = (model, [])
        both = Trained(model, pair[1])
        group = frozenset({model, 3})
        table = {"pair": pair, "both": both, "group": group}
        small = ([1], "written out")
        before = [pair, both, group, small]
        """
    )
    notebook.job(
        """
        model.steps += 1
        pair[1].append(0.5)
        table["again"] = [pair, both, group]
        small[0].append(small)
        """
    )
    model, pair, table = notebook["model"], notebook["pair"], notebook["table"]
    assert model.steps == 1
    assert pair[0] is model
    assert pair[1] == [0.5]
    now = [table["pair"], table["both"], table["group"], notebook["small"]]
    assert all(map(lambda one, other: one is other, now, notebook["before"]))
    assert all(map(lambda one, other: one is other, table["again"], now))
    assert notebook["small"][0][1] is notebook["small"]


def test_a_tuple_with_what_could_not_be_changed_in_place_holds_the_new_one(notebook, capsys):
    notebook.run("import numpy as np\nx = np.zeros(3)\npair = (x, [x])\nouter = {'p': pair}")
    notebook.job("x.shape = (1, 3)\nx[:] = 1\nouter['n'] = 1")
    assert notebook["x"].tolist() == [[1.0] * 3]
    assert notebook["pair"][0] is notebook["x"]
    assert notebook["pair"][1][0] is notebook["x"]
    assert notebook["outer"]["p"] is notebook["pair"]
    assert "is a new object now" in capsys.readouterr().err


def test_what_the_cell_binds_and_deletes_is_gone(notebook):
    notebook.run("a = b = c = error = other = 1")
    notebook.job(
        """
        a = [2]
        del a
        if False:
            b = 3
        try:
            c = 1 / 0
        except ZeroDivisionError as error:
            pass
        try:
            fresh = 1
        except ZeroDivisionError as other:
            pass
        """
    )
    assert "a" not in notebook
    assert "error" not in notebook
    assert [notebook[name] for name in ("b", "c", "other", "fresh")] == [1, 1, 1, 1]


UNCHANGED = {
    "sets": "v = {i: {str(i), str(i + 1), 'x'} for i in range(200)}",
    "a set of tuples": "v = {(i, i + 1) for i in range(300)}",
    "views": "import numpy as np\ngrid = np.zeros((30, 30))\nrow = grid[3]\nv = [grid, row]",
    "a lambda": "scale = 3\nv = [lambda x: x * scale]",
    "a closure": "def make():\n    n = [0]\n    return lambda: n\nv = [make()]",
    "a local class": "def make():\n    class Net:\n        pass\n    return Net()\nv = make()",
    "a forest": "from sklearn.ensemble import RandomForestClassifier as Forest\n"
    "v = Forest(5).fit([[0], [1]], [0, 1])",
    "tuples": "class A: pass\na = A()\nv = [(a, i) for i in range(200)]",
}


@pytest.mark.sampled
@pytest.mark.parametrize("made", UNCHANGED.values(), ids=UNCHANGED)
def test_what_is_pickled_in_another_way_does_not_travel_unchanged_either(notebook, tmp_path, made):
    notebook.run(made)
    notebook.job("seen = len(str(v)) > 0")
    [outcome] = tmp_path.glob("home/jobs/*/tasks/*/outcome.json")
    assert '"states"' not in outcome.read_text()
    assert '"made"' not in outcome.read_text()


def test_a_column_is_added_to_a_frame_that_others_hold(notebook):
    notebook.run(
        """
        import pandas as pd

        df = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]})
        alias, train = df, df.iloc[:1]
        """
    )
    notebook.job("df['z'] = df['x'] * 2\nprint(train.shape)")
    assert list(notebook["df"].columns) == ["x", "y", "z"]
    assert notebook["df"]["z"].tolist() == [2.0, 4.0]
    assert notebook["alias"] is notebook["df"]


def test_an_object_changes_its_class(notebook):
    notebook.run(
        """
        class Ready:
            pass

        class Lazy:
            def become(self):
                self.__class__, self.size = Ready, 3
                del self.hook

        thing = Lazy()
        thing.hook = 1
        alias = thing
        """
    )
    notebook.job("thing.become()")
    assert type(notebook["alias"]) is notebook["Ready"]
    assert vars(notebook["alias"]) == {"size": 3}


def test_weak_references_lead_to_what_they_led_to(notebook):
    notebook.run(
        """
        import weakref

        class Node:
            pass

        parent, child = Node(), Node()
        child.parent = weakref.ref(parent)
        child.gone = weakref.ref(Node())
        """
    )
    notebook.job("child.parent().seen = True\nfresh = weakref.ref(child)\nprint(child.gone())")
    assert notebook["child"].parent() is notebook["parent"]
    assert notebook["parent"].seen
    assert notebook["fresh"]() is notebook["child"]
    assert notebook["child"].gone() is None


def test_a_function_without_a_name_stays_the_one_that_it_was(notebook):
    notebook.run(
        """
        def make():
            def inner():
                return 1
            return inner

        class Holder:
            pass

        holder = Holder()
        holder.call = kept = make()
        """
    )
    notebook.job("holder.call.times = 2\nholder.other = holder.call")
    assert notebook["holder"].other is notebook["kept"]
    assert notebook["kept"].times == 2


def test_of_a_change_that_cannot_be_read_a_line_tells(notebook, capsys):
    notebook.run(
        """
        class Worker:
            def __init__(self):
                self.steps, self.busy = 0, False
            def __getstate__(self):
                if self.busy:
                    raise RuntimeError("it is at work")
                return dict(vars(self))
        worker = Worker()
        """
    )
    notebook.job("worker.steps, worker.busy = 3, True\nother = 5")
    assert (notebook["worker"].steps, notebook["other"]) == (0, 5)
    assert (
        "`changes of worker` (__main__.Worker: RuntimeError: it is at work)"
        in capsys.readouterr().err
    )


def test_an_object_that_lies_about_its_class_is_no_definition(notebook):
    notebook.run(
        """
        class Proxy:
            def __init__(self):
                self.steps = 0
            @property
            def __class__(self):
                return type
        proxy = Proxy()
        """
    )
    notebook.job("other = proxy.steps + 5")
    assert notebook["other"] == 5


def test_an_object_whose_class_cannot_be_asked_for_is_in_nobodys_way(notebook, tmp_path):
    (tmp_path / "notes" / "local.py").write_text(
        "class Proxy:\n"
        "    @property\n"
        "    def __class__(self):\n"
        "        raise RuntimeError('working outside of request context')\n"
        "request = Proxy()\n"
    )
    notebook.run("import sys; sys.path.insert(0, '')\nfrom local import request")
    notebook.job("from local import request\nmine = request\nother = 5")
    assert notebook["mine"] is notebook["request"]
    assert notebook["other"] == 5


def test_an_object_whose_state_becomes_its_dict_comes_home_without_a_word(notebook, capsys):
    notebook.run(
        """
        def iter_of(value):
            yield value

        class Artist:
            def __init__(self):
                self.title, self.held = "", iter_of(1)
            def __getstate__(self):
                return {"title": self.title}
            def __setstate__(self, state):
                self.__dict__ = state
                self.held = iter_of(1)

        class Plain:
            def __init__(self):
                self.title = ""
            def __setstate__(self, state):
                self.__dict__ = state

        artist, plain = Artist(), Plain()
        alias, inner = artist, vars(plain)
        """
    )
    notebook.job("artist.title = plain.title = 'drawn in the job'")
    assert notebook["alias"].title == notebook["plain"].title == "drawn in the job"
    assert notebook["alias"] is notebook["artist"]
    assert "stayed in the job" not in capsys.readouterr().err


def test_of_a_lock_that_nobody_holds_there_is_nothing_to_say(notebook, capsys):
    notebook.run(
        "import threading\nclass Rows:\n    def __init__(self):\n"
        "        self.lock, self.rows = threading.Lock(), []\nheld = Rows()"
    )
    notebook.job("with held.lock:\n    held.rows.append(1)")
    assert notebook["held"].rows == [1]
    assert "stayed" not in capsys.readouterr().err


def test_of_many_small_containers_the_changed_ones_alone_come(notebook, tmp_path):
    notebook.run(
        """
        import math
        rows = [[number, (number, 0.5)] for number in range(20_000)]
        rows[3] = {"nan": math.nan, "zero": 0.0, "row": rows[4]}
        odd, first, eighth = rows[3], rows[0], rows[8]
        """
    )
    notebook.job(
        """
        rows[7].append(1)
        rows[9] = rows[8]
        rows[11][0] = True
        rows[3]["zero"] = -0.0
        """
    )
    rows = notebook["rows"]
    assert rows[7] == [7, (7, 0.5), 1]
    assert rows[9] is rows[8] is notebook["eighth"]
    assert rows[11][0] is True
    assert rows[3] is notebook["odd"]
    assert str(notebook["odd"]["zero"]) == "-0.0"
    assert notebook["odd"]["row"] is rows[4]
    assert rows[0] is notebook["first"]
    assert rows[12] == [12, (12, 0.5)]
    notebook.job("del first[1]")
    sizes = sorted(path.stat().st_size for path in tmp_path.glob("home/jobs/*/tasks/*/results/*"))
    assert notebook["rows"][0] == [0]
    assert sizes[0] < 1000  # `rows` itself did not change: it is not named anew


def test_a_list_is_told_of_an_array_that_is_another_one(notebook):
    notebook.run(
        """
        import numpy
        held = [numpy.arange(3), ["a", 1]]
        alias = held
        inner = held[1]
        """
    )
    notebook.job("held[0].shape = 3, 1\nheld[1].append(2)")
    assert notebook["alias"] is notebook["held"]
    assert notebook["held"][0].tolist() == [[0], [1], [2]]
    assert notebook["held"][1] is notebook["inner"]
    assert notebook["inner"] == ["a", 1, 2]


@pytest.fixture
def copy_on_write():
    """Have pandas do so where it has to be told to."""
    if int(pd.__version__.partition(".")[0]) >= 3:
        yield
        return
    pd.set_option("mode.copy_on_write", True)
    yield
    pd.reset_option("mode.copy_on_write")


@pytest.mark.usefixtures("copy_on_write")
def test_what_a_frame_shares_until_it_is_written_to(notebook):
    notebook.run(
        """
        import pandas as pd
        df = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})
        column, part, by = df["a"], df[["a"]], df.set_index("a")
        whole = pd.DataFrame({"e": pd.Series([1, None], dtype="Int64")})
        some = whole["e"]
        """
    )
    notebook.job(
        """
        df.loc[0, "a"] = 10
        whole.loc[0, "e"] = 10
        late = df["b"]
        found = list(column), list(part["a"]), list(by.index), some[0]
        """
    )
    assert notebook["found"] == ([1, 2, 3], [1, 2, 3], [1, 2, 3], 1)
    assert (notebook["df"].loc[0, "a"], notebook["whole"].loc[0, "e"]) == (10, 10)
    assert (list(notebook["column"]), notebook["some"][0]) == ([1, 2, 3], 1)
    notebook.run("df.loc[0, 'b'] = 77")
    assert list(notebook["late"]) == [4, 5, 6]


@pytest.mark.usefixtures("copy_on_write")
def test_a_column_that_the_job_does_not_see_stays_as_it_was(notebook):
    notebook.run(
        """
        import pandas as pd
        df = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})
        column, twin = df["a"], df
        held = {"frame": pd.DataFrame({"e": pd.Series([1, None], dtype="Int64")})}
        some = held["frame"]["e"]
        """
    )
    notebook.job("df.loc[0, 'a'] = held['frame'].loc[0, 'e'] = 10")
    assert list(notebook["df"]["a"]) == [10, 2, 3]
    assert (notebook["held"]["frame"].loc[0, "e"], notebook["some"][0]) == (10, 1)
    assert notebook["twin"] is notebook["df"]
    assert list(notebook["column"]) == [1, 2, 3]


def test_a_masked_array_and_its_mask(notebook):
    notebook.run("import numpy as np\nmasked = np.ma.masked_array([1, 2, 3], [0, 1, 0])")
    masked, data = notebook["masked"], notebook["masked"].data
    notebook.job("masked[0] = 9\nmasked.mask[2] = True\nmasked.fill_value = 7")
    assert notebook["masked"] is masked
    assert (masked.tolist(), data[0], masked.fill_value) == ([9, None, None], 9, 7)


CLASSES = """
class Shape:
    made = 0
    def __new__(cls, *args):
        Shape.made += 1
        return super().__new__(cls)

class Square(Shape):
    def __init__(self, side):
        self.side = side

class Rows(list):
    def __new__(cls, *args):
        Shape.made += 1
        return super().__new__(cls)

class Celsius(float):
    def __new__(cls, fahrenheit):
        return super().__new__(cls, (fahrenheit - 32) * 5 / 9)

class Point(tuple):
    def __new__(cls, x, y):
        return super().__new__(cls, (x, y))

class Own:
    def __new__(cls, number):
        made = super().__new__(cls)
        made.number = number
        return made
    def __getnewargs__(self):
        return (self.number,)

class Single:
    one = None
    def __new__(cls):
        cls.one = cls.one or super().__new__(cls)
        return cls.one
"""


def test_classes_that_make_their_objects_themselves(notebook):
    notebook.run(CLASSES)
    notebook.run("square, rows, own, single = Square(1), Rows([1]), Own(3), Single()")
    notebook.run("boiling, at = Celsius(212), Point(1, 2)")
    square, rows, single = notebook["square"], notebook["rows"], notebook["single"]
    notebook.job(
        """
        square.side, own.number, alone = 5, 4, Single() is single
        rows.append(2)
        found = Shape.made, float(boiling), at
        more = [Square(2), Celsius(32), Point(3, 4)]
        """
    )
    assert notebook["found"] == (2, 100, (1, 2))
    assert notebook["Shape"].made == 3
    assert notebook["alone"] is True
    assert notebook["Single"]() is notebook["single"] is single
    assert (notebook["square"], notebook["rows"]) == (square, rows)
    assert (square.side, rows, notebook["own"].number) == (5, [1, 2], 4)
    assert (notebook["more"][1], type(notebook["more"][2]).__name__) == (0, "Point")


def test_what_a_weak_reference_leads_to_is_there(notebook):
    notebook.run("import weakref\nclass Node:\n    up = None\n    name = 'n'")
    notebook.run("root, kid = Node(), Node()\nkid.up = weakref.ref(root)")
    notebook.job("found = kid.up().name\nkid.up().name = 'changed'")
    assert notebook["found"] == "n"
    assert notebook["root"].name == "changed"
    assert notebook["kid"].up() is notebook["root"]
