"""What data scientists keep in variables travels: arrays, frames, models."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
from submarine_engine.bundle.capture import Capture


def there_and_back(value):
    capture = Capture()
    capture.add("value", value)
    return pickle.loads(capture.finish().files["values/value.pkl"])  # noqa: S301 - our own


def test_arrays_travel_also_views_on_them():
    view = np.arange(20).reshape(4, 5)[::2, ::-1]
    assert (there_and_back(view) == view).all()


def test_arrays_of_a_framework_travel_where_they_are_in_host_memory():
    # In a process of its own: jax has threads, and warns of every fork from then on.
    code = (
        "import pickle, jax\n"
        "from submarine_engine.bundle.capture import Capture\n"
        "capture = Capture()\n"
        "capture.add('value', {'weights': jax.numpy.arange(300.0)})\n"
        "back = pickle.loads(capture.finish().files['values/value.pkl'])\n"
        "assert (back['weights'] == jax.numpy.arange(300.0)).all()\n"
        "print(capture.finish().values[0].size)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) > 1200


def test_memory_maps_travel_with_what_they_show(tmp_path):
    stored = np.memmap(tmp_path / "data", dtype="f4", mode="w+", shape=(4, 3))
    stored[:] = 7
    back = there_and_back(stored)
    stored[:] = 0
    assert (back == 7).all()


def test_frames_travel():
    frame = pd.DataFrame({"text": ["a", "b"], "number": [1.5, None]}, index=["x", "y"])
    pd.testing.assert_frame_equal(there_and_back(frame), frame)


def test_models_travel():
    # Imported here: it takes long, and each process of a run imports all of the tests.
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    assert there_and_back(model).predict([[2.0]]) == [1]


def test_arrays_of_one_dtype_have_nothing_in_common():
    capture = Capture()
    for name, value in {"one": np.zeros(50), "other": np.ones(50), "kind": np.dtype("f8")}.items():
        capture.add(name, value)
    assert [load.names for load in capture.finish().loads] == [("one",), ("other",), ("kind",)]
