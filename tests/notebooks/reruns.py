"""A training run once more after its notebook and its files have changed, bit by bit."""

from __future__ import annotations

from pathlib import Path

from tests.kernels import Driven

HELPER = "import random\nWIDTH = {width}\ndef draw():\n    return random.randrange(1000)\n"
BEFORE = """
import hashlib, importlib, pickle, random
import numpy as np
import of_the_notebook
random.seed({seed})
np.random.seed({seed})
scale = {scale}
def digest(trained):
    return hashlib.sha256(pickle.dumps(trained)).hexdigest()
"""


def run_again(home: Path, training: str) -> tuple[str, str, str]:
    """Run a training as a job, change all that it stood on, and run the job once more.

    Parameters
    ----------
    home
        An empty folder.
    training
        The cell: it gives `trained` its bytes, by `scale`, by the random states of `random` and
        numpy that the notebook has seeded, and by `of_the_notebook`, a module beside it.

    Returns
    -------
    tuple
        The digests of what was trained: by the job, by the job run once more, and by the cell run
        as a job anew after the change.
    """
    module = home / "of_the_notebook.py"
    module.write_text(HELPER.format(width=8))
    kernel = Driven(str(home), env={"CUDA_VISIBLE_DEVICES": ""})
    try:

        def given(cell: str) -> str:
            ran = kernel.run(cell)
            assert ran.reply["status"] == "ok", ran.error
            return kernel.value("digest(trained)")

        kernel.run(BEFORE.format(seed=5, scale=2.0))
        cell = f"%%submarine --name exact --gpus 0\n{training}"
        first = given(cell)
        module.write_text(HELPER.format(width=9))
        changed = BEFORE.format(seed=6, scale=3.0)
        kernel.run(f"{changed}importlib.reload(of_the_notebook)\ntrained = None")
        again = given("%submarine job rerun exact")
        other = given(cell.replace("exact", "other"))
        return first, again, other
    finally:
        kernel.stop()
