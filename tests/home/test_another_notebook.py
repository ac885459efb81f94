"""A job whose notebook is gone comes home to the one that attaches to it."""

from tests.home.conftest import Notebook
from tests.jobs import until

CELLS = """
import numpy as np
class Model:
    def __init__(self):
        self.weights = np.zeros(100_000)
        self.activation = lambda x: x * scale
scale = 2
"""


def test_what_the_job_changed_is_bound_in_the_notebook_that_attaches(notebook):
    notebook.run(CELLS + "model = Model()\nalias = model\nlosses = []")
    job = notebook.job(
        """
        def total():
            return model.weights.sum()
        model.weights[:5] = 1
        losses.append(0.5)
        last = total()
        last
        """,
        "--detach",
    )
    until(job.done)
    other = Notebook()
    other.run(CELLS)
    assert other.run(f"%submarine job attach {job.id}") == 5
    assert other["model"].weights.sum() == 5
    assert other["losses"] == [0.5]
    assert other.run("total(), model.activation(4)") == (5, 8)
    assert notebook["model"].weights.sum() == 0  # not before it attaches itself
    notebook.run(f"%submarine job attach {job.id}")
    assert notebook["alias"].weights.sum() == 5
    assert notebook["losses"] == [0.5]
