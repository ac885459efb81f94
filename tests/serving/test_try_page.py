"""The page to try a model by: what it sends, and that nothing in it is more than text."""

from __future__ import annotations

import json

import pytest
from lab_driver import LIMIT, chromium
from submarine_engine.serving.launching import start, wait
from submarine_engine.serving.model import takes
from submarine_engine.serving.try_page import example, try_page


def test_an_example_is_of_the_form_that_the_model_takes(tmp_path):
    def told(signature, **more):
        (tmp_path / "MLmodel").write_text(
            json.dumps({"signature": {"inputs": json.dumps(signature)}, **more})
        )
        return takes(tmp_path)

    tensor = [{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, 3]}}]
    assert example("mlflow", "m", told(tensor)) == ("invocations", {"inputs": [[0.0] * 3]})
    path, body = example("mlserver", "m", told(tensor))
    assert path == "v2/models/m/infer"
    assert body["inputs"] == [
        {"name": "x", "shape": [1, 3], "datatype": "FP64", "data": [0.0, 0.0, 0.0]}
    ]
    columns = told([{"name": "a", "type": "double"}, {"name": "b", "type": "double"}])
    rows = {"columns": ["a", "b"], "data": [[0.0, 0.0]]}
    assert example("mlflow", "m", columns) == ("invocations", {"dataframe_split": rows})
    assert [one["name"] for one in example("mlserver", "m", columns)[1]["inputs"]] == ["a", "b"]
    assert told([], metadata={"n_features_in": 2}) == {"width": 2}
    for odd in ([], [1], {"a": 1}, [{"tensor-spec": {"shape": "x"}}], "no list", None):
        assert told(odd) == {}
    (tmp_path / "MLmodel").write_text("a: [")
    assert takes(tmp_path) == {}


def test_names_are_text_in_the_page():
    page, policy = try_page("digits", "mlflow", {"columns": ["</textarea><script>alert(1)"]})
    assert "<script>alert" not in page
    assert "&lt;/textarea&gt;&lt;script&gt;alert(1)" in page
    nonce = page.partition('<script nonce="')[2].partition('"')[0]
    assert f"script-src 'nonce-{nonce}'" in policy
    assert "default-src 'none'" in policy
    assert try_page("digits", "mlflow", {})[1] != try_page("digits", "mlflow", {})[1]


@pytest.mark.service
@pytest.mark.long
def test_a_model_is_tried_in_a_browser(home, digits):
    path, images, labels = digits
    record = start(str(path), {"name": "digits", "server": "mlflow"})
    wait(record)
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{record.address}/")
        page.get_by_label("A request to").fill(json.dumps({"inputs": images[:1]}))
        page.get_by_role("button", name="Send").click()
        page.wait_for_function(
            "document.getElementById('answer').textContent !== ''", timeout=LIMIT
        )
        assert json.loads(page.locator("#answer").text_content()) == {"predictions": labels[:1]}
        assert page.locator("#told").text_content().startswith("200, ")
