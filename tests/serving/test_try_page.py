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
    single = [{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 2]}}]
    assert example("mlserver", "m", told(single))[1]["inputs"][0]["datatype"] == "FP32"
    columns = told([{"name": "a", "type": "double"}, {"name": "b", "type": "double"}])
    rows = {"columns": ["a", "b"], "data": [[0.0, 0.0]]}
    assert example("mlflow", "m", columns) == ("invocations", {"dataframe_split": rows})
    assert [one["name"] for one in example("mlserver", "m", columns)[1]["inputs"]] == ["a", "b"]
    assert told([], metadata={"n_features_in": 2}) == {"width": 2}
    for odd in ([], [1], {"a": 1}, [{"tensor-spec": {"shape": "x"}}], "no list", None):
        assert told(odd) == {}
    (tmp_path / "MLmodel").write_text("a: [")
    assert takes(tmp_path) == {}


def test_an_example_that_was_kept_with_a_model_is_the_one_to_try(tmp_path):
    def told(body):
        (tmp_path / "MLmodel").write_text("flavors: {}")
        (tmp_path / "serving_input_example.json").write_text(body)
        return takes(tmp_path)

    deep = told('{"inputs": [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [0, 1, 2]]]}')
    assert example("mlflow", "m", deep)[1]["inputs"][1] == [[7, 8, 9], [0, 1, 2]]
    (tensor,) = example("mlserver", "m", deep)[1]["inputs"]
    assert (tensor["shape"], tensor["datatype"]) == ([2, 2, 3], "INT64")
    assert tensor["data"] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    table = told('{"dataframe_split": {"columns": ["a", "b"], "data": [[1.5, "x"], [2, "y"]]}}')
    assert example("mlflow", "m", table)[1]["dataframe_split"]["columns"] == ["a", "b"]
    first, second = example("mlserver", "m", table)[1]["inputs"]
    assert (first["data"], first["datatype"]) == ([1.5, 2], "FP64")
    assert (second["data"], second["datatype"], second["shape"]) == (["x", "y"], "BYTES", [2])
    zeros = [{"name": "x", "shape": [1, 1], "datatype": "FP64", "data": [0.0]}]
    for odd in (
        "[1]",
        "{",
        "{}",
        '{"inputs": []}',
        '{"inputs": [{}]}',
        '{"inputs": [[1], [2, 3]]}',
    ):
        assert isinstance(example("mlserver", "m", told(odd))[1]["inputs"], list)
    assert example("mlserver", "m", told("[1]"))[1]["inputs"] == zeros
    assert told(f'{{"inputs": [{"1, " * 40_000} 1]}}') == {}


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
