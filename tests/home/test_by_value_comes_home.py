"""Values with code in them that no name leads to travel, and what the job changes comes home."""


def test_lambdas_in_values_read_the_jobs_variables_and_their_owner_is_changed(notebook):
    notebook.run(
        """
        scale = 2
        def make():
            class Net:
                def __init__(self):
                    self.weights = [1]
                    self.act = lambda x: x * scale
            return Net()
        net = make()
        alias = net
        """
    )
    notebook.job(
        """
        scale = 10
        net.weights.append(net.act(4))
        """
    )
    assert notebook["net"] is notebook["alias"]
    assert notebook["net"].weights == [1, 40]
    assert notebook["scale"] == 10
    assert notebook["net"].act(1) == 10


def test_large_arrays_come_home_only_where_they_were_changed(notebook):
    notebook.run(
        """
        import numpy as np
        x, y = np.zeros(1_000_000), np.ones(1_000_000)
        alias = x
        """
    )
    notebook.job("total = y.sum()")
    assert notebook["total"] == 1_000_000
    notebook.job("x += y")
    assert notebook["alias"] is notebook["x"]
    assert notebook["x"].sum() == 1_000_000


def test_more_than_the_configured_default_travels_locally(notebook):
    notebook.run("import numpy as np\nbig = np.zeros(20 << 20)")
    notebook.job("found = big.nbytes")
    assert notebook["found"] == 160 << 20


def test_parts_of_a_class_that_travelled_by_value_do_not_stay(notebook, capsys):
    notebook.run(
        """
        import collections, types
        def kinds():
            class Local:
                @classmethod
                def make(cls): return cls()
                @property
                def size(self): return 1
            return [collections.namedtuple("Point", "x y"), Local]
        run = types.SimpleNamespace(kinds=kinds(), steps=[])
        """
    )
    notebook.job("run.steps.append(run.kinds[0](1, run.kinds[1].make().size))")
    assert notebook["run"].steps == [(1, 1)]
    assert "stayed" not in capsys.readouterr().err
    assert notebook["run"].kinds[0](3, 4)._replace(x=5) == (5, 4)
