"""Notebooks of the frameworks themselves, run plain and with their heavy cells as jobs.

They need an environment that has all of them: ``make pytest-frameworks``, as `make test-long` does.
"""

import pickle
from pathlib import Path

import pytest
from submarine_engine.bundle.capture import Capture

from tests.notebooks import percent
from tests.notebooks.same import told_apart

FOLDER = Path(__file__).parent / "frameworks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_as_if_its_cells_had_run_right_there(path, tmp_path):
    found = told_apart(percent.read(path), tmp_path)
    assert not found, "\n".join(map(str, found))


def test_no_gradient_goes_silently_without_what_another_process_computed():
    import torch

    weight = torch.ones(2, requires_grad=True)
    capture = Capture()
    capture.add("loss", (weight * 3).sum())
    [content] = capture.finish().files.values()
    loss = pickle.loads(content)  # noqa: S301 - of this very test
    assert repr(loss) == "tensor(6., grad_fn=<SumBackward0>)"
    with pytest.raises(RuntimeError, match=r"\(SumBackward0\) came here from another process"):
        (loss + weight.sum()).backward()
    weight.grad = None
    (loss.detach() + weight.sum()).backward()
    assert weight.grad.tolist() == [1, 1]
