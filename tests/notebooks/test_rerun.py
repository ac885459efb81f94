"""A training that draws by its seeds gives the same bytes once more, whatever was changed since."""

import pytest

from tests.notebooks.reruns import run_again

pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]

TRAINING = """
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
x, y = load_digits(return_X_y=True)
order = np.random.permutation(len(x))[:300]
noise = np.random.normal(size=(300, 64))
model = SGDClassifier(random_state=of_the_notebook.draw(), max_iter=of_the_notebook.WIDTH, tol=None)
model.fit(x[order] / scale + noise, y[order])
trained = model.coef_.tobytes(), order.tobytes(), random.random()
"""


def test_a_training_run_once_more_gives_the_same_bytes(tmp_path):
    first, again, other = run_again(tmp_path, TRAINING)
    assert again == first
    assert other != first  # the notebook and its module are others now
