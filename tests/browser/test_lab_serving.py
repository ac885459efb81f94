"""A model that is served from a notebook, tried on the card itself, in a real browser."""

from __future__ import annotations

import json
import os

import pytest
from submarine_engine.serving.launching import servings, stop

CARD = ".submarine-Card .submarine-card"
FORM = f"{CARD} form.smc-trying"
CELLS = (
    "%load_ext submarine_magics",
    """
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB
    images, labels = load_digits(return_X_y=True)
    fitted = GaussianNB().fit(images[:, :3], labels)
    def model(rows):
        if float(rows[0][0]) < 0: raise ValueError("<b>no image</b> is negative")
        if float(rows[0][0]) > 99: return ["<img src=x onerror=alert(1)>"]
        return [int(fitted.predict([row])[0]) for row in rows]
    """,
    "%submarine serve model --name tried --server mlflow",
)


@pytest.fixture
def served(lab, monkeypatch):
    monkeypatch.setenv("SUBMARINE_HOME", str(lab.home))
    yield
    for one in servings():
        stop(one.name)


@pytest.mark.long
@pytest.mark.usefixtures("served")
def test_a_model_is_tried_on_its_card(notebook, page, errors, tmp_path):
    notebook(*CELLS).run_all()
    form = page.locator(FORM)
    form.wait_for()
    body, answer = form.locator("textarea"), form.locator("pre")
    example = json.loads(body.input_value())
    assert example == {"inputs": [[0.0]]}  # a function of its inputs does not say how many
    failed = form.locator("[role=alert]")

    def send(text, expected):
        body.fill(text)
        form.get_by_role("button", name="Send").click()
        expected.wait_for()

    send(json.dumps({"inputs": [[0, 0, 5], [0, 0, 9]]}), form.get_by_text("predictions"))
    told = json.loads(answer.text_content())
    assert len(told["predictions"]) == 2
    assert form.locator("[role=status]").text_content().startswith("200, ")
    # What the model says is text, whatever it says.
    send(json.dumps({"inputs": [[100, 0, 0]]}), form.get_by_text("onerror"))
    assert "<img src=x onerror=alert(1)>" in json.loads(answer.text_content())["predictions"][0]
    assert form.locator("img").count() == 0
    # Errors are in words: of what is no JSON, of the model itself.
    send("{", form.get_by_text("Not sent: it is no JSON"))
    assert answer.is_hidden()
    body.fill(json.dumps({"inputs": [[-1, 0, 0]]}))
    body.press("Control+Enter")
    form.get_by_text("The model has not answered").wait_for()
    assert failed.text_content().endswith("ValueError: <b>no image</b> is negative")
    assert "\nTraceback (most recent call last)" in f"\n{answer.text_content()}"
    assert form.locator("b").count() == 0
    picture = os.environ.get("SERVED_PICTURE") or tmp_path / "card.png"
    page.locator(CARD).screenshot(path=str(picture))
    with page.expect_popup() as opened:
        form.get_by_role("button", name="Open page").click()
    opened.value.get_by_role("button", name="Send").wait_for()
    assert "/submarine/proxy/" in opened.value.url
    opened.value.close()
    assert [one for one in errors if "500" not in one and "400" not in one] == []
